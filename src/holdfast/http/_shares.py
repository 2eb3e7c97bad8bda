"""How much each token, each tenant and each address without a token may ask: so many requests a second, and so many at once."""

import math
import time
from collections.abc import Callable
from typing import Final

from holdfast.domain import Quotas
from holdfast.http._errors import RateLimited

_MOST_ADDRESSES: Final = 10_000


class Shares:
    """Token buckets and counters, one of each for every caller, and a bucket for every tenant with a quota of requests.

    There may be any number of addresses: the buckets of those that asked last are kept.
    """

    def __init__(
        self,
        rate_per_s: float,
        concurrency: int,
        clock: Callable[[], float] = time.monotonic,
        quotas: Quotas | None = None,
    ) -> None:
        self._rate, self._most, self._clock = rate_per_s, concurrency, clock
        self._quotas = quotas or Quotas()
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}
        self._addresses: dict[str, None] = {}
        """Addresses that have a bucket; the one that asked last is last."""
        self._present: dict[str, int] = {}

    def enter(self, who: str, tenant: str | None = None, kind: str = "token") -> None:
        """Counts a request in, or raises `RateLimited`. Every one that came in leaves. `kind`: a `token` or an `address` asks."""
        present = self._present.get(who, 0)
        if self._most and present >= self._most:
            raise RateLimited(f"{present} requests of this {kind} are under way, which is the most that may be")
        rate = self._rate
        if kind == "token":
            rate = self._quotas.of_token(who).requests_per_s or rate
        elif rate:
            self._remember(who)
        if rate:
            self._take(kind, who, rate)
        if tenant is not None and (rate := self._quotas.of_tenant(tenant).requests_per_s):
            self._take("tenant", tenant, rate)
        self._present[who] = present + 1

    def _remember(self, address: str) -> None:
        self._addresses.pop(address, None)
        self._addresses[address] = None
        if len(self._addresses) > _MOST_ADDRESSES:
            oldest = next(iter(self._addresses))
            del self._addresses[oldest]
            self._buckets.pop(("address", oldest), None)

    def _take(self, scope: str, who: str, rate: float) -> None:
        now, burst = self._clock(), max(1.0, float(rate))
        left, then = self._buckets.get((scope, who), (burst, now))
        left = min(burst, left + (now - then) * rate)
        if left < 1:
            self._buckets[scope, who] = left, now
            after = max(1, math.ceil((1 - left) / rate))
            message = f"more than {rate:g} requests a second of this {scope}"
            raise RateLimited(message, retry_after=after).with_details(scope=scope, limit=rate, retry_after=after)
        self._buckets[scope, who] = left - 1, now

    def leave(self, who: str) -> None:
        present = self._present[who] - 1
        if present:
            self._present[who] = present
        else:
            del self._present[who]
