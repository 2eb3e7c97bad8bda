"""Kills a process again and again, at random moments, and looks whether anything that it was told is lost or happened twice.

    python -m tests.chaos.kill9 --rounds 500 [--store sqlite|postgresql|both] [--seed N]

After each kill the store is looked at, to see in the middle of what the process was; after the last one everything is compared: what the
workers were told, what the store has, what the scripts saw, and what happened in the world.
"""

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Holdfast, HoldfastError
from holdfast.domain import ExecutionStatus, Query, QueryKind, QueryState, SessionState
from holdfast.store import open_store
from tests.chaos.worker import ROUNDS, Worker

PROJECT = Path(__file__).parents[2]
_PATIENCE_S = 60.0


class Lost(Exception):
    """What is not as it must be."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(f"{len(problems)} problems:\n" + "\n".join(problems[:20]))
        self.problems = problems


def read_notes(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# ---- killing -----------------------------------------------------------------------------------------------------------------------


def one_round(address: str, folder: Path, seed: int, longest_ms: float, *options: str, awaited: str | None = None) -> None:
    """Starts a worker and kills it some time after it has noted what is awaited.

    If nothing is said that is being ready; or, in one round of four, that it began to open the store.
    """
    dice = random.Random(seed)
    awaited = awaited or ("opening" if dice.random() < 0.25 else "ready")
    notes, errors = folder / "notes", folder / "stderr"
    skip = notes.stat().st_size if notes.exists() else 0
    with (
        errors.open("w") as output,
        subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.worker", address, str(folder), str(seed), *options], cwd=PROJECT, stderr=output
        ) as worker,
    ):
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while not _has(notes, skip, awaited):
                if worker.poll() is not None or time.monotonic() > deadline:
                    raise Lost([f"the worker did not start: {errors.read_text()[-2000:]}"])
                time.sleep(0.002)
            time.sleep(dice.random() ** 2 * longest_ms / 1000)  # early moments more often than late ones
            if worker.poll() is not None:
                raise Lost([f"the worker ended by itself: {errors.read_text()[-2000:]}"])
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()


def _has(notes: Path, skip: int, word: str) -> bool:
    if not notes.exists():
        return False
    with notes.open("rb") as file:
        file.seek(skip)
        return f'["{word}"'.encode() in file.read()


def look(address: str, notes: list[list[Any]], found: Counter[str]) -> None:
    """Counts in the middle of what the process was killed. Nothing is changed."""
    found["kills"] += 1
    told = {(note[1], note[2]) for note in notes if note[0] == "answered"}
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
        found["between the commit of an answer and its acknowledgement"] = sum(
            (str(session.id), query.id) not in told
            for session in store.list_sessions(limit=10_000).items
            for query in _answered(store.list_queries, session.id)
        )
    finally:
        store.close()
    found["in nothing that can be seen"] += found - before == Counter()


def _answered(list_queries: Callable[..., Any], session_id: object) -> list[Query]:
    found: list[Query] = list_queries(session_id, states=[QueryState.ANSWERED], kinds=[QueryKind.ASK], limit=1000).items
    return found


# ---- examining ---------------------------------------------------------------------------------------------------------------------


async def examine(address: str, folder: Path) -> Counter[str]:
    """Compares what the workers were told with what the store has, and with what happened in the world. Raises `Lost`."""
    problems: list[str] = []
    counts: Counter[str] = Counter()
    worker = Worker(folder, 0)
    try:
        async with worker.open(address) as hf:
            for note in read_notes(folder / "notes"):
                counts[f"noted: {note[0]}"] += 1
                try:
                    problem = await compare(hf, note)
                except HoldfastError as error:
                    problem = error.code
                if problem:
                    problems.append(f"{problem}: {note}")
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


async def compare(hf: Holdfast, note: list[Any]) -> str | None:
    """Whether one thing that a worker was told is so. Gives what is wrong."""
    kind, *told = note
    if kind == "session":
        await hf.sessions.get(told[0])
    elif kind == "paused":
        await hf.executions.get(told[1])
        for query in told[2]:
            await hf.queries.get(told[0], query)
    elif kind == "answered":
        query = await hf.queries.get(told[0], told[1])
        if query.state is not QueryState.ANSWERED or query.answer is None or query.answer.value != told[2]:
            return "an answer is lost"
    elif kind == "ended":
        execution = await hf.executions.get(told[1])
        if (execution.status.value, execution.result) != (told[2], told[3]):
            return "a result is lost"
    return None


async def finish(hf: Holdfast, problems: list[str]) -> None:
    """Every session that was left behind can be brought to its end."""
    for state in (SessionState.RUNNING, SessionState.PAUSED):
        for session in (await hf.sessions.list(states=[state], limit=1000)).items:
            if session.execution_id is None:
                continue
            try:
                turn = await hf.executions.wait(session.execution_id, timeout=_PATIENCE_S)
                while turn.execution.status is ExecutionStatus.PAUSED:
                    query = next(query for query in turn.queries if query.kind == "ask")
                    turn = await hf.queries.answer(session.id, f"{query.id} last", query=query.id)
                    turn = await hf.executions.wait(turn.execution.id, timeout=_PATIENCE_S)
            except (HoldfastError, TimeoutError) as error:
                problems.append(f"session {session.id} cannot go on: {error!r}")


async def ended(hf: Holdfast, problems: list[str]) -> dict[str, list[list[Any]]]:
    """The trails of all sessions."""
    results: dict[str, list[list[Any]]] = {}
    after = None
    while True:
        page = await hf.executions.list(limit=500, after=after)
        for execution in page.items:
            if execution.status is not ExecutionStatus.OK or execution.result is None:
                problems.append(f"an execution is {execution.status.value}: {execution.error}")
            elif str(execution.session_id) in results:
                problems.append(f"session {execution.session_id} ran twice")
            else:
                results[str(execution.session_id)] = execution.result["json"]
        after = page.next
        if after is None:
            return results


async def check_session(hf: Holdfast, session: str, trail: list[list[Any]], problems: list[str]) -> None:
    """The script did everything, in order; it saw each answer once; its events have no gap and never go back in time."""
    expected = []
    for n in range(1, ROUNDS + 1):
        expected += ["answer", "paid"] + ["tool"] * (n % 3 == 0) + ["slow"] * (n % 4 == 0)
    if [entry[0].rstrip("?") for entry in trail] != expected:
        problems.append(f"session {session} did something else: {trail}")
    seen = [entry[1] for entry in trail if entry[0] == "answer"]
    page = await hf.queries.list(session, states=["answered"], kinds=["ask"], limit=1000)
    stored = [query.answer and query.answer.value for query in page.items]
    if seen != stored:
        problems.append(f"session {session} saw {seen}, but was answered {stored}")
    execution = (await hf.executions.list(session)).items[0]
    events = await hf.executions.events(execution.id, limit=10_000)
    if [event.seq for event in events] != list(range(1, execution.seq + 1)):
        problems.append(f"session {session} has a gap in its events")
    if sorted(event.ts for event in events) != [event.ts for event in events]:
        problems.append(f"session {session} has events that go back in time")


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


# ---- all of it ---------------------------------------------------------------------------------------------------------------------


def run(address: str, rounds: int, seed: int, longest_ms: float = 1_500, *options: str) -> tuple[Counter[str], Counter[str]]:
    """Kills `rounds` workers on one store, then examines it. Gives what they were in the middle of, and what was compared."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(rounds):
            # However slow the machine is, the first one leaves something behind.
            one_round(address, folder, seed + number, longest_ms, *options, awaited=None if number else "paused")
            look(address, read_notes(folder / "notes"), found)
        return found, asyncio.run(examine(address, folder))


def report(store: str, rounds: int, found: Counter[str], counts: Counter[str]) -> None:
    print(f"{store}: {rounds} rounds, nothing lost, nothing twice")
    for title, counter in (("killed in the middle of", found), ("compared at the end", counts)):
        print(f"  {title}")
        for name, count in sorted(counter.items(), key=lambda item: (-item[1], item[0])):
            if count:
                print(f"    {count:7}  {name}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--store", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    if options.store in ("sqlite", "both"):
        with tempfile.TemporaryDirectory() as folder:
            report("sqlite", options.rounds, *run(f"sqlite:///{folder}/chaos.db", options.rounds, options.seed))
    if options.store in ("postgresql", "both"):
        from tests.postgres import fresh_schema

        report("postgresql", options.rounds, *run(fresh_schema(), options.rounds, options.seed))


if __name__ == "__main__":
    main()
