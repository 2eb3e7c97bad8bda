"""Errors as a user needs them: what was thrown, with the file and line that the user wrote, and nothing of ours."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Failed, Failure, Finished, Host, HostError, Module, Modules, Opaque, Undefined

MODULES = {
    "lib/boom.js": Module(
        "module",
        "\nexport function boom() {\n  throw new Error('in a module')\n}\nexport const later = async () => {\n  await null;\n  boom()\n}",
    ),
    "boom.cjs": Module(
        "commonjs",
        "exports.boom = () => {\n  throw new TypeError('in commonjs')\n}; exports.first = new Error('while loading')",
    ),
    "broken.js": Module("module", "export const x = 1;\n\nlet = ;"),
}


def refuse():
    raise HostError("not today", code="REFUSED")


@pytest.fixture
def sandbox(javascript):
    host = Host({"refuse": refuse}, Modules(MODULES))
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000), host=host) as sandbox:
        yield sandbox


def error(outcome):
    assert isinstance(outcome, Failed), outcome
    return outcome.error


def frames(stack):
    return [line.strip() for line in stack.split("\n") if line.startswith("    at ")]


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("\n\nthrow new Error('x')", ["work.js:3:"]),
        ("function f() {\n  null.x\n}\n\nf()", ["f (work.js:2:", "work.js:5:"]),
        ("const f = () => {\n  undefinedName\n}\nf()", ["f (work.js:2:", "work.js:4:"]),
        ("class A {\n  static m() {\n    this.nope()\n  }\n}\nA.m()", ["m (work.js:3:", "work.js:6:"]),
        ("class A {\n  constructor() {\n    throw new Error('x')\n  }\n}\nnew A()", ["A (work.js:3:", "work.js:6:"]),
        ("({\n  get g() {\n    throw new Error('x')\n  }\n}).g", ["get g (work.js:3:", "work.js:1:"]),
        ("[1].map(x => {\n  throw new Error('x')\n})", ["work.js:2:", "map (native)", "work.js:1:"]),
        ("[2, 1].sort(() => {\n  throw new Error('x')\n})", ["work.js:2:", "sort (native)", "work.js:1:"]),
        ("await null\nthrow new Error('x')", ["work.js:2:"]),
        ("async function f() {\n  await null;\n  throw new Error('x')\n}\nawait f()", ["f (work.js:3:"]),
        ("await llm.x.y", ["work.js:1:"]),
        (
            "const p = new Promise((_, no) => {\n  setTimeout(() => {\n    no(new Error('x'))\n  }, 0)\n})\nawait p",
            ["work.js:3:"],
        ),
        ("await Promise.resolve().then(() => {\n  throw new Error('x')\n})", ["work.js:2:"]),
        ("function* g() {\n  yield 1;\n  throw new Error('x')\n}\n[...g()]", ["g (work.js:3:", "work.js:5:"]),
        ("const {boom} = await import('./lib/boom.js');\nboom()", ["boom (lib/boom.js:3:", "work.js:2:"]),
        ("const {later} = await import('./lib/boom.js');\nawait later()", ["boom (lib/boom.js:3:", "later (lib/boom.js:7:"]),
        ("\nrequire('./boom.cjs').boom()", ["boom.cjs:2:", "work.js:2:"]),
        ("throw require('./boom.cjs').first", ["boom.cjs:3:", "require (native)", "work.js:1:"]),
        ("\nhf.call('refuse')", ["call (native)", "work.js:2:"]),
        ("\nnew URL('nope')", ["work.js:2:"]),
        ("\n\nstructuredClone(() => 1)", ["work.js:3:"]),
        ("\natob('*')", ["atob (native)", "work.js:2:"]),
        ("\nnew TextDecoder('nope')", ["work.js:2:"]),
        ("\nJSON.parse('{')", ["parse (native)", "work.js:2:"]),
        ("\nrequire('gone')", ["require (native)", "work.js:2:"]),
        ("//\nsetTimeout()", ["setTimeout (native)", "work.js:2:"]),
    ],
)
@pytest.mark.parametrize("how", ["evaluate", "run_file"])
def test_the_stack_names_what_the_user_wrote_and_nothing_else(sandbox, how, source, places):
    stack = error(getattr(sandbox, how)(source, "work.js")).stack
    found = [frame for frame in frames(stack) if "<input>" not in frame]
    assert len(found) == len(places), stack
    for frame, place in zip(found, places, strict=True):
        assert place in frame, stack
    assert not any(word in stack for word in ("prelude", "holdfast", "node_modules"))


def test_a_module_has_its_lines_too(sandbox):
    stack = error(sandbox.run_file("export const x = 1;\n\nfunction f() { throw new Error('x') }\nf()", "dir/main.js")).stack
    assert "f (dir/main.js:3:" in stack
    assert "dir/main.js:4:" in stack


def test_lines_are_right_after_a_pause_in_another_process(javascript, sandbox):
    sandbox.evaluate("async function f() {\n  const a = await llm('q');\n\n  throw new Error(a)\n}\nawait f()", "work.js")
    with javascript.thaw(sandbox.freeze()) as thawed:
        failed = error(thawed.resume({1: "x"}))
    assert failed.message == "x"
    assert "f (work.js:4:" in failed.stack


def test_a_failure_that_answers_a_query_can_be_caught_like_any_error(sandbox):
    sandbox.evaluate(
        "try { await llm('q') } catch (e) { [e instanceof TypeError, e.name, e.message, e.code, String(e), typeof e.stack] }"
    )
    outcome = sandbox.resume({1: Failure("bad", "E", "TypeError")})
    assert outcome.result.value == [True, "TypeError", "bad", "E", "TypeError: bad", "string"]


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("throw new TypeError('m')", "TypeError", "m"),
        ("throw new Error()", "Error", ""),
        ("class Mine extends Error { name = 'Mine' } throw new Mine('m')", "Mine", "m"),
        ("throw Object.assign(new Error('m'), {name: 'Renamed'})", "Renamed", "m"),
        ("throw new AggregateError([1], 'm')", "AggregateError", "m"),
        ("await Promise.any([Promise.reject(1)])", "AggregateError", ""),
        ("throw new DOMException('m', 'AbortError')", "AbortError", "m"),
        ("null.x", "TypeError", "cannot read property 'x' of null"),
        ("nope", "ReferenceError", "nope is not defined"),
        ("const c = 1; c = 2", "TypeError", "'c' is read-only"),
        ("new Array(-1)", "RangeError", "invalid array length"),
        ("decodeURIComponent('%')", "URIError", "expecting hex digit"),
        ("({}) instanceof 5", "TypeError", "invalid 'instanceof' right operand"),
        ("llm()", "TypeError", "llm: the prompt must be a string or an array of messages"),
        ("ask(5)", "TypeError", "ask: the question must be a string"),
        ("hf.tool()", "TypeError", "tool: the name must be a string"),
        ("hf.query({})", "TypeError", "the kind of a query must be a string"),
        ("hf.call()", "TypeError", "the name of a host function must be a string"),
    ],
)
def test_an_error_has_its_name_and_message(sandbox, source, name, message):
    failed = error(sandbox.evaluate(source))
    assert (failed.name, failed.message) == (name, message)


@pytest.mark.parametrize(
    ("thrown", "message", "value"),
    [
        ("5", "5", 5),
        ("'text'", "text", "text"),
        ("null", "null", None),
        ("undefined", "undefined", Undefined),
        ("{message: 'mm', code: 'C'}", "mm", {"message": "mm", "code": "C"}),
        ("{a: 1}", "{ a: 1 }", {"a": 1}),
        ("Symbol('s')", "Symbol(s)", Opaque("symbol", "Symbol(s)")),
        ("[1]", "[ 1 ]", [1]),
    ],
)
def test_anything_can_be_thrown(sandbox, thrown, message, value):
    failed = error(sandbox.evaluate(f"throw ({thrown})"))
    assert (failed.name, failed.message, failed.stack, failed.value) == ("Error", message, "", value)


def test_a_code_of_the_script_is_told(sandbox):
    assert error(sandbox.evaluate("throw Object.assign(new Error('m'), {code: 'E_MINE'})")).code == "E_MINE"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("let = ;", 1), ("\n\nlet x = ;", 3), ("if (", 1), ("'open", 1), ("`open\n", 1), ("/* open\n", 1), ("{", 1),
        ("x = {a: 1,, b: 2}", 1), ("1 +\n\n* 2", 3), ("function f() {\n  return 1 1\n}", 2), ("await = 1", 1),
        ("var 1a", 1), ("/(/", 1), ("\n\nx = /a{2,1}/", 3), ("/a/xx", 1), ("class { }", 1), ("break", 1),
        ("return 5", 1), ("yield 1", 1), ("'\\u{110000}'", 1), ("0777n", 1), ("a?.b = 1", 1),
        ("for (const x of) {}", 1), ("\u0000", 1), ("\\", 1), ("#!", None), ("new.target", 1), ("super.x", 1),
        ("({a, b}) => {'use strict'}", 1), ("变量 = 1;\nlet let = 2", 2), ("@", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["evaluate", "run_file"])
def test_syntax_errors_name_the_line(sandbox, how, source, line):
    outcome = getattr(sandbox, how)(source, "work.js")
    if line is None:
        assert isinstance(outcome, Finished)
    else:
        assert error(outcome).name == "SyntaxError"
        assert f"work.js:{line}:" in outcome.error.stack
    assert sandbox.evaluate("1 + 1").result.value == 2


def test_a_syntax_error_in_a_module_names_the_module(sandbox):
    assert "broken.js:3:" in error(sandbox.evaluate("await import('./broken.js')", "work.js")).stack


def test_a_syntax_error_in_eval_can_be_caught(sandbox):
    assert sandbox.evaluate("try { eval('1 +') } catch (e) { e.name }").result.value == "SyntaxError"
    assert sandbox.evaluate("try { new Function('return (') } catch (e) { e instanceof SyntaxError }").result.value is True


def test_the_stack_of_a_caught_error_begins_with_name_and_message(sandbox):
    assert (
        sandbox.evaluate("try { null.f } catch (e) { e.stack.split('\\n')[0] }").result.value
        == "TypeError: cannot read property 'f' of null"
    )
    assert sandbox.evaluate("const o = {}; Error.captureStackTrace(o); typeof o.stack").result.value == "string"


def test_scripts_may_prepare_stack_traces_themselves(sandbox):
    source = "Error.prepareStackTrace = (e, sites) => sites.map(s => s.getFileName()); const s = new Error('q').stack; Error.prepareStackTrace = undefined; s"
    assert sandbox.evaluate(source, "work.js").result.value == ["work.js"]
    sandbox.evaluate("Error.prepareStackTrace = () => { throw new Error('never') }")
    assert error(sandbox.evaluate("null.x")).name
    assert sandbox.evaluate("1").result.value == 1
