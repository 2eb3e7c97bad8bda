"""Native modules: what each does, and above all what it refuses, in sessions that really run."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Limits, Settings, StartupFile, Worktree
from holdfast.capabilities import MODULES, NativeModule, NativeModules, Scope, effect
from holdfast.capabilities.native import Grant
from holdfast.domain import EffectKind
from holdfast.sandbox import HostError
from tests.acceptance.scenes import eventually, opened, refused, scene, value

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


class Place:
    """A template that exposes modules, each with a config, and its sessions in a worktree."""

    def __init__(self, hf: Holdfast, template: str, tree: Path | None) -> None:
        self.hf, self.template, self.tree = hf, template, tree

    async def session(self) -> Any:
        worktree = None if self.tree is None else Worktree("workspace", "deadbeef", str(self.tree))
        return (await self.hf.sessions.create(self.template, worktree=worktree)).id

    async def run(self, session: Any, source: str) -> Any:
        return value(await self.hf.executions.run(session, source))

    async def fails(self, session: Any, source: str) -> str:
        """The code of what a script raises. What it says is no news of the host."""
        turn = await self.hf.executions.run(session, source)
        assert turn.execution.status == "error", turn.execution.result
        assert turn.execution.error is not None
        for secret in ("Traceback", ".py", *([] if self.tree is None else [str(self.tree.parent)])):
            assert secret not in turn.execution.error["message"]
        return str(turn.execution.error["code"])


@contextlib.asynccontextmanager
async def place(
    tree: Path | None,
    *,
    language: str = "javascript",
    address: str = "memory:",
    settings: Settings | None = None,
    **modules: Any,
) -> AsyncIterator[Place]:
    limits = modules.pop("limits", None) or Limits()
    async with opened(address, settings=settings) as hf:
        made = await hf.templates.create("t", language=language, limits=limits)  # type: ignore[arg-type]
        for name, config in modules.items():
            await hf.templates.add_module(made.id, name)
            if config is not None:
                await hf.templates.add_capability(made.id, "module", name, enabled=True, config=config)
        yield Place(hf, "t", tree)


# ---- what is granted


@scene
async def test_only_what_is_exposed_is_there(tree: Path) -> None:
    async with place(tree, fs=None) as at:
        here = await at.session()
        assert await at.run(here, "Object.keys(require('fs')).join()") == ",".join(MODULES[0]["functions"])
        assert await at.run(here, "require('holdfast:fs') === require('fs')") is True
        for name in ("exec", "database", "holdfast:exec"):
            turn = await at.hf.executions.run(here, f"require('{name}')")
            assert turn.execution.error is not None
            assert turn.execution.error["message"] == f"Invalid module: there is no module '{name}'"
        assert await at.fails(here, "hf.call('exec.run', '/bin/echo')") == "HOST_FUNCTION_NOT_FOUND"
        imported = "import fs, {existsSync} from 'holdfast:fs'; export default [fs.readFileSync('note.txt'), existsSync('no')]"
        assert value(await at.hf.executions.run_file(here, imported, "main.mjs")) == ["héllo", False]
        await at.hf.templates.remove_module("t", "fs")
        assert await at.fails(await at.session(), "require('fs')") == "MODULE_NOT_FOUND"
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
        ("exec", {"programs": ["echo"]}, "config.programs"),
        ("exec", {"programs": "/bin/echo"}, "config.programs"),
        ("exec", {"timeout_ms": 60_001}, "config.timeout_ms"),
        ("exec", {"timeout_ms": True}, "config.timeout_ms"),
        ("database", {"files": 1}, "config.files"),
    ],
)
@scene
async def test_a_bad_config_is_refused_when_it_is_given(module: str, config: dict[str, Any], field: str) -> None:
    async with place(None) as at:
        with refused("VALIDATION_ERROR") as raised:
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
    modules = NativeModules([Grant(_Adder, {})], Scope(None, bool, lambda computing: 1.0))
    ((name, call, kind),) = modules.functions()
    assert (name, kind) == ("adder.add", EffectKind.READ)
    if isinstance(result, float):
        assert call(*given) == result
        return
    with pytest.raises(HostError, match=f"adder.add: {result}") as raised:
        call(*given)
    assert raised.value.script_code == "INVALID_ARGUMENT"


# ---- fs


@scene
async def test_fs_reads_the_worktree(tree: Path) -> None:
    (tree / "link").symlink_to("lib")
    (tree / "bytes").write_bytes(b"\xff\x00")
    (tree.parent / "other").symlink_to(tree)
    async with place(tree, fs=None) as at:
        here = await at.session()
        await at.run(here, "var fs = require('fs')")
        for path in (
            "note.txt",
            "./lib/../note.txt",
            tree / "note.txt",
            tree / "lib/../note.txt",
            tree.parent / "other/note.txt",
        ):
            assert await at.run(here, f"fs.readFileSync('{path}')") == "héllo"
        assert await at.run(here, "fs.readFileSync('link/one.txt', 'utf-8')") == "one"
        assert await at.run(here, "Array.from(fs.readFileSync('bytes', 'buffer'))") == [255, 0]
        for path in (".", tree):
            assert await at.run(here, f"fs.readdirSync('{path}')") == ["bytes", "lib", "link", "note.txt"]
        assert await at.run(here, "fs.readdirSync('link')") == ["one.txt"]
        seen = await at.run(here, "fs.statSync('note.txt')")
        assert seen == {"size": 6, "isFile": True, "isDirectory": False, "mtimeMs": seen["mtimeMs"]}
        assert abs(seen["mtimeMs"] / 1000 - time.time()) < 60
        assert (await at.run(here, "fs.statSync('lib')"))["isDirectory"] is True
        assert await at.run(here, "[fs.existsSync('lib'), fs.existsSync('lib/no'), fs.existsSync('note.txt/no')]") == [
            True,
            False,
            False,
        ]


@scene
async def test_fs_refuses_everything_else(tree: Path) -> None:
    (tree / "out").symlink_to(tree.parent)
    (tree / "secret").symlink_to("../secret.txt")
    (tree / "absolute").symlink_to(tree.parent / "secret.txt")
    (tree / "zero").symlink_to("/dev/zero")
    (tree / "gone").symlink_to("no")
    (tree / "bytes").write_bytes(b"\xff\x00")
    os.mkfifo(tree / "pipe")
    refusals = {
        "INVALID_PATH": [
            "..", "../secret.txt", "lib/../../secret.txt", "/etc/passwd", "/", str(tree.parent), f"{tree}/../secret.txt", f"{tree}-two/a",
            "out/secret.txt", "secret", "absolute", "zero", "pipe", "lib\\\\one.txt", "a\\0b", "x".rjust(5000, "x"), "/proc/self/environ",
        ],
        "FILE_NOT_FOUND": ["no", "lib/no", "note.txt/no", "", " ", "gone"],
        "INVALID_ARGUMENT": [],
    }  # fmt: skip
    async with place(tree, fs=None) as at:
        here = await at.session()
        source = "var fs = require('fs'); function code(f, ...a) { try { return 'ok ' + f(...a) } catch (e) { return e.code } }"
        await at.run(here, source)
        for code, paths in refusals.items():
            tried = "[" + ", ".join(f"'{path}'" for path in paths) + "]"
            for name in ("readFileSync", "readdirSync", "statSync"):
                assert await at.run(here, f"{tried}.map(p => code(fs.{name}, p))") == [code] * len(paths), name
        assert await at.run(here, "['out', 'secret', '../x', '/etc'].map(p => code(fs.existsSync, p))") == ["INVALID_PATH"] * 4
        assert await at.run(here, "[7, null, ['note.txt'], {}].map(p => code(fs.readFileSync, p))") == ["INVALID_ARGUMENT"] * 4
        assert await at.fails(here, "fs.readFileSync('lib')") == "INVALID_PATH"
        assert await at.fails(here, "fs.readFileSync('bytes')") == "NOT_TEXT"
        assert await at.fails(here, "fs.readFileSync('note.txt', 'latin1')") == "INVALID_ARGUMENT"
        assert await at.fails(here, "fs.writeFileSync('note.txt', '')") == "WRITE_NOT_ALLOWED"
    async with place(Path("/dev"), fs=None) as at:
        assert await at.fails(await at.session(), "require('fs').readFileSync('zero')") == "INVALID_PATH"
    assert (tree / "note.txt").read_text() == "héllo"


@scene
async def test_fs_writes_whole_files_in_the_worktree_only(tree: Path) -> None:
    (tree / "link").symlink_to("lib/one.txt")
    (tree / "new").symlink_to("lib/two.txt")
    (tree / "secret").symlink_to("../secret.txt")
    (tree / "out").symlink_to(tree.parent)
    (tree / "fixed").write_text("fixed")
    (tree / "fixed").chmod(0o444)
    (tree / "note.txt").chmod(0o640)
    os.mkfifo(tree / "pipe")
    async with place(tree, fs={"write": True}) as at:
        here = await at.session()
        await at.run(here, "var fs = require('fs')")
        for path in ("note.txt", "link", "new", tree / "lib/three.txt"):
            await at.run(here, f"fs.writeFileSync('{path}', 'wrötten')")
        await at.run(here, "fs.writeFileSync('bytes', new Uint8Array([0, 255]))")
        refusals = ["secret", "out/x", "../x", "/tmp/x", "pipe", "lib", ".", "fixed", "a.db-journal", "a.db-wal", "lib/x-shm"]
        for path in refusals:
            assert await at.fails(here, f"fs.writeFileSync('{path}', 'x')") == "INVALID_PATH", path
        assert await at.fails(here, "fs.writeFileSync('no/x', 'x')") == "FILE_NOT_FOUND"
        assert await at.fails(here, "fs.writeFileSync('x', {})") == "INVALID_ARGUMENT"
    for name in ("note.txt", "lib/one.txt", "lib/two.txt", "lib/three.txt"):
        assert (tree / name).read_text() == "wrötten"
    assert (tree / "bytes").read_bytes() == b"\x00\xff"
    assert (tree / "link").is_symlink()
    assert (tree / "note.txt").stat().st_mode & 0o777 == 0o640
    assert (tree.parent / "secret.txt").read_text() == "secret"
    assert sorted(os.listdir(tree.parent)) == ["secret.txt", "tree"]
    assert not [name for name in os.listdir(tree) if name.endswith(".new")]


# ---- exec


@scene
async def test_exec_runs_in_a_clean_place(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "secret")
    leak = os.open(tree / "note.txt", os.O_RDONLY)
    os.set_inheritable(leak, True)
    async with place(tree, exec=SHELL) as at:
        here = await at.session()
        await at.run(here, "var sh = text => require('exec').run('/bin/sh', ['-c', text])")
        assert await at.run(here, "sh('pwd; cat; echo no >&2')") == f"{tree}\nno\n"
        assert sorted((await at.run(here, "sh('env')")).split()) == [
            "LANG=C.UTF-8",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            f"PWD={tree}",
        ]
        assert (await at.run(here, "sh('ls /proc/$$/fd')")).split() == ["0", "1", "2"]
        assert await at.run(here, "sh('ulimit -c')") == "0\n"
        assert (
            await at.run(here, "require('exec').run('/bin/sh', ['-c', 'echo \"$1\"', '-', '$(id); `id` * é'])")
            == "$(id); `id` * é\n"
        )
        turn = await at.hf.executions.run(here, "sh('echo why; exit 3')")
        assert turn.execution.error is not None
        assert turn.execution.error["message"] == "the program ended with status 3: why"
        assert await at.fails(here, "sh('kill -9 $$')") == "PROGRAM_FAILED"
        assert await at.fails(here, "require('exec').run('/bin/sh', ['a\\0b'])") == "INVALID_ARGUMENT"
        assert await at.fails(here, "require('exec').run('/bin/sh', 'text')") == "INVALID_ARGUMENT"
        assert await at.fails(here, "require('exec').run('/bin/sh', ['x'.repeat(200000)])") == "INVALID_ARGUMENT"
        for program in ("sh", "/bin/../bin/sh", "/bin/ls", "/usr/bin/env", ""):
            assert await at.fails(here, f"require('exec').run('{program}', [])") == "PROGRAM_NOT_ALLOWED"
    os.close(leak)


@scene
async def test_exec_allows_only_what_is_a_program_outside_the_worktree(tree: Path) -> None:
    (tree / "tool").write_text("#!/bin/sh\necho mine")
    (tree / "tool").chmod(0o755)
    (tree.parent / "tool").symlink_to(tree / "tool")
    names = [tree / "tool", tree.parent / "tool", tree.parent / "secret.txt", "/bin", "/no/such/program"]
    async with place(tree, exec={"programs": [str(name) for name in names]}) as at:
        here = await at.session()
        for name in names:
            assert await at.fails(here, f"require('exec').run('{name}')") == "PROGRAM_NOT_ALLOWED"


@scene
async def test_exec_ends(tree: Path) -> None:
    async with place(tree, exec={**SHELL, "timeout_ms": 300}) as at:
        here = await at.session()
        await at.run(here, "var sh = text => require('exec').run('/bin/sh', ['-c', text])")
        began = time.monotonic()
        assert await at.fails(here, "sh('echo $$ > pid; sleep 30 & echo $! > child; wait')") == "PROGRAM_TIMEOUT"
        assert await at.fails(here, "sh('exec >&- 2>&-; sleep 30')") == "PROGRAM_TIMEOUT"
        assert await at.fails(here, "sh('yes')") == "OUTPUT_TOO_LARGE"
        assert await at.run(here, "sh('sleep 30 & echo $! > left; echo done')") == "done\n"
        assert time.monotonic() - began < 5
        for name in ("pid", "child", "left"):
            await eventually(lambda name=name: _is_gone(tree / name))


@scene
async def test_exec_ends_with_its_step(tree: Path) -> None:
    async with place(tree, exec={**SHELL, "timeout_ms": 60_000}, limits=Limits(wall_ms=400)) as at:
        here = await at.session()
        began = time.monotonic()
        turn = await at.hf.executions.run(here, "try { require('exec').run('/bin/sh', ['-c', 'sleep 30']) } catch {} for (;;);")
        assert turn.execution.status == "timeout"
        assert time.monotonic() - began < 5
    async with place(tree, exec=SHELL, limits=Limits(wall_ms=60_000)) as at:
        here = await at.session()
        source = "require('exec').run('/bin/sh', ['-c', 'echo $$ > pid2; sleep 30'])"
        turn = await at.hf.executions.run(here, source, background=True)
        await eventually(lambda: _exists(tree / "pid2"))
        began = time.monotonic()
        assert (await at.hf.executions.cancel(turn.execution.id)).status == "cancelled"
        assert time.monotonic() - began < 5
        await eventually(lambda: _is_gone(tree / "pid2"))
        assert await at.run(here, "1 + 1") == 2


async def _exists(path: Path) -> bool:
    return path.exists() and bool(path.read_text().strip())


async def _is_gone(path: Path) -> bool:
    """Whether the process whose number is in a file has ended: perhaps nobody has waited for it yet."""
    try:
        return Path(f"/proc/{path.read_text().strip()}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


# ---- database

DB = "var db = require('database'); db.configure('sqlite3', ':memory:');"


@scene
async def test_a_database(tree: Path) -> None:
    async with place(tree, database=None) as at:
        here, other = await at.session(), await at.session()
        await at.run(here, DB + "db.exec('create table t (id integer primary key, a, b)')")
        done = await at.run(here, "db.exec('insert into t (a, b) values (?, ?), (?, ?)', ['x', 1.5], null, true)")
        assert done == {"success": True, "rowsAffected": 2, "lastInsertId": 2}
        assert await at.run(here, "db.query('select * from t order by id')") == [
            {"id": 1, "a": "x", "b": 1.5},
            {"id": 2, "a": None, "b": 1},
        ]
        assert await at.run(here, "db.query('select * from t where id > ?', [5])") == []
        assert await at.run(here, "String(db.query('select ? as big', 9007199254740993n)[0].big)") == "9007199254740993"
        assert await at.run(here, "Array.from(db.query('select ? as b', new Uint8Array([1, 0]))[0].b)") == [1, 0]
        words = "trim('xaxx', 'x') as t, ltrim('xax', 'x') as l, rtrim('xax', 'x') as r, instr('abc', 'c') as i, replace('aba', 'a', 'cc') as p"
        assert await at.run(here, f'db.query("select {words}")[0]') == {"t": "a", "l": "ax", "r": "xa", "i": 3, "p": "ccbcc"}
        await at.run(here, "db.exec('begin'); db.exec('delete from t'); db.exec('rollback')")
        assert await at.run(here, "db.query('select count(*) as n from t')[0].n") == 2
        assert await at.fails(here, "db.query('select ?', {a: 1})") == "INVALID_ARGUMENT"
        assert await at.fails(here, "db.query('select ?, ?', 1)") == "SQL_ERROR"
        assert await at.fails(here, "db.exec('select 1; select 2')") == "SQL_ERROR"
        assert await at.fails(here, "db.configure('postgres', 'x')") == "DRIVER_UNKNOWN"
        # Another session of the same template has a database of its own, or none.
        assert await at.fails(other, "require('database').query('select 1')") == "DATABASE_NOT_CONFIGURED"
        assert await at.run(other, DB + "db.query('select count(*) as n from sqlite_schema')[0].n") == 0
        assert await at.run(here, "db.query('select count(*) as n from t')[0].n") == 2
        assert await at.fails(here, "db.close(); db.query('select 1')") == "DATABASE_NOT_CONFIGURED"


@scene
async def test_sql_reaches_nothing_else(tree: Path) -> None:
    beyond = [
        "attach '../x.db' as x", "attach ':memory:' as x", "detach main", "vacuum", "vacuum into 'x.db'", "select load_extension('x')",
        "create temp table x (a)", "create temp view x as select 1", "create virtual table x using fts5(a)", "pragma journal_mode = wal",
        "pragma temp_store_directory = '/tmp'", "pragma hard_heap_limit = 1", "pragma writable_schema = on", "pragma max_page_count = 999999",
        "pragma trusted_schema = on", "select * from pragma_database_list", "pragma database_list", "pragma mmap_size = 1000000",
    ]  # fmt: skip
    writes = [
        "insert into t values (1)", "delete from t", "update t set a = 1", "drop table t", "create table u (a)", "begin", "savepoint s",
        "insert into t values (1) returning a", "pragma user_version = 3", "pragma foreign_keys = on", "reindex", "analyze",
        "with x as (select 1) insert into t select * from x", "alter table t rename to u", "create index i on t (a)",
    ]  # fmt: skip
    async with place(tree, database=None) as at:
        here = await at.session()
        await at.run(here, DB + "db.exec('create table t (a unique)'); db.exec('insert into t values (1)')")
        await at.run(here, "var codes = (f, all) => all.map(s => { try { f(s); return 'ok' } catch (e) { return e.code } })")
        for name, statements in (("exec", beyond), ("query", beyond + writes)):
            assert await at.run(here, f"codes(db.{name}, {json.dumps(statements)})") == ["SQL_NOT_ALLOWED"] * len(statements)
        assert (
            await at.run(here, "codes(db.query, ['select readfile(1)', 'select writefile(1, 2)', 'selec', 'select * from no'])")
            == ["SQL_ERROR"] * 4
        )
        assert await at.run(here, "db.exec('insert into t values (2)'); codes(db.query, ['insert into t values (2)'])") == [
            "SQL_NOT_ALLOWED"
        ]
        assert await at.run(here, "db.query('select count(*) as n from t')[0].n") == 2
        for dsn in ("", "/tmp/x.db", "file:x.db", "file::memory:?cache=shared", f"{tree}/x.db"):
            assert await at.fails(here, f"db.configure('sqlite3', '{dsn}')") == "INVALID_PATH"
        assert await at.fails(here, "db.configure('sqlite3', 'x.db')") == "FILES_NOT_ALLOWED"
    assert sorted(os.listdir(tree)) == ["lib", "note.txt"]


@scene
async def test_sql_has_limits(tree: Path) -> None:
    endless = "with recursive c(x) as (select 1 union all select x + 1 from c) select {} from c"
    async with place(tree, database=None, limits=Limits(cpu_ms=300, wall_ms=20_000)) as at:
        here = await at.session()
        await at.run(here, DB + "db.exec('create table t (a)')")
        began = time.monotonic()
        assert await at.fails(here, f"db.query('{endless.format('count(*)')}')") == "SQL_TIMEOUT"
        assert time.monotonic() - began < 5
        assert await at.fails(here, f"db.query('{endless.format('x')}')") == "RESULT_TOO_LARGE"
        assert await at.fails(here, f"db.query('{endless.format('zeroblob(1000000)')}')") == "RESULT_TOO_LARGE"
        for large in (
            "zeroblob(2000000)",
            "hex(zeroblob(900000))",
            "replace(hex(zeroblob(9999)), 0, hex(zeroblob(999)))",
        ):
            assert await at.fails(here, f'db.query("select {large}")') == "SQL_ERROR"
        assert await at.fails(here, "db.query('select 1 like ?', '%'.repeat(300))") == "SQL_ERROR"
        half = "hex(zeroblob(240000))"  # quadratic, where a length is the other's
        began = time.monotonic()
        assert await at.run(here, f"db.query(\"select instr({half} || {half}, {half} || 'x') as i\")[0].i") == 0
        assert time.monotonic() - began < 2
        big = "with recursive c(x) as (select 1 union all select x + 1 from c limit 70) insert into t select zeroblob(1000000) from c"
        assert await at.fails(here, f"db.exec('{big}')") == "SQL_ERROR"  # more than 64 MB


@scene
async def test_databases_in_files(tree: Path) -> None:
    (tree / "out.db").symlink_to("../out.db")
    os.mkfifo(tree / "pipe")
    (tree / "evil.db-journal").write_bytes(b"x" * 100 + bytes.fromhex("d9d505f920a163d7"))
    async with place(tree, database={"files": True}, fs={"write": True}) as at:
        here, other = await at.session(), await at.session()
        await at.run(here, "var db = require('database'); db.configure('sqlite3', 'lib/a.db'); db.exec('create table t (a)')")
        await at.run(here, "db.exec('insert into t values (7)')")
        assert await at.run(
            other, "var db = require('database'); db.configure('sqlite3', 'lib/a.db'); db.query('select a from t')"
        ) == [{"a": 7}]
        for dsn in ("out.db", "../x.db", "pipe", "lib", "evil.db", "a.db-wal"):
            assert await at.fails(here, f"db.configure('sqlite3', '{dsn}')") == "INVALID_PATH", dsn
        assert await at.run(here, "db.query('select a from t')") == [{"a": 7}]  # what it had before
        assert await at.fails(here, "db.configure('sqlite3', 'note.txt'); db.query('select * from t')") == "SQL_ERROR"
    assert not (tree.parent / "out.db").exists()


# ---- sessions that sleep, end, and go on


@scene
async def test_a_database_in_memory_ends_when_the_session_leaves_it(tree: Path) -> None:
    async with place(tree, database=None, settings=Settings(resident=0)) as at:
        here = await at.session()
        assert await at.run(here, DB + "db.exec('create table t (a)'); db.query('select * from t')") == []

        async def is_gone() -> bool:
            return (await at.hf.summary())["resident"] == 0

        await eventually(is_gone)
        assert await at.fails(here, "db.query('select * from t')") == "DATABASE_NOT_CONFIGURED"
        assert await at.run(here, "db.configure('sqlite3', ':memory:'); db.query('select 1 as one')") == [{"one": 1}]


@scene
async def test_modules_are_there_when_a_session_starts(tree: Path) -> None:
    async with place(tree, fs=None) as at:
        await at.hf.templates.update(
            "t", startup=[StartupFile("start.js", "globalThis.note = require('fs').readFileSync('note.txt')", "session")]
        )
        assert await at.run(await at.session(), "note") == "héllo"


_DIES = """
import asyncio, sys
from holdfast import Holdfast, Settings, Worktree
async def main():
    async with Holdfast.open(sys.argv[1], settings=Settings(lease_ms=300)) as hf:
        await hf.templates.create("t")
        for name, config in (("exec", {"programs": ["/bin/sh"]}), ("database", {})):
            await hf.templates.add_module("t", name)
            await hf.templates.add_capability("t", "module", name, enabled=True, config=config)
        made = await hf.sessions.create("t", worktree=Worktree("workspace", "deadbeef", sys.argv[2]))
        await hf.executions.run(made.id, sys.argv[3])
asyncio.run(main())
"""


@scene
async def test_a_program_that_was_interrupted_is_not_run_again(tree: Path, tmp_path: Path) -> None:
    """Its process is killed while it runs, by the program itself."""
    source = """
        var db = require('database'), r = [];
        const attempt = f => { try { r.push(f()) } catch (e) { r.push(e.code) } };
        db.configure('sqlite3', ':memory:');
        db.exec('create table t (a)');
        attempt(() => require('exec').run('/bin/sh', ['-c', 'echo ran >> world; kill -9 $PPID; sleep 1']));
        attempt(() => db.query('select * from t'));
        attempt(() => require('exec').run('/bin/sh', ['-c', 'echo again >> world']));
        r
    """
    address = f"sqlite:///{tmp_path}/work.db"
    command = [sys.executable, "-c", _DIES, address, str(tree), source]
    died = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    async with opened(address, settings=Settings(lease_ms=300)) as hf:
        execution = (await hf.executions.list(limit=1)).items[0]
        turn = await hf.executions.wait(execution.id, timeout=20)
        assert value(turn) == ["EFFECT_UNCERTAIN", "DATABASE_NOT_CONFIGURED", ""]
    assert (tree / "world").read_text().split() == ["ran", "again"]
