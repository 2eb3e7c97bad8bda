"""The module `database`: SQLite and a real PostgreSQL, in sessions that really run."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Limits, Settings
from holdfast.capabilities._secrets import shown_config
from holdfast.capabilities.database.module import Database
from holdfast.capabilities.database.postgresql_rules import check
from holdfast.domain import InvalidValue
from holdfast.sandbox import HostError
from tests import postgres
from tests.acceptance.scenes import eventually, opened, scene, value
from tests.modules import Place, place

MEMORY = "var db = require('database'); db.configure('sqlite3', ':memory:');"
CODES = "var codes = (f, all) => all.map(s => { try { f(s); return 'ok' } catch (e) { return e.code } });"
SECRET = "hush-hush"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "lib").mkdir(parents=True)
    (folder / "note.txt").write_text("no database")
    return folder


class Server:
    """A schema of the server, a role that may use it and nothing else, and configs that name both."""

    def __init__(self) -> None:
        self.root = postgres.fresh_schema()
        self.schema = self.root.rpartition("%3D")[2]
        self.role = f"role_{self.schema}"
        postgres.server().execute(f"CREATE ROLE {self.role} LOGIN PASSWORD '{SECRET}'")
        postgres.server().execute(f"GRANT ALL ON SCHEMA {self.schema} TO {self.role}")
        self.address = self.root.replace("postgres@", f"{self.role}:{SECRET}@")

    def config(self, **more: Any) -> dict[str, Any]:
        named = {"main": self.address, "root": self.root, "gone": f"postgresql://u:{SECRET}@127.0.0.1:1/x"}
        connections: dict[str, Any] = {name: {"driver": "postgresql", "dsn": dsn} for name, dsn in named.items()}
        connections["unset"] = {"driver": "postgresql", "dsn_env": "TEST_NO_SUCH_VARIABLE"}
        return {"connections": connections, **more}

    def execute(self, statement: str) -> None:
        postgres.server().execute(f"SET search_path = {self.schema}; {statement}")

    def sleeps(self, wanted: bool) -> None:
        """Waits until one of its role's sessions sleeps, or none does."""
        until = time.monotonic() + 30
        look = f"SELECT FROM pg_stat_activity WHERE usename = '{self.role}' AND state = 'active' AND query LIKE '%pg_sleep%'"
        with psycopg.connect(postgres.server().address, autocommit=True) as connection:
            while bool(connection.execute(look.encode()).fetchall()) is not wanted:
                assert time.monotonic() < until
                time.sleep(0.02)

    def end_connections(self) -> None:
        postgres.server().execute(
            f"SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE usename = '{self.role}'"
        )


@pytest.fixture
def server() -> Server:
    return Server()


async def connected(at: Place) -> Any:
    here = await at.session()
    await at.run(here, CODES + "var db = require('database'); db.configure('postgresql', 'main')")
    return here


# ---- what it does


