"""Threads that run jobs, and one that watches them.

One thread is enough while jobs are short: the interpreter runs one at a time anyway, and two would take its lock from each other at every
step. When it is taken by a slow script and jobs wait, the watch adds others, so that one session's script does not delay another's call.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from holdfast.domain import HoldfastError
from holdfast.runtime.resident import Resident

_log: Final = logging.getLogger("holdfast.runtime")
_TICK: Final = 0.005
_BASE: Final = 1
_MOST: Final = 64
_SLOW_S: Final = 0.02

Job = TypeVar("Job")


class Workers(Generic[Job]):
    """A pool of threads that call `run` with jobs, in the order in which they came."""

    def __init__(self, run: Callable[[Job], None], flush: Callable[[], None], begin_after_ms: float) -> None:
        self._run, self._flush, self._begin_after = run, flush, begin_after_ms / 1000
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._since: dict[threading.Thread, float] = {}
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
        if not self._busy.is_set():  # the watch may have seen nobody while the session was loaded
            self._busy.set()

    def leave(self, resident: Resident) -> None:
        """It has ended."""
        self._running.pop(resident, None)

    def close(self) -> None:
        """Waits for the jobs that run; none is begun after that."""
        self._closed = True
        self._busy.set()
        self._watch.join()  # first of all: it may be about to add a thread
        with self._lock:
            threads = list(self._threads)
        self._jobs.put(None)
        for thread in threads:
            thread.join()
        self._flush()

    def _add(self) -> None:
        thread = threading.Thread(target=self._working, name="holdfast-worker", daemon=True)
        with self._lock:  # whoever sees it can join it
            self._threads.add(thread)
            thread.start()

    def _working(self) -> None:
        me = threading.current_thread()
        while True:
            job = self._next()
            if job is None:
                self._jobs.put(None)  # for the others, of whom there may be more than there were
                self._flush()
                return
            self._since[me] = time.monotonic()
            self._run(job)
            del job, self._since[me]
            if len(self._threads) > _BASE and self._is_spare(me):
                return

    def _next(self) -> Job | None:
        """The next job. Nobody waits for one while commits wait for company: it may not come."""
        try:
            return self._jobs.get_nowait()
        except queue.Empty:
            self._flush()
            return self._jobs.get()

    def _is_spare(self, me: threading.Thread) -> bool:
        """Whether those that were busy are back, and this thread is needed no more."""
        with self._lock:
            spare = len(self._threads) - self._slow() > _BASE and not self._closed
            if spare:
                self._threads.discard(me)
        return spare

    def _watching(self) -> None:
        while not self._closed:
            self._busy.wait()
            time.sleep(_TICK)
            if self._slow():  # whoever was to write may be at a script that takes long
                self._flush()
            self._begin_slow()
            if self.backlog:
                if self._slow() >= len(self._threads) < _MOST:
                    self._add()
            elif not self._running and not self._since and not self._closed:
                self._busy.clear()
                if self.backlog or self._running:
                    self._busy.set()

    def _slow(self) -> int:
        """How many threads have been at one job for a while."""
        before = time.monotonic() - _SLOW_S
        return sum(since < before for since in list(self._since.values()))

    def _begin_slow(self) -> None:
        """Steps that take long become durable, so that a crash does not lose them."""
        now = time.monotonic()
        for resident, since in list(self._running.items()):
            begin = resident.begin
            if now - since < self._begin_after or begin is None:
                continue
            self._running[resident] = float("inf")
            try:
                begin()
            except HoldfastError as error:
                _log.info("a step that takes long could not be made durable yet: %s", error)
                if resident in self._running:
                    self._running[resident] = now
