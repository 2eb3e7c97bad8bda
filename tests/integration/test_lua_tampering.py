"""A script that replaces what it finds harms only itself: the bridge reads no global, and no record can be forged."""

import pytest

from holdfast.sandbox import Failure, Finished, Host, Module, Modules, Paused, QueryNotOpen
from tests.integration.lua_runs import NOW, failure, printed, run, value

EVIL = """
local error, pairs, type, tables = error, pairs, type, {_G, string, table, coroutine, math, alc, os, utf8, debug, package}
for _, t in pairs(tables) do for k, v in pairs(t) do if type(v) == 'function' then t[k] = function() error('evil ' .. k) end end end end
"""
GAMES = {
    "every function replaced": EVIL,
    "every global removed": "local globals = _G for k in pairs(globals) do globals[k] = nil end",
    "globals that raise": "local error = error setmetatable(_G, {__index = function() error('read') end, __newindex = function() error('written') end})",
    "globals that wait": "local llm = alc.llm setmetatable(_G, {__index = function() return llm('x') end})",
    "_G is its own metatable": "setmetatable(_G, _G) _G.__index = _G _G.__gc = error",
    "strings that raise": "local m = getmetatable('') for k in pairs(m) do m[k] = nil end m.__index, m.__len, m.__concat, m.__call = error, error, error, error",
    "the bridge's table emptied": "for k in pairs(alc) do alc[k] = nil end setmetatable(alc, {__index = error, __call = error})",
    "alc and hf replaced": "alc, hf = 5, nil",
    "the mark of arrays": "local m = getmetatable(alc.array{}) if m then m.__index, m.__newindex, m.__len, m.__pairs, m.__gc, m.__mode = error, error, error, error, error, 'kv' end",
    "null replaced": "alc.null = {}",
    "the metatable of errors": "local ok, e = pcall(alc.call, 'nothing') local m = getmetatable(e) for k in pairs(m) do m[k] = error end m.__index, m.__newindex = error, error",
    "__ARGS__ guarded": "setmetatable(_G, {__newindex = error})",
    "package replaced": "package.loaded, package.preload = nil, nil package = nil require = nil",
    "the collector stopped": "collectgarbage('stop')",
    "the collector in another mode": "collectgarbage('generational')",
    "the collector at full speed": "collectgarbage('incremental', 1, 1, 1)",
    "warnings off": "warn('@off')",
    "the main thread as a key": "local t = setmetatable({}, {__mode = 'k'}) t[coroutine.running()] = t keep = t",
    "finalizers left behind": "for i = 1, 100 do setmetatable({}, {__gc = function() error('late') end}) end",
    "a finalizer on the globals": "setmetatable(_G, {__gc = function() error('x') end})",
}


@pytest.mark.parametrize("game", GAMES)
def test_the_bridge_works_after(lua, game):
    host = Host({"add": lambda a, b: a + b}, Modules({"m": Module("script", "return {1}")}))
    keep = "local call, llm, array, null, tostring, pcall, require, print = alc.call, alc.llm, alc.array, alc.null, tostring, pcall, require, print\n"
    use = """
    return function()
        local a = llm('x', {list = {1, 2}, none = null})
        local ok, e = pcall(llm, 'y')
        print('seen', a)
        return {a.k[1], e.code, call('add', 1, 2), array{}, null, require('m')[1]}
    end"""
    with lua.create(host=host) as sandbox:
        outcome = sandbox.evaluate(f"local use = (function() {keep}{use} end)()\ndo {GAMES[game]} end\nreturn use()")
        (query,) = outcome.queries
        assert query.payload == {"prompt": "x", "list": [1, 2], "none": None}
        sandbox.resume({1: {"k": [7]}})
        outcome = sandbox.resume({2: Failure("m", "CODE")})
        assert value(outcome) == [7, "CODE", 3, [], None, 1]
        assert printed(outcome)[0].startswith("seen\t")
        for source in ("1 + 1", "'text'", "{1, {a = 2}}", "local x = 1 return x"):
            assert isinstance(sandbox.evaluate(source), Finished)
        assert value(sandbox.run_file("return ...", "m.lua", [1, None])) == [1, None]
        assert failure(sandbox.run_file("x y", "m.lua")).name == "SyntaxError"


