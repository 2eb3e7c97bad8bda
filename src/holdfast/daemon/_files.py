"""Files that only their owner may read, locks on files, and files that are replaced whole."""

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
OTHERS: Final = 0o077
OTHERS_WRITE: Final = 0o022

if sys.platform == "win32":
    import msvcrt

    _FAR: Final = 1 << 30  # a locked byte cannot be read by others, and the pid shall be

    def _take(handle: int, wait: bool) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int, wait: bool) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def private_folder(folder: Path) -> Path:
    """The folder, made for its owner alone if it is not there. One that is there stays as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def own_folder(folder: Path) -> None:
    """Make a folder in the data directory for the user that the daemon runs as, also if root makes it. One that is there stays as it is."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _give_to_owner(handle, folder.parent)
        finally:
            os.close(handle)


def _give_to_owner(handle: int, folder: Path) -> None:
    """What root makes in another user's folder is for that user: a daemon must be able to read what an administrator's command wrote.

    Only ever for a file that this process has made: one that is there may be a name for any other.
    """
    if sys.platform != "win32" and os.geteuid() == 0:
        status = folder.stat()
        os.fchown(handle, status.st_uid, status.st_gid)


def take_lock(path: Path, *, wait: bool) -> int:
    """A handle on a file that nobody else has locked. The system gives the lock back when the process ends, however it ends.

    Raises BlockingIOError if somebody has it and this shall not wait, and another OSError if what is there cannot be a lock.
    """
    handle = _opened(path)
    try:
        _take(handle, wait)
    except BaseException as error:
        os.close(handle)
        if isinstance(error, PermissionError):  # what Windows says
            raise BlockingIOError from None
        raise
    return handle


def _opened(path: Path) -> int:
    """The file, made if it is not there. Never one elsewhere that a link names: it will be written to, perhaps by root."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE)
    except FileExistsError:
        handle = os.open(path, flags)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(handle)
            raise OSError(errno.EINVAL, "not a file of its own") from None
        return handle
    _give_to_owner(handle, path.parent)
    return handle


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One at a time, across processes."""
    handle = take_lock(path, wait=True)
    try:
        yield
    finally:
        os.close(handle)


def read_whole(path: Path, most: int) -> tuple[bytes, os.stat_result]:
    """A file and its status, both of the same open file: at most so many bytes, and one more if there are more.

    `OSError` for what is no file: nobody may keep us waiting with a pipe.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a file")
        return file.read(most + 1), status


def write_private(path: Path, content: bytes) -> None:
    """Replaces a file: readers see the old content or the new, also after a power failure, and nobody but the owner sees any."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            _give_to_owner(file.fileno(), path.parent)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if sys.platform != "win32":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
