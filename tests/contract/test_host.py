"""What scripts may ask of the host: functions by name, time, random numbers, time zones."""

import threading

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import (
    Evaluate,
    Failed,
    Finished,
    GuestFault,
    Host,
    HostError,
    Paused,
    Source,
    TemplateFailed,
    ValueRefused,
)

from .programs import PROGRAMS

NOW = 1_700_000_000_000.0


def refuse():
    raise HostError("not today", code="REFUSED")


HOST = Host({"add": lambda a, b: a + b, "refuse": refuse, "large": lambda n: "x" * n, "bad": lambda: object()})


@pytest.fixture
def sandbox(template):
    with template.create(host=HOST, seed=7) as sandbox:
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def call(language, text):
    return ("hf.call(" if language == "javascript" else "return alc.call(") + text + ")"


def test_a_host_function_is_called_by_name(sandbox, language):
    assert value(sandbox.evaluate(PROGRAMS["call host"][language])) == 3


def test_large_values_cross_both_ways(sandbox, language):
    text = "hf.call('large', 300000).length" if language == "javascript" else "return #alc.call('large', 300000)"
    assert value(sandbox.evaluate(text)) == 300_000
    with_large_argument = {
        "javascript": "hf.call('add', 'y'.repeat(1e5), 'z').length",
        "lua": "return #alc.call('add', ('y'):rep(100000), 'z')",
    }
    assert value(sandbox.evaluate(with_large_argument[language])) == 100_001


def test_what_is_not_registered_raises_in_the_script(sandbox, language):
    assert value(sandbox.evaluate(PROGRAMS["call missing"][language])) == "HOST_FUNCTION_NOT_FOUND"


def test_a_host_error_is_raised_in_the_script(sandbox, language):
    outcome = sandbox.evaluate(PROGRAMS["call host, uncaught"][language])
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.message) == ("REFUSED", "not today")


def test_a_result_that_cannot_cross_is_an_error_in_the_script(sandbox, language):
    outcome = sandbox.evaluate(call(language, "'bad'"))
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "VALUE_REFUSED"


def test_any_other_exception_ends_the_step_and_the_sandbox(template, language):
    def crash():
        raise KeyError("a bug of the host")

    with template.create(host=Host({"crash": crash})) as sandbox:
        with pytest.raises(KeyError, match="a bug of the host"):
            sandbox.evaluate(call(language, "'crash'"))
        assert sandbox.closed


def test_a_host_function_may_run_another_sandbox(template, language):

    def inner(text):
        with template.create() as other:
            return value(other.evaluate(text))

    with template.create(host=Host({"inner": inner})) as sandbox:
        assert value(sandbox.evaluate(call(language, "'inner', '20 + 22'"))) == 42


def test_the_clock_is_input(sandbox, language):
    assert value(sandbox.evaluate(PROGRAMS["now"][language], now=NOW)) == NOW
    assert value(sandbox.evaluate(PROGRAMS["now"][language], now=NOW + 5000)) == NOW + 5000


def test_the_clock_moves_after_host_calls_only(template, language):
    times = iter([NOW + 1000, NOW + 3000])
    host = Host({"f": lambda: None}, clock=lambda: next(times))
    program = {
        "javascript": "const t = [Date.now()]; for (let i = 0; i < 1e5; i++) Date.now(); t.push(Date.now()); hf.call('f'); t.push(Date.now()); hf.call('f'); t.push(Date.now()); t.map(x => x / 1000)",
        "lua": "local t = {os.time()} for i = 1, 1e5 do os.time() end t[2] = os.time() alc.call('f') t[3] = os.time() alc.call('f') t[4] = os.time() return t",
    }[language]
    with template.create(host=host) as sandbox:
        seconds = NOW / 1000
        assert value(sandbox.evaluate(program, now=NOW)) == [seconds, seconds, seconds + 1, seconds + 3]


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 0), ("Asia/Kolkata", 5), ("America/New_York", 19), ("Europe/Berlin", 1)])
def test_the_time_zone_is_input(sandbox, language, zone, hour):
    assert value(sandbox.step(Evaluate(PROGRAMS["local hour"][language]), zone=zone)) == hour
    assert value(sandbox.evaluate(PROGRAMS["local hour"][language])) == hour


