"""Values between Python and JavaScript, by each way in and out: answers, arguments, results, queries, host calls."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain import Limits
from holdfast.sandbox import BigInt, Circular, Date, ErrorValue, Finished, Host, Map, Opaque, Set, Undefined

LIMITS = Limits(wall_ms=20_000, cpu_ms=20_000, max_output_kb=2_000)
ERROR = ErrorValue(
    "RangeError", "too far", "RangeError: too far\n    at home", "E_FAR", ErrorValue("Error", "why", "Error: why")
)


@pytest.fixture
def received():
    return []


@pytest.fixture
def sandbox(javascript, received):
    def receive(item):
        received.append(item)
        return item

    with javascript.create(limits=LIMITS, host=Host({"receive": receive})) as sandbox:
        sandbox.evaluate("const same = x => x, passed = x => hf.call('receive', x)")
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def alike(one, other):
    """Equal, where NaN is itself and zeros have signs. A number is a number, with or without a fraction."""
    if {type(one), type(other)} <= {int, float}:
        return (one != one and other != other) or (one == other and math.copysign(1, one) == math.copysign(1, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and one == other


WAYS = {
    "answer": lambda sandbox, item: (sandbox.evaluate("await llm('give')"), sandbox.resume({1: item}))[1],
    "argument of a call": lambda sandbox, item: sandbox.call("same", item),
    "argument of a file": lambda sandbox, item: sandbox.run_file("__ARGS__", "work.js", item),
    "host call": lambda sandbox, item: sandbox.call("passed", item),
}
VALUES = [
    None, True, 0, -7, 2**53, 1.5, 1e300, 5e-324, "", "é€😀\0\n", [], [[]], {}, {"": {"a": [1, None]}},
    Undefined, math.nan, math.inf, -math.inf, -0.0,
    BigInt(5), BigInt(-(2**100)), Date(0), Date(1.7e12), Date(-1), Date(None), b"", bytes(range(256)),
    Map(()), Map(((1, "one"), ({"k": 1}, Set((1,))), (Undefined, math.nan))), Set(()), Set((1, "1", None)), ERROR,
    {"$": 1}, {"$": "bytes", "v": "aGk="}, {"a": {"$": {"$": "map", "v": []}}}, {"__proto__": {"x": 1}, "constructor": 1, "then": 2},
    [Undefined, [Undefined]], {"a": Undefined}, {"2": "b", "10": "c", "x": 1},
]  # fmt: skip


@pytest.mark.parametrize("item", VALUES, ids=repr)
@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_goes_in_comes_out_the_same(sandbox, received, way, item):
    back = value(WAYS[way](sandbox, item))
    assert alike(back, item), back
    assert all(alike(seen, item) for seen in received)


plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(width=64) | st.text(max_size=8)
anything = st.recursive(
    plain
    | st.binary(max_size=8)
    | st.just(Undefined)
    | st.integers().map(BigInt)
    | st.integers(-(2**52), 2**52).map(Date)
    | st.builds(
        ErrorValue, st.text(max_size=5), st.text(max_size=5), st.text(max_size=5), st.none() | st.text(max_size=5), st.none()
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(lambda items: Set(({"member": 0}, *([item] for item in items))))
        | st.lists(st.tuples(inner, inner), max_size=3).map(lambda entries: Map(tuple(([key], item) for key, item in entries)))
        | st.dictionaries(
            st.sampled_from(["$", "v", "a", "then", "toString", "__proto__", "length"]) | st.text("xyz", max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(item=anything)
def test_any_answer_comes_back_equal(sandbox, item):
    outcome = sandbox.evaluate("await llm('give')")
    back = value(sandbox.resume({outcome.queries[0].id: item}))
    assert alike(back, item), back


@pytest.mark.parametrize(
    ("item", "check"),
    [
        (Undefined, "x === undefined"),
        (None, "x === null"),
        (-0.0, "Object.is(x, -0)"),
        (2**60, "x === 2n ** 60n"),
        (BigInt(5), "x === 5n"),
        (datetime(2024, 1, 2, tzinfo=UTC), "x instanceof Date && x.toISOString() === '2024-01-02T00:00:00.000Z'"),
        (Date(None), "x instanceof Date && isNaN(x)"),
        (b"\x01\x02", "x instanceof Uint8Array && x.join() === '1,2'"),
        ({1, 2}, "x instanceof Set && x.has(1) && x.size === 2"),
        ({1: "a"}, "x instanceof Map && x.get(1) === 'a'"),
        ((1, 2), "Array.isArray(x) && x.length === 2"),
        (
            ERROR,
            "x instanceof RangeError && x.message === 'too far' && x.code === 'E_FAR' && x.stack.endsWith('at home') && x.cause instanceof Error",
        ),
        (ErrorValue("Custom", "m"), "x instanceof Error && x.name === 'Custom' && String(x) === 'Custom: m'"),
        (
            {"__proto__": {"y": 1}},
            "Object.getPrototypeOf(x) === Object.prototype && Object.keys(x)[0] === '__proto__' && x.y === undefined",
        ),
        ({"a": 1}, "Object.getPrototypeOf(x) === Object.prototype"),
        ({"then": 1}, "x.then === 1"),
    ],
)
def test_what_python_sends_is_of_the_language_s_own_kind(sandbox, item, check):
    sandbox.evaluate(f"const check = x => {check}")
    assert value(sandbox.call("check", item)) is True


CIRCLES = "const o = {list: [{}], a: {}}; o.a.up = o; o.a.self = o.a; o.list[0].item = o.list[0]; o"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (CIRCLES, {"list": [{"item": Circular("$.list[0]")}], "a": {"up": Circular("$"), "self": Circular("$.a")}}),
        ("const m = new Map(); m.set('me', m); m", Map((("me", Circular("$")),))),
        ("const shared = {q: 1}; [shared, shared]", [{"q": 1}, {"q": 1}]),
        ("[1, , 3]", [1, Undefined, 3]),
        ("({toJSON() { return {j: 1} }})", {"j": 1}),
        ("[{a: {toJSON(key) { return key }}}]", [{"a": "a"}]),
        ("[new Number(5), new String('s'), new Boolean(false), Object(5n)]", [5, "s", False, BigInt(5)]),
        ("new Proxy([1, {a: 2}], {})", [1, {"a": 2}]),
        ("new (class Point { x = 1; #y = 2; get z() { return 3 } })()", {"x": 1}),
        ("(function () { return arguments })(1, 2)", [1, 2]),
        ("new Uint8Array([1, 2, 3, 4]).subarray(1, 3)", b"\x02\x03"),
        ("new DataView(new Uint8Array([1, 2]).buffer, 1)", b"\x02"),
        ("new Uint16Array([1, 2]).buffer", b"\x01\x00\x02\x00"),
        (
            "[() => 1, Symbol('s'), /a/g]",
            [Opaque("function", "[Function (anonymous)]"), Opaque("symbol", "Symbol(s)"), Opaque("RegExp", "/a/g")],
        ),
        (
            "[Promise.resolve(), new WeakMap()]",
            [Opaque("Promise", "Promise { undefined }"), Opaque("WeakMap", "WeakMap { <items unknown> }")],
        ),
        ("({get a() { throw new Error('no') }, b: 1})", {"a": Opaque("error", "[getter threw: no]"), "b": 1}),
        ("new URL('http://a.b/')", "http://a.b/"),
        ("({[Symbol('hidden')]: 1, shown: 2})", {"shown": 2}),
        ("Object.defineProperty({}, 'hidden', {value: 1})", {}),
    ],
)
def test_what_scripts_make_reaches_python(sandbox, source, expected):
    assert value(sandbox.evaluate(source)) == expected


def test_errors_cross_with_their_stack_code_and_cause(sandbox):
    back = value(sandbox.evaluate("Object.assign(new TypeError('m', {cause: new Error('c')}), {code: 'E1'})"))
    assert (back.name, back.message, back.code, back.cause.message) == ("TypeError", "m", "E1", "c")
    assert back.stack.startswith("TypeError: m\n    at ")


def test_a_lone_surrogate_crosses(sandbox):
    assert value(sandbox.evaluate("'\\ud800'")) == "\ud800"
    assert value(sandbox.call("same", "\ud800")) == "\ud800"


@pytest.mark.parametrize("number", [2.0**53, 2.0**60, -1e17, 1e20, 1e21, 1.5e300, 36130283630253170.0])
def test_a_large_number_stays_a_number_on_its_way_back(sandbox, number):
    seen = value(sandbox.evaluate(f"{number!r}"))
    assert seen == number
    sandbox.evaluate("const kind = x => [typeof x, x]")
    assert value(sandbox.call("kind", seen)) == ["number", number]


def test_values_nested_too_deeply_are_cut_on_the_way_out(sandbox):
    inner, depth = value(sandbox.evaluate("let deep = []; for (let i = 0; i < 300; i++) deep = [deep]; deep")), 0
    while isinstance(inner, list):
        inner, depth = inner[0], depth + 1
    assert (depth, inner) == (200, Opaque("depth", "[too deep]"))


def test_queries_carry_values_of_every_kind(sandbox):
    source = "await hf.query('k', {u: undefined, n: NaN, b: 5n, d: new Date(1), m: new Map([[1, 2]]), s: new Set([3]), y: new Uint8Array(2), f() {}})"
    payload = sandbox.evaluate(source).queries[0].payload
    assert math.isnan(payload.pop("n"))
    assert payload == {
        "u": Undefined, "b": BigInt(5), "d": Date(1), "m": Map(((1, 2),)), "s": Set((3,)), "y": b"\0\0", "f": Opaque("function", "[Function: f]"),
    }  # fmt: skip
