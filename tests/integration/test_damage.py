"""Rows that were changed by something else than Holdfast: whatever is damaged in one session, all others go on, and nothing is an INTERNAL.

One store has a session for each damage, and some that are whole. Each column of each table is damaged in a session of its own, by SQL.
"""

import asyncio
import itertools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pytest

from holdfast import Holdfast, HoldfastError, Limits, StartupFile
from holdfast.control.maintenance import check_store
from holdfast.daemon import InstanceLock
from holdfast.store import StoreDamaged, StoreInUse, open_store
from tests.daemon import NO_TLS
from tests.http_server import Served
from tests.postgres import fresh_schema

TEXTS = ["garbage{", "[]", "{}", "7", '"x"', "null", "[1,2,3]", "[[1,2,3]]"]
NUMBERS = [-1, 10**15, 0]
BLOBS = [b"", b"\0", b"x" * 200]
BAD_TEXT = "CAST(x'7b22ff8022' AS TEXT)"

# Which rows of a session each table has, and its columns by kind.
SESSION: dict[str, str] = {
    "worktree": "t", "branch": "t", "meta": "t", "budget": "t", "state": "t", "name": "t", "last_error": "t", "usage": "t",
    "template_version": "n", "updated_at": "n", "created_at": "n", "closed_at": "n", "version": "n", "fence": "n", "head": "n",
    "steps": "n", "queries": "n", "wake_at": "n", "seed": "n", "llm_calls": "n", "tokens": "n", "origin_number": "n",
    "branch_query": "n", "owner": "u", "execution_id": "u", "origin_session": "u", "branch_of": "u",
}  # fmt: skip
EXECUTION: dict[str, str] = {
    "kind": "t", "status": "t", "result": "t", "error": "t", "metrics": "t", "budget": "t", "custom": "t", "started_at": "n",
    "first_step": "n", "last_step": "n", "seq": "n", "ended_at": "n", "strategy": "t",
}  # fmt: skip
QUERY: dict[str, str] = {
    "kind": "t", "payload": "t", "state": "t", "answer": "t", "asked_at": "n", "guest_id": "n", "deadline": "n", "started_at": "n",
    "closed_at": "n", "execution_id": "u",
}  # fmt: skip
STEP: dict[str, str] = {
    "events": "t", "open": "t", "parent": "n", "first_seq": "n", "last_seq": "n", "base_number": "n", "depth": "n", "wake_at": "n",
    "created_at": "n", "sealed": "b", "execution_id": "u",
}  # fmt: skip


class Base:
    """A store to be damaged."""

    address: str
    key = "key"

    def execute(self, statement: str, *values: Any) -> None:
        raise NotImplementedError


class Sqlite(Base):
    def __init__(self, folder: Path) -> None:
        self.path = folder / "work.db"
        self.address = f"sqlite:///{self.path}"

    def execute(self, statement: str, *values: Any) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(statement.replace("%s", "?"), values)
        connection.close()

    def damages(self) -> Iterator[tuple[str, str, str, Any]]:
        """Table, condition with the session's id, column, value (a text in backquotes is SQL)."""
        yield from _damages(self.wheres(), number="abc")

    def wheres(self) -> dict[str, str]:
        key = "(SELECT key FROM sessions WHERE id = %s)"
        return {
            "sessions": "id = %s",
            "executions": f"key = (SELECT max(key) FROM executions WHERE session = {key})",
            "inputs": f"execution = (SELECT max(key) FROM executions WHERE session = {key})",
            "queries": f"place > ({key[1:-1]}) << 28 AND place < (({key[1:-1]}) + 1) << 28".replace("%s", "%s", 1),
            "steps": f"session = {key}",
        }


