"""Transactions that a script has left open: they are rolled back by us after a while, whatever the server's own timeouts are by then."""

import heapq
import threading
import time
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 30.0
"""How long a transaction may be idle. It holds locks that others wait for."""


class IdleWatch:
    """Calls a function for each watched object when its time has come. Its thread lives only while something is watched."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._runs = False

    def add(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after so many seconds, on another thread. It must be quick, and must not raise."""
        with self._lock:
            self._count += 1
            heapq.heappush(self._due, (time.monotonic() + seconds, self._count, call))
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._watch, name="holdfast-idle", daemon=True).start()
            self._lock.notify()

    def _watch(self) -> None:
        while True:
            with self._lock:
                while self._due and self._due[0][0] > time.monotonic():
                    self._lock.wait(self._due[0][0] - time.monotonic())
                if not self._due:
                    self._runs = False
                    return
                call = heapq.heappop(self._due)[2]
            call()


WATCH: Final = IdleWatch()
"""That of this process: connections of all sessions share one thread."""
