"""A daemon with a tiny application, for tests of what is below it: `python -m tests.integration.tiny_daemon`, set up by HOLDFAST_*.

What it prints is whether it is ready, or why it is not.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

from holdfast import Holdfast, HoldfastError, Limits
from holdfast.daemon import Config, Tokens, load_config, serve
from holdfast.domain import NameTaken

Routes = dict[str, Callable[[str, bytes], Awaitable[Any]]]


class TinyApp:
    """Ways to be slow, and a session to be slow in."""

    def __init__(self, hf: Holdfast, config: Config, tokens: Tokens) -> None:
        self.hf, self.tokens = hf, tokens
        self.state = SimpleNamespace()
        self.gone = 0
        self.routes: Routes = {
            "/pid": self.pid,
            "/sleep": self.sleep,
            "/body": self.body,
            "/make": self.make,
            "/run": self.run,
            "/answer": self.answer,
            "/executions": self.executions,
            "/who": self.who,
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http", "this application has no lifespan"
        if scope["path"] in ("/stream", "/large"):
            await self.stream(scope["path"], send)
            return
        status, value, content = 200, None, b""
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.gone += 1
                    return
                content += message["body"]
                if not message["more_body"]:
                    break
            value = await self.routes[scope["path"]](parse_qs(scope["query_string"].decode()).get("q", [""])[0], content)
        except HoldfastError as error:
            status, value = 503, {"code": error.code}
        body = json.dumps(value).encode()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    async def stream(self, path: str, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if path == "/large":
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        await send({"type": "http.response.body", "body": b"first\n", "more_body": True})
        await self.state.stopping.wait()
        await send({"type": "http.response.body", "body": b"last\n"})

    async def pid(self, q: str, content: bytes) -> Any:
        return {"pid": os.getpid(), "gone": self.gone}

    async def sleep(self, q: str, content: bytes) -> Any:
        await asyncio.sleep(float(q))
        return "slept"

    async def body(self, q: str, content: bytes) -> Any:
        return len(content)

    async def make(self, q: str, content: bytes) -> Any:
        with contextlib.suppress(NameTaken):
            await self.hf.templates.create("js", limits=Limits(wall_ms=60_000, cpu_ms=60_000))
        return str((await self.hf.sessions.create("js")).id)

    async def run(self, q: str, content: bytes) -> Any:
        turn = await self.hf.executions.run(q, content.decode())
        return turn.execution.status

    async def answer(self, q: str, content: bytes) -> Any:
        turn = await self.hf.queries.answer(q, content.decode())
        return turn.execution.result

    async def executions(self, q: str, content: bytes) -> Any:
        page = await self.hf.executions.list(q)
        return sorted(execution.status for execution in page.items)

    async def who(self, q: str, content: bytes) -> Any:
        token = self.tokens.verify(content.decode())
        return None if token is None else token.name


def main() -> int:
    try:
        serve(load_config(), TinyApp, ready=lambda url: print(f"ready {url}", flush=True))
    except HoldfastError as error:
        print(f"{error.code}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
