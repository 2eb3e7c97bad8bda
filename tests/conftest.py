"""Engines, guests and templates for all tests: real ones, one of each kind for a whole run."""

from collections.abc import Iterator

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


WAYS = {"fast": {}, "unmapped": {"mapped": False}, "public": {"unchecked": False, "native_ticks": False}}


@pytest.fixture(scope="session", params=WAYS)
def any_engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each way of running guests in turn: the fast one, and the portable ones that must do the same."""
    with Engine(**WAYS[request.param]) as engine:
        yield engine
