"""Event streams (SSE): of an execution, of a session, of everything.

Nothing is queued here. The stream asks the feed for the next event when the last one is on its way, so a reader that is slow, or has
stopped reading, holds one page of the feed (256 KB, or one event), and lags. Who takes nothing for `idle_timeout_s` is cut off, and comes
back with the last id. A token has only so many streams at a time.

A stream ends when its execution has ended, when its reader has left, or may not read any more, or when the daemon stops; who comes back
with the last id that it saw misses nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.control import Feed, plain
from holdfast.http import _examples
from holdfast.http._answers import encoded
from holdfast.http._call import READ, Caller, call_of, left
from holdfast.http._errors import RateLimited, answer_to
from holdfast.http._params import ExecutionId, SessionId
from holdfast.http._routes import Hf, Routes
from holdfast.runtime import RuntimeClosed

routes: Final = Routes("events")

_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
_FIRST: Final = b"id: %b\nretry: 1000\n\n"
"""Where the stream begins: who is cut off before the first event goes on from there."""
_HEARTBEAT: Final = b": hb\n\n"
_EXAMPLE: Final = "\n\n".join(
    (
        "id: 1\nretry: 1000",
        f"id: 2\nevent: value\ndata: {encoded(_examples.EVENT).decode()}",
        ": hb",
        "id: 2\nevent: end\ndata: {}",
        "",
    )
)
_START: Final = "start"
_PIECE: Final = 1 << 16
_RETRY_S: Final = 5


class EventStream(Response):
    """An answer that goes on as long as there is a feed, somebody who reads it and still may, and a daemon that shall not stop."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, asked: "_Asked", *, ends: bool = False) -> None:
        self._feed, self._may, self._stopping, self._ends = feed, asked.may, asked.stopping, ends
        self._streams = asked.streams
        self.status_code = 200
        self.background = None
        self.raw_headers = list(_HEADERS)
        self.body = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        call.streams = True
        try:
            with self._streams.one(call.caller):
                await self._stream(receive, send, only_head=call.only_head)
        except RateLimited as error:
            await answer_to(error, call.request_id)(scope, receive, send)

    async def _stream(self, receive: Receive, send: Send, *, only_head: bool) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if only_head:
            await send({"type": "http.response.body"})
            return
        loop = asyncio.get_running_loop()
        pumping = loop.create_task(self._pump(send))
        leaving = loop.create_task(left(receive))
        stopping = loop.create_task(self._stopping.wait())
        tasks: list[asyncio.Task[Any]] = [pumping, leaving, stopping]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not pumping.cancelled():
            pumping.result()  # which raises what the feed did
        if leaving.cancelled():
            await send({"type": "http.response.body"})

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.body", "body": _FIRST % self._feed.cursor.encode(), "more_body": True})
        try:
            async for told in self._feed:
                if not self._may():  # any more: whoever comes back hears why
                    return
                if told is None:
                    part = _HEARTBEAT
                else:
                    event = told.event
                    data = plain.event(told.execution_id, told.session_id, event)
                    part = b"id: %b\nevent: %b\ndata: %b\n\n" % (told.cursor.encode(), event.type.encode(), encoded(data))
                await _sent(send, part)
        except RuntimeClosed:
            return
        if self._ends:
            end = b"id: %b\nevent: end\ndata: {}\n\n" % self._feed.cursor.encode()
            await send({"type": "http.response.body", "body": end, "more_body": True})


async def _sent(send: Send, part: bytes) -> None:
    """Sends a part, some of it at a time: it waits while a reader takes nothing, and is cut off with the connection."""
    for start in range(0, len(part), _PIECE):
        await send({"type": "http.response.body", "body": part[start : start + _PIECE], "more_body": True})


class Streams:
    """How many streams each caller has."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._present: Counter[str] = Counter()

    @contextmanager
    def one(self, caller: Caller | None) -> Iterator[None]:
        """Counts a stream while it is there. Raises `RateLimited` if there are as many as there may be."""
        who = "" if caller is None else caller.id
        if self._present[who] >= self._most:
            raise RateLimited(
                f"this token has {self._most} event streams, which is the most at a time; close one, or come back later",
                retry_after=_RETRY_S,
            )
        self._present[who] += 1
        try:
            yield
        finally:
            self._present[who] -= 1
            if not self._present[who]:
                del self._present[who]


class _Asked(NamedTuple):
    """What every stream is asked for with."""

    after: str | None
    heartbeat: float
    stopping: asyncio.Event
    may: Callable[[], bool]
    streams: Streams


async def _asked(
    request: Request,
    after: Annotated[
        str | None,
        Query(description="The id of the last event seen; `start` is the beginning.", max_length=1000),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="As `after`, which browsers send by themselves.", max_length=1000)
    ] = None,
) -> _Asked:
    given = last_event_id or after  # a browser that comes back sends both, and the header is the newer one
    state, caller = request.app.state, call_of(request.scope).caller
    token = None if caller is None else caller.token
    may = _always if token is None else partial(state.tokens.stands, token)
    return _Asked("" if given == _START else given or None, state.config.heartbeat_s, state.stopping, may, state.streams)


def _always() -> bool:
    return True


Streaming = Annotated[_Asked, Depends(_asked)]


@routes.add(
    "GET",
    "/executions/{execution_id}/stream",
    READ,
    str,
    errors=("EXECUTION_NOT_FOUND",),
    example=_EXAMPLE,
    extra={"stream": True},
)
async def stream_execution(hf: Hf, execution_id: ExecutionId, asked: Streaming) -> EventStream:
    """The events of an execution, from its beginning or after a given one. `event: end` comes last, when it has ended."""
    feed = hf.events.follow(execution=execution_id, after=asked.after, heartbeat=asked.heartbeat)
    return EventStream(await feed.begin(), asked, ends=True)


@routes.add(
    "GET",
    "/sessions/{session_id}/stream",
    READ,
    str,
    errors=("SESSION_NOT_FOUND",),
    example=_EXAMPLE,
    extra={"stream": True},
)
async def stream_session(hf: Hf, session_id: SessionId, asked: Streaming) -> EventStream:
    """The events of a session, from now on or after a given one."""
    await hf.sessions.get(session_id)
    feed = hf.events.follow(session=session_id, after=asked.after, heartbeat=asked.heartbeat)
    return EventStream(await feed.begin(), asked)


@routes.add("GET", "/events/stream", READ, str, example=_EXAMPLE, extra={"stream": True})
async def stream_events(hf: Hf, asked: Streaming) -> EventStream:
    """The events of all sessions, from now on or after a given one."""
    feed = hf.events.follow(after=asked.after, heartbeat=asked.heartbeat)
    return EventStream(await feed.begin(), asked)
