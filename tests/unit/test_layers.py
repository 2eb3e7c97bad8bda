"""The layers of the design: an import that points upwards fails here and in `make lint`."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_each_layer_imports_only_those_below_it() -> None:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    checked = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
