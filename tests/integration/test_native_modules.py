"""Native modules: what each does, and above all what it refuses, in sessions that really run."""

import json
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import Limits, Settings, StartupFile
from holdfast.capabilities import Meter, NativeModule, NativeModules, Scope, effect, modules
from holdfast.capabilities.native import Grant
from holdfast.domain import EffectKind
from holdfast.sandbox import HostError
from tests.acceptance.scenes import eventually, refused, scene, value
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
    made = NativeModules([Grant(_Adder, {})], Scope(uuid4(), uuid4(), None), Meter())
    ((name, call, kind),) = made.functions()
    assert (name, kind) == ("adder.add", EffectKind.READ)
    if isinstance(result, float):
        assert call(*given) == result
        return
    with pytest.raises(HostError, match=f"adder.add: {result}") as raised:
        call(*given)
    assert raised.value.script_code == "INVALID_ARGUMENT"


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
