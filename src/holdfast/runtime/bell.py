"""Wakes the event loop from other threads.

The loop's own way for this, `call_soon_threadsafe`, sends a byte through a pair of sockets, makes an object for each call, and takes tens
of microseconds with all that. On Linux there are counters that one can wait for: one is enough for any number of calls.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable


class Bell:
    """`ring` from any thread: the loop calls `heard` soon after, once for all rings until then."""

    def __init__(self, loop: asyncio.AbstractEventLoop, heard: Callable[[], None]) -> None:
        self._loop, self._heard = loop, heard
        self._lock = threading.Lock()
        self._rung = False
        self._counter = _counter(loop, self._answer)

    def ring(self) -> None:
        """Whatever was done before this is seen by the next call of `heard`."""
        with self._lock:  # once it is closed its descriptor may be somebody else's
            if self._rung:
                return
            self._rung = True
            if self._counter is not None:
                os.eventfd_write(self._counter, 1)
                return
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            self._loop.call_soon_threadsafe(self._answer)

    def close(self) -> None:
        """On the loop. Rings are not heard any more."""
        with self._lock:
            self._rung = True
            counter, self._counter = self._counter, None
        if counter is not None:
            self._loop.remove_reader(counter)
            os.close(counter)

    def _answer(self) -> None:
        with self._lock:
            if self._counter is not None:
                os.eventfd_read(self._counter)
            self._rung = False
        self._heard()


def _counter(loop: asyncio.AbstractEventLoop, heard: Callable[[], None]) -> int | None:
    """A counter that the loop waits for. None where there is none, or the loop cannot."""
    if not hasattr(os, "eventfd"):
        return None
    counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        loop.add_reader(counter, heard)
    except NotImplementedError:
        os.close(counter)
        return None
    return counter
