"""uvicorn, with our protocol, our signals, and an end in which nothing is lost."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Generator
from typing import Any, Final

import uvicorn
from uvicorn.config import Config as ServerConfig

from holdfast.daemon._errors import DaemonError
from holdfast.daemon._protocol import Protocol, protocol_for
from holdfast.daemon.config import Config

_log: Final = logging.getLogger("holdfast.daemon")
_TICK_S: Final = 1.0
_LOOK_S: Final = 0.02
_LAST_ANSWERS_S: Final = 1.0


class Server(uvicorn.Server):
    """Serves an application until `stopping` is set.

    The end has three parts. `drain`: nobody new comes in, and requests have the grace to end. Then whoever runs the server closes what the
    requests wait for, so that they can be answered. `finish`: what is left is refused and cancelled.
    """

    def __init__(self, app: Any, config: Config, stopping: asyncio.Event, started: Callable[[], None]) -> None:
        super().__init__(
            ServerConfig(
                app,
                loop="none",
                http=protocol_for(config),
                ws="none",
                interface="asgi3",
                lifespan="auto",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=True,
                timeout_keep_alive=config.idle_timeout_s,  # type: ignore[arg-type]  # seconds, which need not be whole
            )
        )
        self._grace_s = config.shutdown_grace_s
        self._stopping, self._started = stopping, started

    async def run_until_stopped(self, listening: socket.socket) -> None:
        """Serves, and drains when it shall stop."""
        self._listening = listening
        try:
            await self.serve([listening])
        except SystemExit:  # how uvicorn says that the application did not start
            raise DaemonError("the application did not start; the log says why") from None

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals are the host's."""
        yield

    async def main_loop(self) -> None:
        self._started()
        while not self._stopping.is_set():
            await self.on_tick(0)  # the Date header
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drains. Called by `serve`."""
        for server in self.servers:
            server.close()
        self._listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if not await self._empty(self._grace_s):
            _log.warning("%d requests did not end in time", len(self.server_state.tasks))

    async def finish(self) -> None:
        """Ends what is left, after what it waited for is gone."""
        if not await self._empty(_LAST_ANSWERS_S):
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Protocol)
                connection.stop()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_ANSWERS_S)
        if self.started:
            await self.lifespan.shutdown()

    async def _empty(self, seconds: float) -> bool:
        """Waits until nobody is connected and nothing is being answered."""
        state, until = self.server_state, time.monotonic() + seconds
        while state.connections or state.tasks:
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(_LOOK_S)
        return True
