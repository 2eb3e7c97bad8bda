"""Input that means harm, or is only absurd: each ends in a clear outcome, in time, and leaves the next sandbox as it was."""

import pytest

from holdfast.domain import Limit, Limits
from holdfast.sandbox import Breached, Failed, Finished, Host, Module, Modules, Paused, ValueRefused

LIMITS = Limits(wall_ms=150, cpu_ms=0, mem_mb=24)
PATIENT = LIMITS.but(wall_ms=20_000)
ROOMY = PATIENT.but(mem_mb=64)
SLACK_MS = 2_000


@pytest.fixture
def run(javascript):
    """Runs a snippet under the limits, and then sees whether another sandbox still works."""

    def evaluate(source, limits=PATIENT):
        with javascript.create(limits=limits) as sandbox:
            outcome = sandbox.evaluate(source)
            if isinstance(outcome, Breached):
                assert sandbox.closed
            else:
                assert sandbox.evaluate("[1 + 1]").result.value == [2]
        with javascript.create() as neighbour:
            assert neighbour.evaluate("[1 + 1]").result.value == [2]
        return outcome

    return evaluate


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("'" + "q" * 5_000_000 + "'.length", 5_000_000),
        ("x = 1;\n" * 100_000 + "x", 1),
        ("/*" + "y" * 5_000_000 + "*/ 7", 7),
        ("[" + "1," * 100_000 + "2].length", 100_001),
        ("({" + ",".join(f"k{i}: {i}" for i in range(20_000)) + "}).k19999", 19_999),
        ("1" + "+1" * 50_000, 50_001),
        ("(" * 200 + "1" + ")" * 200, 1),
        ("var " + ",".join(f"v{i}={i}" for i in range(2_000)) + "; v1999", 1_999),
    ],
    ids=[
        "a long text",
        "many statements",
        "a long comment",
        "a long list",
        "many keys",
        "a long sum",
        "many brackets",
        "many names",
    ],
)
def test_large_source_runs(run, source, expected):
    outcome = run(source, ROOMY)
    assert isinstance(outcome, Finished), str(outcome)[:300]
    assert outcome.result.value == expected


def test_large_source_in_a_file_runs(javascript):
    with javascript.create(limits=ROOMY) as sandbox:
        assert sandbox.run_file("export default '" + "q" * 3_000_000 + "'.length", "big.js").result.value == 3_000_000


def test_source_larger_than_memory_is_a_breach(run):
    outcome = run("'" + "q" * 15_000_000 + "'.length")
    assert isinstance(outcome, Breached)
    assert outcome.breach.limit is Limit.MEMORY


DEEP = {
    "brackets in source": "[" * 100_000,
    "parentheses in source": "(" * 100_000 + "1" + ")" * 100_000,
    "blocks in source": "{" * 100_000,
    "templates in source": "`${" * 50_000,
    "functions in source": "()=>" * 100_000 + "1",
    "signs in source": "- " * 100_000 + "1",
    "brackets in eval": "eval('['.repeat(1e5))",
    "brackets in Function": "new Function('['.repeat(1e5))",
    "JSON lists": "JSON.parse('['.repeat(1e6) + ']'.repeat(1e6))",
    "JSON objects": "JSON.parse('{\"a\":'.repeat(1e6))",
    "stringify": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a)",
    "to text": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; String(a)",
    "flat": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity)",
    "clone": "let a = {}; for (let i = 0; i < 1e5; i++) a = {a}; structuredClone(a)",
    "proxies": "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
    "regular expression": "new RegExp('(?:'.repeat(1e5) + ')'.repeat(1e5))",
    "recursion": "(function f() { f() })()",
    "recursion in eval": "(function f() { eval('f()') })()",
    "recursion in a callback": "(function f() { [1].map(f) })()",
    "recursion in sort": "(function f() { [2, 1].sort(f) })()",
    "recursion in replace": "(function f() { 'a'.replace(/a/, f) })()",
    "recursion in a getter": "({get a() { return this.a }}).a",
    "recursion in toString": "const o = {toString() { return '' + o }}; '' + o",
    "recursion in a constructor": "class A { constructor() { new A() } } new A()",
    "recursion in a generator": "function* g() { yield* g() } g().next()",
    "recursion in async": "async function f() { await f() } f()",
    "recursion, caught": "function f() { try { f() } catch { f() } finally { f() } } f()",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_deep_exceeds_the_stack(run, name):
    outcome = run(DEEP[name])
    assert isinstance(outcome, Breached), str(outcome)[:300]
    assert outcome.breach.limit is Limit.STACK


