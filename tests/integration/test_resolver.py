"""Modules of a session are those of its template and files of its worktree. No name, link or race leads anywhere else."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import EffectKind, Function, Limits, Settings, SourceFile, StartupFile, Worktree
from holdfast.capabilities import Resolver, SessionModules
from holdfast.domain import InvalidValue, TemplateSpec
from holdfast.runtime import ReplayDiverged, journal
from holdfast.runtime.baking import bake
from holdfast.sandbox import Failed, Finished, Host, HostError, Language, Module, Modules, Sandbox, Template
from holdfast.store import Effect
from tests.acceptance.scenes import elsewhere, evaluate, opened, refused, scene, template, value

FILES = {
    "lib/es.js": "export const x = 1; export default import.meta.url",
    "lib/common.js": "exports.d = require('./data.json'); exports.at = [__filename, __dirname]",
    "lib/data.json": '\ufeff{"k": [1]}',
    "lib/index.js": "module.exports = 'the folder'",
    "lib/forced.mjs": "export default typeof this",
    "lib/old.cjs": "module.exports = 'old'",
    "lib/hash.js": "#!/usr/bin/env node\nmodule.exports = 'hash'",
    "lib/more.es": "export default 'more'",
    "lib/waits.js": "export default await Promise.resolve('waited')",
    "lib/empty.js": "",
    "lib/bad.json": "{k: 1}",
    "lib/broken.js": "exports.x = = 1",
    "lib/LICENSE": "export default 1",
    "lib/notes.txt": "export default 1",
    "cycle/a.js": "exports.early = 1; exports.seen = require('./b').seen",
    "cycle/b.js": "exports.seen = Object.keys(require('./a'))",
    "fs.js": "module.exports = 'a file'",
    "exec/index.js": "module.exports = 'a folder'",
    "own.js": "export default 'of the worktree'",
    "100%.js": "module.exports = 'percent'",
    "src/deep/name.js": "export default 'by root'",
    "src/deep/name.lua": "return 'by root'",
    "x/init.lua": "return 'the folder'",
    "x/y.lua": "return {...}",
    "x/beside.lua": "return require('./y')",
    "x/one.lua": "return require('x.two')",
    "x/two.lua": "return require('x.one')",
    "x/binary.lua": "\x1bLua",
}
OWN = {
    "own.js": Module("module", "export default 'of the template'"),
    "own/deep.js": Module("module", "export { default } from '../lib/old.cjs'"),
    "fs": Module("functions", names=("read",)),
    "x.own": Module("script", "return 'of the template'"),
}
LATIN = b"module.exports = '\xe9'"
LANGUAGES: tuple[Language, ...] = ("javascript", "lua")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("resolver")
    tree = top / "tree"
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "lib/latin.js").write_bytes(LATIN)
    for ending, text in ((".js", "module.exports = 'secret'"), (".lua", "return 'secret'"), (".json", '"secret"')):
        (top / f"secret{ending}").write_text(text)
        (tree / f"out{ending}").symlink_to(f"../secret{ending}")
        (tree / f"absolute{ending}").symlink_to(top / f"secret{ending}")
        os.link(top / f"secret{ending}", tree / f"hard{ending}")
        (tree / f"loop{ending}").symlink_to(f"loop{ending}")
    (top / "tree-beside").mkdir()
    (top / "tree-beside/s.js").write_text("module.exports = 'secret'")
    (tree / "up").symlink_to("..")
    (tree / "link.js").symlink_to("lib/common.js")
    os.mkfifo(tree / "pipe.js")
    return tree


def loader(tree: Path | None, language: Language = "javascript", **settings: Any) -> SessionModules:
    spec = TemplateSpec(
        language,
        modules=tuple(SourceFile(name, module.source) for name, module in OWN.items() if module.source),
        resolver={"roots": [".", "src"], "extensions": [".js", ".es"], "allow_absolute_repo_imports": True} | settings,
    )
    return SessionModules(Resolver(spec, Modules(OWN)), None if tree is None else str(tree))


@pytest.fixture(scope="module")
def sandboxes(engine: Any, tree: Path) -> Iterator[dict[str, Sandbox]]:
    made = {
        language: engine.guest(language).template().create(host=Host({"fs.read": str}, loader(tree, language)))
        for language in LANGUAGES
    }
    yield made
    for sandbox in made.values():
        sandbox.close()


def outcome(sandbox: Sandbox, source: str) -> Any:
    """A value, or the code of an error, or its name if it has none."""
    ended = sandbox.evaluate(source)
    if isinstance(ended, Failed):
        where = "resolver0"  # in the path of the folder that the worktree lies in
        assert where in source or where not in ended.error.message + ended.error.stack
        return ended.error.code or ended.error.name
    assert isinstance(ended, Finished), ended
    return ended.result.value


# ---- what is found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(await import('./lib/es.js')).x", 1),
        ("(await import('./lib/es')).default", "lib/es.js"),
        ("require('./lib/common').d.k", [1]),
        ("require('lib/common.js').at", ["lib/common.js", "lib"]),
        ("require('./link') === require('lib/common') && (await import('/lib/common')).default.d.k", [1]),
        ("[require('./lib'), require('./lib/'), (await import('lib')).default]", ["the folder"] * 3),
        ("(await import('./lib/data.json', {with: {type: 'json'}})).default", {"k": [1]}),
        ("(await import('./lib/forced')).default", "MODULE_NOT_FOUND"),
        ("(await import('./lib/forced.mjs')).default + require('./lib/old.cjs')", "undefinedold"),
        ("require('./lib/hash') + (await import('./lib/waits')).default", "hashwaited"),
        ("(await import('./lib/more')).default", "more"),
        ("Object.keys(require('./lib/empty'))", []),
        ("require('./cycle/a').seen", ["early"]),
        ("(await import('deep/name')).default", "by root"),
        ("require('./100%')", "percent"),
        # The template comes first, and so do native modules; what begins with a dot is a file.
        ("(await import('./own')).default + (await import('own.js')).default", "of the template" * 2),
        ("(await import('./own/deep')).default", "old"),
        ("typeof require('fs').read + require('./fs')", "functiona file"),
        ("require('./exec')", "a folder"),
        # What is no module.
        ("require('./lib/es')", "TypeError"),
        ("require('./lib/bad.json')", "SyntaxError"),
        ("require('./lib/broken')", "SyntaxError"),
        ("require('./lib/LICENSE')", "MODULE_NOT_FOUND"),
        ("require('./lib/notes.txt')", "MODULE_NOT_FOUND"),
        ("require('./lib/latin')", "INVALID_PATH"),
        ("require('./nothing')", "MODULE_NOT_FOUND"),
        ("require('./' + 'n'.repeat(300))", "MODULE_NOT_FOUND"),
        ("require('./lib/es.js/')", "MODULE_NOT_FOUND"),
        ("require('')", "MODULE_NOT_FOUND"),
        ("require('node:fs')", "MODULE_NOT_FOUND"),
    ],
)
def test_javascript_finds_files_by_name(sandboxes: dict[str, Sandbox], source: str, expected: Any) -> None:
    assert outcome(sandboxes["javascript"], source) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.y", ["x.y", "x/y.lua"]),
        ("x/y", ["x.y", "x/y.lua"]),  # the same module
        ("./x/y.lua", ["x.y", "x/y.lua"]),
        ("x.beside", ["x.y", "x/y.lua"]),
        ("x", "the folder"),
        ("deep.name", "by root"),
        ("x.own", "of the template"),
        ("lib/data.json", {"k": [1]}),
        ("./lib/data.json", {"k": [1]}),
        ("x.one", "error"),
        ("x.binary", "error"),
        ("lib.es", "MODULE_NOT_FOUND"),
        ("x.nothing", "MODULE_NOT_FOUND"),
    ],
)
def test_lua_finds_files_by_name(sandboxes: dict[str, Sandbox], name: str, expected: Any) -> None:
    # A module knows by which name it was first asked for, and the sandbox is that of all these tests.
    assert outcome(sandboxes["lua"], f"require('x.y') return (require('{name}'))") == expected


# ---- what is not

OUTSIDE = [
    "../secret{}",
    "./../secret{}",
    "lib/../../secret{}",
    "./lib/../../secret{}",
    "..",
    "./out{}",
    "out{}",
    "./absolute{}",
    "./hard{}",
    "./loop{}",
    "./up/secret{}",
    "up/secret",
    "/secret{}",
    "/../secret{}",
    "//secret{}",
    "/etc/passwd",
    "/proc/self/root/etc/passwd",
    "{{top}}/secret{}",
    "{{top}}/tree/../secret{}",
    "{{top}}/tree-beside/s{}",
    "{{top}}/tree/out{}",
    "file:///etc/passwd",
    "FILE:{{top}}/secret{}",
    "file:../secret{}",
    "https://127.0.0.1/secret{}",
    "data:text/javascript,1",
    "holdfast:../secret{}",
    "C:/secret{}",
    r"..\\secret{}",
    r".\\..\\secret{}",
    "./%2e%2e/secret{}",
    "./..%2Fsecret{}",
    "%2e%2e%5Csecret",
    "./%252e%252e/secret{}",
    "./a%00{}",
    "./\\0{}",
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_name_leads_out(sandboxes: dict[str, Sandbox], tree: Path, language: Language) -> None:
    ending = ".lua" if language == "lua" else ".js"
    names = [name.format(ending).format(top=tree.parent) for name in OUTSIDE]
    if language == "lua":
        forms = ["return require('{}')", "return load([[return require('{}')]], '@lib/../main')()"]
        names += ["up.secret", "..secret", "...etc.passwd", "a..b"]
        lies = [
            "return load([[return require('./secret')]], '@../x')()",
            "return load([[return require('./passwd')]], '@/etc/x')()",
        ]
    else:
        forms = ["require('{}')", "await import('{}')", "eval(`require('{}')`)", "await new Function(`return import('{}')`)()"]
        names += ["./pipe.js", "x" * 5000]
        lies = []
    plain = forms[:1]  # elsewhere a backslash would have to be written in another way, and the name of an import ends at NUL
    found = {
        form.format(name): outcome(sandboxes[language], form.format(name))
        for form in forms
        for name in names
        if "\\" not in name or form in plain
    }
    found |= {lie: outcome(sandboxes[language], lie) for lie in lies}
    assert {source: code for source, code in found.items() if code != "INVALID_PATH"} == {}


def test_a_template_may_close_absolute_paths_and_names_its_roots(tree: Path) -> None:
    closed = loader(tree, allow_absolute_repo_imports=False, roots=["lib"])
    assert closed.resolve("old.cjs", "main.js", "import") == "lib/old.cjs"
    for name, code in (
        (f"{tree}/lib/es.js", "INVALID_PATH"),
        ("/lib/es.js", "INVALID_PATH"),
        ("lib/es.js", "MODULE_NOT_FOUND"),
    ):
        with pytest.raises(HostError) as raised:
            closed.resolve(name, "main.js", "import")
        assert raised.value.script_code == code
    for root in ("..", "a/../..", "/etc"):
        with pytest.raises(InvalidValue, match="roots"):
            loader(tree, roots=[root])


def test_without_a_worktree_there_are_the_modules_of_the_template() -> None:
    bare = loader(None)
    assert bare.resolve("./own", "main.js", "import") == "own.js"
    for name, code in (("./lib/es.js", "MODULE_NOT_FOUND"), ("../x", "INVALID_PATH"), ("/etc/passwd", "INVALID_PATH")):
        with pytest.raises(HostError) as raised:
            bare.resolve(name, "main.js", "import")
        assert raised.value.script_code == code


def test_a_race_of_links_never_leads_out(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder, text in (("tree/in", "inside"), ("away", "secret")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "f.js").write_text(text)
    modules = loader(tree)
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            os.rename(tree / "in", tree / "kept")
            os.symlink("../away", tree / "in")
            os.unlink(tree / "in")
            os.rename(tree / "kept", tree / "in")

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    try:
        for _ in range(1500):
            try:
                seen.add(modules.load(modules.resolve("./in/f", "main.js", "require")).source)
            except HostError as error:
                seen.add(error.script_code)
    finally:
        ended.set()
        swapping.join()
    assert seen <= {"inside", "INVALID_PATH", "MODULE_NOT_FOUND", "FILE_NOT_FOUND"}
    assert modules.load(modules.resolve("./in/f", "main.js", "require")).source == "inside"


# ---- in sessions


def at(tree: Path) -> Worktree:
    return Worktree("workspace 1", "commit 7", str(tree))


@pytest.mark.parametrize(
    ("language", "files"),
    [
        ("javascript", {"main.js": "[args === __ARGS__, args.a, env === __ENV__, env.mode, require('./lib').v]"}),
        (
            "javascript",
            {"main.mjs": "import { v } from './lib.js'; export default [args === __ARGS__, args.a, true, env.mode, v]"},
        ),
        ("lua", {"main.lua": "return {args == __ARGS__ and args == ..., args.a, env == __ENV__, env.mode, require('lib').v}"}),
    ],
)
@scene
async def test_a_file_runs_with_what_it_is_given_and_imports(tmp_path: Path, language: str, files: dict[str, str]) -> None:
    files |= {"lib.js": "exports.v = 7", "lib.lua": "return {v = 7}"}
    files |= {"takes.js": "const args = 1; var env = 2; args + env", "takes.lua": "args, env = 1, 2 return args + env"}
    files |= {"none.js": "[args, Object.keys(env), __ARGS__]", "none.lua": "return {args == nil, next(env) == nil, true}"}
    ending = "lua" if language == "lua" else "js"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    main = next(iter(files))
    async with opened("memory:") as hf:
        await template(hf, language, "t")
        session = (await hf.sessions.create("t", worktree=at(tmp_path))).id
        for number in (1, 2):  # also after a file that has taken the names for itself
            turn = await hf.executions.run_path(session, main, {"a": number}, {"mode": "test"})
            assert value(turn) == [True, number, True, "test", 7]
            assert value(await hf.executions.run_path(session, f"takes.{ending}")) == 3
        expected = [True, True, True] if language == "lua" else [None, [], None]
        assert value(await hf.executions.run_path(session, f"none.{ending}")) == expected


@scene
async def test_a_refused_import_is_an_event_and_a_step_does_not_look_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_MOST_IMPORTS", 50)
    async with opened("memory:") as hf:
        await template(hf, name="t")
        session = (await hf.sessions.create("t", worktree=at(tmp_path))).id
        turn = await hf.executions.run(session, "try { require('../x') } catch (e) { e.code }")
        assert value(turn) == "INVALID_PATH"
        told = [event.payload for event in await hf.executions.events(turn.execution.id) if event.type == "system"]
        assert [(payload["code"], "'../x'" in payload["message"]) for payload in told] == [("INVALID_PATH", True)]
        endless = "for (let i = 0; ; i++) try { require('./x' + i) } catch (e) { if (e.code !== 'MODULE_NOT_FOUND') throw e }"
        turn = await hf.executions.run(session, endless)
        assert turn.execution.error is not None
        assert turn.execution.error["code"] == "CALLS_EXCEEDED"


DIES = """
    function = Function("world.touch", lambda: os._exit(9), EffectKind.ONCE)
    async with opened(address, functions=[function], settings=Settings(lease_ms=200)) as hf:
        await hf.templates.create("t", capabilities=[Capability("function", "world.touch")])
        session = await hf.sessions.create("t", worktree=Worktree("w", "c", given["tree"]))
        await hf.executions.run_path(session.id, "main.js")
