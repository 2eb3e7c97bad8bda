"""The library in JavaScript asks models: with options, many at once, again if an answer does not fit, or not at all."""

import json

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Breached, Failure, Host, Paused
from tests.integration.javascript_runs import Talk, error, value
from tests.schemas import ANSWERS, CASES, INVALID

PERSON = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


@pytest.fixture
def sandbox(javascript):
    with javascript.create() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def shared(javascript):
    with javascript.create() as sandbox:
        yield sandbox


# ---- options -----------------------------------------------------------------------------------------------------------------------


def test_all_options_reach_whoever_answers_by_one_name(sandbox):
    source = (
        "await hf.llm('p', {maxTokens: 5, timeoutMs: 9, model: 'm', role: 'r', stop: ['x'], temperature: 0, other: {deep: 1}})"
    )
    (payload,) = Talk(sandbox, source, "a").rounds[0]
    assert payload == {
        "prompt": "p", "max_tokens": 5, "timeout_ms": 9, "model": "m", "role": "r", "stop": ["x"], "temperature": 0, "other": {"deep": 1},
    }  # fmt: skip
    talk = Talk(sandbox, "await hf.llmBatch([{prompt: 'p', maxTokens: 5}, {messages: [{role: 'user', content: 'q'}]}])", 1, 2)
    assert talk.rounds == [[{"prompt": "p", "max_tokens": 5}, {"messages": [{"role": "user", "content": "q"}]}]]


def test_ground_and_specify_set_their_flag(sandbox):
    talk = Talk(sandbox, "[await hf.ground('c', {grounded: false, system: 's'}), await hf.specify('p')]", 1, 2)
    assert talk.rounds == [[{"prompt": "c", "system": "s", "grounded": True}], [{"prompt": "p", "underspecified": True}]]
    assert talk.value == [1, 2]


# ---- many at once ------------------------------------------------------------------------------------------------------------------


def test_a_batch_is_one_round_and_keeps_its_order(sandbox):
    talk = Talk(sandbox, "await hf.llmBatch(['a', {prompt: 'b', system: 's'}, 'c'])", 1, 2, 3)
    assert talk.rounds == [[{"prompt": "a"}, {"prompt": "b", "system": "s"}, {"prompt": "c"}]]
    assert talk.value == [1, 2, 3]


def test_an_error_in_a_batch_is_raised_and_no_other_is_left_unhandled(sandbox):
    outcome = sandbox.evaluate("try { await hf.llmBatch(['a', 'b', 'c']) } catch (e) { e.message }")
    first, second, third = (query.id for query in outcome.queries)
    outcome = sandbox.resume({second: Failure("no b"), third: Failure("no c")})
    assert isinstance(outcome, Paused)
    assert outcome.events == ()
    assert value(sandbox.resume({first: 1})) == "no b"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("hf.llmBatch([])", "hf.llmBatch: empty items array"),
        ("hf.llmBatch('x')", "hf.llmBatch: items must be an array"),
        ("hf.llmBatch(['a', {system: 's'}])", "hf.llmBatch: item 1 needs a prompt"),
        ("hf.llmBatch([5])", "hf.llmBatch: item 0 needs a prompt"),
        ("hf.parallel([], x => x)", "hf.parallel: items must be a non-empty array"),
        ("hf.parallel({}, x => x)", "hf.parallel: items must be a non-empty array"),
        ("hf.parallel([1], 'x')", "hf.parallel: promptFn must be a function"),
        ("hf.parallel([1], x => 'p', {postFn: 5})", "hf.parallel: postFn must be a function"),
        ("hf.parallel([1], x => 5)", "hf.parallel: promptFn must return string or object, got number at index 0"),
        (
            "hf.parallel([1, 2], x => x > 1 ? null : 'p')",
            "hf.parallel: promptFn must return string or object, got null at index 1",
        ),
        ("hf.parallel([1], x => ({system: 's'}))", "hf.parallel: promptFn returned object without .prompt at index 0"),
        ("hf.llm('p', {schema: {}, retries: -1})", "hf.llm: retries must be a whole number"),
    ],
)
def test_51_wrong_arguments_ask_nobody(sandbox, source, message):
    outcome = sandbox.evaluate(f"await {source}")
    assert message in error(outcome).message
    assert [event for event in outcome.events if event.type == "query"] == []


