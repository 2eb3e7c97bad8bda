"""What all have in common that kill processes again and again: the killing, and what is compared afterwards whatever their scripts did."""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast import Holdfast, HoldfastError
from holdfast.domain import ExecutionStatus, Query, QueryKind, QueryState, Session, SessionState
from holdfast.store import Store

PROJECT = Path(__file__).parents[2]
PATIENCE_S = 60.0
_AT_ONCE = 4
Ran = tuple[Counter[str], Counter[str]]
"""What processes were in the middle of, and what was compared."""


class Lost(Exception):
    """What is not as it must be."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(f"{len(problems)} problems:\n" + "\n".join(problems[:20]))
        self.problems = problems


def read_notes(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# ---- killing -----------------------------------------------------------------------------------------------------------------------


def one_round(
    worker_module: str,
    address: str,
    folder: Path,
    seed: int,
    longest_ms: float,
    *options: str,
    awaited: str | None = None,
    then: Callable[[], bool] | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Starts a worker and kills it some time after it has noted what is awaited, and what comes then has happened as well.

    If nothing is said that is being ready; or, in one round of four, that it began to open the store.
    """
    dice = random.Random(seed)
    awaited = awaited or ("opening" if dice.random() < 0.25 else "ready")
    notes, errors = folder / "notes", folder / "stderr"
    skip = notes.stat().st_size if notes.exists() else 0
    with (
        errors.open("w") as output,
        subprocess.Popen(
            [sys.executable, "-m", worker_module, address, str(folder), str(seed), *options],
            cwd=PROJECT,
            stderr=output,
            env={**os.environ, **(env or {})},
        ) as worker,
    ):
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not _has(notes, skip, awaited) or not (then is None or then()):
                if worker.poll() is not None or time.monotonic() > deadline:
                    raise Lost([f"the worker did not start, or did not come so far: {errors.read_text()[-2000:]}"])
                time.sleep(0.01)
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


def look_at_answers(store: Store, notes: list[list[Any]]) -> int:
    """How many answers the store has that no worker was told of: it was killed in between."""
    told = {(note[1], note[2]) for note in notes if note[0] == "answered"}
    return sum(
        (str(session.id), query.id) not in told
        for session in store.list_sessions(limit=10_000).items
        for query in _answered(store.list_queries, session.id)
    )


def _answered(list_queries: Callable[..., Any], session_id: object) -> list[Query]:
    found: list[Query] = list_queries(session_id, states=[QueryState.ANSWERED], kinds=[QueryKind.ASK], limit=1000).items
    return found


# ---- examining ---------------------------------------------------------------------------------------------------------------------


async def compare_notes(hf: Holdfast, folder: Path, counts: Counter[str], problems: list[str]) -> None:
    """Whether all that workers were told is so."""
    for note in read_notes(folder / "notes"):
        counts[f"noted: {note[0]}"] += 1
        try:
            problem = await _compare(hf, note)
        except HoldfastError as error:
            problem = error.code
        if problem:
            problems.append(f"{problem}: {note}")


async def _compare(hf: Holdfast, note: list[Any]) -> str | None:
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
    """Every session that was left behind can be brought to its end, a few at a time."""
    left = [
        session
        for state in (SessionState.RUNNING, SessionState.PAUSED)
        for session in (await hf.sessions.list(states=[state], limit=1000)).items
    ]
    places = asyncio.Semaphore(_AT_ONCE)

    async def go_on(session: Session) -> None:
        if session.execution_id is None:
            return
        try:
            async with places:
                turn = await hf.executions.wait(session.execution_id, timeout=PATIENCE_S)
                while turn.execution.status is ExecutionStatus.PAUSED:
                    query = next(query for query in turn.queries if query.kind == "ask")
                    turn = await hf.queries.answer(session.id, f"{query.id} last", query=query.id)
                    turn = await hf.executions.wait(turn.execution.id, timeout=PATIENCE_S)
        except (HoldfastError, TimeoutError) as error:
            problems.append(f"session {session.id} cannot go on: {error!r}")

    await asyncio.gather(*(go_on(session) for session in left))


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


async def check_history(hf: Holdfast, session: str, trail: list[list[Any]], problems: list[str]) -> None:
    """The script saw each answer once; its events have no gap and never go back in time."""
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


# ---- the command -------------------------------------------------------------------------------------------------------------------


def report(store: str, rounds: int, found: Counter[str], counts: Counter[str]) -> None:
    print(f"{store}: {rounds} rounds, nothing lost, nothing twice")
    for title, counter in (("killed in the middle of", found), ("compared at the end", counts)):
        print(f"  {title}")
        for name, count in sorted(counter.items(), key=lambda item: (-item[1], item[0])):
            if count:
                print(f"    {count:7}  {name}")
    sys.stdout.flush()


def main(about: str | None, run: Callable[[str, int, int], Ran]) -> None:
    """The command: `run` is given the address of a store, the rounds and the seed."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
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
