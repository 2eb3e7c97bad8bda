"""`alc.eval` in Lua: scenarios, graders, and the report. The numbers are those of algocline's conformance list."""

import math

import pytest

from holdfast.sandbox import Host, Module, Modules
from tests.integration.lua_runs import NOW, answered, failure, run, value

PACKAGES = {
    "say": "return {run = function(ctx) return {result = ctx.fixed or ctx.task} end}",
    "fields": "return {run = function(ctx) return {result = {note = 1, output = ctx.task}} end}",
    "raw": "return {run = function(ctx) return {result = {ctx.task}} end}",
    "plain": "return {run = function(ctx) return ctx.task end}",
    "asks": "return {run = function(ctx) return {result = alc.llm(ctx.task)} end}",
    "fails": "return {run = function() error('deliberate', 0) end}",
    "runless": "return {}",
    "named": "return {name = 'my_test', cases = {{input = 'a', expected = 'a'}}}",
    "number": "return 5",
    "word": "return 'x'",
    "framed": """
        local ef = require('evalframe')
        return {
          ef.bind {ef.graders.exact_match, weight = 3},
          ef.bind {grader = 'contains'},
          cases = {ef.case {input = 'ab', expected = 'a'}},
        }""",
}


def host(**functions):
    return Host(functions, Modules({name: Module("script", source) for name, source in PACKAGES.items()}))


def evaluate(lua, source, **functions):
    with lua.create(host=host(**functions)) as sandbox:
        return value(sandbox.evaluate(f"return alc.eval({source})", now=NOW))


TWO = "{cases = {{input = 'a', expected = 'a'}, {input = 'b', expected = '%s'}}%s}"


def test_64_all_pass(lua):
    report = evaluate(lua, TWO % ("b", "") + ", 'say'")
    assert report["name"] == "say:inline"
    aggregated = report["aggregated"]
    assert (aggregated["total"], aggregated["passed"], aggregated["pass_rate"], aggregated["pass_at_1"]) == (2, 2, 1, 1)
    assert aggregated["scores"] == {"n": 2, "mean": 1, "std_dev": 0, "min": 1, "max": 1, "median": 1}
    assert aggregated["ci_95"] == {"lower": 1, "upper": 1}
    assert report["failures"] == []
    assert [(result["score"], result["passed"]) for result in report["results"]] == [(1, True), (1, True)]
    assert "2 of 2" in report["summary"]
    assert "card_id" not in report


def test_64_some_fail(lua):
    report = evaluate(lua, TWO % ("x", ", graders = {'contains'}") + ", 'say'")
    assert (report["aggregated"]["pass_rate"], len(report["failures"])) == (0.5, 1)
    assert report["failures"][0]["input"] == "b"
    scores = report["aggregated"]["scores"]
    assert (scores["mean"], scores["min"], scores["max"], scores["median"]) == (0.5, 0, 1, 0.5)
    assert math.isclose(scores["std_dev"], math.sqrt(0.5))
    assert report["aggregated"]["ci_95"] == {"lower": 0, "upper": 1}


def test_64_several_graders_have_a_mean(lua):
    report = evaluate(lua, TWO % ("b", ", name = 'my_test', graders = {'exact_match', 'not_empty'}") + ", 'say'")
    assert (report["name"], report["aggregated"]["scores"]["mean"]) == ("say:my_test", 1)
    report = evaluate(
        lua,
        "{bind = {{grader = 'exact_match', weight = 3}, {grader = 'contains'}}, cases = {{input = 'ab', expected = 'a'}}}, 'say'",
    )
    assert (report["results"][0]["score"], report["results"][0]["passed"]) == (0.25, False)
    framed = evaluate(lua, "'framed', 'say'")
    assert (framed["name"], framed["results"][0]["score"]) == ("say:framed", 0.25)
    report = evaluate(lua, "{graders = {function(answer) return #answer.text / 4 end}, cases = {{input = 'ab'}}}, 'say'")
    assert report["results"][0]["score"] == 0.5


def test_64_tags_and_pass_at_k(lua):
    cases = ", ".join(
        f"{{input = '{number}', expected = '{min(number, 8)}', tags = {{'{'even' if number % 2 == 0 else 'odd'}'}}}}"
        for number in range(10)
    )
    aggregated = evaluate(lua, f"{{cases = {{{cases}}}}}, 'say'")["aggregated"]
    assert aggregated["passed"] == 9
    assert {tag: (own["total"], own["passed"]) for tag, own in aggregated["by_tag"].items()} == {"even": (5, 5), "odd": (5, 4)}
    assert (aggregated["pass_at_5"], aggregated["pass_at_10"]) == (1, 1)
    assert "pass_at_10" not in evaluate(lua, TWO % ("b", "") + ", 'say'")["aggregated"]


