"""A daemon that starts while its store cannot be reached: it waits, says so, and answers probes meanwhile."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from holdfast.control import Holdfast
from holdfast.daemon._server import Server
from holdfast.daemon._signals import notify
from holdfast.daemon.config import Config
from holdfast.store import StoreUnavailable

Message = MutableMapping[str, Any]
Result = TypeVar("Result")

_log: Final = logging.getLogger("holdfast.daemon")
_PAUSE_S: Final = 1.0
_LOG_EVERY_S: Final = 5.0
_RETRY_AFTER_S: Final = 2
_LIVE: Final = ("/api/v1/health", "/api/v1/health/live")
_READY: Final = "/api/v1/health/ready"
_NETWORK: Final = ("postgresql:", "postgres:")

_READINESS: Final = {
    "status": "unavailable",
    "store": "unavailable",
    "reason": "store_unavailable",
    "recovery": {"interrupted": 0, "recovered": 0},
}
_REFUSAL: Final = {
    "error": {
        "code": "STORE_UNAVAILABLE",
        "message": "The daemon waits for its store, which cannot be reached yet. Try again later.",
    }
}


async def open_patiently(
    make: Callable[[], Holdfast], stack: AsyncExitStack, config: Config, listening: socket.socket, stopping: asyncio.Event
) -> Holdfast | None:
    """Open Holdfast, and wait for a store behind a network that cannot be reached. None: the daemon was told to stop meanwhile.

    Other stores are not waited for: a file that cannot be opened now cannot be opened later either.
    """
    ended = asyncio.Event()
    serving: asyncio.Task[None] | None = None
    server = Server(_answer, config, ended, lambda: None)
    begun = logged = time.monotonic()
    attempt = 0
    try:
        while True:
            try:
                return await _unless_stopped(stack.enter_async_context(make()), stopping)
            except StoreUnavailable as error:
                if not config.store.startswith(_NETWORK):
                    raise
                attempt += 1
                now = time.monotonic()
                if attempt == 1 or now - logged >= _LOG_EVERY_S:
                    logged = now
                    fields = {"code": error.code, "attempt": attempt, "waited_s": round(now - begun)}
                    _log.warning("store.waiting: %s", error, extra={"fields": fields})
                    notify("STATUS=Waiting for the store")
            if serving is None:
                serving = asyncio.create_task(server.run_until_stopped(listening.dup()))
            if await _unless_stopped(asyncio.sleep(_PAUSE_S, True), stopping) is None:
                return None
    finally:
        ended.set()
        if serving is not None:
            await serving
            await server.finish()


async def _unless_stopped(work: Awaitable[Result], stopping: asyncio.Event) -> Result | None:
    """The result of some work, which is cancelled when the daemon shall stop: then None."""
    task, stop = asyncio.ensure_future(work), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None
    finally:
        stop.cancel()


async def _answer(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """The application until the store is there."""
    if scope["type"] != "http":
        return
    path = scope["path"]
    status, plain = (200, {"status": "ok"}) if path in _LIVE else (503, _READINESS if path == _READY else _REFUSAL)
    body = json.dumps(plain).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status != 200:
        headers.append((b"retry-after", b"%d" % _RETRY_AFTER_S))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
