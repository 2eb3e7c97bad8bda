"""The examples in docstrings say what is so."""

import doctest
import importlib
import pkgutil

import pytest

import holdfast

MODULES = [module.name for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")]
ATTEMPTED = {"holdfast.domain._states", "holdfast.domain._tokens", "holdfast.runtime.resident", "holdfast.store._rows"}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted or name not in ATTEMPTED
