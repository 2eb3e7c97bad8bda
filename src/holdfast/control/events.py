"""Events as they happen: of an execution, of a session, of everything.

A feed reads the store, page by page, and waits in between. It keeps one page and nothing else: whoever is slow to read lags behind, and
nothing grows. Where a reader stopped is in the cursor of what it was told last, so it goes on there in any process, at any time.
"""

import asyncio
import re
from collections import deque
from typing import Final, NamedTuple, Self
from uuid import UUID

from holdfast.control._tenancy import TenantRuntime
from holdfast.domain import (
    EXECUTION,
    Event,
    ExecutionNotFound,
    HoldfastError,
    InvalidValue,
    SessionNotFound,
    parse_id,
)
from holdfast.runtime import RuntimeClosed
from holdfast.store import StoreError, ToldStep

_LOOK_S: Final = 1.0
"""Other processes commit too, and nobody tells us."""
_SOON_S: Final = 0.01
_LULL_S: Final = 0.005
"""At most so often is a page read that may be small: while much happens, several events come with each."""
_LONGEST_S: Final = 86_400.0
_EVENTS: Final = 200
_STEPS: Final = 50
_BYTES: Final = 1 << 18
"""Of events in one page, as JSON; a single event may be larger. Decoded they take up to four times as much."""
_LONGEST_CURSOR: Final = 2_000
_CURSOR: Final = re.compile(r"([A-Za-z0-9_-]+)(?:\.(0|[1-9][0-9]{0,15}))?", re.ASCII)
_SEQ: Final = re.compile("0|[1-9][0-9]{0,15}", re.ASCII)


class Told(NamedTuple):
    """An event, and the cursor after which a reader goes on who has dealt with it."""

    cursor: str
    session_id: UUID
    execution_id: UUID
    event: Event


class Events:
    """`hf.events`: follow what happens."""

    def __init__(self, runtime: TenantRuntime) -> None:
        self._runtime = runtime

    def follow(
        self,
        *,
        execution: UUID | str | None = None,
        session: UUID | str | None = None,
        after: str | None = None,
        heartbeat: float | None = None,
    ) -> "Feed":
        """The events of an execution, or of a session, or of all, each once and in order, whichever process they happen in.

        `after` is the cursor of what was told last; `""` is the beginning. Without it the feed of an execution begins at its beginning,
        that of a session or of all now. With `heartbeat` there is a None whenever nothing was told for so many seconds.

        The feed of an execution ends after the last event of one that has ended. That of an execution or a session also ends when the
        session is deleted. When Holdfast closes, `RuntimeClosed` is raised, so that nobody takes that for an end.

        Raises `InvalidValue` at once, or when the feed is first waited for if only the store can say that a cursor is none; and then
        `ExecutionNotFound` or `SessionNotFound`.
        """
        if execution is not None and session is not None:
            raise InvalidValue("follow an execution or a session, not both")
        if after is not None and (not isinstance(after, str) or len(after) > _LONGEST_CURSOR):
            raise InvalidValue("after must be a cursor: the text that came with an event")
        quiet = _seconds(heartbeat)
        if execution is not None:
            return _ExecutionFeed(self._runtime, parse_id(execution, "execution"), after, quiet)
        return _StepFeed(self._runtime, None if session is None else parse_id(session, "session"), after, quiet)


class Feed:
    """An asynchronous iterator of what is told. It holds nothing that has to be given back, and may be dropped at any time.

    If waiting for the next event is cancelled or times out, or the store cannot be reached, nothing is lost: the next call goes on.
    """

    def __init__(self, runtime: TenantRuntime, heartbeat: float | None) -> None:
        self._runtime, self._heartbeat = runtime, heartbeat
        self._loop = asyncio.get_running_loop()
        self._page: deque[Told] = deque()
        self._cursor = ""
        self._ended = False
        self._told_at = self._loop.time()
        self._looked_at = 0.0
        self._pause = _LOOK_S
        self._beginning: asyncio.Task[None] | None = self._start()  # at once, since this is what "from now on" means

    def _start(self) -> "asyncio.Task[None]":
        beginning = self._loop.create_task(self._begin())
        beginning.add_done_callback(lambda task: task.cancelled() or task.exception())
        return beginning

    async def begin(self) -> Self:
        """Returns once it is settled where the feed begins, or raises why there is none. Who reads it need not call this."""
        beginning = self._beginning = self._beginning or self._start()
        try:
            await asyncio.shield(beginning)
        except StoreError as error:
            if self._beginning is beginning:  # who asks again may be luckier
                self._beginning = None
            raise self._reason(error) from None
        return self

    @property
    def cursor(self) -> str:
        """After which to go on: that of the last event told, or where the feed began, once `begin` has settled that."""
        return self._cursor

    async def aclose(self) -> None:
        """Ends it, as of now. It need not be called."""
        self._ended = True
        self._page.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told | None:
        await self.begin()
        while not self._page:
            if self._ended:
                raise StopAsyncIteration
            with self._runtime.moves(self._moving) as moved:  # before looking, so that no move is missed
                await self._next_page()
                if not self._page and not self._ended and not await self._wait(moved):
                    self._told_at = self._loop.time()
                    return None
        self._told_at = self._loop.time()
        told = self._page.popleft()
        self._cursor = told.cursor
        return told

    async def _wait(self, moved: "asyncio.Future[None]") -> bool:
        """Until it is worth looking again. False: it is time for a heartbeat."""
        left = _LONGEST_S if self._heartbeat is None else self._told_at + self._heartbeat - self._loop.time()
        if left <= 0:
            return False
        await asyncio.wait([moved], timeout=min(self._pause, left))
        # What has moved may not be told at once, if somebody else is in the middle of a commit: so look soon, and then less often.
        self._pause = _SOON_S if moved.done() else min(2 * self._pause, _LOOK_S)
        return True

    async def _next_page(self) -> None:
        lull = self._looked_at + _LULL_S - self._loop.time()
        if lull > 0:
            await asyncio.sleep(lull)
        try:
            has_more = await self._look()
        except (ExecutionNotFound, SessionNotFound):  # it was there when this began
            self._ended = True
        except StoreError as error:
            raise self._reason(error) from None
        else:
            self._looked_at = 0.0 if has_more else self._loop.time()

    def _reason(self, error: StoreError) -> HoldfastError:
        return RuntimeClosed() if self._runtime.closes else error

    @property
    def _moving(self) -> UUID | None:
        """Whose moves to wait for."""
        raise NotImplementedError

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _look(self) -> bool:
        """Reads the next page. Whether there is probably another one."""
        raise NotImplementedError