@scene
async def test_sqlite(tree: Path) -> None:
    async with place(tree, database=None) as at:
        here, other = await at.session(), await at.session()
        await at.run(here, MEMORY + "db.exec('create table t (id integer primary key, a, b)')")
        done = await at.run(here, "db.exec('insert into t (a, b) values (?, ?), (?, ?)', ['x', 1.5], null, true)")
        assert done == {"success": True, "rowsAffected": 2, "lastInsertId": 2}
        assert await at.run(here, "db.query('select * from t order by id')") == [
            {"id": 1, "a": "x", "b": 1.5},
            {"id": 2, "a": None, "b": 1},
        ]
        assert await at.run(here, "db.query('select * from t where id > ?', [5])") == []
        assert await at.run(here, "String(db.query('select ? as big', 9007199254740993n)[0].big)") == "9007199254740993"
        assert await at.run(here, "Array.from(db.query('select ? as b', new Uint8Array([1, 0]))[0].b)") == [1, 0]
        words = "trim('xaxx', 'x') as t, ltrim('xax', 'x') as l, rtrim('xax', 'x') as r, instr('abc', 'c') as i, replace('aba', 'a', 'cc') as p, printf('%05.1f %s%%', 2.5, 'a') as f, hex(unhex('41-42', '-')) as h"
        found = {"t": "a", "l": "ax", "r": "xa", "i": 3, "p": "ccbcc", "f": "002.5 a%", "h": "4142"}
        assert await at.run(here, f'db.query("select {words}")[0]') == found
        assert (await at.run(here, "db.exec('delete from t where id = 2 returning id, a')"))["rows"] == [{"id": 2, "a": None}]
        assert await at.fails(here, "db.query('select ?', {a: 1})") == "INVALID_ARGUMENT"
        assert await at.fails(here, "db.query('select ?, ?', 1)") == "SQL_ERROR"
        assert await at.fails(here, "db.exec('select 1; select 2')") == "SQL_ERROR"
        assert await at.fails(here, "db.configure('oracle', 'x')") == "DRIVER_UNKNOWN"
        # Another session of the same template has a database of its own, or none.
        assert await at.fails(other, "require('database').query('select 1')") == "DATABASE_NOT_CONFIGURED"
        assert await at.run(other, MEMORY + "db.query('select count(*) as n from sqlite_schema')[0].n") == 0
        assert await at.run(here, "db.query('select count(*) as n from t')[0].n") == 1
        assert await at.fails(here, "db.close(); db.query('select 1')") == "DATABASE_NOT_CONFIGURED"


@scene
async def test_postgresql(server: Server) -> None:
    async with place(None, database=server.config()) as at:
        here = await connected(at)
        await at.run(here, "db.exec('create table t (id serial primary key, a text, j jsonb)')")
        done = await at.run(
            here, "db.exec('insert into t (a, j) values ($1, $2), ($3, $4) returning id', ['x', '{\"k\": [1]}', null, null])"
        )
        assert done == {"success": True, "rowsAffected": 2, "lastInsertId": 0, "rows": [{"id": 1}, {"id": 2}]}
        assert await at.run(here, "db.query('select * from t where id = $1', 1)") == [{"id": 1, "a": "x", "j": {"k": [1]}}]
        assert await at.run(here, "db.exec('update t set a = $1', 'é')") == {
            "success": True,
            "rowsAffected": 2,
            "lastInsertId": 0,
        }
        given = "$1 + 1 as i, $2 || a as t, $3 as b, $4 as f, 1.5 as n, date '2026-01-31' as d, array[1, 2] as l, null as z"
        assert await at.run(here, f'db.query("select {given} from t limit 1", 70000, "+", true, 2.5)') == [
            {"i": 70001, "t": "+é", "b": True, "f": 2.5, "n": "1.5", "d": "2026-01-31", "l": "{1,2}", "z": None}
        ]
        assert await at.run(here, "Array.from(db.query('select $1::bytea as b', new Uint8Array([0, 255]))[0].b)") == [0, 255]
        assert await at.run(here, "String(db.query('select $1::int8 as b', 9007199254740993n)[0].b)") == "9007199254740993"
        for wrong, code in (("select nope", "SQL_ERROR"), ("select $1::int", "SQL_ERROR"), ("selec", "SQL_NOT_ALLOWED")):
            assert await at.fails(here, f"db.query('{wrong}')") == code
        assert await at.fails(here, "db.query('select $1', 'a\\0b')") == "INVALID_ARGUMENT"
        # Connections that the config does not name, and such as cannot be made. Nothing is said of where they lead.
        for name, code in {
            "root": "ROLE_NOT_ALLOWED",
            "gone": "DATABASE_UNAVAILABLE",
            "unset": "DATABASE_UNAVAILABLE",
            "other": "CONNECTION_NOT_GRANTED",
            server.address: "CONNECTION_NOT_GRANTED",
        }.items():
            turn = await at.hf.executions.run(here, f"db.configure('postgresql', {json.dumps(name)})")
            assert turn.execution.error is not None
            assert turn.execution.error["code"] == code
            assert "127.0.0.1" not in str(turn.execution.error) + str(turn.execution.result)
            if name != server.address:
                assert SECRET not in repr(await at.hf.executions.events(turn.execution.id))
        assert await at.run(here, "db.query('select 1 as one')") == [{"one": 1}]  # what it had before
        server.end_connections()
        assert await at.run(here, "db.query('select 1 as one')") == [{"one": 1}]


