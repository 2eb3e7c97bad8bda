"""Files that are replaced whole, folders that one process at a time changes, and how one tells that a file has not changed."""

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

_SETTLED_NS: Final = 2_000_000_000
"""How old a change must be before the file's times are relied on: some systems note them only so exactly."""
_PATIENCE_S: Final = 2.0
"""How long one who only reads waits for one who changes something."""
_LOOK_S: Final = 0.005
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_PLAIN: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Stamp(NamedTuple):
    """By this one tells that a file is still the one that was read."""

    device: int
    number: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_settled(stamps: Iterable[Stamp], now: int) -> bool:
    """Whether files that were read at this time would have other stamps if they had been written since."""
    return all(max(stamp.modified, stamp.changed) < now - _SETTLED_NS for stamp in stamps)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to be read. `OSError` for what is none: nobody may keep us waiting with a pipe."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError
        yield file


def read_whole(path: Path, most: int) -> bytes:
    """A file, or as much of it as may be and one byte more. `OSError` for what is none."""
    with opened(path) as file:
        return file.read(most + 1)


def write_whole(path: Path, content: bytes) -> None:
    """Whoever reads it finds it whole, or as it was. It is for everybody for whom a new file would be."""
    new = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def write_tree(folder: Path, files: Mapping[str, bytes]) -> str:
    """Write files into a new folder in a folder, by descriptors: what takes the place of a folder meanwhile is not written to.

    Gives the name of the new folder. `FileExistsError` if two of the files have one name here.
    """
    name = f".new-{secrets.token_hex(8)}"
    top = os.open(folder, _FOLDER)
    try:
        os.mkdir(name, 0o777, dir_fd=top)
        new = os.open(name, _FOLDER | _PLAIN, dir_fd=top)
        try:
            for path, data in files.items():
                _write_below(new, path.split("/"), data)
        finally:
            os.close(new)
    finally:
        os.close(top)
    return name


def _write_below(folder: int, names: list[str], data: bytes) -> None:
    name, *rest = names
    if not rest:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666, dir_fd=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o777, dir_fd=folder)
    below = os.open(name, _FOLDER | _PLAIN, dir_fd=folder)
    try:
        _write_below(below, rest, data)
    finally:
        os.close(below)


@contextlib.contextmanager
def held(file: Path) -> Iterator[None]:
    """While nobody else holds it. The file stays: were it removed, two might each hold "the" file."""
    import fcntl

    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_CREAT | _PLAIN, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def at_rest(file: Path) -> Iterator[None]:
    """While nobody holds it, or after a while. Nobody does if it is not there, or cannot be looked at."""
    import fcntl

    handle = -1
    until = time.monotonic() + _PATIENCE_S
    with contextlib.suppress(OSError):
        handle = os.open(file, os.O_RDONLY | _PLAIN)
    try:
        while handle >= 0 and time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_LOOK_S)
        yield
    finally:
        if handle >= 0:
            os.close(handle)
