"""Limits that hold, in both guests and on every way of running them. A breach is a rollback that keeps the events."""

import threading
import time

import pytest

from benchmarks.busy import busy_threads
from holdfast.domain import Limit, Limits
from holdfast.sandbox import Breached, Cancelled, Finished, Host, Paused, SandboxBusy, SandboxClosed, SandboxError

from .programs import PROGRAMS

LIMITS = Limits(wall_ms=20_000, cpu_ms=20_000, mem_mb=64)
SLACK_MS = 10_000  # tests ask whether a limit holds at all; how tightly is for the benchmarks


@pytest.fixture
def breach(template, language):
    """Runs a program that must exceed a limit, and gives the outcome."""

    def run(name, **changes):
        with template.create(limits=LIMITS.but(**changes)) as sandbox:
            outcome = sandbox.evaluate(PROGRAMS[name][language])
            assert isinstance(outcome, Breached), outcome
            assert sandbox.closed
            with pytest.raises(SandboxClosed):
                sandbox.evaluate("1")
        return outcome

    return run


@pytest.mark.parametrize("program", ["loop", "loop and catch"])
@pytest.mark.parametrize("limit", [Limit.WALL, Limit.CPU])
def test_time_is_limited(breach, program, limit):
    outcome = breach(program, **{limit: 100})
    assert outcome.breach.limit is limit
    assert outcome.breach.allowed == 100
    assert 100 <= outcome.breach.actual < 100 + SLACK_MS


@pytest.mark.parametrize("program", ["use memory", "use memory, caught"])
def test_memory_is_limited(breach, program):
    outcome = breach(program)
    assert outcome.breach.limit is Limit.MEMORY
    assert outcome.breach.allowed == 64
    assert 64 < outcome.breach.actual < 80


@pytest.mark.parametrize("program", ["recurse", "recurse, caught"])
@pytest.mark.parametrize("kilobytes", [64, 1024, 1536])
def test_the_stack_is_limited(breach, program, kilobytes):
    outcome = breach(program, stack_kb=kilobytes)
    assert outcome.breach.limit is Limit.STACK
    assert outcome.breach.actual >= outcome.breach.allowed > 0


@pytest.mark.parametrize("program", ["print for ever", "print, caught"])
def test_events_are_limited_and_kept(breach, program):
    outcome = breach(program, max_events=50)
    assert (outcome.breach.limit, outcome.breach.allowed, outcome.breach.actual) == (Limit.EVENTS, 50, 51)
    assert len(outcome.events) == 50


def test_output_is_limited_and_kept(breach):
    outcome = breach("print much", max_output_kb=10)
    assert (outcome.breach.limit, outcome.breach.allowed) == (Limit.OUTPUT, 10)
    assert outcome.breach.actual > 10
    assert 5 < len(outcome.events) < 11


def test_a_value_is_output_too(breach):
    assert breach("large value", max_output_kb=10).breach.limit is Limit.OUTPUT


def test_the_events_before_a_breach_are_kept(breach):
    outcome = breach("print and loop", wall_ms=100)
    assert [event.payload["text"] for event in outcome.events] == ["before"]


def test_output_and_events_are_counted_for_a_step(template, language):
    source = {
        "javascript": "for (let i = 0; i < 50; i++) { console.log('x'.repeat(600)); await ask('?') } 'end'",
        "lua": "for i = 1, 50 do print(('x'):rep(600)) alc.ask('?') end return 'end'",
    }[language]
    limits = LIMITS.but(max_output_kb=1, max_events=2)
    with template.create(limits=limits) as sandbox:
        outcome = sandbox.evaluate(source)
        for number in range(1, 51):
            assert isinstance(outcome, Paused), outcome
            outcome = sandbox.resume({number: "yes"})
        assert outcome.result.value == "end"


def test_prompts_and_answers_are_not_output(template, language):
    source = {
        "javascript": "let a = ''; for (let i = 0; i < 5; i++) a = await llm('p'.repeat(9000) + a); a.length",
        "lua": "local a = '' for i = 1, 5 do a = alc.llm(('p'):rep(9000) .. a) end return #a",
    }[language]
    with template.create(limits=LIMITS.but(max_output_kb=1)) as sandbox:
        outcome = sandbox.evaluate(source)
        for number in range(1, 6):
            assert isinstance(outcome, Paused), outcome
            outcome = sandbox.resume({number: "a" * 9000})
        assert outcome.result.value == 9000


def test_the_prompts_of_one_step_are_bounded_all_the_same(template, language):
    source = {
        "javascript": "const p = 'p'.repeat(5e6); await Promise.all([1, 2, 3, 4].map(() => llm(p)))",
        "lua": "local p = ('p'):rep(5000000) alc.llm_batch({p, p, p, p})",
    }[language]
    with template.create(limits=LIMITS.but(max_output_kb=0, mem_mb=512, wall_ms=20_000, cpu_ms=20_000)) as sandbox:
        outcome = sandbox.evaluate(source)
        assert isinstance(outcome, Breached)
        assert (outcome.breach.limit, outcome.breach.allowed) == (Limit.OUTPUT, 16 << 10)


def test_suspensions_are_limited_over_the_whole_execution(template, language):
    limits = LIMITS.but(max_suspensions=3)
    sandbox = template.create(limits=limits)
    outcome = sandbox.evaluate(PROGRAMS["ask for ever"][language])
    for number in (1, 2):
        image = sandbox.freeze()
        sandbox.close()
        sandbox = template.thaw(image, limits=limits)  # counted across images too
        outcome = sandbox.resume({number: "x"})
        assert isinstance(outcome, Paused)
    outcome = sandbox.resume({3: "x"})
    assert isinstance(outcome, Breached)
    assert (outcome.breach.limit, outcome.breach.allowed, outcome.breach.actual) == (Limit.SUSPENSIONS, 3, 4)


