"""The Lua that scripts find: its libraries, what is closed in them, output, time and random numbers."""

import pytest

from holdfast.sandbox import Evaluate
from tests.integration.lua_runs import NOW, failure, printed, run, value

MEMBERS = "(function() local names = {} for name in pairs(%s) do names[#names + 1] = name end table.sort(names) return table.concat(names, ' ') end)()"
LIBRARIES = {
    "coroutine": "close create isyieldable resume running status wrap yield",
    "debug": "traceback",
    "math": "abs acos asin atan ceil cos deg exp floor fmod huge log max maxinteger min mininteger modf pi rad random randomseed sin sqrt tan tointeger type ult",
    "os": "clock date time",
    "package": "loaded preload",
    "string": "byte char find format gmatch gsub len lower match pack packsize rep reverse sub unpack upper",
    "table": "concat insert move pack remove sort unpack",
    "utf8": "char charpattern codepoint codes len offset",
    "alc": (
        "approve array ask budget_check budget_remaining cache cache_clear cache_info call card chunk eval exit filter fingerprint fork"
        " ground json_decode json_encode json_extract llm llm_batch llm_json llm_safe log map match_bool match_enum math null parallel"
        " parse_number parse_score pipe progress query query_batch reduce sleep specify state stats time tool tuning vote"
    ),
}
TABLES = {
    "alc.stats": "get record",
    "alc.state": "compare_and_set delete get has incr keys set set_nx update",
    "alc.card": (
        "alias_list alias_set append create find get get_by_alias lineage list read_samples sink_backfill write_samples"
    ),
}
BASE = """_G _VERSION alc assert collectgarbage coroutine debug error getmetatable hf ipairs load math next os package pairs pcall print
rawequal rawget rawlen rawset require select setmetatable string table tonumber tostring type utf8 warn xpcall"""


@pytest.mark.parametrize("library", [*LIBRARIES, *TABLES])
def test_a_library_has_its_members_and_no_others(lua, library):
    assert value(run(lua, MEMBERS % library)) == (LIBRARIES | TABLES)[library]


def test_there_are_no_other_globals(lua):
    assert value(run(lua, MEMBERS % "_G")).split() == BASE.split()
    assert value(run(lua, MEMBERS % "package.loaded")).split() == sorted({*LIBRARIES, "_G"})


def test_what_is_closed_is_not_elsewhere_either(lua):
    closed = "dofile loadfile io.open os.execute os.exit os.getenv os.remove string.dump debug.getinfo debug.sethook debug.getregistry package.loadlib package.searchers"
    for name in closed.split():
        assert failure(run(lua, f"{name}()")).message.startswith("<repl>:1: attempt to ")
    everything = """
        local seen, names = {}, {}
        local function visit(t) if seen[t] then return end seen[t] = true
            for k, v in pairs(t) do if type(v) == 'table' then visit(v) elseif type(k) == 'string' then names[k] = true end end
            if getmetatable(t) then visit(getmetatable(t)) end
        end
        visit(_G) visit(getmetatable('')) visit(package.loaded)
        return not (names.dump or names.dofile or names.loadfile or names.getinfo or names.open or names.getregistry or names.execute)
    """
    assert value(run(lua, everything)) is True


BYTECODE = r"('\27Lua' .. ('\84\0\25\147\r\n\26\n'):rep(4))"


@pytest.mark.parametrize("mode", ["nil", "'b'", "'bt'", "'tb'", "'t'"])
@pytest.mark.parametrize(
    "chunk",
    [
        BYTECODE,
        r"'\27'",
        f"(function() local once = {BYTECODE} return function() local s = once once = nil return s end end)()",
    ],
)
def test_bytecode_is_never_loaded(lua, chunk, mode):
    assert value(run(lua, f"{{load({chunk}, 'name', {mode})}}")).entries[0][1].startswith("attempt to load a binary chunk")


@pytest.mark.parametrize("source", ["\x1bLua", "\x1b", "#!shell\n\x1bLua"])
def test_a_file_of_bytecode_is_a_syntax_error(lua, source):
    with lua.create() as sandbox:
        assert failure(sandbox.run_file(source, "m.lua")).name == "SyntaxError"
        assert failure(sandbox.evaluate(source)).name == "SyntaxError"


def test_text_is_loaded_from_strings_and_functions(lua):
    assert value(run(lua, "load('return ... + 1')(6)")) == 7
    assert value(run(lua, "load('x = 1; return x', 'name', 't', {})() == 1 and x == nil"))
    assert value(run(lua, "load(coroutine.wrap(function() coroutine.yield('ret') coroutine.yield('urn 8') end))()")) == 8
    assert "text chunk" in value(run(lua, "select(2, load('return 1', 'n', 'b'))"))
    assert value(run(lua, "select(2, load('x y', '=name'))")) == "name:1: syntax error near 'y'"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 + 1", 2),
        ("x = 5", None),
        ("1, 2", 1),
        ("", None),
        ("-- nothing", None),
        ("local y = 3 return y * 2", 6),
        ("return", None),
        ("local t <const> = 3; return t", 3),
        ("goto over; do return 1 end ::over:: return 2", 2),
        ("(7 // 2) .. '|' .. (7 % -3) .. '|' .. 2^10 .. '|' .. (1 << 4)", "3|-2|1024.0|16"),
        ("math.maxinteger + 1 == math.mininteger", True),
        ("'10' + 5", 15),
        ("#'h\u00e9llo'", 6),
        ("utf8.len('h\u00e9llo')", 5),
        ("string.format('%5.2f|%-5d|%q', 3.14159, 42, 'a\\nb')", ' 3.14|42   |"a\\\nb"'),
        ("string.unpack('<i4', string.pack('<i4', -7))", -7),
        ("select('#', table.unpack({1, nil, 3}, 1, 3))", 3),
        ("_VERSION", "Lua 5.4"),
    ],
)
def test_a_snippet_is_an_expression_if_it_can_be_one(lua, source, expected):
    assert value(run(lua, source)) == expected


