"""Values of PostgreSQL: how arguments are sent, and how columns are read."""

import json
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from holdfast.sandbox import HostError

_BOOL, _BYTEA, _INT2, _INT4, _INT8, _FLOAT8 = 16, 17, 21, 23, 20, 701


class Parameter(NamedTuple):
    """An argument as the server takes it: the number of its type (0: whatever is wanted there), whether it is binary, and its bytes."""

    kind: int
    binary: int
    data: bytes | None


def parameter(value: Any) -> Parameter:
    """Return an argument in the form in which the server takes it."""
    if value is None:
        return Parameter(0, 0, None)
    if isinstance(value, bool):
        return Parameter(_BOOL, 0, b"t" if value else b"f")
    if isinstance(value, int):
        kind = next((kind for kind, bits in ((_INT2, 15), (_INT4, 31)) if -(1 << bits) <= value < 1 << bits), _INT8)
        return Parameter(kind, 0, str(value).encode())
    if isinstance(value, float):
        return Parameter(_FLOAT8, 0, (repr(value) if math.isfinite(value) else str(value)).encode())
    if isinstance(value, bytes):
        return Parameter(_BYTEA, 1, value)
    if "\0" in value:
        raise HostError("PostgreSQL has no text with NUL in it", code="INVALID_ARGUMENT")
    return Parameter(0, 0, str(value).encode())


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    _BOOL: lambda data: data == b"t",
    _INT2: int,
    _INT4: int,
    _INT8: int,
    26: int,  # oid
    700: float,
    _FLOAT8: float,
    _BYTEA: lambda data: bytes.fromhex(data[2:].decode()),
    114: json.loads,
    3802: json.loads,  # jsonb
}
"""By the type's number. Values of all other types are text, as PostgreSQL writes them."""
_WEIGHTS: Final[dict[Callable[[bytes], Any], int]] = {json.loads: 4}


def reader(kind: int) -> Callable[[bytes], Any]:
    """Return the function that reads values of a type."""
    return _READERS.get(kind, _text)


def weight(read: Callable[[bytes], Any]) -> int:
    """Return how much larger than its text a value is in memory."""
    return _WEIGHTS.get(read, 1)