_TRANSACTIONS = """
    var db = require('database'), n = () => db.query('select count(*) as n from t')[0].n, said = [];
    db.configure(%s);
    db.exec('create table t (a int)');
    const add = () => db.exec('insert into t values (1)');
    const code = f => { try { f(); return 'ok' } catch (e) { return e.code || e.message } };
    said.push(db.transaction(d => { d.exec('insert into t values (1)'); add(); return n() }), n());
    said.push(code(() => db.transaction(() => { add(); throw new Error('mine') })), n());
    said.push(code(() => db.commit()), code(() => db.rollback()));
    db.begin(); add();
    said.push(n(), code(() => db.begin()), code(() => db.query('select nope')), n());
    db.rollback();
    said.push(n());
    db.exec('begin'); add(); add(); db.exec('commit');
    db.exec('begin'); db.exec('savepoint s'); add(); db.exec('rollback to savepoint s'); db.exec('rollback');
    said.push(n());
    const slow = db.transaction(async d => { add(); await null; return n() });
    slow.then(v => db.transaction(async () => { add(); throw new Error(String(v)) })).catch(e => [...said, e.message, n()])
"""


@scene
async def test_transactions(tree: Path, server: Server) -> None:
    async with place(tree, database=server.config(files=True)) as at:
        for where in ("'sqlite3', ':memory:'", "'sqlite3', 'a.db'", "'postgresql', 'main'"):
            source = f"await (async () => {{ {_TRANSACTIONS.replace('slow.then', 'return slow.then') % where} }})()"
            expected = [2, 2, "mine", 2, "TRANSACTION_NOT_OPEN", "ok", 3, "TRANSACTION_OPEN", "SQL_ERROR", 3, 2, 4, "5", 5]
            assert await at.run(await at.session(), source) == expected, where
        here = await connected(at)
        # One of which a statement has failed is not committed, whatever the script makes of it.
        await at.run(here, "db.begin(); db.exec('insert into t values (1)'); codes(db.exec, ['insert into nope values (1)'])")
        assert await at.fails(here, "db.commit()") == "TRANSACTION_FAILED"
        assert await at.run(here, "db.query('select count(*) as n from t')[0].n") == 5
        # A connection that ends takes its transaction with it, which stays an error until the script has ended it.
        await at.run(here, "db.begin(); db.exec('delete from t')")
        server.end_connections()
        for _ in range(2):
            assert await at.fails(here, "db.exec('delete from t')") == "TRANSACTION_LOST"
        assert await at.run(here, "db.rollback(); db.query('select count(*) as n from t')[0].n") == 5


@scene
async def test_lua(tree: Path) -> None:
    async with place(tree, language="lua", database={"files": ["a.db"]}) as at:
        here = await at.session()
        await at.run(here, "db = require('database') db.configure('sqlite3', 'a.db') db.exec('create table t (a, b)')")
        assert await at.run(here, "return db.exec('insert into t values (?, ?) returning b', nil, 2).rows[1].b") == 2
        source = "return db.transaction(function(d) d.exec('insert into t values (?, ?)', {3, 4}) return #db.query('select * from t') end)"
        assert await at.run(here, source) == 2
        source = "local ok, e = pcall(db.transaction, function() db.exec('delete from t') error('mine', 0) end) return {e, #db.query('select * from t')}"
        assert await at.run(here, source) == ["mine", 2]
        assert await at.fails(here, "db.commit()") == "TRANSACTION_NOT_OPEN"
        assert await at.fails(here, "db.configure('sqlite3', 'b.db')") == "FILES_NOT_ALLOWED"
        assert await at.fails(here, "db.close() db.query('select 1')") == "DATABASE_NOT_CONFIGURED"


# ---- what it refuses


