"""What `ctx` says. Lines 16 and 35 of algocline section 6."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import Budget, InvalidValue, budget_of, namespace_of


def test_line_16_the_namespace_is_what_ctx_says():
    assert namespace_of({"_ns": "reviews", "task": "x"}) == "reviews"


@pytest.mark.parametrize("ctx", [None, {}, {"_ns": None}, {"_ns": 7}, {"_ns": ["a"]}, {"_ns": ""}, "text", 7, ["_ns"]])
def test_line_16_the_default_where_it_says_nothing(ctx):
    assert namespace_of(ctx) == "default"


@given(st.none() | st.dictionaries(st.sampled_from(["_ns", "x"]), st.none() | st.integers() | st.text()))
def test_line_16_a_namespace_is_never_empty(ctx):
    assert namespace_of(ctx)


@pytest.mark.parametrize("ctx", [None, {}, {"budget": None}, {"budget": {}}, {"budget": {"max_tokens": None}}, "text"])
def test_line_35_no_budget_where_no_limit_is_set(ctx):
    assert budget_of(ctx) is None


@pytest.mark.parametrize(
    "limits",
    [
        {"max_llm_calls": 3},
        {"max_elapsed_ms": 60000},
        {"max_tokens": 9},
        {"max_llm_calls": 0, "max_elapsed_ms": 1, "max_tokens": 2},
    ],
)
def test_line_35_each_limit_alone_and_together(limits):
    assert budget_of({"budget": limits}) == Budget(**limits)
    assert budget_of({"budget": limits}).as_dict() == limits


@pytest.mark.parametrize(
    "given",
    [5, "much", [1], {"max_calls": 1}, {"max_tokens": -1}, {"max_tokens": 1.5}, {"max_tokens": True}, {"max_tokens": "9"}],
)
def test_a_budget_that_makes_no_sense_is_refused(given):
    with pytest.raises(InvalidValue, match=r"budget|max_tokens"):
        budget_of({"budget": given})
