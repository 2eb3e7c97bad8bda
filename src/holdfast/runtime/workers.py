"""Threads that run jobs, and one that watches them.

A few threads are enough while jobs are short: the interpreter runs one at a time, and what runs beside it is scripts and the store.
When all of them are taken by slow scripts and jobs wait, the watch adds more, so that one session's script never delays another's call.
"""

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from holdfast.domain import HoldfastError
from holdfast.runtime.resident import Resident

_TICK: Final = 0.01
_BASE: Final = 2
_MOST: Final = 64
_IDLE_S: Final = 5.0

Job = TypeVar("Job")


class Workers(Generic[Job]):
    """A pool of threads that call `run` with jobs, in the order in which they came."""

    def __init__(self, run: Callable[[Job], None], flush: Callable[[], None], begin_after_ms: float) -> None:
        self._run, self._flush, self._begin_after = run, flush, begin_after_ms / 1000
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._taken = itertools.count()
        self._last_taken = 0
        self._running: dict[Resident, float] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._closed = False
        self._watch = threading.Thread(target=self._watching, name="holdfast-watch", daemon=True)
        for _ in range(_BASE):
            self._add()
        self._watch.start()

    def put(self, job: Job) -> None:
        """Runs a job as soon as a thread is free."""
        self._jobs.put(job)
        if not self._busy.is_set():
            self._busy.set()

    @property
    def backlog(self) -> bool:
        """Whether jobs wait."""
        return not self._jobs.empty()

    def enter(self, resident: Resident) -> None:
        """A step of this session begins."""
        self._running[resident] = time.monotonic()

    def leave(self, resident: Resident) -> None:
        """It has ended."""
        self._running.pop(resident, None)

    def close(self) -> None:
        """Waits for the jobs that run; none is begun after that."""
        self._closed = True
        with self._lock:
            threads = list(self._threads)
        self._jobs.put(None)
        self._busy.set()
        for thread in threads:
            thread.join()
        self._watch.join()

    def _add(self) -> None:
        thread = threading.Thread(target=self._working, name="holdfast-worker", daemon=True)
        with self._lock:  # whoever sees it can join it
            self._threads.add(thread)
            thread.start()

    def _working(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=None if len(self._threads) <= _BASE else _IDLE_S)
            except queue.Empty:
                with self._lock:
                    if len(self._threads) <= _BASE:
                        continue
                    self._threads.discard(threading.current_thread())
                    return
            if job is None:
                self._jobs.put(None)  # for the others, of whom there may be more than there were
                return
            self._last_taken = next(self._taken)
            self._run(job)
            del job

    def _watching(self) -> None:
        while not self._closed:
            self._busy.wait()
            seen = self._last_taken
            time.sleep(_TICK)
            self._flush()
            self._begin_slow()
            if self.backlog:
                if seen == self._last_taken and len(self._threads) < _MOST:
                    self._add()
            elif not self._running and not self._closed:
                self._busy.clear()
                if self.backlog or self._running:
                    self._busy.set()

    def _begin_slow(self) -> None:
        """Steps that take long become durable, so that a crash does not lose them."""
        now = time.monotonic()
        for resident, since in list(self._running.items()):
            begin = resident.begin
            if now - since < self._begin_after or begin is None:
                continue
            self._running[resident] = float("inf")
            with contextlib.suppress(HoldfastError):  # the step goes on, and hears of it when it commits
                begin()
