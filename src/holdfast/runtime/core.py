"""What all jobs of a runtime share."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from holdfast.domain import HoldfastError, Session, Usage, UsageExceeded
from holdfast.runtime.committer import Committer
from holdfast.runtime.nodes import is_dead
from holdfast.runtime.quotas import STORED_AGAIN_MS, QuotaLedger
from holdfast.runtime.shelf import Shelf
from holdfast.runtime.usage import Allowances
from holdfast.store import Commit, Store

if TYPE_CHECKING:
    from holdfast.runtime.resident import Resident
    from holdfast.runtime.workers import Workers

_LOOKS: Final = 2
_log: Final = logging.getLogger("holdfast.runtime")


def system_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Core:
    """The parts of a runtime that jobs use, on worker threads."""

    store: Store
    shelf: Shelf
    key: bytes
    node: UUID
    clock: Callable[[], float]
    allowances: Allowances
    quotas: QuotaLedger
    begin_after_ms: float = 50
    looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOOKS))
    """For looking at the variables of checkpoints, which takes long, on threads that others need."""
    stopping: bool = False
    committer: Committer = field(init=False)
    watch: "Workers[Any]" = field(init=False)
    _random: random.Random = field(default_factory=random.Random)

    def token(self) -> int:
        """A number that no other commit bears."""
        return self._random.getrandbits(63)

    def own(self, session: Session) -> None:
        """The next version of a session, and this process is its owner."""
        session.version += 1
        if session.owner != self.node:
            session.owner = self.node
            session.fence += 1

    def change(self, session: Session) -> Commit:
        """The commit that takes a session from what the store has to its next version, to be filled with what changes."""
        expected, fence = session.version, session.fence
        self.own(session)
        return Commit(session, expected, fence, self.token())

    def is_alive(self, node: UUID) -> bool:
        """Whether a node may still run its sessions. One that is proven dead is retired, so that nobody waits for its lease."""
        if not self.store.is_alive(node):
            return False
        if not is_dead(node):
            return True
        self.store.retire(node)
        return False

    def retire_dead(self) -> None:
        """Retire all nodes that are proven dead."""
        for node in self.store.list_leases():
            if node != self.node and is_dead(node):
                _log.info("node.taken_over node=%s", node)
                self.store.retire(node)

    def admit(self, resident: "Resident", *, begins: bool) -> None:
        """Refuse to run a session while a limit over time or a quota is used up: `UsageExceeded`, `QuotaExceeded`."""
        session, now = resident.session, self.now(resident)
        self.allowances.check(session, resident.shelved.limits, now, begins=begins)
        error = self.quotas.excess(session.principal, now)
        if error is not None:
            raise error

    def hold(self, resident: "Resident", usage: Usage, now: int) -> tuple[int, HoldfastError] | None:
        """Return until when a session with this usage does nothing by itself, and why."""
        excess = self.allowances.in_hour(usage, resident.shelved.limits, now)
        if excess is not None and excess.available_at is not None:
            return excess.available_at, UsageExceeded(excess, now)
        error = self.quotas.excess(resident.session.principal, now)
        if error is None:
            return None
        after = STORED_AGAIN_MS if error.retry_after is None else error.retry_after * 1000
        return now + after, error

    def now(self, resident: "Resident") -> int:
        """The time, as far as a session is concerned: it never goes back."""
        return max(int(self.clock()), resident.latest)

    def is_stopping(self) -> bool:
        """Whether scripts that run are to be stopped, to go on in another process."""
        return self.stopping

    def report(self, error: HoldfastError) -> None:
        """For the operator: what went wrong in the host, with its cause. Clients see only the error itself."""
        _log.error("%s: %s", error.code, error, exc_info=error.__cause__)
