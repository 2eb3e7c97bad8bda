"""Engines, guests and templates for all tests: real ones, one of each kind for a whole run."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from hypothesis import settings

from holdfast.sandbox import LANGUAGES, Engine, Language, Template

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("holdfast", max_examples=50, deadline=None)
settings.load_profile("holdfast")

WAYS = {"fast": {}, "unmapped": {"mapped": False}, "public": {"unchecked": False, "native_ticks": False}}


@pytest.fixture(scope="session")
def engines() -> Iterator[Callable[[str], Engine]]:
    """Gives the engine that runs guests in one of these ways, made when it is first asked for."""
    with ExitStack() as opened:
        yield cache(lambda way: opened.enter_context(Engine(**WAYS[way])))


@pytest.fixture(scope="session")
def plain() -> Callable[[Engine, Language], Template]:
    """Gives the template of a language in which there is nothing, made once for each engine."""
    return cache(lambda engine, language: engine.guest(language).template())


@pytest.fixture(scope="session")
def engine(engines: Callable[[str], Engine]) -> Engine:
    """The fast ways, as most users have them."""
    return engines("fast")


@pytest.fixture(scope="session", params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    """Each language in turn: for what must hold in both."""
    return request.param


@pytest.fixture(scope="session")
def javascript(engine: Engine, plain: Callable[[Engine, Language], Template]) -> Template:
    return plain(engine, "javascript")


@pytest.fixture(scope="session")
def lua(engine: Engine, plain: Callable[[Engine, Language], Template]) -> Template:
    return plain(engine, "lua")
