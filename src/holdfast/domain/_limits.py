"""What a script may use up, and what it means to use more."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Self

from holdfast.domain._errors import InvalidValue

_MEGABYTE = 1 << 20
_LARGEST = 0xFFFFFFFF


class InvalidLimit(InvalidValue, ValueError):
    """This limit makes no sense."""


class Limit(StrEnum):
    """The names of the limits, as fields of `Limits`, in REST and in messages."""

    WALL = "wall_ms"
    CPU = "cpu_ms"
    MEMORY = "mem_mb"
    STACK = "stack_kb"
    EVENTS = "max_events"
    OUTPUT = "max_output_kb"
    SUSPENSIONS = "max_suspensions"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one sandbox. Zero means no limit, except for memory and the stack, which always have one.

    `wall_ms`, `cpu_ms`, `max_events` and `max_output_kb` hold for each step, between two pauses; prompts and answers are not output.
    `max_suspensions` holds for an execution from its start to its end. `mem_mb` is the size of the sandbox's whole memory, `stack_kb`
    how deep calls may nest.

    All others are limits over time, which a script that wakes itself up cannot avoid. Those per hour hold for a session and for all its
    forks together: until the hour of the clock is over its timers wait, and calls that would run it are refused. `max_execution_...` and
    `max_session_...` hold in total: the execution that reaches one ends.

    >>> Limits(wall_ms=200).wall_ms
    200
    >>> Limits(mem_mb=0)
    Traceback (most recent call last):
    holdfast.domain._limits.InvalidLimit: mem_mb must be between 4 and 4095, not 0
    """

    wall_ms: int = 5_000
    cpu_ms: int = 2_000
    mem_mb: int = 128
    stack_kb: int = 1_024
    max_events: int = 50_000
    max_output_kb: int = 256
    max_suspensions: int = 0
    max_cpu_s_per_hour: int = 1_800
    max_steps_per_hour: int = 1_000_000
    max_events_per_hour: int = 5_000_000
    max_mb_per_hour: int = 4_096
    max_execution_cpu_s: int = 36_000
    max_execution_steps: int = 20_000_000
    max_execution_events: int = 100_000_000
    max_execution_mb: int = 65_536
    max_session_cpu_s: int = 360_000
    max_session_steps: int = 100_000_000
    max_session_events: int = 500_000_000
    max_session_mb: int = 262_144

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _RANGES.get(field.name, (0, _LARGEST))
            if type(value) is not int or not low <= value <= high:
                raise InvalidLimit(f"{field.name} must be between {low} and {high}, not {repr(value)[:40]}")

    def but(self, **changes: int) -> Self:
        """A copy with some limits changed."""
        return type(self)(**(asdict(self) | changes))

    def within(self, ceiling: Mapping[str, int]) -> Self:
        """A copy with no limit above a ceiling, in which 0 and a limit that is left out are no ceiling.

        >>> limits = Limits(mem_mb=4095, max_output_kb=0).within({"mem_mb": 1024, "max_output_kb": 64})
        >>> limits.mem_mb, limits.max_output_kb
        (1024, 64)
        """
        above = self.above(ceiling)
        return self.but(**{name: ceiling[name] for name in above}) if above else self

    def above(self, ceiling: Mapping[str, int]) -> list[str]:
        """The names of the limits that allow more than a ceiling."""
        return [name for name, most in ceiling.items() if most and not 0 < getattr(self, name) <= most]


_RANGES = {"mem_mb": (4, 4095), "stack_kb": (16, 1536), "max_output_kb": (0, _LARGEST // 1024)}
"""Lowest and highest values; of the others, all that fit in 32 bits."""


def check_ceiling(ceiling: Mapping[str, int]) -> None:
    """Raise `InvalidValue` for what is no ceiling of limits."""
    for name in ceiling:
        if name not in Limits.__dataclass_fields__:
            raise InvalidValue(f"there is no limit {str(name)[:60]!r}; expected are {', '.join(Limits.__dataclass_fields__)}")
    Limits(**ceiling)


@dataclass(frozen=True, slots=True)
class Breach:
    """Which limit was exceeded, what it allowed, and what was used or asked for, in the limit's own unit."""

    limit: Limit
    allowed: float
    actual: float

    def __str__(self) -> str:
        return f"{self.limit} exceeded: {self.allowed:g} allowed, {self.actual:g} used"
