"""ES modules: import and export through the host's loader, and import() also after a thaw."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Failed, Finished, Host, HostError, Module, Modules, Paused

MODULES = {
    "lib/a.js": Module(
        "module",
        "import {b} from './b.js'; export const a = 1 + b; export default 'the default'; export const url = import.meta.url",
    ),
    "lib/b.js": Module("module", "export let b = 41; export const bump = () => ++b"),
    "lib/index.js": Module(
        "module", "export * from './a.js'; export {default as named} from './a.js'; export * as all from './b.js'"
    ),
    "once.js": Module("module", "globalThis.loads = (globalThis.loads ?? 0) + 1; export default loads"),
    "even.js": Module("module", "import {odd} from './odd.js'; export const even = n => n === 0 || odd(n - 1)"),
    "odd.js": Module("module", "import {even} from './even.js'; export const odd = n => n !== 0 && even(n - 1)"),
    "early.js": Module("module", "import {late} from './late.js'; export const early = late"),
    "late.js": Module("module", "import {early} from './early.js'; export const late = early"),
    "self.js": Module(
        "module", "import * as me from './self.js'; export const x = 1; export const keys = () => Object.keys(me)"
    ),
    "data.json": Module("json", '{"k": [1, 2], "default": 3}'),
    "list.json": Module("json", "[1, 2]"),
    "broken.json": Module("json", '{"k": '),
    "asks.js": Module("module", "export const told = await llm('from a module')"),
    "waits.js": Module("module", "import {told} from './asks.js'; export default 'told ' + told"),
    "throws.js": Module("module", "\n\nthrow new Error('while loading')"),
    "rejects.js": Module("module", "await null;\nthrow new Error('later')"),
    "needs-throws.js": Module("module", "import './throws.js'; export const x = 1"),
    "syntax.js": Module("module", "export const x = 1;\nlet = = 1"),
    "needs-missing.js": Module("module", "import './lib/b.js'; import './nowhere.js'"),
    "cycle-missing.js": Module("module", "import './cycle-back.js'; import './nowhere.js'; export const c = 1"),
    "cycle-back.js": Module("module", "import {c} from './cycle-missing.js'; export const f = () => c"),
    "main.js": Module("module", "throw new Error('the file itself is the module of its name')"),
    "back.js": Module("module", "import {x} from './main.js'; export const later = () => x"),
    "asks-a.js": Module("module", "import './asks-b.js'; export const a = await llm('a')"),
    "asks-b.js": Module("module", "import './asks-a.js'; export const b = await llm('b')"),
    "lazy.js": Module("module", "export const other = import('./lazy-back.js'); export default 1"),
    "lazy-back.js": Module("module", "import one from './lazy.js'; export default one + 1"),
    "tools": Module("functions", names=("read", "add")),
    "plain.cjs": Module("commonjs", "exports.one = 1; exports.two = () => 2"),
    "function.cjs": Module("commonjs", "module.exports = function hi() { return 'hi' }; module.exports.extra = 1"),
}
HOST = Host({"tools.read": lambda path: f"content of {path}", "tools.add": lambda a, b: a + b}, Modules(MODULES))


@pytest.fixture
def sandbox(javascript):
    with javascript.create(host=HOST, limits=Limits(wall_ms=20_000, cpu_ms=20_000)) as sandbox:
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def error(outcome):
    assert isinstance(outcome, Failed), outcome
    return outcome.error


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import d, {a, url} from './lib/a.js'; export default [d, a, url]", ["the default", 42, "lib/a.js"]),
        ("import * as ns from 'lib/b.js'; export default Object.keys(ns)", ["b", "bump"]),
        ("import {b, bump} from './lib/b.js'; bump(); export default b", 42),
        ("import {a, named, all} from './lib/index.js'; export default [a, named, all.b]", [42, "the default", 41]),
        ("import {even} from './even.js'; export default [even(10), even(7)]", [True, False]),
        ("import {keys} from './self.js'; export default keys()", ["keys", "x"]),
        ("import data from './data.json' with {type: 'json'}; export default data", {"k": [1, 2], "default": 3}),
        ("import list from './list.json'; export default list", [1, 2]),
        ("import c, {one, two} from './plain.cjs'; export default [c.one, one, two()]", [1, 1, 2]),
        ("import hi, {extra} from './function.cjs'; export default [hi(), extra]", ["hi", 1]),
        ("import {read, add} from 'tools'; export default [read('x'), add(1, 2)]", ["content of x", 3]),
        ("import tools from 'tools'; export default Object.isFrozen(tools)", True),
        ("import first from './once.js'; import second from './once.js'; export default [first, second, loads]", [1, 1, 1]),
        ("export default import.meta.url", "main.js"),
        ("const {a} = await import('./lib/a.js'); export default a", 42),
    ],
)
def test_a_file_imports_what_the_host_offers(sandbox, source, expected):
    assert value(sandbox.run_file(source, "main.js")) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("const {a} = await import('./lib/a.js'); a", 42),
        ("(await import('lib/a.js')).default", "the default"),
        ("(await import('./lib/a.js')) === (await import('lib/a.js'))", True),
        ("const [x, y] = await Promise.all([import('./once.js'), import('./once.js')]); [x === y, loads]", [True, 1]),
        ("(await import('./data.json', {with: {type: 'json'}})).default.k", [1, 2]),
        ("(await import('./data.json')).default.default", 3),
        ("(await import('tools')).read('y')", "content of y"),
        ("(await import('./plain.cjs')).default.two()", 2),
        ("const ns = await import('./lib/b.js'); [Object.isSealed(ns), ns[Symbol.toStringTag]]", [True, "Module"]),
        (
            "const ns = await import('./lib/b.js'); 'use strict'; try { (function () { 'use strict'; ns.b = 1 })() } catch (e) { e.name }",
            "TypeError",
        ),
        ("await eval(\"import('./lib/b.js').then(ns => ns.b)\")", 41),
    ],
)
def test_a_snippet_imports_dynamically(sandbox, source, expected):
    assert value(sandbox.evaluate(source)) == expected


def test_a_module_runs_once_in_the_life_of_a_session(javascript, sandbox):
    assert value(sandbox.evaluate("(await import('./once.js')).default")) == 1
    with javascript.thaw(sandbox.freeze(), host=HOST) as thawed:
        assert value(thawed.evaluate("(await import('./once.js')).default + loads")) == 2
        assert value(thawed.evaluate("(await import('./lib/a.js')).a")) == 42


def test_live_bindings_stay_live_after_a_thaw(javascript, sandbox):
    sandbox.evaluate("const counter = await import('./lib/b.js'); counter.bump()")
    with javascript.thaw(sandbox.freeze(), host=HOST) as thawed:
        assert value(thawed.evaluate("counter.bump(); counter.b")) == 43


def test_a_module_may_ask_while_it_loads(javascript, sandbox):
    outcome = sandbox.run_file("import told from './waits.js'; export default told", "main.js")
    assert isinstance(outcome, Paused)
    assert outcome.queries[0].payload == {"prompt": "from a module"}
    with javascript.thaw(sandbox.freeze(), host=HOST) as thawed:
        assert value(thawed.resume({1: "much"})) == "told much"
        assert value(thawed.evaluate("(await import('./asks.js')).told")) == "much"


def test_modules_in_a_cycle_may_both_ask(sandbox):
    prompts, outcome = [], sandbox.evaluate("(await import('./asks-a.js')).a + (await import('./asks-b.js')).b")
    while isinstance(outcome, Paused):
        (query,) = outcome.queries
        prompts.append(query.payload["prompt"])
        outcome = sandbox.resume({query.id: query.payload["prompt"].upper()})
    assert (prompts, value(outcome)) == (["b", "a"], "AB")


def test_a_module_may_import_dynamically_what_imports_it(sandbox):
    assert value(sandbox.evaluate("(await (await import('./lazy.js')).other).default")) == 2


def test_the_loader_is_told_who_asks_and_how(javascript):
    class Recorder(Modules):
        def resolve(self, specifier, referrer, kind):
            asked.append((specifier, referrer, kind))
            return super().resolve(specifier, referrer, kind)

    asked = []
    with javascript.create(host=Host(modules=Recorder(MODULES))) as sandbox:
        sandbox.run_file("import './lib/a.js'", "main.js")
        sandbox.evaluate("await import('./plain.cjs')")
        sandbox.evaluate("require('./function.cjs')")
    assert asked == [
        ("./lib/a.js", "main.js", "import"),
        ("./b.js", "lib/a.js", "import"),
        ("./plain.cjs", "<repl>", "import"),
        ("./function.cjs", "<repl>", "require"),
    ]


@pytest.mark.parametrize(
    ("specifier", "name", "part"),
    [
        ("./nowhere.js", "Error", "nowhere.js"),
        ("./needs-missing.js", "Error", "nowhere.js"),
        ("./cycle-missing.js", "Error", "nowhere.js"),
        ("./throws.js", "Error", "while loading"),
        ("./needs-throws.js", "Error", "while loading"),
        ("./rejects.js", "Error", "later"),
        ("./syntax.js", "SyntaxError", ""),
        ("./broken.json", "SyntaxError", ""),
        ("./early.js", "ReferenceError", ""),
    ],
)
@pytest.mark.parametrize("how", ["await import('{}')", "import '{}'; export default 1"])
def test_a_module_that_cannot_load_is_an_error_each_time(sandbox, how, specifier, name, part):
    for _ in range(3):
        outcome = sandbox.run_file(how.format(specifier), "main.js")
        assert error(outcome).name == name
        assert part in outcome.error.message
        assert outcome.events == ()
    assert value(sandbox.evaluate("(await import('./lib/a.js')).a")) == 42


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import {nothing} from './lib/b.js'", "SyntaxError"),
        ("import nothing from './lib/b.js'", "SyntaxError"),
        ("import x from './lib/b.js' with {type: 'json'}", "TypeError"),
        ("import x from './data.json' with {type: 'css'}", "TypeError"),
        ("import x from './data.json' with {other: 'json'}", "TypeError"),
        ("import {k} from './data.json'", "SyntaxError"),
        ("export default 1; export default 2", "SyntaxError"),
        ("import x from", "SyntaxError"),
        ("export {missing}", "SyntaxError"),
        ("await import(Symbol())", "TypeError"),
        ("await import({toString() { throw new RangeError('no') }})", "RangeError"),
        ("await import('./lib/b.js', {with: {type: 'css'}})", "TypeError"),
    ],
)
def test_wrong_imports_say_what_is_wrong(sandbox, source, name):
    assert error(sandbox.run_file(source, "main.js")).name == name
    assert value(sandbox.evaluate("1 + 1")) == 2


def test_a_missing_module_can_be_caught_by_its_code(sandbox):
    assert value(sandbox.evaluate("await import('gone').catch(e => [e.code, e instanceof Error])")) == [
        "MODULE_NOT_FOUND",
        True,
    ]


def test_without_a_loader_there_are_no_modules(javascript):
    with javascript.create() as sandbox:
        assert error(sandbox.evaluate("await import('fs')")).code == "MODULE_NOT_FOUND"
        assert error(sandbox.run_file("import 'fs'", "main.js")).code == "MODULE_NOT_FOUND"


def test_a_loader_may_refuse_with_a_code_of_its_own(javascript):
    class Refuses(Modules):
        def load(self, name):
            raise HostError("not for you", code="FORBIDDEN")

    with javascript.create(host=Host(modules=Refuses(MODULES))) as sandbox:
        assert value(sandbox.evaluate("await import('once.js').catch(e => [e.code, e.message])")) == [
            "FORBIDDEN",
            "not for you",
        ]


def test_a_file_takes_part_in_the_cycles_of_its_modules(sandbox):
    source = "import {later} from './back.js'; export const x = 'of the file'; export default later()"
    assert value(sandbox.run_file(source, "main.js")) == "of the file"
