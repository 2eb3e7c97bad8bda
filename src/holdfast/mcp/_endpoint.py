"""`/mcp` of the daemon: an ASGI application that becomes one when somebody first asks for it."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.control import Holdfast
from holdfast.domain import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.mcp._http import Serving

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


class Caller(NamedTuple):
    """Who calls: something that stays the same for whoever it is, and what they may do."""

    id: str
    scopes: frozenset[str]
    tenant: str = DEFAULT_TENANT
    is_operator: bool = False
    name: str = ""


class Endpoint:
    """Serves MCP over HTTP. `caller` says who a request is from: whoever mounts it has checked that by then, and hosts, sizes and paths.

    It must be closed before its event loop is.
    """

    def __init__(
        self, hf: Holdfast, caller: Callable[[Scope], Caller], *, state_s: float, body_limit: int, sessions: int = 64
    ) -> None:
        self._hf, self._caller, self._state_s, self._body_limit, self._sessions = hf, caller, state_s, body_limit, sessions
        self._opening: asyncio.Task[Serving] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        opening = self._opening
        await asyncio.wait([opening])
        if opening.exception() is not None and self._opening is opening:
            self._opening = None  # who comes next may be luckier
        await opening.result()(scope, receive, send, self._caller(scope))

    async def _open(self) -> "Serving":
        threads = ThreadPoolExecutor(1, "holdfast-mcp")  # the SDK takes a second to import, and others shall not wait for that
        importing = threads.submit(importlib.import_module, "holdfast.mcp._http")
        threads.shutdown(wait=False)
        module = await asyncio.wrap_future(importing)
        serving: Serving = await module.open_serving(self._hf, self._state_s, self._body_limit, self._sessions)
        return serving

    async def aclose(self) -> None:
        """Ends all that it serves. Holdfast may be closed by now."""
        if self._opening is None:
            return
        await asyncio.wait([self._opening])
        if not self._opening.cancelled() and self._opening.exception() is None:
            await self._opening.result().aclose()
