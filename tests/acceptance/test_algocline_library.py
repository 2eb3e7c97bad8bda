"""The script library, end to end: lines 45 to 66 of algocline's conformance list, by number, in Lua and in JavaScript.

Each case is the same program in both languages, run as a strategy. What the guests do in detail is in tests/integration/test_lua_library*.py and
test_javascript_library*.py; here it is seen as a host sees it.
"""

from typing import Any, NamedTuple

import pytest

from holdfast import Holdfast, Response
from holdfast.control.answering import text_of
from tests.acceptance.scenes import opened, scene

both = pytest.mark.parametrize("language", ["lua", "javascript"])


class Case(NamedTuple):
    """Expressions that are the same in both languages, and what they give."""

    lua: str
    javascript: str
    expected: Any


async def check(hf: Holdfast, language: str, cases: list[Case], answer: Any = None) -> None:
    for case in cases:
        code = f"return ({case.lua})" if language == "lua" else f"({case.javascript})"
        said = await hf.strategies.run(code, language=language, answer=answer)
        assert said["status"] == "completed", (code, said.get("error"))
        assert said["result"] == case.expected, (code, said["result"])


async def raises(hf: Holdfast, language: str, calls: list[tuple[str, str, str]]) -> None:
    """Calls that raise, each with a part of the text in it; the name of the table is each language's own."""
    for lua, javascript, text in calls:
        code = f"return {lua}" if language == "lua" else f"await {javascript}"
        said = await hf.strategies.run(code, language=language)
        assert said["status"] == "error", (code, said)
        wanted = (
            text
            if language == "lua"
            else text.replace("alc.llm_batch", "hf.llmBatch").replace("alc.", "hf.").replace("prompt_fn", "promptFn")
        )
        assert wanted in said["error"], (code, said["error"])


@both
@scene
async def test_line_45_json(address: str, language: str) -> None:
    async with opened(address) as hf:
        await check(
            hf,
            language,
            [
                Case(
                    'alc.json_decode(\'{"a": [1, 2.5, true, null, "x\\\\"y"]}\')',
                    'hf.jsonDecode(\'{"a": [1, 2.5, true, null, "x\\\\"y"]}\')',
                    {"a": [1, 2.5, True, None, 'x"y']},
                ),
                Case("alc.json_encode({b = 1, a = {1, 2}})", "hf.jsonEncode({b: 1, a: [1, 2]})", '{"a":[1,2],"b":1}'),
                Case(
                    "alc.json_encode(alc.json_decode('[]')) .. alc.json_encode({})",
                    "hf.jsonEncode(hf.jsonDecode('[]')) + hf.jsonEncode({})",
                    "[]{}",
                ),
                Case("alc.json_encode({0/0, 1/0})", "hf.jsonEncode([NaN, Infinity])", "[null,null]"),
                Case("alc.json_decode('null') == nil", "hf.jsonDecode('null') === null", True),
            ],
        )
        await raises(
            hf,
            language,
            [
                ("alc.json_decode('{x}')", "hf.jsonDecode('{x}')", ""),
                (
                    "alc.json_encode({print})",
                    "hf.jsonEncode([() => 1])",
                    "unsupported value type" if language == "lua" else "has no JSON form",
                ),
            ],
        )


