"""The folder in which libraries lie: `<id>-<version>.js` or `.lua`, and a lock that says what those are that were added.

A file that is not in the lock was put there by hand: it is taken as it is. One that is in the lock is taken only if it is what was added.
Nothing here waits for others, and the folder may be deleted at any time.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from holdfast.domain import LibraryNotCached, LibraryUnknown, SourceFile
from holdfast.libraries import names
from holdfast.libraries.catalogue import CATALOGUE
from holdfast.libraries.lock import Locked, TooLarge, changing, read_lock, read_whole, write_whole

LARGEST: Final = 16 << 20
_LANGUAGES: Final = {ending: language for language, ending in names.ENDINGS.items()}
_KNOWN: Final[dict[str, str]] = {library["id"]: library["version"] for library in CATALOGUE}
_TRIES: Final = 5
State = Literal["ok", "by hand", "changed", "missing"]


class CachedLibrary(NamedTuple):
    """A library that is there."""

    id: str
    version: str
    filename: str
    bytes: int
    sha256: str


class Verified(NamedTuple):
    """A library of the lock or of the folder, and how it is."""

    id: str
    version: str
    filename: str
    state: State


class _File(NamedTuple):
    """A file by its name, or an entry of the lock."""

    id: str
    version: str
    filename: str


def checksum(text: str | bytes) -> str:
    """The SHA-256 of a library, in hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


