"""The strategies suite: from an answer to the next prompt by each way in, rounds of a strategy, forks of a script, what hosts read of us.

A round trip is whole: the answer is given, the script goes on, its next question is committed and synced, and the caller has read it.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.capabilities import bare_commit
from benchmarks.rows import Row
from holdfast import Holdfast, Response
from tests.daemon import Daemon
from tests.mcp_host import Host, Local, Remote

TRIPS = 100
TURNS = 3
"""Ways are measured in turns, so that a noisy moment touches all of them."""
SAMPLES = 5
FORKS = 100
ASKS = "local n = 0 while true do n = n + 1 alc.llm('question ' .. n .. '?') end"


def run(only: str = "") -> Iterator[Row]:
    """All rows of the suite, or those whose measurement has this word in its name."""
    for measure in (round_trips, self_consistency, forks, tools):
        if only in measure.__name__:
            with tempfile.TemporaryDirectory() as folder:
                yield from measure(Path(folder))


# ---- round trips -------------------------------------------------------------------------------------------------------------------

Trip = Callable[[], object]
"""Answers the question that is open, and returns when the next one is there."""


def round_trips(folder: Path) -> Iterator[Row]:
    """In SQLite files, each answer synced. The library in this process; the others in processes of their own."""
    daemon = Daemon(folder, log_level="warning").start()
    stdio, http = Local(folder), Remote(f"{daemon.url}/mcp", daemon.token)
    try:
        with asyncio.Runner() as runner, daemon.client() as api:
            hf = Holdfast.open(f"sqlite:///{folder}/library.db")
            runner.run(hf.__aenter__())
            try:
                begun = runner.run(hf.strategies.run(ASKS))["session_id"]
                trips: dict[str, Trip] = {
                    "library": lambda: runner.run(hf.strategies.resume(begun, [Response("an answer")])),
                    "rest": _by_rest(api),
                    "mcp_stdio": _by_mcp(stdio.start()),
                    "mcp_http": _by_mcp(http.start()),
                }
                taken = _in_turns(trips)
            finally:
                runner.run(hf.__aexit__())
    finally:
        stdio.stop()
        http.stop()
        daemon.stop()
    for name, seconds in taken.items():
        yield Row(f"round_trip_ms_{name}", seconds * 1e3)
    yield Row("plain_python_commit_ms", bare_commit(folder / "bare.db") * 1e3)


def _by_rest(api: Any) -> Trip:
    begun = api.post("/runs", json={"code": ASKS}).raise_for_status().json()["session_id"]
    return lambda: api.post(f"/runs/{begun}/continue", json={"response": "an answer"}).raise_for_status().json()


def _by_mcp(host: Host) -> Trip:
    begun = host.call("run", code=ASKS)["session_id"]
    return lambda: host.call("continue", session_id=begun, response="an answer")


def _in_turns(trips: dict[str, Trip]) -> dict[str, float]:
    """The median of each."""
    taken: dict[str, list[float]] = {name: [] for name in trips}
    for turn in range(TURNS + 1):
        for name, trip in trips.items():
            for _ in range(TRIPS):
                begun = time.perf_counter()
                trip()
                if turn:  # the first is for what is done once
                    taken[name].append(time.perf_counter() - begun)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


# ---- strategies --------------------------------------------------------------------------------------------------------------------


def self_consistency(folder: Path) -> Iterator[Row]:
    """How often a host is asked for something by the bundled strategy, with five samples: algocline's `sc` needs eleven."""

    async def count() -> int:
        async with Holdfast.open(f"sqlite:///{folder}/work.db") as hf:
            rounds = 0
            reply = await hf.strategies.advise("self_consistency", "What is 6 x 7?", opts={"n": SAMPLES})
            while reply["status"] == "needs_response":
                rounds += 1
                asked = await hf.strategies.asked(reply["session_id"])
                reply = await hf.strategies.resume(reply["session_id"], [Response("42", one.id) for one in asked])
            assert reply["status"] == "completed", reply
            assert reply["stats"]["auto"]["llm_calls"] >= SAMPLES, reply
        return rounds

    yield Row("self_consistency_rounds", asyncio.run(count()), 1, 1)


def forks(folder: Path) -> Iterator[Row]:
    """A script forks into a hundred sessions; each asks once, all are answered in one call, and what came of them is joined."""

    async def seconds() -> float:
        code = """
            local branches = {}
            for i = 1, ctx.n do branches[i] = function() return alc.llm('branch ' .. i) end end
            local found = alc.fork(branches, {})
            for i, one in ipairs(found) do assert(one.ok and one.result == 'said', one.error) end
            return #found
        """
        async with Holdfast.open(f"sqlite:///{folder}/work.db") as hf:
            taken: list[float] = []
            for _ in range(TURNS + 1):
                begun = time.perf_counter()
                reply = await hf.strategies.run(code, ctx={"n": FORKS})
                assert len(reply["queries"]) == FORKS, reply
                answers = [Response("said", query["id"]) for query in reply["queries"]]
                reply = await hf.strategies.resume(reply["session_id"], answers)
                assert reply.get("result") == FORKS, reply
                taken.append(time.perf_counter() - begun)
        return statistics.median(taken[1:])

    yield Row("forks_100_s", asyncio.run(seconds()))


# ---- what a host reads -------------------------------------------------------------------------------------------------------------


def tools(folder: Path) -> Iterator[Row]:
    """The answer to `tools/list`, as it goes over the wire."""
    host = Local(folder)
    host.start()
    try:
        listed = host.do(lambda client: client.list_tools()).result(60)
        size = len(listed.model_dump_json(by_alias=True, exclude_none=True).encode())
        yield Row("mcp_tools_list_bytes", size, 12_288, 8_192)
        yield Row("mcp_tools", len(listed.tools), 12, 12)
    finally:
        host.stop()
