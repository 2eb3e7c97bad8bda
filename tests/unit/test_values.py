"""Values between Python and the wire form that both guests speak."""

import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sandbox import BigInt, Circular, Date, ErrorValue, Map, Opaque, Set, Undefined, ValueRefused
from holdfast.sandbox.values import DEPTH_MAX, decode, encode

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
tagged = st.recursive(
    plain
    | st.binary()
    | st.just(Undefined)
    | st.just(math.inf)
    | st.integers().map(BigInt)
    | st.integers(-(2**52), 2**52).map(lambda ms: Date(float(ms)))
    | st.builds(ErrorValue, st.text(), st.text(), st.text(), st.none() | st.text(), st.none()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda items: Set(tuple(items)))
        | st.lists(st.tuples(inner, inner), max_size=3).map(lambda entries: Map(tuple(entries)))
        | st.dictionaries(st.sampled_from(["$", "v", "a"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(plain)
def test_json_values_are_json_on_the_wire(value):
    if '"$"' not in json.dumps(value):
        assert json.loads(encode(value)) == value


@given(tagged)
def test_every_value_comes_back(value):
    assert decode(encode(value)) == value


def test_a_script_cannot_forge_a_tag():
    assert decode(encode({"$": "bytes", "v": "aGk="})) == {"$": "bytes", "v": "aGk="}


def test_numbers_without_a_json_form():
    assert math.isnan(decode(encode(math.nan)))
    assert decode(encode(-math.inf)) == -math.inf
    assert math.copysign(1, decode(encode(-0.0))) == -1


def test_large_integers_are_bigints():
    assert json.loads(encode(2**60)) == {"$": "bigint", "v": str(2**60)}
    assert decode(encode(2**60)) == 2**60


def test_python_types_with_a_plain_meaning():
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert decode(encode(moment)).datetime == moment
    assert decode(encode({1, 2})) == Set((1, 2))
    assert decode(encode({1: "a"})) == Map(((1, "a"),))


def test_an_integer_with_more_digits_than_python_prints_is_opaque():
    assert decode(json.dumps({"$": "bigint", "v": "9" * 5000})).type == "bigint"


@pytest.mark.parametrize(
    "value",
    [object(), 1j, datetime(2026, 1, 1), Circular("$"), Opaque("function", "f"), 10**5000, {"a": [object()]}],  # noqa: DTZ001
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_cross_is_refused(value):
    with pytest.raises(ValueRefused):
        encode(value)


def test_values_that_contain_themselves_are_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueRefused, match=str(DEPTH_MAX)):
        encode(loop)


def test_dates_beyond_python_have_no_datetime():
    assert Date(8.64e15).datetime is None
    assert Date(None).datetime is None