@both
@scene
async def test_line_46_state(address: str, language: str) -> None:
    async with opened(address) as hf:
        lua = """
            local s = alc.state
            s.set('a', {x = 2})
            return {s.get('none', 'default'), s.get('none') == nil, s.has('a'), s.set_nx('b', 1), s.set_nx('b', 2), s.get('b'),
              s.incr('n'), s.incr('n', 5), s.incr('n', 10), s.incr('m', 10, 100), s.delete('b'), s.delete('b'), s.has('b')}
        """
        javascript = """
            const s = hf.state;
            s.set('a', {x: 2});
            [s.get('none', 'default'), s.get('none') == null, s.has('a'), s.setNx('b', 1), s.setNx('b', 2), s.get('b'),
              s.incr('n'), s.incr('n', 5), s.incr('n', 10), s.incr('m', 10, 100), s.delete('b'), s.delete('b'), s.has('b')]
        """
        said = await hf.strategies.run(lua if language == "lua" else javascript, language=language)
        expected = ["default", True, True, True, False, 1, 1, 6, 16, 110, True, False, False]
        assert said.get("result") == expected, said
        keys = ("return alc.state.keys()", "hf.state.keys()")[language != "lua"]
        assert sorted((await hf.strategies.run(keys, language=language))["result"]) == ["a", "m", "n"]
        assert (await hf.strategies.run(keys, language=language, ctx={"_ns": "other"}))["result"] == []
        await raises(hf, language, [("alc.state.incr('a')", "hf.state.incr('a')", "not a number")])
        for name in ("../evil", "a/b", "a\\b", "x\0y"):
            said = await hf.strategies.run(keys, language=language, ctx={"_ns": name})
            assert (said["status"], "Invalid namespace" in said["error"]) == ("error", True)


@both
@scene
async def test_line_47_chunk(address: str, language: str) -> None:
    async with opened(address) as hf:
        await check(
            hf,
            language,
            [
                Case("alc.chunk('', {size = 2})", "hf.chunk('', {size: 2})", []),
                Case("alc.chunk('a\\nb\\nc\\nd', {size = 2})", "hf.chunk('a\\nb\\nc\\nd', {size: 2})", ["a\nb", "c\nd"]),
                Case("alc.chunk('a\\nb\\nc', {size = 2})", "hf.chunk('a\\nb\\nc', {size: 2})", ["a\nb", "c"]),
                Case("alc.chunk('a\\r\\nb\\n', {size = 9})", "hf.chunk('a\\r\\nb\\n', {size: 9})", ["a\nb"]),
                Case(
                    "alc.chunk('a\\nb\\nc\\nd\\ne', {size = 3, overlap = 1})",
                    "hf.chunk('a\\nb\\nc\\nd\\ne', {size: 3, overlap: 1})",
                    ["a\nb\nc", "c\nd\ne"],
                ),
                Case(
                    "alc.chunk('a\\nb\\nc', {size = 2, overlap = 5})",
                    "hf.chunk('a\\nb\\nc', {size: 2, overlap: 5})",
                    ["a\nb", "b\nc"],
                ),
                Case("alc.chunk('a\\nb', {size = 0})", "hf.chunk('a\\nb', {size: 0})", []),
                Case(
                    "alc.chunk('あいう', {mode = 'chars', size = 2})",
                    "hf.chunk('あいう', {mode: 'chars', size: 2})",
                    ["あい", "う"],
                ),
                Case(
                    "alc.chunk('abc', {mode = 'chars', size = 1})", "hf.chunk('abc', {mode: 'chars', size: 1})", ["a", "b", "c"]
                ),
            ],
        )


@both
@scene
async def test_lines_48_and_49_matching(address: str, language: str) -> None:
    async with opened(address) as hf:
        enum = ["APPROVED", "BLOCKED", "PENDING"]
        texts = {
            "BLOCKED": "BLOCKED",
            "it is approved": "APPROVED",
            "first approved, then blocked": "BLOCKED",
            "BLOKED": "BLOCKED",
            "after a long talk we are PENDNG on this": "PENDING",
            "something else entirely": None,
        }
        names = ", ".join(f"'{name}'" for name in enum)
        await check(
            hf,
            language,
            [
                Case(f"alc.match_enum('{text}', {{{names}}})", f"hf.matchEnum('{text}', [{names}])", found)
                for text, found in texts.items()
            ],
        )
        words = {"approved": True, "Rejected.": False, "hmm": None, "No issues found. Approved.": True, "yes,": True}
        words |= dict.fromkeys(("token", "bypass", "innovation", "failed", "passed"))
        await check(
            hf, language, [Case(f"alc.match_bool('{word}')", f"hf.matchBool('{word}')", found) for word, found in words.items()]
        )


