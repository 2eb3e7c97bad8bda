"""One connection to one database: a process that runs the statements of one session, until its socket is closed.

It is forked by `fork_server`, gives up all that it does not need, opens the database and says so. Then a request comes at a time. A request
has a limit of time. Within it SQLite is asked to stop; a moment later the process is ended, by its own timer and by the daemon, since
there are operations of SQLite that cannot be asked.
"""

import os
import re
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import apsw

from . import confinement, wire
from .rules import LARGEST_DATABASE, Authorizer, prepare
from .vfs import Files, Unfit

_LOOK_OPERATIONS: Final = 500
_BUSY_MS: Final = 1_000
_GRACE_S: Final = 0.3
"""How long after a limit the process ends by its own timer, if the daemon has not ended it."""
_SHOWN: Final = 500
_PYTHON_MEMORY: Final = 64 << 20
"""Beside what SQLite has: rows on their way."""
_LARGEST_FILE: Final = 256 << 20
_IDLE_S, _MEMORY_IDLE_S = 60, 600
"""How long one waits for a request. A transaction and a database in memory are lost then."""
_REST: Final = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*(?:.*?\*/|.*$))*", re.DOTALL)


class Order(NamedTuple):
    """What a helper is for."""

    name: str
    """Of the file, in its folder. Empty: a database in memory."""
    forbidden: list[list[int]]
    """Files and folders that must not be opened, by device and number."""
    memory: int
    """Bytes that SQLite may have."""
    rows: int
    bytes: int
    """Of a result."""


