"""Many clients at once, also of a daemon that is killed meanwhile. A small version of `python -m tests.chaos.load`."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.chaos.load import run


@pytest.mark.parametrize("kills", [0, 1])
def test_many_clients_lose_nothing(tmp_path: Path, kills: int) -> None:
    told = asyncio.run(run(tmp_path, sessions=16, connections=8, seconds=2, kills=kills, seed=random.randrange(1 << 30)))
    assert told.problems == []
    assert told.executions
