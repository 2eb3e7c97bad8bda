"""Calls a daemon as fast as it answers, from a process of its own: told what to do on standard input, tells what it measured.

It writes requests and reads answers by hand, so that the machine's cores are left to the daemon.
"""

import asyncio
import json
import sys
import time
from typing import Any


async def _call(order: dict[str, Any], body: str, until: float, taken: list[float]) -> None:
    """One connection, kept alive."""
    data = body.encode()
    head = f"{order['method']} {order['path']} HTTP/1.1\r\nHost: 127.0.0.1:{order['port']}\r\nAuthorization: Bearer {order['token']}\r\n"
    if data:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    request = head.encode() + b"\r\n" + data
    reader, writer = await asyncio.open_connection("127.0.0.1", order["port"])
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise SystemExit(f"refused: {answer!r}")
        at = answer.lower().index(b"content-length:") + 15
        await reader.readexactly(int(answer[at : answer.index(b"\r", at)]))
        taken.append(time.perf_counter() - begun)
    writer.close()


async def _load(order: dict[str, Any]) -> dict[str, float]:
    taken: list[float] = []
    begun = time.perf_counter()
    await asyncio.gather(*(_call(order, body, begun + order["seconds"], taken) for body in order["bodies"]))
    elapsed = time.perf_counter() - begun
    taken.sort()
    return {"per_s": len(taken) / elapsed, "p50": taken[len(taken) // 2], "p99": taken[len(taken) * 99 // 100]}


if __name__ == "__main__":
    given = json.load(sys.stdin)
    measured = asyncio.run(_load(given))
    if not given.get("quiet"):
        print(json.dumps(measured))