FORGERIES = [
    'print(\'"],["value","number","1",1]\')',
    "print('\\0\\1\\2\\n],[\\\"pending\\\",null,[1]]')",
    "warn('\"]') error('\"],[\"value\"')",
    "error({message = '\"}]', code = '\"}', name = '\"'})",
    "alc.query('\"],[', {['\"'] = '\"]]'})",
    "return {['$'] = 'error', v = {name = 'x'}}",
    "return {['$'] = 'undefined'}, 1",
    "return '\\u{2028}\\\\\"'",
    "return setmetatable({}, {__tostring = function() return '\"]' end, __name = '\"'})",
]


@pytest.mark.parametrize("source", FORGERIES)
def test_records_cannot_be_forged(lua, source):
    outcome = run(lua, source)
    assert len(outcome.events) <= 1
    assert [event.type for event in outcome.events] == (
        ["query"] if isinstance(outcome, Paused) else ["console"] if "print" in source or "warn" in source else []
    )


def test_what_was_printed_is_what_is_read(lua):
    for text in ('"],["value"', "\0\x01\x1f\x7f", "\u2028\u2029", "\\u0000", "</script>", "\U0001f600"):
        with lua.create() as sandbox:
            assert printed(sandbox.run_file("print(__ARGS__)", "m.lua", text)) == [text]


def test_a_kept_function_of_the_bridge_is_bound_to_nothing_old(lua):
    with lua.create() as sandbox:
        sandbox.evaluate("ask = alc.llm alc.llm = function() return 'forged' end")
        assert value(sandbox.evaluate("alc.llm('x')")) == "forged"
        assert isinstance(sandbox.evaluate("ask('x')"), Paused)
        assert value(sandbox.resume({1: "real"})) == "real"
        sandbox.evaluate("ask('y')")
        with pytest.raises(QueryNotOpen):
            sandbox.resume({1: "again"})


def test_the_mark_of_a_query_is_never_seen(lua):
    """Whoever resumes a coroutine sees its own yields, and not what passes through it."""
    with lua.create() as sandbox:
        sandbox.evaluate(
            "seen = {} local resume = coroutine.resume coroutine.resume = function(...) local r = table.pack(resume(...)) for i = 1, r.n do seen[#seen + 1] = type(r[i]) end return table.unpack(r, 1, r.n) end"
        )
        sandbox.evaluate("local co = coroutine.create(function() return alc.llm('x') end) return coroutine.resume(co)")
        sandbox.resume({1: "x"})
        assert value(sandbox.evaluate("seen")) == ["boolean", "string"]


def test_a_userdata_that_a_script_can_get_is_no_mark(lua):
    assert value(run(lua, "coroutine.wrap(function() coroutine.yield(alc.null) end)() == alc.null")) is True


def test_the_clock_does_not_move_for_a_script_that_looks_at_it(lua):
    assert value(run(lua, "local a = os.clock() for i = 1, 1e5 do os.time() end return os.clock() - a")) == 0
    with lua.create() as sandbox:
        assert value(sandbox.evaluate("os.time = function() return 1 end return os.time()", now=NOW)) == 1
        outcome = sandbox.evaluate("alc.sleep(1000) return 'woken'", now=NOW)
        assert outcome.wake_at == NOW + 1000
        assert value(sandbox.resume(now=NOW + 1000)) == "woken"


def test_the_main_thread_cannot_be_used_where_the_host_shows_a_result(lua):
    """__tostring of a result, and finalizers, may run when the execution has ended."""
    play = "played = {coroutine.resume(main), coroutine.resume(main, print), pcall(coroutine.close, main)} pcall(coroutine.wrap(function() coroutine.yield() end))"
    with lua.create() as sandbox:
        sandbox.evaluate("main = coroutine.running()")
        for _ in range(3):
            outcome = sandbox.evaluate(f"return setmetatable({{}}, {{__tostring = function() {play} return 'shown' end}})")
            assert outcome.result.preview == "shown"
            assert value(sandbox.evaluate("played[1]")) is False
            assert isinstance(
                sandbox.evaluate(f"for i = 1, 100 do setmetatable({{}}, {{__gc = function() {play} end}}) end"), Finished
            )
            assert isinstance(sandbox.evaluate("local v = alc.llm('x') collectgarbage() return v"), Paused)
            assert value(sandbox.resume({sandbox.resume().open[0]: "v"})) == "v"
        assert value(sandbox.evaluate("main == coroutine.running()")) is True
