"""Columns of values as PostgreSQL's arrays, in the binary form in which they go over the wire.

A group of commits is some sixty columns. psycopg would look at every value to find out what it is; here that is known, and a column
takes a tenth of the time.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

_HEAD: Final = Struct("!iiiii").pack
_EMPTY: Final = Struct("!iii").pack
_LENGTH: Final = Struct("!i").pack
_INTEGER: Final = Struct("!iq").pack
_NULL: Final = _LENGTH(-1)

_INT8: Final = 20
_TEXT: Final = 25
_UUID: Final = 2950
_BYTEA: Final = 17


def integers(values: Sequence[int | None]) -> bytes:
    """A `bigint[]`."""
    if _is_void(values):
        return _void(_INT8, len(values))
    cells = [_NULL if value is None else _INTEGER(8, value) for value in values]
    return _HEAD(1, 1, _INT8, len(cells), 1) + b"".join(cells)


def texts(values: Sequence[str | None]) -> bytes:
    """A `text[]`."""
    if _is_void(values):
        return _void(_TEXT, len(values))
    return _strings(_TEXT, [None if value is None else value.encode() for value in values])


def uuids(values: Sequence[bytes | None]) -> bytes:
    """A `uuid[]`, from their 16 bytes."""
    return _void(_UUID, len(values)) if _is_void(values) else _strings(_UUID, values)


def blobs(values: Sequence[bytes | None]) -> bytes:
    """A `bytea[]`."""
    return _void(_BYTEA, len(values)) if _is_void(values) else _strings(_BYTEA, values)


def _is_void(values: Sequence[object]) -> bool:
    """Whether there is nothing, or nothing but NULL: in most commits, a third of the columns."""
    return not values or (values[0] is None and values.count(None) == len(values))


@lru_cache(1024)
def _void(oid: int, count: int) -> bytes:
    return _HEAD(1, 1, oid, count, 1) + count * _NULL if count else _EMPTY(0, 0, oid)


def _strings(oid: int, values: Sequence[bytes | None]) -> bytes:
    cells = [_HEAD(1, 1, oid, len(values), 1)]
    for value in values:
        if value is None:
            cells.append(_NULL)
        else:
            cells.append(_LENGTH(len(value)))
            cells.append(value)
    return b"".join(cells)
