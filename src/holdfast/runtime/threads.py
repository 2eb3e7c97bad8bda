"""Threads for what scripts wait for.

A call may ignore that it was told to stop, and take as long as it likes. So these threads do not keep the process from ending, as those
of an executor would; and there are none while nothing is called.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Returned = TypeVar("Returned")


class Threads:
    """Calls functions that never raise, so many at a time; others wait for their turn."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._count = 0

    def call(self, work: Callable[[], Returned]) -> "asyncio.Future[Returned]":
        """Calls it on a thread. On the loop, which hears of the end."""
        future: Future[Returned] = Future()
        with self._lock:
            self._waiting.append((future, work))
            if self._count < self._most:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._count += 1
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """Those that wait are not called any more."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for future, _ in waiting:
            future.cancel()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._count -= 1
                    return
                future, work = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                future.set_result(work())
            del future, work  # nothing of a call is kept while there is no next one
