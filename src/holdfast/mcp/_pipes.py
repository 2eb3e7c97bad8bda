"""Messages over stdin and stdout, one on each line: the transport of `holdfast mcp`.

The SDK has one as well. This one answers lines that are no messages, and, if it does not take long, what was asked before stdin ended; it
outlives what cannot be written as a message, and ends when it shall, though a host neither closes stdin nor reads stdout.
"""

import asyncio
import contextlib
import json
import logging
import os
import queue
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from holdfast.domain import read_json
from holdfast.sandbox import jsontext

_AHEAD: Final = 8
"""So many lines are read before anybody has looked at them."""
_LAST_WORDS_S: Final = 1.0
_LOOK_S: Final = 0.01

Reading = MemoryObjectReceiveStream[SessionMessage | Exception]
Writing = MemoryObjectSendStream[SessionMessage]

_log: Final = logging.getLogger("holdfast.mcp")

LONGEST: Final = 64 << 20
"""The longest line. An answer may have 16 MB, and some of its characters take six."""


@contextlib.asynccontextmanager
async def streams(stdin: BinaryIO, stdout: int) -> AsyncIterator[tuple[Reading, Writing]]:
    """Streams of messages, as the SDK takes them, until stdin ends: it stops whatever it does as soon as it hears of that."""
    heard, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, said = anyio.create_memory_object_stream[SessionMessage](0)
    lines, writer, unanswered = _Lines(stdin), _Writer(stdout), _Unanswered()

    async def hear() -> None:
        async with heard:
            async for line in lines:
                message = _read(line)
                if message is None:
                    if line.strip():
                        await writer.write(_refusal(line))
                    continue
                unanswered.note_heard(message)
                try:
                    await heard.send(SessionMessage(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
            with anyio.move_on_after(_LAST_WORDS_S):
                while unanswered:
                    await anyio.sleep(_LOOK_S)

    async def say() -> None:
        async with said:
            async for message in said:
                await writer.write(_written(message.message))
                unanswered.note_said(message.message)
        all_said.set()

    all_said = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        tasks.start_soon(say)
        yield reading, writing
        await writing.aclose()
        with anyio.move_on_after(_LAST_WORDS_S):
            await all_said.wait()
        tasks.cancel_scope.cancel()


def _read(line: bytes) -> types.JSONRPCMessage | None:
    """The message that a line is. A request whose id is none is no notification: it is owed an answer."""
    try:
        found = jsontext.loads(line, decode=read_json, errors="strict")
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        if isinstance(message, types.JSONRPCNotification) and "id" in found:
            return None
    except (ValueError, RecursionError):
        return None
    return message


def _refusal(line: bytes) -> bytes:
    """The answer to a line that is no message. Whose it was is told if it can be seen, so that nobody waits for another."""
    if len(line) > LONGEST:
        return _error(None, types.INVALID_REQUEST, f"a message has at most {LONGEST} bytes")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, types.PARSE_ERROR, "this line is not JSON")
    number = found.get("id") if isinstance(found, dict) and "method" in found else None
    if isinstance(number, bool) or not isinstance(number, str | int):
        number = None
    return _error(number, types.INVALID_REQUEST, "this is not a message of JSON-RPC in UTF-8, with each key once in an object")


def _written(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError as error:
        _log.error("a message cannot be written", exc_info=error)
        return _error(getattr(message, "id", None), types.INTERNAL_ERROR, "the answer cannot be written as JSON")


def _error(number: str | int | None, code: int, text: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}).encode() + b"\n"


class _Unanswered(set[types.RequestId]):
    """The requests that somebody still waits for: who cancels one does not."""

    def note_heard(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            number = (message.params or {}).get("requestId")
            if isinstance(number, str | int):
                self.discard(number)

    def note_said(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self.discard(message.id)


class _Lines:
    """Lines as they come, read on a thread that nobody has to wait for. One that is too long is cut, and the rest of it is thrown away."""

    def __init__(self, stdin: BinaryIO) -> None:
        self._stdin = stdin
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        threading.Thread(target=self._read, name="holdfast-stdin", daemon=True).start()

    def _read(self) -> None:
        while True:
            self._room.acquire()
            try:
                line = self._stdin.readline(LONGEST + 1)
                while len(line) > LONGEST and not line.endswith(b"\n") and self._rest():
                    pass
            except (OSError, ValueError):
                line = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            if not line:
                return

    def _rest(self) -> bool:
        """Whether there is more of a line that is too long."""
        part = self._stdin.readline(LONGEST)
        return bool(part) and not part.endswith(b"\n")

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> bytes:
        line = await self._lines.get()
        self._room.release()
        if not line:
            raise StopAsyncIteration
        return line


class _Writer:
    """Writes on a thread, since a host may be slow to read. Whoever writes waits until it is done."""

    def __init__(self, stdout: int) -> None:
        self._stdout = stdout
        self._loop = asyncio.get_running_loop()
        self._parts: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="holdfast-stdout", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """One message, or several. If nobody reads any more, it is lost, as are they."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._parts.put((data, done))
        await done

    def _run(self) -> None:
        gone = False
        while True:
            data, done = self._parts.get()
            left = memoryview(data)
            while left and not gone:
                try:
                    left = left[os.write(self._stdout, left) :]
                except OSError:
                    gone = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(_settle, done)


def _settle(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)
