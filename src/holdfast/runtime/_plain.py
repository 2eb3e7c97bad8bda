"""Script values as plain JSON, the way JSON.stringify would have it, and JSON from callers, checked."""

import base64
import json
from typing import Any, Final

from holdfast.domain import InvalidValue
from holdfast.sandbox import BigInt, Date, ErrorValue, Map, Set, Undefined, jsontext

LARGEST: Final = 16 << 20
_SHORT: Final = LARGEST // 16
"""Text of this length is not too large, whatever is in it."""
_encode: Final = json.JSONEncoder(allow_nan=False).encode
_SIMPLE: Final = (str, int, float, bool, type(None))


def plain(value: Any) -> Any:
    """A value of a script as JSON. What JSON lacks becomes its nearest relative; undefined members of objects are left out."""
    kind = type(value)
    if kind is dict:
        return {str(key): plain(item) for key, item in value.items() if item is not Undefined}
    if kind is list:
        return [plain(item) for item in value]
    if kind is float:
        return value if value - value == 0 else None
    if kind in _SIMPLE:
        return value
    if kind is BigInt:
        return str(int(value))  # without its name
    if kind is Date:
        return None if value.datetime is None else value.datetime.isoformat()
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is Map:
        return [[plain(key), plain(item)] for key, item in value.entries]
    if kind is Set:
        return [plain(item) for item in value.items]
    if kind is ErrorValue:
        return {"name": value.name, "message": value.message}
    return None  # circular, or opaque


def text_of(value: Any) -> str:
    """A plain value as JSON."""
    return jsontext.dumps(value, json.dumps)


def checked(value: Any, what: str) -> Any:
    """A caller's value, if it is JSON and not too large, as a store would give it back: a tuple is a list, a key is text."""
    if type(value) is str and len(value) < _SHORT:
        return value
    try:
        text = jsontext.dumps(value, _encode)
    except (TypeError, ValueError, RecursionError):
        raise InvalidValue(f"{what} must be JSON") from None
    if len(text) > LARGEST:
        raise InvalidValue(f"{what} has {len(text)} bytes; at most {LARGEST} are taken")
    return value if type(value) in _SIMPLE else _read(text, what)


def _read(text: str, what: str) -> Any:
    try:
        return jsontext.loads(text.encode(), jsontext.Bounds(size=LARGEST))
    except jsontext.TooLarge as error:
        raise InvalidValue(f"{what} has {error}") from None
