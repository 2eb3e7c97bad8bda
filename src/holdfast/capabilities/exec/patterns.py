"""Patterns of arguments: regular expressions without what makes matching slow.

A pattern comes from whoever writes a template, an argument from a script. Python's own expressions can be made to take years by a few
letters of the latter. So a pattern is read here, into the places where a letter may stand and those that may follow each, and an argument
is matched in one pass over its letters, whatever the pattern is. It always matches the whole of an argument.
"""

from typing import Final, NamedTuple, TypeAlias

LONGEST: Final = 500
"""Letters of a pattern."""

_MOST_PLACES: Final = 500
_MOST_PARTS: Final = 5_000
_MOST_TIMES: Final = 200
_CLASSES: Final = {
    "d": [("0", "9")],
    "w": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
    "s": [("\t", "\r"), (" ", " ")],
}
_SPECIAL: Final = frozenset("\\.[](){}*+?|^$")


class BadPattern(ValueError):
    """A pattern that is not one. It says what is wrong."""


class _Letter(NamedTuple):
    """One letter: in one of some ranges, or in none of them."""

    ranges: tuple[tuple[str, str], ...]
    others: bool = False

    def has(self, letter: str) -> bool:
        return any(first <= letter <= last for first, last in self.ranges) is not self.others


class _All(NamedTuple):
    parts: "tuple[_Part, ...]"


class _Either(NamedTuple):
    parts: "tuple[_Part, ...]"


class _Times(NamedTuple):
    part: "_Part"
    least: int
    most: int | None


_Part: TypeAlias = _Letter | _All | _Either | _Times


class _Piece(NamedTuple):
    """What a part has become: whether nothing is enough for it, and the places that it can begin and end with, as bits."""

    empty: bool
    first: int
    last: int