def test_summer_time_is_known(sandbox, language):
    program = {
        "javascript": "[new Date(2024, 0, 15, 12).getTime(), new Date(2024, 6, 15, 12).getTime()]",
        "lua": "return {os.time{year=2024, month=1, day=15, hour=12} * 1000, os.time{year=2024, month=7, day=15, hour=12} * 1000}",
    }
    winter, summer = value(sandbox.step(Evaluate(program[language]), zone="Europe/Berlin"))
    assert (winter, summer) == (1705316400000, 1721037600000)


def test_an_unknown_time_zone_is_refused(sandbox, language):
    for zone in ("Nowhere/Land", "../etc/passwd", "", "/etc/localtime"):
        with pytest.raises(ValueRefused, match="time zone"):
            sandbox.step(Evaluate(PROGRAMS["add"][language]), zone=zone)


def test_random_numbers_come_from_the_seed(template, language):

    def draw(**options):
        with template.create(**options) as sandbox:
            return [value(sandbox.evaluate(PROGRAMS["random"][language])) for _ in range(3)]

    assert draw(seed=1) == draw(seed=1)
    assert draw(seed=1) != draw(seed=2)
    assert len({str(draw()) for _ in range(5)}) == 5


def test_a_seed_can_be_given_with_any_step(sandbox, language):
    request = Evaluate(PROGRAMS["random"][language])
    first = value(sandbox.step(request, seed=5))
    assert value(sandbox.step(request)) != first
    assert value(sandbox.step(request, seed=5)) == first


def test_forks_draw_numbers_of_their_own(template, language):
    with template.create(seed=7) as sandbox:
        assert isinstance(sandbox.evaluate(PROGRAMS["random after pause"][language]), Paused)
        image = sandbox.freeze()
    drawn = set()
    for _ in range(4):
        with template.fork(image) as branch:
            drawn.add(value(branch.resume({1: "x"})))
    assert len(drawn) == 4
    with template.thaw(image) as one, template.thaw(image) as two:
        assert value(one.resume({1: "x"})) == value(two.resume({1: "x"}))


def test_a_busy_sandbox_does_not_hold_up_another(template, language):
    """Guests run without the interpreter lock: a hundred steps are done on one thread while a loop runs on another."""
    with template.create(limits=Limits(wall_ms=0, cpu_ms=0)) as busy, template.create() as other:
        thread = threading.Thread(target=busy.evaluate, args=(PROGRAMS["loop"][language],))
        thread.start()
        for _ in range(100):
            assert value(other.evaluate(PROGRAMS["add"][language])) == 42
        assert thread.is_alive()
        busy.cancel()
        thread.join()


def test_a_template_holds_what_its_sources_made(template, language):
    guest = template.guest
    made = guest.template([Source("lib", PROGRAMS["define"][language])], [Source("start", PROGRAMS["set global"][language])])
    with made.create() as sandbox:
        assert value(sandbox.call("double", 4)) == 8
        assert value(sandbox.evaluate(PROGRAMS["get global"][language])) == "here"
    again = guest.template([Source("lib", PROGRAMS["define"][language])], [Source("start", PROGRAMS["set global"][language])])
    assert again.digest == made.digest


@pytest.mark.parametrize("program", ["raise", "ask once", "syntax"])
def test_a_template_that_cannot_be_made_says_why(template, language, program):
    with pytest.raises(TemplateFailed, match=r"start\.file"):
        template.guest.template(startup=[Source("start.file", PROGRAMS[program][language])])


def test_a_template_that_runs_for_ever_says_so(template, language):
    with pytest.raises(TemplateFailed, match="wall_ms"):
        template.guest.template(startup=[Source("start", PROGRAMS["loop"][language])], limits=Limits(wall_ms=100))


def test_guests_import_two_functions_and_nothing_else(engine, language):
    from holdfast.sandbox.guest import _compiled

    guest = engine.guest(language)
    imports = _compiled(engine, guest.digest, guest.wasm).imports
    assert sorted((i.module, i.name) for i in imports) == [("holdfast", "call"), ("holdfast", "take")]


def test_a_guest_that_is_no_wasm_is_refused(engine):
    from holdfast.sandbox import Guest, GuestUnavailable

    for wasm in (b"", b"\0asm\1\0\0\0", b"hello"):
        with pytest.raises((GuestUnavailable, GuestFault)):
            Guest(engine, "lua", wasm)
    with pytest.raises(GuestUnavailable, match="javascript and lua"):
        engine.guest("python")
