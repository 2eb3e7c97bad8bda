"""Libraries as npm has them: fetched, verified, bundled and used in sessions; and packages that mean no good.

A few real packages and the bundler are fetched once into the user's cache. All others are folders as npm would leave them.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from guests.build.cache import Cache, default_root
from holdfast import libraries
from holdfast.libraries import LibraryCache, LibraryNotAdded, wrapping
from holdfast.libraries.adding import add_file, add_package
from holdfast.libraries.bundling import text_of
from holdfast.libraries.npm import Fetched
from holdfast.sandbox import Engine, Finished, Host, Module, Modules, Source
from tests.acceptance.scenes import evaluate, opened, refused, scene, template
from tests.web import web

"""On one worker: what is fetched is fetched once."""

PACKAGES = ("lodash@4.17.21", "axios@1.6.0", "zustand@4.4.7")


@pytest.fixture(scope="module")
def fetched() -> LibraryCache:
    """Fetched by the real npm, once for each state of the code that makes them."""
    sources = sorted(path for path in Path(libraries.__file__).parent.rglob("*") if path.suffix in (".py", ".js", ".json"))
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()

    def make(path: Path) -> None:
        for word in PACKAGES:
            add_package(LibraryCache(path), word)

    return LibraryCache(Cache(default_root()).entry("libraries", key, make))


@pytest.fixture
def cache(fetched: LibraryCache, tmp_path: Path) -> LibraryCache:
    """One of our own, with the bundler in it."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / ".tools").symlink_to(fetched.folder / ".tools")
    return LibraryCache(folder)


# ---- those that are fetched

CHECKS = {
    "_.chunk([1, 2, 3], 2)": [[1, 2], [3]],
    "require('lodash') === _ && (await import('lodash')).default === _": True,
    "(await import('lodash')).sum([1, 2])": 3,
    "zustand.createStore(() => ({a: 1})).getState()": {"a": 1},
    "const {create, combine} = require('zustand'); const s = create(combine({n: 1}, set => ({up: () => set({n: 2})}))); "
    "s.getState().up(); s.getState().n": 2,
    "axios === require('axios') && axios.VERSION": "1.6.0",
    "Object.keys(globalThis).sort()": ["_", "axios", "zustand"],
    "try { require('lodash/fp') } catch (e) { e.code }": "MODULE_NOT_FOUND",
    "try { await axios.get('http://x.test/') } catch (e) { [e.name, e.code] }": ["AxiosError", "MODULE_NOT_GRANTED"],
}


@scene
async def test_what_was_fetched_is_there_in_each_session(fetched: LibraryCache) -> None:
    assert {one.state for one in fetched.verify()} == {"ok"}
    async with opened("memory:", libraries=fetched) as hf:
        await template(hf, name="t")
        added = [await hf.templates.add_library("t", name) for name in ("lodash", "zustand@4", "axios-1.6.0")]
        assert added == ["lodash-4.17.21", "zustand-4.4.7", "axios-1.6.0"]
        session = await hf.sessions.create("t")
        for source, expected in CHECKS.items():
            assert await evaluate(hf, session.id, f"{{ {source} }}") == expected, source
        await hf.templates.remove_library("t", "zustand")
        assert (await hf.templates.version("t")).spec.packages == ("lodash-4.17.21", "axios-1.6.0")


@scene
async def test_axios_goes_over_the_module_http(fetched: LibraryCache) -> None:
    with web() as server:
        async with opened("memory:", libraries=fetched) as hf:
            await template(hf, name="t")
            await hf.templates.add_library("t", "axios")
            await hf.templates.add_module("t", "http")
            here = {"scheme": "http", "host": "127.0.0.1", "port": server.port, "methods": ["GET", "POST", "PUT"]}
            config = {"allow": [here], "private": ["127.0.0.1"]}
            await hf.templates.add_capability("t", "module", "http", enabled=True, config=config)
            session = await hf.sessions.create("t")
            base = f"http://127.0.0.1:{server.port}"
            checks = {
                "(await api.get('/echo', {params: {q: ['a b', 1]}})).data.target": "/echo?q[]=a+b&q[]=1",
                "(await api.post('/echo', {a: 1}, {headers: {'X-Own': 'x'}})).data.body": '{"a":1}',
                "(await api.put('/echo', new URLSearchParams({a: 1}))).data.headers['content-type']": "application/x-www-form-urlencoded;charset=utf-8",
                "(await api.get('/echo', {responseType: 'text', transformResponse: x => typeof x})).data": "string",
                "(await api.get('/echo', {responseType: 'arraybuffer'})).data.byteLength > 10": True,
                "(await api.get('/echo', {auth: {username: 'u', password: 'p'}})).data.headers.authorization": "Basic dTpw",
                "const r = await api.get('/echo'); [r.status, r.headers['content-type'], r.headers.get('X-Two')]": [
                    200,
                    "application/json",
                    "a, b",
                ],
                "try { await api.get('/status/404') } catch (e) { [axios.isAxiosError(e), e.code, e.response.status, e.response.data] }": [
                    True,
                    "ERR_BAD_REQUEST",
                    404,
                    {"why": "so"},
                ],
                "(await api.get('/status/404', {validateStatus: () => true})).status": 404,
                "try { await axios.get('http://127.0.0.1:1/') } catch (e) { [e.name, e.code] }": [
                    "AxiosError",
                    "URL_NOT_ALLOWED",
                ],
            }
            await evaluate(hf, session.id, f"globalThis.api = axios.create({{baseURL: '{base}'}}); 1")
            for source, expected in checks.items():
                turn = await hf.executions.run(session.id, f"{{ {source} }}", wait=True)
                assert turn.execution.error is None, (source, turn.execution.error)
                assert turn.execution.result["json"] == expected, source


