"""Rejections that nobody handles are reported once, at the end of the step; the execution's own is its error."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Failed, Failure, Finished, Host, Module, Modules, Paused

MODULES = {
    "throws.js": Module("module", "throw new Error('loading')"),
    "later.js": Module("module", "await null; throw new Error('loading')"),
    "needs.js": Module("module", "import './later.js'; export default 1"),
}


@pytest.fixture
def sandbox(javascript):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000), host=Host(modules=Modules(MODULES))) as sandbox:
        yield sandbox


def unhandled(outcome):
    return [event.payload["message"] for event in outcome.events if event.type == "unhandled"]


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("Promise.reject(new Error('u')); 1", ["u"]),
        ("Promise.reject('plain'); 1", ["plain"]),
        ("(async () => { throw new Error('u') })(); 1", ["u"]),
        ("(async () => { await null; await null; throw new Error('u') })(); 1", ["u"]),
        ("new Promise(() => { throw new Error('u') }); 1", ["u"]),
        ("Promise.reject(new Error('u')).then(x => x).finally(() => {}); 1", ["u"]),
        ("Promise.all([Promise.reject(new Error('a')), Promise.reject(new Error('b'))]); 1", ["a"]),
        ("Promise.reject(new Error('a')); Promise.reject(new Error('b')); 1", ["a", "b"]),
        ("queueMicrotask(() => { throw new Error('micro') }); 1", ["micro"]),
        ("setTimeout(() => { throw new Error('timer') }, 0); 1", ["timer"]),
        ("setTimeout(async () => { throw new Error('timer') }, 0); 1", ["timer"]),
        ("Promise.reject(new Error('value'))", ["value"]),
        ("import('./throws.js'); 1", ["loading"]),
        ("import('./needs.js'); 1", ["loading"]),
        ("Promise.reject(1).catch(() => { throw new Error('again') }); 1", ["again"]),
        ("Promise.reject(new Error('x')).catch(() => {}); 1", []),
        ("const p = Promise.reject(new Error('x')); await null; await null; p.catch(() => {}); 1", []),
        ("const p = Promise.reject(new Error('x')); setTimeout(() => p.catch(() => {}), 0); await hf.sleep(0); 1", []),
        ("await Promise.allSettled([Promise.reject(new Error('x'))]); 1", []),
        ("try { await Promise.reject(new Error('x')) } catch {} 1", []),
        ("import('./throws.js').catch(() => {}); 1", []),
        ("await Promise.race([Promise.resolve(1), Promise.reject(new Error('x'))])", []),
        ("Promise.try?.(() => { throw new Error('t') }).catch(() => {}); 1", []),
    ],
)
def test_what_nobody_handles_is_reported_once(sandbox, source, reported):
    outcome = sandbox.evaluate(source)
    assert isinstance(outcome, Finished), outcome
    assert unhandled(outcome) == reported
    assert sandbox.evaluate("2").events == ()


@pytest.mark.parametrize(
    "source",
    [
        "throw new Error('own')",
        "await Promise.reject(new Error('own'))",
        "await (async () => { await null; throw new Error('own') })()",
        "const p = Promise.reject(new Error('own')); await p",
    ],
)
@pytest.mark.parametrize("how", ["{}", "export default 1; {}"])
def test_the_execution_s_own_rejection_is_its_error_only(sandbox, how, source):
    outcome = sandbox.run_file(how.format(source), "work.js")
    assert isinstance(outcome, Failed)
    assert (outcome.error.message, outcome.events) == ("own", ())


def test_the_rejection_of_main_is_the_error_of_the_file(sandbox):
    outcome = sandbox.run_file("async function main() { await null; throw new Error('own') }\nmain()", "work.js")
    assert isinstance(outcome, Failed)
    assert (outcome.error.message, outcome.events) == ("own", ())


def test_the_rejection_of_a_called_function_is_the_error_of_the_call(sandbox):
    sandbox.evaluate("async function f() { throw new Error('own') }")
    outcome = sandbox.call("f")
    assert isinstance(outcome, Failed)
    assert (outcome.error.message, outcome.events) == ("own", ())


def test_others_are_reported_beside_it(sandbox):
    outcome = sandbox.evaluate("Promise.reject(new Error('other')); await Promise.reject(new Error('own'))")
    assert (outcome.error.message, unhandled(outcome)) == ("own", ["other"])


def test_a_report_says_what_an_error_says(sandbox):
    outcome = sandbox.evaluate("\nPromise.reject(Object.assign(new RangeError('m'), {code: 'C'})); 1", "work.js")
    (event,) = outcome.events
    assert {key: event.payload[key] for key in ("name", "message", "code")} == {
        "name": "RangeError",
        "message": "m",
        "code": "C",
    }
    assert "work.js:2:" in event.payload["stack"]


def test_they_are_reported_before_a_pause_and_not_again_after(sandbox):
    outcome = sandbox.evaluate("(async () => { throw new Error('u') })(); await llm('q')")
    assert isinstance(outcome, Paused)
    assert unhandled(outcome) == ["u"]
    assert sandbox.resume({1: "a"}).events == ()


def test_a_rejection_handled_too_late_was_reported(sandbox):
    assert unhandled(sandbox.evaluate("const late = Promise.reject(new Error('u')); 1")) == ["u"]
    outcome = sandbox.evaluate("await late.catch(e => 'caught ' + e.message)")
    assert (outcome.result.value, outcome.events) == ("caught u", ())


def test_a_failed_query_that_nobody_awaits_is_reported(sandbox):
    sandbox.evaluate("const a = llm('a'); await llm('b')")
    outcome = sandbox.resume({1: Failure("busy", "OVERLOADED")})
    assert isinstance(outcome, Paused)
    assert unhandled(outcome) == ["busy"]
    assert sandbox.resume({2: "fine"}).result.value == "fine"


def test_a_cancelled_query_is_no_unhandled_rejection(sandbox):
    outcome = sandbox.evaluate("const left = (async () => { await llm('never') })(); llm('nor this').then(x => x); 1")
    assert [event.type for event in outcome.events] == ["query", "query", "cancelled", "cancelled"]


def test_many_are_all_reported(sandbox):
    outcome = sandbox.evaluate("for (let i = 0; i < 300; i++) Promise.reject(new Error(i)); 1")
    assert unhandled(outcome) == [str(number) for number in range(300)]


def test_reporting_may_run_code_that_rejects_more(sandbox):
    source = "let left = 3; const bad = () => Promise.reject({get message() { if (left-- > 0) bad(); return 'm' }}); bad(); 1"
    assert unhandled(sandbox.evaluate(source)) == ["m"] * 4
    assert sandbox.evaluate("1 + 1").events == ()