MEMORY = {
    "objects": "const a = []; for (;;) a.push({})",
    "texts": "const a = []; for (let i = 0;; i++) a.push('k'.repeat(1e5) + i)",
    "buffers": "const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))",
    "one buffer": "new ArrayBuffer(1e9)",
    "one text": "'x'.repeat(2 ** 29)",
    "map": "const m = new Map(); for (let i = 0;; i++) m.set(i, i)",
    "set": "const s = new Set(); for (let i = 0;; i++) s.add('k' + i)",
    "keys": "const o = {}; for (let i = 0;; i++) o['k' + i] = i",
    "captures": "const a = []; for (;;) a.push('x'.repeat(1000).match(/(.)(.)(.)(.)/))",
    "matches": "'x'.repeat(1e7).match(/./g)",
    "bigints": "const a = []; for (let b = 2n ** 100000n;; b++) a.push(b)",
    "closures": "const a = []; for (;;) a.push(() => a)",
    "promises": "const a = []; for (;;) a.push(new Promise(() => {}))",
    "promise chain": "(function again() { return Promise.resolve().then(again) })(); await new Promise(() => {})",
    "timers": "for (;;) setTimeout(() => {}, 1e9)",
    "symbols": "const a = []; for (;;) a.push(Symbol('x'))",
    "split": "'x'.repeat(3e7).split('')",
    "join": "new Array(1e8).join('xxxxxxxxxx')",
    "replace": "'x'.repeat(1e6).replace(/x/g, 'y'.repeat(1e5))",
    "fill": "new Array(1e9).fill(0)",
    "spread": "Math.max(...new Array(1e7))",
    "generator": "function* g() { for (;;) yield 1 } [...g()]",
    "list to text": "new Array(1e9) + ''",
    "sparse list as value": "new Array(1e9)",
    "text of bytes": "new TextDecoder().decode(new Uint8Array(4e7))",
    "caught": "for (;;) { try { const a = []; for (;;) a.push(new Uint8Array(1 << 20)) } catch {} }",
}


@pytest.mark.parametrize("name", MEMORY)
def test_what_is_too_much_exceeds_the_memory(run, name):
    outcome = run(MEMORY[name])
    assert isinstance(outcome, Breached), str(outcome)[:300]
    assert outcome.breach.limit is Limit.MEMORY
    assert outcome.breach.actual > outcome.breach.allowed == 24


TIME = {
    "loop": "for (;;) {}",
    "regular expression": "/(a+)+$/.test('a'.repeat(40) + 'b')",
    "another": "/^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(60))",
    "backreferences": "/^(a*)*\\1*\\1*b$/.test('a'.repeat(50))",
    "microtasks": "queueMicrotask(function again() { queueMicrotask(again) })",
    "async loop": "for (;;) await null",
    "async iterator": "for await (const x of (async function* () { for (;;) yield 1 })()) {}",
    "getter of a value": "({get a() { for (;;) {} }})",
    "toJSON of a value": "({toJSON() { for (;;) {} }})",
    "toString of an error": "throw {get message() { for (;;) {} }}",
    "formatting": "console.log({[Symbol.for('nodejs.util.inspect.custom')]() { for (;;) {} }})",
    "proxy": "new Proxy({}, {get() { for (;;) {} }})",
    "then": "await {get then() { for (;;) {} }}",
    "rejection": "Promise.reject({get message() { for (;;) {} }}); 1",
    "sort": "for (;;) Array(1e5).fill(1).sort(() => 1)",
    "text search": "for (;;) 'a'.repeat(1e7).lastIndexOf('b')",
    "parsing": "for (;;) JSON.parse('[' + '1,'.repeat(1e5) + '1]')",
    "array-like": "Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)",
    "urls": "for (;;) new URL('http://a/' + '../'.repeat(100))",
    "timer callback": "setTimeout(() => { for (;;) {} }, 0); 1",
    "eval": "for (;;) eval('1 + 1')",
}


