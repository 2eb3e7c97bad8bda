"""Files that no script reaches, whatever a grant says: the data directory, the store's file, tokens.

Theory of operation
-------------------
Whoever opens Holdfast registers what it keeps: folders with all that is in them, and single files. The registry holds identities (device
and inode), not names, because a file has as many names as there are links, mounts, descriptors and spellings of it. Whoever opens
something for a script compares the identity of what is open, so that no rename between a check and an open helps.

The registry belongs to the process, not to one Holdfast: closing any descriptor of a store's file drops the locks that SQLite holds on
it in this process, so the scripts of one Holdfast must not open the store of another one either.

Identities are read again when a registered folder has changed. What lies deeper in a registered folder is covered by the walk, which
enters none. A process reads its own memory and environment as files in `/proc`: nothing of that file system is opened either.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Self

from holdfast.domain import InvalidPath

MESSAGE: Final = "Holdfast keeps its own files here, which no script reaches"
WORKTREES: Final = "worktrees"
"""The one folder of a data directory that scripts may have a root in."""
SIDE_FILES: Final = ("-journal", "-wal", "-shm")
"""How files end that SQLite keeps beside a database."""

_SETTLED_NS: Final = 50_000_000
"""How old a change of a folder must be before its time of change is relied on: file systems note it only so exactly."""
_PINNED: Final = getattr(os, "O_PATH", 0) and os.O_PATH | os.O_CLOEXEC
"""How a place is held open: in a way that never touches the locks of the file. 0: this system has none."""


class Identity(NamedTuple):
    """Which file or folder something is, whatever its names are."""

    device: int
    number: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        return cls(found.st_dev, found.st_ino)


class Place:
    """A folder with all that is in it, or a file and what SQLite keeps beside it.

    The place itself is held open as soon as it is there, so that its inode is not given to another file: it stays known if it is moved.
    """

    def __init__(self, path: str, allowed: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.is_folder = bool(allowed) or os.path.isdir(path)
        self.allowed = allowed
        """Names of folders in it that scripts may have a root in."""
        self._held = -1
        self._is_closed = False
        self._holding = threading.Lock()
        self._hold()
        self.folder = path if self.is_folder else os.path.dirname(path)
        """The folder whose changes say that identities have to be read again."""
        self._stamp: tuple[int, ...] = ()
        self._root: frozenset[Identity] = frozenset()
        self._inside: frozenset[Identity] = frozenset()

    def close(self) -> None:
        """Holds it open no longer. For places that are registered no more, at which others may still be looking."""
        with self._holding:
            self._is_closed = True
            held, self._held = self._held, -1
            if held >= 0:
                os.close(held)

    def _hold(self) -> os.stat_result | None:
        """Hold what is at the path, unless something is held that still has a name. Return the status of what is held."""
        with self._holding:
            found = os.fstat(self._held) if self._held >= 0 else None
            if _PINNED and not self._is_closed and (found is None or not found.st_nlink):
                with contextlib.suppress(OSError):
                    fresh = os.open(self.path, _PINNED | os.O_NOFOLLOW)
                    if self._held >= 0:
                        os.close(self._held)
                    self._held, found = fresh, os.fstat(fresh)
            return found

    def paths(self) -> list[str]:
        """The registered path, and the one that what is held has now. Raises `FileNotFoundError` if that cannot be told."""
        found = self._hold()
        if found is None or not found.st_nlink or _is_at(self.path, found):
            return [self.path]
        with self._holding:
            moved = os.readlink(f"/proc/self/fd/{self._held}") if self._held >= 0 else self.path
        if not _is_at(moved, found):
            raise FileNotFoundError
        return [self.path, moved]

    def root(self) -> frozenset[Identity]:
        """The place itself: where it is now, and where it was found first."""
        self.identities()
        return self._root

    def identities(self) -> frozenset[Identity]:
        """The place itself, and what is directly in it or beside it."""
        try:
            found = os.stat(self.folder)
        except OSError:  # moved away: it is known by what is held open
            return self._inside
        stamp = found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
        if stamp != self._stamp:
            now = time.time_ns()
            held = self._hold()
            self._root = frozenset([*([Identity.of(held)] if held else []), *_identities([self.path])])
            self._inside = self._root.union(*(_identities(self._names(path)) for path in self._found_paths()))
            is_moved = held is not None and not _is_at(self.path, held)  # then changes of the folder at the path do not say all
            self._stamp = stamp if max(stamp[2:]) < now - _SETTLED_NS and not is_moved else ()
        return self._inside

    def _found_paths(self) -> list[str]:
        try:
            return self.paths()
        except OSError:
            return [self.path]

    def _names(self, path: str) -> list[str]:
        if not self.is_folder:
            return [path + end for end in SIDE_FILES]
        try:
            with os.scandir(path) as entries:
                return [entry.path for entry in entries if entry.name not in self.allowed]
        except OSError:
            return []


def _is_at(path: str, found: os.stat_result) -> bool:
    """Whether a path, without following a link at its end, is that of a file or folder with this status."""
    try:
        return Identity.of(os.lstat(path)) == Identity.of(found)
    except (OSError, ValueError):
        return False


def _identities(paths: Iterable[str]) -> Iterator[Identity]:
    """What is there under some names, and what they lead to if they are links."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield Identity.of(os.lstat(path))
            yield Identity.of(os.stat(path))


