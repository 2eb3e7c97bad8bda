"""table.sort and string.gsub are our own where they call a function, since that may wait: the results are those of Lua's own."""

import lupa.lua54
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.sandbox import Paused
from tests.integration.lua_runs import answered, failure, run, value

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

PROGRAM = r"""
function shown(ok, ...)
  local out = {tostring(ok)}
  for i = 1, select('#', ...) do out[#out + 1] = math.type((select(i, ...))) or type((select(i, ...))) out[#out + 1] = tostring((select(i, ...))) end
  return table.concat(out, '\1')
end
REPLACE = {
  text = function() return '<%0|%1>' end,
  plain = function() return '[x]' end,
  table = function() return setmetatable({a = 'A', b = false, [1] = 'one', ab = 5}, {__index = function(_, k) return k == 'c' and 'C' or nil end}) end,
  captures = function() return function(...) local t = {} for i = 1, select('#', ...) do t[i] = tostring((select(i, ...))) end return '<' .. table.concat(t, '|') .. '>' end end,
  nothing = function() return function() end end,
  no = function() return function() return false end end,
  number = function() return function(s) return #tostring(s) + 0.5 end end,
  some = function() local n = 0 return function(s) n = n + 1 if n % 2 == 0 then return s .. n end end end,
  wrong = function() local n = 0 return function(s) n = n + 1 if n > 1 then return {} end return 'w' end end,
  raises = function() local n = 0 return function(s) n = n + 1 if n > 2 then error('E' .. tostring(s), 0) end return '' end end,
}
function gsub(subject, pattern, kind, limit) return shown(pcall(string.gsub, subject, pattern, REPLACE[kind](), limit)) end
ORDER = {
  less = function(a, b) return a < b end,
  more = function(a, b) return a > b end,
  half = function(a, b) return a // 2 < b // 2 end,
  equal = function() return false end,
  always = function() return true end,
  atmost = function(a, b) return a <= b end,
  truthy = function(a, b) return a < b and 'yes' or nil end,
  cyclic = function(a, b) return (a - b) % 3 == 1 end,
  raises = function(a, b) if a + b > 60 then error('E', 0) end return a < b end,
}
function sort(list, order)
  local numbers = {}
  for word in list:gmatch('%S+') do numbers[#numbers + 1] = math.tointeger(word) or tonumber(word) end
  local calls = {}
  local ok, message = pcall(table.sort, numbers, order ~= 'none' and function(a, b) calls[#calls + 1] = a .. ',' .. b return ORDER[order](a, b) end or nil)
  return tostring(ok) .. tostring(message) .. ':' .. table.concat(numbers, ' ') .. ':' .. table.concat(calls, ' ')
end
"""


@pytest.fixture(scope="module")
def guest(lua):
    with lua.create() as sandbox:
        value(sandbox.evaluate(PROGRAM))
        yield lambda name, *arguments: value(sandbox.call(name, *arguments))


@pytest.fixture(scope="module")
def native():
    runtime = lupa.lua54.LuaRuntime(encoding=None)
    runtime.execute(PROGRAM.encode())

    def call(name, *arguments):
        encoded = [argument.encode("latin-1") if isinstance(argument, str) else argument for argument in arguments]
        return runtime.globals()[name.encode()](*encoded)

    return call


def same(guest, native, name, *arguments):
    ours, theirs = guest(name, *arguments), native(name, *arguments)
    assert (ours.encode() if isinstance(ours, str) else ours) == theirs


KINDS = ["text", "plain", "table", "captures", "nothing", "no", "number", "some", "wrong", "raises"]
SUBJECTS = ["", "a", "abc", "hello world", "a,b,,c", "  x  ", "aaa", "THE (quick) fox", "x=1, y=2", "\0a\0", "([a])", "a\nb\n"]
PATTERNS = [
    *(
        "",
        ".",
        "%w+",
        "a*",
        "(%w)",
        "(%w)(%w)",
        "()",
        "()%w",
        "^",
        "^a",
        "^^a",
        "$",
        "a$",
        "a$b",
        "%f[%w]%w+",
        "%f[%s]",
        "%s*",
        "(a*(.)%w(%s*))",
    ),
    *(
        "%b()",
        "%bxx",
        "x-",
        "a-b",
        "^(%w)",
        "%z",
        "[^,]*",
        "[a-c]+",
        "[%a_]",
        "[]]",
        "[^]]",
        "[a-]",
        "%1",
        "(.)%1",
        "((.)(.))",
        "(())",
        "(",
        ")",
    ),
    *(
        "a)",
        "%",
        "%f",
        "%b",
        "%ba",
        "[a",
        "[%a",
        "[^",
        "(a",
        "%g+",
        "%p",
        "%x+",
        ".-",
        ".-$",
        "(.-),",
        "^%s*(.-)%s*$",
        "\0",
        "a\0)",
    ),
]


@pytest.mark.parametrize("kind", KINDS)
def test_gsub_gives_what_lua_gives(guest, native, kind):
    for subject in SUBJECTS:
        for pattern in PATTERNS:
            for limit in (None, 0, 1, 2, -1):
                same(guest, native, "gsub", subject, pattern, kind, limit)


pieces = st.sampled_from(
    [
        ".",
        "%a",
        "%d",
        "%s",
        "a",
        "b",
        "[ab]",
        "[^a]",
        "(a)",
        "(.)",
        "()",
        "%1",
        "%2",
        "(",
        ")",
        "*",
        "+",
        "-",
        "?",
        "^",
        "$",
        "%",
        "[",
        "]",
        "%f[a]",
        "%b()",
        "%z",
        "\0",
    ]
)


