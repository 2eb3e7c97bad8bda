"""What is in a package: all of its files, read at once.

What is checked is what is used: a content is text in memory, with a hash, and nothing that happens to the folder afterwards changes it.

Files are reached from the package's folder name by name, and never through a link; a link is looked at, and what it leads to is reached in
the same way. So nothing outside can be read, whatever others do to the folder meanwhile.

To read it again costs only a look at each file, unless one has changed. One that was written just before it was read might have been
written once more without another time on it, so that is not relied on.
"""

import hashlib
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast.strategies._errors import PackageInvalid
from holdfast.strategies._files import Stamp, is_settled
from holdfast.strategies.names import DEEPEST, INIT, check_part, is_left_out

MOST_FILES: Final = 1_000
LARGEST_FILE: Final = 1 << 20
LARGEST: Final = 16 << 20
"""Bytes of all files."""
_MOST_ENTRIES: Final = 10_000
"""Names that are looked at, also those that are left out."""
_KEPT: Final = 64 << 20
"""Bytes of packages that stay in memory."""

_IS_SAFE: Final = bool(getattr(os, "O_NOFOLLOW", 0)) and os.open in os.supports_dir_fd
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW
_FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | _NOFOLLOW


@dataclass(frozen=True, slots=True)
class Content:
    """The files of a package by their names, which are relative to it, and sorted."""

    files: Mapping[str, bytes]
    hashes: Mapping[str, str]
    """The SHA-256 of each."""
    sha256: str
    """Of the names and hashes: that of what `sha256sum` would print for all of them."""

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "Content":
        """`PackageInvalid` if that is too much for a package."""
        if len(files) > MOST_FILES:
            raise PackageInvalid(f"a package has at most {MOST_FILES} files")
        if sum(map(len, files.values())) > LARGEST:
            raise PackageInvalid(f"a package has at most {LARGEST >> 20} MB in all")
        for name, data in files.items():
            if len(data) > LARGEST_FILE:
                raise PackageInvalid(f"{name} is too large: a file of a package has at most {LARGEST_FILE >> 20} MB")
            if name.count("/") > DEEPEST:
                raise PackageInvalid(f"a package has at most {DEEPEST} folders in each other")
        hashes = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
        return cls({name: files[name] for name in hashes}, hashes, hash_of(hashes))

    @property
    def languages(self) -> tuple[str, ...]:
        """Those that it has an init file for."""
        return tuple(language for language, file in INIT.items() if file in self.files)

    def text(self, name: str) -> str:
        """A file as text."""
        try:
            return self.files[name].decode("utf-8-sig")
        except UnicodeDecodeError:
            raise PackageInvalid(f"{name} is not text in UTF-8") from None


def hash_of(hashes: Mapping[str, str]) -> str:
    """The hash of a package, from those of its files."""
    return hashlib.sha256("".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode()).hexdigest()


def read_content(root: Path) -> Content:
    """All that is in a package. `PackageInvalid` if that is none, or too much."""
    return _read(root)[0]


