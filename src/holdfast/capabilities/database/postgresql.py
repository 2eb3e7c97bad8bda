"""PostgreSQL, by a connection that the template's config names.

Theory of operation
-------------------
The library of PostgreSQL is used without its blocking calls: here is the loop that waits, so that a statement ends when the time is up
or the execution is cancelled, and so that what a server sends is counted before it is kept. A statement that has to end is cancelled
on the server, which says so within moments and leaves the connection as it was; if not, the connection is closed.

The connection is in pipeline mode, in which the library sends nothing but the extended protocol: one statement in each message, and
arguments that never become part of its text. A query has a transaction that only reads, or a part of the present one, and that is
rolled back; so whatever a query is, nothing comes of it, not even a setting.

The boundary is the server's. A role that is more than an ordinary one is refused when the connection is made; with `require_locked_role`
also one that can still call what the lockdown script revokes (`postgresql_role.py`). After each statement that may stay, a second one is
sent with it that fails if a setting has changed, and takes the statement with it: it is part of the same transaction. Then the
connection is closed. The rules (`postgresql_rules.py`) are the second line: they read text as the server does as long as its settings are
those that were set here.
"""

import array
import fcntl
import select
import termios
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, NamedTuple

from psycopg import Error, OperationalError, conninfo, pq

from holdfast.capabilities.database import postgresql_role as role
from holdfast.capabilities.database.postgresql_idle import IDLE_S, WATCH
from holdfast.capabilities.database.postgresql_rules import check
from holdfast.capabilities.database.postgresql_values import Parameter, parameter, reader, weight
from holdfast.capabilities.database.sql import Caps, Done, Rows, too_large
from holdfast.capabilities.native import Scope
from holdfast.sandbox import HostError

_LOOK_S: Final = 0.05
_GRACE_S: Final = 2.0
"""How long a server has to answer when it is told to stop, and for statements of ours."""
_CANCEL_GRACE_S: Final = 0.15
"""The same for an execution that was cancelled: whoever cancelled it waits."""
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
_BEGIN_QUERY, _END_QUERY = ("BEGIN READ ONLY",), ("ROLLBACK",)
_BEGIN_PART: Final = ("SAVEPOINT holdfast_query", "SET LOCAL transaction_read_only = on")
_END_PART: Final = ("ROLLBACK TO SAVEPOINT holdfast_query", "RELEASE SAVEPOINT holdfast_query")
_CHECK_NAME: Final = b"holdfast_check"
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


