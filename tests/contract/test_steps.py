"""What both guests must do, on every way of running them: evaluate, fail, print, pause, resume, call."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import (
    Call,
    Evaluate,
    ExecutionPending,
    Failed,
    Failure,
    Finished,
    NotPending,
    Paused,
    QueryNotOpen,
    RequestRefused,
    Resume,
    SandboxClosed,
    UnknownQuery,
    ValueRefused,
)

from .programs import PROGRAMS

NOW = 1_700_000_000_000.0


@pytest.fixture
def run(template, language):
    """Evaluates a program by its name in a sandbox of this test."""
    with template.create(seed=7, limits=Limits(wall_ms=20_000, cpu_ms=20_000)) as sandbox:

        def evaluate(name, **options):
            return sandbox.step(Evaluate(PROGRAMS[name][language]), **options)

        evaluate.sandbox = sandbox
        yield evaluate


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def test_the_value_of_a_snippet(run):
    outcome = run("add")
    assert value(outcome) == 42
    assert outcome.result.as_dict() == {"type": "number", "preview": "42", "json": 42}


def test_globals_stay_from_snippet_to_snippet(run):
    run("set global")
    assert value(run("get global")) == "here"


def test_printing_makes_events(run):
    outcome = run("print")
    assert [event.payload["text"] for event in outcome.events] in (["one 2", "three"], ["one\t2", "three"])
    assert all(event.type == "console" and event.payload["level"] == "log" for event in outcome.events)


def test_an_error_names_file_and_line(run, language):
    outcome = run.sandbox.step(Evaluate(PROGRAMS["raise"][language], "work.txt"))
    assert isinstance(outcome, Failed)
    assert "broken" in outcome.error.message
    assert "work.txt:2" in outcome.error.stack


def test_the_sandbox_is_usable_after_an_error(run):
    assert isinstance(run("raise"), Failed)
    assert isinstance(run("syntax"), Failed)
    assert value(run("add")) == 42


def test_syntax_errors_are_errors_of_the_script(run, language):
    outcome = run.sandbox.step(Evaluate(PROGRAMS["syntax"][language], "work.txt"))
    assert outcome.error.name == "SyntaxError"
    assert "work.txt:1" in outcome.error.stack + outcome.error.message


def test_a_query_pauses_in_the_middle_of_an_expression(run):
    outcome = run("ask once")
    assert isinstance(outcome, Paused)
    (query,) = outcome.queries
    assert (query.id, query.kind, query.payload) == (1, "llm", {"prompt": "question"})
    assert outcome.open == (1,)
    assert outcome.wake_at is None
    assert [event.type for event in outcome.events] == ["query"]
    assert value(run.sandbox.resume({1: "it"})) == "got it"


def test_options_reach_whoever_answers(run):
    (query,) = run("ask with options").queries
    assert query.payload == {"prompt": "question", "temperature": 0.5, "model": "m"}


def test_query_ids_are_never_used_twice(run):
    ids = []
    for _ in range(2):
        outcome = run("ask thrice")
        while isinstance(outcome, Paused):
            ids.append(outcome.queries[0].id)
            outcome = run.sandbox.resume({outcome.queries[0].id: "x"})
        assert value(outcome) == "xxx"
    assert ids == [1, 2, 3, 4, 5, 6]


def test_several_queries_at_once_may_be_answered_one_by_one(run):
    outcome = run("ask together")
    assert [query.payload["prompt"] for query in outcome.queries] == ["a", "b", "c"]
    assert outcome.open == (1, 2, 3)
    outcome = run.sandbox.resume({2: "B"})
    assert outcome.open == (1, 3)
    assert outcome.queries == ()
    assert value(run.sandbox.resume({3: "C", 1: "A"})) == "ABC"


def test_each_kind_of_query_has_its_name(run):
    kinds, outcome = [], run("kinds")
    while isinstance(outcome, Paused):
        (query,) = outcome.queries
        kinds.append(query.kind)
        outcome = run.sandbox.resume({query.id: query.kind})
    assert kinds == ["ask", "approve", "tool", "other"]
    assert value(outcome) == "ask,approve,tool,other"


def test_an_answer_may_be_an_error_that_raises_at_the_call(run):
    run("catch the answer")
    assert value(run.sandbox.resume({1: Failure("too busy", "OVERLOADED")})) == "caught OVERLOADED too busy"


def test_an_error_answer_that_nobody_catches_ends_the_execution(run):
    run("ask once")
    outcome = run.sandbox.resume({1: Failure("too busy", "OVERLOADED")})
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.message) == ("OVERLOADED", "too busy")


def test_a_script_cannot_swallow_a_pause(run):
    assert isinstance(run("swallow everything"), Paused)
    assert value(run.sandbox.resume({1: "kept"})) == "kept"


def test_waiting_for_the_clock(run):
    outcome = run("sleep", now=NOW)
    assert isinstance(outcome, Paused)
    assert (outcome.open, outcome.wake_at) == ((), NOW + 1000)
    assert run.sandbox.resume(now=NOW + 999).wake_at == NOW + 1000
    assert value(run.sandbox.resume(now=NOW + 1000)) == "awake"


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({99: "x"}, UnknownQuery),
        ({1: "again"}, QueryNotOpen),
        ({2: "fine", 99: "x"}, UnknownQuery),
        ({2: "fine", 1: "x"}, QueryNotOpen),
    ],
)
def test_wrong_answers_are_refused_and_change_nothing(run, answers, error):
    run("ask thrice")
    run.sandbox.resume({1: "a"})
    with pytest.raises(error):
        run.sandbox.resume(answers)
    run.sandbox.resume({2: "b"})
    assert value(run.sandbox.resume({3: "c"})) == "abc"


def test_an_answer_when_nothing_waits_is_refused(run):
    with pytest.raises(NotPending):
        run.sandbox.resume({1: "x"})
    run("add")
    with pytest.raises(RequestRefused):
        run.sandbox.resume({1: "x"})


def test_a_second_execution_has_to_wait_for_the_first(run):
    run("ask once")
    with pytest.raises(ExecutionPending):
        run("add")
    with pytest.raises(ExecutionPending):
        run.sandbox.step(Call("double", [1]))
    assert value(run.sandbox.resume({1: "it"})) == "got it"


def test_a_global_function_is_called_by_name(run):
    run("define")
    assert value(run.sandbox.call("double", 21)) == 42


def test_calling_what_is_no_function_is_an_error_of_the_script(run):
    outcome = run.sandbox.call("nowhere.at.all", 1)
    assert isinstance(outcome, Failed)
    assert "nowhere" in outcome.error.message


@pytest.mark.parametrize("source", [b"\xff\xfe", b"1 + \xc3", "'\ud800'"])
def test_source_that_is_not_utf8_is_refused(run, source):
    with pytest.raises(ValueRefused, match="UTF-8"):
        run.sandbox.evaluate(source)
    assert value(run("add")) == 42


def test_wrong_query_ids_are_refused(run):
    run("ask once")
    for wrong in (-1, "1", True, 1 << 40):
        with pytest.raises(ValueRefused):
            run.sandbox.step(Resume({wrong: "x"}))


def test_a_closed_sandbox_says_so(run):
    run.sandbox.close()
    run.sandbox.close()
    assert run.sandbox.closed
    with pytest.raises(SandboxClosed):
        run("add")
    with pytest.raises(SandboxClosed):
        run.sandbox.freeze()
