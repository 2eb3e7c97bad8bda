"""Group commit: a single session waits for nobody, and with many at once one sync to disk serves many.

There is no thread that only writes: handing a commit over would take a third of the time of writing it. Whoever finishes a step while
nobody writes becomes the writer, for itself and for all who finish in the meantime. While more jobs wait, commits gather.

A large commit is apart: whoever made it writes it, alone and after the group that is being written, so that small ones share no transaction
with it and no other thread spends its time on it. Small and large ones take turns.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.domain import HoldfastError
from holdfast.store import Commit, Store, StoreError, prepare

_MOST: Final = 128
_LARGE: Final = 64 << 10
"""Bytes from which on a commit is written alone."""
_COMPANY: Final = 64
"""Commits that are worth a sync. More would be written a little cheaper, but meanwhile all their sessions wait."""

_LONGEST_S: Final = 0.005
"""How long a commit waits for company: the jobs that it would wait for may be another owner's."""

Done = Callable[[HoldfastError | None], None]


class _Waiting(NamedTuple):
    commit: Commit
    done: Done


class _Latch:
    """Waits until so many commits are done."""

    def __init__(self, count: int) -> None:
        self._left, self._open = count, threading.Event()
        self._error: HoldfastError | None = None

    def done(self, error: HoldfastError | None) -> None:  # one thread writes at a time
        self._error = self._error or error
        self._left -= 1
        if not self._left:
            self._open.set()

    def wait(self) -> None:
        self._open.wait()
        if self._error is not None:
            raise self._error


class Committer:
    """Writes commits in groups. `done` is called, on whatever thread wrote, after the commit is durable or refused.

    `flushed` is called once after each group, when `done` of all its members was called.
    """

    def __init__(self, store: Store, flushed: Callable[[], None]) -> None:
        self._store, self._flushed = store, flushed
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)
        self._waiting: list[_Waiting] = []
        self._since = 0.0
        """When the first of those came that wait."""
        self._writing = False
        self._large = 0
        """How many threads wait to write a large one."""

    def submit(self, commit: Commit, done: Done, *, linger: bool = False) -> None:
        """Hands a commit over. With `linger` it may wait for company: the caller promises to call `flush`, or to submit another."""
        waiting = _Waiting(commit, done)
        if self._prepared(commit) > _LARGE:
            self._write_large(waiting)
            return
        with self._lock:
            now = time.monotonic()
            if not self._waiting:
                self._since = now
            self._waiting.append(waiting)
            if self._writing or (linger and len(self._waiting) < _COMPANY and now - self._since < _LONGEST_S):
                return
            self._writing = True
        self._write()

    @staticmethod
    def _prepared(commit: Commit) -> int:
        try:
            return prepare(commit)
        except HoldfastError:  # the store says the same when it comes to that
            return 0

    def _write_large(self, waiting: _Waiting) -> None:
        with self._lock:
            self._large += 1
            while self._writing:
                self._free.wait()
            self._large -= 1
            self._writing = True
        self._write_all([waiting])
        self._write()

    def flush(self) -> None:
        """Writes what lingers."""
        with self._lock:
            if self._writing or not self._waiting:
                return
            self._writing = True
        self._write()

    def commit(self, commit: Commit) -> None:
        """Returns when the commit is durable. Raises what was wrong with it."""
        self.commit_all([commit])

    def commit_all(self, commits: list[Commit]) -> None:
        """Returns when all of them are durable. Raises what was wrong with one of them."""
        if not commits:
            return
        latch = _Latch(len(commits))
        for commit in commits:
            self.submit(commit, latch.done, linger=True)
        self.flush()
        latch.wait()

    def _write(self) -> None:
        """Writes groups while there are any, or until it is the turn of a large commit."""
        while True:
            with self._lock:
                group, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            if group:
                self._write_all(group)
            with self._lock:
                self._writing = bool(self._waiting) and not self._large
                if not self._writing:
                    self._free.notify()
                    return

    def _write_all(self, group: list[_Waiting]) -> None:
        for waiting, error in zip(group, self._store_all([waiting.commit for waiting in group]), strict=True):
            waiting.done(error)
        self._flushed()

    def _store_all(self, commits: list[Commit]) -> list[HoldfastError | None]:
        try:
            return self._store.commit(commits)
        except HoldfastError as error:
            return [error] * len(commits)
        except Exception as error:  # noqa: BLE001 - whatever it was, those who wait must hear of it
            problem = StoreError("the store failed in a way that was not foreseen")
            problem.__cause__ = error
            return [problem] * len(commits)
