"""Words that callers give, as members of the enumerations they name."""

from enum import StrEnum
from typing import TypeVar

from holdfast.domain import InvalidValue

Word = TypeVar("Word", bound=StrEnum)


def named(words: type[Word], given: str) -> Word:
    """The member of this name, else `InvalidValue`.

    >>> from holdfast.domain import QueryState
    >>> named(QueryState, "open")
    <QueryState.OPEN: 'open'>
    """
    try:
        return words(given)
    except ValueError:
        raise InvalidValue(f"there is no {str(given)[:40]!r} here; there are {', '.join(words)}") from None
