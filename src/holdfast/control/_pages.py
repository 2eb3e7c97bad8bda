"""Pages of records that may be large: read a few at a time, until they have as many characters as a page takes."""

from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.domain import Execution, Query
from holdfast.sandbox import jsontext
from holdfast.store import Page

Item = TypeVar("Item")

_PAGE: Final = 8 << 20
"""Characters of a page, roughly; it has one record at least."""
_FEW: Final = 20
_LARGE: Final = 1 << 16


def bounded(listed: Callable[..., Page[Item]], size: Callable[[Item], int], *, limit: int, after: str | None) -> Page[Item]:
    """The next page of a list. It may have fewer than `limit` records, although others come after them. Called on a thread."""
    found: list[Item] = []
    left, batch = _PAGE, _FEW
    while True:
        page = listed(limit=min(batch, limit - len(found)), after=after)
        found += page.items
        after = page.next
        used = sum(map(size, page.items))
        left -= used
        if after is None or left <= 0 or len(found) >= limit:
            return Page(found, after)
        # Many small ones at a time, few large ones.
        batch = max(1, batch // 2) if used > _LARGE * len(page.items) else batch * 2


def size_of_query(query: Query) -> int:
    answer = query.answer
    return jsontext.size_of(query.payload) + (0 if answer is None else jsontext.size_of(answer.as_dict()))


def size_of_execution(execution: Execution) -> int:
    given = (execution.input, execution.args, execution.env, execution.result, execution.error, execution.custom)
    return sum(map(jsontext.size_of, given))
