"""Processes that are killed at random moments lose nothing and do nothing twice; and if they did, that would be noticed.

Small versions of `python -m tests.chaos.kill9 --rounds 500` and `python -m tests.chaos.modules --rounds 100`.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import modules
from tests.chaos.kill9 import WORKER, check_world, examine, run
from tests.chaos.killing import Lost, one_round, read_notes
from tests.chaos.module_worker import KINDS, ROUNDS, repeating
from tests.chaos.worker import Worker
from tests.postgres import fresh_schema

KILLS = 3


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_killed_processes_lose_nothing(store: str, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/chaos.db" if store == "sqlite" else fresh_schema()
    found, counts = run(address, KILLS, random.randrange(1 << 30), 500)
    assert found["kills"] == KILLS
    assert counts["noted: opening"] == KILLS
    assert counts["sessions that came to their end"] > 0


# ---- the examination itself --------------------------------------------------------------------------------------------------------


def test_a_store_that_forgets_commits_is_caught(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/chaos.db"

    def is_enough() -> bool:
        return [note[0] for note in read_notes(tmp_path / "notes")].count("answered") >= 20

    one_round(WORKER, address, tmp_path, 7, 0, "forgetful", awaited="ready", then=is_enough)
    assert problems(tmp_path)


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and with what happened: everything came to its end and is as it must be."""
    folder = tmp_path_factory.mktemp("examined")
    address = f"sqlite:///{folder}/chaos.db"
    for seed in (2, 3):
        one_round(WORKER, address, folder, seed, 1_000)
    asyncio.run(examine(address, folder))
    return folder


def problems(folder: Path) -> list[str]:
    with pytest.raises(Lost) as caught:
        asyncio.run(examine(f"sqlite:///{folder}/chaos.db", folder))
    return caught.value.problems


@pytest.fixture
def copy(examined: Path, tmp_path: Path) -> Path:
    for file in examined.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_lost_answer_is_noticed(copy: Path) -> None:
    note = next(note for note in read_notes(copy / "notes") if note[0] == "answered")
    with (copy / "notes").open("a") as notes:
        notes.write(json.dumps([*note[:3], "another answer"]) + "\n")
    assert ["an answer is lost" in problem for problem in problems(copy)] == [True]


def test_a_lost_session_is_noticed(copy: Path) -> None:
    worker = Worker(copy, 0)
    worker.notes.write("session", "00000000-0000-4000-8000-000000000000")
    worker.close()
    assert ["SESSION_NOT_FOUND" in problem for problem in problems(copy)] == [True]


def test_an_answer_that_was_not_applied_is_noticed(copy: Path) -> None:
    with closing(sqlite3.connect(copy / "chaos.db")) as connection:
        connection.execute(
            "UPDATE queries SET answer = '[\"other\"]' WHERE place = (SELECT max(place) FROM queries WHERE kind = 'ask')"
        )
        connection.commit()
    assert any("but was answered" in problem for problem in problems(copy))


def test_an_effect_that_happened_twice_is_noticed(copy: Path) -> None:
    effect = read_notes(copy / "world")[0]
    with (copy / "world").open("a") as world:
        world.write(json.dumps(effect) + "\n")
    assert any("happened 2 times" in problem for problem in problems(copy))


def test_an_effect_that_did_not_happen_is_noticed() -> None:
    found: list[str] = []
    check_world([], {"a": [["answer", "x"], ["paid", 1], ["tool?", 1, "EFFECT_UNCERTAIN"]]}, Counter(), found)
    assert found == ["did not happen: a paid 1"]
    check_world([["pay", "a", 1]], {"a": [["paid", 1], ["tool?", 1, "HOST_FAILED"]]}, Counter(), found)
    assert len(found) == 2


# ---- native modules ----------------------------------------------------------------------------------------------------------------


def test_killed_processes_repeat_nothing_that_modules_do(tmp_path: Path) -> None:
    found, counts = modules.run(f"sqlite:///{tmp_path}/chaos.db", 1, random.randrange(1 << 30), at_once=1)
    assert found["kills"] == counts["noted: opening"] == 1
    assert counts["sessions that came to their end"] > 0


def test_a_module_that_repeats_is_caught(tmp_path: Path) -> None:
    address, world = f"sqlite:///{tmp_path}/chaos.db", tmp_path / "world"
    with modules.posts(tmp_path) as server, repeating():
        server.go.clear()
        modules.kill(
            address, tmp_path, 1, 0, server.url, "1", "repeating", awaited="ready", then=lambda: bool(read_notes(world))
        )
        server.go.set()
        with pytest.raises(Lost) as caught:
            asyncio.run(modules.examine(address, tmp_path, server.url, 1))
    assert any("happened 2 times" in problem for problem in caught.value.problems)


def test_what_is_wrong_in_the_world_of_modules_is_noticed() -> None:
    known: list[list[Any]] = [[kind, n] for n in range(1, ROUNDS + 1) for i, kind in enumerate(KINDS) if (n + i) % 3 == 0]
    world = Counter[modules.Done](("a", kind, n) for kind, n in known)
    first, second, *_ = world
    unsure = [[f"{first[1]}?", first[2]], *known[1:]]

    def found(trail: list[list[Any]], happened: Counter[modules.Done], kills: int = 1) -> list[str]:
        problems: list[str] = []
        modules.check_world(happened, {"a": trail}, Counter(), problems, kills)
        return [problem.partition(":")[0] for problem in problems]

    assert found(known, world) == found(unsure, world) == found(unsure, world - Counter([first])) == []
    assert found(known, world - Counter([second])) == ["did not happen"]
    assert found(unsure, world + Counter([first])) == ["happened 2 times"]
    assert found(known, world + Counter({("b", "run", 1): 1})) == ["nobody knows of it"]
    assert found(unsure, world, kills=0) == ["a is unsure of more than was killed"]
    assert found(known[1:], world - Counter([first])) == ["a did something else"]


def test_what_is_wrong_in_the_state_is_noticed() -> None:
    def found(**changed: int) -> list[str]:
        problems: list[str] = []
        right = {"first/a": ROUNDS, "second/a": ROUNDS, "last/a": ROUNDS, "all": ROUNDS}
        modules.check_state(right | {key.replace("_", "/"): value for key, value in changed.items()}, {"a": []}, problems)
        return problems

    assert found() == []
    assert found(second_a=ROUNDS + 1) == ["half of a step is in the state: a", f"counted {ROUNDS + 1}: second/a"]
    assert found(last_a=ROUNDS - 1) == [f"counted {ROUNDS - 1}: last/a"]
    assert found(all=ROUNDS + 1) == [f"all counted {ROUNDS}, but together {ROUNDS + 1}"]


def test_a_program_that_is_left_running_is_noticed(tmp_path: Path) -> None:
    assert modules.left_running(tmp_path) == []
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as process:
        try:
            assert modules.left_running(tmp_path) == ["sleep 60 "]
        finally:
            process.kill()
    assert modules.left_running(tmp_path) == []