def test_51_parallel_asks_everything_in_one_round(sandbox):
    source = """await hf.parallel(['a', 'b'], async (x, i) => i ? {prompt: x, system: 'own'} : x + '?',
        {system: 's', maxTokens: 7, postFn: async (answer, x, i) => [answer, x, i]})"""
    talk = Talk(sandbox, source, "A", "B")
    assert talk.rounds == [[{"prompt": "a?", "system": "s", "max_tokens": 7}, {"prompt": "b", "system": "own"}]]
    assert talk.value == [["A", "a", 0], ["B", "b", 1]]
    assert Talk(sandbox, "await hf.parallel([1], x => 'p' + x)", "only").value == ["only"]


# ---- schemas -----------------------------------------------------------------------------------------------------------------------


ENDLESS = ("^(a*)*$",)
"""Patterns on which the regular expressions of the language take longer than any limit; see below."""


@pytest.mark.parametrize(
    "number", [number for number, (schema, _, _) in enumerate(CASES) if schema.get("pattern") not in ENDLESS]
)
def test_whether_a_value_fits_a_schema(shared, number):
    schema, given, ok = CASES[number]
    shared.evaluate(f"globalThis.schema = JSON.parse({json.dumps(json.dumps(schema))})")
    talk = Talk(shared, "try { await llm('p', {schema, retries: 0}); true } catch (e) { e.code }", json.dumps(given))
    assert talk.value == (True if ok else "SCHEMA_MISMATCH")


@pytest.mark.parametrize("number", range(len(INVALID)))
def test_whether_a_schema_makes_sense(shared, number):
    shared.evaluate(f"globalThis.schema = JSON.parse({json.dumps(json.dumps(INVALID[number]))})")
    assert error(shared.evaluate("await llm('p', {schema})")).code == "SCHEMA_INVALID"


@pytest.mark.parametrize(
    ("schema", "given", "message"),
    [
        ({"properties": {"steps": {"items": {"properties": {"title": {"type": "string"}}}}}}, {"steps": [{"title": 5}]}, "$.steps[0].title: expected string, got number"),
        ({"properties": {"a b": {"type": ["string", "null"]}}}, {"a b": 1}, '$["a b"]: expected string or null, got number'),
        ({"type": "integer"}, 1.5, "$: expected integer, got number"),
        (PERSON, {}, "$.name: is required"),
        ({"enum": ["a", "b"]}, 5, '$: expected one of ["a","b"]'),
        ({"const": {"a": 1}}, {"a": 2}, '$: expected {"a":1}'),
        ({"additionalProperties": False}, {"x": 1}, "$.x: is not known"),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 4, "$: fits none of the 2 schemas of anyOf ($: expected string, got number)"),
        ({"oneOf": [{}, {}]}, 4, "$: must fit exactly one of the 2 schemas of oneOf, and fits 2"),
        ({"items": {"minimum": 2}}, [3, 1], "$[1]: must be at least 2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_its_path(sandbox, schema, given, message):
    talk = Talk(sandbox, f"await llm('p', {{schema: {json.dumps(schema)}, retries: 0}})", given)
    assert talk.error.code == "SCHEMA_MISMATCH"
    assert talk.error.message == f"hf.llm: the answer does not fit the schema: {message}"


@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ("5", "$: must be an object"),
        ("true", "$: must be an object"),
        ("[]", "$: must be an object"),
        ("{type: 'text'}", "$.type: must be one of"),
        ("{type: []}", "$.type"),
        ("{properties: []}", "$.properties: must be an object of schemas"),
        ("{properties: {a: 5}}", "$.properties.a: a schema is an object, true or false"),
        ("{items: [{}]}", "$.items: a schema is an object"),
        ("{required: 'a'}", "$.required: must be a list of names"),
        ("{enum: 5}", "$.enum"),
        ("{allOf: []}", "$.allOf: must be a list of schemas"),
        ("{minLength: -1}", "$.minLength: must be a whole number"),
        ("{minimum: '5'}", "$.minimum: must be a number"),
        ("{multipleOf: 0}", "$.multipleOf: must be a number above 0"),
        ("{pattern: '('}", "$.pattern: must be a regular expression"),
        ("{patternProperties: {'[': {}}}", "$.patternProperties"),
        ("{dependentRequired: {a: 'b'}}", "$.dependentRequired"),
        ("{$ref: '#/$defs/gone'}", "$.$ref: leads to no schema"),
        ("{$ref: 'https://example.com/s'}", "$.$ref: only # and JSON pointers"),
        ("{$ref: '#/%'}", "$.$ref"),
        ("{$ref: '#/allOf/length', allOf: [{}]}", "$.$ref: leads to no schema"),
        ("{$ref: '#'}", "is defined by itself"),
        ("{$defs: {a: {$ref: '#/$defs/b'}, b: {anyOf: [{$ref: '#/$defs/a'}]}}, $ref: '#/$defs/a'}", "is defined by itself"),
        ("{not: {if: {$ref: '#/not'}}}", "is defined by itself"),
        ("(() => { const s = {}; s.properties = {s}; return s })()", "contains itself"),
        ("{get type() { throw new Error('mine') }}", "mine"),
        ("{type: () => 'string'}", "no JSON form"),
    ],
)  # fmt: skip
def test_a_schema_that_makes_no_sense_asks_nobody(sandbox, schema, part):
    for call in (
        "hf.llm('p', {schema})",
        "llm({prompt: 'p', schema})",
        "hf.llmBatch([{prompt: 'p', schema}])",
        "hf.parallel([1], x => 'p', {schema})",
    ):
        outcome = sandbox.evaluate(f"{{ const schema = {schema}; await {call} }}")
        assert error(outcome).code == "SCHEMA_INVALID"
        assert part in error(outcome).message
        assert [event for event in outcome.events if event.type == "query"] == []


