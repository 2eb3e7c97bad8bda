"""Values that cross between Python and a guest: JSON, plus what each language needs to round-trip.

What JSON has no form for is tagged: an object whose key "$" names the kind. An ordinary object that has such a key of its own is
wrapped, so scripts cannot forge a tag.

    undefined          Undefined           bytes, typed arrays   bytes
    NaN, infinities    float               Map                   Map
    BigInt             BigInt              Set                   Set
    Date               Date                Error                 ErrorValue
    a circular place   Circular            function, symbol ...  Opaque

Python's own types are accepted where the meaning is plain: datetime as Date, set as Set, a dict whose keys are not all strings as
Map, an int beyond 53 bits as BigInt.
"""

import base64
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple, final

from holdfast.sandbox._errors import GuestFault, ValueRefused
from holdfast.sandbox.jsontext import DEFAULT, Bounds, TooLarge, has, loads

DEPTH_MAX: Final = 200
"""The deepest nesting that crosses; the guests have the same limit."""

_PIECE: Final = 1 << 18
"""Characters that are encoded or decoded at once; a multiple of 4, which is what three bytes are in base64."""
_PIECE_OF_BYTES: Final = _PIECE // 4 * 3
_SAFE_INTEGER: Final = 1 << 53
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@final
class UndefinedType:
    """The type of `Undefined`: a value that is not there, as against None, which is null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Undefined"

    def __bool__(self) -> bool:
        return False


Undefined: Final = UndefinedType()


class BigInt(int):
    """An integer that is a BigInt in JavaScript even when it is small."""

    def __repr__(self) -> str:
        return f"BigInt({int(self)})"


class Date(NamedTuple):
    """A moment as milliseconds since 1970 UTC; None for JavaScript's invalid date."""

    ms: float | None

    @property
    def datetime(self) -> datetime | None:
        """The moment as an aware datetime; None if invalid or out of Python's range."""
        try:
            return None if self.ms is None else _EPOCH + timedelta(milliseconds=self.ms)
        except OverflowError:
            return None


class Map(NamedTuple):
    """A map with keys of any kind, in insertion order."""

    entries: tuple[tuple[Any, Any], ...]


class Set(NamedTuple):
    """A set with members of any kind, in insertion order."""

    items: tuple[Any, ...]


class ErrorValue(NamedTuple):
    """An error object as a value."""

    name: str
    message: str
    stack: str = ""
    code: str | None = None
    cause: Any = None


class Circular(NamedTuple):
    """A place that refers back to one of its ancestors, by path."""

    path: str


class Opaque(NamedTuple):
    """Something that cannot leave the guest: a function, a symbol, a promise."""

    type: str
    preview: str


_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}


def encode(value: Any) -> bytes:
    """The wire form of a value. Raises `ValueRefused` for what has none."""
    if type(value) is str and len(value) <= _PIECE:
        return encode_basestring_ascii(value).encode()
    out: list[str] = []
    _encode(value, out.append, 0)
    return "".join(out).encode()


