"""Limits: defaults of vm-system 1.4, and what is in range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import USAGE_LIMITS, Limits

LOWEST = {"mem_mb": 4, "stack_kb": 16}
HIGHEST = {"mem_mb": 4095, "stack_kb": 1536, "max_output_kb": 0xFFFFFFFF // 1024}
NAMES = list(Limits.__dataclass_fields__)


def test_defaults():
    assert Limits() == Limits(
        wall_ms=5000, cpu_ms=2000, mem_mb=128, stack_kb=1024, max_events=50_000, max_output_kb=256, max_suspensions=0
    )
    assert all(getattr(Limits(), name) for name in USAGE_LIMITS)


@given(st.sampled_from(NAMES), st.integers(-(2**33), 2**33))
def test_a_limit_is_taken_if_it_is_in_range_and_refused_by_name_if_not(name, value):
    low, high = LOWEST.get(name, 0), HIGHEST.get(name, 0xFFFFFFFF)
    for edge in (low, high):
        assert getattr(Limits().but(**{name: edge}), name) == edge
    for wrong in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"^{name} must be between {low} and {high}, not {wrong}$"):
            Limits(**{name: wrong})
    if low <= value <= high:
        assert getattr(Limits(**{name: value}), name) == value
    else:
        with pytest.raises(ValueError, match=name):
            Limits(**{name: value})


@pytest.mark.parametrize("wrong", [None, "5", 5.0, True])
def test_a_limit_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="wall_ms must be between"):
        Limits(wall_ms=wrong)
