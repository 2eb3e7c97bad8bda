"""Figures for Prometheus, in its text format: counters, gauges and histograms, kept here and written when they are asked for."""

import asyncio
import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.capabilities import Called
from holdfast.domain import Event, EventType, Execution

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_CONSOLE: Final = EventType.CONSOLE.value
_MANY: Final = 1000
_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)

Labels = tuple[str, ...]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _labelled(names: Iterable[str], values: Iterable[str], *more: tuple[str, str]) -> str:
    pairs = [*zip(names, values, strict=True), *more]
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}" if pairs else ""


def _said(events: Sequence[Event]) -> int:
    """Bytes that were said on the console."""
    return sum(_size(event.payload.get("text", "")) for event in events if event.type == _CONSOLE)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Counter:
    """Something that only goes up, counted by its labels."""

    def __init__(self, name: str, told: str, labels: Labels = ()) -> None:
        self.name, self.told, self.labels = name, told, labels
        self._counts: dict[Labels, int] = {} if labels else {(): 0}

    def add(self, *values: str, count: int = 1) -> None:
        self._counts[values] = self._counts.get(values, 0) + count

    def lines(self) -> list[str]:
        head = [f"# HELP {self.name} {self.told}", f"# TYPE {self.name} counter"]
        return head + [f"{self.name}{_labelled(self.labels, values)} {count}" for values, count in sorted(self._counts.items())]


class Histogram:
    """How long something took, in milliseconds, by its labels."""

    def __init__(self, name: str, told: str, labels: Labels = ()) -> None:
        self.name, self.told, self.labels = name, told, labels
        self._seen: dict[Labels, tuple[list[int], list[float]]] = {}

    def add(self, ms: float, *values: str) -> None:
        seen = self._seen.get(values)
        if seen is None:
            seen = self._seen[values] = [0] * (len(_MS) + 1), [0.0]
        counts, total = seen
        counts[bisect.bisect_left(_MS, ms)] += 1
        total[0] += ms

    def lines(self) -> list[str]:
        found = [f"# HELP {self.name} {self.told}", f"# TYPE {self.name} histogram"]
        for values, (counts, total) in sorted(self._seen.items()):
            sofar = 0
            for edge, count in zip((*map(str, _MS), "+Inf"), counts, strict=True):
                sofar += count
                found.append(f"{self.name}_bucket{_labelled(self.labels, values, ('le', edge))} {sofar}")
            found.append(f"{self.name}_sum{_labelled(self.labels, values)} {total[0]:.3f}")
            found.append(f"{self.name}_count{_labelled(self.labels, values)} {sofar}")
        return found


def gauge(name: str, told: str, values: Mapping[Labels, float], labels: Labels = ()) -> list[str]:
    """Something that goes up and down, as it is now."""
    head = [f"# HELP {name} {told}", f"# TYPE {name} gauge"]
    return head + [f"{name}{_labelled(labels, key)} {value:g}" for key, value in values.items()]


def module_calls(called: Sequence[Called]) -> tuple[list[str], list[str]]:
    """Calls of native modules: how many, and how long they took."""
    labels = ("module", "function", "outcome")
    calls = ["# HELP module_calls_total Calls of native modules.", "# TYPE module_calls_total counter"]
    seconds = ["# HELP module_seconds_total Time in calls of native modules.", "# TYPE module_seconds_total counter"]
    for row in called:
        label = _labelled(labels, (row.module, row.function, row.outcome))
        calls.append(f"module_calls_total{label} {row.calls}")
        seconds.append(f"module_seconds_total{label} {row.seconds:.6f}")
    return calls, seconds


class Metrics:
    """All that is counted here."""

    def __init__(self) -> None:
        self.session_creates = Counter("session_creates_total", "Sessions made.")
        self.session_crashes = Counter("session_crashes_total", "Sessions that crashed as they started.")
        self.executions = Counter("execution_total", "Executions that have ended.", ("kind", "status"))
        self.execution_ms = Histogram(
            "execution_duration_ms", "From the start of an execution to its end, with waiting.", ("kind",)
        )
        self.events = Counter("execution_events_total", "Events of executions.")
        self.output = Counter("execution_output_bytes_total", "What scripts said on their console.")
        self.requests = Counter("http_requests_total", "Requests answered.", ("route", "status"))
        self.request_ms = Histogram(
            "http_request_duration_ms", "From the first byte of a request to the end of its answer.", ("route",)
        )

    def observe(self, execution: Execution, events: Sequence[Event]) -> None:
        """A step of an execution is durable."""
        self.events.add(count=len(events))
        if len(events) > _MANY:  # the loop has better things to do
            counting = asyncio.get_running_loop().run_in_executor(None, _said, events)
            counting.add_done_callback(lambda done: self.output.add(count=0 if done.cancelled() else done.result()))
        elif said := _said(events):
            self.output.add(count=said)
        if execution.ended_at is not None:
            self.executions.add(execution.kind.value, execution.status.value)
            self.execution_ms.add(execution.ended_at - execution.started_at, execution.kind.value)

    def text(self, *gauges: list[str]) -> str:
        counted = (
            self.session_creates,
            self.session_crashes,
            self.executions,
            self.execution_ms,
            self.events,
            self.output,
            self.requests,
            self.request_ms,
        )
        lines = [line for one in gauges for line in one] + [line for one in counted for line in one.lines()]
        return "\n".join(lines) + "\n"
