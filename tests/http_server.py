"""The real server on a real socket of the loopback, in a thread of its own, for tests that also look behind it."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from holdfast.control import Holdfast
from holdfast.daemon import Config, Tokens, run
from holdfast.http import App, create_app
from tests.daemon import NO_TLS


class Served:
    """A daemon in this process."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config = Config(
            listen="127.0.0.1:0", data_dir=folder / "data", log_level="error", shutdown_grace_s=2.0, **settings
        )
        self.url = ""
        self.app: App
        self.hf: Holdfast
        self.tokens: Tokens
        self.loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._ready = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> "Served":
        self._thread.start()
        assert self._ready.wait(30), "the server did not start"
        if self._failed:
            raise self._failed[0]
        return self

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the test shall hear of it
            self._failed.append(error)
            self._ready.set()

    async def _serve(self) -> None:
        self.loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()

        def make(hf: Holdfast, config: Config, tokens: Tokens) -> App:
            self.hf, self.tokens = hf, tokens
            self.app = create_app(hf, config, tokens)
            return self.app

        def ready(url: str) -> None:
            self.url = url
            self._ready.set()

        await run(self.config, make, ready=ready, stopping=self._stopping)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not stop"

    def do(self, work: Any) -> Any:
        """Runs something on the server's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def token(self) -> str:
        return (self.config.data_dir / "token").read_text().strip()

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        given = {"Authorization": f"Bearer {self.token if token is None else token}", **headers}
        return httpx2.Client(base_url=f"{self.url}/api/v1", headers=given, timeout=30, verify=NO_TLS)

    def made(self, name: str, *scopes: str) -> str:
        """The secret of a new token."""
        return self.tokens.create(name, scopes)[1]

    def raw(self, request: bytes, *, until: Callable[[bytes], bool] = lambda _: False, timeout: float = 10) -> bytes:
        """Sends bytes, and reads what comes back until the connection ends, or it is enough."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(request)
            found = b""
            while not until(found):
                part = connection.recv(65_536)
                if not part:
                    break
                found += part
            return found


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[Served]:
    """A server, from its start to its end."""
    server = Served(folder, **settings).start()
    try:
        yield server
    finally:
        server.stop()
