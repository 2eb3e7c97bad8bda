"""How far a run is, told to clients that asked for it: what the script says by `progress`, and until it does, how many steps were made."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from holdfast.control import Scoped, Told
from holdfast.domain import EventType, HoldfastError
from holdfast.mcp._plain import shown

Report = Callable[[float, float | None, str | None], Awaitable[None]]

_QUIET_S: Final = 0.001


class Progress:
    """Follows the events of a session while a call is under way. A session that is made by the call is followed from its beginning."""

    def __init__(self, hf: Scoped, report: Report) -> None:
        self._hf, self._report = hf, report
        self._session_id: UUID | None = None
        self._cursor: str | None = None
        self._last: float = 0
        self._steps = 0
        self._speaks = False
        self._following: asyncio.Task[None] | None = None
        self._telling = asyncio.Lock()

    async def follow(self, session_id: UUID) -> None:
        """Begins with what happens from now on."""
        feed = await self._hf.events.follow(session=session_id).begin()
        self._cursor = feed.cursor
        self._begin(session_id)

    def follow_new(self, session_id: UUID) -> None:
        """Begins with the first event that there will be."""
        self._cursor = ""
        self._begin(session_id)

    def _begin(self, session_id: UUID) -> None:
        self._session_id = session_id
        self._following = asyncio.get_running_loop().create_task(self._follow(None))

    async def end(self) -> None:
        """Tells what happened last, and stops."""
        if self._following is None:
            return
        async with self._telling:  # what is being told is told to its end: else it would be lost, or told twice
            self._following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._following
        await self._follow(_QUIET_S)

    async def _follow(self, heartbeat: float | None) -> None:
        with contextlib.suppress(HoldfastError):  # it is only how far it is: whoever waits for the run hears what became of it
            async for told in self._hf.events.follow(session=self._session_id, after=self._cursor, heartbeat=heartbeat):
                if told is None:
                    return
                async with self._telling:
                    await self._tell(told)
                    self._cursor = told.cursor

    async def _tell(self, told: Told) -> None:
        event = told.event
        if event.type == EventType.PROGRESS:
            self._speaks = True
            step, total = event.payload.get("step"), event.payload.get("total")
            if isinstance(step, int | float) and step > self._last:  # it must go up, says the protocol
                self._last = step
                await self._report(
                    step, total if isinstance(total, int | float) else None, _words(event.payload.get("message"))
                )
        elif event.type == EventType.CHECKPOINT:
            self._steps += 1
            if not self._speaks and self._steps > self._last:
                self._last = self._steps
                await self._report(self._steps, None, f"step {self._steps}")


def _words(message: object) -> str | None:
    """What a script says of its progress, which may be anything."""
    if message is None:
        return None
    text, sent = shown(message)
    return sent if isinstance(sent, str) else text
