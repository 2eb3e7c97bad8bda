"""The capabilities suite: what a session pays for libraries and native modules, and the same work in plain Python, in turns."""

import asyncio
import contextlib
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.rows import Row
from holdfast import Capability, Holdfast, LibraryCache, Worktree
from holdfast.capabilities import Scope, Shared
from holdfast.capabilities.database.helpers import Helpers
from holdfast.capabilities.database.sql import Caps
from holdfast.capabilities.database.sqlite import Sqlite
from holdfast.control import Holdfast as Opened
from holdfast.libraries.adding import add_package

CALLS = 2_000
"""In one step: what the step itself costs is taken off, and is little."""
ROUNDS = 9
SESSIONS = 300
CONNECTIONS = 50
SIX = ("lodash", "ramda", "dayjs", "moment", "axios", "zustand")
_BYTES = 4096


def run(only: str = "") -> Iterator[Row]:
    """All rows of the suite, or those whose measurement has this word in its name."""
    for measure in (libraries, fs, database, state):
        if only in measure.__name__:
            with tempfile.TemporaryDirectory() as folder:
                yield from asyncio.run(measure(Path(folder)))


# ---- libraries ---------------------------------------------------------------------------------------------------------------------


async def libraries(folder: Path) -> list[Row]:
    """Sessions of templates with libraries baked in, in an SQLite file: made, durably, and used for the first time."""
    cache = LibraryCache(folder / "libraries")
    for name in SIX:
        add_package(cache, name)
    rows: list[Row] = []
    async with Holdfast.open(f"sqlite:///{folder}/work.db", libraries=cache) as hf:
        bare = bare_commit(folder / "bare.db")
        made: dict[str, tuple[float, float]] = {}
        keys = {"none": SIX[:0], "lodash": SIX[:1], "six_libraries": SIX}
        for key, names in keys.items():
            template = await hf.templates.create(key)
            for name in names:
                await hf.templates.add_library(template.id, name)
            await _created(hf, key, "1")  # what a process does once is done
        for key in keys:
            made[key] = await _created(hf, key, "1" if key == "none" else "_.chunk([1, 2, 3, 4], 2).length")
        for key in ("lodash", "six_libraries"):
            rows.append(Row(f"create_with_{key}_ms", made[key][0] * 1e3, 1, 0.3))
            rows.append(Row(f"first_run_with_{key}_ms", made[key][1] * 1e3))
        rows.append(Row("create_with_none_ms", made["none"][0] * 1e3))
        rows.append(Row("first_run_with_none_ms", made["none"][1] * 1e3))
        rows.append(Row("plain_python_commit_ms", bare * 1e3))
    return rows


async def _created(hf: Opened, template: str, script: str) -> tuple[float, float]:
    """The median seconds of making a session, and of the first thing that it runs."""
    making: list[float] = []
    using: list[float] = []
    made = []
    for _ in range(SESSIONS):
        begun = time.perf_counter()
        made.append(await hf.sessions.create(template))
        making.append(time.perf_counter() - begun)
    for session in made:
        begun = time.perf_counter()
        turn = await hf.executions.run(session.id, script)
        using.append(time.perf_counter() - begun)
        assert turn.execution.status == "ok", turn.execution.error
    return statistics.median(making), statistics.median(using)


