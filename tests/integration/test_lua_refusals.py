"""Below a C function that cannot wait a query is refused at the call: an error that a script may catch, and nothing is asked."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Failed, Finished, Paused
from tests.integration.lua_runs import answered, failure, printed, run, value

PRELUDE = """
refused = {}
function Q() local ok, e = pcall(alc.llm, 'x') refused[#refused + 1] = e.code error(e, 0) end
function with(event, f) return setmetatable({}, {[event] = f or Q}) end
"""
ASKED = "alc.llm('x') return 1"

PLACES = {
    "tostring": "tostring(with('__tostring'))",
    "print": "print(with('__tostring'))",
    "string.format": "string.format('%s', with('__tostring'))",
    "__name and __tostring": "tostring(setmetatable({}, {__name = 'N', __tostring = Q}))",
    "a reader of load": "assert(load(Q))",
    "a message handler": "xpcall(error, Q)",
    "coroutine.close": "local co = coroutine.create(function() local c <close> = with('__close') coroutine.yield() end) coroutine.resume(co) assert(coroutine.close(co))",
    "wrap that closes after an error": "coroutine.wrap(function() local c <close> = with('__close') error('e') end)()",
    "table.concat with __index": "table.concat(setmetatable({}, {__index = Q, __len = function() return 1 end}))",
    "table.concat with __len": "table.concat(with('__len'))",
    "table.insert": "table.insert(with('__len'), 1)",
    "table.insert with __newindex": "table.insert(with('__newindex'), 1)",
    "table.remove": "table.remove(with('__len'))",
    "table.move": "table.move(with('__index'), 1, 2, 3)",
    "table.unpack": "table.unpack(with('__index'), 1, 1)",
    "ipairs": "for i, v in ipairs(with('__index')) do end",
    "sort by __lt": "local m = {__lt = Q} table.sort{setmetatable({}, m), setmetatable({}, m)}",
    "sort of a proxy": "table.sort(setmetatable({}, {__index = Q, __len = function() return 2 end}), function(a, b) return false end)",
    "gsub with a table": "('x'):gsub('x', with('__index'))",
    "a coroutine below C": "tostring(with('__tostring', function() return coroutine.wrap(Q)() end))",
    "coroutines in a coroutine below C": "tostring(with('__tostring', function() return coroutine.wrap(function() return coroutine.wrap(Q)() end)() end))",
    "C below a coroutine": "coroutine.wrap(function() tostring(with('__tostring')) end)()",
    "a sort below C": "tostring(with('__tostring', function() table.sort({2, 1}, Q) end))",
    "pcall below C": "tostring(with('__tostring', function() select(2, pcall(Q)) return '' end))",
    "require of a module below C": "package.preload.m = Q tostring(with('__tostring', function() require 'm' end))",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_query_is_refused_in(lua, place):
    with lua.create() as sandbox:
        sandbox.evaluate(PRELUDE)
        outcome = sandbox.evaluate(PLACES[place])
        assert isinstance(outcome, Finished | Failed)
        assert [event.type for event in outcome.events] in ([], ["console"])
        assert set(value(sandbox.evaluate("refused"))) == {"QUERY_NOT_ALLOWED_HERE"}
        assert isinstance(sandbox.evaluate(ASKED), Paused)
        assert value(sandbox.resume({1: "x"})) == 1


KINDS = [
    "alc.llm('x')",
    "alc.query('k')",
    "alc.ask('q')",
    "alc.approve('q')",
    "alc.tool('t')",
    "alc.sleep(5)",
    "alc.llm_batch{'a'}",
    "alc.query_batch{{kind = 'k'}}",
]


@pytest.mark.parametrize("query", KINDS)
def test_every_kind_of_waiting_is_refused_at_the_call(lua, query):
    error = failure(
        run(lua, f"local t = setmetatable({{}}, {{__tostring = function()\n return {query} end}})\nreturn tostring(t) .. ''")
    )
    assert error.code == "QUERY_NOT_ALLOWED_HERE"
    assert "a query cannot wait here" in error.message
    assert error.stack.splitlines()[2].startswith("\t<repl>:2: in ")


def test_what_does_not_wait_is_allowed_there(lua):
    assert (
        value(
            run(
                lua,
                "local t = setmetatable({}, {__tostring = function() alc.sleep(0) return #alc.query_batch{} .. '' end}) return tostring(t) .. '!'",
            )
        )
        == "0!"
    )


def test_the_refusal_can_be_caught_and_the_query_asked_elsewhere(lua):
    source = "local text = setmetatable({}, {__tostring = function() local ok, e = pcall(alc.llm, 'x') return ok and 'no' or e.code end}) local code = tostring(text) return code .. ' ' .. alc.llm('y')"
    outcome, events, _ = answered(lua, source)
    assert value(outcome) == "QUERY_NOT_ALLOWED_HERE a1"
    assert [event.payload["payload"] for event in events] == [{"prompt": "y"}]


FINALIZER = "setmetatable({}, {__gc = function() local ok, e = pcall(alc.llm, 'x') code = e.code end})"


@pytest.mark.parametrize(
    "source",
    [
        FINALIZER + " collectgarbage()",
        FINALIZER + " for i = 1, 200000 do local t = {} end",
        f"coroutine.wrap(function() {FINALIZER} collectgarbage() end)()",
        f"local c <close> = setmetatable({{}}, {{__close = function() {FINALIZER} collectgarbage() end}})",
    ],
)
def test_finalizers_cannot_ask(lua, source):
    with lua.create() as sandbox:
        assert isinstance(sandbox.evaluate(source), Finished)
        assert value(sandbox.evaluate("code")) == "QUERY_NOT_ALLOWED_HERE"


def test_a_finalizer_that_asks_between_steps_or_while_the_script_waits_is_refused(lua):
    with lua.create() as sandbox:
        sandbox.evaluate(
            "codes = {} function drop() setmetatable({}, {__gc = function() local ok, e = pcall(alc.llm, 'x') codes[#codes + 1] = e.code end}) end"
        )
        for _ in range(30):
            sandbox.evaluate("for i = 1, 100 do drop() end junk = {} for i = 1, 3000 do junk[i] = {i} end")
        outcome = sandbox.evaluate(
            "for i = 1, 100 do drop() end collectgarbage() for i = 1, 100 do drop() end return alc.llm('real')"
        )
        assert [query.payload for query in outcome.queries] == [{"prompt": "real"}]
        assert value(sandbox.resume({1: "A"})) == "A"
        assert set(value(sandbox.evaluate("codes"))) == {"QUERY_NOT_ALLOWED_HERE"}


def test_a_finalizer_cannot_yield_either(lua):
    source = "setmetatable({}, {__gc = function() ok, message = pcall(coroutine.yield, 1) end}) coroutine.wrap(function() collectgarbage() end)() return {ok, message}"
    assert value(run(lua, source)) == [False, "attempt to yield across a C-call boundary"]


def test_yields_below_c_are_the_errors_that_lua_has(lua):
    source = (
        "coroutine.wrap(function() return select(2, pcall(tostring, setmetatable({}, {__tostring = coroutine.yield}))) end)()"
    )
    assert value(run(lua, source)) == "attempt to yield across a C-call boundary"


def test_a_preview_cannot_ask(lua):
    outcome = run(lua, "return setmetatable({1}, {__tostring = function() print('tried') return alc.llm('x') end})")
    assert outcome.result.preview == "{1}"
    assert printed(outcome) == ["tried"]


def test_queries_that_are_refused_do_not_count(lua):
    source = PRELUDE + "for i = 1, 50 do pcall(tostring, with('__tostring')) end return #refused"
    assert value(run(lua, source, limits=Limits(max_suspensions=1, max_events=1))) == 50
