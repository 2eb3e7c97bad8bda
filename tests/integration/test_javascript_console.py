"""What people read: console, formatted as Node does it."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Finished


@pytest.fixture
def sandbox(javascript):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000)) as sandbox:
        yield sandbox


@pytest.fixture
def printed(sandbox):
    """The lines that a snippet prints."""

    def run(source):
        outcome = sandbox.evaluate(source)
        assert isinstance(outcome, Finished), outcome
        assert all(event.type == "console" for event in outcome.events)
        return [event.payload["text"] for event in outcome.events]

    return run


@pytest.mark.parametrize("level", ["log", "info", "warn", "error", "debug"])
def test_each_level_has_its_name(sandbox, level):
    outcome = sandbox.evaluate(f"console.{level}('one', {{a: 1}})")
    assert outcome.events[0].payload == {"level": level, "text": "one { a: 1 }"}


ARGUMENTS = [
    ("", ""),
    ("''", ""),
    ("'a', 1, true, null, undefined, 5n, Symbol('s')", "a 1 true null undefined 5n Symbol(s)"),
    ("-0, NaN, -Infinity, 1e21, 0.1", "-0 NaN -Infinity 1e+21 0.1"),
    ("'a\\nb', ['a\\nb']", "a\nb [ 'a\\nb' ]"),
    ("'é€😀\\u0000'", "é€😀\0"),
    ('{s: "it\'s"}', '{ s: "it\'s" }'),
    ("{}, [], [[]], {a: {}}", "{} [] [ [] ] { a: {} }"),
    ("{a: {b: {c: {d: 1}}}}", "{ a: { b: { c: [Object] } } }"),
    ("[[[[1]]]]", "[ [ [ [Array] ] ] ]"),
    ("[, 1, , ]", "[ <1 empty item>, 1, <1 empty item> ]"),
    ("[undefined, null, -0]", "[ undefined, null, -0 ]"),
    ("{'a-b': 1, [Symbol('s')]: 2}", "{ 'a-b': 1, Symbol(s): 2 }"),
    ("Object.create(null)", "[Object: null prototype] {}"),
    ("new Map([['a', {b: 1}], [1, new Map()]])", "Map(2) { 'a' => { b: 1 }, 1 => Map(0) {} }"),
    ("new Set([1, 'x', new Set()])", "Set(3) { 1, 'x', Set(0) {} }"),
    ("new WeakMap(), new WeakSet()", "WeakMap { <items unknown> } WeakSet { <items unknown> }"),
    ("new Date(0), new Date(NaN)", "1970-01-01T00:00:00.000Z Invalid Date"),
    ("/a+/gi, [/b/]", "/a+/gi [ /b/ ]"),
    ("new Uint8Array([1, 2]), new Float64Array(1)", "Uint8Array(2) [ 1, 2 ] Float64Array(1) [ 0 ]"),
    ("Promise.resolve(1), new Promise(() => {})", "Promise { 1 } Promise { <pending> }"),
    (
        "() => 1, function foo() {}, class A {}, class B extends Map {}",
        "[Function (anonymous)] [Function: foo] [class A] [class B extends Map]",
    ),
    ("async () => 1, function* g() {}, Math.max", "[AsyncFunction (anonymous)] [GeneratorFunction: g] [Function: max]"),
    ("new (class Point { x = 1; #hidden = 2 })()", "Point { x: 1 }"),
    ("new (class Shelf extends Map {})([[1, 2]])", "Shelf(1) [Map] { 1 => 2 }"),
    ("new (class Stack extends Array {})(3)", "Stack(3) [ <3 empty items> ]"),
    (
        "{get a() { return 1 }, set b(v) {}, get c() { return 1 }, set c(v) {}}",
        "{ a: [Getter], b: [Setter], c: [Getter/Setter] }",
    ),
    ("new Number(3), new String('s'), Object(5n)", "[Number: 3] [String: 's'] [BigInt: 5n]"),
    ("new Proxy({a: 1}, {})", "{ a: 1 }"),
    ("{f() {}, g: () => 1, h: class {}}", "{ f: [Function: f], g: [Function: g], h: [class h] }"),
    ("Math, JSON", "Object [Math] {} Object [JSON] {}"),
    ("globalThis", "Object [global] {}"),
]


@pytest.mark.parametrize(("arguments", "text"), ARGUMENTS)
def test_arguments_read_as_in_node(printed, arguments, text):
    assert printed(f"console.log({arguments})") == [text]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("'%s is %d', 'Bob', 42, 'and more'", "Bob is 42 and more"),
        ("'%s', {a: 1}", "{ a: 1 }"),
        ("'%s', {toString() { return 'custom' }}", "custom"),
        ("'%s %s', null, 5n", "null 5n"),
        ("'%d %i %f', '42', 42.9, '1.5'", "42 42 1.5"),
        ("'%d', 'z'", "NaN"),
        ("'%j', {a: [1]}", '{"a":[1]}'),
        ("'%o', {b: [1]}", "{ b: [ 1, [length]: 1 ] }"),
        ("'%O', {c: {d: 1}}", "{ c: { d: 1 } }"),
        ("'%c styled', 'color: red'", " styled"),
        ("'100%% %x', 1", "100% %x 1"),
        ("'100%', 5", "100% 5"),
        ("'%s'", "%s"),
        ("'%s %s', 'one'", "one %s"),
        ("5, '%s', 'x'", "5 %s x"),
        ("'%%'", "%%"),
    ],
)
def test_formats_take_their_arguments(printed, arguments, text):
    assert printed(f"console.log({arguments})") == [text]


def test_circles_are_named(printed):
    assert printed("const o = {n: 1}; o.self = o; console.log(o)") == ["<ref *1> { n: 1, self: [Circular *1] }"]
    assert printed("const m = new Map(); m.set('m', [m]); console.log(m)") == ["<ref *1> Map(1) { 'm' => [ [Circular *1] ] }"]


def test_long_values_are_broken_into_lines(printed):
    assert printed("console.log({a: 'x'.repeat(30), b: 'y'.repeat(30), c: 'z'.repeat(30)})") == [
        f"{{\n  a: '{'x' * 30}',\n  b: '{'y' * 30}',\n  c: '{'z' * 30}'\n}}"
    ]


def test_many_items_are_cut(printed):
    assert printed("console.log(Array(200).fill('x'))")[0].endswith("... 100 more items\n]")
    (text,) = printed("console.log(new Set(Array(200).keys()))")
    assert text.endswith("... 100 more items\n}")


def test_errors_have_their_stack_cause_and_properties(printed):
    assert printed("console.log(new Error('boo'))") == ["Error: boo\n    at <eval> (<repl>:1:17)"]
    (text,) = printed("console.log(Object.assign(new Error('a', {cause: new TypeError('b')}), {code: 'E'}))")
    assert text.startswith("Error: a\n    at ")
    assert "[cause]: TypeError: b\n" in text
    assert "code: 'E'" in text
    (text,) = printed("console.log([new RangeError('in a list')])")
    assert text.startswith("[\n  RangeError: in a list\n      at ")


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (
            "console.group('G'); console.log('in\\nner'); console.group(); console.log('x'); console.groupEnd(); console.groupEnd(); console.log('out')",
            ["G", "  in\n  ner", "    x", "out"],
        ),
        ("console.groupEnd(); console.log('fine')", ["fine"]),
        (
            "console.count(); console.count('x'); console.count(); console.countReset(); console.count()",
            ["default: 1", "x: 1", "default: 2", "default: 1"],
        ),
        (
            "console.assert(true, 'no'); console.assert(false, 'bad %d', 1); console.assert(false)",
            ["Assertion failed: bad 1", "Assertion failed"],
        ),
        ("console.dir({a: 1})", ["{ a: 1 }"]),
        (
            "console.time('t'); console.timeLog('t', 1); console.timeEnd('t'); console.timeEnd('t')",
            ["t: 0.000ms 1", "t: 0.000ms", "No such label 't' for console.time()"],
        ),
        (
            "console.table([{a: 1}, {a: 2, b: 'x'}])",
            [
                "┌─────────┬───┬─────┐\n│ (index) │ a │ b   │\n├─────────┼───┼─────┤\n│ 0       │ 1 │     │\n│ 1       │ 2 │ 'x' │\n└─────────┴───┴─────┘"
            ],
        ),
        ("console.table(5)", ["5"]),
        ("const {log} = console; log('detached'); [1].forEach(log)", ["detached", "1 0 [ 1 ]"]),
    ],
)
def test_the_rarer_methods(printed, source, lines):
    assert printed(source) == lines


def test_a_trace_names_the_callers_only(printed):
    (text,) = printed("function work() {\n  console.trace('here %d', 1)\n}\nwork()")
    assert text == "Trace: here 1\n    at work (<repl>:2:11)\n    at <eval> (<repl>:4:1)"


def test_an_object_may_format_itself(printed):
    source = (
        "console.log({[Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) { return '<' + inspect([1]) + '>' }})"
    )
    assert printed(source) == ["<[ 1 ]>"]


@pytest.mark.parametrize(
    "argument",
    [
        "{get x() { throw new Error('no') }}",
        "{toString() { throw new Error('no') }, toJSON() { throw new Error('no') }}",
        "{[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('no') }}",
        "{get [Symbol.toStringTag]() { throw new Error('no') }}",
        "{get constructor() { throw new Error('no') }}",
        "new Proxy({}, {get() { throw 1 }, ownKeys() { throw 2 }, getPrototypeOf() { throw 3 }, has() { throw 4 }})",
        "(() => { const r = Proxy.revocable({}, {}); r.revoke(); return r.proxy })()",
        "Object.defineProperty(new Error('x'), 'stack', {get() { throw new Error('no') }})",
        "Object.defineProperty(() => 1, 'name', {get() { throw new Error('no') }})",
        "Object.setPrototypeOf(new Map(), null)",
        "Object.setPrototypeOf(new Date(), {})",
        "Object.create(Date.prototype)",
        "Object.create(Promise.prototype)",
        "Object.create(Map.prototype)",
        "new (class { get [Symbol.iterator]() { throw 1 } })()",
    ],
)
def test_printing_never_throws(printed, argument):
    lines = printed(
        f"console.log({argument}); console.log('%s %d %j %o', {argument}, {argument}, {argument}, {argument}); console.log('after')"
    )
    assert lines[-1] == "after"
    assert len(lines) == 3


def test_very_deep_values_are_printed_short(printed):
    assert printed("let a = {}; for (let i = 0; i < 1e5; i++) a = {a}; console.log(a)") == ["{ a: { a: { a: [Object] } } }"]
