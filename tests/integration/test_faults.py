"""What goes wrong around Holdfast: disks, rights, connections, bytes, keys, clocks, slow stores, callers.

In each case nothing that was acknowledged is lost, the error has a code and says what to do, and what can go on does.
"""

import asyncio
import contextlib
import json
import math
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import (
    Budget,
    Capability,
    EffectKind,
    Function,
    Holdfast,
    HoldfastError,
    Limits,
    Retention,
    Settings,
    SourceFile,
    StartupFile,
    Tool,
    Turn,
)
from holdfast.domain import ExecutionStatus, SessionState
from holdfast.store import Commit, Store, StoreUnavailable, open_store
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite import SqliteStore
from tests.postgres import fresh_schema, server

PROJECT = Path(__file__).parents[2]
COLLECT = "const got = []; for (let i = 0; i < @; i++) got.push(await ask('?')); got"
SHOWS_TOO_MUCH = re.compile(
    r"/\w+/|\.db|Traceback|File \"|SELECT |INSERT |UPDATE |sqlite|psycopg|0x[0-9a-f]{6}|secret|password", re.IGNORECASE
)


def checked(error: HoldfastError) -> str:
    """The code of an error, whose message shows nothing that a client should not see."""
    assert error.code
    assert error.code != "INTERNAL", repr(error)
    assert error.code == "STORE_UNKNOWN" or not SHOWS_TOO_MUCH.search(str(error)), str(error)  # that one shows how to write it
    assert 0 < len(str(error)) < 400, str(error)[:1000]
    return error.code


async def code_of(work: Any) -> str:
    """The code with which a call is refused."""
    with pytest.raises(HoldfastError) as refused:
        await work
    return checked(refused.value)


async def made(hf: Holdfast, **options: Any) -> str:
    """A session of a new template."""
    await hf.templates.create("js", **options)
    return str((await hf.sessions.create("js")).id)


def result(turn: Turn) -> Any:
    assert turn.execution.status is ExecutionStatus.OK, turn.execution.error
    assert turn.execution.result is not None
    return turn.execution.result["json"]