class Pattern:
    """A pattern that is ready to match.

    >>> Pattern("v[0-9]+(-rc)?").matches("v12-rc"), Pattern("(a|a)*b").matches("a" * 5_000), Pattern("log").matches("logs")
    (True, False, False)
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise BadPattern(f"must have at most {LONGEST} letters")
        self._letters: list[_Letter] = []
        self._follow: list[int] = []
        self._parts = 0
        self._whole = self._build(_Reader(text).read())

    def matches(self, argument: str) -> bool:
        """Whether all of it is what the pattern says."""
        if not argument:
            return self._whole.empty
        at, next_ = 0, self._whole.first
        known: dict[str, int] = {}
        for letter in argument:
            if letter not in known:
                known[letter] = sum(1 << place for place, one in enumerate(self._letters) if one.has(letter))
            at, next_ = next_ & known[letter], 0
            if not at:
                return False
            left = at
            while left:
                lowest = left & -left
                next_ |= self._follow[lowest.bit_length() - 1]
                left ^= lowest
        return bool(at & self._whole.last)

    def _build(self, part: _Part) -> _Piece:
        self._parts += 1
        if self._parts > _MOST_PARTS or len(self._letters) > _MOST_PLACES:
            raise BadPattern("is too large, as it repeats too much")
        match part:
            case _Letter():
                self._letters.append(part)
                self._follow.append(0)
                place = 1 << len(self._letters) - 1
                return _Piece(False, place, place)
            case _All(parts):
                return self._in_turn(parts)
            case _Either(parts):
                built = [self._build(one) for one in parts]
                first, last = 0, 0
                for one in built:
                    first, last = first | one.first, last | one.last
                return _Piece(any(one.empty for one in built), first, last)
            case _Times(one, least, most):
                return self._repeated(one, least, most)

    def _in_turn(self, parts: tuple[_Part, ...]) -> _Piece:
        whole = _Piece(True, 0, 0)
        for part in parts:
            whole = self._joined(whole, self._build(part))
        return whole

    def _joined(self, before: _Piece, after: _Piece) -> _Piece:
        self._link(before.last, after.first)
        first = before.first | (after.first if before.empty else 0)
        last = after.last | (before.last if after.empty else 0)
        return _Piece(before.empty and after.empty, first, last)

    def _repeated(self, part: _Part, least: int, most: int | None) -> _Piece:
        whole = _Piece(True, 0, 0)
        for _ in range(least):
            whole = self._joined(whole, self._build(part))
        if most is None:
            again = self._build(part)
            self._link(again.last, again.first)
            return self._joined(whole, again._replace(empty=True))
        for _ in range(most - least):
            whole = self._joined(whole, self._build(part)._replace(empty=True))
        return whole

    def _link(self, last: int, first: int) -> None:
        for place in range(last.bit_length()):
            if last >> place & 1:
                self._follow[place] |= first


class _Reader:
    """Reads the text of a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def read(self) -> _Part:
        part = self._either()
        if self._at < len(self._text):  # only a bracket stops it before the end
            raise BadPattern("has a ) too many")
        return part

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        letter = self._next()
        if not letter:
            raise BadPattern("ends in the middle")
        self._at += 1
        return letter

    def _either(self) -> _Part:
        parts = [self._all()]
        while self._next() == "|":
            self._at += 1
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else _Either(tuple(parts))

    def _all(self) -> _Part:
        parts: list[_Part] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._times(self._one()))
        return _All(tuple(parts))

    def _times(self, part: _Part) -> _Part:
        letter = self._next()
        if letter not in ("*", "+", "?", "{"):
            return part
        self._at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(letter) or self._counts()
        if self._next() in ("*", "+", "?", "{"):
            raise BadPattern("says twice in a row how often something is repeated")
        return _Times(part, least, most)

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : end].partition(",") if end >= 0 else ("", "", "")
        if not least.isascii() or not least.isdigit() or (most and not (most.isascii() and most.isdigit())):
            raise BadPattern("must have {n}, {n,} or {n,m} after a {; a brace itself is written \\{")
        self._at = end + 1
        low, high = int(least[:4]), (int(most[:4]) if most else None if comma else int(least[:4]))
        if max(low, high or 0) > _MOST_TIMES or (high is not None and high < low):
            raise BadPattern(f"repeats at most {_MOST_TIMES} times, and the larger number is the second")
        return low, high

    def _one(self) -> _Part:
        letter = self._take()
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._class()
        if letter == ".":
            return _Letter((), others=True)
        if letter == "\\":
            return _Letter(tuple(self._escaped()))
        if letter in "^$":
            raise BadPattern(
                f"must not have {letter}: it always matches a whole argument; the sign itself is written \\{letter}"
            )
        if letter in _SPECIAL:
            raise BadPattern(f"has {letter} where it means nothing; the sign itself is written \\{letter}")
        return _Letter(((letter, letter),))

    def _group(self) -> _Part:
        if self._next() == "?":
            if not self._text.startswith("?:", self._at):
                raise BadPattern("has no groups but (...) and (?:...)")
            self._at += 2
        part = self._either()
        if self._next() != ")":
            raise BadPattern("lacks a )")
        self._at += 1
        return part

    def _class(self) -> _Part:
        others = self._next() == "^"
        self._at += others
        ranges: list[tuple[str, str]] = []
        while (letter := self._take()) != "]" or not ranges:
            found = self._escaped() if letter == "\\" else [(letter, letter)]
            if letter in "[]":
                raise BadPattern(f"must have \\{letter} for a {letter} within [...]")
            if len(found) == 1 and self._next() == "-" and not self._text.startswith("-]", self._at):
                self._at += 1
                last = self._take()
                end = self._escaped() if last == "\\" else [(last, last)]
                if len(end) > 1 or end[0][0] < found[0][0]:
                    raise BadPattern("has a range that goes backwards")
                found = [(found[0][0], end[0][0])]
            ranges += found
        return _Letter(tuple(ranges), others)

    def _escaped(self) -> list[tuple[str, str]]:
        letter = self._take()
        if letter in _CLASSES:
            return _CLASSES[letter]
        if letter.isalnum():
            raise BadPattern(f"has no \\{letter}; there is \\d, \\w and \\s")
        return [(letter, letter)]
