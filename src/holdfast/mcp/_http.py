"""The server over HTTP, as the SDK does it: sessions for clients of earlier protocols, single requests for those of 2026-07-28."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response

from holdfast.control import Holdfast
from holdfast.mcp._rights import token_of
from holdfast.mcp._server import Strategies, serving_of

if TYPE_CHECKING:
    from holdfast.mcp._endpoint import Caller


_IDLE_S: Final = 900.0
_MOST_SESSIONS: Final = 4096
_RETRY_S: Final = 30


class Serving:
    """The SDK's manager of sessions, held open by a task of its own: whoever enters it must be the one who leaves it."""

    def __init__(self, served: Strategies, body_limit: int, sessions: int) -> None:
        self._served, self._sessions = served, sessions
        self._manager = StreamableHTTPSessionManager(
            served.server, max_request_body_size=body_limit, session_idle_timeout=_IDLE_S, max_sessions=_MOST_SESSIONS
        )
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
        user = AuthenticatedUser(token)
        if self._has_enough(user) and _opens(scope["method"], dict(headers)):
            await _too_many(self._sessions)(scope, receive, send)
            return
        await self._app({**scope, "headers": headers, "user": user}, receive, send)

    def _has_enough(self, user: AuthenticatedUser) -> bool:
        """Whether a token has as many sessions as it may have. The SDK has a limit for all of them, and forgets idle ones."""
        who = authorization_context(user)
        return sum(owner == who for owner in self._manager._session_owners.values()) >= self._sessions

    async def aclose(self) -> None:
        self._closing.set()
        await asyncio.wait([self._holding])
        await self._served.under_way.close()


def _opens(method: str, headers: dict[bytes, bytes]) -> bool:
    """Whether a request begins a session, if it is let in: those of the newest protocol have none."""
    if method != "POST" or MCP_SESSION_ID_HEADER.lower().encode() in headers:
        return False
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER.lower().encode())
    return version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS


def _too_many(most: int) -> Response:
    message = f"This token has {most} MCP sessions, which is the most at a time. End one, or try again later."
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=message))
    body = error.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(body, 429, {"Retry-After": str(_RETRY_S)}, "application/json")


async def open_serving(hf: Holdfast, state_s: float, body_limit: int, sessions: int) -> Serving:
    """The server of an opened Holdfast."""
    return await Serving(await serving_of(hf, state_s=state_s), body_limit, sessions).ready()
