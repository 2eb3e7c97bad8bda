"""Outages of the store: PostgreSQL that is stopped or killed, SQLite that is locked, a disk that is full.

A store that is away is never the script's error, nothing that is known is forgotten, and every call ends.
"""

import asyncio
import contextlib
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast import Capability, Function, Holdfast, HoldfastError, Settings, Tool
from holdfast.domain import EffectKind, ExecutionStatus
from holdfast.store import Commit, Store, open_store
from holdfast.store.postgresql import PostgresqlStore
from holdfast.store.sqlite import SqliteStore
from tests.acceptance.scenes import opened, scene, value
from tests.daemon import NO_TLS, Daemon
from tests.postgres import Server

MANY = {
    "javascript": """
        const state = require('state'), card = require('card');
        for (let i = 0; i < 1500; i++) state.get('key' + i);
        card.create({ pkg: { name: 'p' }, metadata: { n: 1 } });
        state.incr('count')
    """,
    "lua": """
        local state, card = require('state'), require('card')
        for i = 1, 1500 do state.get('key' .. i) end
        card.create({ pkg = { name = 'p' }, metadata = { n = 1 } })
        return state.incr('count')
    """,
}
CARDS = {"javascript": "require('card').list({}).length", "lua": "return #require('card').list({})"}


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


async def prepared(hf: Holdfast, language: str, *modules: str) -> None:
    made = await hf.templates.create(language, language=language)  # type: ignore[arg-type]
    for module in modules:
        await hf.templates.add_module(made.id, module)


@scene
async def test_scripts_that_use_state_and_cards_outlast_postgresql(server: Server) -> None:
    async with opened(server.fresh_schema()) as hf:
        for (language, source), crash in zip(MANY.items(), (False, True), strict=True):
            await prepared(hf, language, "state", "card")
            sessions = [(await hf.sessions.create(language)).id for _ in range(3)]
            running = [asyncio.ensure_future(hf.executions.run(session, source)) for session in sessions]
            await asyncio.sleep(0.15)
            await asyncio.to_thread(server.stop, crash=crash)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(server.start)
            turns = await asyncio.gather(*running)
            assert [turn.execution.error for turn in turns] == [None] * 3
            assert sorted(value(turn) for turn in turns) == [1, 2, 3]
            assert value(await hf.executions.run(sessions[0], CARDS[language])) == 3


@scene
async def test_a_long_outage_ends_the_call_and_not_the_execution(server: Server) -> None:
    settings = Settings(lease_ms=2000, outage_wait_ms=300)
    async with opened(PostgresqlStore(server.fresh_schema(), patience=0.2), settings=settings) as hf:
        await prepared(hf, "javascript", "state")
        session = (await hf.sessions.create("javascript")).id
        turn = await hf.executions.run(session, "require('state').incr('n') + await ask('?')")
        await asyncio.to_thread(server.stop, crash=True)
        for _ in range(2):
            with pytest.raises(HoldfastError) as refused:
                async with asyncio.timeout(15):
                    await hf.queries.answer(session, 10, query=turn.queries[0].id)
            assert refused.value.code == "STORE_UNAVAILABLE"
        await asyncio.to_thread(server.start)
        turn = await hf.queries.answer(session, 10, query=turn.queries[0].id)
        assert value(turn) == 11
        assert value(await hf.executions.run(session, "require('state').get('n')")) == 1