class Refused(Exception):
    """A statement that fails by a rule of ours."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def run(order: Order, connection: socket.socket, folder: int, files: Files, parent: int) -> NoReturn:
    """The whole life of a helper."""
    status = 1
    try:
        confinement.die_with(parent)
        apsw.randomness(0)
        apsw.randomness(1)  # a seed of its own, as long as there is something to read it from
        try:
            path = files.seal(folder, order.name, frozenset((device, number) for device, number in order.forbidden))
        except Unfit:
            connection.sendall(wire.Encoder().end(wire.FAILED, "INVALID_PATH", "this cannot be opened as a database", False, 0))
            os._exit(0)
        wire.set_timeout(connection, _IDLE_S if order.name else _MEMORY_IDLE_S)
        confinement.limit(order.memory + _PYTHON_MEMORY, max(_LARGEST_FILE, files.size() + LARGEST_DATABASE))
        holds = confinement.confine(folder)
        Worker(order, connection, path).serve(holds)
        status = 0
    except (OSError, wire.Malformed, MemoryError):
        pass  # the daemon is gone, or has to do without this process: it sees the end of its socket
    finally:
        os._exit(status)


class Worker:
    def __init__(self, order: Order, connection: socket.socket, path: str) -> None:
        self._order, self._socket, self._path = order, connection, path
        self._receiver = wire.Receiver(connection)
        self._authorizer = Authorizer()
        self._decoder = wire.Decoder((1 << 20, 256 << 20))
        self._until = time.monotonic() + 5
        self._names: list[str] = []
        self._sql = ""
        apsw.hard_heap_limit(order.memory)

    def serve(self, holds: list[str]) -> None:
        try:
            database = self._database = self._open()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and this process ends
            self._send(wire.Encoder().end(wire.FAILED, *self._told(error), False, 0))
            return
        self._send(wire.Encoder().end(wire.OPENED, holds, int(time.process_time() * 1e6)))
        while (request := self._next()) is not None:
            operation, seconds, sql = request.head
            signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_S)
            begun, self._until = time.process_time(), time.monotonic() + seconds
            database.set_busy_timeout(max(0, min(_BUSY_MS, int(seconds * 1000) - 20)))
            encoder = wire.Encoder()
            try:
                head = self._do(operation, sql, request.values, encoder)
                kind = wire.DONE
            except Exception as error:  # noqa: BLE001 - all that SQLite and its functions raise is the script's
                head, kind, encoder = self._told(error), wire.FAILED, wire.Encoder()
            used = int((time.process_time() - begun) * 1e6)
            answer = encoder.end(kind, *head, database.in_transaction, used)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._send(answer)
        database.close()

    def _open(self) -> apsw.Connection:
        database = apsw.Connection(self._path, statementcachesize=0)
        database.set_busy_timeout(_BUSY_MS)
        prepare(database, LARGEST_DATABASE)
        database.authorizer = self._authorizer
        database.set_progress_handler(self._is_over, _LOOK_OPERATIONS)
        database.exec_trace = self._begins
        if self._order.name:
            database.set_commit_hook(self._commits)
        return database

    def _next(self) -> wire.Message | None:
        """A request. None: there are no more, or none has come for so long."""
        while (found := self._decoder.next()) is None:
            try:
                data = self._receiver.receive()
            except BlockingIOError:
                self._send(wire.frame(wire.LEAVES))
                return None
            if not data:
                return None
            self._decoder.feed(data)
        return found

    # ---- statements ----------------------------------------------------------------------------------------------------------------

    def _do(self, operation: str, sql: str, args: Sequence[Any], encoder: wire.Encoder) -> list[Any]:
        if operation == "query":
            return self._run(sql, args, encoder, reads=True)
        if operation == "exec":
            if self._database.in_transaction or "returning" not in sql.lower():
                return self._run(sql, args, encoder, reads=False)
            # Rows come after the change is made. If they are too many it must not have been.
            self._plain("BEGIN IMMEDIATE")
            try:
                done = self._run(sql, args, encoder, reads=False)
                self._plain("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            return done
        if operation == "begin":  # the lock is taken at once: two who both read first could neither go on nor wait
            self._plain("BEGIN IMMEDIATE")
        elif operation == "commit":
            try:
                self._plain("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        elif operation == "rollback":
            self._roll_back()
        else:
            raise Refused("SQL_ERROR", "unknown operation")
        return [0, 0, None]

    def _plain(self, sql: str) -> None:
        self._run(sql, (), wire.Encoder(), reads=False)

    def _roll_back(self) -> None:
        if self._database.in_transaction:
            self._until += _GRACE_S
            self._plain("ROLLBACK")

    def _run(self, sql: str, args: Sequence[Any], encoder: wire.Encoder, *, reads: bool) -> list[Any]:
        database = self._database
        self._authorizer.begin(reads=reads)
        self._names, self._sql = [], sql
        before = database.total_changes()
        cursor = database.cursor()
        try:
            # Nothing is prepared twice: a statement that was allowed to write is not one that reads.
            cursor.execute(sql, args, can_cache=False)
            for row in self._counted(cursor):
                for frame in encoder.add(row):
                    self._socket.sendall(frame)
        finally:
            cursor.close(True)
        affected = database.changes() if database.total_changes() != before else 0
        return [affected, database.last_insert_rowid(), self._names or None]

    def _counted(self, cursor: apsw.Cursor) -> Iterator[tuple[Any, ...]]:
        """The rows, until there are too many."""
        most, names = self._order, sum(map(wire.size_of, self._names))
        size = 0
        for number, row in enumerate(cursor, 1):
            size += names + sum(map(wire.size_of, row))
            if number > most.rows or size > most.bytes or number * len(row) > wire.MOST_VALUES:
                message = (
                    f"the result has more than {most.rows} rows, {most.bytes} bytes or {wire.MOST_VALUES} values: ask for less"
                )
                raise Refused("RESULT_TOO_LARGE", message)
            yield row

    def _begins(self, cursor: apsw.Cursor, sql: str, _: Any) -> bool:
        """A statement is prepared and would run now: the only one of its text."""
        rest = self._sql[len(sql) :]
        found = _REST.match(rest)
        if found is None or found.end() != len(rest):
            raise Refused("SQL_ERROR", "You can only execute one statement at a time.")
        self._names = [column[0] for column in cursor.get_description()]
        return True

    def _is_over(self) -> bool:
        return time.monotonic() > self._until

    def _commits(self) -> bool:
        self._send(wire.frame(wire.COMMITS))
        return False

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _told(self, error: Exception) -> list[Any]:
        """What is raised, as a code and a message for the script."""
        if isinstance(error, Refused):
            return [error.code, str(error)]
        if self._authorizer.refused:
            message = "this statement does what is not allowed here; query only reads, and exec reaches only this database"
            return ["SQL_NOT_ALLOWED", message]
        if isinstance(error, apsw.InterruptError):
            return ["SQL_TIMEOUT", "the statement took too long"]
        if isinstance(error, MemoryError | apsw.NoMemError):
            return ["SQL_ERROR", "out of memory: the statement or its result needs more than this session may have"]
        if isinstance(error, UnicodeError):
            return ["SQL_ERROR", "a text is not UTF-8: read it as a blob, by CAST(x AS BLOB)"]
        if isinstance(error, apsw.Error | ValueError):
            return ["SQL_ERROR", str(error)[:_SHOWN].encode(errors="replace").decode()]
        return ["SQL_ERROR", "the statement failed"]
