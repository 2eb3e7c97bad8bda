"""The query function of `database` as it was when SQLite ran within the daemon's process, as a native module of another package.

Its price is what `db_query_us_vs_before` is measured against: the same way through the sandbox, the journal and the module framework, and a
connection with the same settings: no statement cache, an authorizer, a progress handler every 100 operations, rows as dicts.
"""

import asyncio
import sqlite3
import statistics
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from holdfast import Capability, Holdfast, Limits
from holdfast.capabilities import NativeModule, effect
from holdfast.capabilities.database.sql import Caps, Rows, bound
from holdfast.domain import EffectKind
from holdfast.sandbox import HostError

CALLS = 2_000
ROUNDS = 9
_CREATE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"
_NO_TABLES = frozenset(["sqlite_master", "sqlite_schema"])
_QUERY = "SELECT name FROM t WHERE id = ?"


class _Authorizer:
    """What each part of a statement was asked."""

    def __call__(self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
        return sqlite3.SQLITE_OK if self._allows(action, first) else sqlite3.SQLITE_DENY

    def _allows(self, action: int, first: str | None) -> bool:
        if action == sqlite3.SQLITE_FUNCTION:
            return False
        if action == sqlite3.SQLITE_PRAGMA:
            return False
        return action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ) and (first or "").lower() not in _NO_TABLES


class Before(NativeModule):
    """An SQLite database in memory, within the process."""

    name: ClassVar[str] = "before"
    description: ClassVar[str] = "Queries an SQLite database within the daemon's process."
    javascript: ClassVar[str] = (
        "module.exports = {query: (sql, ...args) => host.query(['sqlite3', ':memory:', 'x', ''], sql, ...args)};"
    )
    members: ClassVar[tuple[str, ...]] = ("query",)

    _connection: sqlite3.Connection | None = None

    @effect(EffectKind.READ)
    def query(self, place: Any, sql: str, *args: Any) -> list[dict[str, Any]]:
        """Rows of a statement."""
        if self._connection is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=0)
            self._connection.execute(_CREATE)
            self._connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, f"name {number}") for number in range(100)])
            self._connection.text_factory = lambda data: data.decode(errors="replace")
            self._connection.set_authorizer(_Authorizer())
            self._connection.set_progress_handler(lambda: time.monotonic() > self._until or self.scope.is_stopped(), 100)
        given = bound(args)
        if type(place) is not list or len(place) != 4 or not all(type(part) is str for part in place):
            raise HostError("a place is four texts", code="INVALID_ARGUMENT")
        self._until = time.monotonic() + self.scope.time_left(True)
        with closing(self._connection.execute(sql, given)) as cursor:
            names = [column[0] for column in cursor.description or ()]
            rows = Rows(Caps(10_000, 8 << 20))
            for row in cursor:
                rows.add(names, row, sum(len(value) if isinstance(value, str | bytes) else 8 for value in row))
            return rows.found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def db_query_seconds(folder: Path) -> tuple[float, float]:
    """Seconds of one query by its key: by `database` as it is, and as it was. Many in one step, in turns."""
    _install(folder)
    return asyncio.run(_measure(folder))


def _install(folder: Path) -> None:
    """Makes this a package that offers a module; before any module was asked for in this process."""
    described = folder / "packages" / "before-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: before\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[holdfast.capabilities]\nbefore = {__name__}:Before\n")
    sys.path.insert(0, str(described.parent))


async def _measure(folder: Path) -> tuple[float, float]:
    async with Holdfast.open(f"sqlite:///{folder}/work.db") as hf:
        grants = [Capability("module", name, True, {}) for name in ("database", "before")]
        await hf.templates.create("t", capabilities=grants, limits=Limits(wall_ms=0, cpu_ms=0))
        session = (await hf.sessions.create("t")).id

        async def seconds(script: str) -> float:
            begun = time.perf_counter()
            turn = await hf.executions.run(session, script)
            taken = time.perf_counter() - begun
            assert turn.execution.status == "ok", turn.execution.error
            return taken

        filling = f"""
            const database = require('database'), before = require('before');
            database.configure('sqlite3', ':memory:');
            database.exec('{_CREATE}');
            for (let i = 0; i < 100; i++) database.exec('INSERT INTO t VALUES (?, ?)', i, 'name ' + i);"""
        await seconds(filling)
        now: list[float] = []
        was: list[float] = []
        for _ in range(ROUNDS):
            empty = await seconds(f"for (let i = 0; i < {CALLS}; i++) ;")
            for module, taken in (("database", now), ("before", was)):
                whole = await seconds(f"for (let i = 0; i < {CALLS}; i++) {module}.query('{_QUERY}', i % 100)")
                taken.append((whole - empty) / CALLS)
        return statistics.median(now), statistics.median(was)
