"""`database`: SQLite in memory or in a file of the worktree, and PostgreSQL by connections that the config names.

Theory of operation
-------------------
A session has one connection, which lives as long as the session is in memory. What it is a connection to, the script knows: the glue
keeps it with the rest of the script's state, and says it with each call. So a connection that is gone, because the session slept, was
forked or rewound, or its process ended, is made again; unless something was lost with it, which a call is told: a database in memory, or
a transaction. For this both have tokens. One that the script has and this object does not is lost; a transaction that this object has and
the script does not is from a step that was rolled back, and is rolled back too.

What a statement does in a transaction, or in memory, ends with the process. It needs no intent to be durable first: if the process dies
and the step is run again, the statement finds its token unknown. All other changes are done once.
"""

import os
import re
import secrets
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Literal

from holdfast.capabilities.database import glue
from holdfast.capabilities.database.sql import Caps, OpenDatabase, bound
from holdfast.capabilities.database.sqlite import IN_MEMORY, Sqlite
from holdfast.capabilities.files.worktree import parse_path
from holdfast.capabilities.native import NativeModule, Scope, effect
from holdfast.domain import EffectKind, InvalidPath, InvalidValue
from holdfast.sandbox import HostError

_SQLITE, _POSTGRESQL = "sqlite3", "postgresql"
_NAME: Final = re.compile(r"[A-Za-z][\w-]{0,63}", re.ASCII)
_VARIABLE: Final = re.compile(r"(?!HOLDFAST_)[A-Za-z_]\w*", re.ASCII | re.IGNORECASE)
_HELD: Final = re.compile(r"\s*(insert|update|delete|replace|merge|with)\b", re.IGNORECASE | re.ASCII)
_MOST_ROWS: Final = 100_000
_MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """A database that scripts know by a name. Its address is here, or in a variable of the daemon's environment."""

    driver: Literal["postgresql"]
    dsn: str = field(default="", metadata={"secret": True})
    dsn_env: str = ""
    require_locked_role: bool = False
    """Refuses a role that can still reach what the script of `holdfast database lockdown` revokes."""

    def __post_init__(self) -> None:
        if find_spec("psycopg") is None:
            raise InvalidValue("driver needs a package that is not installed: pip install 'holdfast[postgres]'")
        if bool(self.dsn) == bool(self.dsn_env):
            raise InvalidValue("dsn or dsn_env must be given, and not both")
        if self.dsn_env and not _VARIABLE.fullmatch(self.dsn_env):
            raise InvalidValue("dsn_env must be the name of a variable of the environment, and not one of Holdfast's own")
        if self.dsn and not _is_address(self.dsn):
            raise InvalidValue("dsn must be an address such as postgresql://user:password@host/database")


@dataclass(frozen=True, slots=True)
class DatabaseConfig:
    """Whether a database may be a file of the worktree, or which files; which others there are; how much a statement may give."""

    files: bool | list[str] = False
    connections: dict[str, ConnectionConfig] = field(default_factory=dict)
    max_rows: int = 10_000
    max_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        for at, path in enumerate(self.files if isinstance(self.files, list) else []):
            if not _is_plain(path):
                raise InvalidValue(f"files[{at}] must be a relative path without detours")
        for name in self.connections:
            if not _NAME.fullmatch(name):
                raise InvalidValue("connections must have names of letters, digits, _ and -, which begin with a letter")
        for what, given, most in (("max_rows", self.max_rows, _MOST_ROWS), ("max_bytes", self.max_bytes, _MOST_BYTES)):
            if not 1 <= given <= most:
                raise InvalidValue(f"{what} must be a whole number from 1 to {most}")