"""


@scene
async def test_a_step_that_is_run_again_notices_another_file(tmp_path: Path) -> None:
    sqlite = f"sqlite:///{tmp_path}/work.db"
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "main.js").write_text("require('./lib'); require('world').touch()")
    (tree / "lib.js").write_text("exports.v = 1")
    elsewhere(sqlite, DIES, {"tree": str(tree)}, dies=True)
    (tree / "lib.js").write_text("exports.v = 2")
    functions = [Function("world.touch", lambda: None, EffectKind.ONCE)]
    async with opened(sqlite, functions=functions, settings=Settings(lease_ms=200)) as hf:
        turn = await hf.executions.wait((await hf.executions.list()).items[0].id, 20)
        assert turn.execution.error is not None
        assert turn.execution.error["code"] == "REPLAY_DIVERGED"
        assert await evaluate(hf, turn.session.id, "require('./lib').v") == 2


def test_a_step_that_is_run_again_finds_what_it_found(javascript: Template, tmp_path: Path) -> None:
    (tmp_path / "lib.js").write_text("exports.v = 1")
    source = "let m; try { m = require('./later') } catch { m = 'none' } [m, require('./lib').v, require('./lib').v]"

    def run(effects: list[Effect]) -> Any:
        host = journal.Journal({}, loader(tmp_path), lambda: None)
        with javascript.create(host=host, seed=1) as sandbox:
            host.start(sandbox, effects)
            found = outcome(sandbox, source)
            assert not host.is_behind
            return found

    effects: list[Effect] = []
    assert run(effects) == ["none", 1, 1]
    assert len(effects) == 3  # two names, one text
    (tmp_path / "later.js").write_text("module.exports = 'late'")
    assert run(list(effects)) == ["none", 1, 1]
    assert run(effects[:2]) == ["none", 1, 1]  # it had come to the text, and nobody knows what that was
    (tmp_path / "lib.js").unlink()
    with pytest.raises(ReplayDiverged):
        run(list(effects))
    with pytest.raises(ReplayDiverged):
        run([effects[1], effects[0]])


# ---- startup files


PURE = [StartupFile("a.js", "var trail = ['a']"), StartupFile("b.js", "import { rate } from './tax'; trail.push(rate)")]
LAST = StartupFile("last.js", "trail.push('last')")
TAX = SourceFile("tax.js", "export const rate = 7")


@pytest.mark.parametrize(
    ("text", "baked"),
    [
        ("trail.push('c')", True),
        ("try { trail.push(require('world').name()) } catch { trail.push('nobody') }", False),
        ("await import('./here.js').catch(() => 1)", False),
        ("trail.push(await ask('who?'))", False),
        ("console.log('hello')", False),
        ("trail.push('half'); throw new Error('bad day')", False),
    ],
)
def test_a_startup_file_is_baked_if_it_reaches_for_nothing(engine: Any, text: str, baked: bool) -> None:
    files = (*PURE, StartupFile("c.js", text), LAST, StartupFile("d.js", "var d = 1", "template"))
    own = Modules({"tax.js": Module("module", TAX.text)})
    made, names = bake(engine.guest("javascript"), TemplateSpec(modules=(TAX,), startup=files), [], own)
    assert names == {"a.js", "b.js", "d.js", *(("c.js", "last.js") if baked else ())}
    with made.create() as sandbox:  # nothing is left of one that was tried and is not part of it
        assert outcome(sandbox, "trail") == ["a", 7, *(("c", "last") if baked else ())]


@scene
async def test_startup_files_run_in_order_and_a_template_that_fails_can_be_mended(tmp_path: Path) -> None:
    (tmp_path / "here.js").write_text("exports.who = 'worktree'")
    async with opened("memory:") as hf:
        reads = StartupFile("c.js", "trail.push(require('./here').who, missing)")
        await hf.templates.create("t", modules=[TAX], startup=[*PURE, reads, LAST])
        session = await hf.sessions.create("t", worktree=at(tmp_path))
        assert (session.state, session.last_error) == ("crashed", "missing is not defined")
        await hf.templates.update("t", startup=[*PURE, reads._replace(text="trail.push(require('./here').who)"), LAST])
        session = await hf.sessions.create("t", worktree=at(tmp_path))
        ran = [(each.kind, each.path) for each in (await hf.executions.list(session.id)).items[::-1]]
        assert ran == [("startup", "c.js"), ("startup", "last.js")]
        assert await evaluate(hf, session.id, "trail") == ["a", 7, "worktree", "last"]


@scene
async def test_what_a_startup_file_says_of_itself_holds(tmp_path: Path) -> None:
    sqlite = f"sqlite:///{tmp_path}/work.db"
    files = [
        StartupFile("each.js", "globalThis.trail = [typeof trail, typeof first]", "session"),
        StartupFile("after.js", "trail.push('after')"),
        StartupFile("first.js", "var first = 1", "template"),
    ]
    async with opened(sqlite) as hf:
        await hf.templates.create("t", startup=files)
        with refused("TEMPLATE_FAILED"):
            await hf.templates.create("bad", startup=[StartupFile("x.js", "throw new Error('bad day')", "template")])
        with refused("VALIDATION_ERROR"):
            await hf.templates.create("bad", startup=[StartupFile("x.js", "1", "never")])  # type: ignore[arg-type]
    async with opened(sqlite) as hf:
        session = await hf.sessions.create("t")
        assert [each.path for each in (await hf.executions.list(session.id)).items[::-1]] == ["each.js", "after.js"]
        assert await evaluate(hf, session.id, "trail") == ["undefined", "number", "after"]
        # What a version noted is no difference, and an edit elsewhere bakes nothing anew.
        before = await hf.templates.version("t")
        assert [file.in_template for file in before.spec.startup] == [False, False, True]
        await hf.templates.set("t", limits={"max_events": 77})
        after = await hf.templates.version("t")
        assert (after.number, after.baked, after.spec.startup) == (2, before.baked, before.spec.startup)
        assert Limits().max_events != 77
