"""Engines, guests and templates for all tests: real ones, one of each kind for a whole run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sandbox import LANGUAGES, Engine, Language, Template


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The fast ways, as most users have them."""
    with Engine() as engine:
        yield engine


@pytest.fixture(scope="session", params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    """Each language in turn: for what must hold in both."""
    return request.param


@pytest.fixture(scope="session")
def javascript(engine: Engine) -> Template:
    return engine.guest("javascript").template()


@pytest.fixture(scope="session")
def lua(engine: Engine) -> Template:
    return engine.guest("lua").template()


@pytest.fixture(scope="session", params=["fast", "unmapped", "public"])
def any_engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Each way of running guests in turn: the fast one, and the portable ones that must do the same."""
    cache: Path = tmp_path_factory.mktemp("cache", numbered=True)
    cache.chmod(0o700)
    ways = {"fast": {}, "unmapped": {"mapped": False}, "public": {"unchecked": False}}
    with Engine("default" if request.param == "fast" else cache, **ways[request.param]) as engine:
        yield engine
