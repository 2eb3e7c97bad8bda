"""Modules come from the host's loader: scripts, JSON, and tables of host functions."""

import pytest

from holdfast.sandbox import Failed, Host, HostError, Module, Modules, Paused
from tests.integration.lua_runs import answered, failure, printed, value

FILES = {
    "a": "local name, where = ... print('load', name, where) return {b = require('./dir/b'), name = name}",
    "dir/b": "return {alc.llm('in b'), (select(2, ...))}",
    "dir/sibling": "return require('./b')",
    "counter": "count = (count or 0) + 1 return {count = count}",
    "loop1": "return require 'loop2'",
    "loop2": "return require 'loop1'",
    "self": "return require 'self'",
    "bad": "x y",
    "throws": "\nerror('oops')",
    "throws a table": "error({code = 'OWN', message = 'mine'})",
    "nothing": "",
    "false": "return false",
    "several": "return 1, 2, 3",
    "sets its own": "package.loaded[...] = 25",
    "fails once": "tries = (tries or 0) + 1 if tries == 1 then error('first') end return 'ok' .. tries",
    "asks": "local v = alc.llm('one') local co = coroutine.wrap(function() return alc.llm('two') end) return v .. co()",
    "globals": "shared = 'set' local private = 1 return _ENV == _G",
    "bytecode": "\x1bLua",
    "with a mark": "\ufeff#!/usr/bin/lua\nreturn 1",
}


class Recorded(Modules):
    """Remembers what it was asked for."""

    def __init__(self, modules):
        super().__init__(modules)
        self.asked = []

    def resolve(self, specifier, referrer, kind):
        self.asked.append((specifier, referrer, kind))
        return super().resolve(specifier, referrer, kind)


def fail():
    raise HostError("bad thing", code="BAD")


@pytest.fixture
def modules():
    scripts = {name: Module("script", source) for name, source in FILES.items()}
    data = {
        "data": Module("json", '{"k": [1, null, {"x": 1.5}], "e": []}'),
        "broken data": Module("json", "{'a'}"),
        "es": Module("module", "export default 1"),
    }
    return Recorded(scripts | data | {"fs": Module("functions", names=("read", "fail", "missing"))})


@pytest.fixture
def sandbox(lua, modules):
    host = Host({"fs.read": lambda *arguments: ["read", *arguments], "fs.fail": fail}, modules)
    with lua.create(host=host) as sandbox:
        yield sandbox


def test_a_module_is_loaded_once_and_may_wait(lua, modules):
    source = "local m = require 'a' return {m.b, m.name, require 'a' == m, package.loaded.a == m, select(2, require 'a')}"
    outcome, events, _ = answered(lua, source, thawed=True, host=Host(modules=modules))
    assert value(outcome) == [["a1", "dir/b"], "a", True, True]
    assert [event.payload.get("text") for event in events] == ["load\ta\ta", None]
    assert modules.asked == [("a", "<repl>", "require"), ("./dir/b", "a", "require")]


def test_names_are_relative_to_the_file_that_names_them(sandbox, modules):
    outcome = sandbox.run_file("return require('./sibling')", "dir/main.lua")
    assert isinstance(outcome, Paused)
    assert value(sandbox.resume({1: "B"})) == ["B", "dir/b"]
    assert modules.asked == [("./sibling", "dir/main.lua", "require"), ("./b", "dir/sibling", "require")]
    assert value(sandbox.evaluate("require('./dir/b') == require('dir/b')")) is True


def test_a_module_stays_loaded_between_steps(sandbox):
    assert [value(sandbox.evaluate("require('counter').count")) for _ in range(3)] == [1, 1, 1]
    assert value(sandbox.evaluate("package.loaded.counter = nil return require('counter').count")) == 2


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("require 'nothing'", True),
        ("{require 'several'}", [1, "several"]),
        ("require 'sets its own'", 25),
        ("{require 'globals', shared, private == nil}", [True, "set", True]),
        ("require 'with a mark'", 1),
        ("require('data').k[2] == alc.null", True),
        ("require('data')", {"k": [1, None, {"x": 1.5}], "e": []}),
        ("require('data') == require('data')", True),
        ("require('fs').read(1, {a = 2}, nil)", ["read", 1, {"a": 2}, None]),
        ("type(require('fs').fail)", "function"),
        ("require('fs').other", None),
        ("{require('string') == string, require('_G') == _G, require('alc') == alc, require('math') == math}", [True] * 4),
    ],
)
def test_what_require_gives(sandbox, source, expected):
    assert value(sandbox.evaluate(source)) == expected


