"""JavaScript as a user types it: snippets in a REPL, whole files, and calls from Python."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Failed, Finished, Paused, Undefined

NOW = 1_700_000_000_000.0


@pytest.fixture
def sandbox(javascript):
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000), seed=7) as sandbox:
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1; 2; 3", 3),
        ("let x = 5; x * 2", 10),
        ("let y = 5", Undefined),
        ("", Undefined),
        ("// nothing", Undefined),
        ("if (true) { 'yes' } else { 'no' }", "yes"),
        ("for (var i = 0; i < 3; i++) i", 2),
        ("try { throw 1 } catch (e) { e + 1 }", 2),
        ("'use strict'; (function () { return this })()", Undefined),
        ("{a: 1, b: [2]}", {"a": 1, "b": [2]}),
        ("  {}", {}),
        ("{ let inner = 3; inner }", 3),
        ("{ a: 1 }; 2", 2),
        ("#!/usr/bin/env node\n4", 4),
    ],
)
def test_a_snippet_has_the_value_of_its_last_expression(sandbox, source, expected):
    assert value(sandbox.evaluate(source)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class A { #p = 1; static s = 2; get p() { return this.#p } }; [new A().p, A.s]", [1, 2]),
        ("const {a, ...rest} = {a: 1, b: 2, c: 3}; rest", {"b": 2, "c": 3}),
        ("function* g() { yield* [1, 2] } [...g()]", [1, 2]),
        ("null ?? undefined?.x ?? 'd'", "d"),
        ("2n ** 70n === 1180591620717411303424n", True),
        ("'2024-05'.replace(/(?<y>\\d+)-(?<m>\\d+)/, '$<m>/$<y>')", "05/2024"),
        ("/\\p{Emoji_Presentation}/v.test('😀')", True),
        ("[3, 1, 2].toSorted().with(0, 9)", [9, 2, 3]),
        ("Object.groupBy([1, 2, 3], x => x % 2 ? 'odd' : 'even').odd", [1, 3]),
        ("[1, 2, 3].values().map(x => x * 2).toArray()", [2, 4, 6]),
        ("new Set([1, 2]).union(new Set([3])).size", 3),
        ("label: for (;;) { for (;;) break label } 'out'", "out"),
        ("((a, b = a + 1, ...c) => [a, b, c])(1, undefined, 3)", [1, 2, [3]]),
        ("`${1 + 1}${String.raw`\\n`}`", "2\\n"),
        ("new Proxy({}, {get: (_, k) => k}).anything", "anything"),
        ("[...'a-b'.matchAll(/[a-z]/g)].length", 2),
        ("await Array.fromAsync([1, Promise.resolve(2)])", [1, 2]),
        ("'abc'.at(-1) + [1, 2].findLast(x => x < 2)", "c1"),
        ("Error.isError(new TypeError('x'))", True),
        ("(1234.5).toFixed(2)", "1234.50"),
    ],
)
def test_modern_syntax_and_builtins_are_there(sandbox, source, expected):
    assert value(sandbox.evaluate(source)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("await 5", 5),
        ("const got = await Promise.resolve({a: 1}); got.a", 1),
        ("let sum = 0; for (const p of [1, 2].map(x => Promise.resolve(x))) sum += await p; sum", 3),
        ("let all = []; for await (const x of (async function* () { yield 1; yield 2 })()) all.push(x); all", [1, 2]),
        ("[await 1, await 2]", [1, 2]),
        ("(await (async () => ({deep: {er: 7}}))()).deep.er", 7),
        ("await {then(resolve) { resolve('thenable') }}", "thenable"),
        ("if (await true) { 'in a block' }", "in a block"),
        ("try { await Promise.reject(new Error('no')) } catch (e) { e.message }", "no"),
        ("const f = async x => { await null; return x }; await f(await f(3))", 3),
    ],
)
def test_await_works_at_the_top_of_a_snippet(sandbox, source, expected):
    assert value(sandbox.evaluate(source)) == expected


def test_what_an_awaiting_snippet_declares_stays(sandbox):
    sandbox.evaluate("const answer = await llm('q'); function later() { return answer }")
    assert value(sandbox.resume({1: "kept"})) is Undefined
    assert value(sandbox.evaluate("later()")) == "kept"


def test_a_promise_is_shown_not_awaited(sandbox):
    result = sandbox.evaluate("Promise.resolve(1)").result
    assert (result.type, result.preview, result.has_json) == ("Promise", "Promise { 1 }", False)


def test_a_wait_that_nothing_can_end_is_an_error(sandbox):
    outcome = sandbox.evaluate("await new Promise(() => {})")
    assert isinstance(outcome, Failed)
    assert (outcome.error.name, outcome.error.code) == ("DeadlockError", "NOTHING_TO_WAIT_FOR")


def test_eval_and_function_make_code_that_lives_in_the_sandbox(sandbox):
    assert value(sandbox.evaluate("eval('var made = 1 + 1; made')")) == 2
    assert value(sandbox.evaluate("made")) == 2
    assert value(sandbox.evaluate("new Function('a', 'b', 'return a + b + made')(1, 2)")) == 5
    assert value(sandbox.evaluate("(0, eval)('this') === globalThis && Function('return this')() === globalThis")) is True
    outcome = sandbox.evaluate("await new (async () => {}).constructor(\"return await llm('from code')\")()")
    assert outcome.queries[0].payload == {"prompt": "from code"}


FILES = [
    ("1 + 1", 2),
    ("const once = 1; once", 1),
    ("await 3", 3),
    ("async function main() { await null; return 'done' }\nmain()", "done"),
    ("export default 7", 7),
    ("export default await Promise.resolve('late')", "late"),
    ("export const x = 1", Undefined),
    ("const a = 1; export { a as default }", 1),
    ("export default function f() { return this }; export const self = f()", None),
    ("#!/usr/bin/env node\nexport default 'with a hashbang'", "with a hashbang"),
    ("__ARGS__", {"n": 21}),
    ("export default __ARGS__.n * 2", 42),
]


@pytest.mark.parametrize(("source", "expected"), FILES)
def test_a_file_has_the_value_of_its_last_expression_or_default_export(sandbox, source, expected):
    outcome = sandbox.run_file(source, "work.js", {"n": 21})
    if expected is None:
        assert outcome.result.type == "function"
    else:
        assert value(outcome) == expected


def test_a_file_may_run_twice_and_sees_the_new_arguments(sandbox):
    source = "const once = __ARGS__; class Twice {} ; once"
    assert value(sandbox.run_file(source, "work.js", 1)) == 1
    assert value(sandbox.run_file(source, "work.js", 2)) == 2
    assert value(sandbox.run_file(source, "work.js")) is None


@pytest.mark.parametrize(
    "source",
    [
        "const a = await llm('q'); a",
        "export default await llm('q')",
        "async function main() { return await llm('q') }\nmain()",
        "(async () => { try { return await llm('q') } finally { await null } })()",
    ],
)
def test_a_file_waits_for_answers_also_in_another_sandbox(javascript, sandbox, source):
    assert isinstance(sandbox.run_file(source, "work.js"), Paused)
    with javascript.thaw(sandbox.freeze()) as thawed:
        assert value(thawed.resume({1: "answer"})) == "answer"


def test_a_file_of_a_module_is_strict_and_keeps_its_names(sandbox):
    assert value(sandbox.run_file("export const hidden = 1; export default typeof this", "m.js")) == "undefined"
    assert value(sandbox.evaluate("typeof hidden")) == "undefined"


def test_async_generators_and_finally_blocks_survive_a_thaw(javascript, sandbox):
    sandbox.evaluate("""
        async function* questions() { try { for (let i = 0; i < 3; i++) yield await llm('q' + i) } finally { console.log('closed') } }
        async function firstTwo() { const out = []; for await (const a of questions()) { out.push(a); if (out.length == 2) break } return out }
    """)
    sandbox.evaluate("await firstTwo()")
    with javascript.thaw(sandbox.freeze()) as second:
        second.resume({1: "a"})
        with javascript.thaw(second.freeze()) as third:
            outcome = third.resume({2: "b"})
    assert value(outcome) == ["a", "b"]
    assert [event.payload.get("text") for event in outcome.events] == ["closed"]


def test_a_query_that_loses_a_race_is_cancelled(sandbox):
    sandbox.evaluate("await Promise.race([llm('slow'), llm('fast')])")
    outcome = sandbox.resume({2: "won"})
    assert value(outcome) == "won"
    assert [(event.type, event.payload) for event in outcome.events] == [("cancelled", {"id": 1})]


def test_who_still_waits_for_a_cancelled_query_hears_of_it(sandbox):
    sandbox.evaluate("const left = llm('never'); 1")
    assert value(sandbox.evaluate("await left.catch(e => e.code)")) == "QUERY_CANCELLED"


def test_a_loop_that_asks_again_whatever_happens_ends_with_its_execution(sandbox):
    outcome = sandbox.evaluate("(async () => { for (;;) try { await llm('again') } catch {} })(); 1")
    assert [event.type for event in outcome.events] == ["query", "cancelled"]
    assert value(outcome) == 1


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("add", (1, 2), 3),
        ("arrow", (4,), 8),
        ("api.deep.get", (4,), 9),
        ("Kind.make", (5,), 5),
        ("Math.max", (1, 5, 2), 5),
        ("slow", ("x",), "slow x"),
        ("thenable", (), "then"),
        ("count", (Undefined, None, 3), 3),
    ],
)
def test_python_calls_functions_by_name_however_they_were_declared(sandbox, name, args, expected):
    sandbox.evaluate("""
        function add(a, b) { return a + b }
        const arrow = x => x * 2, api = {deep: {n: 5, get(x) { return this.n + x }}};
        class Kind { static make(x) { return x } }
        async function slow(x) { await null; return 'slow ' + x }
        let thenable = () => ({then(resolve) { resolve('then') }}), count = (...all) => all.length;
    """)
    assert value(sandbox.call(name, *args)) == expected


@pytest.mark.parametrize("name", ["nope", "api.nope", "api.deep.n", "", ".", "api..x", "constructor.constructor.x.y"])
def test_calling_what_is_not_callable_says_so(sandbox, name):
    sandbox.evaluate("const api = {deep: {n: 5}}")
    outcome = sandbox.call(name)
    assert isinstance(outcome, Failed)
    assert outcome.error.name == "TypeError"


def test_a_called_function_may_ask(sandbox):
    sandbox.evaluate("const plan = async city => `${city}: ${await llm(city)}`")
    (query,) = sandbox.call("plan", "Lima").queries
    assert value(sandbox.resume({query.id: "walk"})) == "Lima: walk"


@pytest.mark.parametrize(
    ("source", "kind", "payload"),
    [
        ("llm('p', {model: 'm'})", "llm", {"prompt": "p", "model": "m"}),
        ("llm([{role: 'user', content: 'c'}], {t: 1})", "llm", {"messages": [{"role": "user", "content": "c"}], "t": 1}),
        ("llm({prompt: 'own', x: 1})", "llm", {"prompt": "own", "x": 1}),
        ("llm('p', {prompt: 'other'})", "llm", {"prompt": "p"}),
        ("ask('q?', null)", "ask", {"question": "q?"}),
        ("approve('sure?', {details: [1]})", "approve", {"question": "sure?", "details": [1]}),
        ("hf.tool('t')", "tool", {"name": "t", "args": {}}),
        ("hf.tool('t', 'text')", "tool", {"name": "t", "args": "text"}),
        ("hf.query('own kind')", "own kind", None),
        ("hf.query('own kind', undefined)", "own kind", Undefined),
    ],
)
def test_each_shorthand_asks_with_its_own_payload(sandbox, source, kind, payload):
    (query,) = sandbox.evaluate(f"await {source}").queries
    assert (query.kind, query.payload) == (kind, payload)