class _Registry:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.places: tuple[Place, ...] = ()
        self._union: tuple[list[frozenset[Identity]], frozenset[Identity]] = [], frozenset()
        """The sets of all places, and what they are together. Replaced as a whole, so that no thread sees a half of it."""

    def identities(self) -> frozenset[Identity]:
        parts = [place.identities() for place in self.places]
        if len(parts) == 1:
            return parts[0]
        known, union = self._union
        if len(parts) == len(known) and all(one is other for one, other in zip(parts, known, strict=True)):
            return union
        union = frozenset().union(*parts)
        self._union = parts, union
        return union

    def add(self, places: Iterable[Place]) -> Callable[[], None]:
        added = list(places)
        with self._lock:
            self.places = (*self.places, *added)

        def remove() -> None:
            with self._lock:
                self.places = tuple(place for place in self.places if not any(place is one for one in added))
            for place in added:
                place.close()

        return remove


_registry: Final = _Registry()


def _proc() -> int | None:
    """The device number of `/proc`, if that is what it is."""
    try:
        found = os.stat("/proc")
        return found.st_dev if found.st_ino == 1 and found.st_dev != os.stat("/").st_dev else None
    except OSError:
        return None


_PROC: Final = _proc()


def protect(
    *, data_dir: str | os.PathLike[str] | None = None, paths: Iterable[str | os.PathLike[str]] = ()
) -> Callable[[], None]:
    """Register a data directory, and other folders and files. Return the function that ends it.

    A path that is not a folder is taken for a file, which need not be there yet.
    """
    folders = [] if data_dir is None else [*_names([data_dir])]
    others = [path for path in _names(paths) if _can_be_kept(path) and not any(_covers(folder, path) for folder in folders)]
    return _registry.add([*(Place(path, frozenset({WORKTREES})) for path in folders), *map(Place, others)])


def _names(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """Where files really are, and the links by which they are named: Holdfast finds nothing if one of those is gone."""
    for path in map(os.path.abspath, paths):
        real = os.path.realpath(path)
        link = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        yield from dict.fromkeys((real, link))


def _covers(data_dir: str, path: str) -> bool:
    """Whether a path is protected by being in a data directory."""
    return path.startswith(f"{data_dir}/") and not path.startswith(f"{data_dir}/{WORKTREES}/")


def _can_be_kept(path: str) -> bool:
    """Whether a path is that of a folder or a file, or of nothing yet. A configuration may be read from /dev/null."""
    return not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path)


def places() -> tuple[Place, ...]:
    """All that is registered now."""
    return _registry.places


def forbidden() -> frozenset[Identity]:
    """The identities of all that is registered now."""
    return _registry.identities()


def is_protected(found: os.stat_result, known: frozenset[Identity] | None = None) -> bool:
    """Whether something that was opened, or looked at, is not for scripts. `known` is what `forbidden` gave."""
    return found.st_dev == _PROC or Identity.of(found) in (forbidden() if known is None else known)


def check(found: os.stat_result, known: frozenset[Identity] | None = None) -> None:
    """Raise `InvalidPath` for what is not for scripts. `found` is the status of an open descriptor, or the check proves nothing."""
    if is_protected(found, known):
        raise InvalidPath(MESSAGE)


def may_pass(found: os.stat_result, name: str) -> bool:
    """Whether the way to a root may lead through a folder, to a folder of this name in it."""
    identity = Identity.of(found)
    inside = [place for place in _registry.places if identity in place.identities()]
    return found.st_dev != _PROC and all(identity in place.root() and name in place.allowed for place in inside)
