"""Globals as on the web: URL, text, base64, structuredClone; and nothing on globalThis that should not be there."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Date, Failed, Finished, Map, Set, Undefined

STANDARD = {
    "AggregateError", "Array", "ArrayBuffer", "AsyncDisposableStack", "BigInt", "BigInt64Array", "BigUint64Array", "Boolean",
    "DataView", "Date", "DisposableStack", "Error", "EvalError", "FinalizationRegistry", "Float16Array", "Float32Array",
    "Float64Array", "Function", "Infinity", "Int16Array", "Int32Array", "Int8Array", "Iterator", "JSON", "Map", "Math", "NaN",
    "Number", "Object", "Promise", "Proxy", "RangeError", "ReferenceError", "Reflect", "RegExp", "Set", "SharedArrayBuffer",
    "String", "SuppressedError", "Symbol", "SyntaxError", "TypeError", "URIError", "Uint16Array", "Uint32Array", "Uint8Array",
    "Uint8ClampedArray", "WeakMap", "WeakRef", "WeakSet", "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent",
    "escape", "eval", "globalThis", "isFinite", "isNaN", "parseFloat", "parseInt", "undefined", "unescape",
}  # fmt: skip
WEB = {
    "DOMException", "TextDecoder", "TextEncoder", "URL", "URLSearchParams", "atob", "btoa", "clearInterval", "clearTimeout",
    "console", "performance", "queueMicrotask", "setInterval", "setTimeout", "structuredClone",
}  # fmt: skip
OURS = {"hf", "llm", "ask", "approve", "require"}
OF_THE_ENGINE = {"InternalError"}


@pytest.fixture
def run(javascript):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000)) as sandbox:

        def evaluate(source):
            outcome = sandbox.evaluate(source)
            if isinstance(outcome, Failed):
                return outcome.error.name
            assert isinstance(outcome, Finished), outcome
            return outcome.result.value

        yield evaluate


def test_global_names_are_exactly_these(run):
    assert set(run("Object.getOwnPropertyNames(globalThis)")) == STANDARD | WEB | OURS | OF_THE_ENGINE
    assert run("Object.keys(globalThis)") == []
    assert run("Reflect.ownKeys(globalThis).filter(k => typeof k === 'symbol').map(String)") == ["Symbol(Symbol.toStringTag)"]


def test_only_promises_have_a_property_that_the_language_does_not_know(run):
    """How they are printed; it is found by a symbol that scripts may use for their own objects, too."""
    source = """
        const constructors = Object.getOwnPropertyNames(globalThis).map(n => globalThis[n]).filter(c => typeof c === 'function');
        constructors.flatMap(c => [c, c.prototype]).filter(o => o).flatMap(o => Reflect.ownKeys(o).map(k => [o, k]))
            .filter(([, k]) => typeof k === 'symbol' && Symbol.keyFor(k)).map(([o, k]) => [o === Promise.prototype, Symbol.keyFor(k)])
    """
    assert run(source) == [[True, "nodejs.util.inspect.custom"]]


def test_globals_can_be_replaced_as_on_the_web(run):
    for name in sorted(WEB | OURS):
        assert run(
            f"const d = Object.getOwnPropertyDescriptor(globalThis, '{name}'); [d.writable, d.enumerable, d.configurable]"
        ) == [True, False, True]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("new URL('../x?y=1#z', 'http://u:p@h.com:81/a/b/c').href", "http://u:p@h.com:81/a/x?y=1#z"),
        ("const u = new URL('https://user:pw@host:8080/p/a?q=1#f'); [u.protocol, u.username, u.password, u.host, u.port, u.pathname, u.search, u.hash, u.origin]", ["https:", "user", "pw", "host:8080", "8080", "/p/a", "?q=1", "#f", "https://host:8080"]),
        ("const u = new URL('http://a/'); u.pathname = '/ü b'; u.searchParams.append('k', 'a&b'); u.hash = 'x'; u.href", "http://a/%C3%BC%20b?k=a%26b#x"),
        ("new URL('https://faß.de/').host", "xn--fa-hia.de"),
        ("new URL('https://例え.テスト/').hostname", "xn--r8jz45g.xn--zckzah"),
        ("new URL('HTTP://EXAMPLE.com:80/%7Efoo/../a b').href", "http://example.com/a%20b"),
        ("new URL('http://0x7f.1/').hostname", "127.0.0.1"),
        ("new URL('http://[::1]:3000/').host", "[::1]:3000"),
        ("new URL('file:///C:/a/../b').href", "file:///C:/b"),
        ("new URL('data:text/plain,hi').pathname", "text/plain,hi"),
        ("[URL.canParse('nope'), URL.canParse('a', 'http://b/'), URL.parse('nope')]", [False, True, None]),
        ("JSON.stringify({u: new URL('http://a/b')})", '{"u":"http://a/b"}'),
        ("new URL('nope')", "TypeError"),
        ("new URL('http://a b/')", "TypeError"),
        ("new URL('http://ab\u200d\u0378/')", "TypeError"),
        ("URL('http://a/')", "TypeError"),
        ("[...new URLSearchParams('a=1&b=2&a=3')].join('|')", "a,1|b,2|a,3"),
        ("const p = new URLSearchParams({b: '2', a: '1 +'}); p.sort(); p.toString()", "a=1+%2B&b=2"),
        ("const p = new URLSearchParams('a=1&a=2'); p.append('c', 'ü'); p.delete('x'); p.set('a', '9'); [p.getAll('a'), p.has('c'), p.size, String(p)]", [["9"], True, 2, "a=9&c=%C3%BC"]),
        ("new URLSearchParams([['k', 'v'], ['w', '']]).toString()", "k=v&w="),
    ],
)  # fmt: skip
def test_urls_are_parsed_as_the_standard_says(run, source, expected):
    assert run(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("new TextEncoder().encode('hé€😀')", "hé€😀".encode()),
        ("new TextEncoder().encode('\\ud800')", b"\xef\xbf\xbd"),
        ("new TextEncoder().encoding", "utf-8"),
        ("const b = new Uint8Array(4); const r = new TextEncoder().encodeInto('a€x', b); [r.read, r.written, [...b]]", [2, 4, [0x61, 0xE2, 0x82, 0xAC]]),
        ("new TextDecoder().decode(new Uint8Array([0xf0, 0x9f, 0x98, 0x80]))", "😀"),
        ("new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61]))", "a"),
        ("new TextDecoder('utf-8', {ignoreBOM: true}).decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61]))", "\ufeffa"),
        ("new TextDecoder().decode(new Uint8Array([0x61, 0xff, 0x62]))", "a\ufffdb"),
        ("new TextDecoder('utf-8', {fatal: true}).decode(new Uint8Array([0xff]))", "TypeError"),
        ("new TextDecoder('utf-16le').decode(new Uint8Array([104, 0, 0x3d, 0xd8, 0, 0xde]))", "h😀"),
        ("new TextDecoder('latin1').decode(new Uint8Array([0xe9, 0x80]))", "é€"),
        ("const d = new TextDecoder(); d.decode(new Uint8Array([0xe2, 0x82]), {stream: true}) + d.decode(new Uint8Array([0xac]))", "€"),
        ("new TextDecoder().decode(new Uint16Array([0x6161]).buffer)", "aa"),
        ("new TextDecoder().decode()", ""),
        ("new TextDecoder('no-such-encoding')", "RangeError"),
        ("const d = new TextDecoder('UTF8', {fatal: true}); [d.encoding, d.fatal, d.ignoreBOM]", ["utf-8", True, False]),
        ("btoa('hello')", "aGVsbG8="),
        ("btoa('\\u00ff\\u0000')", "/wA="),
        ("btoa('€')", "InvalidCharacterError"),
        ("atob(' aGVs\\nbG8= ')", "hello"),
        ("atob('aGVsbG8')", "hello"),
        ("atob('*')", "InvalidCharacterError"),
        ("atob('a')", "InvalidCharacterError"),
        ("atob('aGVsbG8==')", "InvalidCharacterError"),
        ("try { atob('*') } catch (e) { [e instanceof DOMException, e instanceof Error, e.code] }", [True, True, 5]),
    ],
)  # fmt: skip
def test_text_and_bytes(run, source, expected):
    assert run(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("structuredClone({a: [1, {b: new Date(3)}], n: -0, u: undefined})", {"a": [1, {"b": Date(3)}], "n": 0, "u": Undefined}),
        ("structuredClone(new Map([[{k: 1}, new Set(['x'])]]))", Map((({"k": 1}, Set(("x",))),))),
        ("structuredClone(new Uint16Array([1, 2])).constructor.name", "Uint16Array"),
        ("structuredClone(new Uint8Array([1, 2, 3]).buffer)", b"\x01\x02\x03"),
        ("String(structuredClone(/a(b)/gi))", "/a(b)/gi"),
        ("structuredClone([5n, NaN, 'x', null, true])[0] === 5n", True),
        ("const e = structuredClone(new RangeError('r', {cause: 1})); [e instanceof RangeError, e.message, e.cause]", [True, "r", 1]),
        ("const o = {}; o.o = o; const c = structuredClone(o); [c.o === c, c !== o]", [True, True]),
        ("const s = {}; const c = structuredClone([s, s]); c[0] === c[1]", True),
        ("class P { x = 1; get y() { return 2 } } const c = structuredClone(new P()); [c.constructor === Object, c]", [True, {"x": 1}]),
        ("structuredClone({get a() { return 1 }, [Symbol('s')]: 2})", {"a": 1}),
        ("structuredClone([1, , 3]).hasOwnProperty(1)", False),
        ("const b = new ArrayBuffer(8); structuredClone(b, {transfer: [b]}); b.byteLength", 0),
        ("structuredClone(() => 1)", "DataCloneError"),
        ("structuredClone({deep: [Symbol('s')]})", "DataCloneError"),
        ("structuredClone(new WeakMap())", "DataCloneError"),
        ("structuredClone(Promise.resolve())", "DataCloneError"),
        ("structuredClone({get a() { throw new RangeError('mine') }})", "RangeError"),
        ("structuredClone()", "TypeError"),
        ("try { structuredClone(() => 1) } catch (e) { [e instanceof DOMException, e.code] }", [True, 25]),
    ],
)  # fmt: skip
def test_structured_clones(run, source, expected):
    assert run(source) == expected
