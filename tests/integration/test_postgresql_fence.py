"""PostgreSQL for hostile scripts: what the server enforces, what is checked on it, and the rules before it."""

import asyncio
import json
import os
import random
import signal
import time

import psycopg
import pytest
from psycopg import pq

from holdfast.capabilities.database import postgresql
from holdfast.capabilities.database.postgresql_role import lockdown
from holdfast.capabilities.database.postgresql_rules import _tokens
from holdfast.sandbox import HostError
from tests import postgres
from tests.acceptance.scenes import scene
from tests.hostile.postgresql import STATEMENTS
from tests.integration.test_modules_database import Server, connected
from tests.modules import place

REFUSED = {"SQL_NOT_ALLOWED", "SQL_ERROR"}
PINNED = "select current_setting('standard_conforming_strings') as s, current_setting('a.b', true) as ab, current_user as u"


@pytest.fixture
def server() -> Server:
    return Server()


def backend(server: Server) -> int:
    """The process of the role's connection."""
    found = postgres.server().execute(f"SELECT pid FROM pg_stat_activity WHERE usename = '{server.role}'")
    (pid,) = (int(str(row[0])) for row in found)
    return pid


@scene
async def test_hostile_statements_reach_nothing(server: Server) -> None:
    assert len(STATEMENTS) >= 200
    async with place(None, database=server.config(max_calls=10_000)) as at:
        here = await connected(at)
        await at.run(here, "db.exec('create table t (a text)')")
        expected = [{"s": "on", "ab": None, "u": server.role}]
        for call in ("db.exec", "db.query"):
            for begin, end in (("", ""), ("db.begin();", "db.rollback();")):
                each = f"s => {{ {begin} try {{ return codes({call}, [s])[0] }} finally {{ {end} }} }}"
                said = await at.run(here, f"{json.dumps(STATEMENTS)}.map({each})")
                passed = [sql for sql, code in zip(STATEMENTS, said, strict=True) if code not in REFUSED]
                assert passed == []
                assert await at.run(here, f"db.query({json.dumps(PINNED)})") == expected
        assert await at.run(here, "db.query('table t')") == []
        held = f"SELECT locktype FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE usename = '{server.role}' AND locktype = 'advisory'"
        assert postgres.server().execute(held) == []


@scene
async def test_ordinary_statements_are_not_refused(server: Server) -> None:
    statements = [
        "create table a (id serial primary key, at timestamptz default clock_timestamp(), u uuid default gen_random_uuid())",
        "create index concurrently a_at on a (at)",
        "insert into a select from generate_series(1, 3)",
        "insert into a (u) select gen_random_uuid() from pg_catalog.pg_class limit 1",
        "update a set at = now() from pg_namespace n where n.nspname = 'public'",
        "delete from a using pg_class c where c.relname = 'none'",
        "create view w as select c.relname, pg_get_viewdef(c.oid), pg_size_pretty(pg_relation_size(c.oid)) from pg_class c",
        "insert into a (id) values (77) on conflict (id) do update set at = excluded.at returning id",
        "with gone as (delete from a where id = 77 returning id) select count(*) from gone",
        "merge into a using (select 1 as id) s on a.id = s.id when matched then delete",
        "alter table a add column pg_rank int default 1",
        "update a set pg_rank = 2",
        "create type mood as enum ('ok')",
        "comment on table a is 'x'",
        "analyze a",
        "begin",
        "lock table a in share mode",
        "select id from a for update",
        "commit",
        "truncate a restart identity",
        "drop view w",
    ]
    queries = [
        "select table_name from information_schema.tables where table_schema = 'public'",
        "select pg_typeof(1), current_setting('search_path'), version(), pg_sleep(0), random(), txid_current_if_assigned()",
        "explain analyze select 1",
        "show search_path",
        "select * from pg_indexes",
        "select pg_rank from a",
    ]
    async with place(None, database=server.config()) as at:
        here = await connected(at)
        assert await at.run(here, f"codes(db.exec, {json.dumps(statements)})") == ["ok"] * len(statements)
        assert await at.run(here, f"codes(db.query, {json.dumps(queries)})") == ["ok"] * len(queries)


