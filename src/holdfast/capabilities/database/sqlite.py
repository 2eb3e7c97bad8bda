"""SQLite for scripts: the daemon's side of a connection, whose database is in memory or a file of a worktree.

SQLite itself runs in a helper process, see `helpers` and `docs/decisions/sql-in-a-helper-process.md`. The folder of a file is reached by
descriptors below the worktree; the helper gets that descriptor and one name. So nothing opens a file by a path that somebody could change.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.capabilities._kinds import is_whole
from holdfast.capabilities.database.helpers import Helper, Helpers, Killed, Left
from holdfast.capabilities.database.sql import Caps, Done
from holdfast.capabilities.database.sqlite_helper import wire
from holdfast.capabilities.files.protected import SIDE_FILES, forbidden
from holdfast.capabilities.files.worktree import locate, open_place
from holdfast.capabilities.native import Scope
from holdfast.sandbox import HostError

IN_MEMORY: Final = ":memory:"

_MEMORY_MB: Final = (16, 256)
"""What SQLite may have of what a session may have: at least, at most."""
_LONGEST_S: Final = 60.0
_ROLLBACK_S: Final = 1.0
_MOST_ARGUMENT_BYTES: Final = 16 << 20
_MESSAGES: Final = {
    "CANCELLED": "the execution was cancelled",
    "SQL_TIMEOUT": "the statement took too long",
    "DATABASE_FAILED": "the process of the database has ended: the statement needed too much memory, or SQLite failed",
}


class Sqlite:
    """A connection to a database: a relative path in the worktree, or ":memory:"."""

    def __init__(self, dsn: str, scope: Scope, caps: Caps) -> None:
        self._dsn, self._scope, self._caps = dsn, scope, caps
        self._is_memory = dsn == IN_MEMORY
        self._in_transaction = False
        self._helper = self._open()

    @property
    def in_transaction(self) -> bool:
        return self._in_transaction and not self._helper.is_gone

    def is_usable(self) -> bool:
        return self._helper.look()

    def query(self, sql: str, args: Sequence[Any]) -> list[dict[str, Any]]:
        return self._call("query", sql, args).rows or []

    def exec(self, sql: str, args: Sequence[Any]) -> Done:
        return self._call("exec", sql, args)

    def begin(self) -> None:
        self._call("begin")

    def commit(self) -> None:
        self._call("commit")

    def rollback(self) -> None:
        if self.in_transaction:
            try:
                self._call("rollback", least=_ROLLBACK_S)
            except HostError:
                self.close()  # which rolls back, too

    def close(self) -> None:
        self._helper.close()

    def _open(self) -> Helper:
        """A helper that has opened the database."""
        if self._is_memory:
            return self._start("", None)
        root = self._scope.root
        with open_place(root, locate(root, self._dsn)) as (folder, name):
            if name.casefold().endswith(SIDE_FILES):
                raise HostError("this cannot be opened as a database", code="INVALID_PATH")
            return self._start(name, folder)

    def _start(self, name: str, folder: int | None) -> Helper:
        least, most = _MEMORY_MB
        order = {
            "name": name,
            "forbidden": [list(identity) for identity in forbidden()],
            "memory": min(max(self._scope.mem_mb, least), most) << 20,
            "rows": self._caps.rows,
            "bytes": self._caps.bytes,
        }
        helper = self._scope.shared(Helpers).start(order, folder, self._scope.owner, self._caps.bytes)
        helper.is_stateful = self._is_memory
        try:
            answer = self._told(helper, (), self._seconds())
            if answer.kind != wire.OPENED:
                raise _failure(answer)
            self._charge(answer.head[-1])
        except Left:
            raise HostError(_MESSAGES["DATABASE_FAILED"], code="DATABASE_FAILED") from None
        except BaseException:
            helper.close()
            raise
        return helper

    def _call(self, operation: str, sql: str = "", args: Sequence[Any] = (), *, least: float = 0.0) -> Done:
        if "\0" in sql or not is_whole(sql):
            raise HostError("a statement is text without NUL", code="INVALID_ARGUMENT")
        if wire.size_of(sql) > wire.LONGEST_SQL:
            raise HostError(f"a statement has at most {wire.LONGEST_SQL} bytes: give values as arguments", code="SQL_ERROR")
        if sum(map(wire.size_of, args)) > _MOST_ARGUMENT_BYTES:
            message = f"the arguments of a statement have at most {_MOST_ARGUMENT_BYTES} bytes together"
            raise HostError(message, code="INVALID_ARGUMENT")
        seconds = max(self._seconds(), least)
        try:
            answer = self._told(self._helper, _request(operation, seconds, sql, args), seconds)
        except Left:
            self._reopen()
            answer = self._told(self._helper, _request(operation, seconds, sql, args), seconds)
        try:
            if answer.kind == wire.FAILED:
                code, message, self._in_transaction, used = answer.head
                failed = HostError(str(message), code=str(code))
            else:
                affected, last_id, names, self._in_transaction, used = answer.head
                failed = None
            self._in_transaction = bool(self._in_transaction)
            self._charge(used)
            self._helper.is_stateful = self._is_memory or self._in_transaction
            if failed is not None:
                raise failed
            return Done(int(affected), int(last_id), None if names is None else _rows(names, answer.values))
        except (ArithmeticError, TypeError, ValueError):
            self._helper.close()
            raise HostError(_MESSAGES["DATABASE_FAILED"], code="DATABASE_FAILED") from None

    def _reopen(self) -> None:
        """Another helper, in the place of one that was closed while nobody used it. What it held is lost."""
        if self._is_memory:
            raise HostError("the database in memory is gone: nobody used it for long", code="DATABASE_LOST")
        if self._in_transaction:
            raise HostError("the transaction was rolled back: nobody used it for long", code="TRANSACTION_LOST")
        self._helper = self._open()

    def _told(self, helper: Helper, frames: Iterator[bytes] | Sequence[bytes], seconds: float) -> wire.Message:
        """The helper's answer. Raises `Left` if it has not seen the request."""
        begun = time.monotonic()
        try:
            return helper.call(frames, seconds, self._scope.is_stopped)
        except Killed as killed:
            self._charge((time.monotonic() - begun) * 1e6)  # it cannot say how much it has computed
            if killed.uncertain and not self._is_memory:
                message = "the statement was stopped while it was committed: it is not known whether it was done"
                raise HostError(message, code="EFFECT_UNCERTAIN") from None
            raise HostError(_MESSAGES[killed.code], code=killed.code) from None

    def _charge(self, microseconds: float) -> None:
        """What a helper says that it has computed. It cannot be less than nothing, nor more than a call may take."""
        self._scope.charge(min(max(microseconds / 1e6, 0.0), _LONGEST_S))

    def _seconds(self) -> float:
        return max(0.0, min(self._scope.time_left(True), _LONGEST_S))


def _request(operation: str, seconds: float, sql: str, args: Sequence[Any]) -> Iterator[bytes]:
    encoder = wire.Encoder()
    yield from encoder.add(args)
    yield encoder.end(wire.REQUEST, operation, seconds, sql)


def _rows(names: list[str], values: list[Any]) -> list[dict[str, Any]]:
    width = len(names)
    if not all(type(name) is str for name in names) or not width or len(values) % width:
        raise ValueError
    columns = [iter(values)] * width
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _failure(answer: wire.Message) -> HostError:
    code, message, *_ = [*answer.head, "", ""]
    return HostError(str(message), code=str(code) or "DATABASE_FAILED")
