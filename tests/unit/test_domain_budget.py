"""Budgets hold. Lines 36-38 of algocline 6.3; restated, since theirs were soft (section 8, weakness 8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import Budget, BudgetExceeded, Metrics, Spent


def test_line_36_within_all_limits_is_fine():
    Budget(max_llm_calls=2, max_elapsed_ms=10, max_tokens=11).check(Spent(1, 9, 0), calls=1, tokens=10)
    Budget().check(Spent(10**9, 10**9, 10**9), calls=10**6, tokens=10**6)


@pytest.mark.parametrize(
    ("budget", "spent", "text"),
    [
        (Budget(max_llm_calls=2), Spent(llm_calls=2), "budget_exceeded: max_llm_calls (2) reached (2 used)"),
        (Budget(max_elapsed_ms=50), Spent(elapsed_ms=50), "budget_exceeded: max_elapsed_ms (50ms) reached (50ms elapsed)"),
        (Budget(max_tokens=10), Spent(tokens=10), "budget_exceeded: max_tokens (10) reached (10 used)"),
        # Calls come first, then time, then tokens
        (Budget(1, 1, 1), Spent(1, 1, 1), "budget_exceeded: max_llm_calls (1) reached (1 used)"),
        (Budget(None, 1, 1), Spent(1, 1, 1), "budget_exceeded: max_elapsed_ms (1ms) reached (1ms elapsed)"),
    ],
)
def test_line_36_at_a_limit_the_next_call_is_refused(budget, spent, text):
    with pytest.raises(BudgetExceeded) as refusal:
        budget.check(spent, calls=1, tokens=0)
    assert str(refusal.value) == text


def test_line_36_restated_a_prompt_that_would_use_up_all_tokens_is_refused_before_it_is_asked():
    with pytest.raises(BudgetExceeded, match=r"max_tokens \(10\) reached \(0 used, 10 more in the prompt\)"):
        Budget(max_tokens=10).check(Spent(), calls=1, tokens=10)
    Budget(max_tokens=10).check(Spent(), calls=1, tokens=9)


@given(limit=st.integers(0, 20), used=st.integers(0, 20), calls=st.integers(1, 20))
def test_line_36_restated_a_batch_cannot_overshoot(limit, used, calls):
    """Theirs checked once a batch, which could exceed the limit by all but one."""
    budget = Budget(max_llm_calls=limit)
    if used + calls <= limit:
        budget.check(Spent(llm_calls=used), calls, tokens=0)
    else:
        with pytest.raises(BudgetExceeded, match="budget_exceeded: max_llm_calls"):
            budget.check(Spent(llm_calls=used), calls, tokens=0)


def test_line_37_what_is_left():
    assert Budget(max_llm_calls=5).remaining(Spent(llm_calls=1)) == {"llm_calls": 4, "elapsed_ms": None, "tokens": None}
    assert Budget(max_tokens=100).remaining(Spent(tokens=1 + 1))["tokens"] == 98
    assert Budget(1, 1, 1).remaining(Spent(5, 5, 5)) == {"llm_calls": 0, "elapsed_ms": 0, "tokens": 0}


def test_line_38_stats_have_a_budget_only_if_one_is_set():
    assert "budget" not in Metrics().stats(None)["auto"]
    assert Metrics().stats(Budget(max_tokens=7))["auto"]["budget"] == {"max_tokens": 7}