@scene
async def test_a_setting_that_changes_takes_the_statement_with_it(server: Server) -> None:
    body = "begin insert into kept values (name); perform set_config(name, value, false); return 1; end"
    server.execute("create table kept (a text); grant all on kept to public; create table t (a text); grant all on t to public")
    server.execute(f"create function sly(name text, value text) returns int language plpgsql as $$ {body} $$")
    values = {
        "standard_conforming_strings": "off",
        "search_path": "pg_catalog",
        "statement_timeout": "0",
        "work_mem": "1GB",
        "client_encoding": "latin1",
        "row_security": "off",
        "default_transaction_read_only": "on",
    }
    async with place(None, database=server.config()) as at:
        here = await connected(at)
        for name, value in values.items():
            call = f"db.exec('insert into t select sly($1, $2)::text', {name!r}, {value!r})"
            assert await at.fails(here, call) == "SETTINGS_NOT_ALLOWED"
            assert await at.fails(here, f"db.begin(); {call}") == "SETTINGS_NOT_ALLOWED"
            assert await at.fails(here, "db.exec('insert into t values (1)')") == "TRANSACTION_LOST"
            assert await at.run(here, "db.rollback(); db.query('select a from kept')") == []
            # In a query nothing stays, so there is nothing to find.
            assert await at.fails(here, f"db.query('select sly($1, $2)', {name!r}, {value!r})") == "SQL_NOT_ALLOWED"
        assert await at.run(here, f"db.query({json.dumps(PINNED)})[0].s") == "on"


@pytest.mark.parametrize(
    "grant",
    ["ALTER ROLE {} CREATEDB", "ALTER ROLE {} BYPASSRLS", "GRANT pg_monitor TO {}", "GRANT pg_signal_backend TO {}", "between"],
)
@scene
async def test_roles_that_are_more_than_ordinary_are_refused(server: Server, grant: str) -> None:
    if grant == "between":
        grant = f"CREATE ROLE between_{server.schema} NOLOGIN; GRANT pg_read_all_settings TO between_{server.schema}; GRANT between_{server.schema} TO {{}}"
    postgres.server().execute(grant.format(server.role))
    async with place(None, database=server.config()) as at:
        here = await at.session()
        assert await at.fails(here, "require('database').configure('postgresql', 'main')") == "ROLE_NOT_ALLOWED"


