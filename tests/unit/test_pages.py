"""Pages of large records: none is left out, none comes twice, and a page does not hold all of them."""

from holdfast.control import _pages
from holdfast.control._pages import bounded
from holdfast.store import Page


def _listed(sizes: list[int], reads: list[int]):
    def listed(*, limit: int, after: str | None) -> Page[int]:
        begin = int(after or 0)
        found = sizes[begin : begin + limit]
        reads.append(len(found))
        end = begin + len(found)
        return Page(found, str(end) if end < len(sizes) else None)

    return listed


def test_all_of_a_list_comes_in_pages_that_have_a_bound() -> None:
    sizes = [10] * 300 + [3_000_000] * 30 + [10] * 50 + [9_000_000] * 3
    found: list[int] = []
    after: str | None = None
    while True:
        page = bounded(_listed(sizes, []), int, limit=1000, after=after)
        found += page.items
        assert page.items
        assert sum(page.items) <= _pages._PAGE + 20 * 9_000_000
        after = page.next
        if after is None:
            break
    assert found == sizes


def test_small_records_take_few_reads() -> None:
    reads: list[int] = []
    page = bounded(_listed([10] * 2000, reads), int, limit=1000, after=None)
    assert (len(page.items), page.next) == (1000, "1000")
    assert len(reads) <= 6