class LibraryCache:
    """Libraries in a folder, which need not be there. It is read each time: what is put into it can be used at once."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    # ---- by name -------------------------------------------------------------------------------------------------------------------

    def resolve(self, name: str, language: str | None = None) -> str:
        """The full name of a library, `<id>-<version>`. Without an exact version: that of the catalogue, or the newest that is there.

        Raises `LibraryUnknown`, and `LibraryNotCached` if nothing says which version is meant.
        """
        wanted = names.parse(name)
        files = [file for file in self._files() if language in (None, _language(file.filename))]
        for file in files:
            if (file.id, file.version) == (wanted.id, wanted.version) or _stem(file) == name.strip().replace("/", "+"):
                return names.full_name(file.id, file.version)
        if wanted.exact:
            return names.full_name(wanted.id, wanted.version)
        if not wanted.version and not any(file.id == wanted.id for file in files) and wanted.id not in _KNOWN:
            head, _, tail = wanted.id.rpartition("-")
            if head and tail.isdecimal():  # lodash-4
                wanted = names.Name(head, tail)
        known = _KNOWN.get(wanted.id, "")
        found = {file.version for file in files if file.id == wanted.id and names.satisfies(file.version, wanted.version)}
        if known and names.satisfies(known, wanted.version) and (known in found or not found):
            return names.full_name(wanted.id, known)
        if not found:
            raise _not_cached([name.strip()], [name.strip()])
        return names.full_name(wanted.id, max(found, key=names.order))

    def find(self, name: str, language: str | None = None) -> SourceFile | None:
        """The library of this name, for a language or for any; None if it is not there, or is not what was added."""
        try:
            stem = self.resolve(name, language).replace("/", "+")
        except LibraryNotCached:
            return None
        for ending in names.ENDINGS.values() if language is None else [names.ENDINGS[language]]:
            data = self._checked(stem + ending)
            if data is not None:
                return SourceFile(stem + ending, data.decode("utf-8-sig"))
        return None

    def load(self, wanted: Sequence[str], language: str) -> list[SourceFile]:
        """The libraries of a template, in their order, each once. Raises `LibraryNotCached` with the command that adds them."""
        found = {name: self.find(name, language) for name in wanted}
        missing = [name for name, file in found.items() if file is None]
        if missing:
            raise _not_cached(missing, ["@".join(names.split(name)) for name in missing])
        return list(dict.fromkeys(file for file in found.values() if file is not None))

    def locked(self, name: str) -> Locked | None:
        """What the lock says about a library, by its full name."""
        stem = name.replace("/", "+")
        locked = read_lock(self.folder)
        return next((locked[stem + ending] for ending in _LANGUAGES if stem + ending in locked), None)

    def has(self, entry: Locked) -> bool:
        """Whether a library is there as it was added."""
        return self._checked(names.filename(entry.id, entry.version, entry.language)) is not None

    # ---- all of it -----------------------------------------------------------------------------------------------------------------

    def scan(self) -> list[CachedLibrary]:
        """All that is there, by name."""
        found: list[CachedLibrary] = []
        for file in self._files():
            data = self._read(file.filename)
            if data is not None:
                found.append(CachedLibrary(*file, len(data), checksum(data)))
        return found

    def verify(self) -> list[Verified]:
        """How each library is that was added or is there."""
        found: list[Verified] = []
        locked = read_lock(self.folder)
        known = {name: _File(entry.id, entry.version, name) for name, entry in locked.items()}
        for name, file in sorted((known | {file.filename: file for file in self._files()}).items()):
            data = self._read(name)
            state: State = "changed"
            if name not in locked:
                if data is None:
                    continue
                state = "by hand"
            elif not os.path.lexists(self.folder / name):
                state = "missing"
            elif data is not None and checksum(data) == locked[name].sha256:
                state = "ok"
            found.append(Verified(*file, state))
        return found

    # ---- changes -------------------------------------------------------------------------------------------------------------------

    def put(self, entry: Locked, data: bytes) -> str:
        """Keeps a library. Gives the name of its file."""
        names.check_new(entry.id, entry.version)
        filename = names.filename(entry.id, entry.version, entry.language)
        with changing(self.folder) as locked:
            write_whole(self.folder / filename, data)
            locked[filename] = entry
        return filename

    def remove(self, name: str) -> list[str]:
        """Removes a library: the version that is named, or all. Gives the names of the files; none if nothing was there."""
        wanted = names.parse(name)
        with changing(self.folder) as locked:
            known = [_File(entry.id, entry.version, filename) for filename, entry in locked.items()]
            gone = sorted({file.filename for file in (*known, *self._files()) if is_named(wanted, file.id, file.version)})
            for filename in gone:
                locked.pop(filename, None)
                (self.folder / filename).unlink(missing_ok=True)
        return gone

    # ---- files ---------------------------------------------------------------------------------------------------------------------

    def _files(self) -> Iterator[_File]:
        """What lies there, by name: of an entry of the lock what the lock says, of others what the name says."""
        try:
            found = sorted(entry.name for entry in os.scandir(self.folder))
        except OSError:
            return
        locked = read_lock(self.folder)
        for filename in found:
            stem, ending = os.path.splitext(filename)
            if filename in locked:
                yield _File(locked[filename].id, locked[filename].version, filename)
            elif ending in _LANGUAGES and (name := _of_stem(stem)) is not None:
                yield _File(name.id, name.version, filename)

    def _checked(self, filename: str) -> bytes | None:
        """What is in a file, if it is what was added. Whoever adds it again writes the file before the lock."""
        for _ in range(_TRIES):
            data, entry = self._read(filename), read_lock(self.folder).get(filename)
            if data is None or entry is None or checksum(data) == entry.sha256:
                return data
        return None

    def _read(self, filename: str) -> bytes | None:
        """What is in a file, if it is text and not too large."""
        try:
            data = read_whole(self.folder / filename, LARGEST)
            data.decode()
        except (OSError, TooLarge, UnicodeDecodeError):
            return None
        return data


def is_named(wanted: names.Name, library_id: str, version: str) -> bool:
    """Whether somebody who says this means this library."""
    if wanted.exact or library_id == wanted.id:
        return library_id == wanted.id and names.satisfies(version, wanted.version or version)
    return not wanted.version and names.full_name(library_id, version) == wanted.id


def is_meant(word: str, known: str) -> bool:
    """Whether somebody who says this means the library of a template that has this full name.

    >>> is_meant("lodash@4", "lodash-4.17.21"), is_meant("lodash-3.0.0", "lodash-4.17.21")
    (True, False)
    """
    try:
        return word.strip() == known or is_named(names.parse(word), *names.split(known))
    except LibraryUnknown:
        return False


def _not_cached(missing: Sequence[str], wanted: Sequence[str]) -> LibraryNotCached:
    """What to say about libraries that are not there, or are not what was added."""
    command = f"holdfast libs add {' '.join(wanted)}"
    message = f"failed to load libraries: not in the cache: {', '.join(missing)}. Add with: {command}"
    return LibraryNotCached(message).with_details(libraries=list(missing), command=command)


def _of_stem(stem: str) -> names.Name | None:
    """What the name of a file says, if it has a version."""
    try:
        name = names.parse(stem)
    except LibraryUnknown:
        return None
    return name if name.exact and names.stem(name.id, name.version) == stem else None


def _stem(file: _File) -> str:
    return names.stem(file.id, file.version)


def _language(filename: str) -> str:
    return _LANGUAGES[os.path.splitext(filename)[1]]
