"""Values between Python and Lua: as results, answers, arguments, and what host functions take and give."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain import Limit, Limits
from holdfast.sandbox import Host
from holdfast.sandbox.values import BigInt, Circular, Date, ErrorValue, Map, Opaque, Set, Undefined
from tests.integration.lua_runs import breach, run, value


def same(actual, expected):
    """Equal, with types, signs of zero and NaN told apart."""
    if isinstance(expected, float):
        return isinstance(actual, float) and (
            (math.isnan(actual) and math.isnan(expected))
            or (actual == expected and math.copysign(1, actual) == math.copysign(1, expected))
        )
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(same(actual[key], item) for key, item in expected.items())
        )
    if isinstance(expected, list | tuple):
        return type(actual) is type(expected) and len(actual) == len(expected) and all(map(same, actual, expected))
    return type(actual) is type(expected) and actual == expected


OUT = {
    "nil": None,
    "true": True,
    "-7": -7,
    "math.maxinteger": 2**63 - 1,
    "math.mininteger": -(2**63),
    "1.0": 1.0,
    "1e15": 1e15,
    "2^53": 2.0**53,
    "0.1": 0.1,
    "1/3": 1 / 3,
    "1e300": 1e300,
    "5e-324": 5e-324,
    "0/0": math.nan,
    "1/0": math.inf,
    "-1/0": -math.inf,
    "-0.0": -0.0,
    "0": 0,
    "'h\\u{e9}\\0\\n\\u{1f600}'": "h\u00e9\0\n\U0001f600",
    "'\\255\\0'": b"\xff\0",
    "'\\xed\\xa0\\x80'": b"\xed\xa0\x80",
    "{}": {},
    "alc.array{}": [],
    "alc.array()": [],
    "{1, 2, {3.0}}": [1, 2, [3.0]],
    "{a = 1, b = {c = 2}}": {"a": 1, "b": {"c": 2}},
    "{1, nil, 3}": Map(((1, 1), (3, 3))),
    "alc.array{1, nil, 3}": [1, None, 3],
    "{1, a = 2}": Map(((1, 1), ("a", 2))),
    "{[0] = 'zero', 'one'}": Map(((0, "zero"), (1, "one"))),
    "{[2.5] = 1, [true] = 2, z = 3, [-1] = 4}": Map(((-1, 4), (2.5, 1), ("z", 3), (True, 2))),
    "{['$'] = 1, a = 2}": {"$": 1, "a": 2},
    "{['$'] = 'bytes', v = 'eA=='}": {"$": "bytes", "v": "eA=="},
    "{alc.null, false}": [None, False],
    "alc.null": None,
    "(function() local s = {1} return {s, s} end)()": [[1], [1]],
    "(function() local t = {a = {b = {}}} t.a.b[1] = t.a return t end)()": {"a": {"b": [Circular("$.a")]}},
    "(function() local t = {{['x y'] = {}}} t[1]['x y'].z = t[1]['x y'] return t end)()": [
        {"x y": {"z": Circular('$[0]["x y"]')}}
    ],
    "(function() local t = {} t[t] = 1 return t end)()": Map(((Circular("$"), 1),)),
    "setmetatable({1}, {__index = error, __len = error, __pairs = error})": [1],
    "{['\\xfe'] = 1, ['\\xff'] = 2, a = 3}": Map((("a", 3), (b"\xfe", 1), (b"\xff", 2))),
}


@pytest.mark.parametrize("source", OUT)
def test_results(lua, source):
    assert same(value(run(lua, source)), OUT[source])


IN = [
    (None, "v == nil"),
    (Undefined, "v == nil"),
    (True, "v == true"),
    (5, "math.type(v) == 'integer' and v == 5"),
    (5.0, "math.type(v) == 'float' and v == 5"),
    (2**53 + 1, "math.type(v) == 'integer' and v == (1 << 53) + 1"),
    (2**63 - 1, "v == math.maxinteger"),
    (-(2**63), "math.type(v) == 'integer' and v == math.mininteger"),
    (2**63, "math.type(v) == 'float' and v == 2^63"),
    (-(10**30), "v == -1e30"),
    (BigInt(12), "math.type(v) == 'integer' and v == 12"),
    (math.nan, "v ~= v"),
    (-math.inf, "v == -math.huge"),
    (-0.0, "1 / v == -math.huge"),
    (1e300, "v == 1e300"),
    ('h\u00e9\u20ac\U0001f600\n"\\/\b\f\r\t\0', "v == 'h\\u{e9}\\u{20ac}\\u{1f600}\\n\\\"\\\\/\\b\\f\\r\\t\\0'"),
    ("\ud800x", "v == '\\xed\\xa0\\x80x'"),
    (b"\xff\0", "v == '\\255\\0'"),
    ([], "type(v) == 'table' and next(v) == nil"),
    ([1, None, 2], "#v == 3 and v[2] == alc.null and v[3] == 2"),
    ({"a": None, "b": {}}, "v.a == alc.null and next(v.b) == nil"),
    ({"": 1, "$": 2}, "v[''] == 1 and v['$'] == 2"),
    ({"$": "bytes", "v": "eA=="}, "v['$'] == 'bytes' and v.v == 'eA=='"),
    ({"x": {"$": {"$": 1}}}, "v.x['$']['$'] == 1"),
    ({1: "a", "k": 2}, "v[1] == 'a' and v.k == 2"),
    (Map((([1], "list"), (True, 2), (1.5, 3))), "v[true] == 2 and v[1.5] == 3"),
    (Set(("a", 2)), "v.a == true and v[2] == true"),
    ({"x", "y"}, "v.x and v.y"),
    (Date(12.5), "v == 12.5"),
    (Date(None), "v ~= v"),
    (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "v == 1000"),
    (
        ErrorValue("TypeError", "m", "s", "C"),
        "v.name == 'TypeError' and tostring(v) == 'm' and v.stack == 's' and v.code == 'C' and 'E: ' .. v == 'E: m'",
    ),
]


@pytest.fixture(scope="module")
def ways(lua):
    """Each way for a value to enter: as an answer, an argument of a call or a file, and from a host function."""
    held = []
    with lua.create(host=Host({"give": lambda: held[-1], "same": lambda v: v}), limits=Limits(max_output_kb=0)) as sandbox:
        sandbox.evaluate("function check(v) return test(v) end function echo(v) return v end")

        def answer(v, body):
            sandbox.evaluate(f"local v = alc.query('q') {body}")
            return sandbox.resume({sandbox.resume().open[0]: v})

        def call(v, body):
            sandbox.evaluate(f"function test(v) {body} end")
            return sandbox.call("check", v)

        def given(v, body):
            held.append(v)
            return sandbox.evaluate(f"local v = alc.call('give') {body}")

        yield {
            "answer": answer,
            "call": call,
            "file": lambda v, body: sandbox.run_file(
                f"local v = ... assert(rawequal(v, __ARGS__) or v ~= v) {body}", "m.lua", v
            ),
            "host function": given,
            "there and back": lambda v, body: call(v, f"v = alc.call('same', v) {body}"),
        }


@pytest.mark.parametrize("way", ["answer", "call", "file", "host function", "there and back"])
def test_values_enter(ways, way):
    for given_value, check in IN[: -1 if way == "there and back" else None]:  # errors leave as plain tables
        assert value(ways[way](given_value, f"return {check}")) is True, (given_value, check)


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary().filter(lambda b: not _is_text(b))
)
names = st.text(st.characters(exclude_categories=["Cs"]))


def _is_text(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


nested = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5), max_leaves=25
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=nested)
def test_anything_comes_back_as_it_was_sent(ways, sent):
    for way in ("answer", "call", "file", "there and back"):
        assert same(value(ways[way](sent, "return v")), sent)


keys = (
    st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | names
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != int(x))
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.dictionaries(keys, st.integers(), max_size=6))
def test_maps_come_back_with_their_keys(ways, sent):
    count = value(ways["call"](Map(tuple(sent.items())), "local n = 0 for _ in pairs(v) do n = n + 1 end return n"))
    assert count == len(sent)


def test_arguments_of_a_call_may_be_nil_in_any_place(lua):
    with lua.create() as sandbox:
        sandbox.evaluate(
            "function count(...) return {select('#', ...), (select(2, ...))} end api = {v1 = {count = count}} object = setmetatable({}, {__call = function(self, x) return x * 2 end})"
        )
        assert value(sandbox.call("count", None, 7, None)) == [3, 7]
        assert value(sandbox.call("api.v1.count")) == [0]
        assert value(sandbox.call("object", 4)) == 8
        for name in ("nope", "api.nope", "api.v1.count.x.y", "", ".", "api."):
            assert sandbox.call(name).error.message


def test_a_file_gets_its_arguments_as_dots_and_as_a_global(lua):
    with lua.create() as sandbox:
        outcome = sandbox.run_file(
            "#!/usr/bin/lua\nlocal a = ...\nreturn {a, a == __ARGS__, select('#', ...)}", "m.lua", {"n": [1]}
        )
        assert value(outcome) == [{"n": [1]}, True, 1]
        assert value(sandbox.run_file("return __ARGS__ == nil", "m.lua")) is True


def test_functions_and_threads_are_opaque(lua):
    items = value(run(lua, "{print, coroutine.create(print), {f = function() end}}"))
    assert [type(items[0]), items[0].type, items[1].type, items[2]["f"].type] == [Opaque, "function", "thread", "function"]
    assert items[0].preview.startswith("function: ")


def test_values_nested_too_deep_end_in_an_opaque_one(lua):
    deep, depth = value(run(lua, "local t = {} local r = t for i = 1, 300 do t[1] = {} t = t[1] end return r")), 0
    while isinstance(deep, list):
        deep, depth = deep[0], depth + 1
    assert (depth, deep.type) == (200, "table")


def test_objects_are_written_in_the_order_of_their_keys(lua):
    assert list(value(run(lua, "{z = 1, y = 2, aa = 3, a = 4, x = {c = 1, b = 2}}"))) == ["a", "aa", "x", "y", "z"]


def test_shared_tables_that_grow_without_end_are_a_breach(lua):
    assert (
        breach(lua, "local t = {1} for i = 1, 40 do t = {t, t} end return t", mem_mb=512, max_output_kb=0, wall_ms=0, cpu_ms=0)
        is Limit.OUTPUT
    )


def test_alc_array_marks_tables_and_no_others(lua):
    assert value(run(lua, "local t = {} alc.array(t) t[1] = 'x' return {t, alc.array{}, alc.array{3}}")) == [["x"], [], [3]]
    for wrong in ("alc.array(1)", "alc.array(setmetatable({}, {}))", "alc.array('x')"):
        assert "bad argument #1 to 'array'" in run(lua, wrong).error.message
    assert value(run(lua, "alc.array(alc.array{1})")) == [1]
