"""The durable suite: pauses, resumes and forks of sessions in a real SQLite file and a real PostgreSQL server, everything synced."""

import asyncio
import gc
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final
from uuid import UUID

from benchmarks import durable_peers as peers
from benchmarks.gil import gil_seconds
from benchmarks.rows import Row, seconds
from holdfast import Holdfast, Limits
from holdfast.runtime.resident import Resident
from holdfast.store import open_store

FREE: Final = Limits(wall_ms=0, cpu_ms=0, max_events=0, max_output_kb=0)
ASKING: Final = {
    "javascript": "const trail = []; for (;;) { trail.push(await llm('next')); if (trail.length > 20) trail.shift() }",
    "lua": "local trail = {} while true do trail[#trail + 1] = alc.llm('next') if #trail > 20 then table.remove(trail, 1) end end",
}
WORKING: Final = """
    const items = Array.from({length: 1000}, (_, i) => ({id: i, name: 'item ' + i, done: false}));
    for (let n = 0; ; n++) { const answer = await llm('item ' + n); items[n % 1000].done = true; items[n % 1000].answer = answer }
"""


def run(only: str = "") -> Iterator[Row]:
    """All rows of the suite, or those whose measurement has this word in its name."""
    for measure in (pause, throughput, cold, fork, size, long, many):
        if only in measure.__name__:
            with tempfile.TemporaryDirectory() as folder:
                yield from measure(Path(folder))


# ---- one session -------------------------------------------------------------------------------------------------------------------


def pause(folder: Path) -> Iterator[Row]:
    """An answer goes in, and the next pause is committed: one session, alternating with a bare commit of as many bytes."""
    for language in ("javascript", "lua"):
        ours, bare = asyncio.run(_pause(folder / language, language))
        suffix = "" if language == "javascript" else "_lua"
        reach, aim = (3, 1.8) if not suffix else (None, None)
        yield Row(f"pause_commit_ms{suffix}", ours * 1e3)
        yield Row(f"bare_commit_ms{suffix}", bare * 1e3)
        yield Row(f"pause_commit_vs_bare_commit{suffix}", ours / bare, reach, aim)
        if not suffix:
            langgraph = seconds(peers.langgraph_pause(folder), 100)
            dbos = peers.dbos_step_seconds(folder, 100)
            monty = peers.monty_pause_seconds(folder, 200)
            again, _ = asyncio.run(_pause(folder / "again", language))
            yield Row("pause_vs_langgraph", langgraph / again, 4, 8, higher=True)
            yield Row("pause_vs_dbos", dbos / again, 3, 6, higher=True)
            yield Row("pause_vs_monty_dumped_and_synced", monty / again)


