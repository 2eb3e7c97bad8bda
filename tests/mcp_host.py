"""MCP hosts for tests: the SDK's own client, on a thread with a loop of its own, at a server that is a real process; and by hand."""

import asyncio
import concurrent.futures
import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from holdfast.control import Holdfast
from holdfast.mcp._stdio import _serve
from holdfast.runtime import Settings
from tests.daemon import NO_TLS

__all__ = ["Host", "Local", "MCPError", "Pipes", "Remote", "text", "until"]


class Host:
    """A client that is connected from `start` to `stop`."""

    def __init__(self, mode: str = "auto", **options: Any) -> None:
        self.mode, self.options = mode, options
        self.client: Client
        self._loop: asyncio.AbstractEventLoop
        self._closing: asyncio.Event
        self._thread: threading.Thread | None = None

    def transport(self) -> Any:
        raise NotImplementedError

    def start(self) -> "Host":
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(ready)), daemon=True)
        self._thread.start()
        ready.result(60)
        return self

    async def _live(self, ready: "concurrent.futures.Future[None]") -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Client(self.transport(), mode=self.mode, **self.options) as client:
                self.client = client
                ready.set_result(None)
                await self._closing.wait()
        except BaseException as error:  # noqa: BLE001 - the test shall hear of it
            if not ready.done():
                ready.set_exception(error)

    def stop(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(30)
            assert not self._thread.is_alive()

    def do(self, work: Callable[[Client], Awaitable[Any]]) -> "concurrent.futures.Future[Any]":
        async def doing() -> Any:
            return await work(self.client)

        return asyncio.run_coroutine_threadsafe(doing(), self._loop)

    def begin(self, tool: str, progress: Any = None, **given: Any) -> "concurrent.futures.Future[Any]":
        """A call under way. To cancel the future is to cancel the request."""
        return self.do(lambda client: client.call_tool(tool, given, progress_callback=progress))

    def call(self, tool: str, **given: Any) -> Any:
        """What a tool gives, which is no error."""
        result = self.begin(tool, **given).result(60)
        assert not result.is_error, result.content
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    def refused(self, tool: str, **given: Any) -> str:
        """Why a tool refuses a call."""
        result = self.begin(tool, **given).result(60)
        assert result.is_error
        return str(result.content[0].text)

    def once(self, tool: str, given: Any, responses: Any = None, state: str | None = None) -> Any:
        """One round of a call, without the rounds that would follow."""
        options: Any = {"input_responses": responses, "request_state": state, "allow_input_required": True}
        return self.do(lambda client: client.session.call_tool(tool, given, **options)).result(60)

    def read(self, uri: str) -> str:
        return str(self.do(lambda client: client.read_resource(uri)).result(60).contents[0].text)


class Local(Host):
    """At `holdfast mcp`, which it starts, and whose process can be killed."""

    def __init__(self, folder: Path, *words: str, program: str = "-m holdfast.cli", mode: str = "auto", **options: Any) -> None:
        super().__init__(mode, **options)
        self.folder, self.words, self.program = folder, words, program
        self.errors = folder / "stderr"
        self._pid, self._code = folder / "pid", folder / "code"

    def transport(self) -> Any:
        server = " ".join([sys.executable, self.program, "mcp", *self.words])
        server = f"{server} <&3 3<&- 2>>{self.errors}"  # which would have no stdin otherwise
        command = f"exec 3<&0; {server} & echo $! > {self._pid}; wait $!; echo $? > {self._code}"
        environment = {**os.environ, "HOLDFAST_DATA_DIR": str(self.folder / "data"), "HOLDFAST_CONFIG": os.devnull}
        return StdioServerParameters(command="sh", args=["-c", command], env=environment, cwd=self.folder)

    def signal(self, number: int) -> int:
        """Sends the server a signal that ends it, and gives its exit code."""
        os.kill(int(self._pid.read_text()), number)
        code = int(until(lambda: self._code.exists() and self._code.read_text()))
        self._code.unlink()
        self.stop()
        return code


class Remote(Host):
    """At `/mcp` of a daemon."""

    def __init__(self, url: str, token: str, mode: str = "auto", **options: Any) -> None:
        super().__init__(mode, **options)
        self.url, self.token = url, token

    @contextlib.asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, verify=NO_TLS) as caller,
            streamable_http_client(self.url, http_client=caller) as streams,
        ):
            yield streams


class Pipes:
    """What `holdfast mcp` serves, over real pipes, spoken to line by line; in this process, since to start one takes much longer."""

    def __init__(self, store: str = "memory:", *, reads: bool = True) -> None:
        (theirs, self._stdin), (stdout, self._says) = os.pipe(), os.pipe()
        self._hears, self._stdout = os.fdopen(theirs, "rb"), os.fdopen(stdout, "rb")
        self.heard: list[Any] = []
        self._reading = threading.Thread(target=self._read) if reads else None
        if self._reading is not None:
            self._reading.start()
        opening = functools.partial(Holdfast.open, store, settings=Settings(grace_ms=50))
        self.serving = functools.partial(asyncio.run, _serve(opening, (self._hears, self._says), os.getcwd(), 60))
        """Until it has come to an end. `Pipes.started` does this on a thread."""
        self._thread: threading.Thread | None = None

    def started(self) -> "Pipes":
        self._thread = threading.Thread(target=self.serving)
        self._thread.start()
        return self

    def _read(self) -> None:
        self.heard.extend(map(json.loads, self._stdout))  # each line is a message, as it comes

    def say(self, line: Any) -> None:
        os.write(self._stdin, line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    def call(self, number: Any, tool: str, given: Any, capabilities: Any = None, token: Any = None, **more: Any) -> None:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities or {},
            **({} if token is None else {"progressToken": token}),
        }
        params = {"name": tool, "arguments": given, "_meta": meta, **more}
        self.say({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})

    def reply(self, number: Any) -> Any:
        return until(lambda: next((one for one in self.heard[:] if one.get("id") == number and "method" not in one), None))

    def end(self) -> list[Any]:
        """The end of stdin. Gives all that was heard."""
        os.close(self._stdin)
        if self._thread is not None:
            self._thread.join(30)
            assert not self._thread.is_alive()
        if self._reading is None:
            self._stdout.close()
        os.close(self._says)
        if self._reading is not None:
            self._reading.join(30)
            self._stdout.close()
        self._hears.close()
        return self.heard


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    """Waits until something is so, and gives what it is."""
    end, pause = time.monotonic() + seconds, 0.005
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(pause)
        pause = min(2 * pause, 0.2)
    raise AssertionError("it never was so")


def text(words: str, model: str = "m-1") -> types.CreateMessageResult:
    """What a model says."""
    content = types.TextContent(type="text", text=words)
    return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason="endTurn")
