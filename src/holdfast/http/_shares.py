"""How much each token may ask: so many requests a second, and so many at once."""

import math
import time
from collections.abc import Callable

from holdfast.http._errors import RateLimited


class Shares:
    """Token buckets and counters, one of each for every caller."""

    def __init__(self, rate_per_s: float, concurrency: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._clock = rate_per_s, concurrency, clock
        self._burst = max(1.0, float(rate_per_s))
        self._buckets: dict[str, tuple[float, float]] = {}
        self._present: dict[str, int] = {}

    def enter(self, who: str) -> None:
        """Counts a request in, or raises `RateLimited`. Every one that came in leaves."""
        present = self._present.get(who, 0)
        if self._most and present >= self._most:
            raise RateLimited(f"{present} requests of this token are under way, which is the most that may be")
        if self._rate:
            self._take(who)
        self._present[who] = present + 1

    def _take(self, who: str) -> None:
        now = self._clock()
        left, then = self._buckets.get(who, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        if left < 1:
            self._buckets[who] = left, now
            raise RateLimited(
                f"more than {self._rate:g} requests a second", retry_after=max(1, math.ceil((1 - left) / self._rate))
            )
        self._buckets[who] = left - 1, now

    def leave(self, who: str) -> None:
        present = self._present[who] - 1
        if present:
            self._present[who] = present
        else:
            del self._present[who]