ERRORS = {
    "require 'missing'": ("MODULE_NOT_FOUND", "there is no module 'missing'"),
    "require 'loop1'": (None, "being loaded"),
    "require 'self'": (None, "being loaded"),
    "require 'bad'": (None, "error loading module 'bad' from 'bad':\n\tbad:1: syntax error near 'y'"),
    "require 'throws'": (None, "throws:2: oops"),
    "require 'throws a table'": ("OWN", "mine"),
    "require 'bytecode'": (None, "error loading module 'bytecode'"),
    "require 'broken data'": (None, "it is not JSON"),
    "require 'es'": (None, "not one for Lua"),
    "require('fs').fail()": ("BAD", "bad thing"),
    "require('fs').missing()": ("HOST_FUNCTION_NOT_FOUND", "there is no host function 'fs.missing'"),
    "require()": (None, "bad argument #1 to 'require' (string expected, got no value)"),
    "require({})": (None, "bad argument #1 to 'require' (string expected, got table)"),
    "require 'io'": ("MODULE_NOT_FOUND", "there is no module 'io'"),
    "require '../../etc/passwd'": ("MODULE_NOT_FOUND", "there is no module"),
    "require ''": ("MODULE_NOT_FOUND", "there is no module"),
    "require 'a\\0b'": ("MODULE_NOT_FOUND", "there is no module"),
}


@pytest.mark.parametrize("source", ERRORS)
def test_errors_say_what_is_wrong_each_time(sandbox, source):
    code, message = ERRORS[source]
    for _ in range(2):
        error = failure(sandbox.evaluate(source))
        assert error.code == code
        assert message in error.message


def test_a_module_that_failed_is_tried_again(sandbox):
    assert isinstance(sandbox.evaluate("require 'fails once'"), Failed)
    assert value(sandbox.evaluate("require 'fails once'")) == "ok2"


def test_a_module_that_fails_while_it_waits_is_tried_again(sandbox):
    source = "local ok = pcall(coroutine.wrap(function() require 'asks' end)) return ok"
    sandbox.evaluate("real = alc.llm alc.llm = function(p) real(p) error('late') end")
    for number in (1, 2):
        assert isinstance(sandbox.evaluate(source), Paused)
        assert value(sandbox.resume({number: "x"})) is False


def test_a_module_required_again_while_it_waits_is_a_cycle(sandbox):
    sandbox.evaluate(
        "first = coroutine.create(function() return require 'yields' end) package.preload.yields = function() coroutine.yield() return 'done' end coroutine.resume(first)"
    )
    assert "being loaded" in failure(sandbox.evaluate("require 'yields'")).message
    assert value(sandbox.evaluate("{coroutine.resume(first)}")) == [True, "done", ":preload:"]
    assert value(sandbox.evaluate("require 'yields'")) == "done"


def test_a_module_of_the_scripts_own(sandbox, modules):
    assert value(sandbox.evaluate("package.preload.own = function(...) return {...} end return require 'own'")) == [
        "own",
        ":preload:",
    ]
    assert value(sandbox.evaluate("package.loaded.given = 'here' return require 'given'")) == "here"
    assert modules.asked == []


def test_replacing_package_changes_nothing_for_require(sandbox):
    assert value(sandbox.evaluate("package.loaded = {counter = 'forged'} package = nil return require('counter').count")) == 1


def test_a_traceback_names_the_file_of_the_module(sandbox):
    error = failure(sandbox.run_file("local x = 1\nrequire 'throws'", "main.lua"))
    assert "throws:2: in main chunk" in error.stack.replace("function <throws:0>", "main chunk")
    assert "main.lua:2: in main chunk" in error.stack


def test_without_a_loader_there_are_no_modules(lua):
    with lua.create() as sandbox:
        outcome = sandbox.evaluate("local ok, e = pcall(require, 'x') print(e) return e.code")
    assert value(outcome) == "MODULE_NOT_FOUND"
    assert printed(outcome) == ["Invalid module: there is no module 'x'"]


def test_a_loader_that_answers_nonsense_is_an_error_of_the_script(lua):
    class Odd(Modules):
        def resolve(self, specifier, referrer, kind):
            return 5 if specifier == "number" else specifier

        def load(self, name):
            return Module("script", source=None) if name == "no source" else Module("functions", names=(1, 2))

    with lua.create(host=Host(modules=Odd({}))) as sandbox:
        for name in ("number", "no source", "numbers"):
            assert failure(sandbox.evaluate(f"require '{name}'")).code == "BAD_REPLY"