@scene
async def test_sqlite_reaches_nothing_else(tree: Path) -> None:
    beyond = [
        "attach '../x.db' as x", "attach ':memory:' as x", "detach main", "vacuum", "vacuum into 'x.db'", "select load_extension('x')",
        "create temp table x (a)", "create temp view x as select 1", "create virtual table x using fts5(a)", "pragma journal_mode = wal",
        "pragma temp_store_directory = '/tmp'", "pragma hard_heap_limit = 1", "pragma writable_schema = on", "pragma max_page_count = 999999",
        "pragma trusted_schema = on", "select * from pragma_database_list", "pragma database_list", "pragma mmap_size = 1000000",
        "/**/ attach 'x' as x", "-- a\natt\u0061ch 'x' as x",
    ]  # fmt: skip
    writes = [
        "insert into t values (1)", "delete from t", "update t set a = 1", "drop table t", "create table u (a)", "begin", "savepoint s",
        "insert into t values (1) returning a", "pragma user_version = 3", "pragma foreign_keys = on", "reindex", "analyze", "commit",
        "with x as (select 1) insert into t select * from x", "alter table t rename to u", "create index i on t (a)",
    ]  # fmt: skip
    async with place(tree, database=None) as at:
        here = await at.session()
        await at.run(here, MEMORY + CODES + "db.exec('create table t (a unique)'); db.exec('insert into t values (1)')")
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
        # What the glue does not let through is refused by the host itself.
        assert await at.fails(here, "hf.call('database.exec', ['sqlite3', 'x.db', '', ''], 'select 1')") == "FILES_NOT_ALLOWED"
        assert (
            await at.fails(here, "hf.call('database.execHeld', ['sqlite3', 'x.db', '', 'x'], 'commit')") == "INVALID_ARGUMENT"
        )
    assert sorted(os.listdir(tree)) == ["lib", "note.txt"]


@scene
async def test_postgresql_reaches_nothing_else(server: Server) -> None:
    writes_by_a_function = "returns int language plpgsql as $$ begin {} insert into t values ('x'); return 1; end $$"
    server.execute(f"create function side() {writes_by_a_function.format('')}")
    unlock = "perform set_config('transaction_read_only', 'off', true);"
    server.execute(f"create function sly() {writes_by_a_function.format(unlock)}")
    beyond = [
        "copy t to program 'id'", "copy t from '/etc/passwd'", "copy (select 1) to stdout", "select pg_read_file('/etc/passwd')",
        "select pg_read_file/**/('x')", "select \"pg_read_file\"('x')", "select U&\"pg\\005fread_file\"('x')", "select * from pg_ls_dir('/')",
        "select lo_import('/etc/passwd')", "select lo_export(1, '/tmp/x')", "select dblink_connect('host=x')", "create extension dblink",
        "set role postgres", "set session authorization postgres", "reset role", "set statement_timeout = 0", "discard all",
        "select set_config('statement_timeout', '0', false)", "do $$ begin perform 1; end $$", "call side()", "load 'x'",
        "create function f() returns int language sql as 'select 1'", "create or replace function f() returns int language sql as 'x'",
        "create temp table x (a int)", "create role x", "alter role postgres nosuperuser", "alter system set fsync = off", "grant all on t to public",
        "prepare p as select 1", "prepare transaction 'x'", "commit prepared 'x'", "commit and chain", "listen x", "vacuum", "select pg_terminate_backend(1)",
        "select query from pg_stat_activity", "select query_to_xml('select 1', true, true, '')", "select ts_stat('select 1')",
        "select pg_advisory_lock(1)", "select rolpassword from pg_authid", "select current_setting('data_directory')", "\\! id", "", ";",
        "select E'a'\n'\\'' || pg_read_file('x') || ''", "select e'\\'' || pg_read_file('x')", "select $a$ $b$ $a$ || pg_read_file('x')",
        "/* /* */ select 1 */ set role postgres", "--\rset role postgres",
    ]  # fmt: skip
    writes = [
        "commit", "/**/ commit", "rollback", "begin", "savepoint s", "release savepoint holdfast_query", "insert into t values ('x') returning a",
        "with x as (insert into t values ('x') returning a) select * from x", "explain analyze insert into t values ('x')", "select side()",
        "select nextval('s')", "select a into u from t", "select a from t for update", "truncate t", "drop table t", "lock table t", "commit; drop table t",
    ]  # fmt: skip
    several = ["select 1; drop table t", "select 1; commit; drop table t", "select 1 /* ; */; drop table t", "select sly()"]
    async with place(None, database=server.config()) as at:
        here = await connected(at)
        await at.run(here, "db.exec('create table t (a text)'); db.exec('create sequence s')")
        for statements, code in ((beyond + writes, "SQL_NOT_ALLOWED"), (several, "SQL_ERROR")):
            for begin, end in (("", ""), ("db.begin();", "db.rollback();")):
                source = f"{begin} var said = codes(db.query, {json.dumps(statements)}); {end} said"
                assert await at.run(here, source) == [code] * len(statements)
        assert await at.run(here, f"codes(db.exec, {json.dumps(beyond)})") == ["SQL_NOT_ALLOWED"] * len(beyond)
        assert await at.run(here, f"codes(db.exec, {json.dumps(several[:3])})") == ["SQL_ERROR"] * 3
        assert await at.run(here, "db.query('table t')") == []
        assert await at.run(here, "db.query('select current_user as a')[0].a") == server.role
        turn = await at.hf.executions.run(here, "db.query('set role postgres')")
        told = [event.payload for event in await at.hf.executions.events(turn.execution.id) if event.type == "system"]
        assert [(payload["code"], payload["call"]) for payload in told] == [("SQL_NOT_ALLOWED", "database.query")]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("(select 1)", "select"),
        ('-- a\n/* b /* c */ d */ INSERT into t values (\'copy\', $$pg_read_file$$, "a""b")', "insert"),
        ("select 'it''s pg_read_file', E'\\'pg_read_file', U&'a\\'", "select"),
        ("create unique index i on t (a)", "create"),
        ("create or replace view v as select 1", "create"),
        ("drop table if exists t", "drop"),
        ("alter materialized view v rename to w", "alter"),
        ("select lo_price from lineorder", "select"),
        ("select 'open", "SQL_ERROR"),
        ("select 1 /* /* */", "SQL_ERROR"),
        ("select $a$ $b$", "SQL_ERROR"),
        ('"select" 1', "SQL_NOT_ALLOWED"),
        ("'select'", "SQL_NOT_ALLOWED"),
        ("create function", "SQL_NOT_ALLOWED"),
        ("drop owned by x", "SQL_NOT_ALLOWED"),
        ("select 1\0", "INVALID_ARGUMENT"),
        ("select " + "(" * 50_000 + "'" * 49_999, "SQL_ERROR"),
        ("(" * 300_000, "INVALID_ARGUMENT"),
    ],
)
def test_what_a_statement_is(sql: str, found: str) -> None:
    try:
        said = check(sql, reads=False).word
    except HostError as error:
        said = error.script_code
    assert said == found


