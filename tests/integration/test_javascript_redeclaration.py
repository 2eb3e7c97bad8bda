"""A later snippet may declare a name again, as in a browser's console. What held the old one sees the new one."""

import pytest

from holdfast.sandbox import Failed, Finished


@pytest.fixture
def run(javascript):
    """Runs snippets one after another; gives the last one's value, or the name of its error."""
    with javascript.create() as sandbox:

        def evaluate(*snippets):
            for source in snippets:
                outcome = sandbox.evaluate(source)
            if isinstance(outcome, Failed):
                return outcome.error.name
            assert isinstance(outcome, Finished), outcome
            return outcome.result.value

        yield evaluate


FORMS = [
    "let x = {}; x",
    "const x = {}; x",
    "class x {{ static v() {{ return {} }} }}; x.v()",
    "var x = {}; x",
    "function x() {{ return {} }}; x()",
]


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
def test_every_kind_of_declaration_may_follow_every_other(run, first, second):
    assert run(first.format(1)) == 1
    assert run(second.format(2)) == 2
    assert run(first.format(3)) == 3


@pytest.mark.parametrize(
    ("snippets", "expected"),
    [
        (["const a = 1", "a = 2"], "TypeError"),
        (["const a = 1", "let a = 2; a = 3; a"], 3),
        (["let a = 1", "const a = 2", "a = 3"], "TypeError"),
        (["let a = 1", "const a = 2", "try { a = 3 } catch {} a"], 2),
        (["let a = 1; let read = () => a", "let a = 2", "read()"], 2),
        (["let a = 1; let read = () => a", "const a = 2", "read()"], 2),
        (["let a = 1; let read = () => a", "var a = 3", "read()"], 3),
        (["let a = 1; let read = () => a", "function a() {}", "typeof read()"], "function"),
        (["var b = 1", "let b = 2", "[b, globalThis.b]"], [2, 1]),
        (["var b = 1", "let b = 2", "var b = 9", "[b, globalThis.b]"], [9, 9]),
        (["var b = 1", "let b = 2", "var b; b"], 2),
        (["let {p, q} = {p: 1, q: 2}", "let {p, q} = {p: 3, q: 4}; p + q"], 7),
        (["let {p, q} = {p: 1, q: 2}", "const [p] = [9]; p + q"], 11),
        (
            ["class K { v() { return 1 } } const old = new K()", "class K { v() { return 2 } }", "[old.v(), new K().v()]"],
            [1, 2],
        ),
        (["class K {} const old = new K()", "class K {}", "old instanceof K"], False),
        (["class K {}", "class L extends K {}", "class K {}", "new L() instanceof K"], False),
        (["async function f() { return 1 }", "async function f() { return 2 }", "await f()"], 2),
        (["let w = await Promise.resolve(8)", "let w = await Promise.resolve(9); w"], 9),
        (["let a = 1", "eval('var c = a + 1')", "let c = 5; c"], 5),
        (["let a = 1", "eval('let a = 2; a')", "a"], 1),
        (["let a = 1", "{ let a = 2 } a"], 1),
        (["let a = 1", "for (let a = 5; a < 6; a++) {} a"], 1),
        (["let a = 1", "delete globalThis.a; a"], 1),
        (["let a = 'once'", "let a = typeof a"], "ReferenceError"),
    ],
)
def test_names_mean_what_was_declared_last(run, snippets, expected):
    assert run(*snippets) == expected


@pytest.mark.parametrize(
    "failing", ["let c = (() => { throw new Error('x') })()", "const c = null.x", "class c extends null.x {}"]
)
def test_a_declaration_that_failed_can_be_made_again(run, failing):
    run(failing)
    assert run("c") == "ReferenceError"
    assert run("let c = 1; c") == 1


def test_a_redeclaration_that_failed_leaves_no_old_value(run):
    assert run("let c = 1", "let c = null.x", "c") == "ReferenceError"
    assert run("const c = 2; c") == 2


@pytest.mark.parametrize(
    "source",
    [
        "let m = 1; let m = 2",
        "const m = 1; var m",
        "function m() {} let m",
        "class m {} class m {}",
        "let undefined = 1",
        "let NaN = 1",
        "const m",
        "function m() { let y; let y }",
    ],
)
def test_one_snippet_cannot_declare_a_name_twice(run, source):
    assert run("let m = 'before'; 1") == 1
    assert run(source) == "SyntaxError"
    assert run("m") == "before"


@pytest.mark.parametrize("name", ["llm", "ask", "console", "setTimeout", "URL", "Map", "Promise", "hf", "require"])
def test_names_of_the_environment_may_be_taken(run, name):
    assert run(f"const {name} = 5; {name}") == 5
    assert run(f"function {name}() {{ return 6 }} {name}()") == 6
    assert run("await 7") == 7


def test_names_stay_redeclarable_after_a_thaw(javascript):
    with javascript.create() as sandbox:
        sandbox.evaluate("let a = 1; const b = 2; class C {}; const read = () => a + b")
        image = sandbox.freeze()
    with javascript.thaw(image) as thawed:
        thawed.evaluate("const a = 10; let b = 20; class C {}")
        assert thawed.evaluate("read()").result.value == 30


def test_files_redeclare_too(javascript):
    with javascript.create() as sandbox:
        for number in (1, 2):
            assert sandbox.run_file("const config = __ARGS__; class App {} ; config", "app.js", number).result.value == number
        assert sandbox.evaluate("let config = 3; config").result.value == 3
