"""Connections to PostgreSQL: one that writes, some that read, and what to do when one is lost."""

import contextlib
import time
from collections.abc import Callable
from threading import Event, Lock
from typing import Any, Final, TypeVar

from holdfast.domain import Conflict, HoldfastError, InvalidValue
from holdfast.store._errors import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnknown,
)
from holdfast.store._postgresql_driver import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")

_KEPT_READERS: Final = 16

# A server that has vanished without a word is noticed within seconds, instead of the system's fifteen minutes. An address may say
# otherwise.
_DEFAULTS: Final = {
    "application_name": "holdfast",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}

# All that is done here looks rows up by their keys. A plan that was made while a table was small must not become a scan of a large one.
# And a process that vanishes in the middle of a transaction must not keep others waiting for its locks.
_SETTINGS: Final = """
    SET default_transaction_isolation = 'read committed';
    SET idle_in_transaction_session_timeout = '15s';
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off
"""
LONGEST_HELD: Final = 20.0
"""Seconds after which no lock is still that of a process that vanished."""
# The large statement of a group is planned once, not at each call.
_WRITER: Final = "SET plan_cache_mode = force_generic_plan"


class _RawUuid(psycopg.adapt.Loader):
    """Ids come as their 16 bytes, as `_rows` wants them."""

    format = psycopg.pq.Format.BINARY

    def load(self, data: psycopg.abc.Buffer) -> bytes:
        return bytes(data)


class Connections:
    """Hands out connections to a piece of work, and does it again on a new one if the connection was lost.

    So each piece of work must bear to be done twice: after a loss nobody knows whether it was done. `patience` is for how many seconds
    a write tries to reach the server again.
    """

    def __init__(self, address: str, patience: float, prepare: Callable[[Connection], None]) -> None:
        try:
            given = {name: value for name, value in psycopg.conninfo.conninfo_to_dict(address).items() if value is not None}
        except psycopg.Error:  # its message would show the address
            raise StoreUnknown("this is not an address of PostgreSQL: they look like postgresql://host/database") from None
        self._parameters: dict[str, Any] = {**_DEFAULTS, **given, "client_encoding": "utf8"}
        self._patience = patience
        self._prepare = prepare
        self._idle: list[Connection] = []
        self._writer: Connection | None = None
        self._writing = Lock()
        self._closed = Event()
        self._hurry = Event()

    def open(self, work: Callable[[Connection], Result]) -> Result:
        """The first piece of work. There is no patience yet: an address that is wrong is not worth waiting for."""
        try:
            return self._use(self._connect(), work)
        except psycopg.Error as error:
            if is_lost(error):
                raise StoreUnavailable(
                    "PostgreSQL cannot be reached, or refuses the login or the database that the address names."
                ) from None
            raise translated(error) from None

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Any number of these may go on at once, each on a connection of its own."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._read(work)
        try:
            return self._use(connection, work)
        except psycopg.Error as error:
            if not is_lost(error):
                raise translated(error) from None
        # What broke one of them has probably broken all.
        self._drop_idle()
        return self._read(work)

    def write(self, work: Callable[[Connection], Result], *, locks: float = 0) -> Result:
        """One at a time. `locks` is for how many seconds it is tried again while others hold a lock, if that is longer."""
        begun = time.monotonic()
        pause = 0.01
        while True:
            try:
                with self._writing:
                    return work(self._writable())
            except psycopg.Error as error:
                patience = max(self._patience, locks) if error.sqlstate == _LOCKED else self._patience
                passes = is_lost(error) or error.sqlstate in _TRY_AGAIN
                if not passes or self._hurry.is_set() or time.monotonic() >= begun + patience:
                    raise translated(error) from None
            self._hurry.wait(pause)
            pause = min(2 * pause, 0.25)

    def stop_waiting(self) -> None:
        """Do not try writes again from now on, nor those that are being tried."""
        self._hurry.set()

    def close(self) -> None:
        """Twice is fine."""
        self._closed.set()
        self._drop_idle()
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        try:
            return self._use(self._connect(), work)
        except psycopg.Error as error:
            raise translated(error) from None

    def _use(self, connection: Connection, work: Callable[[Connection], Result]) -> Result:
        try:
            return work(connection)
        finally:
            if _is_usable(connection) and not self._closed.is_set() and len(self._idle) < _KEPT_READERS:
                self._idle.append(connection)
                if self._closed.is_set():  # meanwhile
                    self._drop_idle()
            else:
                connection.close()

    def _drop_idle(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _writable(self) -> Connection:
        if self._writer is not None and not _is_usable(self._writer):
            self._writer.close()
            self._writer = None
        if self._writer is None:
            connection = self._connect()
            try:
                connection.execute(_WRITER)
                # Or else psycopg deallocates all statements after a rollback, and ours with its own.
                connection.prepare_threshold = None
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._writer = connection
        return self._writer

    def _connect(self) -> Connection:
        if self._closed.is_set():
            raise StoreUnavailable("The store is closed.")
        connection = psycopg.connect(**self._parameters, autocommit=True)
        try:
            connection.adapters.register_loader("uuid", _RawUuid)
            connection.execute(_SETTINGS)
        except BaseException:
            connection.close()
            raise
        return connection


def _is_usable(connection: Connection) -> bool:
    """Whether it is there and between two transactions: work that was interrupted leaves it in the middle of one."""
    return not connection.closed and connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


# ---- what an error means -----------------------------------------------------------------------------------------------------------

_LOST: Final = {"25P03", "57P01", "57P02", "57P03", "57P05", "53300"}
_LOCKED: Final = "55P03"
_TRY_AGAIN: Final = {"40P01", "40001", _LOCKED}  # deadlock, serialization failure, lock not available
_MEANINGS: Final[dict[str, tuple[type[HoldfastError], str | None]]] = {
    "53100": (StoreFull, None),
    "53200": (StoreFull, "The PostgreSQL server has no memory left. Nothing that was acknowledged is lost; try again."),
    "25006": (StoreReadOnly, "The store cannot be written: this PostgreSQL server or user may only read."),
    "42501": (StoreReadOnly, "The store cannot be written: the PostgreSQL user lacks the right to."),
    "22003": (InvalidValue, "a number is too large for the store"),
    "23505": (Conflict, None),
    "3F000": (StoreError, "The PostgreSQL schema that the address names is not there. Create it first."),
    "57014": (StoreUnavailable, None),  # a timeout that the operator has set
    "XX001": (StoreDamaged, None),
    "XX002": (StoreDamaged, None),
    # Somebody removed a table or a column, or it is not a store of ours.
    "42P01": (StoreDamaged, None),
    "42703": (StoreDamaged, None),
}


def is_lost(error: psycopg.Error) -> bool:
    """Whether the server could not be reached, or was gone in the middle. It may have done what it was told."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith("08") or state in _LOST


def translated(error: psycopg.Error) -> HoldfastError:
    """The error for whoever called. The server's own words may show hosts, users and SQL, so they are not in it."""
    if is_lost(error) or error.sqlstate in _TRY_AGAIN:
        return StoreUnavailable()
    kind, message = _MEANINGS.get(error.sqlstate or "", (StoreError, None))
    return kind(message)
