"""Many clients call a daemon at once, which may be killed meanwhile: nothing that was acknowledged is lost, nothing happens twice.

    python -m tests.chaos.load --sessions 1000 --connections 64 --seconds 60 [--kills 3] [--seed N]

Each session counts how often it was told to. At the end its count must be the number of calls that were acknowledged, whatever happened
in between; the events of every execution must be numbered without gaps; and a reader who followed all events must have seen each of
them once.
"""

import argparse
import asyncio
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import holdfast
from holdfast.client import models
from tests.daemon import Daemon

PATIENCE_S = 60.0
MOST_GROWTH = 1.3
"""How much larger the process may be at the end than after the first third, by which time all sessions were in use."""


@dataclass
class Told:
    """What clients were told."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    executions: dict[str, int] = field(default_factory=dict)
    """The last event of each that came to its end, as its answer says."""
    calls: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


@dataclass
class Seen:
    """What the reader of all events has seen: the numbers, by execution."""

    events: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


async def run(folder: Path, sessions: int, connections: int, seconds: float, kills: int, seed: int) -> Told:
    """Does all of it, and gives what was told, with the problems that were found."""
    daemon = Daemon(folder, log_level="warning", access_log="false")
    await asyncio.to_thread(daemon.start)
    told, seen = Told(), Seen()
    try:
        async with holdfast.AsyncClient(daemon.url, daemon.token, connections=connections + 2, retry_for=PATIENCE_S) as client:
            made = await _make(client, sessions, connections)
            watching = asyncio.create_task(_watch(client, seen))
            await asyncio.sleep(0.5)
            until = time.monotonic() + seconds
            workers = [_work(client, made[n::connections], told, until, random.Random(seed + n)) for n in range(connections)]
            killing = asyncio.create_task(_kill(daemon, kills, seconds, random.Random(seed)))
            growing = asyncio.create_task(_grown(daemon, seconds, kills))
            await asyncio.gather(*workers)
            await killing
            grown = await growing
            if grown is not None and grown > MOST_GROWTH:
                told.problems.append(f"the daemon needed {grown:.2f} times the memory at the end")
            await _examine(client, told, seen)
            watching.cancel()
            await _look_at_statuses(client, told, kills)
    finally:
        await asyncio.to_thread(daemon.stop)
    return told


async def _make(client: holdfast.AsyncClient, sessions: int, connections: int) -> list[str]:
    template = await client.templates.create("load")
    gate = asyncio.Semaphore(connections)

    async def one() -> str:
        async with gate:
            session = await client.sessions.create(template.id)
            await client.executions.repl(session.id, "globalThis.count = 0")
            return str(session.id)

    return list(await asyncio.gather(*(one() for _ in range(sessions))))


# ---- what clients do ---------------------------------------------------------------------------------------------------------------


async def _work(client: holdfast.AsyncClient, mine: list[str], told: Told, until: float, dice: random.Random) -> None:
    """One client with sessions of its own, which it calls one after the other."""
    while time.monotonic() < until:
        session = dice.choice(mine)
        kind = dice.choices(("count", "ask", "fail", "look", "fork"), (50, 20, 5, 20, 5))[0]
        told.calls[kind] += 1
        try:
            await _DO[kind](client, session, told, dice)
        except holdfast.HoldfastError as error:
            told.problems.append(f"{kind}: {error.code}: {error}")


def _ended(execution: models.Execution, status: str, told: Told) -> None:
    if execution.status != status:
        told.problems.append(f"an execution is {execution.status}, not {status}: {execution.error}")
    told.executions[str(execution.id)] = execution.seq


async def _count(client: holdfast.AsyncClient, session: str, told: Told, dice: random.Random) -> None:
    execution = await client.executions.repl(session, "console.log('counting'); ++count")
    told.counts[session] += 1
    _ended(execution, "ok", told)
    counted = (execution.result or {}).get("json")
    if counted != told.counts[session]:
        told.problems.append(f"a session has counted to {counted}, and was told to {told.counts[session]} times")


async def _ask(client: holdfast.AsyncClient, session: str, told: Told, dice: random.Random) -> None:
    execution = await client.executions.repl(session, "count += await ask('how many?')")
    if execution.status != "paused":
        told.problems.append(f"an execution that asks is {execution.status}: {execution.error}")
        return
    many = dice.randrange(1, 4)
    execution = await client.queries.answer(session, many, query=execution.queries[0].id)
    told.counts[session] += many
    _ended(execution, "ok", told)


async def _fail(client: holdfast.AsyncClient, session: str, told: Told, dice: random.Random) -> None:
    _ended(await client.executions.repl(session, "throw new Error('on purpose')"), "error", told)


async def _look(client: holdfast.AsyncClient, session: str, told: Told, dice: random.Random) -> None:
    await client.sessions.get(session)
    page = await client.executions.list(session, limit=3)
    if page.items:
        await client.events.list(page.items[0].id)


async def _fork(client: holdfast.AsyncClient, session: str, told: Told, dice: random.Random) -> None:
    (fork,) = await client.sessions.fork(session)
    execution = await client.executions.repl(fork.id, "count")
    if (execution.result or {}).get("json") != told.counts[session]:
        told.problems.append(f"a fork has another count: {execution.result}")
    await client.sessions.delete(fork.id)


_DO = {"count": _count, "ask": _ask, "fail": _fail, "look": _look, "fork": _fork}


async def _watch(client: holdfast.AsyncClient, seen: Seen) -> None:
    async for event in client.events.follow(patience=PATIENCE_S):
        seen.events[str(event.execution_id)].append(event.seq)


# ---- what happens to the daemon ----------------------------------------------------------------------------------------------------


async def _kill(daemon: Daemon, kills: int, seconds: float, dice: random.Random) -> None:
    for _ in range(kills):
        await asyncio.sleep(seconds / (kills + 1) * dice.uniform(0.5, 1))
        await asyncio.to_thread(daemon.kill)
        await asyncio.to_thread(daemon.start)


async def _grown(daemon: Daemon, seconds: float, kills: int) -> float | None:
    """How much larger the process became in the last two thirds; None if it is not one process."""
    if kills:
        return None
    await asyncio.sleep(seconds / 3)
    before = _resident_kb(daemon)
    await asyncio.sleep(seconds * 2 / 3 - 0.5)
    return _resident_kb(daemon) / before


def _resident_kb(daemon: Daemon) -> int:
    assert daemon.process is not None
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{daemon.process.pid}/status").read_text())
    assert found is not None
    return int(found[1])


# ---- what must be so ---------------------------------------------------------------------------------------------------------------


async def _examine(client: holdfast.AsyncClient, told: Told, seen: Seen) -> None:
    async def count(session: str, expected: int) -> None:
        execution = await client.executions.repl(session, "count")
        if (execution.result or {}).get("json") != expected:
            told.problems.append(f"a session has counted to {execution.result}, and was told to {expected}")

    async def numbers(execution: str, last: int) -> None:
        found = [event.seq async for event in client.events.iterate(execution)]
        if found != [*range(1, last + 1)]:
            told.problems.append(f"an execution has events {found}, not 1 to {last}")

    gate = asyncio.Semaphore(16)

    async def bounded(work: object) -> None:
        async with gate:
            await work  # type: ignore[misc]

    await asyncio.gather(*(bounded(count(session, expected)) for session, expected in told.counts.items()))
    some = random.Random(0).sample(sorted(told.executions.items()), min(500, len(told.executions)))
    await asyncio.gather(*(bounded(numbers(execution, last)) for execution, last in some))
    until = time.monotonic() + 10
    while time.monotonic() < until and any(len(seen.events[name]) < last for name, last in told.executions.items()):
        await asyncio.sleep(0.1)
    for name, last in told.executions.items():
        if seen.events[name] != [*range(1, last + 1)]:
            told.problems.append(f"a reader saw events {seen.events[name]}, not 1 to {last}")


async def _look_at_statuses(client: holdfast.AsyncClient, told: Told, kills: int) -> None:
    """Whether the daemon has answered that it failed. One that is killed in between may say that it is not ready."""
    for line in (await client.ops.metrics()).splitlines():
        if re.match(r'http_requests_total\{.*status="5\d\d"', line) and not kills:
            told.problems.append(f"the daemon answered: {line}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = asyncio.run(run(Path(folder), given.sessions, given.connections, given.seconds, given.kills, given.seed))
    print(
        f"seed {given.seed}: {sum(told.calls.values())} rounds {dict(told.calls)}, {len(told.executions)} executions examined"
    )
    print("\n".join(told.problems[:20]) or "nothing lost, nothing twice")
    return 1 if told.problems else 0


if __name__ == "__main__":
    sys.exit(main())
