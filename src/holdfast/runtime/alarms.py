"""When to wake which session."""

import asyncio
import contextlib
import heapq
from collections.abc import Callable
from typing import Final
from uuid import UUID

HORIZON_MS: Final = 5_000
"""How far ahead the store is looked at for sessions that wait for the clock."""

_LONGEST_SLEEP_S: Final = 1.0
_JUMP_MS: Final = 1_000


class Alarms:
    """Those of the near future, on a heap. When one is due, `wake` is called with the session and what the session calls that time."""

    def __init__(self, clock: Callable[[], float], wake: Callable[[UUID, int], None]) -> None:
        self._clock, self._wake = clock, wake
        self._due: list[tuple[float, UUID, int]] = []
        """When to wake which session by this process's clock, and what the session itself calls that time."""
        self._seen = 0.0
        self._earlier = asyncio.Event()

    @property
    def sessions(self) -> set[UUID]:
        return {session_id for _, session_id, _ in self._due}

    def set(self, at: int, session_id: UUID, since: int = 0) -> None:
        """Wakes a session at a time that it has known since another time. One that is far away is left to the store."""
        now = self._clock()
        # The time of a session never goes back. If the clock did, they differ, and only how long to wait counts.
        ring = now + at - since if since > now + _JUMP_MS else at
        if ring - now > 2 * HORIZON_MS:
            return  # it is found in the store when its time comes near
        entry = (ring, session_id, at)
        heapq.heappush(self._due, entry)
        if self._due[0] is entry:
            self._earlier.set()

    async def ring(self) -> None:
        """Wakes sessions when they are due, for ever. It looks at the clock every second, since clocks jump."""
        while True:
            now = self._clock()
            if now < self._seen - _JUMP_MS:  # nobody shall sleep longer for that
                self._due = [(ring - self._seen + now, session_id, at) for ring, session_id, at in self._due]
            self._seen = now
            while self._due and self._due[0][0] <= now:
                _, session_id, at = heapq.heappop(self._due)
                self._wake(session_id, at)
            rest = (self._due[0][0] - now) / 1000 if self._due else _LONGEST_SLEEP_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(rest, _LONGEST_SLEEP_S)):
                    await self._earlier.wait()
            self._earlier.clear()
