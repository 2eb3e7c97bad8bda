"""Usage over time: what a step adds to it, and whether a session may go on.

A session's own usage is in its row, and changes with the commit of each step. That of all forks of a session together, and that of
tenants and tokens, is in a table of the store, to which the same commits add; it is read from there again after a moment.

A limit of an hour ends nothing: whoever wants to run the session is told when to come back, and what the session does by itself, by timers
and tools, waits until then. A limit in total ends the execution that reaches it.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from holdfast.domain import (
    Allowance,
    Amounts,
    Event,
    EventType,
    Excess,
    Execution,
    HoldfastError,
    Limits,
    Query,
    QueryKind,
    Session,
    Step,
    Usage,
    UsageExceeded,
    hour_of,
)
from holdfast.store import Commit, StateWrite, Store, Used, family_scope, pack_events, packed

if TYPE_CHECKING:
    from holdfast.runtime.resident import Resident

_FRESH_S: Final = 1.0
"""How long the usage of a family, as it was read, is taken for its present one."""
_MOST_KNOWN: Final = 10_000


def size_of(step: Step, asked: Sequence[Query], closed: Sequence[Query]) -> int:
    """Return how many bytes a step stores. The text of its events is kept with it, to be written as it is."""
    step.text = pack_events(step.events)
    size = len(step.text or "") + (0 if step.checkpoint is None else len(step.checkpoint.sealed))
    size += sum(len(packed(query.payload)) for query in asked if query.guest_id is not None)
    return size + sum(len(packed(query.answer)) for query in closed if query.answer is not None)


def size_of_input(execution: Execution) -> int:
    """Return how many bytes are stored of what an execution was asked to do."""
    given = sum(len(packed(value)) for value in (execution.args, execution.env) if value is not None)
    return len(execution.input or "") + given


def size_of_state(writes: Iterable[StateWrite]) -> int:
    """Return how many bytes a commit writes to the state."""
    return sum(len(write.key) + len(write.value or "") for write in writes)


def charge(commit: Commit, used: Amounts, now: float, *, begins: bool = False, freed: int = 0) -> None:
    """Count what a commit uses, for its session and for all that the session belongs to."""
    session, hour = commit.session, hour_of(now)
    before = commit.used
    session.usage = session.usage.plus(used, hour, begins=begins)
    if freed:
        freed = min(freed, session.usage.stored_bytes)
        session.usage = session.usage._replace(stored_bytes=session.usage.stored_bytes - freed)
    commit.used = Used(hour, used if before is None else before.amounts.plus(used), freed)


class Allowances:
    """What sessions may use over time. `bounds` are limits that no template exceeds. Called on worker threads."""

    def __init__(
        self, store: Store, bounds: Mapping[str, int] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._bounds, self._clock = store, dict(bounds or {}), clock
        self._allowances: dict[Limits, Allowance] = {}
        self._families: dict[UUID, tuple[float, int, Amounts, Amounts]] = {}

    def of(self, limits: Limits) -> Allowance:
        """Return the limits over time that hold where a template has these."""
        known = self._allowances.get(limits)
        if known is None:
            if len(self._allowances) >= _MOST_KNOWN:
                self._allowances.clear()
            known = self._allowances[limits] = Allowance.of(limits, self._bounds)
        return known

    def in_hour(self, usage: Usage, limits: Limits, now: float) -> Excess | None:
        """Return the limit of this hour that a session has used up, alone or with the other forks of its family."""
        allowance, hour = self.of(limits), hour_of(now)
        found = allowance.hour_excess(usage.this_hour(hour), hour)
        if found is None and usage.root is not None:
            found = allowance.hour_excess(self._family(usage.root, hour)[1], hour)
        return found

    def in_total(self, usage: Usage, limits: Limits, now: float) -> Excess | None:
        """Return the limit in total that an execution with this usage of its session has reached."""
        allowance = self.of(limits)
        found = allowance.total_excess(usage)
        if found is None and usage.root is not None:
            found = allowance.session_excess(self._family(usage.root, hour_of(now))[0])
        return found

    def check(self, session: Session, limits: Limits, now: float, *, begins: bool) -> None:
        """Refuse to run a session that has used up a limit: `UsageExceeded`. `begins`: a new execution is to be started."""
        usage = session.usage._replace(execution=Amounts()) if begins else session.usage
        excess = self.in_hour(usage, limits, now) or self.in_total(usage, limits, now)
        if excess is not None:
            raise UsageExceeded(excess, now)

    def _family(self, root: UUID, hour: int) -> tuple[Amounts, Amounts]:
        """What all forks of a session have used, in total and in this hour."""
        known = self._families.get(root)
        now = self._clock()
        if known is None or known[1] != hour or now - known[0] > _FRESH_S:
            total = hourly = Amounts()
            for row in self._store.read_usage(family_scope(root), hour):
                if row.hour:
                    hourly = hourly.plus(row.amounts)
                else:
                    total = total.plus(row.amounts)
            if len(self._families) >= _MOST_KNOWN:
                self._families.clear()
            known = self._families[root] = now, hour, total, hourly
        return known[2], known[3]


# ---- sessions that do nothing by themselves for a while -----------------------------------------------------------------------


def held_event(until: int, why: HoldfastError) -> dict[str, Any]:
    """What an execution is told when its session does nothing by itself for a while."""
    told = {"level": "warn", "message": f"{why}. Until then the session does nothing by itself", "code": why.code}
    return told | {"available_at": until} | why.details


def wake_at(resident: "Resident", held_until: int | None) -> int | None:
    """When a paused session is next to be woken: when something is due, but not before it may go on by itself.

    One that is held is woken also for the tools that it waits for, which are begun then.
    """
    due = resident.due()
    if held_until is None:
        return due
    if due is None and not any(query.kind is QueryKind.TOOL for query in resident.open.values()):
        return None
    return max(due or 0, held_until)


def tell_held(resident: "Resident", commit: Commit, told: dict[str, Any], now: int) -> None:
    """Adds a step to the commit that only says why the session does nothing for a while."""
    session, execution = resident.session, resident.execution
    assert execution is not None
    session.steps += 1
    execution.seq += 1
    execution.last_step = session.steps
    event = Event(execution.seq, now, EventType.SYSTEM.value, told)
    commit.steps = [Step(session.steps, session.head, execution.id, now, execution.seq, [event])]
    commit.executions = [execution]
    charge(commit, Amounts(0, 1, 1, size_of(commit.steps[0], (), ())), now)