def bare_commit(path: Path) -> float:
    """One row in one transaction, with the settings that the store has."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE t (a)")
        taken: list[float] = []
        for _ in range(SESSIONS):
            begun = time.perf_counter()
            connection.execute("INSERT INTO t VALUES (randomblob(300))")
            taken.append(time.perf_counter() - begun)
    connection.close()
    return statistics.median(taken)


# ---- modules -----------------------------------------------------------------------------------------------------------------------


async def fs(folder: Path) -> list[Row]:
    """A file of 4 kB, read as text."""
    (folder / "tree").mkdir()
    file = folder / "tree" / "file.txt"
    file.write_text("x" * _BYTES)

    def plain() -> None:
        for _ in range(CALLS):
            with open(file, encoding="utf-8") as opened:
                opened.read()

    return await _module(folder, "fs", {}, "", "fs.readFileSync('file.txt')", plain, "fs_read_us")


async def database(folder: Path) -> list[Row]:
    """A row by its key, of an SQLite database in memory."""
    (folder / "tree").mkdir()
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, f"name {number}") for number in range(100)])

    def plain() -> None:
        for number in range(CALLS):
            connection.execute("SELECT name FROM t WHERE id = ?", (number % 100,)).fetchall()

    before = """
        database.configure('sqlite3', ':memory:');
        database.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)');
        for (let i = 0; i < 100; i++) database.exec('INSERT INTO t VALUES (?, ?)', i, 'name ' + i);"""
    call = "database.query('SELECT name FROM t WHERE id = ?', i % 100)"
    rows = await _module(folder, "database", {}, before, call, plain, "db_query_us")
    connection.close()
    return [*rows, *_connecting(folder / "tree")]


def _connecting(tree: Path) -> list[Row]:
    """A connection to a file and its end, and the memory that the process of one has to itself."""
    shared = Shared()
    scope = Scope(uuid4(), uuid4(), str(tree), shared=shared)
    kept = Sqlite("kept.db", scope, Caps(100, 1 << 20))  # what a process does once is done
    taken: list[float] = []
    for _ in range(CONNECTIONS):
        begun = time.perf_counter()
        Sqlite("a.db", scope, Caps(100, 1 << 20)).close()
        taken.append(time.perf_counter() - begun)
    rows = [Row("db_connect_ms", statistics.median(taken) * 1e3)]
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{shared(Helpers).pids()[1]}/smaps_rollup").read_text().splitlines()
        rows.append(Row("db_helper_mb", sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024))
    kept.close()
    shared.close()
    return rows


async def state(folder: Path) -> list[Row]:
    """A counter goes up; all of a step is durable in one commit."""
    (folder / "tree").mkdir()
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (key TEXT PRIMARY KEY, value INTEGER)")

    def plain() -> None:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(CALLS):
            statement = "INSERT INTO t VALUES ('n', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value"
            connection.execute(statement).fetchone()
        connection.execute("COMMIT")

    rows = await _module(folder, "state", {}, "", "state.incr('n')", plain, "state_incr_us")
    connection.close()
    return rows


async def _module(
    folder: Path, module: str, config: dict[str, Any], before: str, call: str, plain: Callable[[], None], key: str
) -> list[Row]:
    """Microseconds of one call in a script, of which there are many in one step, and of the same work in plain Python, in turns."""
    async with Holdfast.open(f"sqlite:///{folder}/work.db") as hf:
        await hf.templates.create("t", capabilities=[Capability("module", module, True, config)])
        worktree = Worktree("bench", "0" * 40, os.fspath(folder / "tree"))
        session = (await hf.sessions.create("t", worktree=worktree)).id
        await _ok(hf.executions.run(session, f"const {module} = require('{module}');{before}"))
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            empty = await _seconds(hf.executions.run(session, f"for (let i = 0; i < {CALLS}; i++) ;"))
            whole = await _seconds(hf.executions.run(session, f"for (let i = 0; i < {CALLS}; i++) {call};"))
            ours.append(whole - empty)
            begun = time.perf_counter()
            plain()
            theirs.append(time.perf_counter() - begun)
    mine, others = statistics.median(ours) / CALLS * 1e6, statistics.median(theirs) / CALLS * 1e6
    return [Row(key, mine), Row(f"plain_python_{key}", others), Row(f"{key}_vs_plain_python", mine / others)]


async def _seconds(work: Coroutine[Any, Any, Any]) -> float:
    begun = time.perf_counter()
    await _ok(work)
    return time.perf_counter() - begun


async def _ok(work: Coroutine[Any, Any, Any]) -> None:
    turn = await work
    assert turn.execution.status == "ok", turn.execution.error
