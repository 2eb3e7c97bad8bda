"""What a person sees of a result or an error: type, preview, message, code and traceback."""

import pytest

from holdfast.domain import Limit, Limits
from holdfast.sandbox import Failed, Paused
from holdfast.sandbox.values import Opaque
from tests.integration.lua_runs import answered, breach, failure, run, value

ELLIPSIS = "\u2026"
LONGEST = 2000

RESULTS = {
    "nil": ("nil", "nil"),
    "true": ("boolean", "true"),
    "42": ("number", "42"),
    "3.0": ("number", "3.0"),
    "-0.0": ("number", "-0.0"),
    "1e100": ("number", "1e+100"),
    "math.huge": ("number", "inf"),
    "'a\\nb'": ("string", "a\nb"),
    "''": ("string", ""),
    "{}": ("table", "{}"),
    "{1, 'x\\n\"', a = 1, ['b c'] = true}": ("table", '{1, "x\\n\\"", a = 1, ["b c"] = true}'),
    "{[1] = 1, [3] = 3}": ("table", "{1, [3] = 3}"),
    "{a = {b = {c = {d = 1}}}}": ("table", f"{{a = {{b = {{c = {{{ELLIPSIS}}}}}}}}}"),
    "(function() local t = {} t.t = t return t end)()": ("table", f"{{t = {{t = {{t = {{{ELLIPSIS}}}}}}}}}"),
    "alc.null": ("userdata", "null"),
    "{alc.null}": ("table", "{null}"),
    "setmetatable({}, {__tostring = function() return 'mine' end})": ("table", "mine"),
    "setmetatable({}, {__name = 'Account'})": ("table", "{}"),
}


@pytest.mark.parametrize("source", RESULTS)
def test_type_and_preview(lua, source):
    result = run(lua, source).result
    assert (result.type, result.preview) == RESULTS[source]


@pytest.mark.parametrize(
    ("source", "kind"), [("print", "function"), ("function() end", "function"), ("coroutine.create(print)", "thread")]
)
def test_what_cannot_leave_has_a_type_and_a_preview(lua, source, kind):
    result = run(lua, f"({source})").result
    assert result.as_dict() == {"type": kind, "preview": result.preview}
    assert result.preview.startswith(f"{kind}: ")
    assert not result.has_json


@pytest.mark.parametrize(
    "source",
    [
        "('x'):rep(5000)",
        "('\\u{20ac}'):rep(5000)",
        "(function() local t = {} for i = 1, 5000 do t[i] = i end return t end)()",
        "setmetatable({}, {__tostring = function() return ('\\u{e9}'):rep(5000) end})",
        "{('x'):rep(5000)}",
        "{[('x'):rep(5000)] = 1}",
    ],
)
def test_previews_are_capped(lua, source):
    preview = run(lua, source).result.preview
    assert preview.endswith(ELLIPSIS)
    assert LONGEST - 10 <= len(preview.encode()) <= LONGEST


FAILING = [
    "error('no')",
    "return {}",
    "return nil",
    "error()",
    "return alc.llm('x')",
    "coroutine.yield()",
    "alc.call('nothing')",
    "setmetatable({}, {__gc = error}) error({})",
]


@pytest.mark.parametrize("body", FAILING)
def test_a_tostring_that_fails_does_not_break_the_result(lua, body):
    outcome = run(lua, f"setmetatable({{1, a = 2}}, {{__tostring = function() {body} end}})")
    assert (outcome.result.type, outcome.result.preview) == ("table", "{1, a = 2}")
    error = failure(run(lua, f"error(setmetatable({{1, a = 2}}, {{__tostring = function() {body} end}}))"))
    assert error.message == "{1, a = 2}"


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("while true do end", Limit.WALL),
        ("return tostring(self)", Limit.STACK),
        ("return ('x'):rep(1e9)", Limit.MEMORY),
        ("while true do print('x') end", Limit.EVENTS),
    ],
)
def test_a_tostring_without_end_is_a_breach(lua, body, limit):
    source = f"setmetatable({{}}, {{__tostring = function(self) {body} end}})"
    limits = {"wall_ms": 200, "mem_mb": 32, "max_events": 100}
    assert breach(lua, source, **limits) is limit
    assert breach(lua, f"error({source})", **limits) is limit