@scene
async def test_files(tree: Path) -> None:
    (tree / "out.db").symlink_to("../out.db")
    os.mkfifo(tree / "pipe")
    (tree / "evil.db-journal").write_bytes(b"x" * 100 + bytes.fromhex("d9d505f920a163d7"))
    (tree / "wal.db-wal").symlink_to("../out.db-wal")
    (tree.parent / "theirs.db").touch()
    os.link(tree.parent / "theirs.db", tree / "hard.db")
    async with place(tree, database={"files": True}) as at:
        here, other = await at.session(), await at.session()
        await at.run(here, "var db = require('database'); db.configure('sqlite3', 'lib/a.db'); db.exec('create table t (a)')")
        await at.run(here, "db.exec('insert into t values (7)')")
        assert await at.run(
            other, "var db = require('database'); db.configure('sqlite3', 'lib/a.db'); db.query('select a from t')"
        ) == [{"a": 7}]
        for dsn in ("out.db", "../x.db", "pipe", "lib", "evil.db", "wal.db", "hard.db", "a.db-wal", "a.db-SHM"):
            assert await at.fails(here, f"db.configure('sqlite3', '{dsn}')") == "INVALID_PATH", dsn
        assert await at.fails(here, "db.configure('sqlite3', 'note.txt')") == "SQL_ERROR"
        assert await at.run(here, "db.query('select a from t')") == [{"a": 7}]  # what it had before
    assert sorted(os.listdir(tree.parent)) == ["theirs.db", "tree"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"files": 1}, "config.files"),
        ({"files": ["../a"]}, "config.files[0]"),
        ({"max_rows": 0}, "config.max_rows"),
        ({"max_bytes": 1 << 40}, "config.max_bytes"),
        ({"connections": {"a b": {"driver": "postgresql", "dsn": "postgresql://h/d"}}}, "config.connections"),
        ({"connections": {"a": {"driver": "mysql", "dsn": "x"}}}, "config.connections.a.driver"),
        ({"connections": {"a": {"driver": "postgresql"}}}, "config.connections.a.dsn"),
        ({"connections": {"a": {"driver": "postgresql", "dsn": f"no {SECRET}"}}}, "config.connections.a.dsn"),
        ({"connections": {"a": {"driver": "postgresql", "dsn_env": "A B"}}}, "config.connections.a.dsn_env"),
        ({"connections": {"a": {"driver": "postgresql", "dsn_env": "HOLDFAST_STORE"}}}, "config.connections.a.dsn_env"),
    ],
)
def test_a_bad_config_is_refused(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        Database.read_config(config)
    assert raised.value.details["field"] == field
    assert SECRET not in str(raised.value)


def test_an_address_is_not_shown() -> None:
    given = {"connections": {"a": {"driver": "postgresql", "dsn": f"postgresql://u:{SECRET}@h/d"}}}
    assert SECRET not in repr(shown_config(Database, given))


# ---- limits


@scene
async def test_sqlite_has_limits(tree: Path) -> None:
    endless = "with recursive c(x) as (select 1 union all select x + 1 from c) select {} from c"
    async with place(tree, database=None, limits=Limits(cpu_ms=200, wall_ms=20_000)) as at:
        assert await at.fails(await at.session(), f"{MEMORY} db.query('{endless.format('count(*)')}')") == "SQL_TIMEOUT"
    async with place(tree, database={"max_rows": 100, "timeout_ms": 30_000}, limits=Limits(wall_ms=60_000)) as at:
        here = await at.session()
        await at.run(here, MEMORY + "db.exec('create table t (a)')")
        for column in ("x", "zeroblob(1000000)", f'x as "{"y" * 100_000}"'):
            assert await at.fails(here, f"db.query('{endless.format(column)}')") == "RESULT_TOO_LARGE"
        for large in (
            "zeroblob(2000000)",
            "hex(zeroblob(900000))",
            "replace(hex(zeroblob(9999)), 0, hex(zeroblob(999)))",
        ):
            assert await at.fails(here, f'db.query("select {large}")') == "SQL_ERROR"
        assert await at.fails(here, "db.query('select 1 like ?', '%'.repeat(300))") == "SQL_ERROR"
        half = "hex(zeroblob(240000))"  # quadratic, where a length is the other's
        assert await at.run(here, f"db.query(\"select instr({half} || {half}, {half} || 'x') as i\")[0].i") == 0
        many = "with recursive c(x) as (select 1 union all select x + 1 from c limit {}) insert into t select {} from c"
        assert await at.fails(here, f"db.exec('{many.format(70, 'zeroblob(1000000)')}')") == "SQL_ERROR"  # more than 64 MB
        assert await at.fails(here, f"db.exec('{many.format(101, 'x')} returning a')") == "RESULT_TOO_LARGE"
        assert await at.run(here, "db.query('select count(*) as n from t')[0].n") == 0


@scene
async def test_postgresql_has_limits(server: Server) -> None:
    config = server.config(max_rows=100, max_bytes=100_000, timeout_ms=2_000)
    async with place(None, database=config, limits=Limits(wall_ms=30_000)) as at:
        here = await connected(at)
        await at.run(here, "db.exec('create table t (a int)'); db.begin(); db.exec('insert into t values (1)')")
        assert await at.fails(here, "db.query('select generate_series(1, 1000000)')") == "RESULT_TOO_LARGE"
        assert await at.run(here, "db.commit(); db.query('select count(*) as n from t')[0].n") == 1
        names = ", ".join(f'1 as "{str(at).rjust(60, "x")}"' for at in range(1_000))
        source = f"db.query({json.dumps(f'select {names} from generate_series(1, 3)')})"
        assert await at.fails(here, source) == "RESULT_TOO_LARGE"
        # A row that is larger than what may be received is not waited for, and what would come with it is undone.
        assert await at.fails(here, "db.query(\"select repeat('x', 5000000)\")") == "RESULT_TOO_LARGE"
        many = "insert into t select generate_series(1, 101) returning a"
        assert await at.fails(here, f"db.exec('{many}')") == "RESULT_TOO_LARGE"
        assert await at.fails(here, "db.exec('insert into t select 2 from pg_sleep(60)')") == "SQL_TIMEOUT"
        assert await at.run(here, "db.query('select count(*) as n from t')[0].n") == 1
        turn = await at.hf.executions.run(here, "db.query('select pg_sleep(60)')", background=True)
        await asyncio.to_thread(server.sleeps, True)
        assert (await at.hf.executions.cancel(turn.execution.id)).status == "cancelled"
        await asyncio.to_thread(server.sleeps, False)
        assert await at.run(here, "db.query('select 1 as one')") == [{"one": 1}]


# ---- sessions that sleep, end, and go on


@scene
async def test_connections_come_back_where_nothing_is_lost(tree: Path, server: Server) -> None:
    async with place(tree, database=server.config(files=True), settings=Settings(resident=0)) as at:
        here = await at.session()

        async def is_gone() -> bool:
            return bool((await at.hf.summary())["resident"] == 0)

        async def asleep(source: str, session: Any = here) -> Any:
            await eventually(is_gone)
            return await at.run(session, CODES + source)

        await asleep("var db = require('database'); db.configure('sqlite3', ':memory:'); db.exec('create table t (a int)')")
        for _ in range(2):
            assert await asleep("codes(db.query, ['select * from t'])") == ["DATABASE_LOST"]
        for where in ("'sqlite3', 'a.db'", "'postgresql', 'main'"):
            await asleep(f"db.configure({where}); db.exec('create table t (a int)')")
            await asleep("db.exec('insert into t values (1)'); db.begin(); db.exec('insert into t values (2)')")
            said = (
                "[...codes(db.exec, ['insert into t values (3)']), ...codes(db.query, ['select 1']), ...codes(db.commit, [0])]"
            )
            assert await asleep(said) == ["TRANSACTION_LOST"] * 3
            assert await asleep("db.query('select a from t')") == [{"a": 1}]
        fork = (await at.hf.sessions.fork(here)).id
        assert await asleep("db.query('select a from t')", fork) == [{"a": 1}]


_DIES = """
import asyncio, json, sys
from holdfast import Holdfast, Settings
async def main():
    async with Holdfast.open(sys.argv[1], settings=Settings(lease_ms=300)) as hf:
        await hf.templates.create("t")
        await hf.templates.add_capability("t", "module", "database", enabled=True, config=json.loads(sys.argv[2]))
        made = await hf.sessions.create("t")
        await hf.executions.run(made.id, sys.argv[3])
asyncio.run(main())
"""


@scene
async def test_a_statement_that_was_interrupted_is_not_done_again(server: Server, tmp_path: Path) -> None:
    server.execute("create table t (a int)")
    server.execute(f"grant all on t to {server.role}")
    source = """
        var db = require('database'), r = [];
        const attempt = f => { try { r.push(f()) } catch (e) { r.push(e.code) } };
        db.configure('postgresql', 'main');
        db.exec('insert into t values (1)');
        attempt(() => db.exec('insert into t select 2 from pg_sleep(30)').rowsAffected);
        attempt(() => db.query('select count(*) as n from t where a = 1')[0].n);
        r
    """
    address = f"sqlite:///{tmp_path}/work.db"
    command = [sys.executable, "-c", _DIES, address, json.dumps(server.config()), source]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        await asyncio.to_thread(server.sleeps, True)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    async with opened(address, settings=Settings(lease_ms=300)) as hf:
        execution = (await hf.executions.list(limit=1)).items[0]
        assert value(await hf.executions.wait(execution.id, timeout=20)) == ["EFFECT_UNCERTAIN", 1]
    server.end_connections()
    assert postgres.server().execute(f"select count(*) from {server.schema}.t where a = 2") == [(0,)]
