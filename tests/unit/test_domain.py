"""Limits and the root of all errors."""

import pytest

import holdfast.sandbox
from holdfast.domain import USAGE_LIMITS, Breach, Fault, HoldfastError, Limit, Limits


def test_limits_have_the_names_of_their_fields():
    assert {limit.value for limit in Limit} | set(USAGE_LIMITS) == set(Limits.__dataclass_fields__)


@pytest.mark.parametrize("wrong", [{"wall_ms": -1}, {"mem_mb": 3}, {"stack_kb": 5000}, {"max_events": 1.5}, {"cpu_ms": True}])
def test_senseless_limits_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


def test_a_changed_copy_keeps_the_rest():
    assert Limits(wall_ms=7).but(cpu_ms=8) == Limits(wall_ms=7, cpu_ms=8)


def test_a_breach_says_which_limit_and_by_how_much():
    assert str(Breach(Limit.WALL, 200, 204.5)) == "wall_ms exceeded: 200 allowed, 204.5 used"


def errors(base=HoldfastError):
    for kind in base.__subclasses__():
        yield kind
        yield from errors(kind)


def test_every_error_has_a_code_of_its_own_a_fault_and_a_message():
    kinds = [kind for kind in errors() if "code" in vars(kind)]  # one without is a special case of its parent
    assert len({kind.code for kind in kinds}) == len(kinds)
    for kind in errors():
        assert isinstance(kind.fault, Fault)
        assert kind.__doc__


def test_everything_exported_exists_and_is_documented():
    for name in holdfast.sandbox.__all__:
        exported = getattr(holdfast.sandbox, name)
        if isinstance(exported, type):
            assert exported.__doc__, name
