"""`database`: an SQLite database of the session's own, in memory or, if the config says so, a file of its worktree.

There is one connection, which lives as long as the session is in memory; what a database in memory holds is gone with it. A script that
goes on after that, because its session slept or its process ended, is told to configure it again.
"""

import errno
import math
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from holdfast.capabilities._kinds import is_whole
from holdfast.capabilities._sql import LARGEST_VALUE, Authorizer, prepare
from holdfast.capabilities.native import NativeModule, Scope, effect
from holdfast.capabilities.worktree import SIDE_FILES, find_place
from holdfast.domain import EffectKind
from holdfast.sandbox import BigInt, HostError, Undefined

_DRIVER: Final = "sqlite3"
_IN_MEMORY: Final = ":memory:"
_LONGEST_S: Final = 5.0
_LARGEST_INTEGER: Final = 1 << 63
_MOST_ROWS: Final = 10_000
_LARGEST_RESULT: Final = 8 << 20
_MOST_ARGUMENTS: Final = 10_000
_LOOK_OPERATIONS: Final = 100
_BUSY_S: Final = 1.0
_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")


@dataclass(frozen=True, slots=True)
class DatabaseConfig:
    """Whether a database may be a file of the worktree."""

    files: bool = False


class Database(NativeModule):
    """A statement at a time; arguments may be given one by one or as arrays."""

    name: ClassVar[str] = "database"
    description: ClassVar[str] = "Queries an SQLite database of the session's own (driver sqlite3)."
    config_type: ClassVar[type[Any]] = DatabaseConfig

    def __init__(self, scope: Scope, config: DatabaseConfig) -> None:
        super().__init__(scope, config)
        self._connection: sqlite3.Connection | None = None
        self._authorizer = Authorizer()
        self._until = math.inf

    # To connect twice is to connect.
    @effect(EffectKind.IDEMPOTENT)
    def configure(self, driver: str, dsn: str) -> None:
        if driver != _DRIVER:
            raise HostError(f"the driver must be {_DRIVER!r}", code="DRIVER_UNKNOWN")
        place = dsn if dsn == _IN_MEMORY else self._file(dsn)
        self.close()
        self._authorizer.begin(reads=False)
        with self._told():
            # Nothing is prepared twice: a statement that was allowed to write is not one that reads.
            connection = sqlite3.connect(
                place, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=0
            )
            try:
                prepare(connection)
                connection.set_authorizer(self._authorizer)
                connection.set_progress_handler(self._is_over, _LOOK_OPERATIONS)
            except BaseException:
                connection.close()
                raise
        self._connection = connection

    # The kind belongs to the function, not to the statement. So this one is a read because it can be nothing else: the authorizer refuses
    # what would change something. Then it needs no intent, which costs a write of the store, and a crash does not make it uncertain.
    @effect(EffectKind.READ)
    def query(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        with self._told(), closing(self._execute(sql, args, reads=True)) as cursor:
            names = [column[0] for column in cursor.description or ()]
            rows: list[dict[str, Any]] = []
            size = 0
            for row in cursor:
                size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
                if len(rows) == _MOST_ROWS or size > _LARGEST_RESULT:
                    message = f"the result has more than {_MOST_ROWS} rows or {_LARGEST_RESULT} bytes: ask for less"
                    raise HostError(message, code="RESULT_TOO_LARGE")
                rows.append(dict(zip(names, row, strict=True)))
            return rows

    # Anything may happen here, and nobody can tell from the statement whether twice is as good as once.
    @effect(EffectKind.ONCE)
    def exec(self, sql: str, *args: Any) -> dict[str, Any]:
        with self._told(), closing(self._execute(sql, args, reads=False)) as cursor:
            return {"success": True, "rowsAffected": max(0, cursor.rowcount), "lastInsertId": cursor.lastrowid or 0}

    @effect(EffectKind.IDEMPOTENT)
    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _execute(self, sql: str, args: tuple[Any, ...], *, reads: bool) -> sqlite3.Cursor:
        connection = self._connection
        if connection is None:
            message = (
                "no database is configured: call configure first, "
                "also after a pause or a restart, which end a connection and all that is only in memory"
            )
            raise HostError(message, code="DATABASE_NOT_CONFIGURED")
        given = _arguments(args)
        self._authorizer.begin(reads=reads)
        self._until = time.monotonic() + min(_LONGEST_S, self.scope.time_left(True))
        return connection.execute(sql, given)

    def _file(self, dsn: str) -> str:
        if dsn.startswith(("/", "file:")) or not dsn:
            raise HostError(f"a database is {_IN_MEMORY!r} or a relative path in the worktree", code="INVALID_PATH")
        if not self.config.files:
            raise HostError("the template allows only databases in memory", code="FILES_NOT_ALLOWED")
        # SQLite opens by path and follows no link at its end. A folder on the way could be replaced by a link only by somebody
        # who writes in the worktree by other means than this session's: no module makes links.
        names = find_place(self.scope.root, dsn)
        place = os.path.join(self.scope.root, *names)
        if place.endswith(SIDE_FILES) or _names_another(place + SIDE_FILES[0]):
            raise HostError("this cannot be opened as a database", code="INVALID_PATH")
        return place

    def _is_over(self) -> bool:
        return time.monotonic() > self._until or self.scope.is_stopped()

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


def _names_another(journal: str) -> bool:
    """Whether a journal that was left behind names a file of its own choice: SQLite would delete that. Ours never do."""
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return error.errno != errno.ENOENT
    try:
        found = os.fstat(descriptor)
        end = os.pread(descriptor, len(_MAGIC), max(0, found.st_size - len(_MAGIC)))
        return not stat.S_ISREG(found.st_mode) or end == _MAGIC
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _arguments(args: tuple[Any, ...]) -> list[Any]:
    """As SQLite takes them; lists among them are flattened, once."""
    flat: list[Any] = []
    for arg in args:
        flat += arg if isinstance(arg, list | tuple) else [arg]
    if len(flat) > _MOST_ARGUMENTS:
        raise HostError(f"a statement has at most {_MOST_ARGUMENTS} arguments", code="INVALID_ARGUMENT")
    return [_bound(value) for value in flat]


def _bound(value: Any) -> Any:
    if value is None or value is Undefined:
        return None
    if isinstance(value, bool | BigInt):
        value = int(value)
    if type(value) is int and -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        return value
    if type(value) is float:
        return value
    if type(value) in (str, bytes) and len(value) <= LARGEST_VALUE and (isinstance(value, bytes) or is_whole(value)):
        return value
    message = f"an argument is null, true or false, a number, text or bytes, of at most {LARGEST_VALUE}"
    raise HostError(message, code="INVALID_ARGUMENT")