GRADED = [
    ("exact_match", "' a\\n'", "'a'", True),
    ("exact_match", "'a'", "{'b', 'a'}", True),
    ("exact_match", "'a'", "nil", False),
    ("exact_match", "'5'", "5", True),
    ("contains", "'the answer'", "'swer'", True),
    ("contains", "'a.b'", "'a%b'", False),
    ("starts_with", "'Yes, sir'", "'Yes'", True),
    ("starts_with", "'No'", "'Yes'", False),
    ("regex", "'n = 42'", "'%d+'", True),
    ("regex", "'x'", "'['", False),
    ("json_valid", "'[1]'", "nil", True),
    ("json_valid", "'x [1]'", "nil", False),
    ("valid_json_response", "'x [1]'", "nil", True),
    ("valid_json_response", "'x'", "nil", False),
    ("not_empty", "' '", "nil", False),
    ("not_empty", "'x'", "nil", True),
    ("length", "'abc'", "{min = 2, max = 3}", True),
    ("length", "'äöü'", "{max = 3}", True),
    ("length", "'abcd'", "{max = 3}", False),
    ("latency", "'x'", "{max_ms = 60000}", True),
    ("latency", "'x'", "{max_ms = -1}", False),
    ("flexible_match", "'It is PARIS!'", "'paris'", True),
    ("flexible_match", "'Parisian'", "'paris'", False),
    ("flexible_match", "'about 1,234 of them'", "1234", True),
    ("flexible_match", "'12345'", "'1234'", False),
]


@pytest.mark.parametrize(("grader", "text", "expected", "passes"), GRADED)
def test_64_graders(lua, grader, text, expected, passes):
    source = f"{{graders = {{'{grader}'}}, cases = {{{{input = 'q', expected = {expected}}}}}}}, 'say', {{strategy_opts = {{fixed = {text}}}}}"
    assert evaluate(lua, source)["results"][0]["passed"] is passes


@pytest.mark.parametrize(("strategy", "output"), [("say", "q"), ("fields", "q"), ("plain", "q"), ("raw", '["q"]')])
def test_64_what_a_strategy_has_said(lua, strategy, output):
    assert evaluate(lua, f"{{cases = {{{{input = 'q'}}}}}}, '{strategy}'")["results"][0]["output"] == output


def test_64_cases_wait(lua):
    source = (
        "return alc.eval({cases = {{input = 'q1', expected = 'a1'}, {input = 'q2', expected = 'x'}}}, 'asks').aggregated.passed"
    )
    outcome, events, _ = answered(lua, source, thawed=True, host=host())
    assert value(outcome) == 1
    assert [event.payload["payload"]["prompt"] for event in events] == ["q1", "q2"]


WRONG = [
    ("", "alc.eval: scenario is required"),
    ("5, 'say'", "alc.eval: scenario must be a string or table"),
    ("{cases = {}}", "alc.eval: strategy must be a string package name"),
    ("{cases = {}}, 5", "alc.eval: strategy must be a string package name"),
    ("{cases = {}}, ''", "alc.eval: strategy must be a string package name"),
    ("'unknown_one', 'say'", "alc.eval: could not resolve scenario 'unknown_one'"),
    ("'number', 'say'", "alc.eval: scenario resolved to number, expected table"),
    ("'word', 'say'", "alc.eval: scenario resolved to string, expected table"),
    ("{cases = {}, graders = {'magic'}}, 'say'", "alc.eval: unknown grader 'magic'"),
    ("{cases = {{expected = 'x'}}}, 'say'", "alc.eval: case #1 must have an 'input' field"),
    ("{cases = {{input = 1}, 5}}, 'say'", "alc.eval: case #2 must have an 'input' field"),
    ("{}, 'say'", "alc.eval: scenario must have cases"),
    ("{cases = {}, bind = {{grader = 'contains', weight = -1}}}, 'say'", "alc.eval: the weight of a grader must be a number"),
]


@pytest.mark.parametrize(("source", "message"), WRONG)
def test_63_66_wrong_arguments(lua, source, message):
    error = failure(run(lua, f"local report = alc.eval({source}) return report", host=host()))
    assert error.message.startswith(f"<repl>:1: {message}")


def test_66_scenarios_by_name_and_strategies_that_cannot_run(lua):
    assert evaluate(lua, "'named', 'say'")["name"] == "say:my_test"
    for strategy in ("runless", "fails", "missing"):
        report = evaluate(lua, f"'named', '{strategy}', {{}}")
        assert (report["aggregated"]["passed"], report["aggregated"]["total"]) == (0, 1)
        assert report["failures"][0]["error"]


def test_a_strategy_that_fails_has_not_passed_whatever_the_grader_says(lua):
    report = evaluate(lua, "{graders = {'length'}, cases = {{input = 'x'}}}, 'fails'")
    assert report["aggregated"]["passed"] == 0


def test_no_cases(lua):
    aggregated = evaluate(lua, "{cases = {}}, 'say'")["aggregated"]
    assert (aggregated["total"], aggregated["pass_rate"], aggregated["scores"]["n"]) == (0, 0, 0)


def test_65_a_card_is_made_if_it_is_asked_for(lua):
    made, samples = [], []

    def create(card):
        made.append(card)
        return {"card_id": f"card-{len(made)}"}

    def write(card, rows):
        samples.append((card, rows))
        return {"count": len(rows)}

    functions = {"card.create": create, "card.write_samples": write}
    assert "card_id" not in evaluate(lua, TWO % ("x", "") + ", 'say'", **functions)
    assert made == []
    assert evaluate(lua, TWO % ("x", "") + ", 'say', {auto_card = true}", **functions)["card_id"] == "card-1"
    assert made[0]["pkg"] == {"name": "say"}
    assert (made[0]["stats"]["pass_rate"], made[0]["stats"]["n"]) == (0.5, 2)
    assert samples[0][0] == "card-1"
    assert [row["passed"] for row in samples[0][1]] == [True, False]
    evaluate(lua, TWO % ("x", "") + ", 'say', {auto_card = true, card_pkg = 'other'}", **functions)
    assert made[1]["pkg"] == {"name": "other"}
