"""What callers give, checked before anything is done with it. Nonsense is an `InvalidValue` that says what is wanted."""

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from holdfast.domain import InvalidValue
from holdfast.runtime import checked

_LARGEST_PAGE: Final = 10_000
_LARGEST_NUMBER: Final = (1 << 53) - 1
_LONGEST_NAME: Final = 1_000

Word = TypeVar("Word", bound=StrEnum)
Part = TypeVar("Part")


def number(value: int, what: str, least: int = 0, most: int = _LARGEST_NUMBER) -> int:
    """A whole number within its limits."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidValue(f"{what} must be a whole number from {least} to {most}")
    return value


def some_number(value: int | None, what: str, least: int = 0) -> int | None:
    return None if value is None else number(value, what, least)


def page(limit: int, after: str | None) -> dict[str, Any]:
    """Which part of a list is wanted, as stores take it."""
    if after is not None and not isinstance(after, str):
        raise InvalidValue("after must be the `next` of a page")
    return {"limit": number(limit, "limit", 1, _LARGEST_PAGE), "after": after}


def word(kind: type[Word], given: str) -> Word:
    """The member of a vocabulary, by its name.

    >>> from holdfast.domain import QueryState
    >>> word(QueryState, "open")
    <QueryState.OPEN: 'open'>
    """
    if not isinstance(given, str):  # whose repr may be anything, or fail
        raise InvalidValue(f"this must be one of {', '.join(kind)}")
    try:
        return kind(given)
    except ValueError:
        raise InvalidValue(f"there is no {given[:40]!r} here; there are {', '.join(kind)}") from None


def words(kind: type[Word], values: Iterable[Any], what: str) -> list[Word]:
    """Words of a vocabulary."""
    return [word(kind, value) for value in parts(object, values, what)]


def parts(kind: type[Part], values: Iterable[Part], what: str) -> tuple[Part, ...]:
    """Several of one kind."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidValue(f"{what} must be a list")
    found = tuple(values)
    for value in found:
        if not isinstance(value, kind):
            raise InvalidValue(f"{what} must be a list of {kind.__name__}")
    return found


def paths(values: Iterable[str | os.PathLike[str]], what: str) -> tuple[str, ...]:
    """Paths of files or folders."""
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        raise InvalidValue(f"{what} must be a list of paths")
    found = tuple(values)
    if not all(isinstance(value, str | os.PathLike) for value in found):
        raise InvalidValue(f"{what} must be a list of paths")
    return tuple(os.fspath(value) for value in found)


def some(kind: type[Part], value: Part | None, what: str) -> Part | None:
    """One of a kind, or None."""
    if value is not None and not isinstance(value, kind):
        raise InvalidValue(f"{what} must be a {kind.__name__}, or None")
    return value


def name(value: str | None, what: str = "name") -> str | None:
    """A name that may be left out."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_NAME or _is_broken(value):
        raise InvalidValue(f"{what} must be text of 1 to {_LONGEST_NAME} characters, and not only blanks")
    return value


def _is_broken(text: str) -> bool:
    """Whether it has half of a surrogate pair, or a NUL: no terminal shows these, and no database keeps both."""
    try:
        return b"\0" in text.encode()
    except UnicodeEncodeError:
        return True


def mapping(value: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    """A JSON object; None is an empty one. A copy: the caller may go on changing what was given."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidValue(f"{what} must be an object, with text for keys")
    plain: dict[str, Any] = checked(dict(value), what)
    return plain