class _ExecutionFeed(Feed):
    """By the events' own numbers."""

    def __init__(self, runtime: TenantRuntime, execution_id: UUID, after: str | None, heartbeat: float | None) -> None:
        if after and not _SEQ.fullmatch(after):
            raise InvalidValue("the cursor of an execution's feed is the seq of an event")
        self._execution_id = execution_id
        self._seq = int(after or 0)
        """The last event that was read."""
        super().__init__(runtime, heartbeat)

    @property
    def _moving(self) -> UUID:
        return self._session_id  # not the execution's own moves: if its session is rewound that ends it too

    async def _begin(self) -> None:
        found = await self._runtime.call(self._runtime.store.get_execution, self._execution_id)
        if self._seq > found.seq:
            raise InvalidValue("this cursor is beyond the end of the feed: there is no such event")
        self._session_id, self._cursor = found.session_id, str(self._seq)

    async def _look(self) -> bool:
        events, self._ended = await self._runtime.call(self._read)
        for event in events:
            self._page.append(Told(str(event.seq), self._session_id, self._execution_id, event))
            self._seq = event.seq
        return len(events) == _EVENTS

    def _read(self) -> tuple[list[Event], bool]:
        """The next events, and whether that was all."""
        store, execution_id = self._runtime.store, self._execution_id
        events = store.list_events(execution_id, after_seq=self._seq, limit=_EVENTS, max_bytes=_BYTES)
        if events or not EXECUTION.is_final(store.get_execution(execution_id).status):
            return events, False
        # The last ones are committed together with the end, which may have come after the first look.
        events = store.list_events(execution_id, after_seq=self._seq, limit=_EVENTS, max_bytes=_BYTES)
        return events, not events


class _StepFeed(Feed):
    """By the order in which steps were committed, in a session or everywhere.

    A cursor is that of a step and the seq of the last event that was told of it. Without seq all of the step was told.
    """

    def __init__(self, runtime: TenantRuntime, session_id: UUID | None, after: str | None, heartbeat: float | None) -> None:
        found = _CURSOR.fullmatch(after) if after else None
        if after and found is None:
            raise InvalidValue("this is not the cursor of such a feed")
        self._session_id = session_id
        self._given = after
        self._after: str | None = found[1] if found else None
        """The cursor of the last step that was read."""
        self._seq = int(found[2]) if found and found[2] else None
        """The last event of that step that was read; None: all were."""
        super().__init__(runtime, heartbeat)

    @property
    def _moving(self) -> UUID | None:
        return self._session_id

    async def _begin(self) -> None:
        if self._given is None:
            self._after = self._cursor = await self._runtime.call(self._runtime.store.last_cursor, self._session_id)
            return
        self._cursor = self._given
        await self._look()

    async def _look(self) -> bool:
        steps = await self._runtime.call(self._read)
        for step in steps:
            self._take(step)
        return len(steps) == _STEPS or (bool(steps) and self._seq is not None)

    def _read(self) -> list[ToldStep]:
        return self._runtime.store.list_steps(
            session_id=self._session_id,
            after=self._after,
            including=self._seq is not None,
            after_seq=self._seq or 0,
            limit=_STEPS,
            max_bytes=_BYTES,
        )

    def _take(self, step: ToldStep) -> None:
        self._after = step.cursor  # also of one that only stands for those of other tenants
        self._seq = step.events[-1].seq if step.more else None
        for event in step.events:
            self._page.append(Told(f"{step.cursor}.{event.seq}", step.session_id, step.execution_id, event))


def _seconds(heartbeat: float | None) -> float | None:
    if heartbeat is None:
        return None
    if isinstance(heartbeat, bool) or not isinstance(heartbeat, int | float) or not 0 < heartbeat <= _LONGEST_S:  # nor is NaN
        raise InvalidValue(f"heartbeat must be a number of seconds, at most {_LONGEST_S:.0f}, or None")
    return float(heartbeat)