@SETTINGS
@given(
    subject=st.text("ab1 (),\0\n", max_size=12),
    parts=st.lists(pieces, max_size=6),
    kind=st.sampled_from(KINDS),
    limit=st.none() | st.integers(-2, 5),
)
def test_gsub_of_anything_gives_what_lua_gives(guest, native, subject, parts, kind, limit):
    same(guest, native, "gsub", subject, "".join(parts), kind, limit)


@SETTINGS
@given(
    numbers=st.lists(st.integers(-40, 40) | st.floats(-9, 9), max_size=100),
    order=st.sampled_from(["none", "less", "more", "half", "equal", "truthy", "cyclic", "always", "atmost", "raises"]),
)
def test_sort_of_anything_gives_what_lua_gives(guest, native, numbers, order):
    """The same result, even of an order that is none, and the same comparisons on the way."""
    same(guest, native, "sort", " ".join(map(str, numbers)), order)


@pytest.mark.parametrize("order", ["less", "more", "half", "equal", "truthy"])
@pytest.mark.parametrize("shape", ["i", "-i", "i % 7", "1", "i < 5000 and i or 10000 - i", "(i * 7919) % 10007"])
def test_large_arrays(lua, shape, order):
    source = (
        PROGRAM
        + f"local t, sum = {{}}, 0 for i = 1, 10000 do t[i] = {shape} sum = sum + t[i] end table.sort(t, ORDER.{order}) for i = 2, #t do if ORDER.{order}(t[i], t[i - 1]) then return i end sum = sum - t[i] end return sum - t[1]"
    )
    assert value(run(lua, source)) == 0


ERRORS = [
    "table.sort({1, 2, 3, 4, 5}, function() return true end)",
    "table.sort({1, 2}, function() error('mine') end)",
    "table.sort({1, 'x'})",
    "table.sort({1, 'x'}, function(a, b) return a < b end)",
    "table.sort(1, print)",
    "table.sort({1, 2}, 5)",
    "table.sort()",
    "table.sort(setmetatable({}, {__len = function() return math.maxinteger end}), print)",
    "table.sort(setmetatable({}, {__len = function() return 'x' end}), print)",
    "('a'):gsub('a', function() return {} end)",
    "('a'):gsub('(', function() end)",
    "('a'):gsub('%', function() end)",
    "('a)'):gsub('a)', function() end)",
    "('a'):gsub('a', '%2')",
    "('a'):gsub('a', true)",
    "string.gsub({}, 'a', print)",
    "string.gsub('a', nil, print)",
    "string.gsub('a', 'a', print, 'x')",
    "string.gsub('a', 'a')",
]


@pytest.mark.parametrize("source", ERRORS)
def test_errors_are_those_of_lua(lua, source):
    theirs = lupa.lua54.LuaRuntime().eval("function(source) return select(2, pcall(load(source, '=<repl>'))) end")
    assert failure(run(lua, source)).message == theirs(source)


def test_each_comparison_may_wait(lua):
    source = "local t = {} for i = 1, 20 do t[i] = (i * 7) % 20 end table.sort(t, function(a, b) return alc.query('less', {a, b}) end) return t"
    outcome, events, _ = answered(lua, source, lambda query: query.payload[0] < query.payload[1], thawed=True)
    assert value(outcome) == list(range(20))
    assert len(events) > 20


def test_a_sort_by_answers_that_make_no_order_ends(lua):
    source = "local t = {} for i = 1, 50 do t[i] = i end return select(2, pcall(table.sort, t, function(a, b) return alc.query('less', {a, b}) end))"
    assert value(answered(lua, source, lambda query: True)[0]) == "invalid order function for sorting"


def test_a_list_that_changes_while_its_sort_waits(lua):
    source = "local t = {5, 3, 4, 1, 2} table.sort(t, function(a, b) t[#t] = nil local less = alc.query('less', {a, b}) return less end) return 'ended'"
    with lua.create() as sandbox:
        outcome, rounds = sandbox.evaluate(source), 0
        while isinstance(outcome, Paused):
            rounds += 1
            outcome = sandbox.resume({rounds: rounds % 2 == 0})
        assert rounds < 100
        assert value(sandbox.evaluate("1")) == 1


def test_each_replacement_may_wait(lua):
    source = "return {('one two  three'):gsub('(%w)(%w*)', function(first, rest) return alc.llm(first .. '-' .. rest) end)}"
    outcome, _, _ = answered(lua, source, lambda query: query.payload["prompt"].upper() if query.id != 2 else None, thawed=True)
    assert value(outcome) == ["O-NE two  T-HREE", 3]


def test_replacements_of_a_large_text(lua):
    assert (
        value(
            run(
                lua,
                "local s, n = ('ab'):rep(100000):gsub('a', function() return 'xyz' end) return #s .. ' ' .. n .. ' ' .. s:sub(-4)",
            )
        )
        == "400000 100000 xyzb"
    )
    assert value(run(lua, "local s = ('x'):rep(100000) return (s:gsub('y', function() error('never') end)) == s"))


def test_collections_at_every_call_change_nothing(lua):
    sort = "local t = {} for i = 1, 60 do t[i] = {n = (i * 37) % 61} end table.sort(t, function(a, b) collectgarbage() return a.n < b.n end) local out = {} for i, item in ipairs(t) do out[i] = item.n end return out"
    assert value(run(lua, sort)) == list(range(1, 61))
    gsub = "return (('ab'):rep(20):gsub(('('):rep(1) .. 'a' .. ')', function(a) collectgarbage() return a .. #a end))"
    assert value(run(lua, gsub)) == "a1b" * 20
