"""Native modules: what each does, and above all what it refuses, in sessions that really run."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import StartupFile
from holdfast.capabilities import Meter, NativeModule, NativeModules, Scope, effect, modules
from holdfast.capabilities.native import Grant
from holdfast.domain import EffectKind
from holdfast.sandbox import HostError
from tests.acceptance.scenes import refused, scene, value
from tests.modules import place

SHELL = {"programs": ["/bin/sh"], "timeout_ms": 10_000}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A worktree beside a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "tree"
    (folder / "lib").mkdir(parents=True)
    (folder / "note.txt").write_text("héllo")
    (folder / "lib" / "one.txt").write_text("one")
    return folder


# ---- what is granted


@scene
async def test_only_what_is_exposed_is_there(tree: Path) -> None:
    async with place(tree, fs=None) as at:
        here = await at.session()
        assert await at.run(here, "Object.keys(require('fs')).join()") == ",".join(modules()["fs"].exports())
        assert await at.run(here, "require('holdfast:fs') === require('fs')") is True
        for name in ("exec", "database", "holdfast:exec"):
            turn = await at.hf.executions.run(here, f"require('{name}')")
            assert turn.execution.error is not None
            assert turn.execution.error["message"].startswith(f"Invalid module: there is no module '{name}'")
            told = [event for event in await at.hf.executions.events(turn.execution.id) if event.type == "system"]
            assert [event.payload["code"] for event in told] == ["MODULE_NOT_GRANTED"]
        assert await at.fails(here, "hf.call('exec.run', '/bin/echo')") == "HOST_FUNCTION_NOT_FOUND"
        imported = "import fs, {existsSync} from 'holdfast:fs'; export default [fs.readFileSync('note.txt'), existsSync('no')]"
        assert value(await at.hf.executions.run_file(here, imported, "main.mjs")) == ["héllo", False]
        await at.hf.templates.remove_module("t", "fs")
        assert await at.fails(await at.session(), "require('fs')") == "MODULE_NOT_GRANTED"
        assert await at.run(here, "require('fs').existsSync('note.txt')") is True  # a session keeps its version


@scene
async def test_lua(tree: Path) -> None:
    async with place(tree, language="lua", fs={"write": True}, exec={"programs": ["/bin/echo"]}, database=None) as at:
        here = await at.session()
        assert (
            await at.run(here, "fs = require('fs') fs.writeFileSync('b', 'a\\255') return #fs.readFileSync('b', 'buffer')") == 2
        )
        assert await at.run(here, "return require('exec').run('/bin/echo', {'one', 'two'})") == "one two\n"
        assert await at.run(here, "return require('exec').run('/bin/echo', {})") == "\n"
        source = """
            local db = require('database')
            db.configure('sqlite3', ':memory:')
            db.exec('create table t (a, b)')
            local done = db.exec('insert into t values (?, ?)', {'x', 2})
            return {done.rowsAffected, db.query('select * from t where a = ?', 'x')[1].b}
        """
        assert await at.run(here, source) == [1, 2]
        assert await at.fails(here, "fs.readFileSync('../secret.txt')") == "INVALID_PATH"
        assert await at.fails(here, "require('exec').run('/bin/ls')") == "PROGRAM_NOT_ALLOWED"
        assert await at.run(here, "local ok, e = pcall(fs.readFileSync, 'no') return e.code") == "FILE_NOT_FOUND"


@pytest.mark.parametrize(
    ("module", "config", "field"),
    [
        ("fs", {"write": "yes"}, "config.write"),
        ("fs", {"root": "/"}, "config.root"),
        ("exec", {"programs": "/bin/echo"}, "config.programs"),
        ("exec", {"timeout_ms": 600_001}, "config.timeout_ms"),
        ("exec", {"timeout_ms": True}, "config.timeout_ms"),
        ("database", {"files": 1}, "config.files"),
    ],
)
@scene
async def test_a_bad_config_is_refused_when_it_is_given(module: str, config: dict[str, Any], field: str) -> None:
    async with place(None) as at:
        with refused("CAPABILITY_INVALID") as raised:
            await at.hf.templates.add_capability("t", "module", module, config=config)
        assert field in str(raised.error)


@scene
async def test_without_a_worktree_nothing_is_read_or_run() -> None:
    async with place(None, fs=None, exec=SHELL, database={"files": True}) as at:
        here = await at.session()
        assert await at.fails(here, "require('fs').readFileSync('note.txt')") == "WORKTREE_NOT_FOUND"
        assert await at.fails(here, "require('exec').run('/bin/sh')") == "WORKTREE_NOT_FOUND"
        assert await at.fails(here, "require('database').configure('sqlite3', 'a.db')") == "WORKTREE_NOT_FOUND"
        assert await at.run(here, "require('database').configure('sqlite3', ':memory:')") is None


class _Adder(NativeModule):
    name = "adder"
    description = "Adds."

    @effect(EffectKind.READ)
    def add(self, first: int, second: float = 1, *more: int | str) -> float:
        return first + second + len(more)

    def hidden(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((1, 2), 3.0),
        ((1.0,), 2.0),
        ((1, None, "a", 3), 4.0),
        ((), "first is missing"),
        ((None,), "first is missing"),
        (("1",), "first must be a whole number"),
        ((True,), "first must be a whole number"),
        ((1.5,), "first must be a whole number"),
        ((1 << 60,), "first must be a whole number"),
        ((1, 2, None), "argument 2 must be a whole number or text"),
        ((1, 2, "\ud800"), "argument 2 must be a whole number or text"),
    ],
)
def test_arguments_are_checked_by_the_signature(given: tuple[Any, ...], result: Any) -> None:
    made = NativeModules([Grant(_Adder, {})], Scope(uuid4(), uuid4(), None), Meter())
    ((name, call, kind),) = made.functions()
    assert (name, kind) == ("adder.add", EffectKind.READ)
    if isinstance(result, float):
        assert call(*given) == result
        return
    with pytest.raises(HostError, match=f"adder.add: {result}") as raised:
        call(*given)
    assert raised.value.script_code == "INVALID_ARGUMENT"


# ---- sessions that sleep, end, and go on


@scene
async def test_modules_are_there_when_a_session_starts(tree: Path) -> None:
    async with place(tree, fs=None) as at:
        await at.hf.templates.update(
            "t", startup=[StartupFile("start.js", "globalThis.note = require('fs').readFileSync('note.txt')", "session")]
        )
        assert await at.run(await at.session(), "note") == "héllo"
