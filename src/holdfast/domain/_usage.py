"""Usage over time: what sessions have used in this hour and in total, and the limits of that.

Hours are those of the clock, counted from 1970. Amounts are tuples in one order: CPU microseconds, steps, events, bytes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from holdfast.domain._errors import Fault, HoldfastError
from holdfast.domain._limits import Limits

HOUR_MS: Final = 3_600_000
_UNITS: Final = (1_000_000, 1, 1, 1 << 20)
_HOUR: Final = ("max_cpu_s_per_hour", "max_steps_per_hour", "max_events_per_hour", "max_mb_per_hour")
_EXECUTION: Final = ("max_execution_cpu_s", "max_execution_steps", "max_execution_events", "max_execution_mb")
_SESSION: Final = ("max_session_cpu_s", "max_session_steps", "max_session_events", "max_session_mb")
USAGE_LIMITS: Final = (*_HOUR, *_EXECUTION, *_SESSION)
"""Names of the limits over time, as fields of `Limits`."""


def hour_of(now: float) -> int:
    """Return the number of the hour in which a time lies."""
    return int(now) // HOUR_MS


class Amounts(NamedTuple):
    """CPU time, steps, events and stored bytes, used in some time."""

    cpu_us: int = 0
    steps: int = 0
    events: int = 0
    bytes: int = 0

    def plus(self, more: "Amounts") -> "Amounts":
        return Amounts(self[0] + more[0], self[1] + more[1], self[2] + more[2], self[3] + more[3])

    def as_dict(self) -> dict[str, Any]:
        return {"cpu_s": self.cpu_us / 1e6, "steps": self.steps, "events": self.events, "bytes": self.bytes}


_NONE: Final = Amounts()


class Usage(NamedTuple):
    """What a session has used: in total, in one hour, and in its present or last execution.

    `stored_bytes` is what is still there after pruning. `root` is the session whose forks, and forks of forks, are counted together;
    None for a session that is no fork. A fork begins with the amounts of the session that it was forked from.
    """

    total: Amounts = _NONE
    hour: int = 0
    hourly: Amounts = _NONE
    execution: Amounts = _NONE
    stored_events: int = 0
    stored_bytes: int = 0
    root: UUID | None = None

    def plus(self, used: Amounts, hour: int, *, begins: bool = False) -> "Usage":
        """Return the usage after a step that used this. `begins`: the step was the first of an execution."""
        return Usage(
            self.total.plus(used),
            max(hour, self.hour),
            self.hourly.plus(used) if hour <= self.hour else used,
            used if begins else self.execution.plus(used),
            self.stored_events + used.events,
            self.stored_bytes + used.bytes,
            self.root,
        )

    def forked(self, session_id: UUID) -> "Usage":
        """Return the usage with which a fork of this session begins."""
        return self._replace(stored_events=0, stored_bytes=0, root=self.root or session_id)

    def this_hour(self, hour: int) -> Amounts:
        return self.hourly if self.hour == hour else _NONE

    def as_row(self) -> list[Any] | None:
        """As a short list, for a store; None if nothing was used."""
        if self == _FRESH:
            return None
        root = None if self.root is None else self.root.hex
        return [*self.total, self.hour, *self.hourly, *self.execution, self.stored_events, self.stored_bytes, root]

    @classmethod
    def from_row(cls, row: list[Any] | None) -> Self:
        if row is None:
            return cls()
        root = None if row[15] is None else UUID(hex=row[15])
        return cls(Amounts(*row[:4]), row[4], Amounts(*row[5:9]), Amounts(*row[9:13]), row[13], row[14], root)

    def as_dict(self) -> dict[str, Any]:
        """What surfaces show. `hour` is the last hour in which something was used."""
        return {
            "hour": {"began_at": self.hour * HOUR_MS} | self.hourly.as_dict(),
            "execution": self.execution.as_dict(),
            "total": self.total.as_dict(),
            "stored_events": self.stored_events,
            "stored_bytes": self.stored_bytes,
        }


_FRESH: Final = Usage()


class Excess(NamedTuple):
    """A limit over time that is used up. `available_at`: when there is more, in milliseconds since 1970; None: not by itself."""

    limit: str
    allowed: float
    used: float
    available_at: int | None = None

    def __str__(self) -> str:
        return f"{self.limit} exceeded: {self.allowed:g} allowed, {self.used:g} used"

    def as_dict(self) -> dict[str, Any]:
        return {"limit": self.limit, "allowed": self.allowed, "actual": self.used} | (
            {} if self.available_at is None else {"available_at": self.available_at}
        )


_Most = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits over time of a session, in the units of `Amounts`; infinity where there is none.

    >>> allowance = Allowance.of(Limits(max_steps_per_hour=10, max_execution_steps=15))
    >>> str(allowance.hour_excess(Amounts(steps=10), 0))
    'max_steps_per_hour exceeded: 10 allowed, 10 used'
    """

    hour: _Most
    execution: _Most
    session: _Most

    @classmethod
    def of(cls, limits: Limits, bounds: Mapping[str, int] | None = None) -> Self:
        """The limits of a template, none of them above `bounds`."""

        def least(name: str) -> int:
            own, bound = getattr(limits, name), (bounds or {}).get(name, 0)
            return min(own, bound) if own and bound else own or bound

        def amounts(names: tuple[str, ...]) -> _Most:
            cpu, steps, events, size = (least(name) * unit or math.inf for name, unit in zip(names, _UNITS, strict=True))
            return cpu, steps, events, size

        return cls(amounts(_HOUR), amounts(_EXECUTION), amounts(_SESSION))

    def hour_excess(self, used: Amounts, hour: int) -> Excess | None:
        """Return the first limit of an hour that is used up."""
        return _excess(self.hour, used, _HOUR, (hour + 1) * HOUR_MS)

    def total_excess(self, usage: Usage) -> Excess | None:
        """Return the first limit in total that is used up, of the execution or of the session."""
        return _excess(self.execution, usage.execution, _EXECUTION) or self.session_excess(usage.total)

    def session_excess(self, used: Amounts) -> Excess | None:
        """Return the first limit in total of the session that is used up."""
        return _excess(self.session, used, _SESSION)


def _excess(most: _Most, used: Amounts, names: tuple[str, ...], at: int | None = None) -> Excess | None:
    if used[0] < most[0] and used[1] < most[1] and used[2] < most[2] and used[3] < most[3]:  # as always, so it is quick
        return None
    place = next(place for place in range(4) if used[place] >= most[place])
    unit = _UNITS[place]
    return Excess(names[place], most[place] / unit, used[place] / unit, at)


class UsageExceeded(HoldfastError):
    """A limit over time is used up. `details` has the limit, what it allows, what was used, and when there is more."""

    code = "USAGE_EXCEEDED"
    fault = Fault.SCRIPT

    def __init__(self, excess: Excess | None = None, now: float = 0) -> None:
        if excess is None:
            super().__init__()
            return
        after = None if excess.available_at is None else max(1, math.ceil((excess.available_at - now) / 1000))
        super().__init__(str(excess) if after is None else f"{excess}; come back in {after} s")
        self.with_details(**excess.as_dict())
        if after is not None:
            self.retry_after = after
            self.with_details(retry_after=after)