@pytest.mark.parametrize("name", TIME)
def test_what_never_ends_exceeds_the_time(run, name):
    outcome = run(TIME[name], LIMITS)
    assert isinstance(outcome, Breached), str(outcome)[:300]
    assert outcome.breach.limit is Limit.WALL
    assert 150 <= outcome.breach.actual < 150 + SLACK_MS


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("'x'.repeat(2 ** 30)", "RangeError"),
        ("'x'.repeat(2 ** 31)", "RangeError"),
        ("'x'.padEnd(2 ** 31)", "RangeError"),
        ("let s = 'x'; for (;;) s += s", "InternalError"),
        ("new ArrayBuffer(2 ** 40)", "RangeError"),
        ("new Uint8Array(2 ** 33)", "RangeError"),
        ("new Array(-1)", "RangeError"),
        ("new Array(2 ** 32)", "RangeError"),
        ("1n << (1n << 40n)", "RangeError"),
        ("9n ** 9n ** 9n", "RangeError"),
        ("let b = 2n; for (;;) b *= b", "RangeError"),
        ("BigInt('9'.repeat(1e6))", "RangeError"),
        ("f(" + "1," * 70_000 + "1)", "SyntaxError"),
        ("Math.max.apply(null, new Array(1e5).fill(1))", "RangeError"),
        ("new RegExp('('.repeat(1e4) + ')'.repeat(1e4))", "SyntaxError"),
        ("(1).toFixed(101)", "RangeError"),
        ("'x'.normalize('nope')", "RangeError"),
        ("new Date(NaN).toISOString()", "RangeError"),
        ("a" + ".b" * 500_000, "ReferenceError"),
        ("let e = new Error('x'); for (let i = 0; i < 1e4; i++) e = new Error('y', {cause: e}); throw e", "Error"),
    ],
)
def test_what_the_language_forbids_is_an_error_of_the_script(run, source, name):
    outcome = run(source, ROOMY)
    assert isinstance(outcome, Failed), str(outcome)[:300]
    assert outcome.error.name == name


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("for (;;) llm('x'.repeat(100))", Limit.EVENTS),
        ("'x'.repeat(1e6)", Limit.OUTPUT),
        ("console.log('x'.repeat(1e6))", Limit.OUTPUT),
        ("throw new Error('x'.repeat(1e6))", Limit.OUTPUT),
        ("Promise.reject('x'.repeat(1e6)); 1", Limit.OUTPUT),
        ("for (;;) llm('x'.repeat(1e6))", Limit.OUTPUT),  # prompts are no output, but a step asks so much only
        ("for (;;) Promise.reject(1), await null", Limit.WALL),
        ("for (let i = 0;; i++) console.log(i)", Limit.EVENTS),
    ],
)
def test_what_says_too_much_exceeds_the_output(run, source, limit):
    outcome = run(source, LIMITS.but(max_events=2_000, mem_mb=64, wall_ms=500))
    assert isinstance(outcome, Breached), str(outcome)[:300]
    assert outcome.breach.limit is limit


def test_modules_that_never_end_loading_are_a_breach(javascript):
    class Endless(Modules):
        def resolve(self, specifier, referrer, kind):
            return specifier

        def load(self, name):
            return Module("module", f"import '{name}x'")

    with javascript.create(limits=LIMITS, host=Host(modules=Endless({}))) as sandbox:
        outcome = sandbox.evaluate("await import('x')")
        assert isinstance(outcome, Breached)
        assert outcome.breach.limit in (Limit.STACK, Limit.WALL, Limit.MEMORY)


def test_answers_too_deep_or_too_large_are_refused_or_stopped(javascript):
    deep = []
    for _ in range(300):
        deep = [deep]
    with javascript.create(limits=ROOMY) as sandbox:
        assert isinstance(sandbox.evaluate("(await llm('q')).length"), Paused)
        with pytest.raises(ValueRefused):
            sandbox.resume({1: deep})
        assert sandbox.resume({1: "z" * 3_000_000}).result.value == 3_000_000
        sandbox.evaluate("(await llm('q')).length")
        outcome = sandbox.resume({2: "z" * 25_000_000})
        assert isinstance(outcome, Breached)
        assert outcome.breach.limit is Limit.MEMORY


def test_thousands_of_queries_at_once_are_fine(javascript):
    with javascript.create(limits=ROOMY) as sandbox:
        outcome = sandbox.evaluate("(await Promise.all(Array.from({length: 2000}, (_, i) => llm('q' + i)))).length")
        assert len(outcome.open) == 2000
        assert sandbox.resume({query.id: query.id for query in outcome.queries}).result.value == 2000