class Wrapped:
    """A store with something wrong with it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


# ---- disks and rights --------------------------------------------------------------------------------------------------------------


def in_process(what: str, path: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.faults", what, str(path)], cwd=PROJECT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path) -> None:
    came = in_process("full_disk", tmp_path / "work.db")
    assert [code for code, _ in came["errors"]] == ["STORE_FULL"] * 3
    for _, message in came["errors"]:
        assert "free some space" in message
        assert not SHOWS_TOO_MUCH.search(message)
    assert len(came["there"]) == 1
    assert came["answered"] == 40
    assert came["result"] == [30_001] * 10 + [30_002] * 30
    assert came["other"] == 2


def test_a_full_store_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "work.db")
        writer = store._file._writer
        assert writer is not None
        async with Holdfast.open(store) as hf:
            session = await made(hf)
            turn = await hf.executions.run(
                session, COLLECT.replace("@", "60").replace("await ask('?')", "(await ask('?')).split(' ')[0]")
            )
            pages = writer.execute("PRAGMA page_count").fetchone()[0]
            writer.execute(f"PRAGMA max_page_count = {pages + 20}")
            answered, refused = 0, []
            while turn.queries:
                try:
                    turn = await hf.queries.answer(session, f"{answered} " + "x" * 5_000)
                    answered += 1
                except HoldfastError as error:
                    refused.append((checked(error), "free some space" in str(error)))
                    there = (await hf.queries.list(session)).items
                    assert [query.number for query in there] == [answered + 1]
                    writer.execute("PRAGMA max_page_count = 1000000")
            assert refused == [("STORE_FULL", True)]
            assert result(turn) == [str(i) for i in range(60)]

    asyncio.run(main())


def test_a_store_that_may_only_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    for parent in (tmp_path, *tmp_path.parents):  # so that somebody who is not root finds it
        if parent != Path("/tmp") and "pytest" in str(parent):
            parent.chmod(0o755)
    came = in_process("read_only", folder / "work.db")
    assert [code for code, _ in came["codes"]] == ["STORE_READ_ONLY"] * 2
    assert all("permissions" in message and not SHOWS_TOO_MUCH.search(message) for _, message in came["codes"])
    assert came["result"] == 21


# ---- connections -------------------------------------------------------------------------------------------------------------------


async def drive(hf: Holdfast, session: str, count: int, seen: list[str]) -> Any:
    """Brings a session to its end, whatever it takes."""

    async def insist(call: Callable[[], Any]) -> Turn:
        while True:
            try:
                turn: Turn = await call()
                return turn
            except HoldfastError as error:
                seen.append(checked(error))
                if error.code not in ("STORE_UNAVAILABLE", "SESSION_BUSY"):
                    raise
                await asyncio.sleep(0.02)

    execution = None
    while execution is None:
        turn = await insist(
            lambda: hf.executions.run(session, COLLECT.replace("@", str(count)), idempotency_key=f"run {session}")
        )
        execution = turn.execution.id
    for i in range(count):
        turn = await insist(lambda i=i: hf.queries.answer(session, i, query=f"q-{i + 1}"))
    return result(await insist(lambda: hf.executions.turn(execution)))


def test_connections_that_are_lost_in_the_middle_of_commits() -> None:
    async def main() -> None:
        async with Holdfast.open(fresh_schema()) as hf:
            await hf.templates.create("js")
            sessions = [str((await hf.sessions.create("js")).id) for _ in range(6)]
            done = threading.Event()
            killed = 0

            def cut() -> None:
                nonlocal killed
                while not done.wait(0.03):
                    cut_now = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'"
                    killed += len(server().execute(cut_now))

            cutter = threading.Thread(target=cut)
            cutter.start()
            try:
                seen: list[str] = []
                results = await asyncio.gather(*(drive(hf, session, 25, seen) for session in sessions))
            finally:
                done.set()
                await asyncio.to_thread(cutter.join)
            assert killed > 3
            assert results == [list(range(25))] * 6

    asyncio.run(main())


def test_refused_writes_do_no_harm_to_a_connection() -> None:
    """Each is rolled back, upon which the driver may forget what was prepared."""

    async def main() -> None:
        async with Holdfast.open(fresh_schema()) as hf:
            session = await made(hf)
            for n in range(8):
                await hf.templates.create(f"t{n}")
                assert await code_of(hf.templates.create(f"t{n}")) == "NAME_TAKEN"
            assert result(await hf.executions.run(session, "1 + 1")) == 2

    asyncio.run(main())


def test_a_server_that_is_stopped_and_started() -> None:
    async def main() -> None:
        postgres = server()
        async with Holdfast.open(fresh_schema(), settings=Settings(lease_ms=1_000)) as hf:
            await hf.templates.create("js")
            sessions = [str((await hf.sessions.create("js")).id) for _ in range(4)]
            seen: list[str] = []
            driving = asyncio.gather(*(drive(hf, session, 60, seen) for session in sessions))
            for crash in (False, True):
                await asyncio.sleep(0.05)
                await asyncio.to_thread(postgres.stop, crash=crash)
                await asyncio.to_thread(postgres.start)
            assert await driving == [list(range(60))] * 4

    asyncio.run(main())


# ---- bytes -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/work.db" if request.param == "sqlite" else fresh_schema()


def damage(address: str, statement: str, *, postgresql: str | None = None) -> None:
    """Changes what is in a store behind its back."""
    if address.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as connection:
            connection.create_function(
                "flipped", 1, lambda data: data[:60] + bytes(byte ^ 0x55 for byte in data[60:64]) + data[64:]
            )
            count = connection.execute(statement).rowcount
            connection.commit()
    else:
        with psycopg.connect(address, autocommit=True) as connected:
            count = connected.execute((postgresql or statement).encode()).rowcount
    assert count > 0


async def ended(address: str, **options: Any) -> tuple[str, str]:
    """Two sessions in a store that is closed: one with some history, and another one."""
    async with Holdfast.open(address, **options) as hf:
        session = await made(hf)
        await hf.executions.run(session, "let a = 1")
        await hf.executions.run(session, "a = 2; console.log('hello')")
        await hf.executions.run(session, "a = 3; await ask('?')")
        other = str((await hf.sessions.create("js")).id)
        await hf.executions.run(other, "let b = 10")
    return session, other


def test_a_checkpoint_whose_bytes_changed(address: str) -> None:
    async def main() -> None:
        session, other = await ended(address)
        damage(
            address,
            "UPDATE steps SET sealed = flipped(sealed) WHERE number = 3",
            postgresql="UPDATE steps SET sealed = overlay(sealed placing '\\x00ff00ff'::bytea from 61) WHERE number = 3",
        )
        async with Holdfast.open(address) as hf:
            for _ in range(2):
                assert await code_of(hf.queries.answer(session, "x")) == "STORE_DAMAGED"
            assert await code_of(hf.sessions.diff(session, 1)) == "STORE_DAMAGED"
            assert result(await hf.executions.run(other, "b + 1")) == 11
            assert (await hf.sessions.get(session)).state is SessionState.PAUSED
            # All before it is whole: a fork of it goes on, and so does the session itself once it is rewound.
            fork = await hf.sessions.fork(session, 2)
            assert result(await hf.executions.run(fork.id, "a")) == 2
            await hf.sessions.rewind(session, 2)
            assert result(await hf.executions.run(session, "a + 1")) == 3

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["guest", "baked"])
@pytest.mark.parametrize("how", ["deleted", "changed"])
def test_a_guest_that_is_gone_or_changed(address: str, kind: str, how: str) -> None:
    async def main() -> None:
        session, _ = await ended(address)
        async with Holdfast.open(address) as hf:
            await hf.templates.create("lua", language="lua")
            other = (await hf.sessions.create("lua")).id
            digest = getattr(await hf.templates.version("js"), kind).hex()
        where, binary = f"WHERE digest = x'{digest}'", f"WHERE digest = '\\x{digest}'::bytea"
        if how == "deleted":
            damage(address, f"DELETE FROM blobs {where}", postgresql=f"DELETE FROM blobs {binary}")
        else:
            damage(
                address,
                f"UPDATE blobs SET data = flipped(data) {where}",
                postgresql=f"UPDATE blobs SET data = overlay(data placing '\\x00ff00'::bytea from 100) {binary}",
            )
        async with Holdfast.open(address) as hf:
            for _ in range(2):
                assert await code_of(hf.queries.answer(session, "x")) == "STORE_DAMAGED"
            assert result(await hf.executions.run(other, "return 1 + 1")) == 2
            assert (await hf.sessions.get(session)).state is SessionState.PAUSED
            # What needs no guest can still be read.
            execution = (await hf.executions.list(session)).items[-1]
            assert [event.type for event in await hf.executions.events(execution.id)]

    asyncio.run(main())


def test_records_that_are_no_longer_json(address: str) -> None:
    async def main() -> None:
        session, other = await ended(address)
        damage(address, "UPDATE steps SET events = '[[1, ' WHERE number = 2")
        async with Holdfast.open(address) as hf:
            executions = (await hf.executions.list(session)).items
            codes = []
            for execution in executions:
                try:
                    codes.append(len(await hf.executions.events(execution.id)))
                except HoldfastError as error:
                    codes.append(checked(error))
            assert codes.count("STORE_DAMAGED") == 1
            assert result(await hf.queries.answer(session, "x")) == "x"
            assert result(await hf.executions.run(other, "b")) == 10
        damage(address, "UPDATE queries SET payload = '{' WHERE state = 'answered'")
        async with Holdfast.open(address) as hf:
            assert await code_of(hf.queries.get(session, "q-1")) == "STORE_DAMAGED"
            assert result(await hf.executions.run(session, "a")) == 3

    asyncio.run(main())


# ---- keys --------------------------------------------------------------------------------------------------------------------------


def test_a_store_of_another_key(address: str) -> None:
    async def main() -> None:
        session, _ = await ended(address, key=b"k" * 32)
        for key in (b"x" * 32, None):
            with pytest.raises(HoldfastError) as refused:
                await Holdfast.open(address, key=key).__aenter__()
            assert checked(refused.value) == "KEY_MISMATCH"
        async with Holdfast.open(address, key=b"k" * 32) as hf:
            assert result(await hf.queries.answer(session, "x")) == "x"

    asyncio.run(main())


def test_a_store_that_has_lost_its_key(address: str) -> None:
    async def main() -> None:
        await ended(address)
        damage(address, "DELETE FROM secrets")
        for _ in range(2):  # no new key takes its place
            with pytest.raises(HoldfastError) as refused:
                await Holdfast.open(address).__aenter__()
            assert checked(refused.value) == "STORE_DAMAGED"

    asyncio.run(main())


# ---- clocks ------------------------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    hour = 3_600_000
    offset = 0

    def clock() -> float:
        return time.time() * 1000 + offset

    async def main() -> None:
        nonlocal offset
        settings = Settings(lease_ms=900, clock=clock)
        async with Holdfast.open(f"sqlite:///{tmp_path}/work.db", settings=settings) as hf:
            session = await made(hf)
            source = "for (;;) { const what = await ask('?'); if (what === 'end') break; await hf.sleep(what) } 'done'"
            turn = await hf.executions.run(session, source)
            execution = turn.execution.id

            async def sleeps(ms: int) -> float:
                begun = time.monotonic()
                await hf.queries.answer(session, ms)
                await hf.executions.wait(execution, timeout=10)
                return time.monotonic() - begun

            await sleeps(20)
            offset = hour
            await sleeps(20)
            offset = 0  # the session is an hour ahead of the clock now
            assert await sleeps(20) < 5
            # One that sleeps while the clock goes back does not sleep an hour longer; one forward wakes it.
            late = str((await hf.sessions.create("js")).id)
            asleep = await hf.executions.run(late, "await hf.sleep(1500); 1", background=True)
            await asyncio.sleep(0.3)
            offset = -hour
            assert result(await hf.executions.wait(asleep.execution.id, timeout=10)) == 1
            offset = 0
            long = str((await hf.sessions.create("js")).id)
            asleep = await hf.executions.run(long, f"await hf.sleep({hour}); 2", background=True)
            await asyncio.sleep(0.1)
            offset = hour + 1000
            assert result(await hf.executions.wait(asleep.execution.id, timeout=10)) == 2
            offset = -hour
            question = str((await hf.sessions.create("js")).id)
            asked = await hf.executions.run(question, "await ask('?', {timeout_ms: 300, default: 'nobody'})")
            while asked.execution.status is ExecutionStatus.PAUSED:
                await asyncio.sleep(0.02)
                asked = await hf.executions.turn(asked.execution.id)
            assert result(asked) == "nobody"
            turn = await hf.queries.answer(session, "end")
            assert result(turn) == "done"
            for at in (execution, asleep.execution.id, asked.execution.id):
                events = await hf.executions.events(at)
                assert [event.ts for event in events] == sorted(event.ts for event in events)
            history = await hf.sessions.checkpoints(session)
            assert [node.created_at for node in history] == sorted(node.created_at for node in history)

    async def waits() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(waits())


# ---- slow and unreliable stores ----------------------------------------------------------------------------------------------------


class Slow(Wrapped):
    """Every commit takes 200 ms, every read 50 ms. None may be asked for on the event loop's thread, which would stand still."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if name.startswith(("get", "list", "load", "chain", "count", "is_")):
            return lambda *args, **options: self._wait(0.05) or found(*args, **options)
        return found

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        self._wait(0.2)
        return self.store.commit(commits)

    def _wait(self, seconds: float) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the event loop waits for the store"
        time.sleep(seconds)


