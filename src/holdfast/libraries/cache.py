"""The folder in which libraries lie: `<id>-<version>.js` or `.lua`, and nothing else in it counts."""

import hashlib
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.domain import LibraryUnknown, SourceFile
from holdfast.libraries.catalogue import CATALOGUE

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[._-]?[A-Za-z0-9+])*", re.ASCII)
_VERSIONED: Final = re.compile(r"(?P<id>.+?)-(?P<version>[0-9]+(?:\.[0-9]+)+(?:[-+.][0-9A-Za-z.+-]+)?)", re.ASCII)
_VERSIONS: Final[dict[str, str]] = {library["id"]: library["version"] for library in CATALOGUE}
_ENDINGS: Final = {"javascript": ".js", "lua": ".lua"}
_LONGEST: Final = 200
_LARGEST: Final = 16 << 20


class CachedLibrary(NamedTuple):
    """A library that is there."""

    id: str
    version: str
    filename: str
    bytes: int
    sha256: str


def check_library(name: str) -> str:
    """The name of a library, if it may be one: `<id>-<version>`, or only `<id>`, of letters, digits, dots, dashes and underscores.

    >>> check_library(" lodash-4.17.21 ")
    'lodash-4.17.21'
    """
    word = name.strip() if isinstance(name, str) else ""
    if len(word) > _LONGEST or not _NAME.fullmatch(word):
        raise LibraryUnknown(
            "a library is named as <id>-<version> or <id>: letters, digits, and dots, dashes or underscores between them"
        )
    return word


def checksum(text: str | bytes) -> str:
    """The SHA-256 of a library, in hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


class LibraryCache:
    """Libraries in a folder, which need not be there. It is read each time: what is put into it can be used at once."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def find(self, name: str, language: str | None = None) -> SourceFile | None:
        """The library of this name, for a language or for any; None if it is not there. Without a version: that of the catalogue."""
        stem = check_library(name)
        if not _VERSIONED.fullmatch(stem):
            if stem not in _VERSIONS:
                return None
            stem = f"{stem}-{_VERSIONS[stem]}"
        for ending in _ENDINGS.values() if language is None else [_ENDINGS[language]]:
            data = self._read(stem + ending)
            if data is not None:
                return SourceFile(stem + ending, data.decode("utf-8-sig"))
        return None

    def scan(self) -> list[CachedLibrary]:
        """All that is there, by name."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder))
        except OSError:
            return []
        found: list[CachedLibrary] = []
        for name in names:
            stem, ending = os.path.splitext(name)
            match = _VERSIONED.fullmatch(stem) if ending in _ENDINGS.values() and _NAME.fullmatch(stem) else None
            data = None if match is None else self._read(name)
            if match is not None and data is not None:
                found.append(CachedLibrary(match["id"], match["version"], name, len(data), checksum(data)))
        return found

    def _read(self, filename: str) -> bytes | None:
        """What is in a file, if it is text and not too large."""
        path = self.folder / filename
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST:
                return None
            data = path.read_bytes()
            data.decode()
        except (OSError, UnicodeDecodeError):
            return None
        return data
