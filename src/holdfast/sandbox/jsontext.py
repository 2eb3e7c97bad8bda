"""JSON of untrusted size, read and written in pieces.

`json.loads` and `json.dumps` hold the interpreter lock from beginning to end: half a million values stop every other thread for a tenth
of a second. Here the size of a text is checked before any of it is decoded, and long texts are decoded and encoded in pieces that take
about a millisecond each. Short ones take the usual way.

A text is cut at commas and inside long strings (see `_scan`). A piece is made whole by opening and closing the brackets around it, and
is decoded; what it holds is then put at the end of what the pieces before it held. A key that stands for "the member that the last
piece began" is drawn at random, so no text can contain it.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from holdfast.domain import RepeatedKey
from holdfast.sandbox._scan import DEEPEST, KEY_TOO_LONG, PIECE_BYTES, TOO_DEEP, TOO_MANY_CUTS, UNBALANCED, Cut, scan

SHORT: Final = 1 << 16
"""Text of this length is decoded at once: in less than two milliseconds, whatever is in it."""
_SHORT_STRING: Final = 1 << 18
_SHORT_VALUES: Final = 2_000
_JOINED: Final = 4_096
_OPEN: Final = f'"{secrets.token_hex(16)}"'
_OPEN_KEY: Final = _OPEN[1:-1]
_CLOSING: Final = {ord("["): "]", ord("{"): "}"}
_decode: Final = json.JSONDecoder().decode
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_SCALARS: Final = frozenset((int, float, bool, type(None)))


class Bounds(NamedTuple):
    """The most that a text may hold: bytes, values (keys count as well), arrays and objects, nesting."""

    size: int = 16 << 20
    values: int = 500_000
    containers: int = 60_000
    depth: int = DEEPEST


DEFAULT: Final = Bounds()
ANY: Final = Bounds(1 << 31, 1 << 31, 1 << 31)
"""For text that was checked when it was written."""


class TooLarge(ValueError):
    """The text holds more than is allowed. The message is a phrase: what it has, and what it may have."""


def loads(
    text: bytes, bounds: Bounds = DEFAULT, *, decode: Callable[[str], Any] = _decode, errors: str = "surrogatepass"
) -> Any:
    """The value of a JSON text. Raises `TooLarge` before anything is decoded, and `ValueError` for what is no JSON.

    `decode` decodes one piece. The members of one object may come in several pieces.
    """
    if len(text) > bounds.size:
        raise TooLarge(f"{len(text)} bytes of JSON; at most {bounds.size} are taken")
    if len(text) <= SHORT:
        return decode(text.decode("utf-8", errors))
    found = scan(text, bounds.values, bounds.containers)
    _check(found.problem, found.values, found.containers, found.depth, bounds)
    if not found.cuts or found.problem == TOO_MANY_CUTS:
        return decode(text.decode("utf-8", errors))
    return _joined(_pieces(text, found.cuts, decode, errors))


def _check(problem: int, values: int, containers: int, depth: int, bounds: Bounds) -> None:
    if values > bounds.values:
        raise TooLarge(f"more than {bounds.values} values; at most {bounds.values} are taken")
    if containers > bounds.containers:
        raise TooLarge(f"more than {bounds.containers} arrays and objects; at most {bounds.containers} are taken")
    if problem == TOO_DEEP or depth > bounds.depth:
        raise TooLarge(f"values nested deeper than {bounds.depth}; at most {bounds.depth} levels are taken")
    if problem == KEY_TOO_LONG:
        raise TooLarge("a key of more than 4 MB; at most 4 MB are taken")
    if problem == UNBALANCED:
        raise ValueError("brackets that do not match")


def _pieces(text: bytes, cuts: list[Cut], decode: Callable[[str], Any], errors: str) -> Iterator[tuple[Cut | None, Any]]:
    """The values of the pieces, each with the cut before it."""
    before: Cut | None = None
    for cut in [*cuts, None]:
        start = 0 if before is None else before.place + (not before.in_string)  # a comma is left out
        end = len(text) if cut is None else cut.place
        yield before, decode(_opening(before) + text[start:end].decode("utf-8", errors) + _closing(cut))
        before = cut


def _opening(cut: Cut | None) -> str:
    if cut is None:
        return ""
    around = "".join("[" if kind == ord("[") else f"{{{_OPEN}:" for kind in cut.open[:-1])
    if cut.in_string:
        return around + ('["' if cut.open[-1] == ord("[") else f'{{{_OPEN}:"')
    return around + chr(cut.open[-1])


def _closing(cut: Cut | None) -> str:
    if cut is None:
        return ""
    return '"' * cut.in_string + "".join(_CLOSING[kind] for kind in reversed(cut.open))


def _joined(pieces: Iterator[tuple[Cut | None, Any]]) -> Any:
    _, whole = next(pieces)
    for cut, part in pieces:
        assert cut is not None  # only the first piece has none
        into = whole
        try:
            for _ in cut.open[:-1]:
                into, part = _descended(into, part)
            if cut.in_string:
                at = -1 if type(into) is list else next(reversed(into))
                into[at] += part.pop(0 if type(part) is list else _OPEN_KEY)
            elif not part:
                raise ValueError("a comma with nothing after it")
            _add(into, part)
        except (TypeError, IndexError, KeyError, StopIteration, AttributeError):
            raise ValueError("the text is no JSON") from None
    return whole


def _descended(into: Any, part: Any) -> tuple[Any, Any]:
    """The member that is still open, as it is so far and as it goes on. The members after it are added."""
    if type(into) is list:
        open_so_far, goes_on = into[-1], part.pop(0)
    else:
        open_so_far, goes_on = into[next(reversed(into))], part.pop(_OPEN_KEY)
    _add(into, part)
    return open_so_far, goes_on


def _add(into: Any, part: Any) -> None:
    if type(into) is list:
        into.extend(part)
    elif into.keys().isdisjoint(part):
        into.update(part)
    else:
        raise RepeatedKey(next(key for key in part if key in into))


def has(text: bytes, part: bytes) -> bool:
    """Whether a part is in a text that may be long."""
    if len(text) <= PIECE_BYTES:
        return part in text
    return any(part in text[start : start + PIECE_BYTES + len(part) - 1] for start in range(0, len(text), PIECE_BYTES))


# ---- writing -----------------------------------------------------------------------------------------------------------------------


def is_short(value: Any, most: int = _SHORT_VALUES) -> bool:
    """Whether a value is encoded in about a millisecond: it holds few values, and no long text."""
    left, stack = most, [value]
    while stack:
        one = stack.pop()
        kind = type(one)
        if kind is str or kind is bytes:
            left -= len(one) >> 7
        elif kind in _SCALARS:
            continue
        elif isinstance(one, list | tuple):
            left -= len(one)
            if left > 0:
                stack += one
        elif kind is dict:
            left -= len(one)
            if left > 0:
                stack += one.values()
        if left < 0:
            return False
    return True


def size_of(value: Any) -> int:
    """About as many characters as a value has as JSON."""
    size, stack = 0, [value]
    while stack:
        one = stack.pop()
        size += 8
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict):
            stack += one
            stack += one.values()
        elif isinstance(one, list | tuple):
            stack += one
    return size


def dumps(value: Any, encode: Callable[[Any], str] = _encode, *, sort: bool = False) -> str:
    """A value as JSON, by `encode`: at once if it is short, else in pieces. `sort` sorts the keys of pieces as `encode` does in each."""
    if is_short(value):
        return encode(value)
    out = _Parts()
    _write(value, encode, out.put, sort, 0)
    return out.text()


class _Parts:
    """Parts of a text, joined some at a time."""

    def __init__(self) -> None:
        self._few: list[str] = []
        self._many: list[str] = []

    def put(self, part: str) -> None:
        self._few.append(part)
        if len(self._few) >= _JOINED:
            self._many.append("".join(self._few))
            self._few.clear()

    def text(self) -> str:
        return "".join((*self._many, *self._few))


def _write(value: Any, encode: Callable[[Any], str], put: Callable[[str], Any], sort: bool, depth: int) -> None:
    kind = type(value)
    if isinstance(value, list | tuple):
        if depth > DEEPEST:
            raise ValueError(f"values nested deeper than {DEEPEST}")
        between = "["
        for start in range(0, len(value), _SHORT_VALUES):
            part = value[start : start + _SHORT_VALUES]
            if _SCALARS.issuperset(map(type, part)):
                put(between + encode(part)[1:-1])
                between = ","
                continue
            for item in part:
                put(between)
                _write(item, encode, put, sort, depth + 1)
                between = ","
        put("]" if value else "[]")
    elif kind is dict:
        if depth > DEEPEST:
            raise ValueError(f"values nested deeper than {DEEPEST}")
        between = "{"
        for key, item in sorted(value.items()) if sort else value.items():
            put(f"{between}{encode(key if type(key) is str else str(key))}:")
            _write(item, encode, put, sort, depth + 1)
            between = ","
        put("}" if value else "{}")
    elif kind is str and len(value) > _SHORT_STRING:
        put('"')
        for start in range(0, len(value), _SHORT_STRING):
            put(encode(value[start : start + _SHORT_STRING])[1:-1])
        put('"')
    else:
        put(encode(value))
