"""The library `alc` in Lua: texts, lists, settings, pipes. The numbers are those of algocline's conformance list."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sandbox import Finished, Host, HostError, Module, Modules, Paused
from tests.integration.lua_runs import NOW, answered, failure, run, value

LONG = "word " * 200 + "the review is BLOKED for now " + "word " * 200


def results(lua, cases, *, host=None):
    """The value of each expression, all in one sandbox."""
    with lua.create(**({"host": host} if host else {})) as sandbox:
        return {source: value(sandbox.evaluate(f"return {source}", now=NOW)) for source in cases}


def check(lua, cases, **options):
    assert results(lua, cases, **options) == cases


# ---- texts ---------------------------------------------------------------------------------------------------------------------------


def test_47_chunks_of_lines(lua):
    check(
        lua,
        {
            "alc.chunk('')": [],
            "alc.chunk('a\\nb\\nc\\nd', {size = 2})": ["a\nb", "c\nd"],
            "alc.chunk('a\\nb\\nc', {size = 2})": ["a\nb", "c"],
            "alc.chunk('a\\nb', {size = 9})": ["a\nb"],
            "alc.chunk('a\\nb\\nc\\nd\\ne', {size = 3, overlap = 1})": ["a\nb\nc", "c\nd\ne"],
            "alc.chunk('a\\nb\\nc\\nd', {size = 3, overlap = 2})": ["a\nb\nc", "b\nc\nd"],
            "alc.chunk('a\\nb\\nc', {size = 2, overlap = 2})": ["a\nb", "b\nc"],
            "alc.chunk('a\\nb\\nc', {size = 2, overlap = 9})": ["a\nb", "b\nc"],
            "alc.chunk('a\\nb', {size = 0})": [],
            "alc.chunk('a\\r\\nb\\n', {size = 1})": ["a", "b"],
            "alc.chunk('a\\n\\nb', {mode = 'anything', size = 2})": ["a\n", "b"],
            "alc.chunk(('x\\n'):rep(51))[2]": "x",
        },
    )


def test_47_chunks_of_characters(lua):
    check(
        lua,
        {
            "alc.chunk('', {mode = 'chars'})": [],
            "alc.chunk('abcd', {mode = 'chars', size = 2})": ["ab", "cd"],
            "alc.chunk('abc', {mode = 'chars', size = 2})": ["ab", "c"],
            "alc.chunk('abcde', {mode = 'chars', size = 3, overlap = 1})": ["abc", "cde"],
            "alc.chunk('あいうえお', {mode = 'chars', size = 2})": ["あい", "うえ", "お"],
            "alc.chunk('aé😀', {mode = 'chars', size = 1})": ["a", "é", "😀"],
            "alc.chunk('abc', {mode = 'chars', size = 0})": [],
            "alc.chunk('abc', {mode = 'chars', size = 2, overlap = 5})": ["ab", "bc"],
        },
    )


@given(st.text(max_size=40), st.integers(1, 6), st.integers(0, 8), st.sampled_from(["chars", "lines"]))
def test_47_chunks_cover_the_text(lua, text, size, overlap, mode):
    with lua.create() as sandbox:
        options = {"mode": mode, "size": size, "overlap": overlap}
        found = value(sandbox.run_file("return alc.chunk(__ARGS__.text, __ARGS__)", "m.lua", options | {"text": text}))
    units = list(text) if mode == "chars" else re.sub(r"\r\n", "\n", text).removesuffix("\n").split("\n") if text else []
    step = size - overlap if overlap < size else 1
    pieces = [list(piece) if mode == "chars" else piece.split("\n") for piece in found]
    assert all(1 <= len(piece) <= size for piece in pieces)
    for number, piece in enumerate(pieces):
        assert piece == units[number * step : number * step + size]
    assert not units or pieces[-1][-1] == units[-1]


def test_48_match_enum(lua):
    check(
        lua,
        {
            "alc.match_enum('PASS', {'PASS', 'BLOCKED'})": "PASS",
            "alc.match_enum('i say pass.', {'PASS', 'BLOCKED'})": "PASS",
            "alc.match_enum('not BLOCKED, no: PASS', {'PASS', 'BLOCKED'})": "PASS",
            "alc.match_enum('PASS? it is BLOCKED', {'PASS', 'BLOCKED'})": "BLOCKED",
            "alc.match_enum('yesno', {'yes', 'yesno'})": "yes",
            "alc.match_enum('nothing of that', {'PASS', 'BLOCKED'})": None,
            "alc.match_enum('BLOKED', {'PASS', 'BLOCKED'})": "BLOCKED",
            f"alc.match_enum('{LONG}', {{'PASS', 'BLOCKED'}})": "BLOCKED",
            "alc.match_enum('hello world', {'PASS', 'BLOCKED'})": None,
            "alc.match_enum('(aproved),', {'approved', 'rejected'})": "approved",
            "alc.match_enum('BLOKED', {'BLOCKED'}, {threshold = 0.999})": None,
            "alc.match_enum('', {'x'})": None,
            "alc.match_enum('x', {})": None,
        },
    )


def test_49_match_bool(lua):
    check(
        lua,
        {
            "alc.match_bool('Approved')": True,
            "alc.match_bool('rejected')": False,
            "alc.match_bool('perhaps')": None,
            "alc.match_bool('No issues found. Approved.')": True,
            "alc.match_bool('token')": None,
            "alc.match_bool('bypass')": None,
            "alc.match_bool('innovation')": None,
            "alc.match_bool('failed')": None,
            "alc.match_bool('yes,')": True,
            "alc.match_bool('yes and no')": False,
            "alc.match_bool('LGTM!')": True,
        },
    )


def test_52_numbers_in_texts(lua):
    check(
        lua,
        {
            "alc.parse_score('7.9')": 7,
            "alc.parse_score('Step 1: 8')": 1,
            "alc.parse_score('0')": 1,
            "alc.parse_score('100')": 10,
            "alc.parse_score('99999999999999999999999')": 10,
            "alc.parse_score('none')": 5,
            "alc.parse_score(nil, 3)": 3,
            "alc.parse_score(8)": 8,
            "alc.parse_number('1,234')": 1,
            "alc.parse_number('v-3')": -3,
            "alc.parse_number('it is 2.50 now')": 2.5,
            "alc.parse_number('3. Then')": 3,
            "alc.parse_number('score: 9/10', '(%d+)/10')": 9,
            "alc.parse_number('x', '(%d+)/10')": None,
            "alc.parse_number('none')": None,
            "alc.parse_number(5)": None,
        },
    )


def test_56_json_extract(lua):
    check(
        lua,
        {
            "alc.json_extract(5)": None,
            "alc.json_extract('{\"a\": 1}')": {"a": 1},
            "alc.json_extract('x\\n```json\\n{\"a\": 1}\\n```\\ny')": {"a": 1},
            "alc.json_extract('x\\n```\\n[1, 2]\\n```')": [1, 2],
            'alc.json_extract(\'so {"a": {"b": [1]}} it is\')': {"a": {"b": [1]}},
            "alc.json_extract('so [1, {\"a\": 2}] it is')": {"a": 2},
            "alc.json_extract('so [1, 2] it is')": [1, 2],
            "alc.json_extract('nothing')": None,
            "alc.json_extract('')": None,
            "alc.json_extract('42')": None,
            "alc.json_extract('\"text\"')": None,
            "alc.json_extract('f(x) { return x[i]; } gives {\"ok\": true}')": {"ok": True},
            "alc.json_extract('list[0] and [not json] and [3]')": [0],
            'alc.json_extract(\'{"a": "}"} tail\')': {"a": "}"},
            "alc.json_extract('{{\"a\": 1}}')": {"a": 1},
            "alc.json_extract('```json\\nbroken\\n``` but {\"a\": 1}')": {"a": 1},
        },
    )


def test_60_fingerprints(lua):
    check(
        lua,
        {
            "alc.fingerprint('hello')": "0f923099",
            "alc.fingerprint('')": "00001505",
            "alc.fingerprint('  \\t ')": "00001505",
            "alc.fingerprint('  Fix the\\n  LOGIN bug ')": "70af5a24",
            "alc.fingerprint('fix the login bug')": "70af5a24",
            "alc.fingerprint(5) == alc.fingerprint('5')": True,
            "alc.fingerprint('a') == alc.fingerprint('b')": False,
        },
    )


# ---- lists --------------------------------------------------------------------------------------------------------------------------------


def test_54_map_reduce_filter(lua):
    check(
        lua,
        {
            "alc.map({}, print)": [],
            "alc.map({1, 2}, function(x) return x * 2 end)": [2, 4],
            "alc.map({'a', 'b'}, function(x, i) return x .. i end)": ["a1", "b2"],
            "alc.map({7}, function(x) return {x} end)": [[7]],
            "alc.reduce({1, 2, 3}, function(a, x) return a + x end, 10)": 16,
            "alc.reduce({1, 2, 3}, function(a, x, i) return a .. x .. i end)": "12233",
            "alc.reduce({5}, error)": 5,
            "alc.reduce({}, error)": None,
            "alc.reduce({'a', 'b'}, function(a, x) return a .. x end, '')": "ab",
            "alc.reduce({1}, function(a, x) return not a and x == 1 end, false)": True,
            "alc.filter({}, print)": [],
            "alc.filter({1, 2, 3, 4}, function(x) return x % 2 == 0 end)": [2, 4],
            "alc.filter({1, 2}, function() return false end)": [],
            "alc.filter({1, 2}, function() return 1 end)": [1, 2],
            "alc.filter({'a', 'b', 'c'}, function(_, i) return i ~= 2 end)": ["a", "c"],
        },
    )


def test_55_vote(lua):
    check(
        lua,
        {
            "alc.vote({'a', 'b', 'b'})": {"winner": "b", "count": 2, "total": 3},
            "alc.vote({'a'})": {"winner": "a", "count": 1, "total": 1},
            "alc.vote({'b', 'a', 'a', 'b'})": {"winner": "b", "count": 2, "total": 4},
            "alc.vote({' x ', 'x\\n', 'y'})": {"winner": "x", "count": 2, "total": 3},
            "alc.vote({'c', 'b', 'a'})": {"winner": "c", "count": 1, "total": 3},
            "alc.vote({1, '1', true})": {"winner": "1", "count": 2, "total": 3},
            "alc.vote({})": {"count": 0, "total": 0},
        },
    )


# ---- settings -----------------------------------------------------------------------------------------------------------------------------


def test_61_tuning(lua):
    check(
        lua,
        {
            "alc.tuning({a = 1, b = {c = 2}}, {})": {"a": 1, "b": {"c": 2}},
            "alc.tuning({a = 1}, {a = 2, z = 3})": {"a": 2},
            "alc.tuning({a = {b = {c = 1, d = 2}}}, {a = {b = {c = 9}}})": {"a": {"b": {"c": 9, "d": 2}}},
            "alc.tuning({a = {1, 2, 3}}, {a = {9}})": {"a": [9]},
            "alc.tuning({_schema = {x = 1}, a = 1}, {_schema = 2})": {"a": 1},
            "alc.tuning({a = 1, b = 2}, {p = {a = 5}, b = 9}, {prefix = 'p'})": {"a": 5, "b": 2},
            "alc.tuning({a = 1}, {a = 5}, {prefix = 'p'})": {"a": 5},
            "alc.tuning({a = 1}, nil)": {"a": 1},
            "alc.tuning({a = 1}, alc.null)": {"a": 1},
            "alc.tuning({a = 1}, {a = alc.null})": {"a": 1},
            "alc.tuning('text', {})": "text",
            "alc.tuning({a = true}, {a = false})": {"a": False},
            "alc.tuning({a = 1}, {a = 'now text'})": {"a": "now text"},
            "alc.tuning({a = {b = 1}}, {a = 5})": {"a": 5},
            "alc.tuning({a = {}}, {a = {x = 1}})": {"a": {"x": 1}},
            "(function() local d = {a = {1}} alc.tuning(d, {}).a[1] = 2 return d end)()": {"a": [1]},
        },
    )
    outcome = run(lua, "return alc.tuning({a = 1}, {p = 5, a = 9}, {prefix = 'p'})")
    assert value(outcome) == {"a": 1}
    (event,) = outcome.events
    assert (event.type, event.payload["level"]) == ("log", "warn")


# ---- pipes --------------------------------------------------------------------------------------------------------------------------------

PACKAGES = Modules(
    {
        "upper": Module("script", "return {run = function(ctx) ctx.result = ctx.task:upper() return ctx end}"),
        "twice": Module("script", "return {run = function(ctx) return {task = ctx.task, result = {ctx.task, ctx.task}} end}"),
        "fails": Module("script", "return {run = function() error('deliberate', 0) end}"),
        "nothing": Module("script", "return {run = function() end}"),
        "runless": Module("script", "return {meta = {}}"),
        "number": Module("script", "return 5"),
        "word": Module("script", "return 'x'"),
        "asks": Module("script", "return {run = function(ctx) return {result = alc.llm(ctx.task)} end}"),
        "cases": Module("script", "return {name = 'named', cases = {{input = 'a', expected = 'A'}}}"),
        "say": Module("script", "return {run = function(ctx) return {result = ctx.fixed or ctx.task} end}"),
    }
)
HOST = Host({}, PACKAGES)


def test_62_a_pipe_hands_on_what_was_made(lua):
    found = results(
        lua,
        [
            "alc.pipe({'upper', 'twice'}, {task = 'a', kept = 1})",
            "alc.pipe({'twice', 'upper'}, {task = 'a'}).result",
            "alc.pipe({function(c) return {result = c.task .. '!'} end}, {task = 'a'})",
            "(function() local c = {task = 'a'} alc.pipe({'upper'}, c) return c end)()",
        ],
        host=HOST,
    )
    first, second, third, fourth = found.values()
    assert first["result"] == ["A", "A"]
    assert first["pipe_history"] == [{"strategy": "upper", "result": "A"}, {"strategy": "twice", "result": ["A", "A"]}]
    assert second == '["A","A"]'
    assert third["pipe_history"] == [{"strategy": "(inline-1)", "result": "a!"}]
    assert fourth == {"task": "a"}


def test_62_stages_are_told_of(lua):
    source = "local seen = {} alc.pipe({'upper', 'say'}, {task = 'a'}, {on_stage = function(i, n, c) seen[i] = n .. c.task end}) return seen"
    assert value(run(lua, source, host=HOST)) == ["uppera", "sayA"]


@pytest.mark.parametrize("options", ["", ", {on_error = 'abort'}"])
def test_62_an_error_ends_a_pipe(lua, options):
    assert (
        failure(run(lua, f"return alc.pipe({{'upper', 'fails', 'say'}}, {{task = 'a'}}{options})", host=HOST)).message
        == "deliberate"
    )


@pytest.mark.parametrize("mode", ["skip", "continue"])
def test_62_a_pipe_goes_on(lua, mode):
    outcome = run(lua, f"return alc.pipe({{'fails', 'upper', 'nothing'}}, {{task = 'a'}}, {{on_error = '{mode}'}})", host=HOST)
    made = value(outcome)
    assert made["result"] == "A"
    failed, worked, returned = made["pipe_history"]
    assert (failed, worked) == ({"strategy": "fails", "error": "deliberate"}, {"strategy": "upper", "result": "A"})
    assert "must return a table, got nil" in returned["error"]
    assert [event.payload["level"] for event in outcome.events] == ["warn", "warn"]
    made = value(run(lua, f"return alc.pipe({{'fails', 'fails'}}, {{task = 'a'}}, {{on_error = '{mode}'}})", host=HOST))
    assert (made["task"], len(made["pipe_history"])) == ("a", 2)
    for broken in ("missing", "runless"):
        assert isinstance(
            failure(run(lua, f"return alc.pipe({{'{broken}'}}, {{}}, {{on_error = '{mode}'}})", host=HOST)).message, str
        )


def test_a_pipe_waits(lua):
    outcome, events, _ = answered(
        lua, "return alc.pipe({'asks', 'asks'}, {task = 'q'}, {on_error = 'skip'}).result", thawed=True, host=HOST
    )
    assert value(outcome) == "a2"
    assert [event.payload["payload"]["prompt"] for event in events] == ["q", "a1"]


# ---- records ------------------------------------------------------------------------------------------------------------------------------


def test_43_logs_and_progress_are_records_of_the_step(lua):
    source = """
    alc.log('warn', 'first') alc.log('own', {} ~= nil) alc.log('info', '\\xff')
    alc.progress(1, 3) alc.progress(2.0, 3, 'half')
    """
    events = run(lua, source).events
    assert [(event.type, event.payload) for event in events] == [
        ("log", {"level": "warn", "message": "first"}),
        ("log", {"level": "own", "message": "true"}),
        ("log", {"level": "info", "message": "\ufffd"}),
        ("progress", {"step": 1, "total": 3, "message": None}),
        ("progress", {"step": 2, "total": 3, "message": "half"}),
    ]


def test_44_figures(lua):
    with lua.create() as sandbox:
        outcome = sandbox.evaluate(
            "local t = {1} alc.stats.record('a', t) t[1] = 2 alc.stats.record('b', 1) alc.stats.record('b', {x = {}})"
            "return {alc.stats.get('a'), alc.stats.get('b'), alc.stats.get('c') == nil}"
        )
        assert value(outcome) == [[1], {"x": {}}, True]
        assert [(event.type, event.payload) for event in outcome.events] == [
            ("stat", {"key": "a", "value": [1]}),
            ("stat", {"key": "b", "value": 1}),
            ("stat", {"key": "b", "value": {"x": {}}}),
        ]
        assert value(sandbox.evaluate("return alc.stats.get('b') == nil")) is True
        sandbox.evaluate("alc.stats.record('k', 5) alc.llm('q') return alc.stats.get('k')")
        assert value(sandbox.resume({1: "x"})) == 5


def test_the_clock(lua):
    assert value(run(lua, "return alc.time()")) == NOW / 1000
    assert value(run(lua, "return math.type(alc.time())")) == "float"


# ---- what the host has ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "shown", "enough"),
    [
        (None, None, True),
        ({"llm_calls": 4, "elapsed_ms": None, "tokens": None}, {"llm_calls": 4}, True),
        ({"llm_calls": None, "elapsed_ms": 0, "tokens": 5}, {"elapsed_ms": 0, "tokens": 5}, False),
        ({"llm_calls": 1, "elapsed_ms": None, "tokens": 0}, {"llm_calls": 1, "tokens": 0}, False),
    ],
)
def test_37_what_is_left_of_the_budget(lua, left, shown, enough):
    host = Host({"holdfast.budget": lambda: left})
    found = value(run(lua, "return {left = alc.budget_remaining(), check = alc.budget_check()}", host=host))
    assert found == ({"left": shown} if shown else {}) | {"check": enough}


STATE = """
local function make(prefix)
  local kept, state = {}, {}
  function state.get(k, d) if kept[k] == nil then return d end return kept[k] end
  function state.set(k, v) kept[k] = v end
  function state.update(k, f, d) kept[k] = f(state.get(k, d)) return kept[k] end
  function state.keys() return {prefix} end
  return state
