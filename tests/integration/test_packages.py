"""Packages in sessions: what a name means, what a template grants, what has changed, and what packages say of themselves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Capability, PackagePath, SourceFile, Worktree
from holdfast.capabilities import Resolver, SessionModules
from holdfast.domain import TemplateSpec
from holdfast.runtime import ReplayDiverged, journal
from holdfast.sandbox import Engine, Modules, Template
from holdfast.store import Effect
from holdfast.strategies import Catalogue, Folder, SessionPackages, meta, project_folder
from holdfast.strategies.adding import add
from holdfast.strategies.packages import BUNDLED
from holdfast.strategies.upkeep import link
from tests.acceptance.scenes import opened, refused, scene, template, value
from tests.package_folders import made

ALL = (Capability("packages", "*"),)

PANEL = {
    "init.lua": "local M = {name = ..., part = require('panel.part'), json = require('./data.json')} return M",
    "part.lua": "return {deep = require('./deep'), path = select(2, ...)}",
    "deep/init.lua": "return {up = require('../other').x, also = require('panel/other').x}",
    "other.lua": "return {x = 7}",
    "init.js": "import part from './part.js'; import { x } from 'panel/other'; export const run = () => [part, x, import.meta.url]",
    "part.js": "exports.deep = require('./deep'); exports.at = __filename; exports.data = require('./data.json')",
    "deep/index.js": "module.exports = [require('../other').x, require('panel.other').x, require('./more/')]",
    "deep/more/init.js": "module.exports = 'init'",
    "other.js": "exports.x = 7",
    "data.json": '{"k": [1]}',
    "notes.txt": "return 1",
}


async def ran(hf: Any, source: str, language: str = "lua", grants: Any = ALL, **options: Any) -> Any:
    """What a script gives in a session of its own, or the code of the error that it raises."""
    tree: Path | None = options.pop("tree", None)
    name = await template(
        hf, language, f"{language} {[(one.name, one.enabled) for one in grants]}", capabilities=grants, **options
    )
    worktree = None if tree is None else Worktree("w", "c", str(tree))
    turn = await hf.executions.run((await hf.sessions.create(name, worktree=worktree)).id, source)
    if turn.execution.status == "error":
        assert "/tmp" not in turn.execution.error["message"]
        return turn.execution.error["code"]
    return value(turn)


# ---- what a name means -------------------------------------------------------------------------------------------------------------


@scene
async def test_lua_gets_packages_and_their_parts(tmp_path: Path) -> None:
    made(tmp_path / "panel", PANEL)
    async with opened("memory:", packages=PackagePath.of(tmp_path)) as hf:
        assert await ran(hf, "return require('panel')") == {
            "name": "panel",
            "part": {"deep": {"up": 7, "also": 7}, "path": "package:panel/part.lua"},
            "json": {"k": [1]},
        }
        same = "return {require('panel') == require('panel.init'), require('panel.deep') == require('panel/deep/init.lua')}"
        assert await ran(hf, same) == [True, True]
        for name in ("panel.nothing", "panel/notes.txt", "panel.part.x", "nobody", "./panel", "panel.notes.txt"):
            assert await ran(hf, f"return require('{name}')") == "MODULE_NOT_FOUND", name


@scene
async def test_javascript_gets_packages_and_their_parts(tmp_path: Path) -> None:
    made(tmp_path / "panel", PANEL)
    made(tmp_path / "old", {"init.js": "exports.run = () => require('./x.cjs')", "x.cjs": "module.exports = 'common'"})
    async with opened("memory:", packages=PackagePath.of(tmp_path)) as hf:
        part = {"deep": [7, 7, "init"], "at": "package:panel/part.js", "data": {"k": [1]}}
        assert await ran(hf, "(await import('panel')).run()", "javascript") == [part, 7, "package:panel/init.js"]
        forms = (
            "[require('panel/part').at, require('panel.part').at, require('panel/part.js').at, (await import('panel/part')).at]"
        )
        assert await ran(hf, forms, "javascript") == ["package:panel/part.js"] * 4
        assert await ran(hf, "require('old').run() + (await import('old')).run()", "javascript") == "commoncommon"
        for name in ("panel/nothing", "panel/notes.txt", "panel/init.lua", "nobody", "./panel"):
            assert await ran(hf, f"require('{name}')", "javascript") == "MODULE_NOT_FOUND", name


@pytest.mark.parametrize("language", ["javascript", "lua"])
@scene
async def test_the_template_and_the_worktree_come_first_then_folders_in_their_order(tmp_path: Path, language: str) -> None:
    ending, says = ("lua", "return '{}'") if language == "lua" else ("js", "module.exports = '{}'")
    folders = []
    for number, source in enumerate(("project", "path", "user")):
        folders.append(Folder(source, tmp_path / source))  # type: ignore[arg-type]
        for name in ("a", "b", "c", "d", "e")[number + 2 :]:
            made(tmp_path / source / name, {f"init.{ending}": says.format(source)})
    (tmp_path / "project/a").mkdir()
    made(tmp_path / "project/a", {f"init.{ending}": says.format("project")})
    made(tmp_path / "project/b", {f"init.{ending}": says.format("project")})
    made(tmp_path / "tree", {f"a.{ending}": says.format("worktree"), f"b/in.{ending}": "", f"own.{ending}": says.format("no")})
    own = SourceFile("own.cjs" if language == "javascript" else "own.lua", says.format("template"))
    names = ["own.cjs" if language == "javascript" else "own", "a", "b", "c", "d", "e", "reflect"]
    asked = ", ".join(f"(require('{name}'))" for name in names[:-1])
    async with opened("memory:", packages=PackagePath([*folders, Folder("bundled", BUNDLED)])) as hf:
        source = f"return {{{asked}}}" if language == "lua" else f"[{asked}]"
        found = await ran(hf, source, language, tree=tmp_path / "tree", modules=[own])
        assert found == ["template", "worktree", "project", "project", "project", "project"]
        bundled = "return type(require('reflect').run)" if language == "lua" else "typeof (await import('reflect')).run"
        assert await ran(hf, bundled, language) == "function"


@pytest.mark.parametrize("language", ["javascript", "lua"])
@scene
async def test_a_package_is_never_taken_for_a_native_module_nor_for_a_part_of_one(tmp_path: Path, language: str) -> None:
    files = {"init.lua": "return 1", "x.lua": "return 1", "init.js": "exports.y = 1", "x.js": "exports.y = 1"}
    for name in ("fs", "state"):
        made(tmp_path / name, files)
    say = "return require('{}')" if language == "lua" else "require('{}')"
    async with opened("memory:", packages=PackagePath.of(tmp_path)) as hf:
        for name in ("fs", "state"):
            assert await ran(hf, say.format(name), language) == "MODULE_NOT_GRANTED"
            for part in (f"{name}.x", f"{name}/x", f"{name}/x.js", f"{name}/x.lua", f"{name}/./x"):
                assert await ran(hf, say.format(part), language) == "MODULE_NOT_FOUND", part


@scene
async def test_a_file_of_the_worktree_is_never_taken_for_one_of_a_package(tmp_path: Path) -> None:
    made(tmp_path / "packages/panel", {"init.js": "module.exports = 'package'"})
    made(
        tmp_path / "tree/package:panel",
        {"init.js": "module.exports = [__filename, require('./x')]", "x.js": "module.exports = 'x'"},
    )
    async with opened("memory:", packages=PackagePath.of(tmp_path / "packages")) as hf:
        source = (
            "[require('./package:panel/init.js'), require('panel'), require('./package:panel/init.js') === require('panel')]"
        )
        found = await ran(hf, source, "javascript", tree=tmp_path / "tree")
        assert found == [["./package:panel/init.js", "x"], "package", False]


# ---- what is granted ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["javascript", "lua"])
@scene
async def test_a_template_grants_packages_by_name(tmp_path: Path, language: str) -> None:
    made(tmp_path / "panel", PANEL)
    made(tmp_path / "other", PANEL)
    say = "return type(require('{}.other').x)" if language == "lua" else "typeof require('{}/other').x"
    granted = [
        ([], {"panel": "MODULE_NOT_GRANTED", "other": "MODULE_NOT_GRANTED", "nobody": "MODULE_NOT_FOUND"}),
        ([Capability("packages", "panel")], {"panel": "number", "other": "MODULE_NOT_GRANTED", "nobody": "MODULE_NOT_FOUND"}),
        ([*ALL, Capability("packages", "panel", enabled=False)], {"panel": "MODULE_NOT_GRANTED", "other": "number"}),
        ([Capability("packages", "*", enabled=False), Capability("packages", "panel")], {"panel": "MODULE_NOT_GRANTED"}),
        (ALL, {"panel": "number", "nobody": "MODULE_NOT_FOUND"}),
    ]
    async with opened("memory:", packages=PackagePath.of(tmp_path)) as hf:
        for grants, expected in granted:
            for name, outcome in expected.items():
                assert await ran(hf, say.format(name), language, grants) == outcome, (grants, name)
        refusals = [event.payload for event in await hf.executions.events((await hf.executions.list()).items[-1].id)]
        assert [(one["code"], one["call"]) for one in refusals if "code" in one and one.get("call")] == [
            ("MODULE_NOT_GRANTED", "require")
        ]


@scene
async def test_a_package_gets_no_more_than_its_template(tmp_path: Path) -> None:
    (tmp_path / "secret.lua").write_text("return 'secret'")
    lies = "return load([[return require('./other')]], '@package:{}/init.lua')()"
    attempts = {
        "require('fs')": "MODULE_NOT_GRANTED",
        "require('../secret')": "INVALID_PATH",
        "require('./../../secret')": "INVALID_PATH",
        "require('./deep/../../../secret')": "INVALID_PATH",
        "require('../panel/other')": "INVALID_PATH",
        "require('package:panel/other.lua')": "INVALID_PATH",
        "require('hostile/../../secret')": "INVALID_PATH",
        "require('hostile..secret')": "INVALID_PATH",
        "require('panel')": "MODULE_NOT_GRANTED",
        "require('hostile.%2e%2e')": "INVALID_PATH",
        "require('/etc/passwd')": "INVALID_PATH",
    }
    made(tmp_path / "packages/panel", PANEL)
    files = {f"a{number}.lua": f"return {attempt}" for number, attempt in enumerate(attempts)}
    made(tmp_path / "packages/hostile", files | {"init.lua": "return {}", "other.lua": "return 'mine'"})
    only = (Capability("packages", "hostile"),)
    async with opened("memory:", packages=PackagePath.of(tmp_path / "packages")) as hf:
        for number, (attempt, code) in enumerate(attempts.items()):
            assert await ran(hf, f"return require('hostile.a{number}')", "lua", only) == code, attempt
        assert await ran(hf, lies.format("hostile"), "lua", only) == "mine"
        assert await ran(hf, lies.format("panel"), "lua", only) == "MODULE_NOT_GRANTED"
        assert await ran(hf, lies.format(".."), "lua", only) in ("MODULE_NOT_FOUND", "INVALID_PATH")
        assert await ran(hf, "return io == nil and os.execute == nil", "lua", only) is True


@scene
async def test_what_a_package_may_be_granted_is_checked_and_told() -> None:
    async with opened("memory:", packages=PackagePath([])) as hf:
        await hf.templates.create("t")
        for name in ("../x", "", "a b", "**"):
            with refused("CAPABILITY_INVALID" if name else "VALIDATION_ERROR"):
                await hf.templates.add_capability("t", "packages", name, enabled=True)
        with refused("CAPABILITY_INVALID"):
            await hf.templates.add_capability("t", "packages", "*", config={"x": 1})
        grants = [Capability("packages", "*"), Capability("packages", "a"), Capability("packages", "b", enabled=False)]
        await hf.templates.create("u", capabilities=grants)
        told = {one.name: (one.granted, one.reason) for one in await hf.templates.policy("u") if one.kind == "packages"}
        assert told == {
            "*": (True, "its capability is enabled"),
            "a": (True, "its capability is enabled and the capability for * is enabled"),
            "b": (False, "its capability is disabled, which denies it"),
        }
        await hf.templates.create("v", capabilities=[Capability("packages", "*", enabled=False), Capability("packages", "a")])
        told = {one.name: (one.granted, one.reason) for one in await hf.templates.policy("v") if one.kind == "packages"}
        assert told["a"] == (False, "the capability for * is disabled, which denies it")


# ---- what has changed --------------------------------------------------------------------------------------------------------------


@scene
async def test_a_changed_package_is_refused_and_what_is_loaded_stays(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    folder = project_folder(tmp_path / "project")
    source = made(tmp_path / "panel", {"init.lua": "return {v = 1}", "late.lua": "return 1"})
    add(folder, source)
    async with opened("memory:", packages=PackagePath([folder])) as hf:
        await hf.templates.create("t", language="lua", capabilities=ALL)
        before = (await hf.sessions.create("t")).id
        assert value(await hf.executions.run(before, "return require('panel').v")) == 1
        (folder.path / "panel/init.lua").write_text("return {v = 2}")
        assert value(await hf.executions.run(before, "return require('panel').v")) == 1  # it is part of the session
        for source_text in ("return require('panel')", "return require('panel.late')"):
            turn = await hf.executions.run((await hf.sessions.create("t")).id, source_text)
            assert turn.execution.error is not None
            assert turn.execution.error["code"] == "PACKAGE_CHANGED"
        turn = await hf.executions.run(before, "return require('panel.late')")
        assert turn.execution.error is not None
        made(tmp_path / "panel", {"init.lua": "return {v = 3}"})
        add(folder, source, force=True)
        assert value(await hf.executions.run((await hf.sessions.create("t")).id, "return require('panel').v")) == 3
        assert value(await hf.executions.run(before, "return require('panel').v + require('panel.late')")) == 2


@scene
async def test_a_package_that_cannot_be_read_is_an_error_of_the_script(tmp_path: Path) -> None:
    made(tmp_path / "large", {"init.lua": "-- " + "x" * (1 << 20)})
    (made(tmp_path / "out", {"init.lua": "return 1"}) / "x.lua").symlink_to("/etc/passwd")
    (made(tmp_path / "latin", {"init.lua": ""}) / "init.lua").write_bytes(b"return '\xe9'")
    async with opened("memory:", packages=PackagePath.of(tmp_path)) as hf:
        for name in ("large", "out", "latin"):
            assert await ran(hf, f"return require('{name}')") == "PACKAGE_INVALID", name


def test_a_step_that_is_run_again_notices_another_package(lua: Template, tmp_path: Path) -> None:
    made(tmp_path / "panel", {"init.lua": "return require('./part')", "part.lua": "return 1"})
    spec = TemplateSpec("lua", capabilities=ALL)

    def run(effects: list[Effect], granting: TemplateSpec = spec) -> Any:
        packages = SessionPackages.of(granting, PackagePath.of(tmp_path))
        host = journal.Journal({}, SessionModules(Resolver(granting, Modules({}), packages), None), lambda: None)
        with lua.create(host=host, seed=1) as sandbox:
            host.start(sandbox, effects)
            outcome = sandbox.evaluate(
                "local ok, m = pcall(require, 'late') return {ok, require('panel'), require('panel.part')}"
            )
            return outcome.result.value  # type: ignore[union-attr]

    effects: list[Effect] = []
    assert run(effects) == [False, 1, 1]
    assert len(effects) == 6  # four names, two texts
    made(tmp_path / "late", {"init.lua": "return 'late'"})
    assert run(list(effects)) == [False, 1, 1]
    (tmp_path / "panel/part.lua").write_text("return 2")
    with pytest.raises(ReplayDiverged):
        run(list(effects))
    nothing: list[Effect] = []
    with pytest.raises(AttributeError):  # it has failed, and has no result
        run(nothing, TemplateSpec("lua"))
    assert nothing == []


# ---- what they say of themselves ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[dict[str, str]], Any]]:
    """What a package says of itself, with little time to say it."""

    def tell(files: dict[str, str]) -> Any:
        folder = tmp_path_factory.mktemp("told")
        made(folder / "one", files)
        made(folder / "shapes", {"init.lua": "return {T = {string = {kind = 'string', check = print}}}"})
        return Catalogue(PackagePath.of(folder), engine).show("one")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(meta, "_LIMITS", meta._LIMITS.but(cpu_ms=100))
        yield tell


def test_meta_and_spec_are_plain_data(told: Callable[[dict[str, str]], Any]) -> None:
    lua = told(
        {
            "init.lua": "local T = require('shapes').T; local M = {} "
            "M.meta = {name = 'another', version = 2, description = 'x' .. ('y'):rep(1000), category = 'c', f = print, [1] = 'one'} "
            "M.spec = {entries = {run = {input = {task = T.string}, list = {1, 2}}}} M.spec.self = M.spec pairs = nil return M"
        }
    )
    assert (lua["name"], lua["version"], len(lua["description"]), lua["category"]) == ("one", "2", 500, "c")
    assert lua["meta"]["1"] == "one"
    assert "f" not in lua["meta"]
    assert lua["spec"]["entries"] == {"run": {"input": {"task": {"kind": "string"}}, "list": [1, 2]}}
    assert "error" not in lua
    assert lua["files"] == ["init.lua"]
    modern = told(
        {"init.js": "export const meta = {version: '1', when: new Date(0), f() {}}; export const spec = {entries: {}}"}
    )
    assert (modern["language"], modern["version"], modern["spec"]) == ("javascript", "1", {"entries": {}})
    common = told({"init.js": "module.exports = {meta: {description: 'old'}, run() {}}; JSON.stringify = null"})
    assert (common["description"], common["spec"]) == ("old", None)
    assert told({"init.js": "export default {meta: {category: 'd'}}"})["category"] == "d"
    assert told({"init.lua": "return {}"})["meta"] == {}
    assert told({"init.lua": r"return {meta = {['\xff'] = 1, x = {y = 2}}}"})["meta"] == {"x": {"y": 2}}
    deep = told({"init.js": "let deep = 1; for (let i = 0; i < 30; i++) deep = {deep}; exports.meta = deep"})["meta"]
    assert str(deep) == "{'deep': " * 16 + "None" + "}" * 16


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"init.lua": "while true do end"}, "takes too much"),
        ({"init.js": "for (;;);"}, "takes too much"),
        ({"init.lua": "local t = {} while true do t[#t + 1] = ('x'):rep(1e6) end"}, "takes too much"),
        ({"init.lua": "alc.llm('hello')"}, "waits for something"),
        ({"init.js": "export const meta = await ask('who?')"}, "waits for something"),
        ({"init.js": "export const meta = await hf.sleep(1e6)"}, "waits for something"),
        ({"init.lua": "error('bad day')"}, "bad day"),
        ({"init.lua": "return require('nobody')"}, "no package 'nobody'"),
        ({"init.lua": "return require('fs')"}, "no package 'fs'"),
        ({"init.lua": "return alc.call('holdfast.budget')"}, "raises an error"),
        ({"init.lua": "syntax error"}, "syntax error"),
        ({"init.lua": "return 7"}, "gives number"),
        ({"init.lua": ""}, "gives boolean"),
        ({"init.lua": "return {meta = 'x'}"}, "its meta must be"),
        ({"init.js": "export const meta = {big: 1n}"}, "raises an error"),
        ({"init.lua": "return {meta = {x = ('x'):rep(1e6)}}"}, "takes too much"),
        ({"init.js": "let deep = []; for (let i = 0; i < 3000; i++) deep = [deep]; exports.meta = {deep}"}, "too deeply"),
        ({"init.js": "Object.prototype.toJSON = () => 'y'.repeat(1e5); exports.meta = {}"}, 'gives "yyy'),
    ],
)
def test_a_package_that_does_not_behave_is_told_and_breaks_nothing(
    told: Callable[[dict[str, str]], Any], files: dict[str, str], problem: str
) -> None:
    found = told(files)
    assert found["error"]["code"] == "PACKAGE_INVALID"
    assert problem in found["error"]["message"]
    assert len(found["error"]["message"]) < 1000
    assert found["text"] == next(iter(files.values()))


def test_all_are_listed_whatever_is_wrong_with_some(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    folder = project_folder(tmp_path / "project")
    good = made(tmp_path / "good", {"init.lua": "return {meta = {version = '1'}}"})
    add(folder, good)
    add(folder, good, "changed")
    (folder.path / "changed/init.lua").write_text("return 1")
    made(folder.path / "raises", {"init.js": "throw new Error('x')"})
    made(tmp_path / "gone", {"init.lua": ""})
    link(folder, tmp_path / "gone")
    (tmp_path / "gone/init.lua").unlink()
    found = {one["name"]: one.get("error", {}).get("code") for one in Catalogue(PackagePath([folder]), engine).all()}
    assert found == {"good": None, "changed": "PACKAGE_CHANGED", "raises": "PACKAGE_INVALID", "gone": "PACKAGE_INVALID"}
