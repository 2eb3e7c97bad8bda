"""Processes that are killed at random moments lose nothing and do nothing twice; and if they did, that would be noticed.

A small version of `python -m tests.chaos.kill9 --rounds 500`.
"""

import asyncio
import json
import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.chaos.kill9 import WORKER, check_world, examine, run
from tests.chaos.killing import Lost, one_round, read_notes
from tests.chaos.worker import Worker
from tests.postgres import fresh_schema

ROUNDS = 4


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_killed_processes_lose_nothing(store: str, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/chaos.db" if store == "sqlite" else fresh_schema()
    found, counts = run(address, ROUNDS, random.randrange(1 << 30), 500)
    assert found["kills"] == ROUNDS
    assert counts["noted: opening"] == ROUNDS
    assert counts["sessions that came to their end"] > 0


# ---- the examination itself --------------------------------------------------------------------------------------------------------


def test_a_store_that_forgets_commits_is_caught(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/chaos.db"
    with pytest.raises(Lost):
        run(address, 4, 7, 1_200, "forgetful")


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
