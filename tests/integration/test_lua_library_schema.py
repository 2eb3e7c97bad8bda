"""`alc.llm` with a schema: what fits, what makes no sense, and how a model is asked again."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain import Limits
from holdfast.sandbox import Failed, Failure, Finished, Paused
from tests.integration.lua_runs import NOW, answered, failure, run, value
from tests.schemas import ANSWERS, CASES, INVALID

VALIDATE = """
local verdicts = alc.array()
for i, schema in ipairs(__ARGS__) do
  local ok, e = pcall(alc.llm, 'q', {schema = schema, retries = 0})
  verdicts[i] = ok and 'fits' or e.code .. ' ' .. e.message
end
return verdicts
"""


def verdicts(lua, schemas, answers):
    """What is said of each answer. A schema that is refused asks nobody."""
    with lua.create() as sandbox:
        outcome = sandbox.run_file(VALIDATE, "m.lua", schemas, now=NOW)
        for answer in answers:
            if not isinstance(outcome, Paused):
                break
            (query,) = outcome.queries
            outcome = sandbox.resume({query.id: answer}, now=NOW)
        return value(outcome)


def test_every_keyword(lua):
    said = verdicts(lua, [schema for schema, _, _ in CASES], [json.dumps(value) for _, value, _ in CASES])
    wrong = [(case, verdict) for case, verdict in zip(CASES, said, strict=True) if (verdict == "fits") != case[2]]
    assert not wrong
    assert {verdict.split(" ")[0] for verdict in said} == {"fits", "SCHEMA_MISMATCH"}


def test_schemas_that_make_no_sense_ask_nobody(lua):
    said = verdicts(lua, INVALID, [])
    assert [verdict.split(" ")[0] for verdict in said] == ["SCHEMA_INVALID"] * len(INVALID)


@pytest.mark.parametrize(("schema", "answer", "expected"), ANSWERS)
def test_what_an_answer_holds(lua, schema, answer, expected):
    with lua.create() as sandbox:
        sandbox.run_file("return alc.llm('q', {schema = __ARGS__, retries = 0})", "m.lua", schema)
        assert value(sandbox.resume({1: answer})) == expected


PATHS = [
    ({"properties": {"steps": {"items": {"properties": {"title": {"type": "string"}}}}}}, {"steps": [{"title": 5}]},
     "$.steps[0].title: expected string, got number"),
    ({"required": ["a b"]}, {}, '$["a b"]: is required'),
    ({"type": ["integer", "null"]}, 1.5, "$: expected integer or null, got number"),
    ({"additionalProperties": False}, {"x": 1}, "$.x: is not known"),
    ({"items": {"enum": ["a", "b"]}}, ["a", "c"], '$[1]: expected one of ["a","b"]'),
    ({"minimum": 3}, 2, "$: must be at least 3"),
    ({"minLength": 3}, "ab", "$: must have at least 3 characters"),
    ({"uniqueItems": True}, [1, 2, 1], "$: items 0 and 2 are equal"),
    ({"pattern": "^a"}, "b", "$: must match ^a"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "wrong", "message"), PATHS)
def test_errors_name_the_path(lua, schema, wrong, message):
    with lua.create() as sandbox:
        sandbox.run_file("return alc.llm('q', {schema = __ARGS__, retries = 0})", "m.lua", schema)
        error = failure(sandbox.resume({1: json.dumps(wrong)}))
        assert (error.code, error.message) == ("SCHEMA_MISMATCH", f"alc.llm: the answer does not fit the schema: {message}")


def test_it_is_asked_again_with_the_output_the_error_and_the_request(lua):
    source = "return alc.llm('Name a number', {schema = {type = 'integer'}, system = 's', model = 'm'})"
    answers = iter(["seven", '"8"', "9"])
    outcome, events, _ = answered(lua, source, lambda _: next(answers), thawed=True)
    assert value(outcome) == 9
    first, second, third = (event.payload["payload"] for event in events)
    assert first == {"prompt": "Name a number", "schema": {"type": "integer"}, "system": "s", "model": "m"}
    assert {key: second[key] for key in ("schema", "system", "model")} == {
        key: first[key] for key in ("schema", "system", "model")
    }
    for text in ("Name a number", "seven", "there is no JSON"):
        assert text in second["prompt"]
    assert "Name a number" in third["prompt"]
    assert "$: expected integer, got string" in third["prompt"]
    assert "seven" not in third["prompt"]


def test_a_conversation_goes_on(lua):
    source = "return alc.llm({{role = 'user', content = 'n?'}}, {schema = {type = 'integer'}})"
    answers = iter(["x", 5])
    outcome, events, _ = answered(lua, source, lambda _: next(answers))
    assert value(outcome) == 5
    messages = events[1].payload["payload"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == "x"


@pytest.mark.parametrize(("options", "asked"), [("", 3), ("retries = 0", 1), ("retries = 4", 5)])
def test_it_is_given_up_after_some_tries(lua, options, asked):
    outcome, events, _ = answered(lua, f"return alc.llm('q', {{schema = {{type = 'object'}}, {options}}})", lambda _: "none")
    assert outcome.error.code == "SCHEMA_MISMATCH"
    assert len(events) == asked
    assert all("retries" not in event.payload["payload"] for event in events)


def test_a_default_is_the_answer_whatever_the_schema_says(lua):
    source = "return alc.llm('q', {schema = {type = 'object'}, timeout_ms = 5, default = 'nothing'})"
    outcome, events, _ = answered(lua, source, lambda _: "nothing")
    assert (value(outcome), len(events)) == ("nothing", 1)


def test_an_error_answer_is_no_answer_to_be_mended(lua):
    outcome, events, _ = answered(lua, "return alc.llm('q', {schema = {type = 'object'}})", lambda _: Failure("gone", "BUSY"))
    assert (outcome.error.code, len(events)) == ("BUSY", 1)


def test_items_of_a_batch_that_do_not_fit_are_asked_again_together(lua):
    source = """
    return alc.llm_batch{
      {prompt = 'a', schema = {type = 'integer'}}, 'b', {prompt = 'c', schema = {type = 'integer'}}, {prompt = 'd', schema = {type = 'null'}},
    }"""
    with lua.create() as sandbox:
        outcome = sandbox.evaluate(source)
        assert len(outcome.queries) == 4
        outcome = sandbox.resume({1: "one", 2: "two", 3: "three", 4: "null"})
        assert [query.payload["prompt"].split("\n")[0] for query in outcome.queries] == ["a", "c"]
        outcome = sandbox.resume({5: "1", 6: "x"})
        assert [query.payload["prompt"].split("\n")[0] for query in outcome.queries] == ["c"]
        assert value(sandbox.resume({7: "3"})) == [1, "two", 3, None]


def test_a_batch_says_which_item_does_not_fit(lua):
    source = "return alc.parallel({1, 2}, function(n) return 'p' .. n end, {schema = {type = 'integer'}, retries = 0})"
    answers = {1: 1, 2: "x"}
    error = failure(answered(lua, source, lambda query: answers[query.id])[0])
    assert error.code == "SCHEMA_MISMATCH"
    assert error.message.startswith("alc.parallel: item 2: the answer does not fit the schema: ")


def test_parallel_takes_the_schema_for_all(lua):
    source = "return alc.parallel({1, 2}, function(n) return 'p' .. n end, {schema = {type = 'integer'}, post_fn = function(n) return n + 1 end})"
    outcome, _, _ = answered(lua, source, lambda query: str(query.id * 10))
    assert value(outcome) == [11, 21]


def test_a_script_s_own_schema_is_shown_as_it_is_meant(lua):
    source = "alc.llm('q', {schema = {type = 'object', required = {}, properties = {}, enum = {{}}}})"
    assert run(lua, source).queries[0].payload["schema"] == {"type": "object", "required": [], "properties": {}, "enum": [{}]}


DEEP = "local s = {} for i = 1, 5000 do s = {%s = s} end return alc.llm('q', {schema = s})"


@pytest.mark.parametrize(
    "source",
    [
        DEEP % "['not']",
        DEEP % "items",
        "local s = {} s.items = s return alc.llm('q', {schema = s})",
        "local s = {} s.allOf = {s} return alc.llm('q', {schema = s})",
        "local s = {anyOf = {}} for i = 1, 20000 do s.anyOf[i] = {type = 'null'} end return alc.llm('q', {schema = s})",
        "return alc.llm('q', {schema = {pattern = ('('):rep(1000) .. (')'):rep(1000)}})",
        "return alc.llm('q', {schema = {pattern = '((a{1000}){1000}){1000}'}})",
        "return alc.llm('q', {schema = {pattern = 'a{99999999999999999999}'}})",
        "return alc.llm('q', {schema = {pattern = '(?=(a{4000})){4000}'}})",
    ],
)
def test_schemas_without_end_are_refused(lua, source):
    assert failure(run(lua, source)).code == "SCHEMA_INVALID"


ATOMS = st.sampled_from(
    ["a", "b", "1", " ", ".", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "[ab]", "[^a]", "[a-z1]", "[\\d_]", "[^\\w]", "\\x61"]
)
# Not in the texts is the empty one, in which Python sees no \\B.
EDGES = st.sampled_from(["^", "$", "\\b", "\\B"])
REPEATED = st.tuples(ATOMS, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??", "{1,2}?"])).map("".join)
PATTERNS = st.recursive(
    ATOMS | EDGES | REPEATED,
    lambda inner: (
        st.lists(inner, max_size=4).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
        | st.tuples(st.sampled_from("=!"), inner).map(lambda pair: f"(?{pair[0]}{pair[1]})")
    ),
    max_leaves=8,
)
TEXTS = ["a", "b", "ab", "aab", "1a b_", "__", " a ", "a1b1", "é", "\n", "a\nb", "bbbb", "A_1 "]


@settings(max_examples=60)
@given(st.lists(PATTERNS, min_size=1, max_size=5))
def test_patterns_mean_what_they_mean_elsewhere(lua, patterns):
    source = """
    local found = alc.array()
    for i, pattern in ipairs(__ARGS__.patterns) do
      local row = alc.array()
      for j, text in ipairs(__ARGS__.texts) do
        row[j] = pcall(alc.llm, 'q', {schema = {pattern = pattern}, retries = 0})
      end
      found[i] = row
    end
    return found
    """
    with lua.create() as sandbox:
        outcome = sandbox.run_file(source, "m.lua", {"patterns": patterns, "texts": TEXTS})
        at = 0
        while isinstance(outcome, Paused):
            outcome = sandbox.resume({outcome.queries[0].id: json.dumps(TEXTS[at % len(TEXTS)])})
            at += 1
        found = value(outcome)
    for pattern, row in zip(patterns, found, strict=True):
        meant = re.compile(pattern.replace("$", "\\Z"), re.ASCII)
        assert row == [meant.search(text) is not None for text in TEXTS], pattern


def test_patterns_that_others_try_for_ever_are_read_once(lua):
    patterns = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)(.*)(.*)(.*)x", "^(([a-z])+.)+[A-Z]([a-z])+$", "(){4000}(x*)*y"]
    with lua.create(limits=Limits(cpu_ms=20_000, wall_ms=60_000)) as sandbox:
        sandbox.run_file(
            "local fits = 0 for _, p in ipairs(__ARGS__) do if pcall(alc.llm, 'q', {schema = {pattern = p}, retries = 0}) then fits = fits + 1 end end return fits",
            "m.lua",
            patterns,
        )
        for number in range(1, len(patterns) + 1):
            outcome = sandbox.resume({number: json.dumps("a" * 2000 + "!")})
        assert value(outcome) == 0


def test_large_values_are_checked(lua):
    many = json.dumps([{"id": number, "name": "n" * 10} for number in range(1000)])
    schema = {
        "items": {"properties": {"id": {"type": "integer"}, "name": {"pattern": "^n+$"}}, "required": ["id"]},
        "uniqueItems": True,
    }
    with lua.create() as sandbox:
        sandbox.run_file("return #alc.llm('q', {schema = __ARGS__})", "m.lua", schema)
        assert value(sandbox.resume({1: many})) == 1000


@pytest.mark.parametrize(
    "answer", ["[" * 20_000, "{" * 20_000, '{"a":' * 1000, "```" * 10_000, '"' * 10_001, "\x00" * 1000, "[1," * 10_000]
)
def test_answers_that_are_no_json_do_no_harm(lua, answer):
    with lua.create() as sandbox:
        sandbox.evaluate("return alc.llm('q', {schema = {type = 'object'}, retries = 0})")
        outcome = sandbox.resume({1: answer})
        assert isinstance(outcome, Failed)
        assert outcome.error.code == "SCHEMA_MISMATCH"
        assert isinstance(sandbox.evaluate("1"), Finished)
