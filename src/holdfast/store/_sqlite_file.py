"""One SQLite file: its connections, transactions and errors.

One connection writes, under a lock. Reads have connections of their own, kept for the next read; in WAL mode a writer never blocks them.
"""

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from holdfast.domain import HoldfastError, InvalidValue, NotFound
from holdfast.store._errors import StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from holdfast.store._migrations import migrate

_KEPT_READERS: Final = 16
_SHORTEST: Final = 512
_TRANSLATED: Final = (sqlite3.Error, OSError, OverflowError, ValueError, TypeError, LookupError)

# Synchronous FULL: a commit is on the disk before it is acknowledged. The log keeps its usual length: while it still grows, a commit has to
# wait for the file system too, which takes half as long again. What is deleted is overwritten, as sessions hold secrets.
_WRITER: Final = """
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA wal_autocheckpoint = 1000;
PRAGMA journal_size_limit = 67108864;
PRAGMA secure_delete = ON;
PRAGMA cache_size = -16384;
PRAGMA trusted_schema = OFF;
"""
_text: Final = partial(str, encoding="utf-8", errors="surrogateescape")
"""Bytes that are no text become halves of surrogate pairs, which readers of the row refuse: one such row shall not fail a list."""
_READER: Final = "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;"


class File:
    """The file, opened, and brought to the present schema."""

    def __init__(self, path: str, migrations: Sequence[str], patience_ms: int) -> None:
        if path == ":memory:":
            raise InvalidValue("for a store in memory use memory:")
        if not _can_name_a_file(path):
            raise InvalidValue("the path of the store has characters that no path can have")
        self.path = os.path.abspath(path)
        self._patience = patience_ms / 1000
        self._lock = threading.Lock()
        self._readers_lock = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        self._writer: sqlite3.Connection | None = None
        with self._translated():
            self._create()
            self._real = os.path.realpath(self.path)
            self._identity = self._present()
            writer = self._writer = self._open_writer()
            try:
                self._use_log(writer)
                migrate(writer, migrations)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Moves the log into the file if nobody else uses it. Twice is fine."""
        with self._lock:
            with self._readers_lock:
                self._closed = True
                while self._readers:
                    self._readers.pop().close()
            writer, self._writer = self._writer, None
            if writer is not None:
                with contextlib.suppress(sqlite3.Error):
                    writer.execute("PRAGMA busy_timeout = 0")
                    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                writer.close()

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Cursor]:
        """A transaction that is on the disk when the block has ended, and has never been if the block raises."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The store is closed.")
            writer = self._writer
            try:
                if writer is None:
                    writer = self._writer = self._open_writer()
                cursor = writer.execute("BEGIN IMMEDIATE")
                yield cursor
                self._check_present()
                cursor.execute("COMMIT")
            except BaseException as error:
                if writer is not None:
                    self._roll_back(writer, error)
                if isinstance(error, _TRANSLATED):
                    raise self._translation(error) from None
                raise

    def _roll_back(self, writer: sqlite3.Connection, error: BaseException) -> None:
        try:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        except sqlite3.Error as worse:
            error = worse
        # After trouble with the file itself a connection may be left with a wrong idea of it: the next write takes a fresh one.
        if isinstance(error, sqlite3.Error) and _code(error) & 0xFF in _TROUBLE:
            self._writer = None
            with contextlib.suppress(sqlite3.Error):
                writer.close()

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection to read with: each statement sees what is committed at that moment."""
        with self._translated():
            try:
                reader = self._readers.pop()
            except IndexError:
                reader = self._open(_READER)
            try:
                if self._closed:
                    raise StoreUnavailable("The store is closed.")
                yield reader
            except NotFound:
                self._give_back(reader)
                raise
            except BaseException:  # a statement may be half read, and would hold on to the past for whoever reads next
                reader.close()
                raise
            else:
                self._give_back(reader)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """As `read`, and all statements see the same."""
        with self.read() as reader:
            reader.execute("BEGIN")
            try:
                yield reader
            finally:
                if reader.in_transaction:
                    reader.execute("COMMIT")

    def _give_back(self, reader: sqlite3.Connection) -> None:
        with self._readers_lock:
            if not self._closed and len(self._readers) < _KEPT_READERS:
                self._readers.append(reader)
                return
        reader.close()

    # ---- opening

    def _create(self) -> None:
        """Sessions hold secrets: a new file is for its owner only.

        One that exists is not opened here. Closing it again would drop the locks that this process holds on it by another store.
        SQLite would take a file that is shorter than any database for a fresh one.
        """
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        except FileExistsError:
            if not os.path.isfile(self.path):
                raise StoreUnavailable("What is at the path of the store is no file, but a folder or a device.") from None
            if 0 < os.stat(self.path).st_size < _SHORTEST:
                raise StoreDamaged from None
            if not os.access(self.path, os.W_OK):  # SQLite would open it to read, and fail later
                raise StoreReadOnly from None
        except (FileNotFoundError, NotADirectoryError):
            raise StoreUnavailable(
                "The folder that the store's file should be in is not there. Make it, or correct the address."
            ) from None

    def _present(self) -> tuple[int, ...]:
        """Identities of what is at the path now and of its folder. Links are not followed: one can lead here from a folder of others."""
        found, folder = os.lstat(self._real), os.lstat(os.path.dirname(self._real))
        return found.st_dev, found.st_ino, folder.st_dev, folder.st_ino

    def _check_present(self) -> None:
        """Raises if the file is not at its path any more. What is written to a file that was removed would be gone with the process."""
        try:
            if self._present() == self._identity:
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        raise StoreUnavailable(
            "The store's file was removed or replaced while it was in use. Put it back, or open the store anew."
        )

    def _open(self, setup: str) -> sqlite3.Connection:
        self._check_present()
        connection = sqlite3.connect(self._real, self._patience, isolation_level=None, check_same_thread=False)
        connection.text_factory = _text
        try:
            connection.executescript(setup)
            self._check_present()  # which was opened by its path
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_writer(self) -> sqlite3.Connection:
        return self._open(_WRITER)

    def _use_log(self, writer: sqlite3.Connection) -> None:
        """WAL mode. It is a property of the file. Two processes that set it at once do not wait for each other by themselves."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                mode = writer.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.OperationalError as error:
                if _code(error) & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)
        if mode != "wal":
            raise StoreUnavailable("The store's file system cannot keep a log beside it.")

    # ---- errors

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _TRANSLATED as error:
            raise self._translation(error) from None

    def _translation(self, error: Exception) -> HoldfastError:
        """An error without a word of paths or SQL: it may reach a client."""
        if isinstance(error, sqlite3.Error):
            return self._meaning(error)
        if isinstance(error, OSError):
            return _OF_SYSTEM.get(error.errno or 0, StoreUnavailable)()
        if isinstance(error, OverflowError):
            return InvalidValue("a number is too large for the store")
        return StoreDamaged()  # what was read makes no sense as a record: the file was changed by something else

    def _meaning(self, error: sqlite3.Error) -> HoldfastError:
        code = _code(error)
        if code == sqlite3.SQLITE_IOERR_WRITE:
            return StoreFull(
                "The store could not be written: the disk, a quota or a limit of file sizes is full, or the disk fails. "
                "Nothing that was acknowledged is lost; free some space and try again."
            )
        if code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            folder = os.path.dirname(self.path)
            if os.path.exists(self.path) and not (os.access(self.path, os.W_OK) and os.access(folder, os.W_OK)):
                return StoreReadOnly()
        if isinstance(error, sqlite3.OperationalError) and not code:  # text that is none
            return StoreDamaged()
        return _MEANINGS.get(code, _MEANINGS.get(code & 0xFF, StoreUnavailable))()


def _can_name_a_file(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def _code(error: sqlite3.Error) -> int:
    """SQLite's extended code; 0 for errors of Python's module itself."""
    return int(getattr(error, "sqlite_errorcode", 0))


_MEANINGS: Final[dict[int, type[StoreError]]] = {
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_IOERR_SHMSIZE: StoreFull,
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_CORRUPT: StoreDamaged,
    sqlite3.SQLITE_NOTADB: StoreDamaged,
    sqlite3.SQLITE_ERROR: StoreDamaged,  # a table or a column is not there
}
_TROUBLE: Final = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
}
_OF_SYSTEM: Final[dict[int, type[StoreError]]] = {
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
    errno.EROFS: StoreReadOnly,
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
}
