"""Kills a process again and again, at random moments, and looks whether anything that it was told is lost or happened twice.

    python -m tests.chaos.kill9 --rounds 500 [--store sqlite|postgresql|both] [--seed N]

After each kill the store is looked at, to see in the middle of what the process was; after the last one everything is compared: what the
workers were told, what the store has, what the scripts saw, and what happened in the world.
"""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.domain import QueryState, SessionState
from holdfast.store import open_store
from tests.chaos.killing import (
    Lost,
    Ran,
    check_history,
    compare_notes,
    ended,
    finish,
    look_at_answers,
    main,
    one_round,
    read_notes,
)
from tests.chaos.worker import ROUNDS, Worker

WORKER = "tests.chaos.worker"


def look(address: str, notes: list[list[Any]], found: Counter[str]) -> None:
    """Counts in the middle of what the process was killed. Nothing is changed."""
    found["kills"] += 1
    before = found.copy()
    store = open_store(address)
    try:
        for session in store.list_sessions(states=[SessionState.RUNNING, SessionState.STARTING], limit=1000).items:
            begun = store.load(session.id).begun
            if begun is None:
                continue
            intent = bool(begun.effects) and begun.effects[-1].reply is None
            found["in an effect, or between its intent and its commit" if intent else "in a slow step"] += 1
            found["in a step that was a replay"] += begun.attempts > 1
        for query in store.list_queries(states=[QueryState.OPEN], kinds=[], limit=1000).items:
            if query.kind == "tool":
                found["in a tool" if query.started_at is not None else "before a tool was started"] += 1
            found["in a sleep"] += query.kind == "timer"
        found["between the commit of an answer and its acknowledgement"] = look_at_answers(store, notes)
    finally:
        store.close()
    found["in nothing that can be seen"] += found - before == Counter()


async def examine(address: str, folder: Path) -> Counter[str]:
    """Compares what the workers were told with what the store has, and with what happened in the world. Raises `Lost`."""
    problems: list[str] = []
    counts: Counter[str] = Counter()
    worker = Worker(folder, 0)
    try:
        async with worker.open(address) as hf:
            await compare_notes(hf, folder, counts, problems)
            await finish(hf, problems)
            counts["recovered by the last process"] = (await hf.summary())["recovered"]
            results = await ended(hf, problems)
            for session, trail in results.items():
                await check_session(hf, session, trail, problems)
    finally:
        worker.close()
    check_world(read_notes(folder / "world"), results, counts, problems)
    counts["sessions that came to their end"] = len(results)
    if problems:
        raise Lost(problems)
    return counts


async def check_session(hf: Holdfast, session: str, trail: list[list[Any]], problems: list[str]) -> None:
    """The script did everything, in order, and nothing of its history is lost."""
    expected = []
    for n in range(1, ROUNDS + 1):
        expected += ["answer", "paid"] + ["tool"] * (n % 3 == 0) + ["slow"] * (n % 4 == 0)
    if [entry[0].rstrip("?") for entry in trail] != expected:
        problems.append(f"session {session} did something else: {trail}")
    await check_history(hf, session, trail, problems)


def check_world(world: list[list[Any]], results: dict[str, list[list[Any]]], counts: Counter[str], problems: list[str]) -> None:
    """No effect happened twice; what the script thinks has happened did; what it is unsure of may have."""
    happened = Counter((kind, name, n) for kind, name, n in world)
    problems += [f"happened {count} times: {effect}" for effect, count in happened.items() if count > 1]
    places = {"paid": ("pay", ""), "slow": ("pay", "/slow"), "tool": ("ship", "")}
    for session, trail in results.items():
        for what, n, *rest in trail:
            if what == "answer":
                continue
            kind, suffix = places[what.rstrip("?")]
            there = happened[kind, session + suffix, n]
            if not what.endswith("?"):
                counts[f"script is sure: {what}"] += 1
                if there != 1:
                    problems.append(f"did not happen: {session} {what} {n}")
            else:
                counts[f"EFFECT_UNCERTAIN: {what[:-1]}, it had {'' if there else 'not '}happened"] += 1
                if rest and rest != ["EFFECT_UNCERTAIN"]:
                    problems.append(f"a tool failed in another way: {session} {what} {n} {rest}")


def run(address: str, rounds: int, seed: int, longest_ms: float = 1_500, *options: str) -> Ran:
    """Kills `rounds` workers on one store, then examines it. Gives what they were in the middle of, and what was compared."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(rounds):
            # However slow the machine is, the first one leaves something behind.
            one_round(WORKER, address, folder, seed + number, longest_ms, *options, awaited=None if number else "paused")
            look(address, read_notes(folder / "notes"), found)
        return found, asyncio.run(examine(address, folder))


if __name__ == "__main__":
    main(__doc__, run)
