"""PostgreSQL, by a connection that the template's config names.

Theory of operation
-------------------
The library of PostgreSQL is used without its blocking calls: here is the loop that waits, so that a statement ends when the time is up
or the execution is cancelled, and so that what a server sends is counted before it is kept. A statement that has to end is cancelled
on the server, which says so within moments and leaves the connection as it was; if not, the connection is closed.

Statements go by the protocol in which there is one at a time, and arguments never become part of their text. A query has a transaction
that only reads, or a part of the present one, and that is rolled back; so whatever a query is, nothing comes of it.

A role that may reach the files or programs of the server is refused. No look at a statement could be as sure as this.
"""

import array
import fcntl
import json
import math
import select
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from psycopg import Error, OperationalError, conninfo, pq

from holdfast.capabilities.database.postgresql_rules import check
from holdfast.capabilities.database.sql import Caps, Done, Rows, too_large
from holdfast.capabilities.native import Scope
from holdfast.sandbox import HostError

_LOOK_S: Final = 0.05
_GRACE_S: Final = 2.0
"""How long a server has to answer when it is told to stop."""
_OVERHEAD: Final = 1 << 20
"""Bytes of a row beside its values, and of what comes before it."""
_SHOWN: Final = 500

_DEFAULTS: Final = {
    "application_name": "holdfast",
    # What the address does not say is not found elsewhere: neither the daemon's environment nor its files are the template's.
    "password": "",
    "passfile": "/nonexistent",
    "sslcert": "/nonexistent",
    "gssencmode": "disable",
}
# Statements end by our own clock. These are for a server that does not hear of us any more.
_SETTINGS: Final = """
    SET statement_timeout = '90s'; SET idle_in_transaction_session_timeout = '60s';
    SET standard_conforming_strings = on; SET bytea_output = hex; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601'
"""
_IDLE: Final = "SET idle_session_timeout = '60s'"  # one that is closed meanwhile is opened again
_IDLE_VERSION: Final = 140_000
_ROLE: Final = """
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_roles
        WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
        AND (rolsuper OR rolcreaterole OR rolreplication
             OR rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'))
    )
"""
_BEGIN_QUERY, _END_QUERY = "BEGIN READ ONLY", "ROLLBACK"
_BEGIN_PART: Final = "SAVEPOINT holdfast_query; SET LOCAL transaction_read_only = on"
_END_PART: Final = "ROLLBACK TO SAVEPOINT holdfast_query; RELEASE SAVEPOINT holdfast_query"
_COUNTED: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")

_CANCELLED: Final = "57014"
_NOT_ALLOWED: Final = ("25006", "42501")  # read-only, insufficient privilege
_WRONG_COUNT: Final = "08P01"  # of arguments
_OF_THE_SERVER: Final = ("08", "53", "57", "58", "F0", "XX")
"""Kinds of errors whose messages may tell of the server's files, or of other sessions."""

_UNDONE, _WITH_TRANSACTION, _UNCERTAIN = "DATABASE_UNAVAILABLE", "TRANSACTION_LOST", "EFFECT_UNCERTAIN"
_LOST: Final = {
    _UNDONE: "the database cannot be reached, or refuses the login",
    _WITH_TRANSACTION: "the connection to the database was lost, and with it all that the transaction had done",
    _UNCERTAIN: "the connection to the database was lost: whether the statement was done is not known",
}

_BOOL, _BYTEA, _INT2, _INT4, _INT8, _FLOAT8 = 16, 17, 21, 23, 20, 701


class _Ended(NamedTuple):
    """What a server said in the end of a statement."""

    tag: str
    affected: int
    names: list[str]
    rows: list[dict[str, Any]]


class _Lost(Exception):
    """The connection is no more."""


