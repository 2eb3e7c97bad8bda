"""The command line for tests: in this process, where that tells the same, and as a process of its own where it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.cli import main

COMMAND = [sys.executable, "-m", "holdfast.cli"]


class Said(NamedTuple):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)


class Terminal:
    """Runs commands in this process, with a data directory of its own. `typed` is what stdin holds; None is somebody who types nothing."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, typed: str | None = "") -> Said:
        self._capsys.readouterr()
        kept = os.dup(0)
        ends = os.pipe()
        if typed is not None:
            os.write(ends[1], typed.encode())
            os.close(ends[1])
        os.dup2(ends[0], 0)
        try:
            code = main(list(words))
        finally:
            os.dup2(kept, 0)
            for descriptor in (kept, ends[0], *([ends[1]] if typed is None else [])):
                os.close(descriptor)
        return Said(code, *self._capsys.readouterr())


def environment(data: Path, **more: str) -> dict[str, str]:
    """For a process with this data directory, and nothing that the machine is set up with."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_") or name == "HOLDFAST_CACHE_DIR"
    }
    return kept | {"HOLDFAST_DATA_DIR": str(data), "HOLDFAST_CONFIG": os.devnull, "NO_COLOR": "1"} | more


def started(data: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """A command in a process of its own, with pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*COMMAND, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment(data, **more), cwd=data
    )
