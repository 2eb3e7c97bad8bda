"""One table says which status each code has, and nothing is left out of it or invented by it."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast.domain import HoldfastError
from holdfast.http._statuses import INTERNAL, STATUSES, UNEXPECTED, status_of

_HERE = ("cli", "client", "mcp", "web")
"""Layers whose errors never come from the daemon as an answer."""


def _kinds(kind: type[HoldfastError] = HoldfastError) -> Iterator[type[HoldfastError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _codes() -> set[str]:
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if module.name.split(".")[1] not in _HERE and not module.name.startswith("holdfast.store.contract"):
            importlib.import_module(module.name)
    return {
        kind.code
        for kind in _kinds()
        if kind.__module__.startswith("holdfast.") and kind.__module__.split(".")[1] not in (*_HERE, "daemon")
    }


def test_every_error_has_a_status() -> None:
    assert _codes() - STATUSES.keys() - UNEXPECTED == set()


def test_the_table_has_no_codes_that_nothing_raises() -> None:
    assert STATUSES.keys() | UNEXPECTED == _codes()
    assert not STATUSES.keys() & UNEXPECTED


def test_what_is_not_in_the_table_is_our_fault() -> None:
    assert status_of("NEVER_HEARD_OF") == status_of(INTERNAL) == 500


def test_the_documented_table_is_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()
    documented = {code: int(status) for code, status in re.findall(r"^\| `([A-Z_]+)` \| (\d{3}) \|", text, re.MULTILINE)}
    assert documented == STATUSES
