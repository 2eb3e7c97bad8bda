"""What a result says about a value: the language's own type name and a preview that nothing can break."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Finished


@pytest.fixture
def sandbox(javascript):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000, max_output_kb=4_000)) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("source", "kind", "preview", "has_json"),
    [
        ("undefined", "undefined", "undefined", True),
        ("null", "null", "null", True),
        ("true", "boolean", "true", True),
        ("-0", "number", "-0", True),
        ("NaN", "number", "NaN", False),
        ("1e21", "number", "1e+21", True),
        ("0.1 + 0.2", "number", "0.30000000000000004", True),
        ("'text'", "string", "text", True),
        ("5n", "bigint", "5n", False),
        ("Symbol('q')", "symbol", "Symbol(q)", False),
        ("() => 1", "function", "[Function (anonymous)]", False),
        ("(class A {})", "function", "[class A]", False),
        ("[1, 'a']", "Array", "[ 1, 'a' ]", True),
        ("({a: {b: [1]}})", "Object", "{ a: { b: [ 1 ] } }", True),
        ("Object.create(null)", "Object", "[Object: null prototype] {}", True),
        ("new (class Point { x = 1 })()", "Point", "Point { x: 1 }", True),
        ("new (class {})()", "Object", "{}", True),
        ("new Map([[1, 2]])", "Map", "Map(1) { 1 => 2 }", False),
        ("new Set()", "Set", "Set(0) {}", False),
        ("new Date(0)", "Date", "1970-01-01T00:00:00.000Z", False),
        ("new Date(NaN)", "Date", "Invalid Date", False),
        ("/a/g", "RegExp", "/a/g", False),
        ("new Uint8Array(2)", "Uint8Array", "Uint8Array(2) [ 0, 0 ]", False),
        ("Promise.reject(3).catch(() => {}), new Promise(() => {})", "Promise", "Promise { <pending> }", False),
        ("(function* g() {})()", "Object", "Object [Generator] {}", False),
        ("globalThis", "Object", "Object [global] {}", True),
        ("const o = {}; o.o = o; o", "Object", "<ref *1> { o: [Circular *1] }", False),
    ],
)
def test_types_and_previews_are_the_language_s_own(sandbox, source, kind, preview, has_json):
    outcome = sandbox.evaluate(source)
    assert isinstance(outcome, Finished), outcome
    assert (outcome.result.type, outcome.result.preview, outcome.result.has_json) == (kind, preview, has_json)


def test_the_preview_of_an_error_is_its_stack(sandbox):
    result = sandbox.evaluate("new RangeError('m')").result
    assert (result.type, result.preview) == ("RangeError", "RangeError: m\n    at <eval> (<repl>:1:5)")
    assert sandbox.evaluate("class Mine extends RangeError {}; new Mine('m')").result.type == "Mine"


def test_previews_are_capped_the_value_is_not(sandbox):
    result = sandbox.evaluate("'x'.repeat(5000)").result
    assert (result.preview, len(result.value)) == ("x" * 2000 + "…", 5000)
    result = sandbox.evaluate("'€'.repeat(5000)").result
    assert result.preview == "€" * 666 + "…"
    for source in (
        "Array(5000).fill('abcdefgh')",
        "({['k'.repeat(9000)]: 1})",
        "new Map([['k'.repeat(9000), 1]])",
        "2n ** 20000n",
        "[2n ** 20000n]",
        "Object(2n ** 20000n)",
        "Symbol('x'.repeat(9000))",
        "({[Symbol('x'.repeat(9000))]: 1})",
        "new RegExp('x'.repeat(9000))",
        "Object.assign(new Error('m'), {name: 'x'.repeat(9000)})",
        "Object.defineProperty(() => 1, 'name', {value: 'x'.repeat(9000)})",
        "new (Object.defineProperty(class {}, 'name', {value: 'x'.repeat(9000)}))()",
    ):
        assert len(sandbox.evaluate(source).result.preview) <= 2001


def test_type_names_are_capped_too(sandbox):
    assert len(sandbox.evaluate("new ({['N'.repeat(5000)]: class {}}['N'.repeat(5000)])()").result.type) == 100


def test_a_constructor_cannot_lie_about_what_it_is_not(sandbox):
    assert sandbox.evaluate("({constructor: {name: 5}})").result.type == "Object"
    assert sandbox.evaluate("({constructor: {get name() { throw 1 }}})").result.type == "Object"
    assert sandbox.evaluate("new (class { static name = {toString() { throw 1 }} })()").result.type == "Object"


TRAPS = ["get", "has", "ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor", "isExtensible", "defineProperty", "set"]
BREAKERS = [
    "({get a() { throw new Error('no') }})",
    "({toString() { throw 1 }, valueOf() { throw 2 }, [Symbol.toPrimitive]() { throw 3 }})",
    "({get toJSON() { throw 1 }, get then2() { throw 2 }})",
    "({toJSON() { throw new Error('no') }})",
    "({toJSON() { return this }})",
    "({toJSON: 5})",
    "({get constructor() { throw 1 }, get [Symbol.toStringTag]() { throw 2 }})",
    "({[Symbol.for('nodejs.util.inspect.custom')]() { throw 1 }})",
    "({[Symbol.for('nodejs.util.inspect.custom')]() { return {a: 1} }})",
    "Object.assign(() => 1, {toString() { throw 1 }})",
    "Object.defineProperty(function f() {}, 'name', {get() { throw 1 }})",
    "Object.defineProperty(new Error('x'), 'message', {get() { throw 1 }})",
    "Object.defineProperty(new Error('x'), 'stack', {value: {}})",
    "Object.setPrototypeOf(new Error('x'), null)",
    "Object.setPrototypeOf([1], null)",
    "Object.setPrototypeOf(new Map([[1, 2]]), null)",
    "Object.setPrototypeOf(new Date(0), new Proxy({}, {get() { throw 1 }}))",
    "Object.create(new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }}))",
    "Object.defineProperty([1], 'length', {writable: false})",
    "Object.defineProperty([], 0, {get() { throw 1 }, enumerable: true})",
    "new Map([[{get a() { throw 1 }}, {toJSON() { throw 2 }}]])",
    "new Set([new Proxy({}, {ownKeys() { throw 1 }})])",
    "new Proxy(() => 1, {apply() { throw 1 }, get() { throw 2 }})",
    "new Proxy([1], {get(t, k) { return k === 'length' ? 2 ** 53 : k === 'toJSON' ? undefined : 1 }, ownKeys() { throw 1 }}) && 1",
    "(() => { const r = Proxy.revocable([], {}); r.revoke(); return r.proxy })()",
    "(() => { const a = [1, 2, 3]; a[1] = {toJSON() { a.length = 0; return 'gone' }}; return a })()",
    "(() => { const o = {a: {toJSON() { delete o.b; return 1 }}, b: 2}; return o })()",
    "(() => { const m = new Map(); m.set({toJSON() { m.clear(); return 1 }}, 1).set(2, 2); return m })()",
    "(() => { const b = new ArrayBuffer(4), v = new Uint8Array(b); structuredClone(b, {transfer: [b]}); return v })()",
    "Object.create(Date.prototype)",
    "Object.create(Map.prototype)",
    "Object.create(Promise.prototype)",
    "Object.create(Uint8Array.prototype)",
    "Object.freeze(Object.assign(Object.create(null), {a: 1}))",
    *(f"new Proxy({{a: 1}}, {{{trap}() {{ throw new Error('no') }}}})" for trap in TRAPS),
    *(f"new Proxy({{a: 1}}, {{{trap}() {{ return 5 }}}})" for trap in TRAPS),
]


@pytest.mark.parametrize("source", BREAKERS)
def test_no_object_can_break_its_result(sandbox, source):
    outcome = sandbox.evaluate(source)
    assert isinstance(outcome, Finished), outcome
    assert outcome.result.type
    assert outcome.result.preview
    assert outcome.events == ()
    assert sandbox.evaluate("[1 + 1]").result.value == [2]


@pytest.mark.parametrize("source", BREAKERS)
def test_nor_can_it_break_an_error_a_query_or_a_rejection(sandbox, source):
    assert sandbox.evaluate(f"throw ({source})").error.name
    (query,) = sandbox.evaluate(f"await hf.query('k', [{source}])").queries
    assert isinstance(query.payload, list)
    outcome = sandbox.resume({query.id: 1})
    assert outcome.result.value == 1
    outcome = sandbox.evaluate(f"Promise.reject({source}); 1")
    assert [event.type for event in outcome.events] == ["unhandled"]
