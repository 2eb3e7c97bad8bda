"""How long Python's lock is held, by looking from outside: py-spy reads who holds it, a thousand times a second."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

RATE = 1000


async def gil_seconds(duration: float) -> float | None:
    """For so many seconds of what this process does now: the seconds in which some thread held the lock. None where py-spy cannot look."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw"
        command = ["record", "--gil", "--nonblocking", "--rate", str(RATE), "--duration", str(int(duration)), "--format", "raw"]
        spy = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("py-spy"),
            *command,
            *("--output", str(raw), "--pid", str(os.getpid())),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        if await spy.wait() != 0 or not raw.exists():
            return None
        held = sum(int(line.rpartition(" ")[2]) for line in raw.read_text().splitlines())
        return held / RATE