class Database(NativeModule):
    """A statement at a time; arguments may be given one by one or as arrays."""

    name: ClassVar[str] = "database"
    description: ClassVar[str] = (
        "Queries an SQLite database of the session's own, or a PostgreSQL database that the config names."
    )
    config_type: ClassVar[type[Any]] = DatabaseConfig
    confined_fields: ClassVar[frozenset[str]] = frozenset({"files", "max_rows", "max_bytes"})
    timeout_ms: ClassVar[int] = 5_000
    javascript: ClassVar[str] = glue.JAVASCRIPT
    lua: ClassVar[str] = glue.LUA
    members: ClassVar[tuple[str, ...]] = (
        "configure",
        "query",
        "exec",
        "begin",
        "commit",
        "rollback",
        "transaction",
        "close",
    )

    def __init__(self, scope: Scope, config: DatabaseConfig) -> None:
        super().__init__(scope, config)
        self._database: OpenDatabase | None = None
        self._which: list[str] = []
        """Driver, name and token of the database that is open."""
        self._transaction = ""

    # To connect twice is to connect.
    @effect(EffectKind.IDEMPOTENT)
    def configure(self, driver: str, dsn: str) -> str:
        """Gives the token of a database in memory, or nothing."""
        token = secrets.token_hex(8) if (driver, dsn) == (_SQLITE, IN_MEMORY) else ""
        database = self._open(driver, dsn)
        self.close()
        self._database, self._which = database, [driver, dsn, token]
        return token

    # The kind belongs to the function, not to the statement. So this one is a read because it can be nothing else: what would change
    # something is refused. Then it needs no intent, which costs a write of the store, and a crash does not make it uncertain.
    @effect(EffectKind.READ)
    def query(self, place: Any, sql: str, *args: Any) -> list[dict[str, Any]]:
        given = bound(args)
        database = self._at(place)
        try:
            return database.query(sql, given)
        except HostError as error:
            if error.script_code != "DATABASE_UNAVAILABLE":
                raise
        return self._at(place).query(sql, given)  # the connection was about to end: a read may be done again

    # Anything may happen here, and nobody can tell from the statement whether twice is as good as once.
    @effect(EffectKind.ONCE)
    def exec(self, place: Any, sql: str, *args: Any) -> list[Any]:
        """What came of a statement, and the token of the transaction that is open then."""
        given = bound(args)
        database = self._at(place)
        try:
            done = database.exec(sql, given)
        finally:
            self._look(database)
        result = {"success": True, "rowsAffected": done.affected, "lastInsertId": done.last_id}
        return [result if done.rows is None else {**result, "rows": done.rows}, self._transaction]

    @effect(EffectKind.IDEMPOTENT)
    def execHeld(self, place: Any, sql: str, *args: Any) -> list[Any]:  # noqa: N802 - a name of the scripts' languages
        """The same for what is lost if the process dies: a change of a database in memory, or within a transaction."""
        _, dsn, _, transaction = _read(place)
        if dsn != IN_MEMORY and not (transaction and _HELD.match(sql)):
            raise HostError("this statement is not one of a transaction", code="INVALID_ARGUMENT")
        return self.exec(place, sql, *args)

    # It is as good as not begun if the process dies.
    @effect(EffectKind.IDEMPOTENT)
    def begin(self, place: Any) -> str:
        database = self._at(place)
        if self._transaction:
            raise HostError("there is a transaction: commit it or roll it back first", code="TRANSACTION_OPEN")
        database.begin()
        self._look(database)
        return self._transaction

    @effect(EffectKind.ONCE)
    def commit(self, place: Any) -> None:
        database = self._at(place)
        if not self._transaction:
            raise HostError("there is no transaction: call begin first", code="TRANSACTION_NOT_OPEN")
        try:
            database.commit()
        finally:
            self._look(database)

    @effect(EffectKind.IDEMPOTENT)
    def rollback(self, place: Any) -> None:
        """Also of a transaction that was lost: then there is nothing to do."""
        if self._database is not None and self._which == _read(place)[:3]:
            self._database.rollback()
            self._look(self._database)

    @effect(EffectKind.IDEMPOTENT)
    def close(self) -> None:
        database, self._database = self._database, None
        self._which, self._transaction = [], ""
        if database is not None:
            database.close()

    def _at(self, place: Any) -> OpenDatabase:
        """The database that a script means, with the transaction that it is in."""
        driver, dsn, token, transaction = _read(place)
        database = self._database if self._which == [driver, dsn, token] else None
        if database is not None and not database.is_usable():
            self.close()
            database = None
        if database is None and token:
            message = (
                "the database in memory is gone: a pause, a restart, a fork or a rewind ends it. Call configure for a new one"
            )
            raise HostError(message, code="DATABASE_LOST")
        if transaction and (database is None or transaction != self._transaction or not database.in_transaction):
            message = (
                "the transaction was rolled back when its connection ended, or by the database. Call rollback, and begin again"
            )
            raise HostError(message, code="TRANSACTION_LOST")
        if database is not None and not transaction and self._transaction:
            database.rollback()
            self._look(database)
        if database is None:
            self.close()
            database = self._database = self._open(driver, dsn)
            self._which = [driver, dsn, token]
        return database

    def _look(self, database: OpenDatabase) -> None:
        """Whether there is a transaction now."""
        if not database.in_transaction:
            self._transaction = ""
        elif not self._transaction:
            self._transaction = secrets.token_hex(8)

    def _open(self, driver: str, dsn: str) -> OpenDatabase:
        caps = Caps(self.config.max_rows, self.config.max_bytes)
        if driver == _SQLITE:
            if dsn != IN_MEMORY:
                self._check_file(dsn)
            return Sqlite(dsn, self.scope, caps)
        if driver != _POSTGRESQL:
            raise HostError(f"the driver must be {_SQLITE!r} or {_POSTGRESQL!r}", code="DRIVER_UNKNOWN")
        found = self.config.connections.get(dsn)
        if found is None:
            raise HostError("the template's config has no connection of this name", code="CONNECTION_NOT_GRANTED")
        address = found.dsn or os.environ.get(found.dsn_env, "")
        if not address or not _is_address(address):
            raise HostError("the address of this connection is not set, or is none", code="DATABASE_UNAVAILABLE")
        from holdfast.capabilities.database.postgresql import (
            Postgresql,  # takes a while, and not every installation has what it needs
        )

        return Postgresql(address, self.scope, caps, locked=found.require_locked_role)

    def _check_file(self, dsn: str) -> None:
        if dsn.startswith(("/", "file:")) or not dsn:
            raise HostError(f"a database is {IN_MEMORY!r} or a relative path in the worktree", code="INVALID_PATH")
        files = self.config.files
        if files is not True and not (files and dsn in files):
            message = f"the template allows no such database: there is {', '.join(files or [IN_MEMORY])}"
            raise HostError(message, code="FILES_NOT_ALLOWED")


def _read(place: Any) -> list[str]:
    """What the glue gives: driver, name, and the tokens of a database in memory and of a transaction, each of which may be empty."""
    if not place:
        raise HostError("no database is configured: call configure first", code="DATABASE_NOT_CONFIGURED")
    if type(place) is not list or len(place) != 4 or not all(type(part) is str for part in place):
        raise HostError("a place is four texts", code="INVALID_ARGUMENT")
    return place


def _is_plain(path: str) -> bool:
    try:
        return parse_path(path) == path
    except InvalidPath:
        return False


def _is_address(text: str) -> bool:
    from holdfast.capabilities.database.postgresql import check_address

    return check_address(text)
