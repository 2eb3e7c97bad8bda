"""The official Lua tests, as the source distribution of lupa has them, run inside the guest.

They are fetched, never copied into the repository. Most need `debug`, bytecode or errors where Holdfast has a limit, and run in a build
that has them; those that do not also run in the guest that is shipped. docs/lua-official-tests.md is the list for readers.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from guests.build.cache import Cache, default_root
from guests.build.make import Builder
from guests.build.recipes import LUA, LUA_TESTS
from guests.build.sources import fetch, unpack
from holdfast.domain import Limits
from holdfast.sandbox import Finished, Guest, Host, HostError, Module

DOCUMENT = Path(__file__).parents[2] / "docs" / "lua-official-tests.md"

NO_FILES = "there is no io"
NO_SEARCH = "modules come from the host's loader, not from paths and files"
MAY_WAIT = "expects an error: here the functions of sort and gsub may wait, so they may yield"
NO_DEBUG = "needs debug, of which the shipped guest has only traceback"
BYTECODE = "needs debug and bytecode, which the shipped guest has not"
OVERFLOWS = "overflows the stack and goes on; in the shipped guest that is a breach of the limit"

ANYWHERE = "attrib big bitwise bwcoercion closure constructs events files gc gengc goto math nextvar pm sort strings tpack tracegc utf8 vararg verybig"
TEST_BUILD_ONLY = {
    "calls": BYTECODE,
    "coroutine": NO_DEBUG,
    "cstack": OVERFLOWS,
    "db": NO_DEBUG,
    "errors": OVERFLOWS,
    "literals": NO_DEBUG,
    "locals": NO_DEBUG,
}
DOES_NOT_APPLY = {
    "all": "the driver of the others, in whose place the test file is",
    "api": "needs Lua's internal test library T, a C program of its own",
    "code": "needs Lua's internal test library T, a C program of its own",
    "heavy": "fills all memory there is, beyond what a WebAssembly memory can hold",
    "main": "tests the command line program lua",
}


class Cut(NamedTuple):
    """A part of a file that does not apply: from `first` until before `until`, or `first` alone."""

    reason: str
    first: str
    until: str = ""
    instead: str = ""


CUTS = {
    "attrib": [
        Cut(NO_SEARCH, 'assert(type(package.path) == "string")\nassert(type(package.cpath)', "assert(type(package.loaded)"),
        Cut(NO_SEARCH, "assert(type(package.config)", 'print("testing assignments'),
    ],
    "big": [Cut("the driver runs the file as a coroutine", "coroutine.yield'b'\n")],
    "coroutine": [
        Cut(MAY_WAIT, "assert(not pcall(table.sort,{1,2,3}, coroutine.yield))"),
        Cut(MAY_WAIT, "          assert(not coroutine.isyieldable())"),
    ],
    "db": [Cut(NO_FILES, "assert(not debug.setuservalue(io.stdin", "end")],
    "errors": [
        Cut(NO_FILES, 'checkmessage("math.sin(io.input())"', "_G.XX ="),
        Cut(NO_FILES, 'checkmessage("io.input(XX)"', 'checkmessage("return XX + 1"'),
        Cut(NO_FILES, 'checkmessage("(io.write or print){}", "io.write")'),
        Cut(NO_FILES, 'checkmessage("getmetatable(io.stdin).__gc()", "no value")'),
        Cut(MAY_WAIT, 'checkerr("yield across", f)'),
    ],
    "events": [Cut(NO_FILES, "assert(not pcall(rawlen, io.stdin))")],
    "files": [
        Cut(NO_FILES, 'assert(type(os.getenv"PATH")', "local function testerr"),
        Cut(NO_FILES, "-- cannot close standard files", 'print("testing date/time")'),
        Cut(NO_FILES, "io.output(io.stdout)\nlocal t", "local t"),
    ],
    "verybig": [
        Cut(
            NO_FILES,
            "local file = os.tmpname()",
            "for s in",
            "local text = {} io.write = function(...) text[#text + 1] = table.concat{...} end\n",
        ),
        Cut(NO_FILES, "io.close()", "print'OK'", "local result = assert(load(table.concat(text)))()\n"),
    ],
}
SHIPPED_CUTS = {
    "closure": [
        Cut(NO_DEBUG, "assert(debug.upvalueid(foo1, 1))", "assert(foo1() =="),
        Cut(NO_DEBUG, "debug.upvaluejoin(foo1, 2, foo2, 2)", "print'OK'"),
    ],
    "constructs": [Cut(NO_DEBUG, "assert(debug.getinfo(1, \"n\").name == 'F')")],
    "events": [Cut(NO_DEBUG, "debug.setmetatable(10, mt)", "-- loops in delegation")],
    "goto": [Cut(NO_DEBUG, "-- all functions share same 'a'", "-- testing if x goto")],
}

PREAMBLE = """
T, _port, _nomsg = nil, false, true
io = {write = function() end, stdin = setmetatable({}, {__name = "FILE*"}), stderr = {write = function() end}}
package.loaded.io = io
os.setlocale = function(name) return (name == nil or name == "C" or name == "") and "C" or nil end
os.difftime = function(a, b) return a - b + 0.0 end
"""
MAIN = "return assert(load(alc.call('source', __ARGS__), '@' .. __ARGS__ .. '.lua'))(__ARGS__)"


class Loader:
    """What `require` finds: other files of the tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self, specifier, referrer, kind):
        if not (self._folder / f"{specifier}.lua").exists():
            raise HostError(f"module '{specifier}' not found", code="MODULE_NOT_FOUND")
        return f"{specifier}.lua"

    def load(self, name):
        return Module("script", (self._folder / name).read_text())


