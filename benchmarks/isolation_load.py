"""Calls a daemon from a process of its own: one connection for each body, the next call as soon as the answer of the last one has come.

Reads its orders as JSON on standard input: `port`, `token`, `path`, `bodies`, `seconds`, and for measurements `calls` (go on until so many
were made) and `longest` (but not for longer). Answers of any status count: hostile scripts end in errors. It ends early when its standard
input is closed. Writes the seconds that each call took, and the statuses, as JSON.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any


class _Load:
    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self.taken: list[float] = []
        self.statuses: Counter[str] = Counter()

    def _is_over(self, begun: float) -> bool:
        elapsed = time.perf_counter() - begun
        if elapsed < self._order["seconds"]:
            return False
        return bool(len(self.taken) >= self._order.get("calls", 0) or elapsed > self._order.get("longest", 0))

    async def call(self, body: str) -> None:
        """One connection, kept alive."""
        order, data = self._order, body.encode()
        head = f"POST {order['path']} HTTP/1.1\r\nHost: 127.0.0.1:{order['port']}\r\nAuthorization: Bearer {order['token']}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        request = head.encode() + data
        begun = time.perf_counter()
        reader = writer = None
        while not self._is_over(begun):
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", order["port"])
            since = time.perf_counter()
            try:
                writer.write(request)
                answer = await reader.readuntil(b"\r\n\r\n")
                at = answer.lower().index(b"content-length:") + 15
                await reader.readexactly(int(answer[at : answer.index(b"\r", at)]))
            except (OSError, ValueError, asyncio.IncompleteReadError):
                reader = writer = None
                self.statuses["broken"] += 1
                await asyncio.sleep(0.1)
                continue
            self.taken.append(time.perf_counter() - since)
            self.statuses[answer[9:12].decode()] += 1
        if writer is not None:
            writer.close()


async def _run(order: dict[str, Any]) -> dict[str, Any]:
    load = _Load(order)
    tasks = [asyncio.ensure_future(load.call(body)) for body in order["bodies"]]
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait(
        [*tasks, ended], return_when=asyncio.FIRST_COMPLETED if order.get("until_closed") else asyncio.ALL_COMPLETED
    )
    for task in tasks:
        task.cancel()
    problems = await asyncio.gather(*tasks, return_exceptions=True)
    for problem in problems:
        if isinstance(problem, BaseException) and not isinstance(problem, asyncio.CancelledError):
            raise problem
    return {"taken": load.taken, "statuses": load.statuses}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_run(json.loads(sys.stdin.readline())))))