class Postgresql(Base):
    def __init__(self) -> None:
        self.address = fresh_schema()

    def execute(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(
                statement.encode(),
                [UUID(bytes=v) if isinstance(v, bytes) and len(v) == 16 and "id = " in statement else v for v in values],
            )

    def damages(self) -> Iterator[tuple[str, str, str, Any]]:
        key = "(SELECT key FROM sessions WHERE id = %s)"
        wheres = {
            "sessions": "id = %s",
            "executions": f"key = (SELECT max(key) FROM executions WHERE session = {key})",
            "queries": f"session = {key}",
            "steps": f"session = {key}",
        }
        for table, where, column, value in _damages(wheres, number=None):
            yield table, where, "given" if (table, column) == ("inputs", "data") else column, value
        yield "executions", wheres["executions"], "given", "[1]"
        yield "sessions", wheres["sessions"], "begun", "{"
        yield "sessions", wheres["sessions"], "begun", "[1,2,3,4]"


def _damages(wheres: dict[str, str], number: str | None) -> Iterator[tuple[str, str, str, Any]]:
    texts, numbers, blobs = itertools.cycle(TEXTS), itertools.cycle(NUMBERS), itertools.cycle(BLOBS)
    columns = {"sessions": SESSION, "executions": EXECUTION, "queries": QUERY, "steps": STEP, "inputs": {"data": "t"}}
    for table, where in wheres.items():
        for column, kind in columns[table].items():
            if kind == "t":
                yield table, where, column, next(texts)
                if number is not None:
                    yield table, where, column, f"`{BAD_TEXT}`"
            elif kind == "n":
                yield table, where, column, next(numbers)
                if number is not None:
                    yield table, where, column, number
            elif kind == "b":
                yield from ((table, where, column, blob) for blob in BLOBS)
                yield table, where, column, None
            elif number is not None:
                yield table, where, column, next(blobs)
            else:
                yield table, where, column, UUID(int=7)


async def fill(base: Base, count: int) -> list[str]:
    """Sessions that all have the same: an execution that has ended, one that waits, a fork."""
    async with Holdfast.open(base.address) as hf:
        await hf.templates.create("js", limits=Limits(wall_ms=60_000))
        made = []
        for number in range(count):
            session = (await hf.sessions.create("js", name=f"s{number}", meta={"n": number})).id
            await hf.executions.run(session, "var kept = 1; console.log(kept)")
            await hf.executions.run(session, f"kept = await ask('Who? {number}')")
            made.append(str(session))
        return made


@pytest.fixture(params=["sqlite", "postgresql"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Base:
    return Sqlite(tmp_path) if request.param == "sqlite" else Postgresql()


def all_of(api: httpx2.Client, path: str) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = api.get(path, params={"limit": 50} | ({} if cursor is None else {"cursor": cursor}))
        assert page.status_code == 200, page.text
        found += page.json()
        cursor = page.headers.get("X-Next-Cursor")
        if cursor is None:
            return found


def calls(api: httpx2.Client, session: str, execution: str) -> Iterator[Callable[[], httpx2.Response]]:
    here = f"/sessions/{session}"
    for path in (
        here,
        f"{here}/checkpoints",
        f"{here}/tree",
        f"{here}/errors",
        f"{here}/diff?before=0",
        f"/transcripts/{session}",
    ):
        yield lambda path=path: api.get(path)  # type: ignore[misc]
    yield lambda: api.get("/executions", params={"session_id": session})
    yield lambda: api.get("/queries", params={"session_id": session})
    yield lambda: api.get(f"{here}/queries/q-1")
    yield lambda: api.get(f"/executions/{execution}")
    yield lambda: api.get(f"/executions/{execution}/events")
    yield lambda: api.get(f"/runs/{session}")
    yield lambda: api.post(f"{here}/fork", json={})
    yield lambda: api.post(f"{here}/answers", json={"value": "Ada"})
    yield lambda: api.post("/executions/repl", json={"session_id": session, "input": "kept"})
    yield lambda: api.post(f"{here}/prune", json={"keep": 1})
    yield lambda: api.post(f"{here}/rewind", json={"checkpoint": 1})


def served(base: Base, folder: Path) -> Served:
    return Served(folder, store=base.address, rate_per_s=0).start()


def client_of(server: Served) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx2.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=60, verify=NO_TLS)


def share(base: Any, first: int) -> list[Any]:
    """Half of all damages, and less of PostgreSQL's, which are read by the same functions: CI time is precious."""
    return list(base.damages())[first :: 2 if isinstance(base, Sqlite) else 4]


def hurt_all(base: Any, damages: list[Any], hurt: list[str]) -> None:
    for session, (table, where, column, value) in zip(hurt, damages, strict=True):
        ids = [UUID(session).bytes] * where.count("%s")
        if isinstance(value, str) and value.startswith("`"):
            base.execute(f"UPDATE {table} SET {column} = {value[1:-1]} WHERE {where}", *ids)
        else:
            base.execute(f"UPDATE {table} SET {column} = %s WHERE {where}", value, *ids)


def test_damage_stays_in_its_session(base: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damages = share(base, 0)
    sessions = asyncio.run(fill(base, len(damages) + 2))
    whole, hurt = [sessions[0], sessions[-1]], sessions[1:-1]
    hurt_all(base, damages, hurt)
    server = served(base, tmp_path)
    problems: list[str] = []
    try:
        with client_of(server) as api:
            listed = {session["id"]: session for session in all_of(api, "/sessions")}
            assert set(listed) == set(sessions)
            assert any(session["damaged"] for session in listed.values())
            assert not any(listed[session]["damaged"] for session in whole)
            for path in ("/queries", "/templates"):
                assert len(all_of(api, path)) > 0, path
            for path in ("/transcripts", "/runs", "/transcripts/stats", "/health/ready", "/runtime/summary", "/metrics"):
                answer = api.get(path)
                assert answer.status_code in (200, 404), (path, answer.text)
            with api.stream("GET", "/events/stream", params={"after": "start"}) as stream:
                told = set()
                for line in stream.iter_lines():
                    if line.startswith("data:"):
                        told.add(json.loads(line[5:]).get("session_id"))
                    if told >= set(whole):
                        break
            for session, damage in zip(hurt, damages, strict=True):
                found = api.get("/executions", params={"session_id": session}).json()
                execution = found[0]["id"] if isinstance(found, list) and found else session
                for call in calls(api, session, execution):
                    answer = call()
                    code = answer.json()["error"]["code"] if answer.status_code >= 400 else ""
                    if answer.status_code == 500 or code == "INTERNAL":
                        problems.append(f"{damage[0]}.{damage[2]} = {damage[3]!r}: {answer.request.url.path} {answer.text}")
            server.do(server.hf.sweep())
            server.do(server.hf._opened()._look_around())
            for session in whole:
                done = api.post(f"/sessions/{session}/answers", json={"value": "Ada"})
                assert done.json()["result"]["json"] == "Ada", done.text
            for session, damage in zip(hurt, damages, strict=True):
                gone = api.delete(f"/sessions/{session}", params={"purge": True})
                if gone.status_code not in (200, 204, 404):
                    problems.append(f"{damage[0]}.{damage[2]} = {damage[3]!r}: delete {gone.status_code} {gone.text}")
    finally:
        server.stop()
    tracebacks = [record.getMessage() for record in caplog.records if record.exc_info]
    assert not problems, "\n".join(problems)
    assert not tracebacks, "\n".join(tracebacks)


# ---- templates ---------------------------------------------------------------------------------------------------------------------

VERSION_TABLE = {Sqlite: "template_versions", Postgresql: "versions"}
SPECS = ["garbage{", "[]", "{}", "7", "null", '{"language": "cobol"}', '{"language": 7}', '{"limits": []}']


async def fill_templates(base: Base, count: int) -> list[tuple[str, str]]:
    """Templates, each with a baked memory of its own and a session that waits."""
    async with Holdfast.open(base.address) as hf:
        made = []
        for number in range(count):
            template = await hf.templates.create(f"t{number}", startup=[StartupFile("a.js", f"globalThis.n = {number}")])
            session = (await hf.sessions.create(template.name)).id
            await hf.executions.run(session, "await ask('Who?')")
            made.append((str(template.id), str(session)))
        return made


def template_damages(base: Base) -> list[Callable[[bytes], None]]:
    versions = VERSION_TABLE[type(base)]
    of = "template = (SELECT key FROM templates WHERE id = %s)" if isinstance(base, Sqlite) else "template_id = %s"
    mine = f"digest = (SELECT baked FROM {versions} WHERE {of})"

    def change(table: str, column: str, value: Any, where: str) -> Callable[[bytes], None]:
        return lambda template: base.execute(f"UPDATE {table} SET {column} = %s WHERE {where}", value, template)

    found = [change(versions, "spec", spec, of) for spec in SPECS]
    found += [change(versions, column, b"\0" * 31, of) for column in ("guest", "baked")]
    found += [change("blobs", "data", data, mine) for data in (b"", b"x" * 50)]
    found += [lambda template: base.execute(f"DELETE FROM blobs WHERE {mine}", template)]
    found += [change("templates", "latest", 99, "id = %s")]
    if isinstance(base, Sqlite):
        found += [change("templates", "latest", "x", "id = %s"), change("templates", "created_at", "x", "id = %s")]
    return found


def test_a_damaged_template_is_no_trouble_for_others(base: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damages = template_damages(base)
    made = asyncio.run(fill_templates(base, len(damages) + 1))
    (whole, whole_session), hurt = made[-1], made[:-1]
    for damage, (template, _) in zip(damages, hurt, strict=True):
        damage(UUID(template).bytes)
    server = served(base, tmp_path)
    problems: list[str] = []
    try:
        with client_of(server) as api:
            assert whole in {template["id"] for template in all_of(api, "/templates")}
            assert {session["id"] for session in all_of(api, "/sessions")} == {session for _, session in made}
            for number, (template, session) in enumerate(hurt):
                here = f"/templates/{template}"
                answers = [
                    *(
                        api.get(f"{here}{part}")
                        for part in ("", "/versions", "/versions/1", "/settings", "/capabilities", "/modules")
                    ),
                    api.post("/sessions", json={"template_id": template}),
                    api.patch(here, json={"name": f"n{number}"}),
                    api.post(f"{here}/clone", json={"name": f"c{number}"}),
                    api.post(f"/sessions/{session}/answers", json={"value": "Ada"}),
                    api.get(f"/sessions/{session}/diff?before=0"),
                    api.post(f"/sessions/{session}/fork", json={}),
                    api.get(f"/sessions/{session}"),
                ]
                problems += [
                    f"{number}: {a.request.method} {a.request.url.path} {a.text}" for a in answers if a.status_code == 500
                ]
            server.do(server.hf._opened()._look_around())
            assert api.post("/sessions", json={"template_id": whole}).status_code == 201
            done = api.post(f"/sessions/{whole_session}/answers", json={"value": "Ada"})
            assert done.json()["result"]["json"] == "Ada"
            for number, (_, session) in enumerate(hurt):
                gone = api.delete(f"/sessions/{session}", params={"purge": True})
                if gone.status_code != 200:
                    problems.append(f"{number}: delete {gone.text}")
    finally:
        server.stop()
    tracebacks = [record.getMessage() for record in caplog.records if record.exc_info]
    assert not problems, "\n".join(problems)
    assert not tracebacks, "\n".join(tracebacks)


# ---- check and repair --------------------------------------------------------------------------------------------------------------


def test_a_repaired_store_is_whole_and_its_sessions_go_on(base: Any) -> None:
    damages = share(base, 1)
    sessions = asyncio.run(fill(base, len(damages) + 2))
    whole, hurt = [sessions[0], sessions[-1]], sessions[1:-1]
    assert asyncio.run(check_store(base.address)).whole
    hurt_all(base, damages, hurt)

    async def main() -> None:
        looked = await check_store(base.address)
        assert not looked.whole
        assert not {str(finding.session_id) for finding in looked.findings} & set(whole)
        report = await check_store(base.address, repair=True)
        known = dict(zip(hurt, damages, strict=True))
        left = [(known[str(f.session_id)][0::2], f) for f in report.left if f.kind != "image"]
        assert not left, "\n".join(map(str, left))
        problems = []
        async with Holdfast.open(base.address) as hf:
            for session, damage in zip(sessions, [None, *damages, None], strict=True):
                try:
                    if (await hf.sessions.get(session)).state == "closed":
                        continue
                    for query in (await hf.queries.list(session)).items:
                        await hf.queries.answer(session, "Ada", query=query.id)
                    turn = await hf.executions.run(session, "typeof kept")
                    assert turn.execution.status == "ok"
                except (HoldfastError, AssertionError) as error:
                    problems.append(f"{damage}: {error!r}")
            notes = [len(await hf.transcripts.notes(session)) for session in hurt] if hasattr(hf.transcripts, "notes") else [1]
            assert any(notes)
        assert not problems, "\n".join(problems)

    asyncio.run(main())


def test_guests_and_baked_memories_are_restored(base: Any) -> None:
    (_, one), (_, other) = asyncio.run(fill_templates(base, 2))
    base.execute("UPDATE blobs SET data = %s", b"x" * 100)

    async def main() -> None:
        async with Holdfast.open(base.address) as hf:
            with pytest.raises(StoreDamaged):
                await hf.queries.answer(one, "Ada")
        report = await check_store(base.address, repair=True)
        assert report.whole, report
        assert {finding.kind for finding in report.repaired} >= {"guest", "baked memory"}
        async with Holdfast.open(base.address) as hf:
            assert (await hf.queries.answer(one, "Ada")).execution.status == "ok"
            with pytest.raises(StoreInUse):
                await check_store(base.address, repair=True)
            assert (await hf.queries.answer(other, "Ada")).execution.status == "ok"
            assert (await check_store(base.address)).in_use == 1

    asyncio.run(main())


@pytest.mark.parametrize("changed", ["session", "number"])
def test_an_image_of_another_checkpoint_is_refused(tmp_path: Path, changed: str) -> None:
    """Both are whole, of one template, and sealed with a key that is not in the store."""
    key = b"k" * 32
    base = Sqlite(tmp_path)

    async def main() -> None:
        async with Holdfast.open(base.address, key=key) as hf:
            await hf.templates.create("t")
            one, other = [(await hf.sessions.create("t")).id for _ in range(2)]
            for session in (one, other):
                await hf.executions.run(session, f"var mine = '{session}'")
                await hf.executions.run(session, "await ask(mine)")
        swapped = "(SELECT sealed FROM steps AS s WHERE s.session = 3 - steps.session AND s.number = steps.number)"
        earlier = "(SELECT sealed FROM steps AS s WHERE s.session = steps.session AND s.number = 1)"
        if changed == "session":
            base.execute("CREATE TABLE kept AS SELECT session, number, sealed FROM steps")
            base.execute(f"UPDATE steps SET sealed = {swapped.replace('FROM steps', 'FROM kept')}")
        else:
            base.execute(f"UPDATE steps SET sealed = {earlier}, base_number = NULL, depth = 1 WHERE number = 2")
        async with Holdfast.open(base.address, key=key) as hf:
            with pytest.raises(StoreDamaged):
                await hf.queries.answer(one, "yes")
        assert not (await check_store(base.address, key=key)).whole

    asyncio.run(main())


def test_damaged_runs_of_strategies_do_not_count(base: Base) -> None:
    async def main() -> None:
        async with Holdfast.open(base.address) as hf:
            for _ in range(len(TEXTS) + 1):
                assert (await hf.strategies.run("return 1", language="lua"))["status"] == "completed"
        store = open_store(base.address)
        try:
            for at, text in enumerate(TEXTS):
                row = f"(SELECT key FROM executions ORDER BY key LIMIT 1 OFFSET {at})"
                base.execute(f"UPDATE executions SET metrics = %s WHERE key = {row}", text)
            assert [figures.count for figures in store.strategy_figures()] == [1]
        finally:
            store.close()

    asyncio.run(main())


def test_the_command_tells_and_repairs(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    base = Sqlite(tmp_path)
    [session] = asyncio.run(fill(base, 1))
    base.execute("UPDATE executions SET metrics = '{'")
    environment = os.environ | {
        "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
        "HOLDFAST_CONFIG": os.devnull,
        "HOLDFAST_STORE": base.address,
    }

    def run(*options: str) -> tuple[int, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.cli", "store", "check", "--json", *options],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else None

    code, report = run()
    assert (code, report["whole"], report["repaired"]) == (1, False, [])
    assert {(finding["kind"], finding["session_id"]) for finding in report["findings"]} >= {("execution", session)}
    with InstanceLock(tmp_path / "data"):
        assert run("--repair")[0] != 0
    code, report = run("--repair")
    assert (code, report["whole"], report["left"]) == (0, True, [])


def flipped(value: bytes) -> bytes:
    return value[:3] + bytes([value[3] ^ 0x10]) + value[4:]


def test_a_damaged_secret_is_not_a_wrong_key(base: Any) -> None:
    [session] = asyncio.run(fill(base, 1))
    store = open_store(base.address)
    secrets = {str(name): bytes(value) for name, value in store.maintain("SELECT name, value FROM secrets")}  # type: ignore[attr-defined]
    store.close()
    for name in ("key", "key check", "key sum", "key check sum"):
        base.execute("UPDATE secrets SET value = %s WHERE name = %s", flipped(secrets[name]), name)

        async def main(name: str = name) -> None:
            with pytest.raises(StoreDamaged) as refused:
                await Holdfast.open(base.address).__aenter__()
            assert refused.value.details["id"] == name.removesuffix(" sum")
            assert (await check_store(base.address, repair=True)).whole
            async with Holdfast.open(base.address) as hf:
                assert (await hf.sessions.get(session)).state == "paused"

        asyncio.run(main())
    with pytest.raises(HoldfastError, match="another key"):
        asyncio.run(Holdfast.open(base.address, key=b"x" * 32).__aenter__())
    store = open_store(base.address)
    assert {str(name): bytes(value) for name, value in store.maintain("SELECT name, value FROM secrets")} == secrets  # type: ignore[attr-defined]
    store.close()
