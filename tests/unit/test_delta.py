"""Differences between memories: they apply, pack and compose."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.sandbox._delta import Delta, apply, compose, difference
from holdfast.sandbox._pages import PAGE, runs_of

PAGES = 4


@st.composite
def memories(draw):
    memory = bytearray(PAGES * PAGE)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(memory) - 8))
        memory[at : at + 8] = draw(st.binary(min_size=8, max_size=8))
    return bytes(memory)


def page(memory, number):
    return memory[number * PAGE : (number + 1) * PAGE]


def between(before, after):
    return difference((n, page(before, n), page(after, n)) for n in range(PAGES))


def applied(memory, delta):
    pages = apply(delta, lambda number: page(memory, number))
    return b"".join(pages.get(n, page(memory, n)) for n in range(PAGES))


@given(memories(), memories())
def test_a_delta_leads_from_one_memory_to_the_other_and_back(before, after):
    delta = Delta.unpack(between(before, after).pack())
    assert applied(before, delta) == after
    assert applied(after, delta) == before


@given(memories(), memories(), memories())
def test_deltas_compose(first, second, third):
    assert compose(between(first, second), between(second, third)) == between(first, third)


@given(st.sets(st.integers(0, 60)))
def test_runs_cover_each_page_once(numbers):
    covered = [first + i for first, count in runs_of(sorted(numbers)) for i in range(count)]
    assert covered == sorted(numbers)
