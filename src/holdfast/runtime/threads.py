"""Threads for what scripts wait for.

A call may ignore that it was told to stop, and take as long as it likes. So these threads do not keep the process from ending, as those
of an executor would; and there are none while nothing is called.

They are shared by owner: each has at most as many as are left for all others, and one that has none gets a thread even if all are taken. Of
those who wait, the tenant with the fewest calls is first, of its tokens the one with the fewest, and of its sessions likewise.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from holdfast.domain import Principal
from holdfast.runtime.fair import FairQueue, Level, Owner, levels

Returned = TypeVar("Returned")
_Call = tuple[Future[Any], Callable[[], Any]]


class Threads:
    """Calls functions that never raise, so many at a time; others wait for their turn. Twice as many if that many owners have calls."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._running: Counter[Level] = Counter()
        self._waiting: FairQueue[_Call] = FairQueue(self._running.__getitem__)
        self._count = 0

    def call(self, work: Callable[[], Returned], owner: Owner) -> "asyncio.Future[Returned]":
        """Calls it on a thread. On the loop, which hears of the end."""
        future: Future[Returned] = Future()
        with self._lock:
            self._waiting.push(owner, (future, work))
            found = self._next()
        if found is not None:
            threading.Thread(target=self._run, args=found, name=self._name, daemon=True).start()
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """Those that wait are not called any more."""
        with self._lock:
            waiting = self._waiting.clear()
        for future, _ in waiting:
            future.cancel()

    def _admits(self, principal: Principal) -> bool:
        running = self._running[principal]
        return running < self._most - self._count or (not running and self._count < 2 * self._most)

    def _next(self) -> tuple[Owner, _Call] | None:
        found = self._waiting.pop(self._admits)
        if found is not None:
            self._count += 1
            self._running.update(levels(found[0]))
        return found

    def _run(self, owner: Owner, call: _Call) -> None:
        found: tuple[Owner, _Call] | None = (owner, call)
        while found is not None:
            owner, (future, work) = found
            if future.set_running_or_notify_cancel():
                future.set_result(work())
            del future, work, call  # nothing of a call is kept while there is no next one
            with self._lock:
                self._count -= 1
                for level in levels(owner):
                    self._running[level] -= 1
                    if not self._running[level]:
                        del self._running[level]
                found = self._next()
            call = None  # type: ignore[assignment]
