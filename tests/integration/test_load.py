"""Many clients at once, also of a daemon that is killed meanwhile. A small version of `python -m tests.chaos.load`."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.chaos.load import run


@pytest.mark.parametrize(("kills", "seconds"), [(0, 2), (1, 1)])
def test_many_clients_lose_nothing(tmp_path: Path, kills: int, seconds: int) -> None:
    told = asyncio.run(run(tmp_path, sessions=8, connections=8, seconds=seconds, kills=kills, seed=random.randrange(1 << 30)))
    assert told.problems == []
    assert told.executions