@both
@scene
async def test_line_50_stats_and_cards(address: str, language: str) -> None:
    async with opened(address) as hf:
        lua = """
            local made = alc.card.create({pkg = {name = 'p'}, stats = {pass_rate = 0.5}})
            return {alc.card.get(made.card_id).stats.pass_rate, #alc.card.list({pkg = 'p'}), alc.card.get('none') == nil}
        """
        javascript = """
            const made = hf.card.create({pkg: {name: 'p'}, stats: {pass_rate: 0.5}});
            [hf.card.get(made.card_id).stats.pass_rate, hf.card.list({pkg: 'p'}).length, hf.card.get('none') == null]
        """
        said = await hf.strategies.run(lua if language == "lua" else javascript, language=language)
        assert said.get("result") == [0.5, 1, True], said
        await check(hf, language, [Case("alc.stats.get('none') == nil", "hf.stats.get('none') == null", True)])


@both
@scene
async def test_line_51_parallel_refuses(address: str, language: str) -> None:
    async with opened(address) as hf:
        await raises(
            hf,
            language,
            [
                ("alc.parallel({}, print)", "hf.parallel([], String)", "alc.parallel: items must be a non-empty array"),
                ("alc.parallel({1}, 2)", "hf.parallel([1], 2)", "alc.parallel: prompt_fn must be a function"),
                (
                    "alc.parallel({1}, function() return {} end)",
                    "hf.parallel([1], () => ({}))",
                    "returned table without .prompt at index" if language == "lua" else "without .prompt",
                ),
                ("alc.parallel({1}, function() return 7 end)", "hf.parallel([1], () => 7)", "prompt_fn must return string or"),
                ("alc.llm_batch({})", "hf.llmBatch([])", "alc.llm_batch: empty items array"),
            ],
        )


@both
@scene
async def test_line_52_cache_fingerprint_and_numbers(address: str, language: str) -> None:
    async with opened(address) as hf:
        empty = {"entries": 0, "hits": 0, "misses": 0, "max_entries": 256}
        await check(
            hf,
            language,
            [
                Case("alc.cache_info()", "hf.cacheInfo()", empty),
                Case("alc.fingerprint('  Fix the\\n LOGIN  bug ')", "hf.fingerprint('  Fix the\\n LOGIN  bug ')", "70af5a24"),
                Case("alc.parse_number('it is -3.5 of 9')", "hf.parseNumber('it is -3.5 of 9')", -3.5),
                Case("alc.parse_number('1,234')", "hf.parseNumber('1,234')", 1),
                Case("alc.parse_number('none') == nil", "hf.parseNumber('none') == null", True),
                Case(
                    "{alc.parse_score('7.9'), alc.parse_score('Step 1: 8'), alc.parse_score('0'), alc.parse_score('100'), alc.parse_score('x'), alc.parse_score('x', 2)}",
                    "[hf.parseScore('7.9'), hf.parseScore('Step 1: 8'), hf.parseScore('0'), hf.parseScore('100'), hf.parseScore('x'), hf.parseScore('x', 2)]",
                    [7, 1, 1, 10, 5, 2],
                ),
            ],
        )


@both
@scene
async def test_line_53_a_package_and_its_parts(address: str, language: str) -> None:
    async with opened(address) as hf:
        listed = {one["name"] for one in await hf.strategies.list(language)}
        assert {"self_consistency", "reflect", "tree_of_thoughts"} <= listed
        said = await hf.strategies.run(
            "return require('reflect').meta.name" if language == "lua" else "(await import('reflect')).meta.name",
            language=language,
        )
        assert said["result"] == "reflect"