# ---- npm as it may be


def npm_that(folder: Path, monkeypatch: pytest.MonkeyPatch, packages: dict[str, object], text: str = "exports.x = 1") -> Path:
    """Has a program of this name, and no other, on the PATH, that leaves this behind. It notes how it was called."""
    program = folder / "bin" / "npm"
    program.parent.mkdir()
    body = f"""#!{sys.executable}
import json, pathlib, sys
open({str(folder / "calls")!r}, "a").write(" ".join(sys.argv[1:]) + chr(10))
packages = json.loads({json.dumps(json.dumps(packages))})
pathlib.Path("package-lock.json").write_text(json.dumps({{"packages": packages}}))
for place in packages:
    pathlib.Path(place).mkdir(parents=True, exist_ok=True)
    pathlib.Path(place, "package.json").write_text("{{}}")
    pathlib.Path(place, "index.js").write_text({text!r})
"""
    program.write_text(body)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return folder / "calls"


def test_a_package_is_fetched_once_and_no_script_is_run(
    cache: LibraryCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {
        "node_modules/@s/x": {"version": "1.2.3", "integrity": "sha512-abc", "resolved": "somewhere", "hasInstallScript": True}
    }
    calls = npm_that(tmp_path, monkeypatch, packages)
    entry = add_package(cache, "@s/x@1")
    assert (entry.id, entry.version, entry.variable, entry.integrity) == ("@s/x", "1.2.3", "x", "sha512-abc")
    assert entry.packages == {"node_modules/@s/x": {"version": "1.2.3", "integrity": "sha512-abc"}}  # and no registry
    assert add_package(cache, "@s/x@1.2.3") == entry
    (call,) = calls.read_text().splitlines()
    assert call.startswith("install ")
    assert "--ignore-scripts" in call
    (cache.folder / "@s+x-1.2.3.js").write_text("evil")
    assert add_package(cache, "@s/x@1.2.3") == entry  # again, and exactly as it was locked
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["install", "ci"]
    assert {one.state for one in cache.verify()} == {"ok"}
    shutil.rmtree(cache.folder)
    assert add_package(cache, "@s/x@1.2.3") == entry


@pytest.mark.parametrize(
    ("word", "packages", "reason"),
    [
        ("lodash", {"node_modules/lodash": {"version": "4.17.21", "integrity": "sha512-other"}}, "INTEGRITY_MISMATCH"),
        ("x@1", {"node_modules/x": {"version": "1.0.0"}}, "INTEGRITY_MISMATCH"),
        ("x@1", {"node_modules/x": {"version": "1.0.0", "link": True}}, "INTEGRITY_MISMATCH"),
        (
            "x@1",
            {"node_modules/x": {"version": "1.0.0", "integrity": "sha512-a"}, "node_modules/y": {"version": "1.0.0"}},
            "INTEGRITY_MISMATCH",
        ),
        ("x@1", {"node_modules/y": {"version": "1.0.0", "integrity": "sha512-a"}}, "DOWNLOAD_FAILED"),
        ("x@1", {}, "DOWNLOAD_FAILED"),
        ("x@1", {"node_modules/x": {"version": "../1", "integrity": "sha512-a"}}, "LIBRARY_UNKNOWN"),
    ],
)
def test_what_cannot_be_verified_is_not_added(
    cache: LibraryCache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    packages: dict[str, object],
    reason: str,
) -> None:
    npm_that(tmp_path, monkeypatch, packages)
    with pytest.raises(libraries.LibraryNotAdded if reason != "LIBRARY_UNKNOWN" else Exception) as raised:
        add_package(cache, word)
    assert getattr(raised.value, "reason", getattr(raised.value, "code", None)) == reason
    assert cache.scan() == []


def test_a_locked_package_must_be_the_same_again(cache: LibraryCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_that(tmp_path, monkeypatch, {"node_modules/x": {"version": "1.0.0", "integrity": "sha512-a"}})
    add_package(cache, "x@1")
    shutil.rmtree(tmp_path / "bin")
    npm_that(tmp_path, monkeypatch, {"node_modules/x": {"version": "1.0.0", "integrity": "sha512-b"}})
    with pytest.raises(LibraryNotAdded) as raised:
        add_package(cache, "x@1")
    assert raised.value.reason == "INTEGRITY_MISMATCH"


# ---- packages as they may be

SECRET = "of the machine"


def package(folder: Path, files: dict[str, str], about: dict[str, object] | None = None, name: str = "x") -> Fetched:
    """As npm leaves it."""
    (folder / "work").mkdir()
    home = folder / "work" / "node_modules" / name
    for path, text in {"package.json": json.dumps({"name": name, **(about or {})}), **files}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    (folder / "secret.json").write_text(json.dumps({"secret": SECRET}))
    (folder / "secret.js").write_text(f"module.exports = '{SECRET}'")
    return Fetched((folder / "work").resolve(), name, "1.0.0", "sha512-x", {})


GOOD: dict[str, tuple[dict[str, str], dict[str, object], str, object]] = {
    "CommonJS": ({"index.js": "exports.a = 1"}, {}, "x.a", 1),
    "two files": ({"index.js": "exports.a = require('./b') + 1", "b.js": "module.exports = 1"}, {}, "x.a", 2),
    "data": ({"index.js": "module.exports = require('./b.json')", "b.json": '{"a": 1}'}, {}, "x.a", 1),
    "main without an ending": ({"lib/a.js": "exports.a = 1"}, {"main": "lib/a"}, "x.a", 1),
    "for browsers": (
        {"dist.js": "typeof exports == 'object' && (exports.a = 2)", "index.js": "boom("},
        {"unpkg": "dist.js"},
        "x.a",
        2,
    ),
    "only a global for browsers": (
        {"dist.js": "var Y = function (exports) { return exports }({})", "index.js": "exports.a = 3"},
        {"unpkg": "dist.js"},
        "x.a",
        3,
    ),
    "ES module": ({"index.mjs": "export const a = 1; export default 5"}, {"main": "index.mjs"}, "[x.a, x.default]", [1, 5]),
    "only to be imported": (
        {"index.js": "export const a = import.meta.url ? 1 : 2"},
        {"type": "module", "exports": {"import": "./index.js"}},
        "x.a",
        2,
    ),
    "only a default": ({"index.mjs": "export default 5"}, {"main": "index.mjs"}, "x", 5),
    "a script that was never run": ({"index.js": "exports.a = 1"}, {"scripts": {"install": "exit 1"}}, "x.a", 1),
    "of Node, but not needed": (
        {"index.js": "try { require('zlib') } catch (e) { exports.a = e.code }"},
        {},
        "x.a",
        "MODULE_NOT_FOUND",
    ),
    "strict, and with a line": (
        {"index.js": "#!/usr/bin/env node\n'use strict'; exports.a = this === exports"},
        {},
        "x.a",
        True,
    ),
    "what is there stays": ({"index.js": "exports.a = 1; globalThis.x12 = 7"}, {}, "[x, require('x').a]", [7, 1]),
}


def test_a_package_becomes_one_file(engine: Engine, cache: LibraryCache, tmp_path: Path) -> None:
    texts = []
    for number, (files, about, _, _) in enumerate(GOOD.values()):
        (tmp_path / str(number)).mkdir()
        one = text_of(package(tmp_path / str(number), files, about), cache.folder)
        texts.append(Source(f"x{number}-1.0.0.js", wrapping.wrapped(f"x{number}", f"x{number}", one)))
        assert str(tmp_path) not in one
    stubs = wrapping.stubs([f"x{number}-1.0.0" for number in range(len(GOOD))])
    host = Host(modules=Modules({name: Module("commonjs", stub) for name, stub in stubs.items()}))
    with engine.guest("javascript").template(texts).create(host=host) as sandbox:
        for number, (kind, (_, _, source, expected)) in enumerate(GOOD.items()):
            outcome = sandbox.evaluate(source.replace("x", f"x{number}"))
            assert isinstance(outcome, Finished), (kind, outcome)
            assert outcome.result.value == expected, kind


BAD: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "a file of the machine": ({"index.js": "module.exports = require('../../../secret.json')"}, {}),
    "by its entry point": ({}, {"main": "../../../secret.js"}),
    "by its file for browsers": ({"index.js": "require('./none')"}, {"unpkg": "../../../secret.js"}),
    "by its map for browsers": ({"index.js": "module.exports = require('./a')"}, {"browser": {"./a": "../../../secret.js"}}),
    "native": ({"index.js": "module.exports = require('./build/x.node')", "build/x.node": "\x7fELF"}, {}),
    "of Node": ({"index.js": "module.exports = require('net')"}, {}),
    "what it did not bring": ({"index.js": "module.exports = require('left-out')"}, {}),
    "no JavaScript": ({"index.js": "this is not(", "b.js": ""}, {"main": "none.js"}),
    "waits while it is loaded": ({"index.mjs": "export const a = await 1"}, {"main": "index.mjs"}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_package_that_cannot_be_used_is_refused(cache: LibraryCache, tmp_path: Path, kind: str) -> None:
    files, about = BAD[kind]
    with pytest.raises(LibraryNotAdded) as raised:
        text_of(package(tmp_path, files, about), cache.folder)
    assert raised.value.reason == "BUNDLE_FAILED"
    assert SECRET not in str(raised.value) + str(raised.value.hint)


def test_a_package_has_a_size(cache: LibraryCache, tmp_path: Path) -> None:
    with pytest.raises(LibraryNotAdded) as raised:
        text_of(package(tmp_path, {"index.js": "exports.x = '" + "x" * (16 << 20) + "'"}), cache.folder)
    assert raised.value.reason == "LIBRARY_TOO_LARGE"


# ---- in templates


@scene
async def test_local_files_in_both_languages(cache: LibraryCache, tmp_path: Path) -> None:
    def give(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    add_file(cache, give("plain.js", "var plain = 7"), "plain", "1")
    give("part.js", "export const one = 1")
    add_file(cache, give("whole.mjs", "import {one} from './part.js'; export const two = one + 1"), "@own/whole", "2")
    add_file(
        cache,
        give("mine.lua", "#!/usr/bin/lua\nlocal M, name = {}, ... function M.f() return name end return M"),
        "mine",
        "1.0",
        "m",
    )
    async with opened("memory:", libraries=cache) as hf:
        await template(hf, name="t")
        assert await hf.templates.add_library("t", "plain") == "plain-1"
        assert await hf.templates.add_library("t", "@own/whole@2") == "@own/whole-2"
        session = await hf.sessions.create("t")
        assert await evaluate(hf, session.id, "[plain, whole.two, require('@own/whole').two]") == [7, 2, 2]
        shutil.rmtree(cache.folder)  # what was baked needs it no more
        session = await hf.sessions.create("t")
        assert await evaluate(hf, session.id, "[plain, require('@own/whole').two]") == [7, 2]
        await hf.templates.remove_library("t", "@own+whole")
        assert (await hf.templates.version("t")).spec.packages == ("plain-1",)
        with refused("LIBRARY_NOT_CACHED") as raised:
            await hf.sessions.create("t")
        assert "holdfast libs add plain@1" in str(raised.error)
        with refused("LIBRARY_NOT_CACHED") as raised:
            await hf.templates.add_library("t", "unheard-of")
        assert raised.error.details["command"] == "holdfast libs add unheard-of"
        add_file(cache, tmp_path / "mine.lua", "mine", "1.0", "m")
        await template(hf, "lua", "l")
        await hf.templates.add_library("l", "mine")
        session = await hf.sessions.create("l")
        assert await evaluate(hf, session.id, "return require('mine').f() .. tostring(m == require('mine'))") == "minetrue"


@scene
async def test_a_library_that_does_not_load_says_why(cache: LibraryCache, tmp_path: Path) -> None:
    texts = {
        "throw new Error('bad day')": "bad day",
        "while (true);": "wall_ms",
        "var me = await llm('who?')": "waits for an answer",
    }
    async with opened("memory:", libraries=cache) as hf:
        await template(hf, name="t")
        await hf.templates.set("t", limits={"wall_ms": 300})
        for number, (text, told) in enumerate(texts.items()):
            (tmp_path / "bad.js").write_text(text)
            add_file(cache, tmp_path / "bad.js", "bad", f"1.0.{number}")
            with refused("LIBRARY_LOAD_FAILED") as raised:
                await hf.templates.add_library("t", f"bad@1.0.{number}")
            assert f"bad-1.0.{number}.js" in str(raised.error)
            assert told in str(raised.error)
        assert (await hf.templates.version("t")).spec.packages == ()


@scene
async def test_a_library_that_was_tampered_with_is_not_loaded(cache: LibraryCache, tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("var a = 1")
    add_file(cache, tmp_path / "a.js", "a", "1.0.0")
    (cache.folder / "a-1.0.0.js").write_text("var a = 'evil'")
    async with opened("memory:", libraries=cache) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "a")
        with refused("LIBRARY_NOT_CACHED"):
            await hf.sessions.create("t")
        add_file(cache, tmp_path / "a.js", "a", "1.0.0")
        assert await evaluate(hf, (await hf.sessions.create("t")).id, "a") == 1
