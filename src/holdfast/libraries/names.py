"""How libraries are named: `lodash`, `lodash@4`, `lodash-4.17.21`, `@scope/name@1.0.0`.

A library has an id and a version. `<id>-<version>` is its full name, and that of its file, where the slash of a scope is a plus: no name
leads to another folder. What comes after an `@` is a version, or a range of them.
"""

import re
from typing import Final, NamedTuple

from holdfast.domain import LibraryUnknown

LONGEST: Final = 200
ENDINGS: Final = {"javascript": ".js", "lua": ".lua"}
_WORD: Final = r"[A-Za-z0-9](?:(?:\.|[_-]{1,2})?[A-Za-z0-9])*"
_ID: Final = re.compile(rf"(?:@{_WORD}/)?{_WORD}", re.ASCII)
_TAIL: Final = r"(?:[-+][0-9A-Za-z]+(?:[.+-][0-9A-Za-z]+)*)?"
_VERSION: Final = re.compile(rf"[0-9]+(?:\.[0-9]+)*{_TAIL}", re.ASCII)
_DOTTED: Final = re.compile(rf"[0-9]+(?:\.[0-9]+)+{_TAIL}", re.ASCII)
_WHOLE: Final = re.compile(rf"[0-9]+\.[0-9]+\.[0-9]+{_TAIL}", re.ASCII)
_RANGE: Final = re.compile(r"(?P<sign>[~^]?)v?(?P<numbers>[0-9]+(?:\.[0-9]+){0,2})(?:\.[xX*])*", re.ASCII)
_ANY: Final = ("", "*", "x", "latest")
_NUMBERS: Final = 15
"""Digits in one number of a version: more are no version of anything."""


class Name(NamedTuple):
    """What somebody has written. `version` is an exact one, or a range, or nothing."""

    id: str
    version: str = ""
    exact: bool = False


def parse(given: str) -> Name:
    """What a name means. Raises `LibraryUnknown`.

    >>> parse("lodash@^4")
    Name(id='lodash', version='^4', exact=False)
    >>> parse("@scope/date-fns-2.30.0")
    Name(id='@scope/date-fns', version='2.30.0', exact=True)
    """
    word = given.strip() if isinstance(given, str) else ""
    if len(word) <= LONGEST:
        if word.startswith("@"):
            word = word.replace("+", "/", 1) if "/" not in word else word
        head, at, tail = word.rpartition("@")
        if head and at and _ID.fullmatch(head):
            if _is_version(tail, _WHOLE):
                return Name(head, tail, exact=True)
            if tail in _ANY or _is_range(tail):
                return Name(head, tail)
        elif not head:
            for dash in (place for place, letter in enumerate(word) if letter == "-"):
                if _ID.fullmatch(word[:dash]) and _is_version(word[dash + 1 :], _DOTTED):
                    return Name(word[:dash], word[dash + 1 :], exact=True)
            if _ID.fullmatch(word):
                return Name(word)
    raise LibraryUnknown(
        "a library is named as <id>, <id>@<version> or <id>-<version>: letters, digits, and dots, dashes or underscores between them"
    )


def check_library(name: str) -> str:
    """The name of a library, if it may be one.

    >>> check_library(" lodash-4.17.21 ")
    'lodash-4.17.21'
    """
    parse(name)
    return name.strip()


def check_new(library_id: str, version: str) -> None:
    """`LibraryUnknown` unless a library may be kept under this id and version. No two of them may have the same file."""
    name = parse(f"{library_id}-{version}") if version else Name("")
    split = name.id == library_id or (name.version == "" and name.id.rpartition("-")[0] == library_id)
    if not _ID.fullmatch(library_id) or not _is_version(version, _VERSION) or not split or library_id.startswith("@/"):
        raise LibraryUnknown(f"a library cannot have the name {library_id[:80]!r} and the version {version[:40]!r}")


def full_name(library_id: str, version: str) -> str:
    """As templates name it."""
    return f"{library_id}-{version}"


def split(full: str) -> tuple[str, str]:
    """The id and the version of a full name.

    >>> split("lodash-4.17.21"), split("x-1")
    (('lodash', '4.17.21'), ('x', '1'))
    """
    name = parse(full)
    if name.exact:
        return name.id, name.version
    library_id, _, version = name.id.rpartition("-")
    return (library_id, version) if library_id and version.isdecimal() else (name.id, "0")


def stem(library_id: str, version: str) -> str:
    """The name of its file, without the ending."""
    return full_name(library_id, version).replace("/", "+")


def filename(library_id: str, version: str, language: str) -> str:
    """The name of its file."""
    return stem(library_id, version) + ENDINGS[language]


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version is among those of a range: `4`, `4.17`, `4.x`, `^4.1.0`, `~4.17.0`, `*`, or one version.

    >>> [satisfies("4.17.21", wanted) for wanted in ("4", "^4.18", "~4.17.2", "4.17.21", "*", "3")]
    [True, False, True, True, True, False]
    """
    if version == wanted:
        return True
    numbers, release, _ = order(version)
    if not release:
        return False  # what comes before a release is meant only if it is named
    if wanted in _ANY:
        return True
    match = _RANGE.fullmatch(wanted)
    if match is None:
        return False
    least = [int(part) for part in match["numbers"].split(".")]
    fixed = len(least)
    if match["sign"] == "~":
        fixed = min(fixed, 2)
    elif match["sign"] == "^":
        fixed = next((place + 1 for place, part in enumerate(least) if part), fixed)
    return list(numbers[:fixed]) == least[:fixed] and list(numbers) >= least


def order(version: str) -> tuple[tuple[int, ...], bool, list[tuple[bool, int, str]]]:
    """By this, the newest version is the greatest."""
    head, dash, tail = version.partition("+")[0].partition("-")
    numbers = [int(part) for part in head.split(".")]
    parts = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in tail.split(".")] if dash else []
    return tuple(numbers + [0] * (3 - len(numbers))), not dash, parts


def _is_version(text: str, kind: "re.Pattern[str]") -> bool:
    return len(text) <= LONGEST and kind.fullmatch(text) is not None and not re.search(rf"[0-9]{{{_NUMBERS + 1},}}", text)


def _is_range(text: str) -> bool:
    return _RANGE.fullmatch(text) is not None and not re.search(rf"[0-9]{{{_NUMBERS + 1},}}", text)
