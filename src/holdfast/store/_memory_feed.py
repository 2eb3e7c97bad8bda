"""What a store in memory tells those who follow what happens."""

import threading
from bisect import bisect_right
from uuid import UUID

from holdfast.domain import SessionNotFound
from holdfast.store._event_pages import Room, Skipped, fitted, skipped
from holdfast.store._memory_commits import Tables, copy_step
from holdfast.store._rows import (
    check_place,
    cursor,
    passed_steps,
    read_cursor,
    read_number,
    scanned,
)
from holdfast.store.protocol import ToldStep


class FeedReads:
    """The part of a store that reads steps in the order in which they were committed."""

    _lock: threading.RLock

    @property
    def _kept(self) -> Tables:
        raise NotImplementedError

    def list_steps(
        self,
        *,
        session_id: UUID | None = None,
        tenant: str | None = None,
        after: str | None = None,
        including: bool = False,
        after_seq: int = 0,
        limit: int = 500,
        max_bytes: int | None = None,
    ) -> list[ToldStep]:
        with self._lock:
            if session_id is not None:
                number = 0 if after is None else read_number(after)
                return self._list_steps_of(session_id, number, including, after_seq, limit, max_bytes)
            feed = self._kept.feed
            place = 0 if after is None else read_cursor("f", after)[0]
            check_place(place, self._kept.fed)
            begin = bisect_right(feed, place - including, key=lambda told: told[0])
            told: list[ToldStep] = []
            passed: str | None = None
            room, skip = Room(max_bytes), (after, after_seq) if including else None
            for at, session, number in feed[begin : begin + scanned(limit, tenant)]:
                if tenant not in (None, self._kept.sessions[session].tenant):
                    passed = cursor("f", at)
                elif len(told) == limit or room.is_full:
                    return told
                else:
                    told.append(self._told(cursor("f", at), session, number, room, skip))
                    passed = None
            return told if passed is None else [*told, passed_steps(passed)]

    def _list_steps_of(
        self, session_id: UUID, after: int, including: bool, after_seq: int, limit: int, max_bytes: int | None
    ) -> list[ToldStep]:
        last = self._last(session_id)
        check_place(after, last)
        steps = self._kept.steps[session_id]
        numbers = [number for number in range(max(after + 1 - including, 1), last + 1) if number in steps]
        room, skip = Room(max_bytes), (str(after), after_seq) if including else None
        told: list[ToldStep] = []
        for number in numbers[:limit]:
            if room.is_full:
                break
            told.append(self._told(str(number), session_id, number, room, skip))
        return told

    def _told(self, at: str, session_id: UUID, number: int, room: Room, skip: Skipped) -> ToldStep:
        step = copy_step(self._kept.steps[session_id][number])
        events = skipped(at, step.events, skip)
        return fitted(ToldStep(at, session_id, step.execution_id, number, step.first_seq, events), room)

    def last_cursor(self, session_id: UUID | None = None) -> str:
        with self._lock:
            return cursor("f", self._kept.fed) if session_id is None else str(self._last(session_id))

    def _last(self, session_id: UUID) -> int:
        steps = self._kept.steps.get(session_id)
        if steps is None:
            raise SessionNotFound
        return max(steps, default=0)
