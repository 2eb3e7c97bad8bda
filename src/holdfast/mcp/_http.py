"""The server over HTTP, as the SDK does it: sessions for clients of earlier protocols, single requests for those of 2026-07-28."""

import asyncio
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from holdfast.control import Holdfast
from holdfast.mcp._rights import token_of
from holdfast.mcp._server import Strategies, serving_of

if TYPE_CHECKING:
    from holdfast.mcp._endpoint import Caller


class Serving:
    """The SDK's manager of sessions, held open by a task of its own: whoever enters it must be the one who leaves it."""

    def __init__(self, served: Strategies, body_limit: int) -> None:
        self._served = served
        self._manager = StreamableHTTPSessionManager(served.server, max_request_body_size=body_limit)
        self._app = AuthContextMiddleware(self._manager.handle_request)
        self._ready, self._closing = asyncio.Event(), asyncio.Event()
        self._holding = asyncio.get_running_loop().create_task(self._hold())

    async def ready(self) -> "Serving":
        waiting = asyncio.get_running_loop().create_task(self._ready.wait())
        await asyncio.wait([waiting, self._holding], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._holding.done():
            self._holding.result()
        return self

    async def _hold(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._closing.wait()

    async def __call__(self, scope: Any, receive: Any, send: Any, caller: "Caller") -> None:
        # The SDK binds sessions, and what it seals, to this: neither is good for anybody else.
        token = token_of(caller)
        # There is nothing to go on from in a stream that carries nothing, and the SDK would not answer at all.
        headers = [(name, value) for name, value in scope["headers"] if name != b"last-event-id"]
        await self._app({**scope, "headers": headers, "user": AuthenticatedUser(token)}, receive, send)

    async def aclose(self) -> None:
        self._closing.set()
        await asyncio.wait([self._holding])
        await self._served.under_way.close()


async def open_serving(hf: Holdfast, state_s: float, body_limit: int) -> Serving:
    """The server of an opened Holdfast."""
    return await Serving(await serving_of(hf, state_s=state_s), body_limit).ready()