ERRORS = {
    "error('boom')": ("error", "<repl>:1: boom", None),
    "error('boom', 0)": ("error", "boom", None),
    "error('boom', 2)": ("error", "boom", None),
    "error({code = 'E', message = 'm'})": ("error", "m", "E"),
    "error({code = 'E', message = 'm', name = 'Mine'})": ("Mine", "m", "E"),
    "error({code = 5, message = {}})": ("error", "{code = 5, message = {}}", None),
    "error({})": ("error", "{}", None),
    "error()": ("error", "nil", None),
    "error(nil)": ("error", "nil", None),
    "error(42)": ("error", "42", None),
    "error(4.0)": ("error", "4.0", None),
    "error(true)": ("error", "true", None),
    "error('')": ("error", "<repl>:1: ", None),
    "error(setmetatable({}, {__tostring = function() return 'T!' end}))": ("error", "T!", None),
    "assert(false)": ("error", "<repl>:1: assertion failed!", None),
    "assert(nil, 'said')": ("error", "<repl>:1: said", None),
    "assert(false, {code = 'A', message = 'x'})": ("error", "x", "A"),
    "local x = nil; x.y = 1": ("error", "<repl>:1: attempt to index a nil value (local 'x')", None),
    "undefined()": ("error", "<repl>:1: attempt to call a nil value (global 'undefined')", None),
    "1 + {}": ("error", "<repl>:1: attempt to perform arithmetic on a table value", None),
    "1 < 'x'": ("error", "<repl>:1: attempt to compare number with string", None),
    "1 // 0": ("error", "<repl>:1: attempt to divide by zero", None),
    "for i = 1, 10, 0 do end": ("error", "<repl>:1: 'for' step is zero", None),
    "('x'):rep(1 << 40)": ("error", "<repl>:1: resulting string too large", None),
    "string.format('%d', 1.5)": ("error", "<repl>:1: bad argument #2 to 'format' (number has no integer representation)", None),
    "x y": ("SyntaxError", "<repl>:1: syntax error near 'y'", None),
    "x =": ("SyntaxError", "<repl>:1: unexpected symbol near <eof>", None),
    "'abc": ("SyntaxError", "<repl>:1: unfinished string near <eof>", None),
    "goto nowhere": ("SyntaxError", "<repl>:1: no visible label 'nowhere' for <goto> at line 1", None),
    "local x <const> = 1; x = 2": ("SyntaxError", "<repl>:1: attempt to assign to const variable 'x'", None),
    "\0": ("SyntaxError", "<repl>:1: unexpected symbol", None),
}


@pytest.mark.parametrize("source", ERRORS)
def test_errors(lua, source):
    error = failure(run(lua, source))
    assert (error.name, error.message, error.code) == ERRORS[source]


def test_the_value_that_was_raised_is_kept(lua):
    assert failure(run(lua, "error({code = 'E', message = 'm', more = {1}})")).value == {
        "code": "E",
        "message": "m",
        "more": [1],
    }
    assert failure(run(lua, "error(42)")).value == 42
    assert isinstance(failure(run(lua, "error(print)")).value, Opaque)
    assert failure(run(lua, "error(nil)")).value is None


TRACED = """local function inner()
  error('deep')
end
local function outer() inner() return 1 end
outer()"""


def test_a_traceback_names_each_line_that_the_user_wrote(lua):
    with lua.create() as sandbox:
        stack = failure(sandbox.run_file(TRACED, "dir/work.lua")).stack
    lines = stack.splitlines()
    assert lines[0] == "stack traceback:"
    assert lines[1] == "\t[C]: in function 'error'"
    assert lines[2].startswith("\tdir/work.lua:2: in ")
    assert lines[3].startswith("\tdir/work.lua:4: in ")
    assert lines[4] == "\tdir/work.lua:5: in main chunk"
    assert len(lines) == 5


def test_a_traceback_survives_a_pause(lua):
    source = "local function f()\n alc.llm('x')\n error('after')\nend\nf() return 1"
    outcome, _, _ = answered(lua, source, thawed=True)
    assert failure(outcome).message == "<repl>:3: after"
    assert "<repl>:5: in main chunk" in outcome.error.stack


def test_a_traceback_of_a_deep_error_is_short(lua):
    source = "local function down(n) if n == 0 then error('end') end return 1 + down(n - 1) end down(5000)"
    stack = failure(run(lua, source)).stack
    assert "skipping" in stack
    assert len(stack.splitlines()) < 30


def test_debug_traceback(lua):
    source = "local co = coroutine.create(function() local x = 1\ncoroutine.yield() end) coroutine.resume(co) return {debug.traceback('m'), debug.traceback(co), debug.traceback({}) ~= nil, debug.traceback(co, 'c', 0)}"
    own, other, kept, told = value(run(lua, source))
    assert own.startswith("m\nstack traceback:\n\t<repl>:2: in main chunk")
    assert "<repl>:2: in function <<repl>:1>" in other
    assert kept is True
    assert told.startswith("c\nstack traceback:\n\t[C]: in function 'coroutine.yield'")


def test_errors_in_message_handlers_end(lua):
    for handler in ("function() error('again') end", "error", "function() error({}) end", "function(e) return e.x.y end"):
        assert value(run(lua, f"local ok, e = xpcall(error, {handler}) return {{ok, tostring(e)}}"))[0] is False
    assert value(run(lua, "select(2, xpcall(error, function(e) return 'handled ' .. e end, 'it'))")) == "handled it"


def test_an_error_while_closing_takes_the_place_of_the_first(lua):
    error = failure(run(lua, "local c <close> = setmetatable({}, {__close = function() error('second') end}) error('first')"))
    assert error.message == "<repl>:1: second"


def test_long_names_of_files_are_kept_short(lua):
    with lua.create() as sandbox:
        for name in ("x" * 5000, "", "a\0b", "=[C]", "\u20ac"):
            assert isinstance(sandbox.run_file("error('x')", name), Failed)
            assert isinstance(sandbox.evaluate("error('x')", name), Failed)


def test_errors_leave_nothing_behind(lua):
    with lua.create(limits=Limits(mem_mb=8)) as sandbox:
        for number in range(150):
            failure(sandbox.evaluate(f"local big = ('x'):rep(100000) .. {number} error({{big}})"))
            failure(sandbox.evaluate("x y z"))
        assert isinstance(sandbox.evaluate("alc.llm('x')"), Paused)
