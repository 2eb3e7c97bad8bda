"""Sessions that met in the state go one after the other.

If many change the same key at once, one of each group that is committed wins, and all others are run again, to meet once more. So those
that have met in a namespace wait for each other from then on: each time one of them is run again, it meets only newcomers, and other
processes.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

MOST_CONFLICTS: Final = 100
"""How often a step is run again because others changed the same state."""
_AT_ONCE: Final = 3
_PAUSE_S: Final = 0.002
_LONGEST_S: Final = 0.05

Work = TypeVar("Work")


class Lanes(Generic[Work]):
    """Queues of work, by namespace, of which the first is under way. On the loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: Callable[[Work], None]) -> None:
        self._loop, self._start = loop, start
        self._queues: dict[str, deque[tuple[Work, int]]] = {}

    def enter(self, name: str, work: Work, conflicts: int) -> None:
        """Starts it when its turn has come."""
        queue = self._queues.setdefault(name, deque())
        queue.append((work, conflicts))
        if len(queue) == 1:
            self._begin(*queue[0])

    def leave(self, name: str) -> None:
        """The first one has come to an end, whichever."""
        queue = self._queues[name]
        queue.popleft()
        if queue:
            self._begin(*queue[0])
        else:
            del self._queues[name]

    def _begin(self, work: Work, conflicts: int) -> None:
        if conflicts <= _AT_ONCE:
            self._start(work)
        else:  # another process is at it too: whoever waits for a random while lets it come to its end
            pause = random.uniform(0, min(_PAUSE_S * conflicts, _LONGEST_S))  # noqa: S311 - it shall only differ from theirs
            self._loop.call_later(pause, self._start, work)
