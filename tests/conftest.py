"""Engines, guests and templates for all tests: real ones, one of each kind for a whole run."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from hypothesis import settings

from holdfast.sandbox import LANGUAGES, Engine, Language, Template

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("holdfast", max_examples=50, deadline=None)
settings.load_profile("holdfast")

# Whoever runs this in the background may have been made deaf to Ctrl-C, and so would be every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = [
    "test_build",
    "test_http_schema",
    "test_packaging",
    "test_hostile_corpus",
    "test_heap",
    "test_lua_official",
    "test_many_sandboxes",
    "test_random_histories",
    "test_load",
]
"""Files that take long, and do not mind who else does at the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long begin first: a worker that came to one of them last would be waited for by all others."""
    places = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: places.get(item.path.stem, len(SLOW)))


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