end
local state, spaces = make('own'), {}
function state.namespace(name) spaces[name] = spaces[name] or make(name) return spaces[name] end
return state
"""


def test_57_state_is_the_module_in_the_namespace_of_the_context(lua):
    host = Host({}, Modules({"state": Module("script", STATE)}))
    with lua.create(host=host) as sandbox:
        source = """
        local add = function(n) return n + 1 end
        local first = alc.state.update('n', add, 1)
        alc.state.set('t', {1})
        return {first, alc.state.update('n', add), alc.state.get('none', 'd'), alc.state.update('x', type),
                alc.state.update('t', function(t) t[2] = 2 return t end), alc.state.keys()[1]}
        """
        assert value(sandbox.evaluate(source)) == [2, 3, "d", "nil", [1, 2], "own"]
        for namespace, found in (("'apart'", "apart"), ("''", "own"), ("'default'", "own"), ("5", "own"), ("nil", "own")):
            assert value(sandbox.evaluate(f"ctx = {{_ns = {namespace}}} return alc.state.keys()[1]")) == found
        sandbox.evaluate("ctx = 5")
        assert value(sandbox.evaluate("return alc.state.keys()[1]")) == "own"
    assert "state" in failure(run(lua, "alc.state.get('k')")).message


def test_50_cards_are_functions_of_the_host(lua):
    def create(card):
        if "pkg" not in card:
            raise HostError("pkg.name is required", code="CARD_INVALID")
        return {"card_id": "c1"}

    host = Host({"card.create": create, "card.get": lambda key: {"id": key} if key == "c1" else None})
    source = "return {alc.card.create({pkg = {name = 'p'}}).card_id, alc.card.get('c1').id, alc.card.get('c2') == nil, select(2, pcall(alc.card.create, {})).code}"
    assert value(run(lua, source, host=host)) == ["c1", "c1", True, "CARD_INVALID"]


# ---- wrong arguments ------------------------------------------------------------------------------------------------------------------

WRONG = {
    "alc.chunk(5)": "alc.chunk: text must be a string, got number",
    "alc.chunk('x', {size = -1})": "alc.chunk: size must be a whole number, not negative",
    "alc.chunk('x', {overlap = 0.5})": "alc.chunk: overlap must be a whole number, not negative",
    "alc.match_enum(nil, {})": "alc.match_enum: text must be a string, got nil",
    "alc.match_enum('x', {5})": "alc.match_enum: candidate 1 must be a string, got number",
    "alc.match_bool()": "alc.match_bool: text must be a string, got nil",
    "alc.map(5, print)": "alc.map: items must be an array, got number",
    "alc.map({}, 5)": "alc.map: fn must be a function, got number",
    "alc.reduce({}, {})": "alc.reduce: fn must be a function, got table",
    "alc.filter(nil, print)": "alc.filter: items must be an array, got nil",
    "alc.vote('x')": "alc.vote: answers must be an array, got string",
    "alc.log(5, 'x')": "alc.log: level must be a string, got number",
    "alc.progress('x', 1)": "alc.progress: step must be a whole number, not negative",
    "alc.progress(1, -1)": "alc.progress: total must be a whole number, not negative",
    "alc.stats.record(5, 1)": "alc.stats.record: key must be a string, got number",
    "alc.stats.record('k', print)": "unsupported value type",
    "alc.pipe(5)": "alc.pipe: strategies must be an array",
    "alc.pipe({5})": "alc.pipe: strategy 1 must be a name or a function, got number",
    "alc.pipe({}, {}, {on_error = 'x'})": "alc.pipe: on_error must be 'abort', 'skip' or 'continue'",
    "alc.cache('x', 5)": "alc.cache: options must be a table",
    "alc.cache('x', {f = print})": "unsupported value type",
    "alc.exit(print)": "alc.exit: alc.json_encode: unsupported value type (a function)",
}


@pytest.mark.parametrize("source", WRONG)
def test_wrong_arguments_are_refused_where_they_are_given(lua, source):
    outcome = run(lua, f"local x = 1\nlocal y = {source}\nreturn y")
    message = failure(outcome).message
    assert message.startswith("<repl>:2: ")
    assert WRONG[source] in message
    assert not any(event.type == "query" for event in outcome.events)
    inside = value(
        run(lua, f"local ok, e = pcall(function() return coroutine.wrap(function() {source} end)() end) return tostring(e)")
    )
    assert WRONG[source] in inside
    assert "-1" not in inside.split("alc.")[0]


# ---- scripts that change the language -----------------------------------------------------------------------------------------------------

KEPT = """
local alc, pcall = alc, pcall
local kept = {}
for name, f in pairs(alc) do kept[name] = f end
for k in pairs(string) do string[k] = nil end
for k in pairs(table) do table[k] = nil end
for k in pairs(math) do math[k] = nil end
for k in pairs(utf8) do utf8[k] = nil end
getmetatable('').__index = nil
type, next, pairs, ipairs, tostring, tonumber, select, rawlen, error, require, setmetatable = nil
for name in kept.next or next or function() end, alc do alc[name] = nil end
pcall = kept.pcall or pcall
return {
  kept.fingerprint('hello'), kept.chunk('a\\nb', {size = 1}), kept.match_enum('BLOKED', {'BLOCKED'}), kept.match_bool('yes'),
  kept.parse_number('x 2.5'), kept.json_extract('a {"b": [1]}'), kept.vote({'a', 'a'}).winner, kept.tuning({a = {b = 1}}, {a = {}}),
  kept.llm('q', {schema = {type = 'object', properties = {n = {pattern = '^(a|b)+$'}}}}),
  kept.parallel({1, 2}, function(n) return 'p' .. n end),
  kept.cache('c'), kept.cache('c'), kept.pipe({function(c) return {result = 1} end}, {}).result,
  kept.eval({cases = {{input = 'x', expected = 'x'}}}, 'say').aggregated.passed,
}
"""


def test_a_script_that_removes_the_language_still_has_the_library(lua):
    with lua.create(host=HOST) as sandbox:
        outcome = sandbox.evaluate(KEPT)
        assert isinstance(outcome, Paused), outcome
        outcome = sandbox.resume({1: '{"n": "abc"}'})
        outcome = sandbox.resume({2: '{"n": "ab"}'})
        outcome = sandbox.resume({3: "x", 4: "y"})
        found = value(sandbox.resume({5: "cached"}))
    expected = ["0f923099", ["a", "b"], "BLOCKED", True, 2.5, {"b": [1]}, "a", {"a": {"b": 1}}, {"n": "ab"}, ["x", "y"]]
    assert found == [*expected, "cached", "cached", 1, 1]


@pytest.mark.parametrize(
    "mode", ["collectgarbage('generational')", "collectgarbage('incremental', 1, 1, 1)", "collectgarbage()"]
)
def test_the_library_outlives_every_collection(lua, mode):
    """Its code is out of the collector's sight, and must not lead to anything that the collector frees."""
    source = f"""
    local seen = {{}}
    for round = 1, 20 do
      {mode}
      local garbage = {{}}
      for i = 1, 500 do garbage[i] = {{i, tostring(i)}} end
      alc.stats.record('k' .. round, garbage[1])
      seen[round] = alc.json_encode(alc.tuning({{a = {{b = round}}}}, {{}})) .. alc.match_enum('BLOKED', {{'BLOCKED'}}) .. alc.cache('p' .. round)
      pcall(alc.llm, 'q', {{schema = {{pattern = '^(a|b)' .. round}}, retries = 0}})
    end
    return seen
    """
    outcome, _, _ = answered(lua, source, lambda query: str(query.id), thawed=True)
    assert value(outcome) == [f'{{"a":{{"b":{number}}}}}BLOCKED{2 * number - 1}' for number in range(1, 21)]


def test_both_names_are_one_library(lua):
    assert value(run(lua, "return hf == alc and require('alc') == alc")) is True


def test_the_library_takes_little_of_an_image(lua):
    with lua.create() as sandbox:
        assert isinstance(sandbox.evaluate("collectgarbage() return 1"), Finished)
        assert value(sandbox.evaluate("return collectgarbage('count') < 100")) is True
        assert len(sandbox.freeze().pages) < 60