def test_a_breach_is_a_rollback_to_the_last_image(template, language):
    with template.create(limits=LIMITS) as sandbox:
        sandbox.evaluate(PROGRAMS["set global"][language])
        image = sandbox.freeze()
    with template.thaw(image, limits=LIMITS.but(wall_ms=100)) as sandbox:
        assert isinstance(sandbox.evaluate(PROGRAMS["loop"][language]), Breached)
    with template.thaw(image) as sandbox:
        assert sandbox.evaluate(PROGRAMS["get global"][language]).result.value == "here"


def test_limits_hold_while_python_is_busy(breach):
    with busy_threads(4):
        outcome = breach("loop", wall_ms=200)
    assert 200 <= outcome.breach.actual < 200 + SLACK_MS


def test_another_thread_can_cancel(template, language):
    with template.create(limits=LIMITS) as sandbox:
        threading.Timer(0.1, sandbox.cancel).start()
        begun = time.monotonic()
        outcome = sandbox.evaluate(PROGRAMS["print and loop"][language])
        assert isinstance(outcome, Cancelled)
        assert time.monotonic() - begun < SLACK_MS / 1000
        assert [event.payload["text"] for event in outcome.events] == ["before"]
        assert sandbox.closed


def test_cancelling_one_sandbox_leaves_its_neighbours_alone(template, language):
    with template.create(limits=LIMITS) as victim, template.create(limits=LIMITS.but(wall_ms=600)) as neighbour:
        outcomes = {}
        threads = [
            threading.Thread(target=lambda s=s: outcomes.update({s: s.evaluate(PROGRAMS["loop"][language])}))
            for s in (victim, neighbour)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        victim.cancel()
        for thread in threads:
            thread.join()
        assert isinstance(outcomes[victim], Cancelled)
        assert isinstance(outcomes[neighbour], Breached)
        assert outcomes[neighbour].breach.actual >= 600


def test_a_sandbox_serves_one_thread_at_a_time(template, language):
    with template.create(limits=LIMITS.but(wall_ms=500)) as sandbox:
        thread = threading.Thread(target=sandbox.evaluate, args=(PROGRAMS["loop"][language],))
        thread.start()
        time.sleep(0.1)
        for attempt in (sandbox.freeze, sandbox.close, sandbox.resume, sandbox.content):
            with pytest.raises(SandboxBusy):
                attempt()
        thread.join()


def test_limits_hold_after_a_long_rest(template, language):
    with template.create(limits=LIMITS.but(wall_ms=200)) as sandbox:
        assert isinstance(sandbox.evaluate(PROGRAMS["add"][language]), Finished)
        time.sleep(0.7)  # the ticker has stopped by now
        assert isinstance(sandbox.evaluate(PROGRAMS["loop"][language]), Breached)


def test_the_stack_of_a_small_thread_is_not_overrun(template, language):
    """A guest that may nest deeper than its thread's stack allows would end the process."""
    outcomes = []

    def work():
        with template.create(limits=LIMITS) as sandbox:
            try:
                outcomes.append(sandbox.evaluate(PROGRAMS["recurse"][language]))
            except SandboxError as error:
                outcomes.append(error)

    for size in (1 << 20, 0):  # new threads have this size, and with 0 the system's own
        before = threading.stack_size(size)
        try:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(before)
    refused, breached = outcomes
    assert isinstance(refused, SandboxError)
    assert "stack of" in str(refused)
    assert breached.breach.limit is Limit.STACK


def test_sandboxes_inside_host_functions_have_stacks_of_their_own(template, language):

    def inner():
        with template.create(limits=LIMITS) as sandbox:
            return sandbox.evaluate(PROGRAMS["recurse"][language]).breach.limit

    deep = {
        "javascript": "(function down(n) { return n ? down(n - 1) : hf.call('inner') })(1000)",
        "lua": "local function down(n) if n == 0 then return alc.call('inner') end return (down(n - 1)) end return down(1000)",
    }[language]
    with template.create(limits=LIMITS, host=Host({"inner": inner})) as sandbox:
        assert sandbox.evaluate(deep).result.value == "stack_kb"


@pytest.mark.parametrize("name", ["source", "answer", "argument"])
def test_a_request_that_does_not_fit_into_memory_is_a_breach(template, language, name):
    huge = "z" * 35_000_000
    with template.create(limits=LIMITS.but(mem_mb=32)) as sandbox:
        sandbox.evaluate(PROGRAMS["print"][language])
        if name == "source":
            outcome = sandbox.evaluate(f"return '{huge}'")
        elif name == "argument":
            outcome = sandbox.call("print", huge)
        else:
            sandbox.evaluate(PROGRAMS["ask once"][language])
            outcome = sandbox.resume({1: huge})
        assert isinstance(outcome, Breached)
        assert outcome.breach.limit is Limit.MEMORY
        assert outcome.events == ()
        assert sandbox.closed


def test_the_tightest_limit_is_a_limit(template, language):
    for _ in range(25):
        with template.create(limits=LIMITS.but(wall_ms=1)) as sandbox:
            for _ in range(5):
                outcome = sandbox.evaluate(PROGRAMS["print much"][language])
                assert isinstance(outcome, Finished | Breached)
                if sandbox.closed:
                    break
