"""Time in a script: timers, microtasks, and who waits for them. The clock moves between steps only."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Failed, Finished, Paused

NOW = 1_700_000_000_000.0


@pytest.fixture
def sandbox(javascript):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000)) as sandbox:
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def lines(outcome):
    return [event.payload["text"] for event in outcome.events if event.type == "console"]


def test_timers_fire_in_the_order_of_their_times(sandbox):
    outcome = sandbox.evaluate(
        """
        const seen = [];
        setTimeout(() => seen.push('c'), 20); setTimeout(() => seen.push('a'), 10);
        setTimeout(() => seen.push('b'), 10); setTimeout(() => seen.push('now'));
        await new Promise(done => setTimeout(done, 30)); seen
        """,
        now=NOW,
    )
    assert isinstance(outcome, Paused)
    assert (outcome.wake_at, outcome.open) == (NOW + 10, ())
    assert sandbox.resume(now=NOW + 9).wake_at == NOW + 10
    assert sandbox.resume(now=NOW + 10).wake_at == NOW + 20
    assert value(sandbox.resume(now=NOW + 500)) == ["now", "a", "b", "c"]


def test_microtasks_come_before_timers_and_between_them(sandbox):
    outcome = sandbox.evaluate("""
        const order = [];
        setTimeout(() => { order.push('timer 1'); queueMicrotask(() => order.push('micro of 1')) }, 0);
        setTimeout(() => order.push('timer 2'), 0);
        queueMicrotask(() => order.push('micro'));
        Promise.resolve().then(() => order.push('then'));
        order.push('sync');
        await new Promise(done => setTimeout(done, 0)); order
    """)
    assert value(outcome) == ["sync", "micro", "then", "timer 1", "micro of 1", "timer 2"]


def test_timers_pass_their_arguments(sandbox):
    assert value(sandbox.evaluate("await new Promise(done => setTimeout((...all) => done(all), 0, 1, 'two', {n: 3}))")) == [
        1,
        "two",
        {"n": 3},
    ]


@pytest.mark.parametrize("delay", ["undefined", "null", "NaN", "-5", "'0'", "{}", "-Infinity"])
def test_odd_delays_mean_at_once(sandbox, delay):
    assert value(sandbox.evaluate(f"await new Promise(done => setTimeout(done, {delay}, 'fired'))")) == "fired"


def test_an_endless_delay_is_a_very_long_one(sandbox):
    outcome = sandbox.evaluate("await hf.sleep(Infinity)", now=NOW)
    assert outcome.wake_at > NOW + 200 * 365 * 86_400_000


def test_an_interval_repeats_until_it_is_cleared(sandbox):
    outcome = sandbox.evaluate(
        "let n = 0; const every = setInterval(() => { if (++n === 3) clearInterval(every) }, 10); await hf.sleep(1000); n",
        now=NOW,
    )
    for due in (10, 20, 30):
        assert outcome.wake_at == NOW + due
        outcome = sandbox.resume(now=NOW + due)
    assert outcome.wake_at == NOW + 1000
    assert value(sandbox.resume(now=NOW + 1000)) == 3


def test_what_an_interval_missed_in_a_long_pause_is_not_made_up_for(sandbox):
    sandbox.evaluate("let n = 0; setInterval(() => n++, 10); await hf.sleep(1000); n", now=NOW)
    assert value(sandbox.resume(now=NOW + 1000)) == 1


@pytest.mark.parametrize("clear", ["clearTimeout", "clearInterval"])
@pytest.mark.parametrize("start", ["setTimeout", "setInterval"])
def test_a_cleared_timer_never_fires(sandbox, start, clear):
    source = f"const id = {start}(() => console.log('no'), 5); {clear}(id); {clear}(id); await hf.sleep(50); 'quiet'"
    sandbox.evaluate(source, now=NOW)
    outcome = sandbox.resume(now=NOW + 50)
    assert (value(outcome), lines(outcome)) == ("quiet", [])


@pytest.mark.parametrize("argument", ["", "99", "null", "'1'", "{}", "-1", "NaN", "1n", "Symbol()"])
def test_clearing_what_is_no_timer_does_nothing(sandbox, argument):
    assert value(sandbox.evaluate(f"clearTimeout({argument}); clearInterval({argument}); 1")) == 1


@pytest.mark.parametrize(
    "source",
    [
        "setTimeout('code')",
        "setTimeout()",
        "setInterval(null, 5)",
        "queueMicrotask()",
        "queueMicrotask(5)",
        "setTimeout(() => {}, 1n)",
    ],
)
def test_a_timer_needs_a_function(sandbox, source):
    outcome = sandbox.evaluate(source)
    assert isinstance(outcome, Failed)
    assert outcome.error.name == "TypeError"


def test_a_snippet_does_not_wait_for_its_timers(sandbox):
    outcome = sandbox.evaluate("setTimeout(() => console.log('later'), 50); 'now'", now=NOW)
    assert (value(outcome), lines(outcome)) == ("now", [])
    assert lines(sandbox.evaluate("1", now=NOW + 49)) == []
    assert lines(sandbox.evaluate("console.log('own')", now=NOW + 50)) == ["later", "own"]


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("setTimeout(() => console.log('tick'), 100); 'v'", "v"),
        ("setTimeout(() => console.log('tick'), 100); export default 'v'", "v"),
    ],
)
def test_a_file_waits_for_its_timers(javascript, sandbox, source, result):
    outcome = sandbox.run_file(source, "work.js", now=NOW)
    assert isinstance(outcome, Paused)
    assert outcome.wake_at == NOW + 100
    with javascript.thaw(sandbox.freeze()) as thawed:
        outcome = thawed.resume(now=NOW + 100)
        assert (value(outcome), lines(outcome)) == (result, ["tick"])


def test_a_file_waits_for_timers_that_timers_start(sandbox):
    sandbox.run_file("setTimeout(() => setTimeout(() => console.log('second'), 5), 5)", "work.js", now=NOW)
    assert sandbox.resume(now=NOW + 5).wake_at == NOW + 10
    assert lines(sandbox.resume(now=NOW + 10)) == ["second"]


def test_a_file_does_not_wait_for_timers_of_earlier_snippets(sandbox):
    sandbox.evaluate("setInterval(() => {}, 1000); 1", now=NOW)
    assert value(sandbox.run_file("'done'", "work.js", now=NOW)) == "done"


def test_timers_go_on_after_a_thaw_a_month_later(javascript, sandbox):
    month = 30 * 86_400_000
    assert sandbox.evaluate(f"await hf.sleep({month}); Date.now()", now=NOW).wake_at == NOW + month
    with javascript.thaw(sandbox.freeze()) as thawed:
        assert value(thawed.resume(now=NOW + month)) == NOW + month


def test_timers_fire_while_a_query_waits(sandbox):
    sandbox.evaluate("setTimeout(() => console.log('meanwhile'), 10); await llm('q')", now=NOW)
    outcome = sandbox.resume(now=NOW + 10)
    assert isinstance(outcome, Paused)
    assert (outcome.open, lines(outcome)) == ((1,), ["meanwhile"])
    assert value(sandbox.resume({1: "a"})) == "a"


def test_an_endless_chain_of_timers_lets_answers_in(sandbox):
    outcome = sandbox.evaluate("let spins = 0; (function spin() { spins++; setTimeout(spin, 0) })(); await llm('q')", now=NOW)
    assert isinstance(outcome, Paused)
    assert value(sandbox.resume({1: "answered"}, now=NOW)) == "answered"
    assert value(sandbox.evaluate("spins > 100", now=NOW)) is True


def test_an_endless_chain_of_timers_pauses_a_wait_that_never_ends(sandbox):
    outcome = sandbox.evaluate("(function spin() { setTimeout(spin, 0) })(); await new Promise(() => {})", now=NOW)
    assert isinstance(outcome, Paused)
    assert outcome.wake_at <= NOW


def test_time_stands_still_within_a_step(sandbox):
    assert value(
        sandbox.evaluate("const t = Date.now(); for (let i = 0; i < 1e5; i++); [Date.now() - t, new Date() - t]", now=NOW)
    ) == [0, 0]


def test_performance_counts_from_the_first_step_of_the_session(javascript, sandbox):
    assert value(sandbox.evaluate("[performance.now(), performance.timeOrigin]", now=NOW)) == [0, NOW]
    with javascript.thaw(sandbox.freeze()) as thawed:
        assert value(thawed.evaluate("performance.now()", now=NOW + 250)) == 250
