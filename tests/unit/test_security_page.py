"""SECURITY.md: every test that it names exists, and every line that makes a promise names one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()


def test_every_test_that_it_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 60
    for file, test in named:
        path = ROOT / file
        assert path.is_file(), file
        assert not test or re.search(rf"^\s*(async )?def {test}\(", path.read_text(), re.MULTILINE), f"{file}::{test}"


def test_every_cannot_has_a_test() -> None:
    for line in PAGE.splitlines():
        if line.startswith("|") and re.search(r"\bcannot\b", line) and "| test" not in line:
            assert "`tests/" in line, line