def _encode(value: Any, put: Any, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueRefused(f"a value is nested deeper than {DEPTH_MAX}")
    if value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif isinstance(value, str):
        if len(value) <= _PIECE:
            put(encode_basestring_ascii(value))
        else:
            _encode_pieces(value, put)
    elif isinstance(value, int):
        if isinstance(value, BigInt) or not -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
            put(f'{{"$":"bigint","v":"{_digits(value)}"}}')
        else:
            put(str(int(value)))
    elif isinstance(value, float):
        if math.isfinite(value):
            put(repr(float(value)))
        else:
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            put(f'{{"$":"number","v":"{name}"}}')
    elif isinstance(value, Mapping):
        _encode_mapping(value, put, depth)
    elif type(value) in _TAGGED:
        _TAGGED[type(value)](value, put, depth)
    elif isinstance(value, list | tuple):
        _encode_items(value, put, depth)
    elif isinstance(value, bytes | bytearray | memoryview):
        value = memoryview(value).cast("B")
        put('{"$":"bytes","v":"')
        for start in range(0, len(value), _PIECE_OF_BYTES):
            put(base64.b64encode(value[start : start + _PIECE_OF_BYTES]).decode())
        put('"}')
    elif isinstance(value, datetime):
        _encode_date(Date(_milliseconds(value)), put, depth)
    elif isinstance(value, set | frozenset):
        _encode_set(Set(tuple(value)), put, depth)
    elif value is Undefined:
        put('{"$":"undefined"}')
    else:
        raise ValueRefused(f"a {type(value).__name__} cannot cross into a guest")


def _encode_pieces(text: str, put: Any) -> None:
    """A long text, in pieces that do not hold the interpreter lock for long."""
    put('"')
    for start in range(0, len(text), _PIECE):
        put(encode_basestring_ascii(text[start : start + _PIECE])[1:-1])
    put('"')


def _digits(value: int) -> str:
    try:
        return str(int(value))
    except ValueError:  # Python refuses to print integers of thousands of digits
        raise ValueRefused("an integer has too many digits") from None


def _milliseconds(moment: datetime) -> float:
    if moment.tzinfo is None:
        raise ValueRefused("a datetime without a time zone has no meaning in a guest")
    return (moment - _EPOCH) / timedelta(milliseconds=1)


def _encode_items(items: Any, put: Any, depth: int) -> None:
    separator = "["
    for item in items:
        put(separator)
        _encode(item, put, depth + 1)
        separator = ","
    put("]" if separator == "," else "[]")


def _encode_mapping(value: Mapping[Any, Any], put: Any, depth: int) -> None:
    if not all(isinstance(key, str) for key in value):
        _encode_map(Map(tuple(value.items())), put, depth)
        return
    wrapped = "$" in value
    put('{"$":"object","v":{' if wrapped else "{")
    separator = ""
    for key, item in value.items():
        put(separator + encode_basestring_ascii(key) + ":")
        _encode(item, put, depth + 1)
        separator = ","
    put("}}" if wrapped else "}")


def _encode_date(value: Date, put: Any, depth: int) -> None:
    put('{"$":"date","v":')
    _encode(value.ms, put, depth)
    put("}")


def _encode_map(value: Map, put: Any, depth: int) -> None:
    put('{"$":"map","v":')
    _encode_items(value.entries, put, depth)
    put("}")


def _encode_set(value: Set, put: Any, depth: int) -> None:
    put('{"$":"set","v":')
    _encode_items(value.items, put, depth)
    put("}")


def _encode_error(value: ErrorValue, put: Any, depth: int) -> None:
    fields = {"name": value.name, "message": value.message, "stack": value.stack}
    if value.code is not None:
        fields["code"] = value.code
    if value.cause is not None:
        fields["cause"] = value.cause
    put('{"$":"error","v":')
    _encode_mapping(fields, put, depth)
    put("}")


def _refuse(value: Any, put: Any, depth: int) -> None:
    raise ValueRefused(f"{type(value).__name__.lower()} values cannot cross back into a guest")


_TAGGED: Final[dict[type, Any]] = {
    Date: _encode_date,
    Map: _encode_map,
    Set: _encode_set,
    ErrorValue: _encode_error,
    Circular: _refuse,
    Opaque: _refuse,
}


def decode(text: bytes | str, bounds: Bounds = DEFAULT) -> Any:
    """The Python value of a wire form. `ValueRefused` for what holds more than it may, `GuestFault` for what is no such form."""
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    try:
        found = loads(text, bounds)
        return revive(found) if has(text, b'"$"') else found
    except (TooLarge, RecursionError) as error:
        raise ValueRefused(f"a value has {error}" if isinstance(error, TooLarge) else "a value is nested too deep") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise GuestFault("the guest sent what is no value") from None


def revive(value: Any) -> Any:
    """Parsed JSON with its tags turned into Python values."""
    if isinstance(value, list):
        return [revive(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = value.get("$")
    if tag is None:
        return {key: revive(item) for key, item in value.items()}
    return _REVIVED[tag](value)


def _revive_error(value: dict[str, Any]) -> ErrorValue:
    fields = value["v"]
    return ErrorValue(
        fields["name"], fields["message"], fields.get("stack", ""), fields.get("code"), revive(fields.get("cause"))
    )


def _revive_bigint(tagged: dict[str, Any]) -> BigInt | Opaque:
    try:
        return BigInt(tagged["v"])
    except ValueError:  # Python refuses to read integers of thousands of digits
        return Opaque("bigint", tagged["v"][:64] + "...")


def _revive_bytes(tagged: dict[str, Any]) -> bytes:
    text = tagged["v"]
    pieces = (base64.b64decode(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE))
    return b"".join(pieces)


_REVIVED: Final[dict[str, Any]] = {
    "undefined": lambda tagged: Undefined,
    "number": lambda tagged: _NUMBERS[tagged["v"]],
    "bigint": _revive_bigint,
    "date": lambda tagged: Date(tagged["v"]),
    "bytes": _revive_bytes,
    "map": lambda tagged: Map(tuple((revive(key), revive(item)) for key, item in tagged["v"])),
    "set": lambda tagged: Set(tuple(revive(item) for item in tagged["v"])),
    "error": _revive_error,
    "circular": lambda tagged: Circular(tagged["v"]),
    "opaque": lambda tagged: Opaque(tagged["type"], tagged["v"]),
    "object": lambda tagged: {key: revive(item) for key, item in tagged["v"].items()},
}
