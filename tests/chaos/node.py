"""A process that does what it is told, line by line: one of several on a store. It can be killed, stopped and revived.

    python -m tests.chaos.node ADDRESS WORLD LEASE_MS BEGIN_AFTER_MS

`Node` is the other end: its verbs are those of Holdfast, `await node("executions.run", session, source)`, and give plain dictionaries.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast import Capability, EffectKind, Function, Holdfast, HoldfastError, Settings, Tool, Turn
from holdfast.domain import Session
from tests.chaos.driving import Notes

PROJECT = Path(__file__).parents[2]
GRANTS = [
    Capability("function", "world.read"),
    Capability("function", "world.pay"),
    Capability("function", "world.slow"),
    Capability("tool", "ship"),
    Capability("tool", "look"),
]


# ---- in the process ----------------------------------------------------------------------------------------------------------------


def _functions(world: Notes) -> list[Function]:
    def slow(name: str, seconds: float) -> None:
        world.write("slow begins", name)
        time.sleep(seconds)
        world.write("slow", name)

    return [
        Function("world.read", lambda n: n * 2, EffectKind.READ),
        Function("world.pay", lambda name: world.write("pay", name)),
        Function("world.slow", slow),
    ]


def _tools(world: Notes) -> list[Tool]:
    async def ship(args: dict[str, Any]) -> str:
        world.write("ship begins", args["name"])
        await asyncio.sleep(args["seconds"])
        world.write("ship", args["name"])
        return f"shipped {args['name']}"

    async def look(args: dict[str, Any]) -> str:
        world.write("look begins", args["name"])
        await asyncio.sleep(args["seconds"])
        return f"seen {args['name']}"

    return [Tool("ship", ship), Tool("look", look, once=False)]


async def _serve(address: str, world: Path, lease_ms: int, begin_after_ms: float) -> None:
    notes = Notes(world)
    settings = Settings(lease_ms=lease_ms, begin_after_ms=begin_after_ms)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with Holdfast.open(address, functions=_functions(notes), tools=_tools(notes), settings=settings) as hf:
        _say({"id": 0})
        running = set()
        while line := await lines.readline():
            task = loop.create_task(_do(hf, json.loads(line)))
            running.add(task)
            task.add_done_callback(running.discard)


async def _do(hf: Holdfast, wanted: dict[str, Any]) -> None:
    group, verb = wanted["verb"].split(".")
    try:
        result = await getattr(getattr(hf, group), verb)(*wanted["args"], **wanted["options"])
        _say({"id": wanted["id"], "result": _plain(result)})
    except HoldfastError as error:
        _say({"id": wanted["id"], "code": error.code, "message": str(error)})


def _plain(result: Any) -> Any:
    if isinstance(result, Turn):
        return {
            "session": str(result.session.id),
            "execution": str(result.execution.id),
            "status": result.execution.status.value,
            "result": (result.execution.result or {}).get("json"),
            "error": result.execution.error,
            "queries": {query.id: query.kind.value for query in result.queries},
        }
    if isinstance(result, Session):
        return {"id": str(result.id), "state": result.state.value, "fence": result.fence, "owner": str(result.owner)}
    return str(result) if isinstance(result, UUID) else None


def _say(line: dict[str, Any]) -> None:
    os.write(1, (json.dumps(line) + "\n").encode())


# ---- the other end -----------------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """The process was told no."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Node:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {0: asyncio.get_running_loop().create_future()}
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, address: str, world: Path, *, lease_ms: int = 1_000, begin_after_ms: float = 50
    ) -> AsyncIterator["Node"]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.node", address, str(world), str(lease_ms), str(begin_after_ms)),
            cwd=PROJECT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        node = cls(process)
        try:
            await asyncio.wait_for(node._waiting[0], 60)
            yield node
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await node._reading
            assert process.stdin is not None
            process.stdin.close()

    async def __call__(self, verb: str, *args: Any, **options: Any) -> Any:
        """Tells the process to do something, and waits until it has. `Refused`."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "verb": verb, "args": args, "options": options}).encode() + b"\n")
        return await asyncio.wait_for(future, 30)

    def kill(self) -> None:
        """As if power had failed."""
        self._process.kill()

    def stop(self) -> None:
        """It stands still."""
        self._process.send_signal(signal.SIGSTOP)

    def revive(self) -> None:
        """It goes on, and has not noticed."""
        self._process.send_signal(signal.SIGCONT)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            future = self._waiting.pop(said["id"])
            if future.done():
                continue
            if "code" in said:
                future.set_exception(Refused(said["code"], said["message"]))
            else:
                future.set_result(said.get("result"))
        for future in self._waiting.values():
            future.cancel()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
