"""A crafted module, a corrupted memory or a forged image is an error of its session, never the end of the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("tampered_guests.py")
SECONDS = os.environ.get("HOLDFAST_FUZZ_SECONDS", "1.5")
SEED = os.environ.get("HOLDFAST_FUZZ_SEED", "1")


@pytest.mark.parametrize("what", ["modules", "memory", "images"])
def test_a_tampered_guest_does_not_end_the_process(what: str) -> None:
    """`HOLDFAST_FUZZ_SECONDS` and `HOLDFAST_FUZZ_SEED` make it look longer, and elsewhere."""
    done = subprocess.run([sys.executable, PROGRAM, what, SECONDS, SEED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
