"""Calls under way: which can be cancelled, and which go on when nobody waits for them any more.

What a call does is a task of its own. If the connection is lost, the SDK stops whoever waits for the task, and nothing else: the run
goes on, and is found again by its session. If the client says that it cancels the request (`notifications/cancelled`), the SDK does the
same, and that notification comes here as any message does: then the run is cancelled too.

Over HTTP, clients of protocol 2026-07-28 cancel by closing the stream, which is what a lost connection looks like. There a run goes on, and
the tool `cancel` is what stops it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from uuid import UUID

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.control import Holdfast
from holdfast.domain import HoldfastError, NotFound
from holdfast.mcp._rights import caller_id, may, view
from holdfast.mcp._tools import RUN

_log: Final = logging.getLogger("holdfast.mcp")
_LOOK_S: Final = 0.02

Result = TypeVar("Result")


class Run:
    """The run that a call makes or continues, once it is known, and whether the client has cancelled the call.

    A call that only looks has none: to cancel that stops nothing.
    """

    def __init__(self) -> None:
        self.session_id: UUID | None = None
        self.cancelled = False
        self.begun: list[Callable[[UUID], None]] = []
        """Who is to be told of the session when it is known."""

    def began(self, session_id: UUID) -> None:
        self.session_id = session_id
        for tell in self.begun:
            tell(session_id)


class UnderWay:
    """All calls of a server that have not come to their end. Middleware: it sees every message."""

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf
        self._runs: dict[tuple[str, str], Run] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "notifications/cancelled":
            run = self._runs.get(_name(ctx, (ctx.params or {}).get("requestId")))
            # Whoever may not call the tool that cancels has only lost interest in the reply.
            if run is not None and not run.cancelled and may(RUN):
                run.cancelled = True
                self._spawn(self._cancel(run))
        return await call_next(ctx)

    async def do(self, ctx: ServerRequestContext[Any, Any], run: Run, work: Coroutine[Any, Any, Result]) -> Result:
        """Does something to its end, whether or not the caller still waits."""
        name = _name(ctx, ctx.request_id)
        task = self._spawn(work)
        self._runs[name] = run
        task.add_done_callback(lambda _: self._forget(name, run))
        await asyncio.wait([task])
        return task.result()

    async def close(self) -> None:
        """Waits for what is under way. Holdfast is closed by now, and refuses whatever it would do next."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _forget(self, name: tuple[str, str], run: Run) -> None:
        if self._runs.get(name) is run:  # and not another's, whose client uses an id again
            del self._runs[name]

    def _spawn(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # perhaps nobody else hears of it

    async def _cancel(self, run: Run) -> None:
        """Stops the run of a call, which may have to begin before it can be stopped."""
        while run in self._runs.values():
            if run.session_id is not None:
                try:
                    await view(self._hf).strategies.cancel(run.session_id)
                except NotFound:
                    pass  # nothing runs in it yet
                except HoldfastError as error:
                    _log.warning("a run was not cancelled: %s", error)
                    return
                else:
                    return
            await asyncio.sleep(_LOOK_S)


def _name(ctx: ServerRequestContext[Any, Any], request_id: object) -> tuple[str, str]:
    """What a request is called: ids are unique in their connection only, and where there is none, to whoever calls. An id may come back
    as text.
    """
    return f"{caller_id()} {connection_of(ctx)}", str(request_id)


def connection_of(ctx: ServerRequestContext[Any, Any]) -> str:
    """The connection of a message, if its protocol has one: over HTTP its session. Over pipes there is only one, without a name.

    Since 2026-07-28 there are no sessions, and the header is what anybody likes to put there: also what is another's.
    """
    if ctx.request is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return ""
    return ctx.request.headers.get("mcp-session-id") or ""