@both
@scene
async def test_lines_54_to_56_lists_votes_and_json_in_text(address: str, language: str) -> None:
    first = 1 if language == "lua" else 0
    async with opened(address) as hf:
        await check(
            hf,
            language,
            [
                Case("alc.map({}, print)", "await hf.map([], String)", []),
                Case(
                    "alc.map({'a', 'b'}, function(x, i) return x .. i end)",
                    "await hf.map(['a', 'b'], (x, i) => x + i)",
                    [f"a{first}", f"b{first + 1}"],
                ),
                Case(
                    "alc.reduce({1, 2, 3}, function(a, x) return a + x end, 10)",
                    "await hf.reduce([1, 2, 3], (a, x) => a + x, 10)",
                    16,
                ),
                Case(
                    "alc.reduce({'a', 'b', 'c'}, function(a, x, i) return a .. x .. i end)",
                    "await hf.reduce(['a', 'b', 'c'], (a, x, i) => a + x + i)",
                    f"ab{first + 1}c{first + 2}",
                ),
                Case("alc.reduce({7}, print)", "await hf.reduce([7], String)", 7),
                Case(
                    "alc.filter({1, 2, 3, 4}, function(x) return x % 2 == 0 end)",
                    "await hf.filter([1, 2, 3, 4], (x) => x % 2 === 0)",
                    [2, 4],
                ),
                Case("alc.filter({1}, function() return false end)", "await hf.filter([1], () => false)", []),
                Case("alc.vote({'a', ' b', 'b '})", "hf.vote(['a', ' b', 'b '])", {"winner": "b", "count": 2, "total": 3}),
                Case("alc.vote({'x', 'y'}).winner", "hf.vote(['x', 'y']).winner", "x"),
                Case("alc.vote({1, 2, 2}).winner", "hf.vote([1, 2, 2]).winner", "2"),
                Case("alc.vote({}).count", "hf.vote([]).count", 0),
                Case("alc.json_extract(7) == nil", "hf.jsonExtract(7) == null", True),
                Case(
                    "alc.json_extract('```json\\n{\"a\": 1}\\n```')", "hf.jsonExtract('```json\\n{\"a\": 1}\\n```')", {"a": 1}
                ),
                Case("alc.json_extract('x ```\\n[1, 2]\\n```')", "hf.jsonExtract('x ```\\n[1, 2]\\n```')", [1, 2]),
                Case(
                    'alc.json_extract(\'so {not json} but {"b": {"c": 2}} yes\')',
                    'hf.jsonExtract(\'so {not json} but {"b": {"c": 2}} yes\')',
                    {"b": {"c": 2}},
                ),
                Case("alc.json_extract('see [here] and [1, 2]')", "hf.jsonExtract('see [here] and [1, 2]')", [1, 2]),
                Case("alc.json_extract('42') == nil", "hf.jsonExtract('42') == null", True),
                Case("alc.json_extract('') == nil", "hf.jsonExtract('') == null", True),
            ],
        )


@both
@scene
async def test_line_57_state_update(address: str, language: str) -> None:
    async with opened(address) as hf:
        await check(
            hf,
            language,
            [
                Case(
                    "alc.state.update('n', function(v) return v + 1 end, 10)",
                    "await hf.state.update('n', (v) => v + 1, 10)",
                    11,
                ),
                Case(
                    "alc.state.update('n', function(v) return v + 1 end, 10)",
                    "await hf.state.update('n', (v) => v + 1, 10)",
                    12,
                ),
                Case(
                    "alc.state.update('t', function(v) v.k = 1 return v end, {})",
                    "await hf.state.update('t', (v) => ({...v, k: 1}), {})",
                    {"k": 1},
                ),
                Case(
                    "alc.state.update('z', function(v) return v == nil end)",
                    "await hf.state.update('z', (v) => v == null)",
                    True,
                ),
            ],
        )