async def _pause(folder: Path, language: str, times: int = 1000) -> tuple[float, float]:
    folder.mkdir()
    async with _open(f"sqlite:///{folder}/sessions.db", language) as hf:
        session = await _asking(hf, ASKING[language])
        for _ in range(50):
            turn = await hf.queries.answer(session, "answer")
        bare = peers.BareCommit(folder, turn.execution.metrics.checkpoint_bytes // turn.execution.metrics.steps + 600)
        ours: list[float] = []
        theirs: list[float] = []
        gc.collect()
        gc.disable()
        for _ in range(times):
            begun = time.perf_counter()
            await hf.queries.answer(session, "answer")
            ours.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            bare()
            theirs.append(time.perf_counter() - begun)
        gc.enable()
        bare.close()
    return statistics.median(ours), statistics.median(theirs)


def size(folder: Path) -> Iterator[Row]:
    """What a pause of a session with 1,000 live objects adds to the file, all tables and indexes included."""

    async def measure() -> float:
        path = folder / "sessions.db"
        async with _open(f"sqlite:///{path}", "javascript") as hf:
            session = await _asking(hf, WORKING)
            await _answer(hf, session, 100)
            before = _file_bytes(path)
            await _answer(hf, session, 2000)
            return (_file_bytes(path) - before) / 2000

    yield Row("bytes_per_pause", asyncio.run(measure()), 5 * 1024, 3 * 1024)


def long(folder: Path) -> Iterator[Row]:
    """A session with 10,000 pauses: what the last ones cost against the first, and how long any of its checkpoints takes to thaw."""

    async def measure() -> tuple[float, list[float], list[float], float]:
        async with _open(f"sqlite:///{folder}/sessions.db", "javascript") as hf:
            session = await _asking(hf, WORKING)
            await _answer(hf, session, 50)
            taken = await _answer(hf, session, 10_000)
            forks = await hf.sessions.fork_many(session, 1)
            await hf.queries.answer(forks[0].id, "answer")
            thaws, answers = [], []
            for number in range(7, 10_000, 250):
                fork = await hf.sessions.fork(session, number)
                thaws.append(_thaw_seconds(hf, fork.id))
                begun = time.perf_counter()
                await hf.queries.answer(fork.id, "answer")
                answers.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            await hf.sessions.prune(session, keep=10)
            pruned = time.perf_counter() - begun
        return statistics.median(taken[-100:]) / statistics.median(taken[:100]), thaws, answers, pruned

    flat, thaws, answers, pruned = asyncio.run(measure())
    yield Row("prune_10000_s", pruned, 5, 2)
    yield Row("pause_10000_last_vs_first", flat, 1.2, 1.1)
    yield Row("thaw_of_10000_ms", statistics.median(thaws) * 1e3)
    yield Row("thaw_of_10000_worst_ms", max(thaws) * 1e3, 10, 5)
    yield Row("thaw_answer_and_commit_of_10000_ms", statistics.median(answers) * 1e3)
    yield Row("thaw_answer_and_commit_of_10000_worst_ms", max(answers) * 1e3)


def _thaw_seconds(hf: Holdfast, session: UUID) -> float:
    """From the file to a sandbox that could go on."""
    runtime = hf._runtime
    assert runtime is not None
    core = runtime.core
    begun = time.perf_counter()
    loaded = core.store.load(session)
    resident = Resident(loaded, core.shelf.get(loaded.session.template_id, loaded.session.template_version), core.key)
    resident.awake()
    taken = time.perf_counter() - begun
    resident.let_go()
    return taken


# ---- many sessions -----------------------------------------------------------------------------------------------------------------


def throughput(folder: Path) -> Iterator[Row]:
    """64 sessions at once in one process, each answered as soon as it waits."""
    from tests.postgres import fresh_schema

    for language in ("javascript", "lua"):
        suffix = "" if language == "javascript" else "_lua"
        rate, gil = asyncio.run(_throughput(f"sqlite:///{folder}/{language}.db", language))
        yield Row(f"pauses_per_s_sqlite{suffix}", rate, 3000, 5000, higher=True)
        if gil is not None:
            yield Row(f"python_us_per_pause{suffix}", gil * 1e6, 200, 100)
        rate, _ = asyncio.run(_throughput(fresh_schema(synced=True), language))
        yield Row(f"pauses_per_s_postgres{suffix}", rate, 2000, 3000, higher=True)


async def _throughput(address: str, language: str, sessions: int = 64, times: int = 150) -> tuple[float, float | None]:
    async with _open(address, language) as hf:
        asking = [await _asking(hf, ASKING[language]) for _ in range(sessions)]
        await asyncio.gather(*(_answer(hf, session, 20) for session in asking))
        rates = []
        for _ in range(3):
            begun = time.perf_counter()
            await asyncio.gather(*(_answer(hf, session, times) for session in asking))
            rates.append(sessions * times / (time.perf_counter() - begun))
        done = 0

        async def go_on(session: UUID) -> None:
            nonlocal done
            while not over.is_set():
                await hf.queries.answer(session, "answer")
                done += 1

        over = asyncio.Event()
        tasks = [asyncio.create_task(go_on(session)) for session in asking]
        first = done
        held = await gil_seconds(2.0)
        counted = done - first
        over.set()
        await asyncio.gather(*tasks)
        return statistics.median(rates), None if held is None else held / counted


def cold(folder: Path) -> Iterator[Row]:
    """A new process that has the file open: sessions that it has never seen are answered, each to its next committed pause."""
    for language in ("javascript", "lua"):
        suffix = "" if language == "javascript" else "_lua"
        address = f"sqlite:///{folder}/{language}.db"
        asyncio.run(_prepare(address, language, 300))
        found = json.loads(_in_new_process("cold", address, str(folder)))
        reach, aim = (4, 2) if not suffix else (None, None)
        yield Row(f"cold_resume_ms{suffix}", found["ours"] * 1e3)
        yield Row(f"cold_resume_vs_bare_commit{suffix}", found["ours"] / found["bare"], reach, aim)


async def _prepare(address: str, language: str, count: int) -> None:
    async with _open(address, language) as hf:
        for _ in range(count):
            await _asking(hf, ASKING[language])


async def answer_cold(address: str, folder: str) -> None:
    """In the new process."""
    async with Holdfast.open(address) as hf:
        waiting = (await hf.queries.list(limit=1000)).items
        bare = peers.BareCommit(Path(tempfile.mkdtemp(dir=folder)), 4000)
        ours: list[float] = []
        theirs: list[float] = []
        for query in waiting:
            begun = time.perf_counter()
            await hf.queries.answer(query.session_id, "answer", query=query.id)
            ours.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            bare()
            theirs.append(time.perf_counter() - begun)
        bare.close()
    print(json.dumps({"ours": statistics.median(ours), "bare": statistics.median(theirs)}))


def fork(folder: Path) -> Iterator[Row]:
    async def measure() -> tuple[float, float]:
        async with _open(f"sqlite:///{folder}/sessions.db", "javascript") as hf:
            session = await _asking(hf, WORKING)
            await _answer(hf, session, 20)
            taken = []
            for _ in range(200):
                begun = time.perf_counter()
                await hf.sessions.fork(session, 7)
                taken.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            await hf.sessions.fork_many(session, 1000, 7)
            return statistics.median(taken), time.perf_counter() - begun

    one, thousand = asyncio.run(measure())
    yield Row("fork_ms", one * 1e3, 2, 1)
    yield Row("forks_1000_s", thousand, 2, 1)


def many(folder: Path, count: int = 100_000) -> Iterator[Row]:
    """100,000 paused sessions of one template in one file: what a process that opens it needs, and how fast any of them is answered."""
    path = folder / "sessions.db"
    address = f"sqlite:///{path}"

    async def fill() -> None:
        async with _open(address, "javascript") as hf:

            async def some(number: int) -> None:
                for _ in range(number):
                    await _asking(hf, ASKING["javascript"])

            await asyncio.gather(*(some(count // 64 + (n < count % 64)) for n in range(64)))

    asyncio.run(fill())
    yield Row("paused_100000_disk_kb_each", _file_bytes(path) / count / 1024, 10, 6)
    found = json.loads(_in_new_process("many", address))
    yield Row("paused_100000_open_s", found["open"], 1, 0.3)
    yield Row("paused_100000_memory_mb", found["memory"], 300, 150)
    yield Row("paused_100000_answer_p99_ms", found["p99"] * 1e3, 20, 10)
    yield Row("paused_100000_answer_p50_ms", found["p50"] * 1e3)


async def answer_many(address: str) -> None:
    """In the new process: opens the file, and answers sessions here and there."""
    import random

    empty = _memory_mb()
    begun = time.perf_counter()
    async with Holdfast.open(address) as hf:
        opened = time.perf_counter() - begun
        store = open_store(address)
        sessions = []
        after = None
        while True:
            page = store.list_sessions(limit=5000, after=after)
            sessions += [session.id for session in page.items]
            after = page.next
            if after is None:
                break
        store.close()
        chosen = random.sample(sessions, 2000)
        del sessions
        gc.collect()
        taken = []
        for session in chosen:
            begun = time.perf_counter()
            await hf.queries.answer(session, "answer")
            taken.append(time.perf_counter() - begun)
        memory = _memory_mb() - empty
    taken.sort()
    p99 = taken[len(taken) * 99 // 100]
    print(json.dumps({"open": opened, "memory": memory, "p99": p99, "p50": statistics.median(taken)}))


# ---- shared ------------------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open(address: str, language: str) -> AsyncIterator[Holdfast]:
    async with Holdfast.open(address) as hf:
        await hf.templates.create("asking", language="lua" if language == "lua" else "javascript", limits=FREE)
        yield hf


async def _asking(hf: Holdfast, source: str) -> UUID:
    session = await hf.sessions.create("asking")
    await hf.executions.run(session.id, source)
    return session.id


async def _answer(hf: Holdfast, session: UUID, times: int) -> list[float]:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        await hf.queries.answer(session, "answer")
        taken.append(time.perf_counter() - begun)
    return taken


def _file_bytes(path: Path) -> int:
    """The size of a database with its log moved into it: the log is written over again and again, and stays as it is."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def _memory_mb() -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) / 1024


def _in_new_process(what: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.durable", what, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


if __name__ == "__main__":
    asyncio.run(answer_cold(*sys.argv[2:]) if sys.argv[1] == "cold" else answer_many(*sys.argv[2:]))