@pytest.mark.parametrize(("schema", "answer", "expected"), ANSWERS)
def test_an_answer_is_a_value_or_text_with_json_in_it(shared, schema, answer, expected):
    assert Talk(shared, f"await llm('p', {{schema: {json.dumps(schema)}}})", answer).value == expected


def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(sandbox):
    source = f"await hf.llm('Who?', {{system: 's', schema: {json.dumps(PERSON)}, retries: 3}})"
    talk = Talk(sandbox, source, "none", '{"name": 5}', {}, {"name": "x"})
    assert talk.value == {"name": "x"}
    assert all(
        payload["system"] == "s" and payload["schema"] == PERSON and "retries" not in payload for (payload,) in talk.rounds
    )
    prompts = [prompt for (prompt,) in talk.prompts]
    assert prompts[0] == "Who?"
    for prompt, answer, reason in zip(
        prompts[1:],
        ["none", '{"name": 5}', "{}"],
        ["there is no JSON in the answer", "$.name: expected string, got number", "$.name: is required"],
        strict=True,
    ):
        assert prompt.startswith("Who?")
        assert answer in prompt
        assert reason in prompt


def test_messages_are_gone_on_with(sandbox):
    source = f"await hf.llm([{{role: 'user', content: 'Who?'}}], {{schema: {json.dumps(PERSON)}}})"
    talk = Talk(sandbox, source, "none", {"name": "x"})
    first, second, third = talk.rounds[1][0]["messages"]
    assert first == {"role": "user", "content": "Who?"}
    assert second == {"role": "assistant", "content": "none"}
    assert third["role"] == "user"


@pytest.mark.parametrize(("options", "calls"), [("", 3), (", retries: 0", 1), (", retries: 1", 2)])
def test_there_is_an_end_to_asking_again(sandbox, options, calls):
    talk = Talk(sandbox, f"await hf.llm('p', {{schema: {{type: 'object'}}{options}}})", *["no"] * calls)
    assert talk.error.code == "SCHEMA_MISMATCH"