class ContentCache:
    """Contents by folder, as long as nothing has changed there. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Path, tuple[Mapping[str, Stamp], Content, int]] = OrderedDict()
        self._size = 0

    def read(self, root: Path) -> Content:
        with self._lock:
            known = self._known.get(root)
        if known is not None and _stamps(root) == known[0]:
            return known[1]
        begun = time.time_ns()
        content, stamps = _read(root)
        with self._lock:
            self._forget(root)
            if is_settled(stamps.values(), begun):
                size = sum(map(len, content.files.values()))
                self._known[root] = stamps, content, size
                self._size += size
                while self._size > _KEPT:
                    self._forget(next(iter(self._known)))
        return content

    def _forget(self, root: Path) -> None:
        known = self._known.pop(root, None)
        self._size -= 0 if known is None else known[2]


def _read(root: Path) -> tuple[Content, Mapping[str, Stamp]]:
    with _Tree(root) as tree:
        files: dict[str, bytes] = {}
        stamps: dict[str, Stamp] = {}
        total = 0
        for name in tree.files:
            files[name], stamps[name] = tree.read(name)
            total += len(files[name])
            if total > LARGEST:
                raise PackageInvalid(f"a package has at most {LARGEST >> 20} MB in all")
    return Content.of(files), stamps


def _stamps(root: Path) -> Mapping[str, Stamp]:
    try:
        with _Tree(root) as tree:
            return {name: tree.look(name) for name in tree.files}
    except PackageInvalid:
        return {}


class _Tree:
    """The folder of a package, open, and where the files are that are in it."""

    def __init__(self, root: Path) -> None:
        if not _IS_SAFE:
            raise PackageInvalid("this system has no safe way to read a package")
        try:
            self._real = os.path.realpath(root)  # it raises if what it looks at is taken away
            self._root = os.open(self._real, _FOLDER)
        except OSError:
            raise PackageInvalid("the folder of the package is not there, or cannot be read") from None
        self._seen = 0
        self.files: dict[str, Stamp | str] = {}
        """By name, in no order. Of a link it is known only where it leads, by a path in the package that goes through no link."""

    def __enter__(self) -> "_Tree":
        try:
            self._walk(self._root, "", 0)
        except BaseException as error:
            os.close(self._root)
            if isinstance(error, OSError):
                raise PackageInvalid("the package cannot be read, or changes while it is read") from None
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._root)

    def _walk(self, folder: int, before: str, depth: int) -> None:
        if depth > DEEPEST:
            raise PackageInvalid(f"a package has at most {DEEPEST} folders in each other")
        with os.scandir(folder) as entries:
            found = [entry.name for entry in islice(entries, _MOST_ENTRIES + 1 - self._seen)]
        self._seen += len(found)
        if self._seen > _MOST_ENTRIES:
            raise PackageInvalid(f"a package has at most {MOST_FILES} files")
        for name in found:
            if is_left_out(name):
                continue
            path = before + check_part(name)
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(there.st_mode):
                below = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    self._walk(below, f"{path}/", depth + 1)
                finally:
                    os.close(below)
                continue
            if not stat.S_ISREG(there.st_mode) and not stat.S_ISLNK(there.st_mode):
                raise PackageInvalid(f"{path} is neither a file nor a folder")
            self.files[path] = self._led_to(path) if stat.S_ISLNK(there.st_mode) else Stamp.of(there)
            if len(self.files) > MOST_FILES:
                raise PackageInvalid(f"a package has at most {MOST_FILES} files")

    def _led_to(self, path: str) -> str:
        """Where a link leads, by name alone: it is opened like any other file."""
        real = os.path.realpath(os.path.join(self._real, path))
        if not real.startswith(f"{self._real.rstrip('/')}/"):
            raise PackageInvalid(f"{path} is a link that leads out of the package")
        return os.path.relpath(real, self._real)

    def _open(self, name: str) -> tuple[int, os.stat_result]:
        known = self.files[name]
        *folders, last = (known if isinstance(known, str) else name).split("/")
        at = self._root
        try:
            for folder in folders:
                below = os.open(folder, _FOLDER, dir_fd=at)
                if at != self._root:
                    os.close(at)
                at = below
            handle = os.open(last, _FILE, dir_fd=at)
        except OSError:
            raise PackageInvalid(f"{name} cannot be read") from None
        finally:
            if at != self._root:
                os.close(at)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            raise PackageInvalid(f"{name} is no file")
        return handle, found

    def look(self, name: str) -> Stamp:
        known = self.files[name]
        if isinstance(known, Stamp):
            return known
        handle, found = self._open(name)
        os.close(handle)
        return Stamp.of(found)

    def read(self, name: str) -> tuple[bytes, Stamp]:
        handle, found = self._open(name)
        try:
            with os.fdopen(handle, "rb") as file:
                data = file.read(
                    min(found.st_size, LARGEST_FILE) + 1
                )  # not more: room for all that is asked for is made at once
        except OSError:
            raise PackageInvalid(f"{name} cannot be read") from None
        if len(data) > LARGEST_FILE:
            raise PackageInvalid(f"{name} is too large: a file of a package has at most {LARGEST_FILE >> 20} MB")
        if len(data) != found.st_size:  # a part of it, or of two versions of it
            raise PackageInvalid(f"{name} changes while it is read")
        return data, Stamp.of(found)
