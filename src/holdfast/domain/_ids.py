"""Ids: UUIDs for what has an identity of its own, and short ones for queries, which are unique in their session."""

import re
from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

from holdfast.domain._errors import InvalidId

_NUMBER: Final = "[1-9][0-9]{0,17}"
_QUERY: Final = re.compile(rf"q-({_NUMBER})", re.ASCII)
_OF_BRANCH: Final = re.compile(rf"f((?:-{_NUMBER}-(?:0|[1-9][0-9]{{0,8}})){{1,64}})-({_NUMBER})", re.ASCII)


def new_id() -> UUID:
    """A fresh random id."""
    return uuid4()


def parse_id(text: "str | UUID", what: str = "session") -> UUID:
    """The id in a text: dashed, in braces, as a URN, or 32 hexadecimal digits, with space around it or not.

    >>> str(parse_id(" {3F2504E0-4F89-41D3-9A0C-0305E82C3301} "))
    '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
    """
    if isinstance(text, UUID):
        return text
    if isinstance(text, str):
        trimmed = text.strip()
        if _SHAPES.fullmatch(trimmed):
            return UUID(trimmed.lower())
    raise InvalidId(f"this is not the id of {'an' if what[:1] in 'aeiou' else 'a'} {what}: {_shown(text)}")


_DASHED: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SHAPES: Final = re.compile(rf"(urn:uuid:)?{_DASHED}|\{{{_DASHED}\}}|[0-9a-f]{{32}}", re.ASCII | re.IGNORECASE)


def query_id(number: int) -> str:
    """The id of a session's query: `q-1` is the first that it asked, and no number is ever used twice in a session."""
    return f"q-{number}"


def parse_query_id(text: "str | int") -> int:
    """The number in a query's id.

    >>> parse_query_id("q-12")
    12
    """
    if type(text) is int and text > 0:
        return text
    match = _QUERY.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise InvalidId(f"this is not the id of a query: {_shown(text)}; they look like q-1")
    return int(match[1])


def branch_query_id(path: Sequence[tuple[int, int]], number: int) -> str:
    """The id by which a session calls a query of one of its branches: the forks on the way there, with the branch of each, and its number.

    >>> branch_query_id([(3, 0), (5, 1)], 9), branch_query_id([], 9)
    ('f-3-0-5-1-9', 'q-9')
    """
    return "-".join(["f", *[f"{query}-{index}" for query, index in path], str(number)]) if path else query_id(number)


def parse_any_query_id(text: "str | int") -> tuple[tuple[tuple[int, int], ...], int]:
    """The way to a branch and the number of its query. That of a session's own query is empty.

    >>> parse_any_query_id("f-3-0-5-1-9"), parse_any_query_id("q-9")
    ((((3, 0), (5, 1)), 9), ((), 9))
    """
    match = _OF_BRANCH.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return (), parse_query_id(text)
    steps = [int(part) for part in match[1].split("-")[1:]]
    return tuple(zip(steps[::2], steps[1::2], strict=True)), int(match[2])


def _shown(value: object) -> str:
    return (
        repr(value)[:80] if isinstance(value, str | int) else f"a {type(value).__name__}"
    )  # what others say of themselves may be anything
