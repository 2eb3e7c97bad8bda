"""How much of the events of steps goes into one page: so many bytes, and one event at least."""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.domain import Event
from holdfast.sandbox import jsontext
from holdfast.store.protocol import ToldStep

Skipped = tuple[str | None, int] | None
"""The cursor of a step, and the seq up to which its events are left out."""


class Room:
    """How many bytes of events a page still takes. Without a limit, as many as there are."""

    def __init__(self, most: int | None) -> None:
        self._left = most
        self.is_full = False

    def texts(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Rows until the texts of events in their last columns have as many characters: for reading no more than is needed."""
        left = self._left
        for row in rows:
            yield row
            if left is not None:
                left -= len(row[-1] or "")
                if left <= 0:
                    return

    def take(self, events: list[Event], size: int | None = None) -> list[Event]:
        """As many of the next events as there is room for, and one in any case if none was taken. `size` is that of all of them."""
        if self._left is None or not events:
            return events
        if self.is_full:
            return []
        if size is None or size > self._left:
            for count, event in enumerate(events):
                self._left -= jsontext.size_of(event)
                if self._left <= 0:
                    self.is_full = True
                    return events[: count + 1]
            return events
        self._left -= size
        self.is_full = self._left <= 0
        return events


def fitted(step: ToldStep, room: Room, size: int | None = None) -> ToldStep:
    """A step with as many of its events as there is room for."""
    events = room.take(step.events, size)
    return step if len(events) == len(step.events) else step._replace(events=events, more=True)


def skipped(at: str, events: list[Event], after: Skipped) -> list[Event]:
    """Events of a step without those that were told before."""
    return events if after is None or at != after[0] else [event for event in events if event.seq > after[1]]