class Postgresql:
    """A connection to a database, whose address is a secret."""

    def __init__(self, address: str, scope: Scope, caps: Caps) -> None:
        self._scope, self._caps = scope, caps
        self._stopped: HostError | None = None
        """Why the statement that runs was told to end."""
        self._begin_to_wait(scope.time_left(False), patient=False)
        try:
            self._server = self._connect(address)
        except (Error, _Lost, UnicodeError):  # what they say may show the address
            raise HostError(_LOST[_UNDONE], code=_UNDONE) from None
        try:
            self._prepare()
        except BaseException:
            self._server.finish()
            raise

    @property
    def in_transaction(self) -> bool:
        return self._server.transaction_status not in (pq.TransactionStatus.IDLE, pq.TransactionStatus.UNKNOWN)

    def is_usable(self) -> bool:
        if self._server.status != pq.ConnStatus.OK:
            return False
        # A server has nothing to say to one that is silent, but that it goes.
        return self.in_transaction or not self._waits(0)

    def query(self, sql: str, args: Sequence[Any]) -> list[dict[str, Any]]:
        check(sql, reads=True)
        within = self.in_transaction
        lost = _WITH_TRANSACTION if within else _UNDONE
        self._do(_BEGIN_PART if within else _BEGIN_QUERY, lost=lost)
        try:
            return self._do(sql, args, lost=lost).rows
        finally:
            if self.in_transaction:
                self._do(_END_PART if within else _END_QUERY, lost=lost)

    def exec(self, sql: str, args: Sequence[Any]) -> Done:
        statement = check(sql, reads=False)
        if self.in_transaction or not statement.gives_rows:
            ends = not self.in_transaction or statement.word in ("commit", "end")
            done = self._do(sql, args, lost=_UNCERTAIN if ends else _WITH_TRANSACTION)
            if done.tag == "ROLLBACK" and statement.word in ("commit", "end"):
                raise _failed()
        else:  # rows come after the change is made: if they are too many it must not have been
            self.begin()
            try:
                done = self._do(sql, args)
            except BaseException:
                self.rollback()
                raise
            self.commit()
        return Done(done.affected, 0, done.rows if done.names else None)

    def begin(self) -> None:
        self._do("BEGIN")

    def commit(self) -> None:
        if self._do("COMMIT", lost=_UNCERTAIN).tag == "ROLLBACK":
            raise _failed()

    def rollback(self) -> None:
        if self.in_transaction:
            with suppress(HostError):  # then the connection is lost, and the transaction with it
                self._do("ROLLBACK")

    def close(self) -> None:
        self._server.finish()

    # ---- a connection --------------------------------------------------------------------------------------------------------------

    def _connect(self, address: str) -> pq.abc.PGconn:
        given = {name: value for name, value in conninfo.conninfo_to_dict(address).items() if value is not None}
        parameters = {**_DEFAULTS, **given, "client_encoding": "utf8"}
        server = pq.PGconn.connect_start(conninfo.make_conninfo("", **parameters).encode())
        state: int = pq.PollingStatus.WRITING
        try:
            while server.status != pq.ConnStatus.BAD and state != pq.PollingStatus.OK:
                if state == pq.PollingStatus.FAILED or self._why_over() is not None:
                    raise _Lost
                if _ready(server.socket, writes=state == pq.PollingStatus.WRITING, seconds=_LOOK_S):
                    state = server.connect_poll()
            if server.status == pq.ConnStatus.BAD:
                raise _Lost
        except BaseException:
            server.finish()
            raise
        server.nonblocking = 1
        return server

    def _prepare(self) -> None:
        self._do(_SETTINGS)
        if self._server.server_version >= _IDLE_VERSION:
            self._do(_IDLE)
        if self._do(_ROLE, ()).rows[0]["exists"]:
            message = (
                "the role of this connection may reach files or programs of the server, or make roles: name one that may not"
            )
            raise HostError(message, code="ROLE_NOT_ALLOWED")

    # ---- a statement ---------------------------------------------------------------------------------------------------------------

    def _do(self, sql: str, args: Sequence[Any] | None = None, *, lost: str = _UNDONE) -> _Ended:
        """Sends a statement, and waits for its end. Without arguments it is one of ours, which takes no time and is not cancelled.

        `lost` is what it means if the connection is lost meanwhile.
        """
        values = None if args is None else [_dumped(arg) for arg in args]
        left = self._scope.time_left(False)
        self._begin_to_wait(left if values is not None else max(left, _GRACE_S), patient=values is None)
        try:
            self._send(sql.encode(), values)
            return self._results()
        except (OperationalError, _Lost):
            self._server.finish()
            if self._stopped is not None and lost != _UNCERTAIN:
                raise self._stopped from None
            raise HostError(_LOST[lost], code=lost) from None

    def _begin_to_wait(self, seconds: float, *, patient: bool) -> None:
        self._until, self._patient = time.monotonic() + seconds, patient
        self._stopped, self._received = None, 0

    def _send(self, sql: bytes, values: list[tuple[int, int, bytes | None]] | None) -> None:
        server = self._server
        if values is None:
            server.send_query(sql)
        else:
            types, formats, data = [v[0] for v in values], [v[1] for v in values], [v[2] for v in values]
            server.send_query_params(sql, data, types, formats)
            server.set_single_row_mode()
        while server.flush() == 1:
            self._wait(writes=True)

    def _results(self) -> _Ended:
        rows, names, readers = Rows(self._caps), [], []
        tag, affected = "", 0
        failure: pq.abc.PGresult | None = None
        first = True
        while (result := self._next()) is not None:
            status = result.status
            if status in (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_OK):
                if first:
                    first = False
                    count = range(result.nfields)
                    names = [(result.fname(at) or b"").decode(errors="replace") for at in count]
                    readers = [_READERS.get(result.ftype(at), _text) for at in count]
                for at in range(result.ntuples if self._stopped is None else 0):
                    self._take(rows, names, readers, result, at)
            elif status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
                if status != pq.ExecStatus.FATAL_ERROR:
                    raise _Lost  # a COPY, which `check` does not let through
                failure = result
            tag = (result.command_status or b"").decode()
            affected = result.command_tuples or 0 if tag.startswith(_COUNTED) else 0
        if failure is not None:
            raise self._told(failure)
        if self._stopped is not None and self._stopped.script_code == "RESULT_TOO_LARGE":
            raise self._stopped
        return _Ended(tag, affected, names, rows.found)

    def _take(
        self, rows: Rows, names: list[str], readers: list[Callable[[bytes], Any]], result: pq.abc.PGresult, at: int
    ) -> None:
        data = [result.get_value(at, column) for column in range(len(names))]
        try:
            row = [None if value is None else read(value) for read, value in zip(readers, data, strict=True)]
            sizes = (
                8 if value is None else len(value) * _WEIGHTS.get(read, 1) for read, value in zip(readers, data, strict=True)
            )
            rows.add(names, row, sum(sizes))
        except HostError as error:
            self._stop(error)
        except (ValueError, RecursionError):
            self._stop(HostError("a value of the result is too long or too deep", code="RESULT_TOO_LARGE"))

    def _next(self) -> "pq.abc.PGresult | None":
        server = self._server
        while server.is_busy():
            self._wait()
        self._received = 0
        return server.get_result()

    def _wait(self, *, writes: bool = False) -> None:
        """Until the server has said something, which is taken in; or with `writes` until it can be told something."""
        while True:
            if (why := self._why_over()) is not None:
                if self._stopped is not None:
                    raise _Lost
                self._stop(why)
            if self._waits(_LOOK_S, writes=writes):
                break
        self._received += _count(self._server.socket)
        self._server.consume_input()
        if self._received > self._caps.bytes + _OVERHEAD:  # of one row, which is not there yet
            if self._stopped is None:
                self._stop(too_large(self._caps))
            raise _Lost

    def _why_over(self) -> HostError | None:
        if self._stopped is None and not self._patient and self._scope.is_stopped():
            return HostError("the execution was cancelled", code="CANCELLED")
        if time.monotonic() > self._until:
            return HostError("the statement took too long", code="SQL_TIMEOUT")
        return None

    def _stop(self, why: HostError) -> None:
        """Tells the server to end the statement. What it says to that comes as the statement's result."""
        if self._stopped is None:
            self._stopped, self._until = why, time.monotonic() + _GRACE_S
            cancel = self._server.get_cancel()
            thread = threading.Thread(target=_quietly, args=(cancel.cancel,), daemon=True)  # it has a connection of its own
            thread.start()
            thread.join(_GRACE_S)

    def _waits(self, seconds: float, *, writes: bool = False) -> bool:
        return _ready(self._server.socket, writes=writes, seconds=seconds)

    def _told(self, failure: "pq.abc.PGresult") -> HostError:
        """What the server says is wrong, as an error of the script."""
        state = (failure.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode(errors="replace")
        message = (failure.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
        if state == _CANCELLED:
            return self._stopped or HostError("the statement took too long", code="SQL_TIMEOUT")
        if not state or self._server.status != pq.ConnStatus.OK:
            raise _Lost
        if state.startswith(_OF_THE_SERVER) and state != _WRONG_COUNT:
            return HostError(f"the database could not do this ({state})", code="SQL_ERROR")
        return HostError(message[:_SHOWN], code="SQL_NOT_ALLOWED" if state in _NOT_ALLOWED else "SQL_ERROR")


def check_address(address: str) -> bool:
    """Whether it can be read as an address of PostgreSQL."""
    try:
        conninfo.conninfo_to_dict(address)
    except (Error, UnicodeError):
        return False
    return "\0" not in address


def _failed() -> HostError:
    return HostError("a statement of the transaction had failed: it was rolled back", code="TRANSACTION_FAILED")


def _quietly(call: Callable[[], object]) -> None:
    with suppress(Error):
        call()


def _ready(socket: int, *, writes: bool, seconds: float) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN | (select.POLLOUT if writes else 0))
    return bool(poll.poll(seconds * 1000))


def _count(socket: int) -> int:
    """How many bytes have come that nobody has read."""
    count = array.array("i", [0])
    fcntl.ioctl(socket, termios.FIONREAD, count)
    return count[0]


def _dumped(value: Any) -> tuple[int, int, bytes | None]:
    """A value as the server takes it: its type, whether it is binary, and itself. Text is of whatever type is wanted there."""
    if value is None:
        return 0, 0, None
    if isinstance(value, bool):
        return _BOOL, 0, b"t" if value else b"f"
    if isinstance(value, int):
        kind = next((kind for kind, bits in ((_INT2, 15), (_INT4, 31)) if -(1 << bits) <= value < 1 << bits), _INT8)
        return kind, 0, str(value).encode()
    if isinstance(value, float):
        return _FLOAT8, 0, (repr(value) if math.isfinite(value) else str(value)).encode()
    if isinstance(value, bytes):
        return _BYTEA, 1, value
    if "\0" in value:
        raise HostError("PostgreSQL has no text with NUL in it", code="INVALID_ARGUMENT")
    return 0, 0, str(value).encode()


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    _BOOL: lambda data: data == b"t",
    _INT2: int,
    _INT4: int,
    _INT8: int,
    26: int,  # oid
    700: float,
    _FLOAT8: float,
    _BYTEA: lambda data: bytes.fromhex(data[2:].decode()),
    114: json.loads,
    3802: json.loads,  # jsonb
}
"""By the type's number. Values of all other types are text, as PostgreSQL writes them."""
_WEIGHTS: Final[dict[Callable[[bytes], Any], int]] = {json.loads: 4}
"""How much larger than its text a value is in memory."""