def test_locals_end_with_their_snippet_and_globals_stay(lua):
    with lua.create() as sandbox:
        sandbox.evaluate("local a = 1; b = 2")
        assert value(sandbox.evaluate("{a == nil, b}")) == [True, 2]


def test_print_makes_one_event_of_all_its_arguments(lua):
    outcome = run(
        lua, "print(1, nil, 'a\\tb', 2.0, setmetatable({}, {__tostring = function() return 'T' end})) print() print('\\0x')"
    )
    assert printed(outcome) == ["1\tnil\ta\tb\t2.0\tT", "", "\0x"]


def test_print_of_bytes_that_are_no_text_still_makes_an_event(lua):
    (text,) = printed(run(lua, "print('a\\xff\\xfeb')"))
    assert text.startswith("a")
    assert text.endswith("b")


def test_warnings_are_events_of_their_own_level(lua):
    outcome = run(lua, "warn('a', 'b') warn('@off') warn('lost') warn('@on') warn('c')")
    assert [(event.payload["level"], event.payload["text"]) for event in outcome.events] == [("warn", "ab"), ("warn", "c")]


def test_an_error_in_a_finalizer_is_a_warning(lua):
    outcome = run(lua, "setmetatable({}, {__gc = function() error('lost') end}) collectgarbage() return 1")
    assert value(outcome) == 1
    assert [event.payload["level"] for event in outcome.events] == ["warn"]
    assert "lost" in printed(outcome)[0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("os.time()", NOW / 1000),
        ("os.date('!%Y-%m-%d %H:%M:%S', 86400)", "1970-01-02 00:00:00"),
        ("os.date('!%A %B %j %p %y %%', 0)", "Thursday January 001 AM 70 %"),
        ("os.date('!*t', 0).year", 1970),
        ("os.date('!%c', 0)", "Thu Jan  1 00:00:00 1970"),
        ("os.time{year = 2024, month = 14, day = -3, hour = 12}", 1738065600),
        (
            "(function() local t = {year = 2024, month = 14, day = -3} os.time(t) return t.month .. '/' .. t.day .. '/' .. t.yday end)()",
            "1/28/28",
        ),
        ("type(os.clock())", "number"),
    ],
)
def test_time(lua, source, expected):
    assert value(run(lua, source, zone="UTC")) == expected


@pytest.mark.parametrize(
    "source",
    [
        *(
            "os.date('%Q')",
            "os.date('%')",
            "os.date('%E')",
            "os.date('%Ed')",
            "os.date('%O')",
            "os.date('*t', 1e100)",
            "os.date('%Y', 2^62)",
        ),
        *(
            "os.date('%Y', 0/0)",
            "os.time{year = 1}",
            "os.time{year = 'x', month = 1, day = 1}",
            "os.time{year = 2^40, month = 1, day = 1}",
            "os.time(5)",
        ),
    ],
)
def test_wrong_times_and_formats_are_errors(lua, source):
    assert failure(run(lua, source)).message.startswith("<repl>:1: ")


def test_random_numbers_come_from_the_seed_of_the_host(lua):
    def draw(source, seed):
        with lua.create() as sandbox:
            return value(sandbox.step(Evaluate(source), seed=seed))

    for source in ("{math.random(1000000), math.random()}", "(function() math.randomseed() return math.random(1 << 40) end)()"):
        assert draw(source, 1) == draw(source, 1)
        assert draw(source, 1) != draw(source, 2)
    fixed = "(function() math.randomseed(42) return math.random(1 << 40) end)()"
    assert draw(fixed, 1) == draw(fixed, 2)
    twice = (
        "(function() math.randomseed() local a = math.random(1 << 40) math.randomseed() return a ~= math.random(1 << 40) end)()"
    )
    assert draw(twice, 1) is True


def test_hashes_and_addresses_are_the_same_in_every_sandbox(lua):
    source = "local t, out = {}, {} for i = 1, 50 do t['k' .. i] = i end for k in pairs(t) do out[#out + 1] = k end return table.concat(out) .. tostring(t)"
    assert value(run(lua, source)) == value(run(lua, source))


def test_garbage_is_collected(lua):
    assert value(run(lua, "for i = 1, 300000 do local s = {i} end collectgarbage() return collectgarbage('count') < 200"))
    weak = "local weak = setmetatable({}, {__mode = 'v'}) weak[1] = {} collectgarbage() return weak[1] == nil"
    assert value(run(lua, weak)) is True