def test_a_slow_store_does_not_hold_others_up() -> None:
    async def main() -> None:
        computed: list[float] = []
        function = Function("note", lambda: computed.append(time.monotonic()), EffectKind.READ)
        async with Holdfast.open(Slow(MemoryStore()), functions=[function]) as hf:
            await hf.templates.create("js", capabilities=[Capability("function", "note")])
            sessions = [await hf.sessions.create("js") for _ in range(8)]
            begun = time.monotonic()
            source = "hf.call('note'); let x = 0; for (let i = 0; i < 1e5; i++) x += i; await ask('?')"
            turns = await asyncio.gather(*(hf.executions.run(session.id, source) for session in sessions))
            assert all(turn.execution.status is ExecutionStatus.PAUSED for turn in turns)
            ends = await asyncio.gather(*(hf.queries.answer(session.id, n) for n, session in enumerate(sessions)))
            took = time.monotonic() - begun
            assert [result(turn) for turn in ends] == list(range(8))
            assert len(computed) == 8
            # One after the other would take 8 * 2 commits of 200 ms, and as many reads.
            assert took < 2.5, took

    asyncio.run(main())


def test_waiting_for_a_tool_of_a_template_that_is_not_at_hand_does_not_block_the_loop(tmp_path: Path) -> None:
    async def ship(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "shipped"

    async def main() -> None:
        address = f"sqlite:///{tmp_path}/work.db"
        async with Holdfast.open(address, tools=[Tool("ship", ship)]) as one:
            session = await made(one, capabilities=[Capability("tool", "ship")])
            turn = await one.executions.run(session, "await hf.tool('ship', 0.7)", background=True)
            async with Holdfast.open(Slow(open_store(address)), tools=[Tool("ship", ship)]) as other:
                end = await other.executions.wait(turn.execution.id, timeout=10)
                assert result(end) == "shipped"

    asyncio.run(main())


class Unreliable(Wrapped):
    """Every third group is refused, by turns before it is written and after, when nobody knows that it was."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.count = self.failed = 0
        self.broken = False

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        self.count += 1
        if not self.broken or self.count % 3:
            return self.store.commit(commits)
        self.failed += 1
        if self.count % 2:
            self.store.commit(commits)
        if self.count % 4 == 0:
            raise RuntimeError("/secret/path: SELECT password")
        raise StoreUnavailable


def test_a_store_whose_commits_fail_now_and_then(address: str) -> None:
    language = "lua" if address.startswith("sqlite") else "javascript"
    paid: list[int] = []
    shipped: list[int] = []
    script = {
        "javascript": """
            const trail = [];
            for (let i = 0; i < 20; i++) {
              trail.push(await ask('?'));
              try { hf.call('pay', i); trail.push('paid') } catch (e) { trail.push(e.code) }
              if (i % 5 === 0) { try { trail.push(await hf.tool('ship', i)) } catch (e) { trail.push(e.code) } }
            }
            trail""",
        "lua": """
            local trail = {}
            for i = 0, 19 do
              table.insert(trail, alc.ask('?'))
              local ok, e = pcall(alc.call, 'pay', i)
              table.insert(trail, ok and 'paid' or e.code)
              if i % 5 == 0 then local ok, e = pcall(alc.tool, 'ship', i) table.insert(trail, ok and e or e.code) end
            end
            return trail""",
    }

    async def ship(n: int) -> str:
        shipped.append(n)
        return f"shipped {n}"

    async def main() -> None:
        store = Unreliable(open_store(address))
        options = {"functions": [Function("pay", paid.append)], "tools": [Tool("ship", ship)]}
        async with Holdfast.open(store, settings=Settings(lease_ms=600), **options) as hf:
            grants = [Capability("function", "pay"), Capability("tool", "ship")]
            await hf.templates.create("t", language=language, capabilities=grants)
            session = (await hf.sessions.create("t")).id
            store.broken = True
            seen: set[str] = set()
            turn = None
            while turn is None:
                try:
                    turn = await hf.executions.run(session, script[language], idempotency_key="go")
                except HoldfastError as error:
                    seen.add(checked(error))
                    await asyncio.sleep(0.02)
            for i in range(20):
                number = None
                async with asyncio.timeout(20):
                    while number is None:  # whoever was told of an error looks again
                        asks = (await hf.queries.list(session, kinds=["ask"])).items
                        known = (await hf.queries.list(session, states=["answered"], kinds=["ask"], limit=100)).items
                        if len(known) > i:
                            break
                        if not asks:
                            await asyncio.sleep(0.02)
                            continue
                        try:
                            await hf.queries.answer(session, f"answer {i}", query=asks[0].id)
                            number = asks[0].number
                        except HoldfastError as error:
                            seen.add(checked(error))
                            await asyncio.sleep(0.02)
            turn = await hf.executions.wait(turn.execution.id, timeout=20)
            trail = result(turn)
            assert [entry for entry in trail if entry.startswith("answer")] == [f"answer {i}" for i in range(20)]
            assert len(paid) == len(set(paid))
            # A tool whose intent may have been written is not run: which those are depends on whose commits are grouped.
            told = sum(entry.startswith("shipped") for entry in trail)
            assert told <= len(shipped) == len(set(shipped)) <= 4
            assert trail.count("paid") <= len(paid) <= 20
            assert trail.count("paid") + told + trail.count("EFFECT_UNCERTAIN") == 24
            assert store.failed > 8
            assert seen <= {"STORE_UNAVAILABLE", "STORE_ERROR", "SESSION_BUSY"}
            assert seen
            events = await hf.executions.events(turn.execution.id)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))

    asyncio.run(main())


def test_a_step_whose_last_commit_failed_goes_on_by_itself() -> None:
    """The result of its effect is known, so it is kept and committed later: nothing is uncertain."""

    class Once(Wrapped):
        left = 0

        def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
            if self.left and any(commit.ended for commit in commits):
                self.left -= 1
                raise StoreUnavailable
            return self.store.commit(commits)

    async def main() -> None:
        paid: list[int] = []
        store = Once(MemoryStore())
        async with Holdfast.open(store, functions=[Function("pay", paid.append)], settings=Settings(lease_ms=300)) as hf:
            session = await made(hf, capabilities=[Capability("function", "pay")])
            store.left = 2
            turn = await hf.executions.run(session, "hf.call('pay', 1); 'paid'")
            assert result(turn) == "paid"
            assert store.left == 0
            assert paid == [1]

    asyncio.run(main())


# ---- callers -----------------------------------------------------------------------------------------------------------------------

LONE = "\ud800"


class Odd:
    def __repr__(self) -> str:
        return "odd"


ODD: list[Any] = [
    None,
    5,
    -1,
    1.5,
    math.nan,
    True,
    "",
    "x",
    "\0",
    LONE,
    "é" * 100_000,
    b"x",
    [],
    [1],
    {},
    {1: 2},
    Odd(),
    10**40,
]


def calls(hf: Holdfast, session: str, ready: str, execution: str) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Every public method, with each of its arguments open in turn."""
    t, s, e, q = hf.templates, hf.sessions, hf.executions, hf.queries
    yield "templates.create name", lambda x: t.create(x)
    for part in ("libraries", "modules", "startup", "capabilities", "limits", "language", "idempotency_key"):
        yield f"templates.create {part}", lambda x, part=part: t.create(f"new {time.monotonic_ns()}", **{part: x})
        yield f"templates.create [{part}]", lambda x, part=part: t.create(f"new {time.monotonic_ns()}", **{part: [x]})
        yield f"templates.update {part}", lambda x, part=part: t.update("js", **{part: x})
    yield "a library", lambda x: t.create(f"new {time.monotonic_ns()}", libraries=[SourceFile(x, x)])
    yield "a module", lambda x: t.create(f"new {time.monotonic_ns()}", modules=[SourceFile(x, "1")])
    yield "a startup file", lambda x: t.create(f"new {time.monotonic_ns()}", startup=[StartupFile("a", "1", x)])
    yield "a capability", lambda x: t.create(f"new {time.monotonic_ns()}", capabilities=[Capability(x, x, True, x)])
    for name in ("get", "version", "versions", "update", "delete"):
        yield f"templates.{name}", lambda x, name=name: getattr(t, name)(x)
    yield "templates.version number", lambda x: t.version("js", x)
    yield "templates.versions limit", lambda x: t.versions("js", limit=x)
    yield "templates.versions after", lambda x: t.versions("js", after=x)
    for group, name in ((t, "list"), (s, "list"), (e, "list"), (q, "list")):
        yield f"{type(group).__name__}.list limit", lambda x, group=group: group.list(limit=x)
        yield f"{type(group).__name__}.{name} after", lambda x, group=group: group.list(after=x)
    yield "sessions.create template", lambda x: s.create(x)
    for part in ("version", "name", "meta", "budget", "idempotency_key"):
        yield f"sessions.create {part}", lambda x, part=part: s.create("js", **{part: x})
    for part in ("states", "template", "name"):
        yield f"sessions.list {part}", lambda x, part=part: s.list(**{part: x})
    yield "sessions.list [states]", lambda x: s.list(states=[x])
    for name in ("get", "close", "delete", "fork", "checkpoints", "tree", "errors"):
        yield f"sessions.{name}", lambda x, name=name: getattr(s, name)(x)
    yield "sessions.fork checkpoint", lambda x: s.fork(session, x)
    for part in ("name", "meta", "idempotency_key"):
        yield f"sessions.fork {part}", lambda x, part=part: s.fork(session, **{part: x})
    yield "sessions.fork_many count", lambda x: s.fork_many(session, x if x != 5 else 0)
    yield "sessions.rewind", lambda x: s.rewind(x, 1)
    yield "sessions.rewind checkpoint", lambda x: s.rewind(ready, x)
    yield "sessions.diff", lambda x: s.diff(x, 0)
    yield "sessions.diff before", lambda x: s.diff(session, x)
    yield "sessions.diff after", lambda x: s.diff(session, 0, x)
    yield "sessions.prune", lambda x: s.prune(x, keep=1)
    yield "sessions.prune keep", lambda x: s.prune(session, keep=x if x != 5 else None)
    yield "sessions.prune before", lambda x: s.prune(session, before=x)
    yield "sessions.errors limit", lambda x: s.errors(session, limit=x)
    yield "sessions.errors after", lambda x: s.errors(session, after=x)
    yield "sessions.resolve_error", lambda x: s.resolve_error(x, session)
    yield "sessions.resolve_error error", lambda x: s.resolve_error(session, x)
    yield "executions.run", lambda x: e.run(x, "1")
    yield "executions.run source", lambda x: e.run(ready, x)
    yield "executions.run budget", lambda x: e.run(ready, "1", budget=x)
    yield "executions.run key", lambda x: e.run(ready, "1", idempotency_key=x)
    yield "executions.run_file source", lambda x: e.run_file(ready, x, "a.js")
    yield "executions.run_file path", lambda x: e.run_file(ready, "1", x)
    yield "executions.run_file args", lambda x: e.run_file(ready, "1", "a.js", x)
    yield "executions.strategy source", lambda x: e.strategy(ready, x)
    yield "executions.strategy ctx", lambda x: e.strategy(ready, "1", x)
    yield "executions.strategy ctx.budget", lambda x: e.strategy(ready, "1", {"budget": x})
    for name in ("turn", "cancel", "get", "list", "events", "wait"):
        yield f"executions.{name}", lambda x, name=name: getattr(e, name)(x)
    yield "executions.wait timeout", lambda x: e.wait(execution, timeout=x)
    yield "executions.list status", lambda x: e.list(status=x)
    yield "executions.events after_seq", lambda x: e.events(execution, after_seq=x)
    yield "executions.events limit", lambda x: e.events(execution, limit=x)
    yield "queries.answer", lambda x: q.answer(x, 1)
    yield "queries.answer value", lambda x: q.answer(session, x)
    yield "queries.answer query", lambda x: q.answer(session, 1, query=x)
    yield "queries.answer usage", lambda x: q.answer(session, 1, usage=x)
    yield "queries.answer usage.", lambda x: q.answer(session, 1, usage={"prompt_tokens": x})
    yield "queries.answer key", lambda x: q.answer(session, 1, idempotency_key=x)
    yield "queries.answer_many", lambda x: q.answer_many(session, x)
    yield "queries.answer_many query", lambda x: q.answer_many(session, {x: 1})
    yield "queries.fail message", lambda x: q.fail(session, x)
    yield "queries.fail code", lambda x: q.fail(session, "no", code=x)
    yield "queries.cancel", lambda x: q.cancel(session, x)
    yield "queries.get", lambda x: q.get(session, x)
    for part in ("session", "execution", "states", "kinds"):
        yield f"queries.list {part}", lambda x, part=part: q.list(**{part: x})
    yield "queries.list [states]", lambda x: q.list(states=[x])
    yield "queries.list [kinds]", lambda x: q.list(kinds=[x])


def test_bad_input_gets_a_typed_error(address: str) -> None:
    async def main() -> None:
        async with Holdfast.open(address) as hf:
            session = await made(hf)
            execution = str((await hf.executions.run(session, "for (;;) await ask('?')")).execution.id)
            ready = str((await hf.sessions.create("js")).id)
            leaked = []
            refused = 0
            for name, call in calls(hf, session, ready, execution):
                for value in ODD:
                    try:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(10):
                                await call(value)
                    except HoldfastError as error:
                        refused += 1
                        try:
                            checked(error)
                        except AssertionError as problem:
                            leaked.append(f"{name} {repr(value)[:30]}: {problem}"[:300])
                    except Exception as error:  # noqa: BLE001 - this is what must not happen
                        if not (isinstance(error, TypeError) and "unhashable" in str(error)):  # {[]: 1} is the test's own fault
                            leaked.append(f"{name} {repr(value)[:30]}: {error!r}"[:300])
            assert not leaked, f"{len(leaked)} leaks:\n" + "\n".join(leaked)
            assert refused > 1000
            # And nothing is the worse for it.
            fresh = await hf.sessions.create("js")
            assert result(await hf.executions.run(fresh.id, "1 + 1")) == 2

    asyncio.run(main())


@pytest.mark.parametrize("make", [Limits, Budget, Retention])
def test_bad_limits_are_typed_errors(make: Callable[..., object]) -> None:
    for field in make.__dataclass_fields__:  # type: ignore[attr-defined]
        for value in (-1, 1.5, "5", True, 10**40 if make is Limits else -5, [], LONE):
            with pytest.raises(HoldfastError) as refused:
                make(**{field: value})
            assert checked(refused.value) == "VALIDATION_ERROR"


def test_bad_ways_to_open() -> None:
    async def opened(*args: Any, **options: Any) -> None:
        async with Holdfast.open(*args, **options):
            pass

    async def main() -> None:
        for address in (
            None,
            5,
            "",
            "x",
            "sqlite:",
            "sqlite://x",
            "sqlite:///:memory:",
            "mysql://x/y",
            "postgresql://h:x:y/z?a=b",
            "memory",
            b"x",
        ):
            assert (await code_of(opened(address))) in ("STORE_UNKNOWN", "VALIDATION_ERROR")
        assert await code_of(opened("sqlite:////no/such/folder/x.db")) in ("STORE_UNAVAILABLE", "STORE_READ_ONLY")
        assert await code_of(opened("sqlite:///a\0b")) != "INTERNAL"
        for key in (b"", b"short", "text" * 8, 5, b"x" * 65):
            assert await code_of(opened("memory:", key=key)) == "VALIDATION_ERROR"
        for part in ("functions", "tools", "settings", "retention"):
            assert await code_of(opened("memory:", **{part: [5]})) == "VALIDATION_ERROR"

    asyncio.run(main())


# ---- very many pauses --------------------------------------------------------------------------------------------------------------


def test_many_pauses_keep_chains_short_and_every_checkpoint_alive(tmp_path: Path) -> None:
    count, every = 1_500, 97

    async def main() -> None:
        path = tmp_path / "work.db"
        async with Holdfast.open(f"sqlite:///{path}") as hf:
            await hf.templates.create("lua", language="lua")
            session = (await hf.sessions.create("lua")).id
            source = f"local sum, n = 0, 0 for i = 1, {count} do sum = sum + alc.ask('?') n = n + 1 end return {{sum, n}}"
            turn = await hf.executions.run(session, source)
            for i in range(1, count):
                turn = await hf.queries.answer(session, i, query=f"q-{i}")
            nodes = await hf.sessions.checkpoints(session)
            assert len(nodes) == count
            by_number = {node.number: node for node in nodes}
            for node in nodes:
                length, at = 1, node
                while at.base is not None:
                    at = by_number[at.base.number]
                    length += 1
                assert length <= math.log2(node.depth) + 1
            store = hf._opened().store
            chain = store.chain(type(nodes[-1].base)(session, count))  # type: ignore[misc]
            assert len(chain) <= math.log2(count) + 1
            # At checkpoint k the answers 1 to k-1 are in: each fork goes on from there, with other answers, on its own.
            for number in range(every, count, every):
                fork = await hf.sessions.fork(session, number)
                open_queries = (await hf.queries.list(fork.id)).items
                assert [query.number for query in open_queries] == [number]
                turn = await hf.queries.answer(fork.id, 1_000_000)
                assert turn.execution.status is ExecutionStatus.PAUSED
                seen = await hf.executions.cancel(turn.execution.id)
                assert seen.status is ExecutionStatus.CANCELLED
            for number in (every, every * 15):
                fork = await hf.sessions.fork(session, number)
                for i in range(number, count + 1):
                    turn = await hf.queries.answer(fork.id, 0)
                    if i - number > 40 and number == every:
                        break
                else:
                    assert result(turn) == [number * (number - 1) // 2, count]
            last = await hf.queries.answer(session, count)
            assert result(last) == [count * (count + 1) // 2, count]

    asyncio.run(main())
