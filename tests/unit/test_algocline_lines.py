"""Each of the lines 1 to 66 of algocline's conformance list has tests that bear its number."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent


def numbers(name: str) -> set[int]:
    """The lines that a test is about: `test_line_7_...`, `test_lines_15_and_19_...`, `test_lines_54_to_56_...`."""
    found = re.match(r"test_lines?_(\d+)(?:_(and|to)_(\d+))?(?:_|$)", name)
    if not found:
        return set()
    first, last = int(found[1]), int(found[3] or found[1])
    return set(range(first, last + 1)) if found[2] == "to" else {first, last}


def covered(*folders: str) -> dict[int, list[str]]:
    lines: dict[int, list[str]] = {}
    for folder in folders:
        for path in (TESTS / folder).rglob("test_*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    for number in numbers(node.name):
                        lines.setdefault(number, []).append(node.name)
    return lines


def test_every_line_has_a_test_with_its_number() -> None:
    missing = set(range(1, 67)) - covered("unit", "integration", "acceptance").keys()
    assert not missing, sorted(missing)
