"""CommonJS: require for what the host offers, each module once, cycles as in Node."""

import pytest

from holdfast.sandbox import Failed, Finished, Host, HostError, Module, Modules

MODULES = {
    "lib/main.cjs": Module(
        "commonjs",
        "exports.helper = require('./helper.cjs'); exports.names = [__filename, __dirname, module.id, typeof exports]",
    ),
    "lib/helper.cjs": Module("commonjs", "module.exports = x => 'helped ' + x"),
    "once.cjs": Module(
        "commonjs", "globalThis.runs = (globalThis.runs ?? 0) + 1; exports.self = module; exports.loaded = module.loaded"
    ),
    "a.cjs": Module("commonjs", "exports.early = 1; const b = require('./b.cjs'); exports.late = 2; exports.seen = b.seen"),
    "b.cjs": Module("commonjs", "exports.seen = Object.keys(require('./a.cjs'))"),
    "this.cjs": Module("commonjs", "this.viaThis = this === exports"),
    "return.cjs": Module("commonjs", "exports.x = 1; return; exports.x = 2"),
    "hashbang.cjs": Module("commonjs", "#!/usr/bin/env node\nexports.ok = true"),
    "comment.cjs": Module("commonjs", "exports.ok = true // the end"),
    "throws.cjs": Module(
        "commonjs", "\n\nglobalThis.tries = (globalThis.tries ?? 0) + 1; throw new TypeError('while loading')"
    ),
    "syntax.cjs": Module("commonjs", "exports.x = 1;\nlet = = 1"),
    "data.json": Module("json", '{"k": [1, 2], "__proto__": {"polluted": true}}'),
    "broken.json": Module("json", "{"),
    "es.js": Module("module", "export const x = 1"),
    "db": Module("functions", names=("query", "fail")),
    "dynamic.cjs": Module("commonjs", "exports.load = async () => (await import('./es.js')).x"),
    "asks.cjs": Module("commonjs", "exports.plan = async city => 'plan: ' + await llm(city)"),
}


def fail():
    raise HostError("no such table", code="SQL")


HOST = Host({"db.query": lambda text, *rest: [text, *rest], "db.fail": fail}, Modules(MODULES))


@pytest.fixture
def sandbox(javascript):
    with javascript.create(host=HOST) as sandbox:
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("require('./lib/main.cjs').helper('x')", "helped x"),
        ("require('lib/main.cjs').names", ["lib/main.cjs", "lib", "lib/main.cjs", "object"]),
        ("require('./once.cjs') === require('once.cjs') && runs", 1),
        (
            "const {self, loaded} = require('./once.cjs'); [self.loaded, loaded, self.exports.self === self]",
            [True, False, True],
        ),
        ("const a = require('./a.cjs'); [a.seen, a.late]", [["early"], 2]),
        ("require('./this.cjs').viaThis", True),
        ("require('./return.cjs').x", 1),
        ("require('./hashbang.cjs').ok", True),
        ("require('./comment.cjs').ok", True),
        ("require('./data.json').k", [1, 2]),
        ("({}).polluted ?? require('./data.json').k.length", 2),
        ("require('./data.json') === require('./data.json')", True),
        ("require('db').query('select 1', {a: new Date(0)}.a.getTime())", ["select 1", 0]),
        ("try { require('db').fail() } catch (e) { [e.code, e.message] }", ["SQL", "no such table"]),
        (
            "const db = require('db'); 'use strict'; [Object.isFrozen(db), Object.keys(db), db.query.name]",
            [True, ["query", "fail"], "query"],
        ),
        ("await require('./dynamic.cjs').load()", 1),
        ("typeof module + typeof exports + typeof __filename", "undefinedundefinedundefined"),
    ],
)
def test_require_gives_what_the_module_exports(sandbox, source, expected):
    assert value(sandbox.evaluate(source)) == expected


def test_require_is_relative_to_the_file_that_calls_it(sandbox):
    assert value(sandbox.run_file("require('./helper.cjs')('y')", "lib/work.js")) == "helped y"
    assert value(sandbox.run_file("export default require('./helper.cjs')('z')", "lib/module.js")) == "helped z"


def test_import_and_require_share_one_module(sandbox):
    assert value(sandbox.evaluate("(await import('./once.cjs')).default === require('./once.cjs') && runs")) == 1


def test_the_cache_is_part_of_the_session(javascript, sandbox):
    sandbox.evaluate("require('./once.cjs')")
    with javascript.thaw(sandbox.freeze(), host=HOST) as thawed:
        assert value(thawed.evaluate("require('./once.cjs').self.loaded && runs")) == 1
        assert value(thawed.evaluate("require('./lib/helper.cjs')('again')")) == "helped again"


def test_functions_of_a_module_may_ask(sandbox):
    (query,) = sandbox.evaluate("await require('./asks.cjs').plan('Lima')").queries
    assert value(sandbox.resume({query.id: "walk"})) == "plan: walk"


@pytest.mark.parametrize(
    ("source", "name", "part"),
    [
        ("require('gone')", "Error", "gone"),
        ("require('./throws.cjs')", "TypeError", "while loading"),
        ("require('./syntax.cjs')", "SyntaxError", ""),
        ("require('./broken.json')", "SyntaxError", ""),
        ("require('./es.js')", "TypeError", "import"),
        ("require()", "TypeError", "string"),
        ("require({toString() { return 'db' }})", "TypeError", "string"),
        ("require('')", "Error", ""),
        ("require('./\\0x')", "Error", ""),
        ("require('/etc/passwd')", "Error", "passwd"),
        ("require('../../../etc/passwd')", "Error", "passwd"),
        ("require('__proto__')", "Error", "__proto__"),
        ("new require('db')", "TypeError", ""),
    ],
)
def test_what_cannot_be_required_says_why(sandbox, source, name, part):
    outcome = sandbox.evaluate(source)
    assert isinstance(outcome, Failed), outcome
    assert outcome.error.name == name
    assert part in outcome.error.message
    assert value(sandbox.evaluate("require('./lib/helper.cjs')('still')")) == "helped still"


def test_a_module_that_failed_runs_again_when_it_is_required_again(sandbox):
    for tries in (1, 2):
        outcome = sandbox.evaluate("require('./throws.cjs')")
        assert "throws.cjs:3:" in outcome.error.stack
        assert value(sandbox.evaluate("tries")) == tries


def test_without_a_loader_nothing_can_be_required(javascript):
    with javascript.create() as sandbox:
        assert value(sandbox.evaluate("try { require('fs') } catch (e) { e.code }")) == "MODULE_NOT_FOUND"


def test_functions_of_the_host_are_those_of_the_present_host(javascript, sandbox):
    sandbox.evaluate("const db = require('db')")
    image = sandbox.freeze()
    with javascript.thaw(image, host=Host({"db.query": lambda text: "another host"})) as thawed:
        assert value(thawed.evaluate("db.query('x')")) == "another host"
    with javascript.thaw(image) as thawed:
        assert value(thawed.evaluate("try { db.query('x') } catch (e) { e.code }")) == "HOST_FUNCTION_NOT_FOUND"
