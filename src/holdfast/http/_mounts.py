"""Applications beside the API, at paths of their own: the gate has seen their requests, and they end when the daemon does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.http._body import check_message
from holdfast.http._call import Call, call_of
from holdfast.http._errors import InvalidRequest, method_not_allowed

_METHODS: Final = ("DELETE", "GET", "POST")


class Mounted(Protocol):
    """An ASGI application that has to be closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, /) -> None: ...

    async def aclose(self) -> None: ...


class Mounts:
    """ASGI: what is mounted, at exactly its path, with or without a slash behind it; everything else goes on to the API."""

    def __init__(self, app: ASGIApp, mounted: Mapping[str, Mounted], state: Any) -> None:
        self._app, self._mounted, self._state = app, mounted, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removesuffix("/") if scope["type"] == "http" else ""
        mounted = self._mounted.get(path)
        if mounted is None:
            await self._app(scope, receive, send)
            return
        call = call_of(scope)
        call.route, call.mounted = path, True
        if call.only_head or call.method not in _METHODS:
            await method_not_allowed(_METHODS)(scope, receive, send)
        elif call.method == "GET":
            call.streams = True
            await self._stream(mounted, scope, receive, send)
        elif call.method == "POST" and not call.body:
            raise InvalidRequest("a body is needed, in JSON")
        else:
            if call.method == "POST":
                await check_message(call.body)
            await mounted(scope, _again(call, receive), send)

    async def _stream(self, mounted: Mounted, scope: Scope, receive: Receive, send: Send) -> None:
        """An answer that may have no end of its own: it ends when the daemon stops, or its token is none any more."""
        call, loop = call_of(scope), asyncio.get_running_loop()
        answering = loop.create_task(mounted(scope, _again(call, receive), send))
        stopping = loop.create_task(self._state.stopping.wait())
        try:
            while not answering.done() and not stopping.done() and self._stands(call):
                tasks, seconds = [answering, stopping], self._state.config.heartbeat_s
                await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped = not answering.done()
            for task in (answering, stopping):
                task.cancel()
            await asyncio.gather(answering, stopping, return_exceptions=True)
        if not stopped:
            answering.result()
        elif call.status:
            await send({"type": "http.response.body"})

    def _stands(self, call: Call) -> bool:
        token = None if call.caller is None else call.caller.token
        return token is None or self._state.tokens.stands(token)


def _again(call: Call, receive: Receive) -> Receive:
    """A request with the body that the gate has read, and then whatever else comes."""
    told = False

    async def received() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": call.body, "more_body": False}

    return received


def closing(mounted: Mapping[str, Mounted]) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """The life of an application with others mounted: they are closed at its end."""

    @asynccontextmanager
    async def living(app: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for one in mounted.values():
                await one.aclose()

    return living
