"""The HTTP suite: a real daemon process, called over real sockets by another process, and beside it a Jupyter kernel."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import http_load
from benchmarks.rows import Row
from tests.daemon import Daemon

CONNECTIONS = 32
SECONDS = 4.0


def run(only: str = "") -> Iterator[Row]:
    """All rows of the suite, or those whose measurement has this word in its name."""
    for measure in (calls, stream, command, kernel):
        if only in measure.__name__:
            with tempfile.TemporaryDirectory() as folder:
                yield from measure(Path(folder))


# ---- the daemon --------------------------------------------------------------------------------------------------------------------


def calls(folder: Path) -> Iterator[Row]:
    """`1+1` in sessions of their own, durable, by as many connections; and a route that does nothing, in turns with it."""
    daemon = Daemon(folder, log_level="warning").start()
    try:
        sessions = _sessions(daemon, CONNECTIONS)
        repl = [json.dumps({"session_id": session, "input": "1+1"}) for session in sessions]
        found: list[dict[str, float]] = []
        nothing: list[float] = []
        for _ in range(3):
            nothing.append(_load(daemon, "GET", "/api/v1/health/live", [""] * CONNECTIONS)["per_s"])
            found.append(_load(daemon, "POST", "/api/v1/executions/repl", repl))
    finally:
        daemon.stop()
    middle = sorted(found, key=lambda one: one["per_s"])[1]
    noop = statistics.median(nothing)
    yield Row("exec_per_s", middle["per_s"], 1000, 4000, higher=True)
    yield Row("exec_p50_ms", middle["p50"] * 1e3)
    yield Row("exec_p99_ms", middle["p99"] * 1e3)
    yield Row("noop_per_s", noop)
    yield Row("noop_vs_exec", noop / middle["per_s"])


def _sessions(daemon: Daemon, count: int) -> list[str]:
    with daemon.client() as api:
        template = api.post("/templates", json={"name": "bench"}).raise_for_status().json()["id"]
        given = {"template_id": template}
        return [api.post("/sessions", json=given).raise_for_status().json()["id"] for _ in range(count)]


def _load(daemon: Daemon, method: str, path: str, bodies: list[str]) -> dict[str, float]:
    """Calls from another process, one connection for each body, as fast as answers come."""
    order = {"port": daemon.port, "token": daemon.token, "method": method, "path": path, "bodies": bodies, "seconds": SECONDS}
    command = [sys.executable, "-m", http_load.__name__]
    ended = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=True, timeout=60)
    measured: dict[str, float] = json.loads(ended.stdout)
    return measured


def stream(folder: Path) -> Iterator[Row]:
    """Events of all sessions as they reach one reader, while scripts say many things."""
    daemon = Daemon(folder, log_level="warning").start()
    try:
        loud = "for (let n = 0; n < 200; n++) console.log(n)"
        bodies = [json.dumps({"session_id": session, "input": loud}) for session in _sessions(daemon, 8)]
        with daemon.client() as api, api.stream("GET", "/events/stream") as response:
            lines = response.iter_lines()
            next(lines)
            order = {"port": daemon.port, "token": daemon.token, "method": "POST", "path": "/api/v1/executions/repl"}
            with subprocess.Popen([sys.executable, "-m", http_load.__name__], stdin=subprocess.PIPE, text=True) as load:
                assert load.stdin is not None
                load.stdin.write(json.dumps(order | {"bodies": bodies, "seconds": SECONDS, "quiet": True}))
                load.stdin.close()
                begun, events = 0.0, 0
                for line in lines:
                    if not line.startswith("data:"):
                        continue
                    begun = begun or time.perf_counter()
                    events += 1
                    if time.perf_counter() - begun > SECONDS - 1:
                        break
                taken = time.perf_counter() - begun
                load.wait(30)
    finally:
        daemon.stop()
    yield Row("sse_events_per_s", events / taken)


# ---- the command line --------------------------------------------------------------------------------------------------------------


def command(folder: Path) -> Iterator[Row]:
    """`holdfast run -e '1+1'`: from the start of the process to its result."""
    environment = {**os.environ, "HOLDFAST_DATA_DIR": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command has its bytecode
    holdfast = Path(sys.executable).with_name("holdfast")

    def once() -> float:
        begun = time.perf_counter()
        with subprocess.Popen([holdfast, "run", "-e", "1+1"], env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            taken = time.perf_counter() - begun
        assert said.strip() == b"2", said
        return taken

    once()
    yield Row("cli_run_first_result_ms", statistics.median(once() for _ in range(15)) * 1e3, 400, 250)


# ---- a peer ------------------------------------------------------------------------------------------------------------------------


def kernel(folder: Path) -> Iterator[Row]:
    """A Jupyter kernel that evaluates `1+1`, which is neither durable nor in a sandbox."""
    rate, median = asyncio.run(_kernel())
    yield Row("peer_ipykernel_exec_per_s", rate)
    yield Row("peer_ipykernel_exec_p50_ms", median * 1e3)


async def _kernel(seconds: float = SECONDS) -> tuple[float, float]:
    from jupyter_client.manager import AsyncKernelManager

    manager: Any = AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        taken: list[float] = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            begun = time.perf_counter()
            await client.execute_interactive("1+1", timeout=30, output_hook=lambda message: None)
            taken.append(time.perf_counter() - begun)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
    return len(taken) / sum(taken), statistics.median(taken)
