"""Differences between memories: they apply, pack and compose, and are the same however they are found."""

import ctypes
import mmap
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sandbox import _memory
from holdfast.sandbox._delta import Delta, apply, compose, difference
from holdfast.sandbox._pages import PAGE, MemoryFile, PageMap, can_map, is_page_of, page_of, runs_of, unpack_runs

PAGES = 4
MANY = 600
"""Pages that take the module of `_xor` more than two calls."""


@st.composite
def memories(draw):
    memory = bytearray(PAGES * PAGE)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(memory) - 8))
        memory[at : at + 8] = draw(st.binary(min_size=8, max_size=8))
    return bytes(memory)


def page(memory, number):
    return memory[number * PAGE : (number + 1) * PAGE]


def pages(memory):
    return [page(memory, number) for number in range(PAGES)]


def between(before, after):
    return difference(list(range(PAGES)), pages(before), pages(after))


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


@given(memories(), memories())
def test_the_engine_finds_the_same_difference_and_applies_it(engine, before, after):
    numbers = [3, 4, 70_000, 70_002]
    delta = engine.xor.difference(numbers, pages(before), pages(after))
    assert delta == difference(numbers, pages(before), pages(after))
    old = dict(zip(numbers, pages(before), strict=True))
    assert engine.xor.apply(delta, old.__getitem__) == apply(delta, old.__getitem__)


@pytest.mark.parametrize("step", [1, 7])
def test_the_engine_works_on_more_pages_than_it_takes_at_once(engine, step):
    numbers = list(range(5, 5 + MANY * 3, 3))
    before = [bytes([n % 251]) * PAGE for n in numbers]
    after = [old if n % step else bytes([(n * 3 + 1) % 256]) * 300 + old[300:] for n, old in enumerate(before)]
    delta = engine.xor.difference(numbers, before, after)
    assert delta == difference(numbers, before, after)
    old = dict(zip(numbers, before, strict=True))
    assert old | engine.xor.apply(delta, old.__getitem__) == dict(zip(numbers, after, strict=True))


def test_nothing_differs_from_nothing(engine):
    assert engine.xor.difference([], [], []) == Delta({}, b"")
    assert engine.xor.apply(Delta({}, b""), pytest.fail) == {}
    assert Delta.unpack(Delta({}, b"").pack()).end == 0


def test_pages_of_others_do_not_show(engine):
    engine.xor.difference([1, 2], [b"s" * PAGE] * 2, [b"t" * PAGE] * 2)
    with pytest.raises(ValueError, match="as many"):
        engine.xor.difference([1, 2], [bytes(PAGE)], [bytes(PAGE)])


def test_threads_share_the_engine_and_see_only_their_own_pages(engine):
    def work(number):
        before, after = [bytes([number]) * PAGE] * 70, [bytes([number + 100]) * PAGE] * 70
        expected = difference(list(range(70)), before, after)
        return all(engine.xor.difference(list(range(70)), before, after) == expected for _ in range(100))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@given(st.sets(st.integers(0, 60)))
def test_runs_cover_each_page_once(numbers):
    covered = [first + i for first, count in runs_of(sorted(numbers)) for i in range(count)]
    assert covered == sorted(numbers)


def test_a_page_beyond_the_content_is_zero():
    content = b"a" * PAGE + bytes(PAGE)
    for number in range(4):
        for candidate in (b"a" * PAGE, bytes(PAGE), b"b" * PAGE):
            assert is_page_of(content, number, candidate) == (page_of(content, number) == candidate)


needs_page_map = pytest.mark.skipif(not can_map(), reason="there is no page map")


def plain_page_map():
    """A page map as before Linux 6.7, where the kernel does not look through it for us."""
    page_map = PageMap()
    page_map._scans = False
    return page_map


@needs_page_map
@pytest.mark.parametrize("written", [[], [0], [2, 3, 4, 1999], list(range(0, 2000, 2)), list(range(2000))], ids=len)
@pytest.mark.parametrize("make", [PageMap, plain_page_map])
def test_the_page_map_names_the_pages_that_were_written(make, written):
    with mmap.mmap(-1, 2000 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        file = MemoryFile(2000 * PAGE, iter([(0, b"x" * 20 * PAGE)]))
        file.map_over(base)
        assert memory[:PAGE] == b"x" * PAGE  # to read is not to write
        for number in written:
            memory[number * PAGE + 7] = 1
        page_map = make()
        assert unpack_runs(page_map.private_runs(base, 2000 * PAGE), base) == written
        page_map.close()


@needs_page_map
def test_images_are_the_same_with_and_without_a_scan(engine, javascript, monkeypatch):
    def images():
        with javascript.create(seed=1) as sandbox:
            for source in ("var list = []", "list.push('x'.repeat(5000))", "list = new Array(500000).fill(1); 0", "list = 0"):
                sandbox.evaluate(source, now=0.0)
                yield sandbox.freeze().pages

    scanned = list(images())
    monkeypatch.setattr(engine, "page_map", plain_page_map())
    assert list(images()) == scanned


@pytest.mark.parametrize("before", [0, 2])
def test_a_freeze_that_is_interrupted_loses_nothing(javascript, monkeypatch, before):
    def interrupted(*args):
        raise KeyboardInterrupt

    with javascript.create(seed=1) as sandbox:
        for number in range(before):
            sandbox.evaluate(f"var kept = {number}")
            sandbox.freeze()
        sandbox.evaluate("var kept = 'changed'")
        with monkeypatch.context() as patched:
            patched.setattr(_memory, "Image", interrupted)
            with pytest.raises(KeyboardInterrupt):
                sandbox.freeze()
        image, content = sandbox.freeze(), sandbox.content()
        assert b"".join(map(image.page, range(image.size // PAGE))) == content
