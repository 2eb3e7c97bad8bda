"""Fair shares: who used how much, and whose turn is next.

Work belongs to an owner: a tenant, in it a token, in it a session. `Usage` counts CPU seconds for each of them and forgets them with time,
so that what counts is the recent past. `FairQueue` gives the next item of the tenant that used least, of its tokens the one that used
least, and of its sessions likewise. One tenant with a thousand sessions therefore gets as much as another with one.

A session's turn also comes by waiting: each second in the queue makes up for a part of a second of use. So no item waits for ever,
however many new sessions come after it.
"""

import heapq
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from holdfast.domain import Principal

Item = TypeVar("Item")

HALF_LIFE_S: Final = 5.0
"""After this long, CPU time counts half."""
_AGING: Final = 0.5
"""Seconds of use that a second of waiting makes up for, among sessions of one token."""
_MOST_KEPT: Final = 16_384
_NEGLIGIBLE_S: Final = 0.001


class Owner(NamedTuple):
    """On whose account work is done."""

    principal: Principal
    session: UUID


Level = str | Principal | UUID
"""A tenant by its name, a token by its principal, or a session by its id."""


def levels(owner: Owner) -> tuple[Level, Level, Level]:
    """The three accounts of an owner, largest first."""
    return owner.principal.tenant, owner.principal, owner.session


class Usage:
    """CPU seconds by tenant, token and session, halved every `HALF_LIFE_S`; and how long steps of each session usually take.

    Used by several threads: single operations on dicts are atomic, and a charge that gets lost in a race does not matter.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[Level, tuple[float, float]] = {}
        self._typical: dict[UUID, tuple[float, float]] = {}
        """The last two: a single one that took long may have been an accident."""

    def of(self, level: Level) -> float:
        """Seconds used lately."""
        used = self._used.get(level)
        if used is None:
            return 0.0
        amount, at = used
        return float(amount * 0.5 ** ((self._clock() - at) / HALF_LIFE_S))

    def charge(self, owner: Owner, seconds: float) -> None:
        """Adds to all three accounts of an owner."""
        now = self._clock()
        for level in levels(owner):
            self._used[level] = (self.of(level) + seconds, now)
        if len(self._used) > _MOST_KEPT:
            self._forget()

    def note_step(self, owner: Owner, seconds: float) -> None:
        """Remembers how long a job of a session took."""
        before = self._typical.get(owner.session)
        self._typical[owner.session] = (0.0 if before is None else before[1], seconds)
        if len(self._typical) > _MOST_KEPT:
            for session in list(self._typical)[: _MOST_KEPT // 2]:
                self._typical.pop(session, None)

    def expected(self, owner: Owner) -> float | None:
        """Seconds that the next job of a session is likely to take; None if nothing is known of the session."""
        found = self._typical.get(owner.session)
        return None if found is None else min(found)

    def _forget(self) -> None:
        small = [level for level in list(self._used) if self.of(level) < _NEGLIGIBLE_S]
        for level in small or list(self._used)[: _MOST_KEPT // 2]:
            self._used.pop(level, None)


class FairQueue(Generic[Item]):
    """A queue in which owners take turns. `used` says how much a tenant or a token or a session had so far. Not thread-safe."""

    def __init__(self, used: Callable[[Level], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._used, self._clock = used, clock
        self._tenants: dict[str, dict[Principal, list[tuple[float, int, Owner, Item]]]] = {}
        self._numbers = count()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, owner: Owner, item: Item) -> None:
        """Adds an item."""
        tokens = self._tenants.setdefault(owner.principal.tenant, {})
        waiting = tokens.setdefault(owner.principal, [])
        rank = self._used(owner.session) + self._clock() * _AGING
        heapq.heappush(waiting, (rank, next(self._numbers), owner, item))
        self._length += 1

    def pop(self, admits: Callable[[Principal], bool] | None = None) -> tuple[Owner, Item] | None:
        """Removes and gives the item whose turn it is, of those whose principal is admitted. None if there is none."""
        for tenant in sorted(self._tenants, key=self._used) if len(self._tenants) > 1 else list(self._tenants):
            tokens = self._tenants[tenant]
            for principal in sorted(tokens, key=self._used) if len(tokens) > 1 else list(tokens):
                if admits is not None and not admits(principal):
                    continue
                _, _, owner, item = heapq.heappop(tokens[principal])
                self._drop_empty(tenant, principal)
                return owner, item
        return None

    def remove(self, matches: Callable[[Item], bool]) -> tuple[Owner, Item] | None:
        """Removes and gives the first item that matches, wherever it stands. Takes time in proportion to the length."""
        for tenant, tokens in self._tenants.items():
            for principal, waiting in tokens.items():
                for at, (_, _, owner, item) in enumerate(waiting):
                    if matches(item):
                        del waiting[at]
                        heapq.heapify(waiting)
                        self._drop_empty(tenant, principal)
                        return owner, item
        return None

    def _drop_empty(self, tenant: str, principal: Principal) -> None:
        self._length -= 1
        tokens = self._tenants[tenant]
        if not tokens[principal]:
            del tokens[principal]
            if not tokens:
                del self._tenants[tenant]

    def oldest(self, principal: Principal) -> Item:
        """The item of a principal that came first, of those that wait."""
        return min(self._tenants[principal.tenant][principal], key=lambda entry: entry[1])[3]

    def principals(self) -> Iterator[Principal]:
        """Those that wait for something."""
        for tokens in self._tenants.values():
            yield from tokens

    def clear(self) -> list[Item]:
        """Removes and gives all items."""
        items = [entry[3] for tokens in self._tenants.values() for waiting in tokens.values() for entry in sorted(waiting)]
        self._tenants.clear()
        self._length = 0
        return items
