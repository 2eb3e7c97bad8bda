"""SQLite, in memory or in a file of a worktree.

There may be more beside a file than SQLite's own journals: a worktree can come from anywhere. SQLite does what a journal says, and
follows links that bear a journal's name. So a file is opened only if what lies beside it is harmless.
"""

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from holdfast.capabilities.database.sql import Caps, Done, Rows
from holdfast.capabilities.database.sqlite_rules import Authorizer, prepare
from holdfast.capabilities.files.worktree import SIDE_FILES, find_place
from holdfast.capabilities.native import Scope
from holdfast.sandbox import HostError

IN_MEMORY: Final = ":memory:"

_LOOK_OPERATIONS: Final = 100
_BUSY_S: Final = 1.0
_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_LOOK: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Sqlite:
    """A connection to a database. `place` is a path that `file_of` gave, or ":memory:"."""

    def __init__(self, place: str, scope: Scope, caps: Caps) -> None:
        self._scope, self._caps = scope, caps
        self._authorizer = Authorizer()
        self._until = time.monotonic() + scope.time_left(True)
        with self._told():
            # Nothing is prepared twice: a statement that was allowed to write is not one that reads.
            self._connection = sqlite3.connect(
                place, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=0
            )
            try:
                prepare(self._connection)
                self._connection.set_authorizer(self._authorizer)
                self._connection.set_progress_handler(self._is_over, _LOOK_OPERATIONS)
            except BaseException:
                self._connection.close()
                raise

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def is_usable(self) -> bool:
        return True

    def query(self, sql: str, args: Sequence[Any]) -> list[dict[str, Any]]:
        return self._run(sql, args, reads=True).rows or []

    def exec(self, sql: str, args: Sequence[Any]) -> Done:
        if self.in_transaction or "returning" not in sql.lower():
            return self._run(sql, args, reads=False)
        # Rows come after the change is made. If they are too many it must not have been.
        self.begin()
        try:
            done = self._run(sql, args, reads=False)
        except BaseException:
            self.rollback()
            raise
        self.commit()
        return done

    def begin(self) -> None:
        # The lock is taken at once: two who both read first could neither go on nor wait.
        self._run("BEGIN IMMEDIATE", (), reads=False)

    def commit(self) -> None:
        try:
            self._run("COMMIT", (), reads=False)
        except HostError:
            self.rollback()
            raise

    def rollback(self) -> None:
        if self.in_transaction:
            self._authorizer.begin(reads=False)
            with self._told():
                self._connection.rollback()

    def close(self) -> None:
        self._connection.close()

    def _run(self, sql: str, args: Sequence[Any], *, reads: bool) -> Done:
        self._authorizer.begin(reads=reads)
        self._until = time.monotonic() + self._scope.time_left(True)
        with self._told(), closing(self._connection.execute(sql, args)) as cursor:
            names = [column[0] for column in cursor.description or ()]
            rows = Rows(self._caps)
            for row in cursor:
                rows.add(names, row, sum(len(value) if isinstance(value, str | bytes) else 8 for value in row))
            return Done(max(0, cursor.rowcount), cursor.lastrowid or 0, rows.found if names else None)

    def _is_over(self) -> bool:
        return time.monotonic() > self._until or self._scope.is_stopped()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite raises, as an error of the script."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            name = getattr(error, "sqlite_errorname", "")
            if self._authorizer.refused:
                message = "this statement does what is not allowed here; query only reads, and exec reaches only this database"
                raise HostError(message, code="SQL_NOT_ALLOWED") from None
            if name == "SQLITE_INTERRUPT":
                raise HostError("the statement took too long", code="SQL_TIMEOUT") from None
            raise HostError(str(error)[:500], code="SQL_ERROR") from None


def file_of(root: str, dsn: str) -> str:
    """Where a database is that is a file of the worktree. It need not be there yet."""
    # SQLite opens by path. A folder on the way could be replaced by a link only by somebody who writes in the worktree by other
    # means than this session's: no module makes links.
    place = os.path.join(root, *find_place(root, dsn))
    if (
        place.casefold().endswith(SIDE_FILES)
        or not _is_harmless(place)
        or not all(_is_harmless(place + end) for end in SIDE_FILES)
    ):
        raise HostError("this cannot be opened as a database", code="INVALID_PATH")
    return place


def _is_harmless(path: str) -> bool:
    """Whether nothing is there, or a regular file of this name alone that is no journal which names a file of its own choice: SQLite
    would delete that. Its own journals never do, where nothing is attached.
    """
    try:
        descriptor = os.open(path, _LOOK)
    except OSError as error:
        return error.errno == errno.ENOENT
    try:
        found = os.fstat(descriptor)
        end = os.pread(descriptor, len(_MAGIC), max(0, found.st_size - len(_MAGIC)))
        return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and end != _MAGIC
    except OSError:
        return False
    finally:
        os.close(descriptor)
