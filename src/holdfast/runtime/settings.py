"""How a runtime behaves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.domain import USAGE_LIMITS, InvalidValue, Limits, Quotas, check_ceiling
from holdfast.runtime.core import system_clock
from holdfast.store import LONGEST_LEASE_MS


@dataclass(frozen=True, slots=True)
class Settings:
    """How a runtime behaves.

    `resident` sessions stay in memory. A process whose lease of `lease_ms` has run out is taken for dead. A step that takes longer than
    `begin_after_ms` is durable before it ends. On closing, scripts have `grace_ms` to end or pause; then they are stopped, and go on
    when the store is opened again. A call waits `outage_wait_ms` for a store that cannot be reached, and at most 5 s for one that is full.

    A call for a session that another process runs now waits up to `busy_wait_ms`; then it is refused with `SessionBusy`. `node_file` is
    a file in a directory that this process has locked for itself: whoever is named in it is dead, and what it ran is taken over at once.

    `usage_limits` are limits over time, by their names in `Limits`, which hold for the sessions of all templates that allow more.
    `limits_ceiling` are the highest values that any limit of a template may have, by their names in `Limits`: templates that allow more
    are refused, and sessions of those that were made before have no more either. Idle sessions stay in memory only while all of them
    together hold at most `resident_mb`.
    `quotas` are what tenants and tokens may use.
    """

    resident: int = 128
    resident_mb: int = 512
    lease_ms: int = 10_000
    begin_after_ms: float = 50
    grace_ms: float = 2_000
    busy_wait_ms: int = 30_000
    node_file: Path | None = None
    outage_wait_ms: float = 30_000
    usage_limits: Mapping[str, int] = field(default_factory=dict)
    limits_ceiling: Mapping[str, int] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    clock: Callable[[], float] = system_clock

    def __post_init__(self) -> None:
        longest = 10 * 365 * 86_400_000
        if type(self.resident) is not int or self.resident < 0:
            raise InvalidValue("resident must be a whole number that is not negative")
        if type(self.resident_mb) is not int or self.resident_mb < 0:
            raise InvalidValue("resident_mb must be a whole number that is not negative")
        if type(self.lease_ms) is not int or not 1 <= self.lease_ms <= LONGEST_LEASE_MS:
            raise InvalidValue(f"lease_ms must be a whole number from 1 to {LONGEST_LEASE_MS}")
        unknown = sorted(set(self.usage_limits) - set(USAGE_LIMITS))
        if unknown:
            raise InvalidValue(f"usage_limits has no {str(unknown[0])[:60]!r}; expected are {', '.join(USAGE_LIMITS)}")
        Limits(**self.usage_limits)
        check_ceiling(self.limits_ceiling)
        for name in ("begin_after_ms", "grace_ms", "busy_wait_ms", "outage_wait_ms"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value <= longest:  # nor is NaN
                raise InvalidValue(f"{name} must be a number from 0 to {longest}")
        now = self.clock() if callable(self.clock) else None
        if type(now) not in (int, float) or not 0 <= now < 1 << 53:
            raise InvalidValue("clock must be a function that gives milliseconds since 1970")
