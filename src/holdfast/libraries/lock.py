"""The lock: what was added to the cache, where it came from, and what it must be.

One file beside the libraries. It is read without waiting, and replaced as a whole by whoever holds the system's lock on another file, which
stays: were it removed, two might each hold "the" file. If the folder goes away meanwhile, it is made again.
"""

import contextlib
import errno
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from holdfast.domain import LibraryUnknown
from holdfast.libraries import names
from holdfast.libraries._errors import LibraryNotAdded

LOCK: Final = "libraries.lock.json"
_HELD: Final = ".held"
_FORMAT: Final = 1
_LARGEST: Final = 64 << 20


class TooLarge(ValueError):
    """A file has more bytes than may be."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A library that was added. `integrity` is that of what was fetched or given, `sha256` that of the file that came of it."""

    id: str
    version: str
    language: str
    variable: str
    source: str
    integrity: str
    sha256: str
    packages: Mapping[str, Any] = field(default_factory=dict)
    """What npm has put together for it, as npm's own lock names it: versions and integrities, and no registry."""


def read_lock(folder: Path) -> dict[str, Locked]:
    """By the names of files. What cannot be read is as good as not there: the files then count as put there by hand."""
    try:
        given = json.loads(read_whole(folder / LOCK, _LARGEST))
        if given["format"] != _FORMAT:
            return {}
        found = {name: Locked(**entry) for name, entry in given["libraries"].items()}
        return {name: entry for name, entry in found.items() if _is_name_of(name, entry)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_name_of(filename: str, entry: Locked) -> bool:
    """Whatever somebody has written into the lock, it names files of its folder."""
    try:
        names.check_new(entry.id, entry.version)
        return filename == names.filename(entry.id, entry.version, entry.language)
    except LibraryUnknown:
        return False


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[dict[str, Locked]]:
    """Gives the lock to be changed, while nobody else changes it."""
    try:
        with _held(folder):
            locked = read_lock(folder)
            yield locked
            text = json.dumps(
                {"format": _FORMAT, "libraries": {name: asdict(locked[name]) for name in sorted(locked)}}, indent=1
            )
            write_whole(folder / LOCK, text.encode())
    except OSError as error:
        message = f"the folder of libraries cannot be changed: {error.strerror or 'it is in use'}"
        raise LibraryNotAdded(message, "CACHE_NOT_WRITABLE") from None


def read_whole(path: Path, most: int) -> bytes:
    """A file, opened once, so that what is looked at is what is read. `OSError` for what is no file, `TooLarge` for more bytes."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge
    return data


def write_whole(path: Path, content: bytes) -> None:
    """Whoever reads it finds it whole, or as it was."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / _HELD, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        _take(handle)
        yield
    finally:
        os.close(handle)


def _waiting() -> Callable[[int], None]:
    if sys.platform == "win32":
        import msvcrt

        return lambda handle: msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
    import fcntl

    return lambda handle: fcntl.flock(handle, fcntl.LOCK_EX)


_take: Final = _waiting()
