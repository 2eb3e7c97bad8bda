"""Hostile Lua: each program ends in a typed outcome, and the process goes on."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain import Limit, Limits
from holdfast.sandbox import Breached, Failed, Finished, Paused
from tests.integration.lua_runs import breach, failure, run, value

RECURSION = {
    "calls": "local function f() return 1 + f() end f()",
    "calls, caught": "pcall(function() local function f() return 1 + f() end f() end) return 'survived'",
    "calls with more and more arguments": "local function f(...) return 1 + f(1, ...) end f()",
    "pcall": "local function f() return pcall(f) end f()",
    "pcall, not as a tail": "local function f() pcall(f) return 1 end f()",
    "xpcall": "local function f() return xpcall(f, f) end f()",
    "__index": "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. 'x'] end return t.x",
    "__newindex": "local t = setmetatable({}, {}) getmetatable(t).__newindex = function(t, k, v) t[k] = v end t.x = 1",
    "__call": "local t = setmetatable({}, {}) getmetatable(t).__call = function(self) return 1 + self() end t()",
    "__add": "local t = setmetatable({}, {}) getmetatable(t).__add = function(a, b) return a + b end return t + 1",
    "__eq": "local m = {} m.__eq = function() return setmetatable({}, m) == setmetatable({}, m) end return setmetatable({}, m) == setmetatable({}, m)",
    "__concat": "local t = setmetatable({}, {}) getmetatable(t).__concat = function(a, b) return a .. b end return t .. 1",
    "__close": "local function f() local c <close> = setmetatable({}, {__close = f}) end f()",
    "__pairs": "local t = setmetatable({}, {}) getmetatable(t).__pairs = function(t) return pairs(t) end pairs(t)",
    "tostring": "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return tostring(t) end return tostring(t) .. 'x'",
    "string.format": "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return string.format('%s', t) end return tostring(t) .. 'x'",
    "gsub": "local function f() return (('x'):gsub('x', f)) end f()",
    "gsub with a table": "local t = setmetatable({}, {}) getmetatable(t).__index = function() return (('x'):gsub('x', t)) end return t.x",
    "sort": "local function f() table.sort({1, 2, 3}, f) return false end f()",
    "sort, going on": "local function f(a, b) table.sort({2, 1}, f) return a < b end table.sort({2, 1}, f)",
    "wrap": "local function f() return coroutine.wrap(f)() end f()",
    "resume": "local function f() return coroutine.resume(coroutine.create(f)) end f()",
    "coroutine.close": "local function f() local co = coroutine.create(function() local c <close> = setmetatable({}, {__close = f}) coroutine.yield() end) coroutine.resume(co) coroutine.close(co) end f()",
    "load": "local function f() return load(f) end f()",
    "parentheses": "return load('return ' .. ('('):rep(1000) .. '1' .. (')'):rep(1000))",
    "tables": "return load('return ' .. ('{'):rep(1000) .. ('}'):rep(1000))",
    "blocks": "return load(('do '):rep(1000) .. ('end '):rep(1000))",
    "functions": "return load(('local f = function() '):rep(1000) .. ('end '):rep(1000))",
    "not": "return load('return ' .. ('not '):rep(100000) .. '1')",
    "concatenation": "return load('return ' .. ('1 .. '):rep(100000) .. '1')",
    "powers": "return load('return ' .. ('2 ^ '):rep(100000) .. '1')",
}


@pytest.mark.parametrize("kind", RECURSION)
def test_recursion_is_a_breach_of_the_stack(lua, kind):
    assert breach(lua, RECURSION[kind]) is Limit.STACK
    assert breach(lua, RECURSION[kind], stack_kb=64) is Limit.STACK
    assert breach(lua, RECURSION[kind], stack_kb=1536, mem_mb=512) is Limit.STACK


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("local t = {} for i = 1, 3000 do t = setmetatable({}, {__index = t}) end return t.x", "'__index' chain too long"),
        ("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", "'__index' chain too long"),
        ("local t = setmetatable({}, {}) getmetatable(t).__newindex = t t.x = 1", "'__newindex' chain too long"),
        ("package.preload.x = function() return require 'x' end require 'x'", "being loaded"),
        ("('a'):rep(300000):find(('a?'):rep(300000) .. 'b')", "pattern too complex"),
        ("('x'):rep(300):find(('(.-)'):rep(40))", "too many captures"),
        ("(('x'):rep(250000)):match(('(x'):rep(20) .. (')'):rep(20) .. ('.-'):rep(5000) .. 'y')", "pattern too complex"),
        ("('x'):rep(1e10)", "resulting string too large"),
        ("('x'):rep(1 << 62, 'y')", "resulting string too large"),
        ("string.format('%1000d', 1)", "invalid conversion"),
        ("string.format('%.1000f', 1)", "invalid conversion"),
        ("string.format('%', 1)", "invalid conversion"),
        ("string.format('%y', 1)", "invalid conversion"),
        ("string.pack('i17', 1)", "out of limits"),
        ("string.pack('s1', ('x'):rep(300))", "does not fit"),
        ("string.unpack('z', 'abc')", "unfinished string"),
        ("table.unpack({}, 1, 1e8)", "too many results to unpack"),
        ("table.unpack({}, math.mininteger, math.maxinteger)", "too many results to unpack"),
        ("string.byte(('x'):rep(1e7), 1, -1)", "string slice too long"),
        ("select(math.mininteger)", "index out of range"),
        ("table.concat({1, {}, 3})", "at index 2 in table for 'concat'"),
        ("table.insert({}, 5, 1)", "position out of bounds"),
        ("table.move({}, 1, math.maxinteger, 2)", "destination wrap around"),
        ("utf8.char(-1)", "value out of range"),
        ("utf8.codepoint('\\xff')", "invalid UTF-8 code"),
        ("next({}, 'nothing')", "invalid key to 'next'"),
        ("setmetatable({}, {__index = function() end})[nil] = 1", "index is nil"),
        ("({})[0/0] = 1", "index is NaN"),
        ("rawset({}, nil, 1)", "index is nil"),
        ("math.random(0, math.mininteger)", "interval is empty"),
        ("setmetatable(setmetatable({}, {__metatable = 1}), {})", "cannot change a protected metatable"),
        ("math.tointeger(2^53) << 64 | 1.5", "number has no integer representation"),
        ("tostring()", "value expected"),
        ("local a <close> = 1", "variable 'a' got a non-closable value"),
        ("load(('x = 1 '):rep(10) .. ('local a '):rep(201))()", "attempt to call a nil value"),
        ("collectgarbage('nonsense')", "invalid option"),
    ],
)
def test_what_lua_refuses_is_an_ordinary_error(lua, source, message):
    with lua.create() as sandbox:
        assert message in failure(sandbox.evaluate(source)).message
        sandbox.evaluate(
            "function try(source) return tostring(select(2, pcall(load('return ' .. source) or load(source)))) end"
        )
        assert message in value(sandbox.call("try", source))


MEMORY = {
    "rep": "('x'):rep(1e9)",
    "rep, caught": "pcall(string.rep, 'x', 1e9) return 1",
    "rep of rep": "('x'):rep(1e4):rep(1e4)",
    "rep in a coroutine": "coroutine.wrap(function() return ('x'):rep(1e9) end)()",
    "table": "local t = {} for i = 1, 1e9 do t[i] = i end",
    "hash table": "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
    "tables, caught": "pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end) return 1",
    "strings": "local t = {} for i = 1, 1e9 do t[#t + 1] = ('x'):rep(1000) .. i end",
    "doubling": "local s = 'x' while true do s = s .. s end",
    "table.concat of millions": "local t = {} for i = 1, 100 do t[i] = ('x'):rep(1e6) end return table.concat(t)",
    "closures": "local t for i = 1, 1e9 do local u = t t = function() return u end end",
    "gsub": "(('x'):rep(1e6):gsub('x', ('y'):rep(1000)))",
    "gsub with a function": "(('x'):rep(1e6):gsub('x', function() return ('y'):rep(1000) end))",
    "coroutines": "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(print) end",
    "string.format": "string.format('%s%s%s%s', ('x'):rep(5e6), ('x'):rep(5e6), ('x'):rep(5e6), ('x'):rep(5e6))",
    "string.pack": "local s = ('x'):rep(8e6) return string.pack('s4s4s4', s, s, s)",
    "a large result": "local t = {} for i = 1, 1e6 do t[i] = 'abcdefghij' end return t",
    "a source of its own": "return load(('x = x + 1 '):rep(2e6))",
    "finalizers that make more": "local function more() return setmetatable({('x'):rep(1e5)}, {__gc = function() more() more() end}) end more() while true do collectgarbage() end",
    "weak tables with strong values": "local w = setmetatable({}, {__mode = 'k'}) while true do w[{}] = ('x'):rep(1000) .. #w keep = {keep, w} for k in pairs(w) do keep = {keep, k} end end",
    "table.pack": "local t = {} while true do t[#t + 1] = table.pack(table.unpack(t, 1, math.min(#t, 100))) end",
    "utf8.char": "local t = {} while true do t[#t + 1] = utf8.char(table.unpack(utf8.codepoint and {65, 66, #t}, 1, 3)) .. ('y'):rep(5000) end",
    "traceback": "local s = '' while true do s = debug.traceback(s .. s .. 'x') end",
    "print of much": "print(('x'):rep(2e7))",
}


@pytest.mark.parametrize("kind", MEMORY)
def test_memory_bombs_are_breaches(lua, kind):
    assert breach(lua, MEMORY[kind], mem_mb=24) in (Limit.MEMORY, Limit.OUTPUT)


def test_garbage_is_no_breach(lua):
    limits = Limits(mem_mb=24, cpu_ms=20_000, wall_ms=20_000)
    assert value(run(lua, "for i = 1, 400 do local s = ('x'):rep(100000) .. i end return 'ok'", limits=limits)) == "ok"
    assert value(run(lua, "local s for i = 1, 10 do s = nil s = ('x'):rep(5e6 + i) end return #s", limits=limits)) == 5000010


def test_the_text_of_the_memory_error_is_no_breach(lua):
    assert failure(run(lua, "error('not enough memory', 0)")).message == "not enough memory"


ENDLESS = {
    "goto": "::again:: goto again",
    "while": "while true do end",
    "repeat": "repeat until false",
    "numeric for": "for i = 1, math.huge do end",
    "tail calls": "local function f() return f() end f()",
    "caught": "while true do pcall(error) end",
    "coroutines": "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
    "an iterator": "for _ in function() return 1 end do end",
    "a pattern": "(('a'):rep(200000)):find('.-.-.-.-b')",
    "gsub": "(('a'):rep(200000)):gsub('a*a*a*b', '')",
    "gmatch": "for _ in (('a'):rep(100000)):gmatch('a*a*b') do end",
    "sort": "local n = 0 table.sort(setmetatable({}, {__len = function() return 1e9 end, __index = function() n = n + 1 return n end, __newindex = function() end}), function(a, b) return a < b end)",
    "a sort without a function": "table.sort(setmetatable({}, {__len = function() return 1e9 end, __index = function(_, i) return i end, __newindex = function() end}))",
    "table.concat": "table.concat(setmetatable({}, {__len = function() return math.maxinteger end, __index = function() return '' end}))",
    "table.move": "table.move({}, 1, math.maxinteger - 1, 1)",
    "table.remove": "table.remove(setmetatable({}, {__len = function() return math.maxinteger end}), 1)",
    "a close that never ends": "local c <close> = setmetatable({}, {__close = function() while true do end end}) error('x')",
    "a finalizer": "setmetatable({}, {__gc = function() while true do end end}) collectgarbage()",
    "a message handler": "xpcall(error, function() while true do end end)",
    "a reader": "load(function() return ' ' end)",
    "many garbage collections": "while true do collectgarbage() end",
    "rep of nothing": "while true do (''):rep(1e9) end",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_endless_loops_are_breaches_of_the_time(lua, kind):
    outcome = run(lua, ENDLESS[kind], limits=Limits(wall_ms=100))
    assert isinstance(outcome, Breached), outcome
    assert outcome.breach.limit in (Limit.WALL, Limit.MEMORY)
    assert outcome.breach.limit is Limit.MEMORY or outcome.breach.actual < 1000


def test_huge_sources(lua):
    limits = Limits(mem_mb=256, wall_ms=20_000, cpu_ms=20_000)
    assert value(run(lua, "x = 1 " * 200_000 + "return x", limits=limits)) == 1
    assert value(run(lua, "-- " + "x" * 5_000_000, limits=limits)) is None
    assert value(run(lua, "return #'" + "x" * 5_000_000 + "'", limits=limits)) == 5_000_000
    assert value(run(lua, "return #{" + "1," * 300_000 + "}", limits=limits)) == 300_000
    assert "too many local variables" in failure(run(lua, "local a " * 300, limits=limits)).message
    assert isinstance(run(lua, "x" * 5_000_000, limits=limits), Finished | Failed)
    assert isinstance(run(lua, "x = 1 " * 2_000_000, limits=Limits(mem_mb=16)), Breached)


@pytest.mark.parametrize(
    "opening",
    [
        "(",
        "{",
        "[",
        "do ",
        "function() ",
        "if x then ",
        "f(",
        "a.",
        "- ",
        "not ",
        "x = function() ",
        "'",
        "[[",
        "--[[",
        "while 1 do ",
        "x[",
        "{{},",
    ],
)
def test_sources_nested_deep(lua, opening):
    """The parser's recursion is limited, on the host's own thread too."""
    outcome = run(lua, opening * 100_000, limits=Limits(mem_mb=64))
    assert isinstance(outcome, Failed | Breached)


def test_deep_recursion_within_the_limit_works(lua):
    down = "local function down(n) if n == 0 then return 0 end return 1 + down(n - 1) end return down({})"
    assert value(run(lua, down.format(4000))) == 4000
    assert breach(lua, down.format(4000), stack_kb=64) is Limit.STACK


def test_a_lower_limit_than_the_stack_that_waits_lets_it_go_on(lua):
    with lua.create() as sandbox:
        sandbox.evaluate("local function f(n) if n == 0 then alc.llm('x') return 0 end return 1 + f(n - 1) end return f(4000)")
        image = sandbox.freeze()
    with lua.thaw(image, limits=Limits(stack_kb=64)) as sandbox:
        assert value(sandbox.resume({1: "x"})) == 4000


WORDS = """local x t f = ( ) { } [ ] .. ... . , ; : + - * / // % ^ # & | ~ << >> == ~= < <= > >= and or not if then else end for in do while repeat until
function return break goto :: 1 0x1p4 1e308 'a' "b" [[c]] nil true <close> <const> error pcall alc.llm alc.null coroutine.wrap tostring setmetatable
table.sort string.gsub load collectgarbage print _G _ENV"""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    source=st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    | st.lists(st.sampled_from(WORDS.split()), max_size=30).map(" ".join)
)
def test_any_text_ends_in_an_outcome(lua, source):
    outcome = run(lua, source, limits=Limits(wall_ms=200, mem_mb=16, max_events=100))
    assert isinstance(outcome, Finished | Failed | Paused | Breached)