def test_a_long_answer_is_not_repeated_in_full(sandbox):
    talk = Talk(sandbox, "await hf.llm('p', {schema: {type: 'object'}, retries: 1})", "x" * 1_000_000, {})
    assert len(talk.prompts[1][0]) < 30_000


def test_what_does_not_fit_in_a_batch_is_asked_for_again_together(sandbox):
    item = "{{prompt: '{}', schema: {{type: 'integer'}}}}"
    source = f"await hf.llmBatch([{item.format('a')}, 'plain', {item.format('b')}, {item.format('c')}])"
    talk = Talk(sandbox, source, "x", "y", 1, "z", 2, "w", "3")
    assert talk.value == [2, "y", 1, 3]
    assert [len(asked) for asked in talk.rounds] == [4, 2, 1]
    assert [prompt[:1] for prompt in talk.prompts[1]] == ["a", "c"]
    talk = Talk(sandbox, f"await hf.parallel([1, 2], x => 'p' + x, {{schema: {{type: 'integer'}}, retries: 1}})", "x", 1, "y")  # noqa: F541
    assert talk.error.code == "SCHEMA_MISMATCH"
    assert "hf.parallel: item 0" in talk.error.message


def test_errors_are_not_asked_again_and_a_default_need_not_fit(sandbox):
    assert (
        Talk(sandbox, "await llm('p', {schema: {type: 'object'}})", Failure("late", "QUERY_EXPIRED")).error.code
        == "QUERY_EXPIRED"
    )
    assert Talk(sandbox, "await llm('p', {schema: {type: 'object'}, timeout_ms: 5, default: null})", None).value is None


def test_a_recursive_schema_is_followed_as_deep_as_the_value(sandbox):
    tree = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}},
        "$ref": "#/$defs/node",
    }
    sandbox.evaluate(
        f"globalThis.tree = {json.dumps(tree)}; globalThis.nest = (n, end) => {{ let v = end; for (let i = 0; i < n; i++) v = {{next: v}}; return JSON.stringify(v) }}"
    )
    good, bad, deep = (
        value(sandbox.evaluate(f"nest({n}, {end})")) for n, end in ((50, "{n: 1}"), (50, "{n: 'x'}"), (150, "{n: 1}"))
    )
    ask = "try { await llm('p', {schema: tree, retries: 0}); 'fits' } catch (e) { e.message }"
    assert Talk(sandbox, ask, good).value == "fits"
    assert Talk(sandbox, ask, bad).value.endswith(".next.n: expected integer, got string")
    assert "nested too deep" in Talk(sandbox, ask, deep).value


# ---- hostile answers and schemas -----------------------------------------------------------------------------------------------------


def test_keys_that_mean_something_to_the_language_are_keys(sandbox):
    answer = '{"__proto__": {"polluted": 1}, "constructor": 2, "toString": 3, "hasOwnProperty": 4}'
    source = """const found = await llm('p', {schema: JSON.parse(`{"type": "object", "required": ["__proto__", "toString"], "additionalProperties": false,
        "properties": {"__proto__": {"type": "object", "required": ["polluted"]}, "constructor": {}, "toString": {"const": 3}, "hasOwnProperty": true}}`), retries: 0});
        [Object.keys(found), typeof ({}).polluted, Object.getPrototypeOf(found) === Object.prototype, hf.jsonEncode(found)]"""
    names, polluted, plain, text = Talk(sandbox, source, answer).value
    assert sorted(names) == ["__proto__", "constructor", "hasOwnProperty", "toString"]
    assert (polluted, plain) == ("undefined", True)
    assert json.loads(text)["__proto__"] == {"polluted": 1}
    talk = Talk(sandbox, "await llm('p', {schema: {required: ['toString', '__proto__']}, retries: 0})", {})
    assert talk.error.code == "SCHEMA_MISMATCH"
    source = 'hf.tuning(JSON.parse(\'{"__proto__": {"a": 1}, "b": 1}\'), JSON.parse(\'{"__proto__": {"a": 2}}\'))'
    assert value(sandbox.evaluate(f"hf.jsonEncode({source}) + ({{}}).a")) == '{"__proto__":{"a":2},"b":1}undefined'


