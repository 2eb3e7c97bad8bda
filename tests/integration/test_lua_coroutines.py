"""The coroutine library: as Lua's own, but that queries pass through it unseen."""

import pytest

from holdfast.sandbox import Failure, Paused
from tests.integration.lua_runs import answered, failure, run, value

PROGRAMS = {
    "the main thread is running, and is main": (
        "{coroutine.status(coroutine.running()), select(2, coroutine.running()), coroutine.isyieldable()}",
        ["running", True, False],
    ),
    "a coroutine is running, and is not main": (
        "coroutine.wrap(function() return {coroutine.status(coroutine.running()), select(2, coroutine.running()), coroutine.isyieldable()} end)()",
        ["running", False, True],
    ),
    "isyieldable of another": (
        "{coroutine.isyieldable(coroutine.create(print)), coroutine.isyieldable(coroutine.running())}",
        [True, False],
    ),
    "values go in and out": (
        "local co = coroutine.wrap(function(a, b) local c, d = coroutine.yield(a + b, a * b) return c .. d end) local s, p = co(2, 3) return {s, p, co('x', 'y')}",
        [5, 6, "xy"],
    ),
    "no values": ("return select('#', coroutine.resume(coroutine.create(function() coroutine.yield() end)))", 1),
    "nil among values": (
        "return select('#', coroutine.resume(coroutine.create(function(...) coroutine.yield(...) end), nil, nil))",
        3,
    ),
    "states": (
        "local co co = coroutine.create(function() coroutine.yield(coroutine.status(co)) end) local out = {coroutine.status(co)} out[2] = select(2, coroutine.resume(co)) out[3] = coroutine.status(co) coroutine.resume(co) out[4] = coroutine.status(co) return out",
        ["suspended", "running", "suspended", "dead"],
    ),
    "a resumer is normal": (
        "local outer outer = coroutine.create(function() return coroutine.wrap(function() return {coroutine.status(outer), select(2, coroutine.resume(outer)), select(2, pcall(coroutine.close, outer))} end)() end) return select(2, coroutine.resume(outer))",
        ["normal", "cannot resume non-suspended coroutine", "cannot close a normal coroutine"],
    ),
    "the main thread is normal, seen from a coroutine": (
        "local main = coroutine.running() return coroutine.wrap(function() return {coroutine.status(main), select(2, coroutine.resume(main)), select(2, pcall(coroutine.close, main))} end)()",
        ["normal", "cannot resume non-suspended coroutine", "cannot close a normal coroutine"],
    ),
    "a coroutine that resumes itself": (
        "local co co = coroutine.create(function() return coroutine.resume(co) end) return {select(2, coroutine.resume(co))}",
        [False, "cannot resume non-suspended coroutine"],
    ),
    "a dead one": (
        "local co = coroutine.create(print) coroutine.resume(co) return {coroutine.resume(co)}",
        [False, "cannot resume dead coroutine"],
    ),
    "a dead wrap": (
        "local co = coroutine.wrap(function() end) co() return select(2, pcall(co))",
        "cannot resume dead coroutine",
    ),
    "errors are results of resume": (
        "return {coroutine.resume(coroutine.create(function() error({code = 7}) end))}",
        [False, {"code": 7}],
    ),
    "errors go through wrap": ("return select(2, pcall(coroutine.wrap(function() error('e', 0) end)))", "e"),
    "error tables go through wrap as they are": (
        "local e = {} return select(2, pcall(coroutine.wrap(function() error(e) end))) == e",
        True,
    ),
    "close a suspended one": (
        "local log = {} local co = coroutine.create(function() local c <close> = setmetatable({}, {__close = function() log[1] = 'closed' end}) coroutine.yield() end) coroutine.resume(co) return {coroutine.close(co), log[1], coroutine.status(co)}",
        [True, "closed", "dead"],
    ),
    "close that fails": (
        "local co = coroutine.create(function() local c <close> = setmetatable({}, {__close = function() error('no', 0) end}) coroutine.yield() end) coroutine.resume(co) return {coroutine.close(co)}",
        [False, "no"],
    ),
    "close a dead one after an error": (
        "local co = coroutine.create(error) coroutine.resume(co, 'e') return {coroutine.close(co)}",
        [False, "e"],
    ),
    "close a new one": ("return {coroutine.close(coroutine.create(print))}", [True]),
    "close oneself": ("return select(2, pcall(coroutine.close, coroutine.running()))", "cannot close a running coroutine"),
    "yield across pcall": (
        "local co = coroutine.wrap(function() local ok, v = pcall(function() return coroutine.yield(1) + 1 end) return v end) co() return co(41)",
        42,
    ),
    "yield across metamethods": (
        "local co = coroutine.wrap(function() return setmetatable({}, {__index = function(_, k) return coroutine.yield(k) end}).key end) return {co(), co('v')}",
        ["key", "v"],
    ),
    "yield across sort": (
        "local co = coroutine.wrap(function() local t = {2, 1} table.sort(t, function(a, b) coroutine.yield('waits') return a < b end) return table.concat(t) end) return {co(), co()}",
        ["waits", "12"],
    ),
    "yield across gsub": (
        "local co = coroutine.wrap(function() return (('ab'):gsub('.', coroutine.yield)) end) return {co(), co('x'), co('y')}",
        ["a", "b", "xy"],
    ),
    "close one that is suspended in sort and gsub": (
        "local co = coroutine.create(function() table.sort({2, 1}, function() return (('x'):gsub('x', coroutine.yield)) end) end) coroutine.resume(co) return {coroutine.close(co), coroutine.status(co)}",
        [True, "dead"],
    ),
    "a function as argument": (
        "return select(2, pcall(coroutine.create, 5))",
        "bad argument #1 to 'coroutine.create' (function expected, got number)",
    ),
    "no thread": (
        "return select(2, pcall(coroutine.resume, 5))",
        "bad argument #1 to 'coroutine.resume' (thread expected, got number)",
    ),
    "permutations": (
        "local function gen(a, n) if n == 0 then coroutine.yield(table.concat(a)) else for i = 1, n do a[n], a[i] = a[i], a[n] gen(a, n - 1) a[n], a[i] = a[i], a[n] end end end local out = {} for p in coroutine.wrap(function() gen({'a', 'b', 'c'}, 3) end) do out[#out + 1] = p end return table.concat(out, ' ')",
        "bca cba cab acb bac abc",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_coroutines(lua, name):
    source, expected = PROGRAMS[name]
    assert value(run(lua, source)) == expected


@pytest.mark.parametrize(
    "source",
    [
        "coroutine.yield(1)",
        "pcall(coroutine.yield, 1) coroutine.yield()",
        "table.sort({2, 1}, coroutine.yield)",
        "('x'):gsub('x', coroutine.yield)",
    ],
)
def test_the_root_cannot_be_yielded_from(lua, source):
    assert failure(run(lua, source)).message.endswith("attempt to yield from outside a coroutine")


def test_the_main_thread_is_the_same_in_every_step_and_lives_on_after_errors(lua):
    with lua.create() as sandbox:
        sandbox.evaluate("main = coroutine.running()")
        for source in (
            "error('x')",
            "coroutine.yield()",
            "x y",
            "local c <close> = setmetatable({}, {__close = error}) error('y')",
        ):
            failure(sandbox.evaluate(source))
            assert value(sandbox.evaluate("{main == coroutine.running(), coroutine.status(main)}")) == [True, "running"]
        sandbox.evaluate("seen = coroutine.wrap(function() return coroutine.status(main) end)()")
        assert value(sandbox.evaluate("seen")) == "normal"


WATCHED = """
function look() seen = {coroutine.status(co), select(2, coroutine.resume(co)), select(2, pcall(coroutine.close, co)),
    coroutine.status(main), select(2, coroutine.resume(main)), select(2, pcall(coroutine.close, main))} end
main = coroutine.running()
co = coroutine.create(function() local v = alc.llm('x') return v .. coroutine.yield(2) end)
local keep = setmetatable({}, {__gc = look})
local junk = {} for i = 1, 60000 do junk[i] = {i} end
junk, keep = nil, nil
local _, b = coroutine.resume(co)
local _, d = coroutine.resume(co, '!')
return {b, d}
"""


def test_a_coroutine_that_waits_is_normal_and_nobody_can_resume_or_close_it(lua):
    """Seen by a finalizer, the only code that may run while an execution waits."""
    with lua.create() as sandbox:
        assert isinstance(sandbox.evaluate(WATCHED), Paused)
        image = sandbox.freeze()
    with lua.thaw(image) as sandbox:
        assert value(sandbox.resume({1: "v"})) == [2, "v!"]
        nobody = ["normal", "cannot resume non-suspended coroutine", "cannot close a normal coroutine"]
        assert value(sandbox.evaluate("seen")) == nobody * 2
        assert value(sandbox.evaluate("coroutine.status(co)")) == "dead"


def test_a_yield_of_the_scripts_own_is_no_query(lua):
    assert value(run(lua, "{coroutine.wrap(function(...) coroutine.yield(...) end)(alc.null, alc)}"))[0] is None
    source = "local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield('own' .. i) alc.llm('q' .. i) end return 'end' end) return {co(), co(), co(), co()}"
    outcome, events, _ = answered(lua, source, thawed=True)
    assert value(outcome) == ["own1", "own2", "own3", "end"]
    assert [event.payload["payload"]["prompt"] for event in events] == ["q1", "q2", "q3"]


def test_an_error_answer_ends_the_coroutine_that_asked(lua):
    source = "local co = coroutine.create(function() alc.llm('x') end) local ok, e = coroutine.resume(co) return {ok, e.code, coroutine.status(co)}"
    assert value(answered(lua, source, lambda query: Failure("m", "Z"), thawed=True)[0]) == [False, "Z", "dead"]


def test_coroutines_outlive_their_execution(lua):
    with lua.create() as sandbox:
        sandbox.evaluate(
            "co = coroutine.create(function() local n = 0 while true do n = n + 1 coroutine.yield(n .. alc.llm('q' .. n)) end end) coroutine.resume(coroutine.create(print))"
        )
        for number in (1, 2, 3):
            assert isinstance(sandbox.evaluate("return {coroutine.resume(co)}"), Paused)
            image = sandbox.freeze()
            sandbox.close()
            sandbox = lua.thaw(image)
            assert value(sandbox.resume({number: "!"})) == [True, f"{number}!"]
        sandbox.close()


def test_a_thousand_coroutines_that_take_turns(lua):
    source = """
        local tasks, done = {}, 0
        for i = 1, 1000 do tasks[i] = coroutine.wrap(function() coroutine.yield() if i % 100 == 0 then alc.llm('q' .. i) end coroutine.yield() done = done + 1 end) end
        for round = 1, 3 do for i = 1, 1000 do tasks[i]() end end
        return done
    """
    outcome, events, _ = answered(lua, source, thawed=True)
    assert value(outcome) == 1000
    assert len(events) == 10


def test_dropped_coroutines_are_collected(lua):
    assert value(
        run(
            lua,
            "for i = 1, 20000 do coroutine.wrap(function() coroutine.yield() end)() end collectgarbage() return collectgarbage('count') < 300",
        )
    )
