"""Group commit: a single session waits for nobody, and with many at once one sync to disk serves many.

There is no thread that only writes: handing a commit over would take a third of the time of writing it. Whoever finishes a step while
nobody writes becomes the writer, for itself and for all who finish in the meantime. While more jobs wait, commits gather.
"""

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.domain import HoldfastError
from holdfast.store import Commit, Store, StoreError

_MOST: Final = 128
_COMPANY: Final = 64
"""Commits that are worth a sync. More would be written a little cheaper, but meanwhile all their sessions wait."""

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
        self._waiting: list[_Waiting] = []
        self._writing = False

    def submit(self, commit: Commit, done: Done, *, linger: bool = False) -> None:
        """Hands a commit over. With `linger` it may wait for company: the caller promises to call `flush`, or to submit another."""
        with self._lock:
            self._waiting.append(_Waiting(commit, done))
            if self._writing or (linger and len(self._waiting) < _COMPANY):
                return
            self._writing = True
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
        with self._lock:
            self._waiting += [_Waiting(commit, latch.done) for commit in commits]
        self.flush()
        latch.wait()

    def _write(self) -> None:
        while self._write_group():
            pass

    def _write_group(self) -> bool:
        """Whether there is another."""
        with self._lock:
            group, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
        for waiting, error in zip(group, self._store_all([waiting.commit for waiting in group]), strict=True):
            waiting.done(error)
        self._flushed()
        with self._lock:
            self._writing = bool(self._waiting)
            return self._writing

    def _store_all(self, commits: list[Commit]) -> list[HoldfastError | None]:
        try:
            return self._store.commit(commits)
        except HoldfastError as error:
            return [error] * len(commits)
        except Exception as error:  # noqa: BLE001 - whatever it was, those who wait must hear of it
            problem = StoreError("the store failed in a way that was not foreseen")
            problem.__cause__ = error
            return [problem] * len(commits)
