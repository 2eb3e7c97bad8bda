"""Quotas of tenants and tokens, held against what the store has counted for them.

What the commits of all processes have added up is read from the store, and taken for the present for a moment, with what this process
has committed since. Close to a limit it is read anew each time. A tenant without quotas costs nothing.
"""

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from holdfast.domain import HOUR_MS, Amounts, Principal, Quota, QuotaExceeded, Quotas, hour_of
from holdfast.store import Commit, Store, tenant_scope

_FRESH_S: Final = 1.0
_CLOSE: Final = 0.9
"""From which part of a limit on the store is asked each time."""
_MARGIN: Final = 1 + 1 / 16
"""How far, as a part of it, one step may pass a quota of bytes. Those after it are refused."""
_MEGABYTE: Final = 1 << 20
_MOST_KNOWN: Final = 10_000
STORED_AGAIN_MS: Final = 60_000
"""After how long a session that waits for a quota of what is stored looks again: something may have been deleted."""


class _Known:
    """What a tenant used when the store was asked, and since then: by token and, for None, all together."""

    def __init__(self, at: float, hour: int) -> None:
        self.at, self.hour = at, hour
        self.cpu_us: Counter[str | None] = Counter()
        self.sessions: Counter[str | None] = Counter()
        self.events: Counter[str | None] = Counter()
        self.bytes: Counter[str | None] = Counter()
        self.changed = False

    def add(self, token: str, hour: int, used: Amounts, sessions: int) -> None:
        for member in (None, token):
            if hour:
                self.cpu_us[member] += used.cpu_us
            else:
                self.sessions[member] += sessions
                self.events[member] += used.events
                self.bytes[member] += used.bytes

    def used(self, name: str, member: str | None) -> float:
        """How much of a quota one token has used, or all together."""
        if name == "cpu_s_per_hour":
            return self.cpu_us[member] / 1e6
        if name == "mb":
            return self.bytes[member] / _MEGABYTE
        return self.sessions[member] if name == "sessions" else self.events[member]


