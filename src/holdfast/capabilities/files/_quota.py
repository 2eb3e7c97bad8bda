"""How much may lie below a root: bytes and files.

What counts is what is there, whoever put it there, and by whatever way. So nothing that a script does, no rename and no restart, makes
room that is not there. To count takes a look at every file. So it is done once, and then again when a part of the room that there was
has been used: near the limit, at each write.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterator
from typing import Final, NamedTuple

from holdfast.capabilities.files._walk import DEEPEST, is_unfinished, open_below
from holdfast.capabilities.files.protected import Identity
from holdfast.sandbox import HostError

_PART: Final = 16
"""A part of the room is used without another count: one in so many."""
_CLOSED: Final = (FileNotFoundError, NotADirectoryError, PermissionError)
_UNFINISHED: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Entry(NamedTuple):
    """Something below a folder: where it is, and what."""

    folder: int
    name: str
    found: os.stat_result
    depth: int
    """1: in the folder itself."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.found.st_mode)


@contextlib.contextmanager
def below(folder: int, check: Callable[[], None], leave: Collection[Identity] = ()) -> Iterator[Iterator[Entry]]:
    """All that is below a folder, but for folders to be left alone. It goes no deeper than scripts can. `check` may end it."""
    with contextlib.closing(_below(folder, check, leave, 1)) as entries:  # or descriptors would stay open for a while
        yield entries


def _below(folder: int, check: Callable[[], None], leave: Collection[Identity], depth: int) -> Generator[Entry, None, None]:
    with os.scandir(folder) as entries:
        for entry in entries:
            check()
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            one = Entry(folder, entry.name, found, depth)
            if one.is_folder and Identity.of(found) in leave:
                continue
            yield one
            if one.is_folder and depth <= DEEPEST:
                # What has gone is nothing, and what nobody may look into scripts do not get into.
                with contextlib.suppress(*_CLOSED), opened_below(folder, entry.name) as deeper:
                    yield from _below(deeper, check, leave, depth + 1)


@contextlib.contextmanager
def opened_below(folder: int, name: str) -> Iterator[int]:
    """A folder in another one, as long as it is needed."""
    descriptor = open_below(folder, name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def hold(descriptor: int) -> None:
    """Marks a file as being written, as long as it is open. `BlockingIOError` if somebody else has it, `OSError` if there are no marks."""
    from fcntl import LOCK_EX, LOCK_NB, flock  # not there on a system without worktrees, where nothing is written

    flock(descriptor, LOCK_EX | LOCK_NB)


def _clean(entry: Entry) -> bool:
    """Removes a file that somebody was about to write when their process ended. Whether it was one."""
    if not is_unfinished(entry.name) or not stat.S_ISREG(entry.found.st_mode):
        return False
    try:
        descriptor = os.open(entry.name, _UNFINISHED, dir_fd=entry.folder)
    except OSError:
        return False
    try:
        hold(descriptor)
        os.unlink(entry.name, dir_fd=entry.folder)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


class Quota:
    """The room below one root, as one session knows it."""

    def __init__(self, max_bytes: int, max_files: int) -> None:
        self._max_bytes, self._max_files = max_bytes, max_files
        self._bytes = self._files = 0
        """What may be used until the next count."""

    def take(self, size: int, files: int, root: int, check: Callable[[], None], leave: Collection[Identity]) -> None:
        """Room for more bytes and files, or `QUOTA_EXCEEDED`. What makes nothing larger needs none."""
        if size <= 0 and files <= 0:
            return
        if size > self._bytes or files > self._files:
            room_bytes, room_files = self._count(size, files, root, check, leave)
            self._bytes, self._files = max(size, room_bytes // _PART), max(files, room_files // _PART)
        self._bytes -= max(0, size)
        self._files -= files

    def _count(
        self, size: int, files: int, root: int, check: Callable[[], None], leave: Collection[Identity]
    ) -> tuple[int, int]:
        """The room that there is."""
        room_bytes, room_files = self._max_bytes, self._max_files
        with below(root, check, leave) as entries:
            for entry in entries:
                if _clean(entry):
                    continue
                room_files -= 1
                if stat.S_ISREG(entry.found.st_mode):
                    room_bytes -= entry.found.st_size
                if room_files < files or room_bytes < size:
                    break
        if room_files < files:
            raise HostError(f"there may be at most {self._max_files} files and folders here", code="QUOTA_EXCEEDED")
        if room_bytes < size:
            raise HostError(f"there may be at most {self._max_bytes} bytes here", code="QUOTA_EXCEEDED")
        return room_bytes, room_files
