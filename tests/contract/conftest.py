"""Every way of running guests: the fast one, and the portable ones that must do the same."""

from collections.abc import Callable
from zlib import crc32

import pytest

from holdfast.sandbox import LANGUAGES, Engine, Language, Template

# Languages and ways have little to do with each other: a test meets both languages in the fast way and one in each of the others, and
# every pair is met by many tests.
_PAIRS = (
    (("fast", "javascript"), ("fast", "lua"), ("unmapped", "javascript"), ("public", "lua")),
    (("fast", "javascript"), ("fast", "lua"), ("unmapped", "lua"), ("public", "javascript")),
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "any_engine" in metafunc.fixturenames:
        pairs = _PAIRS[crc32(metafunc.function.__name__.encode()) % 2]
        metafunc.parametrize(("any_engine", "language"), pairs, indirect=True, scope="session")
    elif "language" in metafunc.fixturenames:
        metafunc.parametrize("language", LANGUAGES, indirect=True, scope="session")


@pytest.fixture(scope="session")
def language(request: pytest.FixtureRequest) -> Language:
    return request.param


@pytest.fixture(scope="session")
def any_engine(request: pytest.FixtureRequest, engines: Callable[[str], Engine]) -> Engine:
    return engines(request.param)


@pytest.fixture(scope="session")
def template(any_engine: Engine, language: Language, plain: Callable[[Engine, Language], Template]) -> Template:
    """The template of the language in which there is nothing."""
    return plain(any_engine, language)