class Model:
    """Answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), []

    async def __call__(self, asked: Any) -> Any:
        self.asked.append({**asked.query.payload, "text": text_of(asked)})
        return self.answers.pop(0)


@both
@scene
async def test_line_58_llm_safe(address: str, language: str) -> None:
    async with opened(address) as hf:
        model = Model("fine", Response(error="no"), Response(error="no"))
        await check(
            hf,
            language,
            [
                Case("alc.llm_safe('p', {system = 's'}, 'd')", "await hf.llmSafe('p', {system: 's'}, 'd')", "fine"),
                Case("alc.llm_safe('p', nil, 'd')", "await hf.llmSafe('p', null, 'd')", "d"),
            ],
            model,
        )
        assert model.asked[0]["system"] == "s"
        said = await hf.strategies.run(
            "return alc.llm_safe('p') == nil" if language == "lua" else "(await hf.llmSafe('p')) == null",
            language=language,
            answer=model,
        )
        assert said["result"] is True
        logs = (await hf.strategies.status(said["session_id"]))["metrics"]["recent_logs"]
        assert [line["level"] for line in logs] == ["warn"]


@both
@scene
async def test_line_59_llm_json(address: str, language: str) -> None:
    async with opened(address) as hf:
        code = (
            "local v, raw = alc.llm_json('the request', {max_tokens = 7, system = 'old'}) return {v == nil and 'none' or v, raw}"
            if language == "lua"
            else "const [v, raw] = await hf.llmJson('the request', {max_tokens: 7, system: 'old'}); [v ?? 'none', raw]"
        )
        model = Model('```json\n{"a": 1}\n```')
        assert (await hf.strategies.run(code, language=language, answer=model))["result"][0] == {"a": 1}
        model = Model("prose", '{"a": 2}')
        said = await hf.strategies.run(code, language=language, answer=model)
        assert said["result"] == [{"a": 2}, '{"a": 2}']
        again = model.asked[1]
        assert (again["max_tokens"], again["system"] == "old") == (7, False)
        assert "prose" in again["text"]
        assert "the request" in again["text"]
        said = await hf.strategies.run(code, language=language, answer=Model("one", "two"))
        assert said["result"] == ["none", "two"]
        logs = (await hf.strategies.status(said["session_id"]))["metrics"]["recent_logs"]
        assert [line["level"] for line in logs] == ["warn", "warn"]


@both
@scene
async def test_lines_60_and_61_fingerprints_and_knobs(address: str, language: str) -> None:
    async with opened(address) as hf:
        await check(
            hf,
            language,
            [
                Case(
                    "{alc.fingerprint('hello'), alc.fingerprint(''), alc.fingerprint(12) == alc.fingerprint('12')}",
                    "[hf.fingerprint('hello'), hf.fingerprint(''), hf.fingerprint(12) === hf.fingerprint('12')]",
                    ["0f923099", "00001505", True],
                ),
                Case(
                    "alc.tuning({a = 1, b = true, _schema = {}}, {a = 2, c = 3, b = false})",
                    "hf.tuning({a: 1, b: true, _schema: {}}, {a: 2, c: 3, b: false})",
                    {"a": 2, "b": False},
                ),
                Case(
                    "alc.tuning({x = {y = {z = 1, w = 2}}, l = {1, 2}}, {x = {y = {z = 9}}, l = {3}})",
                    "hf.tuning({x: {y: {z: 1, w: 2}}, l: [1, 2]}, {x: {y: {z: 9}}, l: [3]})",
                    {"x": {"y": {"z": 9, "w": 2}}, "l": [3]},
                ),
                Case(
                    "alc.tuning({a = 1}, {a = 2, p = {a = 3}}, {prefix = 'p'})",
                    "hf.tuning({a: 1}, {a: 2, p: {a: 3}}, {prefix: 'p'})",
                    {"a": 3},
                ),
                Case("alc.tuning({a = 1}, {a = 2}, {prefix = 'p'})", "hf.tuning({a: 1}, {a: 2}, {prefix: 'p'})", {"a": 2}),
                Case("alc.tuning({a = 1}, {p = 7}, {prefix = 'p'})", "hf.tuning({a: 1}, {p: 7}, {prefix: 'p'})", {"a": 1}),
                Case("alc.tuning({a = 1}, nil)", "hf.tuning({a: 1}, null)", {"a": 1}),
                Case("alc.tuning(5, {a = 1})", "hf.tuning(5, {a: 1})", 5),
                Case("alc.tuning({a = {b = 1}}, {a = 'text'})", "hf.tuning({a: {b: 1}}, {a: 'text'})", {"a": "text"}),
            ],
        )


@both
@scene
async def test_line_62_pipe(address: str, language: str) -> None:
    async with opened(address) as hf:
        lua = """
            local function good(ctx) ctx.result = ctx.task .. '!' return ctx end
            local function bad() error('no luck') end
            local skipped = alc.pipe({good, bad, good}, {task = 't'}, {on_error = 'skip'})
            local ok, why = pcall(alc.pipe, {bad, good}, {task = 't'})
            local none = alc.pipe({bad, bad}, {task = 't'}, {on_error = 'continue'})
            return {skipped.result, #skipped.pipe_history, skipped.pipe_history[2].error ~= nil, ok, tostring(why):find('no luck') ~= nil, none.task, #none.pipe_history}
        """
        javascript = """
            const good = (ctx) => ({...ctx, result: ctx.task + '!'});
            const bad = () => { throw new Error('no luck'); };
            const skipped = await hf.pipe([good, bad, good], {task: 't'}, {onError: 'skip'});
            const why = await hf.pipe([bad, good], {task: 't'}).then(() => 'fine', (error) => error.message);
            const none = await hf.pipe([bad, bad], {task: 't'}, {onError: 'continue'});
            [skipped.result, skipped.pipe_history.length, skipped.pipe_history[1].error != null, why === 'fine', why.includes('no luck'), none.task, none.pipe_history.length]
        """
        said = await hf.strategies.run(lua if language == "lua" else javascript, language=language)
        assert said.get("result") == ["t!!", 3, True, False, True, "t", 2], said


EVALUATED = {
    "lua": "return alc.eval({name = 'my_test', cases = {{input = 'a', expected = 'A', tags = {'t'}}, {input = 'b', expected = '?'}}}, 'self_consistency', {strategy_opts = {n = 1}, auto_card = true})",
    "javascript": "await hf.eval({name: 'my_test', cases: [{input: 'a', expected: 'A', tags: ['t']}, {input: 'b', expected: '?'}]}, 'self_consistency', {strategyOpts: {n: 1}, autoCard: true})",
}


@both
@scene
async def test_lines_63_to_66_eval(address: str, language: str) -> None:
    async def model(asked: Any) -> str:
        return "Answer: " + text_of(asked)[0].upper()

    async with opened(address) as hf:
        said = await hf.strategies.run(EVALUATED[language], language=language, answer=model)
        assert said["status"] == "completed", said
        report = said["result"]
        assert report["name"] == "self_consistency:my_test"
        found = report["aggregated"]
        assert (found["total"], found["passed"], found["pass_rate"], len(report["failures"])) == (2, 1, 0.5, 1)
        assert (found["scores"]["n"], found["scores"]["mean"], found["scores"]["min"], found["scores"]["max"]) == (2, 0.5, 0, 1)
        assert 0 <= found["ci_95"]["lower"] <= found["ci_95"]["upper"] <= 1
        assert "t" in found["by_tag"]
        assert [(result["score"], result["passed"]) for result in report["results"]] == [(1, True), (0, False)]
        card = f"return alc.card.get('{report['card_id']}')" if language == "lua" else f"hf.card.get('{report['card_id']}')"
        card = (await hf.strategies.run(card, language=language))["result"]
        assert (card["pkg"]["name"], card["stats"]["pass_rate"]) == ("self_consistency", 0.5)
        await raises(
            hf,
            language,
            [
                ("alc.eval()", "hf.eval()", "alc.eval: scenario is required"),
                ("alc.eval(7, 'x')", "hf.eval(7, 'x')", "alc.eval: scenario must be a string or"),
                ("alc.eval({cases = {}}, 7)", "hf.eval({cases: []}, 7)", "alc.eval: strategy must be a string package name"),
                (
                    "alc.eval('no_such_scenario', 'reflect')",
                    "hf.eval('no_such_scenario', 'reflect')",
                    "could not resolve scenario 'no_such_scenario'",
                ),
                (
                    "alc.eval({cases = {{input = 'x'}}, graders = {'odd'}}, 'reflect')",
                    "hf.eval({cases: [{input: 'x'}], graders: ['odd']}, 'reflect')",
                    "unknown grader 'odd'",
                ),
                ("alc.eval({cases = {{}}}, 'reflect')", "hf.eval({cases: [{}]}, 'reflect')", "must have an 'input' field"),
            ],
        )
