"""Fair shares as a pure data structure: no owner gets more than its share while others wait, and nobody waits for ever."""

from collections import Counter
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain import Principal
from holdfast.runtime.fair import HALF_LIFE_S, FairQueue, Owner, Usage


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def owner(tenant: str, token: str = "t", session: int = 1) -> Owner:
    return Owner(Principal(tenant, token), UUID(int=session))


def test_use_is_forgotten_by_halves() -> None:
    clock = Clock()
    usage = Usage(clock)
    one = owner("a", "x", 7)
    usage.charge(one, 4)
    clock.now += HALF_LIFE_S
    usage.charge(owner("a", "y", 8), 1)
    assert round(usage.of("a"), 6) == 3
    assert round(usage.of(one.principal), 6) == 2
    assert round(usage.of(one.session), 6) == 2
    assert usage.of("b") == 0


def test_accounts_that_are_negligible_are_dropped() -> None:
    clock = Clock()
    usage = Usage(clock)
    for number in range(40_000):
        usage.charge(owner("a", "x", number), 0.01)
        clock.now += 0.01
    assert len(usage._used) < 20_000
    assert usage.of("a") > 0


def test_one_step_that_took_long_is_no_habit() -> None:
    usage, one = Usage(), owner("a")
    assert usage.expected(one) is None
    usage.note_step(one, 1.0)
    assert usage.expected(one) == 0
    usage.note_step(one, 1.0)
    assert usage.expected(one) == 1.0


PARTS = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(1, 6))


@given(st.lists(PARTS, max_size=60))
def test_all_that_is_put_comes_out_once(parts: list[tuple[str, str, int]]) -> None:
    queue: FairQueue[int] = FairQueue(Usage().of)
    for number, part in enumerate(parts):
        queue.push(owner(*part), number)
    assert len(queue) == len(parts)
    found = []
    while (one := queue.pop()) is not None:
        assert one[0] == owner(*parts[one[1]])
        found.append(one[1])
    assert sorted(found) == list(range(len(parts)))
    assert len(queue) == 0
    assert list(queue.principals()) == []


@given(st.lists(PARTS, min_size=1, max_size=40), st.integers(0, 39))
def test_an_item_can_be_removed_from_the_middle(parts: list[tuple[str, str, int]], which: int) -> None:
    which %= len(parts)
    queue: FairQueue[int] = FairQueue(Usage().of)
    for number, part in enumerate(parts):
        queue.push(owner(*part), number)
    assert queue.remove(lambda item: item == which) == (owner(*parts[which]), which)
    assert queue.remove(lambda item: item == which) is None
    assert sorted(queue.clear()) == [number for number in range(len(parts)) if number != which]
    assert queue.pop() is None


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.floats(0.001, 0.2), st.floats(0.001, 0.2))
def test_tenants_share_alike_however_many_sessions_they_have(ones: int, others: int, cost: float, other_cost: float) -> None:
    """Both tenants always have work. Each gets half of the time, to within one item and what is forgotten."""
    clock = Clock()
    usage = Usage(clock)
    queue: FairQueue[float] = FairQueue(usage.of, clock)
    for number in range(ones):
        queue.push(owner("a", "x", number), cost)
    for number in range(others):
        queue.push(owner("b", "x", 1000 + number), other_cost)
    got = {"a": 0.0, "b": 0.0}
    while sum(got.values()) < 200 * max(cost, other_cost):
        found = queue.pop()
        assert found is not None
        whose, seconds = found
        clock.now += seconds
        usage.charge(whose, seconds)
        got[whose.principal.tenant] += seconds
        queue.push(whose, seconds)
    assert 0.4 < got["a"] / (got["a"] + got["b"]) < 0.6


def test_tokens_of_a_tenant_share_alike_and_so_do_sessions_of_a_token() -> None:
    clock = Clock()
    usage = Usage(clock)
    queue: FairQueue[str] = FairQueue(usage.of, clock)
    queue.push(owner("a", "x", 1), "one")
    for number in range(2, 12):
        queue.push(owner("a", "y", number), "many")
    tokens: Counter[str] = Counter()
    sessions: Counter[UUID] = Counter()
    for _ in range(1000):
        found = queue.pop()
        assert found is not None
        clock.now += 0.01
        usage.charge(found[0], 0.01)
        tokens[found[1]] += 1
        sessions[found[0].session] += 1
        queue.push(*found)
    assert abs(tokens["one"] - 500) < 50
    assert min(sessions[UUID(int=number)] for number in range(2, 12)) > 30


def test_nobody_waits_for_ever() -> None:
    """A session that used much waits behind newcomers that used nothing, of which there is no end; but not for ever."""
    clock = Clock()
    usage = Usage(clock)
    queue: FairQueue[str] = FairQueue(usage.of, clock)
    heavy = owner("a", "x", 1)
    usage.charge(heavy, 10)
    queue.push(heavy, "heavy")
    for number in range(2, 100_000):
        queue.push(owner("a", "x", number), "new")
        found = queue.pop()
        assert found is not None
        clock.now += 0.01
        usage.charge(found[0], 0.01)
        if found[1] == "heavy":
            return
    raise AssertionError("it starved")


def test_whoever_is_not_admitted_is_passed_over() -> None:
    queue: FairQueue[int] = FairQueue(Usage().of)
    queue.push(owner("a"), 1)
    queue.push(owner("b"), 2)
    assert queue.pop(lambda principal: principal.tenant == "b") == (owner("b"), 2)
    assert queue.pop(lambda principal: principal.tenant == "b") is None
    assert queue.pop() == (owner("a"), 1)