@scene
async def test_scripts_wait_for_a_locked_sqlite_file(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    async with opened(SqliteStore(path, patience_ms=50)) as hf:
        await prepared(hf, "javascript", "state", "card")
        session = (await hf.sessions.create("javascript")).id
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        asyncio.get_running_loop().call_later(0.7, other.execute, "ROLLBACK")
        assert value(await hf.executions.run(session, MANY["javascript"].replace("1500", "10"))) == 1
        assert value(await hf.executions.run(session, "require('state').get('count')")) == 1
        other.close()


# ---- a full disk -------------------------------------------------------------------------------------------------------------------


class Disk:
    """A real file system of a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        with contextlib.closing(sqlite3.connect(self.folder / "work.db")) as database:  # no room is left in the log either
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            for size in (65_536, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size):
                        pass

    def free(self) -> None:
        self._filler.unlink()


class Fills:
    """A store whose disk becomes full when a tool is about to be noted as started."""

    def __init__(self, store: Store, disk: Disk) -> None:
        self._store, self._disk = store, disk
        self.waits = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        if self.waits and any(query.started_at is not None for commit in commits for query in commit.closed):
            self.waits = False
            self._disk.fill()
        return self._store.commit(commits)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("only root can mount a file system")
    yield Disk(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def first_code(work: Any, seconds: float = 20) -> str:
    with pytest.raises(HoldfastError) as refused:
        async with asyncio.timeout(seconds):
            await work
    return refused.value.code


@scene
async def test_results_of_effects_are_kept_while_the_disk_is_full(disk: Disk) -> None:
    calls: list[str] = []

    def act(name: str, fills: bool) -> str:
        calls.append(name)
        if fills:
            disk.fill()
        return name * 50_000

    functions = [Function("it.act", act, EffectKind.ONCE)]
    address = f"sqlite:///{disk.folder}/work.db"
    async with opened(address, functions=functions, settings=Settings(lease_ms=1500, outage_wait_ms=300)) as hf:
        await hf.templates.create("js", capabilities=[Capability("function", "it.act")])
        for source, expected in (
            ("hf.call('it.act', 'a', true).length", ["a"]),
            ("hf.call('it.act', 'a', true).length + hf.call('it.act', 'b', false).length", ["a", "b"]),
        ):
            calls.clear()
            session = (await hf.sessions.create("js")).id
            assert await first_code(hf.executions.run(session, source)) == "STORE_FULL"
            assert hf.store_problem == "STORE_FULL"
            assert await first_code(hf.executions.run(session, "1 + 1", wait=True)) == "STORE_FULL"
            disk.free()
            execution = (await hf.executions.list(session)).items
            async with asyncio.timeout(20):
                while not execution or execution[0].status is not ExecutionStatus.OK:
                    assert not execution or execution[0].error is None, execution[0].error
                    await asyncio.sleep(0.05)
                    execution = (await hf.executions.list(session)).items
            assert execution[0].result is not None
            assert execution[0].result["json"] == 50_000 * len(expected)
            assert calls == expected
            assert value(await hf.executions.run(session, "1 + 1", wait=True)) == 2
            async with asyncio.timeout(5):
                while hf.store_problem is not None:
                    await asyncio.sleep(0.05)


@scene
async def test_a_call_that_waits_for_a_tool_ends_while_the_disk_is_full(disk: Disk) -> None:
    calls: list[str] = []

    async def act(args: Any) -> str:
        calls.append(args)
        disk.fill()
        return "done" * 50_000

    address = f"sqlite:///{disk.folder}/work.db"
    settings = Settings(lease_ms=1500, outage_wait_ms=300)
    async with opened(address, tools=[Tool("act", act)], settings=settings) as hf:
        await hf.templates.create("js", capabilities=[Capability("tool", "act")])
        session = (await hf.sessions.create("js")).id
        assert await first_code(hf.executions.run(session, "(await hf.tool('act', 'x')).length")) == "STORE_FULL"
        disk.free()
        execution = (await hf.executions.list(session)).items[0]
        async with asyncio.timeout(20):
            turn = await hf.executions.wait(execution.id)
        assert value(turn) == 200_000
        assert calls == ["x"]


@scene
async def test_a_tool_that_could_not_start_while_the_disk_was_full_starts_later(disk: Disk) -> None:
    calls: list[str] = []

    async def act(args: Any) -> str:
        calls.append(args)
        return "done"

    address = f"sqlite:///{disk.folder}/work.db"
    store = Fills(open_store(address), disk)
    settings = Settings(lease_ms=1500, outage_wait_ms=300)
    async with opened(store, tools=[Tool("act", act)], settings=settings) as hf:  # type: ignore[arg-type]
        await hf.templates.create("js", capabilities=[Capability("tool", "act")])
        session = (await hf.sessions.create("js")).id
        store.waits = True
        assert await first_code(hf.executions.run(session, "await hf.tool('act', 'x')")) == "STORE_FULL"
        assert calls == []
        await asyncio.sleep(1)  # the one that was to start it has given up
        disk.free()
        execution = (await hf.executions.list(session)).items[0]
        async with asyncio.timeout(20):
            turn = await hf.executions.wait(execution.id)
        assert value(turn) == "done"
        assert calls == ["x"]


# ---- the daemon --------------------------------------------------------------------------------------------------------------------


def probe(daemon: Daemon, path: str) -> httpx2.Response:
    """What a probe is told, as soon as something answers."""
    until = time.monotonic() + 30
    while True:
        try:
            return httpx2.get(f"{daemon.url}/api/v1{path}", timeout=5, verify=NO_TLS)
        except httpx2.HTTPError:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_daemon_waits_for_postgresql(server: Server, tmp_path: Path) -> None:
    address = server.fresh_schema()
    server.stop()
    daemon = Daemon(tmp_path, store=address)
    daemon.launch()
    try:
        assert probe(daemon, "/health/live").status_code == 200
        unready = probe(daemon, "/health/ready")
        assert (unready.status_code, unready.json()["reason"]) == (503, "store_unavailable")
        refused = probe(daemon, "/sessions")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "STORE_UNAVAILABLE")
        assert int(refused.headers["Retry-After"]) > 0
        assert "store.waiting" in daemon.log
        assert str(server.folder) not in refused.text
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < 5
        daemon.launch()
        assert probe(daemon, "/health/ready").status_code == 503
        server.start()
        until = time.monotonic() + 30
        while probe(daemon, "/health/ready").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        with daemon.client() as client:
            assert client.get("/sessions").json() == []
            server.stop(crash=True)
            until = time.monotonic() + 30
            while (found := client.get("/health/ready")).status_code != 503:
                assert time.monotonic() < until
            assert found.json()["reason"] == "store_unavailable"
            server.start()
            while client.get("/health/ready").status_code != 200:
                assert time.monotonic() < until
                time.sleep(0.05)
            server.stop(crash=True)
            while client.get("/health/ready").status_code != 503:
                assert time.monotonic() < until
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < 5  # it does not wait for what cannot be reached
    finally:
        daemon.kill()