def test_getters_of_a_schema_run_once_and_what_they_gave_is_what_is_asked(sandbox):
    source = "let n = 0; await llm('p', {schema: {get minimum() { return ++n }}, retries: 0}); n"
    talk = Talk(sandbox, source, 1)
    assert talk.rounds[0][0]["schema"] == {"minimum": 1}
    assert talk.value == 1


@pytest.mark.parametrize("source", ["'^(a*)*$'", "'(x+x+)+y'"])
def test_a_pattern_without_end_is_ended_by_the_limits(javascript, source):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=300)) as sandbox:
        outcome = sandbox.evaluate(f"await llm('p', {{schema: {{pattern: {source}}}}})")
        outcome = sandbox.resume({outcome.queries[0].id: "a" * 40 + "x" * 40 + "!"})
        assert isinstance(outcome, Breached)


@pytest.mark.parametrize("text", ["{", '{"', "[", '["', "```json", "```", '{"a":', "\\", '"', "{}", "[[]"])
def test_text_without_end_is_looked_at_in_good_time(javascript, text):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=5_000, mem_mb=128)) as sandbox:
        talk = Talk(
            sandbox,
            "await hf.llmSafe('p', {schema: {type: 'object', required: ['x']}, retries: 0}, 'none')",
            text * (100_000 // len(text)),
        )
        assert talk.value == "none"


def test_deep_json_is_no_breach(sandbox):
    talk = Talk(sandbox, "await hf.llmSafe('p', {schema: {type: 'object'}, retries: 0}, 'none')", "[" * 50_000 + "]" * 50_000)
    assert talk.value == "none"


@pytest.mark.parametrize(
    "game",
    [
        "JSON.parse = JSON.stringify = Object.keys = Object.hasOwn = Array.isArray = () => { throw new Error('mine') }",
        "Object = Array = Error = TypeError = String = Number = RegExp = Map = Set = Promise = Date = Math = JSON = undefined",
        "Object.prototype.type = 'object'; Object.prototype.minimum = 100; Object.prototype.$ref = '#/gone'",
        "Promise.prototype.then = function () { throw new Error('mine') }",
    ],
)
def test_a_script_that_replaces_its_globals_keeps_the_library(sandbox, game):
    sandbox.evaluate(game)
    talk = Talk(sandbox, "await hf.llm('p', {schema: {type: 'array', items: {type: 'integer'}}})", "[1, 'x']", "[1, 2]")
    assert talk.value == [1, 2]
    assert (
        value(sandbox.evaluate("hf.jsonEncode({b: hf.time() > 0, a: hf.fingerprint('hello')})")) == '{"a":"0f923099","b":true}'
    )
    assert Talk(sandbox, "await hf.parallel([1, 2], x => 'p' + x)", "a", "b").value == ["a", "b"]


# ---- cautious asking -----------------------------------------------------------------------------------------------------------------


def test_58_llm_safe(sandbox):
    assert Talk(sandbox, "await hf.llmSafe('p', {system: 's'}, 'd')", "fine").value == "fine"
    talk = Talk(sandbox, "await hf.llmSafe('p', {system: 's'}, 'd')", Failure("broken"))
    assert talk.rounds == [[{"prompt": "p", "system": "s"}]]
    assert talk.value == "d"
    assert [(kind, record["level"]) for kind, record in talk.records] == [("log", "warn")]
    assert "broken" in talk.records[0][1]["message"]
    assert Talk(sandbox, "await hf.llmSafe('p')", Failure("broken")).value is None
    assert Talk(sandbox, "await hf.llmSafe(5, {}, 'd')").value == "d"


def test_59_llm_json(sandbox):
    assert Talk(sandbox, "await hf.llmJson('p')", '{"a": 1}').value == [{"a": 1}, '{"a": 1}']
    assert Talk(sandbox, "await hf.llmJson('p')", "```json\n[1]\n```").value == [[1], "```json\n[1]\n```"]
    assert Talk(sandbox, "await hf.llmJson('p')", {"a": 1}).value == [{"a": 1}, '{"a":1}']
    talk = Talk(sandbox, "await hf.llmJson('the request', {max_tokens: 7, system: 'mine'})", "old output", '{"a": 2}')
    assert talk.value == [{"a": 2}, '{"a": 2}']
    (first,), (second,) = talk.rounds
    assert first == {"prompt": "the request", "max_tokens": 7, "system": "mine"}
    assert (second["max_tokens"], "JSON" in second["system"]) == (7, True)
    assert "old output" in second["prompt"]
    assert "the request" in second["prompt"]
    assert len(talk.records) == 1
    talk = Talk(sandbox, "await hf.llmJson('p')", "no", "still no")
    assert talk.value == [None, "still no"]
    assert [record["level"] for _, record in talk.records] == ["warn", "warn"]


# ---- cache ---------------------------------------------------------------------------------------------------------------------------


def test_52_the_cache(javascript, sandbox):
    assert value(sandbox.evaluate("hf.cacheInfo()")) == {"entries": 0, "hits": 0, "misses": 0, "max_entries": 256}
    assert Talk(sandbox, "await hf.cache('p', {system: 's'})", "one").value == "one"
    assert Talk(sandbox, "await hf.cache('p', {system: 's'})").value == "one"
    with javascript.thaw(sandbox.freeze()) as thawed:
        assert Talk(thawed, "await hf.cache('p', {system: 's'})").value == "one"
    for other in (
        "'P', {system: 's'}",
        "'p ', {system: 's'}",
        "'p', {system: 't'}",
        "'p', {system: 's', grounded: true}",
        "'p'",
        "['p']",
    ):
        assert Talk(sandbox, f"await hf.cache({other})", "two").value == "two"
    talk = Talk(sandbox, "await hf.cache('p', {system: 's', cacheSkip: true})", "three")
    assert talk.rounds == [[{"prompt": "p", "system": "s"}]]
    talk = Talk(sandbox, "[await hf.cache('a', {cacheKey: 'k'}), await hf.cache('b', {cacheKey: 'k'})]", "same")
    assert (talk.value, talk.rounds) == (["same", "same"], [[{"prompt": "a"}]])
    assert value(sandbox.evaluate("hf.cacheInfo()")) == {"entries": 8, "hits": 2, "misses": 8, "max_entries": 256}
    sandbox.evaluate("hf.cacheClear()")
    assert value(sandbox.evaluate("hf.cacheInfo()")) == {"entries": 0, "hits": 0, "misses": 0, "max_entries": 256}
    Talk(sandbox, "await hf.cache('p', {system: 's'})", "four")
    assert value(sandbox.evaluate("hf.cacheInfo().entries")) == 1


def test_the_oldest_answer_makes_room_and_nobody_changes_what_others_get(sandbox):
    sandbox.evaluate(
        "const all = async n => { for (let i = 0; i < n; i++) await hf.cache('p', {cacheKey: i, schema: {type: 'array'}}) }"
    )
    Talk(sandbox, "await all(257)", *[[1]] * 257)
    assert value(sandbox.evaluate("hf.cacheInfo().entries")) == 256
    assert Talk(
        sandbox, "const one = await hf.cache('p', {cacheKey: 256}); one.push(2); await hf.cache('p', {cacheKey: 256})"
    ).value == [1]
    assert isinstance(sandbox.evaluate("await hf.cache('p', {cacheKey: 0})"), Paused)


# ---- budget --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "check"),
    [
        (None, True),
        ({"llm_calls": 3, "elapsed_ms": None, "tokens": None}, True),
        ({"llm_calls": 0, "elapsed_ms": None, "tokens": None}, False),
        ({"llm_calls": 3, "elapsed_ms": 0, "tokens": None}, False),
        ({"llm_calls": None, "elapsed_ms": None, "tokens": -1}, False),
    ],
)
def test_37_budget(javascript, left, check):
    with javascript.create(host=Host({"holdfast.budget": lambda: left})) as sandbox:
        assert value(sandbox.evaluate("[hf.budgetRemaining(), hf.budgetCheck()]")) == [left, check]