class _Statement(NamedTuple):
    """A statement of a batch. Without arguments it is one of ours; `name` is that of one that the server has prepared."""

    sql: str
    args: Sequence[Parameter] | None = None
    name: bytes = b""


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

    def __init__(self, address: str, scope: Scope, caps: Caps, *, locked: bool = False) -> None:
        self._scope, self._caps = scope, caps
        self._stopped: HostError | None = None
        """Why the statement that runs was told to end."""
        self._cancelling: threading.Thread | None = None
        self._use = threading.RLock()
        """Held while the connection is used: by the session's thread, or by the watch that ends an idle transaction."""
        self._used_at = time.monotonic()
        self._watched = False
        self._reported: list[bytes | None] = []
        self._begin_to_wait(scope.time_left(False), patient=False)
        try:
            self._server = self._connect(address)
        except (Error, _Lost, UnicodeError):  # what they say may show the address
            raise HostError(_LOST[_UNDONE], code=_UNDONE) from None
        try:
            self._prepare(locked)
        except BaseException:
            self._server.finish()
            raise

    @property
    def in_transaction(self) -> bool:
        return self._server.transaction_status not in (pq.TransactionStatus.IDLE, pq.TransactionStatus.UNKNOWN)

    def is_usable(self) -> bool:
        with self._use:
            if self._server.status != pq.ConnStatus.OK:
                return False
            # A server has nothing to say to one that is silent, but that it goes.
            return self.in_transaction or not self._waits(0)

    def query(self, sql: str, args: Sequence[Any]) -> list[dict[str, Any]]:
        check(sql, reads=True)
        within = self.in_transaction
        lost = _WITH_TRANSACTION if within else _UNDONE
        begin, end = (_BEGIN_PART, _END_PART) if within else (_BEGIN_QUERY, _END_QUERY)
        batch = [*map(_Statement, begin), _given(sql, args), *map(_Statement, end)]
        try:
            return self._do(batch, main=len(begin), lost=lost).rows
        except HostError:
            if self._server.transaction_status == pq.TransactionStatus.INERROR:  # else the end of the batch was reached
                self._do([*map(_Statement, end)], lost=lost)
            raise

    def exec(self, sql: str, args: Sequence[Any]) -> Done:
        statement = check(sql, reads=False)
        if self.in_transaction or not statement.gives_rows:
            ends = not self.in_transaction or statement.word in ("commit", "end")
            done = self._do([_given(sql, args), self._check], lost=_UNCERTAIN if ends else _WITH_TRANSACTION)
            if done.tag == "ROLLBACK" and statement.word in ("commit", "end"):
                raise _failed()
        else:  # rows come after the change is made: if they are too many it must not have been
            try:
                done = self._do([_Statement("BEGIN"), _given(sql, args), self._check], main=1)
            except BaseException:
                self.rollback()
                raise
            self.commit()
        return Done(done.affected, 0, done.rows if done.names else None)

    def begin(self) -> None:
        self._do([_Statement("BEGIN")])

    def commit(self) -> None:
        if self._do([_Statement("COMMIT"), self._check], lost=_UNCERTAIN).tag == "ROLLBACK":
            raise _failed()

    def rollback(self) -> None:
        if self.in_transaction:
            with suppress(HostError):  # then the connection is lost, and the transaction with it
                self._do([_Statement("ROLLBACK")])

    def close(self) -> None:
        with self._use:
            self._server.finish()

    # ---- a connection --------------------------------------------------------------------------------------------------------------

    def _connect(self, address: str) -> pq.abc.PGconn:
        given = {name: value for name, value in conninfo.conninfo_to_dict(address).items() if value is not None}
        parameters = {**_DEFAULTS, **given, "client_encoding": "utf8"}
        server = self._begun(conninfo.make_conninfo("", **parameters).encode())
        state: int = pq.PollingStatus.WRITING
        try:
            while server.status != pq.ConnStatus.BAD and state != pq.PollingStatus.OK:
                if state == pq.PollingStatus.FAILED or self._why_over() is not None:
                    raise _Lost
                if _ready(server.socket, writes=state == pq.PollingStatus.WRITING, seconds=_LOOK_S):
                    state = server.connect_poll()
            if server.status == pq.ConnStatus.BAD:
                raise _Lost
            server.nonblocking = 1
            server.enter_pipeline_mode()
        except BaseException:
            server.finish()
            raise
        return server

    def _begun(self, parameters: bytes) -> pq.abc.PGconn:
        """A connection that is being made. The library looks the host's name up meanwhile, which nobody can stop: so on a thread."""
        made: Future[pq.abc.PGconn] = Future()

        def work() -> None:
            try:
                made.set_result(pq.PGconn.connect_start(parameters))
            except BaseException as error:  # noqa: BLE001 - whoever waits hears of it
                made.set_exception(error)

        threading.Thread(target=work, name="holdfast-connect", daemon=True).start()
        while True:
            with suppress(TimeoutError):
                return made.result(_LOOK_S)
            if self._why_over() is not None:
                made.add_done_callback(_finish)
                raise _Lost

    def _prepare(self, locked: bool) -> None:
        """Check the role, set what matters, and have the server remember how it was set."""
        settings = [*role.SETTINGS, *([role.IDLE] if self._server.server_version >= role.IDLE_VERSION else [])]
        if self._do([*map(_Statement, settings), _given(role.ROLE, ())], main=len(settings)).rows[0]["too_much"]:
            message = (
                "the role of this connection may do more than an ordinary one, such as reach files of the server, signal other "
                "sessions, or make roles or databases: name one that may not"
            )
            raise HostError(message, code="ROLE_NOT_ALLOWED")
        if locked and (found := [row["what"] for row in self._do([_given(role.REACHABLE, ())]).rows]):
            message = (
                f"the role of this connection is not locked: it reaches {', '.join(found[:3])}{' and more' if len(found) > 3 else ''}. "
                "Run the script that `holdfast database lockdown` prints"
            )
            raise HostError(message, code="ROLE_NOT_ALLOWED")
        pinned = self._do([_given(role.PINNED, ())]).rows[0]["values"]
        self._do([_Statement(role.check_of(pinned), None, _CHECK_NAME)])
        self._check = _Statement("", (), _CHECK_NAME)
        self._reported = [self._server.parameter_status(name) for name in role.REPORTED]

    # ---- a statement ---------------------------------------------------------------------------------------------------------------

    def _do(self, batch: Sequence[_Statement], *, main: int = 0, lost: str = _UNDONE) -> _Ended:
        """Send statements together, and wait for their end. The one at `main` is what is asked for: its rows are read and counted.

        Statements of ours take no time, and are not cancelled. `lost` is what it means if the connection is lost meanwhile.
        """
        left, patient = self._scope.time_left(False), batch[main].args is None
        with self._use:
            self._begin_to_wait(max(left, _GRACE_S) if patient else left, patient=patient)
            try:
                self._send(batch)
                ended = self._results(batch, main)
                self._check_reported()
                return ended
            except (OperationalError, _Lost):
                self._server.finish()
                if self._stopped is not None and lost != _UNCERTAIN:
                    raise self._stopped from None
                raise HostError(_LOST[lost], code=lost) from None
            finally:
                self._after()

    def _after(self) -> None:
        """A cancellation that is still under way may hit the next statement: then there is none. An open transaction is watched."""
        if self._cancelling is not None and self._cancelling.is_alive():
            self._server.finish()
        self._cancelling = None
        self._used_at = time.monotonic()
        if self.in_transaction and not self._watched:
            self._watched = True
            WATCH.add(IDLE_S, self._look_idle)

    def _look_idle(self) -> None:
        """Close the connection if it is in a transaction that was not used for a while. The server rolls it back. On the watch's thread."""
        if not self._use.acquire(blocking=False):
            WATCH.add(IDLE_S, self._look_idle)
            return
        try:
            left = self._used_at + IDLE_S - time.monotonic()
            self._watched = self.in_transaction and left > 0
            if self._watched:
                WATCH.add(left, self._look_idle)
            elif self.in_transaction:
                self._server.finish()
        finally:
            self._use.release()

    def _check_reported(self) -> None:
        if self._reported and self._reported != [self._server.parameter_status(name) for name in role.REPORTED]:
            raise self._changed()

    def _changed(self) -> HostError:
        """A setting is another one than before: nothing that is said on this connection means what it seems to."""
        self._server.finish()
        message = "a setting of the connection was changed: the connection was closed, and its transaction rolled back"
        return HostError(message, code="SETTINGS_NOT_ALLOWED")

    def _begin_to_wait(self, seconds: float, *, patient: bool) -> None:
        self._until, self._patient = time.monotonic() + seconds, patient
        self._stopped, self._received = None, 0

    def _send(self, batch: Sequence[_Statement]) -> None:
        server = self._server
        for sql, args, name in batch:
            given = args or ()
            data, types, formats = [one.data for one in given], [one.kind for one in given], [one.binary for one in given]
            if not name:
                server.send_query_params(sql.encode(), data, types, formats)
            elif args is None:
                server.send_prepare(name, sql.encode())
            else:
                server.send_query_prepared(name, data, formats)
        server.pipeline_sync()
        while server.flush() == 1:
            self._wait(writes=True)

    def _results(self, batch: Sequence[_Statement], main: int) -> _Ended:
        found = _Ended("", 0, [], [])
        failure: tuple[int, pq.abc.PGresult] | None = None
        for at in range(len(batch)):
            if at == main and failure is None and batch[at].args is not None:
                self._server.set_single_row_mode()
            ended, failed = self._result(wanted=at == main)
            if at == main:
                found = ended
            if failed is not None and failure is None:
                failure = at, failed
        if (last := self._next()) is None or last.status != pq.ExecStatus.PIPELINE_SYNC:
            raise _Lost
        if failure is not None:
            raise self._told(failure[1], is_check=batch[failure[0]].name == _CHECK_NAME and failure[0] != main)
        if self._stopped is not None and self._stopped.script_code == "RESULT_TOO_LARGE":
            raise self._stopped
        return found

    def _result(self, *, wanted: bool) -> tuple[_Ended, "pq.abc.PGresult | None"]:
        """What comes of the next statement of a batch, and the error that ended it."""
        rows, names, readers = Rows(self._caps), [], []
        tag, affected = "", 0
        failure: pq.abc.PGresult | None = None
        first = True
        while (result := self._next()) is not None:
            status = result.status
            if status in (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_OK):
                if first and wanted:
                    first = False
                    count = range(result.nfields)
                    names = [(result.fname(at) or b"").decode(errors="replace") for at in count]
                    readers = [reader(result.ftype(at)) for at in count]
                for at in range(result.ntuples if wanted and self._stopped is None else 0):
                    self._take(rows, names, readers, result, at)
            elif status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY, pq.ExecStatus.PIPELINE_ABORTED):
                if status != pq.ExecStatus.FATAL_ERROR:
                    raise _Lost  # a COPY, which `check` does not let through
                failure = result
            tag = (result.command_status or b"").decode()
            affected = result.command_tuples or 0 if tag.startswith(_COUNTED) else 0
        return _Ended(tag, affected, names, rows.found), failure

    def _take(
        self, rows: Rows, names: list[str], readers: list[Callable[[bytes], Any]], result: pq.abc.PGresult, at: int
    ) -> None:
        data = [result.get_value(at, column) for column in range(len(names))]
        try:
            sizes = (8 if value is None else len(value) * weight(read) for read, value in zip(readers, data, strict=True))
            rows.count(names, sum(sizes))  # before they are decoded
            row = [None if value is None else read(value) for read, value in zip(readers, data, strict=True)]
            rows.found.append(dict(zip(names, row, strict=True)))
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
            grace = _CANCEL_GRACE_S if why.script_code == "CANCELLED" else _GRACE_S
            self._stopped, self._until = why, time.monotonic() + grace
            cancel = self._server.get_cancel()
            thread = threading.Thread(target=_quietly, args=(cancel.cancel,), daemon=True)  # it has a connection of its own
            self._cancelling = thread
            thread.start()
            thread.join(grace)

    def _waits(self, seconds: float, *, writes: bool = False) -> bool:
        return _ready(self._server.socket, writes=writes, seconds=seconds)

    def _told(self, failure: "pq.abc.PGresult", *, is_check: bool) -> HostError:
        """What the server says is wrong, as an error of the script."""
        state = (failure.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode(errors="replace")
        message = (failure.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
        if state == _CANCELLED:
            return self._stopped or HostError("the statement took too long", code="SQL_TIMEOUT")
        if not state or self._server.status != pq.ConnStatus.OK:
            raise _Lost
        if is_check:
            return self._changed()
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


def _given(sql: str, args: Sequence[Any]) -> _Statement:
    return _Statement(sql, [parameter(arg) for arg in args])


def _failed() -> HostError:
    return HostError("a statement of the transaction had failed: it was rolled back", code="TRANSACTION_FAILED")


def _finish(made: "Future[pq.abc.PGconn]") -> None:
    if made.exception() is None:
        made.result().finish()


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
