"""What a benchmark reports, and how it takes time."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One measurement: the median of many. `reach` and `aim` are targets; `higher` says which way is better."""

    key: str
    value: float
    reach: float | None = None
    aim: float | None = None
    higher: bool = False

    def against(self) -> str:
        """How the value stands against its targets."""
        if self.reach is None or self.aim is None:
            return ""
        sign = -1 if self.higher else 1
        met = (
            "aim met"
            if sign * self.value <= sign * self.aim
            else "reached"
            if sign * self.value <= sign * self.reach
            else "MISSED"
        )
        return f"{met} (reach {self.reach:g}, aim {self.aim:g})"


def seconds(work: Callable[[], Any], times: int, *, warm: int = 3, after: Callable[[Any], object] = lambda made: None) -> float:
    """The median of the seconds that `work` takes, without garbage collection in between. `after` is not counted."""
    for _ in range(warm):
        after(work())
    taken: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            begun = time.perf_counter()
            made = work()
            taken.append(time.perf_counter() - begun)
            after(made)
    finally:
        gc.enable()
    return statistics.median(taken)


def alternately(works: Sequence[Callable[[], object]], times: int) -> list[float]:
    """Medians of several works measured in turns, so that a noisy moment touches all of them."""
    taken: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            for work, record in zip(works, taken, strict=True):
                begun = time.perf_counter()
                work()
                record.append(time.perf_counter() - begun)
    finally:
        gc.enable()
    return [statistics.median(record) for record in taken]