@scene
async def test_a_locked_role(server: Server) -> None:
    """In a database of its own: what is revoked is revoked from everybody there."""
    name = f"locked_{server.schema}"
    postgres.server().execute(f"CREATE DATABASE {name}")
    address = postgres.server().address.replace("/postgres?", f"/{name}?")
    locked = address.replace("postgres@", f"{name}@")
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN")
        config = {"connections": {"main": {"driver": "postgresql", "dsn": locked, "require_locked_role": True}}}
        async with place(None, database=config) as at:
            here = await at.session()
            turn = await at.hf.executions.run(here, "require('database').configure('postgresql', 'main')")
            assert turn.execution.error is not None
            assert turn.execution.error["code"] == "ROLE_NOT_ALLOWED"
            assert "holdfast database lockdown" in turn.execution.error["message"]
            for _ in range(2):  # idempotent
                owner.execute(lockdown(name, "work").encode())
            here = await connected(at)
            await at.run(
                here,
                "db.exec('create table t (id serial primary key, a text)')",
            )
            await at.run(
                here, "db.exec('create table u (t int references t (id))'); db.exec(\"insert into t (a) values ('x')\")"
            )
            assert await at.run(here, "db.exec('insert into u select id from t returning t').rows") == [{"t": 1}]
            assert await at.run(here, "db.transaction(() => db.query('select count(*) as n from t')[0].n)") == 1
            assert await at.fails(here, "db.query('select pg_sleep(0)')") == "SQL_NOT_ALLOWED"
    # Also without our rules: the server refuses.
    with psycopg.connect(locked, autocommit=True) as script:
        for statement in (
            "select set_config('a.b', 'c', false)", "update pg_settings set setting = 'off' where name = 'standard_conforming_strings'",
            "select pg_advisory_lock(1)", "select pg_sleep(1)", "select pg_notify('a', 'b')", "select lo_create(0)", "select pg_terminate_backend(1)",
            "select pg_cancel_backend(1)", "select * from pg_stat_activity", "select query_to_xml('select 1', true, true, '')", "create temp table x (a int)",
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                script.execute(statement.encode())


@scene
async def test_a_server_that_does_not_obey_is_left(server: Server) -> None:
    async with place(None, database=server.config(timeout_ms=60_000)) as at:
        here = await connected(at)
        pid = backend(server)
        turn = await at.hf.executions.run(here, "db.query('select pg_sleep(60)')", background=True)
        await asyncio.to_thread(server.sleeps, True)
        os.kill(pid, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            assert (await at.hf.executions.cancel(turn.execution.id)).status == "cancelled"
            assert time.monotonic() - begun < 2
        finally:
            os.kill(pid, signal.SIGCONT)
        assert await at.run(here, "db.query('select 1 as one')") == [{"one": 1}]


@scene
async def test_an_idle_transaction_is_rolled_back(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "IDLE_S", 0.2)
    async with place(None, database=server.config()) as at:
        here = await connected(at)
        await at.run(here, "db.exec('create table t (a int)'); db.begin(); db.exec('insert into t values (1)')")
        open_ones = f"SELECT pid FROM pg_stat_activity WHERE usename = '{server.role}' AND state LIKE 'idle in%'"
        async with asyncio.timeout(20):
            while postgres.server().execute(open_ones):
                await asyncio.sleep(0.05)
        assert await at.fails(here, "db.exec('insert into t values (2)')") == "TRANSACTION_LOST"
        assert await at.run(here, "db.rollback(); db.query('select count(*) as n from t')[0].n") == 0


def test_the_reading_of_text_agrees_with_the_server(server: Server) -> None:
    """Where the server sees a call, so do we: random statements with a call that may be within quotes or comments."""
    draw = random.Random(7)
    pieces = ["'", "''", "\\", '"', "$$", "$a$", "$a", "--", "\n", "\r", "/*", "*/", "E", "e'", "U&", "u&'", "x'", "N'", " ", "1", "||", ",", "-", "/", "a", "é", "\f", "\v"]  # fmt: skip
    frames = [
        ("'", "'"),
        ("E'", "'"),
        ('"', '"'),
        ("$$", "$$"),
        ("$a$", "$a$"),
        ("/*", "*/"),
        ("U&'", "'"),
        ("--", "\n"),
        ("x'", "'"),
        ("", ""),
    ]
    with psycopg.connect(server.address, autocommit=True) as connection:
        seen = parsed = 0
        for _ in range(4000):
            parts = []
            for _ in range(draw.randint(1, 4)):
                before, after = draw.choice(frames)
                inner = [draw.choice([*pieces, "zzcall()"]) for _ in range(draw.randint(0, 4))]
                parts.append(before + "".join(inner) + after)
            sql = "select " + draw.choice([" || ", ", ", " ", "\n"]).join([*parts, draw.choice(["zzcall()", "1", "'x'"])])
            result = connection.pgconn.prepare(b"", sql.encode())
            said = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
            called = "function zzcall() does not exist" in said
            try:
                tokens = list(_tokens(sql))
            except HostError:
                assert result.status != pq.ExecStatus.COMMAND_OK, sql  # what we cannot read, the server cannot either
                assert not called, sql
                continue
            seen += called
            parsed += result.status == pq.ExecStatus.COMMAND_OK
            if called:
                assert any(token.kind == "word" and token.text == "zzcall" for token in tokens), sql
        assert seen > 150
        assert parsed > 100
