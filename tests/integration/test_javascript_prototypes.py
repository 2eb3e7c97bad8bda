"""Prototype games: whatever a script does to the objects of its own world, the bridge to the host says what is true."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import (
    BigInt,
    Date,
    ErrorValue,
    Failed,
    Failure,
    Finished,
    Host,
    Map,
    Module,
    Modules,
    Paused,
    Set,
    Undefined,
)

LIMITS = Limits(wall_ms=20_000, cpu_ms=20_000)
HOST = Host(
    {
        "same": lambda x: x,
        "large": lambda n: "x" * n,
        "add": lambda a, b: a + b,
        "rich": lambda: {"m": Map(((1, 2),)), "d": Date(5)},
        "tools.f": lambda: "f",
    },
    Modules(
        {
            "m.js": Module("module", "export default 'module'"),
            "c.cjs": Module("commonjs", "exports.c = 'commonjs'"),
            "tools": Module("functions", names=("f",)),
        }
    ),
)
RICH = {
    "m": Map((("k", [1]),)),
    "s": Set((1,)),
    "d": Date(7),
    "b": BigInt(-5),
    "y": b"\x01",
    "u": Undefined,
    "e": ErrorValue("RangeError", "r", "S"),
    "$": "wrapped",
}

GAMES = {
    "then of promises": "Promise.prototype.then = function () { throw new Error('mine') }",
    "promises gone": "Promise = undefined; globalThis.Promise = null",
    "resolve of promises": "Promise.resolve = Promise.reject = () => { throw 1 }",
    "species": "Object.defineProperty(Promise, Symbol.species, {get() { throw 1 }}); Object.defineProperty(Array, Symbol.species, {get() { throw 1 }})",
    "then of everything": "Object.defineProperty(Object.prototype, 'then', {get() { return undefined }, set() { throw 1 }, configurable: true})",
    "value of everything": "Object.defineProperty(Object.prototype, 'value', {get() { return 'forged' }, set(v) { globalThis.stolen = v }, configurable: true})",
    "tags of everything": "for (const k of ['$', 'v', 'id', 'kind', 'payload', 'type', 'json', 'preview', 'prompt', 'source', 'names', 'exports', 'url', 'level', 'text']) Object.defineProperty(Object.prototype, k, {get() { return 'forged' }, set(v) { globalThis.stolen = v }, configurable: true})",
    "errors of everything": "for (const k of ['name', 'message', 'code', 'stack', 'cause']) Object.defineProperty(Object.prototype, k, {get() { throw new Error('mine') }, set() { throw new Error('mine') }, configurable: true})",
    "elements of arrays": "for (const i of [0, 1, 2]) Object.defineProperty(Array.prototype, i, {get() { return 'forged' }, set() { throw 'mine' }, configurable: true})",
    "methods of arrays": "for (const k of ['push', 'join', 'map', 'forEach', 'slice', 'concat', 'indexOf', 'pop', 'toString', 'values']) Array.prototype[k] = () => { throw new Error('mine') }",
    "iterators": "Array.prototype[Symbol.iterator] = Map.prototype[Symbol.iterator] = Set.prototype[Symbol.iterator] = String.prototype[Symbol.iterator] = function () { throw new Error('mine') }",
    "iterator results": "Object.getPrototypeOf([][Symbol.iterator]()).next = () => { throw new Error('mine') }",
    "JSON": "JSON.parse = JSON.stringify = () => 'forged'",
    "JSON gone": "delete globalThis.JSON; JSON2 = 1",
    "toJSON of everything": "Object.defineProperty(Object.prototype, 'toJSON', {get() { return undefined }, configurable: true})",
    "call and apply": "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw new Error('mine') }",
    "toString": "Object.prototype.toString = Function.prototype.toString = String.prototype.toString = Error.prototype.toString = () => { throw new Error('mine') }",
    "collections": "Map.prototype.set = Map.prototype.get = Map.prototype.entries = Set.prototype.add = Set.prototype.values = () => { throw new Error('mine') }; Map = Set = undefined",
    "constructors gone": "Object = Array = Error = TypeError = RangeError = String = Number = BigInt = Date = Uint8Array = ArrayBuffer = Symbol = undefined",
    "keys": "Object.keys = Object.entries = Object.getOwnPropertyNames = Object.getOwnPropertyDescriptor = Reflect.ownKeys = () => { throw new Error('mine') }",
    "dates and bytes": "Date.prototype.getTime = Date.prototype.valueOf = Date.prototype.toISOString = () => { throw 1 }; Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), 'length', {get() { throw 1 }})",
    "texts": "for (const k of ['replace', 'split', 'indexOf', 'slice', 'startsWith', 'padEnd']) String.prototype[k] = () => { throw new Error('mine') }; RegExp.prototype.exec = RegExp.prototype.test = () => { throw 1 }",
    "stack traces": "Error.prepareStackTrace = () => { throw new Error('mine') }; Error.stackTraceLimit = {valueOf() { throw 1 }}",
    "the bridge gone": "globalThis.gone = [hf, llm, console]; [h, l] = [hf, llm]; h.llm === l",
    "prototypes frozen": "[Object, Array, Promise, Error, Map, Function].forEach(c => Object.freeze(c.prototype))",
    "prototypes cut off": "Object.setPrototypeOf(Function.prototype, null); Object.setPrototypeOf(Array.prototype, null)",
}


@pytest.fixture
def sandbox(javascript):
    with javascript.create(limits=LIMITS, host=HOST) as sandbox:
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


@pytest.mark.parametrize("game", GAMES)
def test_the_bridge_says_what_is_true_whatever_the_script_replaced(sandbox, game):
    assert isinstance(sandbox.evaluate("function same(x) { return x }; " + GAMES[game]), Finished)
    assert value(sandbox.evaluate("1 + 2")) == 3
    assert value(sandbox.evaluate("same({a: [1, {b: 'x'}]})")) == {"a": [1, {"b": "x"}]}
    assert value(sandbox.call("same", RICH)) == RICH
    assert value(sandbox.evaluate("hf.call('add', 2, 3)")) == 5
    assert value(sandbox.evaluate("hf.call('rich')")) == {"m": Map(((1, 2),)), "d": Date(5)}
    (query,) = sandbox.evaluate("await llm('p', {o: [1], $: 2})").queries
    assert (query.kind, query.payload) == ("llm", {"prompt": "p", "o": [1], "$": 2})
    assert value(sandbox.resume({query.id: RICH})) == RICH
    outcome = sandbox.evaluate("console.log('printed'); console.log('%s %d', 'a', 1); 0")
    assert [event.type for event in outcome.events] == ["console", "console"]
    assert outcome.events[0].payload == {"level": "log", "text": "printed"}
    assert value(sandbox.evaluate("typeof stolen")) == "undefined"


@pytest.mark.parametrize("game", GAMES)
def test_errors_modules_and_files_still_work(javascript, sandbox, game):
    sandbox.evaluate(GAMES[game])
    assert isinstance(sandbox.evaluate("null.x"), Failed)
    assert isinstance(sandbox.evaluate("let = = 1"), Failed)
    assert value(sandbox.evaluate("require('c.cjs').c + require('tools').f()")) == "commonjsf"
    assert value(sandbox.run_file("export default [__ARGS__]", "main.js", 5)) == [5]
    assert value(sandbox.run_file("import m from 'm.js'; export default m", "main.js")) == "module"
    (query,) = sandbox.evaluate("try { await ask('q') } catch (e) { e }").queries
    failed = value(sandbox.resume({query.id: Failure("no", "E_NO")}))
    assert isinstance(failed, ErrorValue)
    with javascript.thaw(sandbox.freeze(), host=HOST) as thawed:
        assert value(thawed.evaluate("2 + 2")) == 4


@pytest.mark.parametrize(
    "game",
    [
        "Object.defineProperty(Promise.prototype, 'constructor', {get() { throw new Error('mine') }})",
        "Object.setPrototypeOf(Array.prototype, new Proxy({}, {get() { throw new Error('mine') }, has() { throw new Error('mine') }, set() { throw new Error('mine') }}))",
        "Object.defineProperty(Object.prototype, 'toJSON', {get() { throw new Error('mine') }})",
    ],
)
def test_who_breaks_the_language_itself_gets_errors_of_the_script(sandbox, game):
    sandbox.evaluate(game)
    assert value(sandbox.evaluate("1 + 2")) == 3
    outcome = sandbox.evaluate("await llm('p', {list: [1]})")
    if isinstance(outcome, Paused):
        outcome = sandbox.resume({1: [1]})
    assert "mine" in str(outcome)
    assert isinstance(sandbox.evaluate("null.x"), Failed)
    assert value(sandbox.evaluate("hf.call('add', 2, 3)")) == 5


def test_who_freezes_globalthis_may_still_declare_ask_and_fail(sandbox):
    sandbox.evaluate("Object.freeze(globalThis)")
    assert value(sandbox.evaluate("let x = 1; x + 1")) == 2
    assert isinstance(sandbox.evaluate("var y = 1"), Failed)
    assert isinstance(sandbox.evaluate("function f() {}"), Failed)
    assert sandbox.run_file("__ARGS__", "main.js", 5).error.name == "ReferenceError"
    (query,) = sandbox.evaluate("let got = await llm('q'); got").queries
    assert value(sandbox.resume({query.id: 5})) == 5


def test_hf_is_frozen_and_so_are_its_functions(sandbox):
    assert value(sandbox.evaluate("[hf, ...Object.values(hf), llm, ask, approve].every(Object.isFrozen)")) is True
    nested = "['state', 'stats', 'card'].flatMap(name => Object.values(hf[name])).every(Object.isFrozen)"
    assert value(sandbox.evaluate(nested)) is True
    assert value(
        sandbox.evaluate("hf.query = 1; delete hf.llm; hf.added = 1; [typeof hf.query, typeof hf.llm, typeof hf.added]")
    ) == ["function", "function", "undefined"]
    for source in (
        "'use strict'; hf.x = 1",
        "'use strict'; delete hf.llm",
        "Object.defineProperty(hf, 'llm', {value: 1})",
        "Object.setPrototypeOf(hf, {})",
        "new hf.query('k')",
        "new llm('p')",
    ):
        assert sandbox.evaluate(source).error.name == "TypeError"


def test_a_script_may_hide_its_bridge_from_itself_only(javascript, sandbox):
    sandbox.evaluate("delete globalThis.hf; llm = () => 'fake'; console.log = () => {}; globalThis.console = null")
    assert value(sandbox.evaluate("typeof hf + llm('x')")) == "undefinedfake"
    with javascript.create() as neighbour:
        assert isinstance(neighbour.evaluate("await hf.llm('x')"), Paused)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("{$: 'bytes', v: 'aGk='}", {"$": "bytes", "v": "aGk="}),
        ("{a: {$: 'circular', v: '$'}}", {"a": {"$": "circular", "v": "$"}}),
        ("{toJSON: () => ({$: 'date', v: 1})}", {"$": "date", "v": 1}),
        ("new Proxy({}, {ownKeys: () => ['$', 'v'], get: (t, k) => k === '$' ? 'bigint' : k === 'v' ? '1' : undefined, getOwnPropertyDescriptor: () => ({enumerable: true, configurable: true, value: 1})})", {"$": "bigint", "v": "1"}),
        ("Object.create({$: 'date', v: 1})", {}),
        ("Object.defineProperty({v: 1}, '$', {get: () => 'error', enumerable: true})", {"v": 1, "$": "error"}),
        ("'\"],[\"query\",99,\"llm\",{}]'", '"],["query",99,"llm",{}]'),
        ("{['\"],[\"value\",\"x\",\"y\"]\\n']: 1}", {'"],["value","x","y"]\n': 1}),
    ],
)  # fmt: skip
def test_no_payload_can_forge_a_tag_or_a_record(sandbox, payload, expected):
    outcome = sandbox.evaluate(f"await hf.query('k', {payload})")
    assert [(query.id, query.kind, query.payload) for query in outcome.queries] == [(1, "k", expected)]
    assert value(sandbox.resume({1: None})) is None
    assert value(sandbox.evaluate(f"({payload})")) == expected


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\u2028", "\0", '"],["value","number","1",1', "\ufeff", "x" * 3000])
def test_no_text_can_forge_a_record(sandbox, text):
    sandbox.evaluate("const kind = x => { hf.query(x, 1); console.log(x); throw new Error(x) }")
    outcome = sandbox.call("kind", text)
    assert isinstance(outcome, Failed)
    assert outcome.error.message == text
    assert [event.type for event in outcome.events] == ["query", "console", "cancelled"]
    assert outcome.events[0].payload["kind"] == outcome.events[1].payload["text"] == text


def test_a_payload_that_asks_while_it_is_read_gets_queries_in_order(sandbox):
    outcome = sandbox.evaluate("await hf.query('outer', {get a() { llm('inner'); return 1 }})")
    assert [(query.id, query.kind) for query in outcome.queries] == [(1, "llm"), (2, "outer")]
    assert value(sandbox.resume({2: "done"})) == "done"


def test_arguments_that_call_the_host_while_they_are_read(sandbox):
    source = "hf.call('same', {get a() { return hf.call('large', 300000).length }, toJSON() { return {b: this.a, c: hf.call('add', 1, 2)} }})"
    assert value(sandbox.evaluate(source)) == {"b": 300_000, "c": 3}


def test_a_payload_whose_getter_throws_is_an_error_or_is_marked(sandbox):
    assert sandbox.evaluate("await llm('p', {get a() { throw new RangeError('mine') }})").error.name == "RangeError"
    assert "getter threw" in str(
        sandbox.evaluate("await hf.query('k', {get a() { throw new Error('mine') }})").queries[0].payload
    )


def test_answers_and_values_are_not_mistaken_for_thenables(sandbox):
    sandbox.evaluate("Object.prototype.then = function (resolve) { globalThis.called = true; resolve('forged') }; 1")
    (query,) = sandbox.evaluate("const got = await llm('p'); [got.x, typeof called]").queries
    assert value(sandbox.resume({query.id: {"x": 5}})) == [5, "undefined"]


def test_replaced_promises_cannot_end_an_execution_twice(sandbox):
    sandbox.evaluate(
        "const {then} = Promise.prototype; Promise.prototype.then = function (a, b) { then.call(this, a, b); return then.call(this, a, b) }"
    )
    sandbox.evaluate("let n = 0; const a = await llm('one'); n++; [a, n]")
    assert value(sandbox.resume({1: "x"})) == ["x", 1]


def test_our_own_functions_are_not_reachable(sandbox):
    assert value(sandbox.evaluate("typeof __holdfast + typeof native + typeof promiseDetails")) == "undefined" * 3
    for function in (
        "console.table",
        "console.trace",
        "URL",
        "URLSearchParams",
        "structuredClone",
        "TextDecoder",
        "llm",
        "hf.call",
    ):
        assert "[native code]" in value(sandbox.evaluate(f"String({function})"))
    source = "console.log({[Symbol.for('nodejs.util.inspect.custom')]() { console.log(new Error('x').stack); return '' }})"
    stack = sandbox.evaluate(source, "work.js").events[0].payload["text"]
    assert all("(work.js:" in frame or "(native)" in frame for frame in stack.split("\n")[1:])


@pytest.mark.parametrize(
    "receiver", ["5", "null", "{}", "[]", "Object.create(Promise.prototype)", "new Proxy(Promise.resolve(1), {})"]
)
def test_the_one_function_of_ours_that_can_be_found_takes_any_receiver(sandbox, receiver):
    call = f"Promise.prototype[Symbol.for('nodejs.util.inspect.custom')].call({receiver}, 0, null, x => x)"
    assert isinstance(sandbox.evaluate(f"typeof {call}"), Finished)
    assert isinstance(
        sandbox.evaluate(f"{call}; console.log({receiver}); {call.replace('0, null, x => x', '')}"), Finished | Failed
    )


def test_weak_references_and_finalizers_do_no_harm(javascript, sandbox):
    sandbox.evaluate("""
        const seen = [], registry = new FinalizationRegistry(name => { seen.push(name); if (seen.length < 3) registry.register({}, 'again') });
        let refs = []; for (let i = 0; i < 1000; i++) { const o = {i}; refs.push(new WeakRef(o)); registry.register(o, i) }
        registry.register({}, 'dropped'); const kept = {}; refs.push(new WeakRef(kept));
    """)
    with javascript.thaw(sandbox.freeze()) as thawed:
        assert value(thawed.evaluate("refs.at(-1).deref() === kept && refs.filter(r => r.deref()).length >= 1")) is True
        thawed.evaluate("refs = null; let junk = []; for (let i = 0; i < 1e5; i++) junk.push({i}); junk = null")
        assert value(thawed.evaluate("seen.length > 0")) is True


def test_a_finalizer_that_throws_is_reported_not_fatal(sandbox):
    outcome = sandbox.evaluate(
        "const r = new FinalizationRegistry(() => { throw new Error('late') }); r.register({}, 1); await null; 1"
    )
    assert value(outcome) == 1
    assert value(sandbox.evaluate("1 + 1")) == 2