@pytest.fixture(scope="module")
def testes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lua")
    unpack(fetch(LUA, Cache(default_root())), LUA, folder)
    return folder / "testes"


@pytest.fixture(scope="module")
def test_build(engine, tmp_path_factory):
    cache = Cache(default_root())
    (wasm,) = Builder(cache, cache).build([LUA_TESTS], tmp_path_factory.mktemp("guest"))
    return Guest(engine, "lua", wasm.read_bytes()).template()


def source(testes, name, cuts):
    text = (testes / f"{name}.lua").read_bytes().decode("latin-1")
    for cut in cuts:
        assert text.count(cut.first) == 1, f"{name}.lua has changed: {cut.first}"
        before, _, after = text.partition(cut.first)
        rest = cut.until + after.partition(cut.until)[2] if cut.until else after
        assert rest, f"{name}.lua has changed: {cut.until}"
        text = before + cut.instead + "\n" * (text.count("\n") - (before + cut.instead + rest).count("\n")) + rest
    return text.encode("latin-1")


def run(template, testes, name, cuts, *, soft=False):
    host = Host({"source": lambda name: source(testes, name, cuts)}, Loader(testes))
    limits = Limits(wall_ms=60_000, cpu_ms=60_000, mem_mb=2048, stack_kb=1536, max_events=0, max_output_kb=0)
    with template.create(host=host, limits=limits, seed=1) as sandbox:
        assert isinstance(sandbox.evaluate(f"{PREAMBLE} _soft = {str(soft).lower()}"), Finished)
        outcome = sandbox.run_file(MAIN, "main", name)
        assert isinstance(outcome, Finished), getattr(outcome, "error", outcome)


@pytest.mark.parametrize("name", sorted([*ANYWHERE.split(), *TEST_BUILD_ONLY]))
def test_in_the_build_with_debug(test_build, testes, name):
    # With fewer repetitions, as their authors provide for, if the shipped guest does all of them.
    run(test_build, testes, name, CUTS.get(name, []), soft=name not in TEST_BUILD_ONLY)


@pytest.mark.parametrize("name", ANYWHERE.split())
def test_in_the_shipped_guest(lua, testes, name):
    run(lua, testes, name, [*CUTS.get(name, []), *SHIPPED_CUTS.get(name, [])])


def test_each_file_is_run_or_listed_with_a_reason(testes):
    accounted = sorted([*ANYWHERE.split(), *TEST_BUILD_ONLY, *DOES_NOT_APPLY])
    assert accounted == sorted(path.stem for path in testes.glob("*.lua"))


def test_the_document_says_what_does_not_apply_and_why():
    rows = [line for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith("| `")]
    expected = [(name, reason) for table in (DOES_NOT_APPLY, TEST_BUILD_ONLY) for name, reason in table.items()]
    for table in (CUTS, SHIPPED_CUTS):
        expected += [(name, cut.reason) for name, cuts in table.items() for cut in cuts]
    for name, reason in expected:
        assert any(f"`{name}.lua`" in row and reason in row for row in rows), (name, reason)