class QuotaLedger:
    """The quotas of a runtime. May be called from any thread; what reads the store is called on worker threads."""

    def __init__(self, store: Store, quotas: Quotas, node: UUID, clock: Callable[[], float] = time.monotonic) -> None:
        self.quotas, self._store, self._node, self._clock = quotas, store, node, clock
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._running: Counter[Principal] = Counter()
        self._making = threading.Lock()

    # ---- checks --------------------------------------------------------------------------------------------------------------------

    def excess(self, principal: Principal, now: float) -> QuotaExceeded | None:
        """Return the quota that keeps the sessions of a principal from running: CPU time of this hour, events and bytes stored."""
        return self._excess(principal, now, ("cpu_s_per_hour", "events", "mb"))

    def bounds_bytes(self, principal: Principal) -> bool:
        """Whether there is a quota of what the sessions of a principal store."""
        found = self.quotas.of(principal)
        return found is not None and any(quota.mb for quota in found)

    def excess_with(self, principal: Principal, now: float, size: int) -> QuotaExceeded | None:
        """Return the quota of bytes that is passed, by more than a margin, if so many more are stored."""
        if not self.bounds_bytes(principal):
            return None
        known = self._read(principal.tenant, hour_of(now))
        quotas = self.quotas.of_tenant(principal.tenant), self.quotas.of_token(principal.token)
        for scope, member, quota in zip(("tenant", "token"), (None, principal.token), quotas, strict=True):
            used = known.used("mb", member) + size / _MEGABYTE
            if quota.mb and used > quota.mb * _MARGIN:
                return QuotaExceeded.of(scope, "mb", quota.mb, round(used, 3))
        return None

    @contextlib.contextmanager
    def sessions(self, principal: Principal, now: float, more: int = 1) -> Iterator[None]:
        """Make sessions, one maker at a time, if no quota is used up by that: `QuotaExceeded`."""
        if self.quotas.of(principal) is None or more < 1:
            yield
            return
        with self._making:
            error = self._excess(principal, now, ("sessions", "cpu_s_per_hour", "events", "mb"), more)
            if error is not None:
                raise error
            yield

    @contextlib.contextmanager
    def execution(self, principal: Principal) -> Iterator[None]:
        """Count an execution that runs. `QuotaExceeded` if there are too many at once, here and in other processes."""
        found = self.quotas.of(principal)
        if found is None:
            yield
            return
        elsewhere = self._elsewhere(principal) if found[0].executions or found[1].executions else (0, 0)
        with self._lock:
            of_tenant = sum(count for one, count in self._running.items() if one.tenant == principal.tenant)
            running = of_tenant + elsewhere[0], self._running[principal] + elsewhere[1]
            for scope, quota, count in zip(("tenant", "token"), found, running, strict=True):
                if quota.executions and count >= quota.executions:
                    raise QuotaExceeded.of(scope, "executions", quota.executions, count, 1)
            self._running[principal] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[principal] -= 1
                if not self._running[principal]:
                    del self._running[principal]

    def used(self, principal: Principal, now: float) -> dict[str, dict[str, float]]:
        """Return what a tenant and a token use now, by the names of quotas. Reads the store."""
        known = self._read(principal.tenant, hour_of(now))
        with self._lock:
            running = dict(self._running)
        elsewhere = self._elsewhere(principal)
        found: dict[str, dict[str, float]] = {}
        for place, (scope, member) in enumerate((("tenant", None), ("token", principal.token))):
            here = sum(
                count for one, count in running.items() if one.tenant == principal.tenant and member in (None, one.token)
            )
            found[scope] = {
                "executions": here + elsewhere[place],
                **{name: known.used(name, member) for name in ("cpu_s_per_hour", "sessions", "events", "mb")},
            }
        return found

    def written(self, commit: Commit) -> None:
        """Note what a commit of this process has used, after it is durable."""
        known = self._known.get(commit.session.tenant)
        if known is None:
            return
        with self._lock:
            known.changed = True
            if commit.used is not None:
                amounts = commit.used.amounts._replace(bytes=commit.used.amounts.bytes - commit.used.freed)
                known.add(commit.session.token, 0, amounts, int(commit.expected is None))
                if commit.used.hour == known.hour:
                    known.add(commit.session.token, known.hour, commit.used.amounts, 0)

    # ---- what is known -------------------------------------------------------------------------------------------------------------

    def _excess(self, principal: Principal, now: float, names: tuple[str, ...], more: int = 0) -> QuotaExceeded | None:
        found = self.quotas.of(principal)
        if found is None or not any(getattr(quota, name) for quota in found for name in names):
            return None
        hour = hour_of(now)
        known = self._known.get(principal.tenant)
        if known is None or known.hour != hour or self._clock() - known.at > _FRESH_S or "sessions" in names:
            known = self._read(principal.tenant, hour)
        close = _over(known, principal, found, names, now, _CLOSE, more)
        if close is None or not known.changed:
            return close and _over(known, principal, found, names, now, 1.0, more)
        return _over(self._read(principal.tenant, hour), principal, found, names, now, 1.0, more)

    def _read(self, tenant: str, hour: int) -> _Known:
        known = _Known(self._clock(), hour)
        for row in self._store.read_usage(tenant_scope(tenant), hour):
            known.add(row.member, row.hour, row.amounts, row.sessions)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[tenant] = known
        return known

    def _elsewhere(self, principal: Principal) -> tuple[int, int]:
        """How many sessions of the tenant, and of the token, run in other processes, as far as that is durable."""
        counts = self._store.count_running(principal.tenant, self._node)
        return sum(counts.values()), counts.get(principal.token, 0)


def _over(
    known: _Known, principal: Principal, quotas: tuple[Quota, Quota], names: tuple[str, ...], now: float, part: float, more: int
) -> QuotaExceeded | None:
    """Return the first of some quotas of which this part is used."""
    for scope, member, quota in (("tenant", None, quotas[0]), ("token", principal.token, quotas[1])):
        for name in names:
            limit, used = getattr(quota, name), known.used(name, member)
            if name == "sessions":
                used += max(0, more - 1)
            if limit and used >= limit * part:
                left = (hour_of(now) + 1) * HOUR_MS - now
                after = max(1, math.ceil(left / 1000)) if name == "cpu_s_per_hour" else None
                return QuotaExceeded.of(scope, name, limit, used, after)
    return None
