"""Stores for acceptance tests, each empty."""

from pathlib import Path

import pytest

from tests.postgres import fresh_schema


def _address(kind: str, folder: Path) -> str:
    return {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:///{folder}/work.db", "postgres": fresh_schema}[kind]()


@pytest.fixture(params=["sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store: SQLite, unless a test asks for others."""
    return _address(request.param, tmp_path)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store, of each kind in turn."""
    return _address(request.param, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that another process can open."""
    return _address(request.param, tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return _address("sqlite", tmp_path)
