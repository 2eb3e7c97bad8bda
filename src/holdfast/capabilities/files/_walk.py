"""The way from a root to a file, and no way out.

Theory of operation
-------------------
A path is walked name by name, each opened relative to the descriptor of the folder before it, and never through a symbolic link: a link is
read, and what it says is walked in its place. So what is found is what is opened, whatever others do to the tree meanwhile, and the walk
itself knows where it is: `..` goes back to a folder that it came through, and beyond the root it goes nowhere. A link may name a place in
the tree by an absolute path; that is walked from the root again. The root itself is reached in the same way, from the top, and by no link.

This needs nothing of the kernel but `openat`, and is therefore the same wherever there are descriptors of folders.

A walk ends at a regular file or in a folder. Other things cannot be named: pipes, sockets and devices; files that have another name, which
may be one outside (hard links); files that a database keeps beside itself, and our own that are not finished. Whatever it opens is compared
with what Holdfast keeps for itself (`protected`), by identity.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Final, Self

from holdfast.capabilities._kinds import is_whole
from holdfast.capabilities.files import protected
from holdfast.capabilities.files.protected import SIDE_FILES, Identity
from holdfast.domain import FileNotFound, InvalidPath, WorktreeNotAllowed, WorktreeNotFound

LARGEST: Final = 16 << 20
"""Bytes of a file."""
MOST_ENTRIES: Final = 10_000
"""Names in a folder."""
DEEPEST: Final = 64
"""Folders below a root: each on the way is a descriptor."""
OUT: Final = "a path must not lead out of the worktree"
NO_FILE: Final = "this is neither a file nor a folder"
KEPT: Final = "this name is kept for a database, or for a file that is being written"
TOO_DEEP: Final = f"a path leads through at most {DEEPEST} folders"
IS_SAFE: Final = bool(getattr(os, "O_NOFOLLOW", 0)) and os.open in os.supports_dir_fd
"""Whether this system can do all this."""

_MOST_LINKS: Final = 40
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_FOLDER: Final = os.O_RDONLY | _DIRECTORY | _CLOEXEC | _NOFOLLOW
_PASSED: Final = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY | _CLOEXEC | _NOFOLLOW
"""A folder that is only gone through, which needs no right to read it."""
_FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | _CLOEXEC | _NOFOLLOW
_UNFINISHED: Final = re.compile(r"\.holdfast-[0-9a-f]{16}\.new")
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
_REPLACED: Final = (errno.ELOOP, errno.ENXIO, errno.EINVAL)
"""It has become another kind of thing since it was looked at: a link, a socket, or no link any more."""
_FAILURES: Final = {
    errno.EACCES: ("the system does not allow this", "FILE_NOT_ACCESSIBLE"),
    errno.EPERM: ("the system does not allow this", "FILE_NOT_ACCESSIBLE"),
    errno.EROFS: ("the system does not allow this", "FILE_NOT_ACCESSIBLE"),
    errno.ENOSPC: ("the disk is full", "DISK_FULL"),
    errno.EDQUOT: ("the disk is full", "DISK_FULL"),
    errno.EMFILE: ("too many files are open", "TOO_MANY_FILES"),
    errno.ENFILE: ("too many files are open", "TOO_MANY_FILES"),
    errno.EEXIST: ("there is something of this name", "FILE_EXISTS"),
    errno.ENOTEMPTY: ("this folder is not empty", "FOLDER_NOT_EMPTY"),
    errno.EISDIR: ("this is a folder", "IS_FOLDER"),
    errno.EXDEV: ("a rename stays on one disk", "DIFFERENT_ROOTS"),
}


class Unfit(InvalidPath):
    """What is there is not what was asked for, or cannot be had. Nothing was forbidden: `script_code` tells a script what it is."""

    def __init__(self, message: str, script_code: str) -> None:
        super().__init__(message)
        self.script_code = script_code


@contextlib.contextmanager
def told(failure: str) -> Iterator[None]:
    """What a system call raises, as one of our errors, which says nothing of where the worktree is."""
    try:
        yield
    except OSError as error:
        if error.errno in _ABSENT:
            raise FileNotFound from None
        if error.errno in _REPLACED:
            raise InvalidPath(failure) from None
        raise Unfit(*_FAILURES.get(error.errno or 0, (failure, "FILE_FAILED"))) from None


def lineage(root: str) -> list[Identity]:
    """A root and all folders above it, from the top. Empty if it is not there."""
    found: list[Identity] = []
    try:
        os.close(open_root(root, found, guarded=False))
    except WorktreeNotFound:
        return []
    return found


def is_unfinished(name: str) -> bool:
    """Whether a file is one of ours that has not taken its place yet, or never will."""
    return _UNFINISHED.fullmatch(name) is not None


def is_kept(name: str) -> bool:
    """Whether a name is not for scripts. SQLite does what its side files say, such as to delete a file anywhere: nobody else touches them.

    >>> is_kept("a.db-WAL"), is_kept("wal")
    (True, False)
    """
    return name.casefold().endswith(SIDE_FILES) or is_unfinished(name)


def open_below(folder: int, name: str) -> int:
    """A folder in another one. It is not one that a link leads to."""
    return os.open(name, _FOLDER, dir_fd=folder)


def open_root(root: str, seen: list[Identity] | None = None, *, guarded: bool = True) -> int:
    """A root, reached through no link. Adds all folders on the way, and it, to what was seen.

    `WorktreeNotAllowed` if it is Holdfast's own. Unless it is guarded it is not opened to be read.
    """
    folder = os.open("/", _PASSED)
    names = [name for name in root.split("/") if name] or ["."]
    forbidden = protected.forbidden() if guarded else frozenset()
    try:
        for left in range(len(names) - 1, -2, -1):
            found = os.fstat(folder)
            if seen is not None:
                seen.append(Identity.of(found))
            name = names[-1 - left] if left >= 0 else ""
            if guarded and protected.is_protected(found, forbidden) and not protected.may_pass(found, name):
                raise WorktreeNotAllowed(protected.MESSAGE)
            if left < 0:
                break
            deeper = os.open(name, _PASSED if left or not guarded else _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
    except OSError:
        os.close(folder)
        raise WorktreeNotFound from None
    except WorktreeNotAllowed:
        os.close(folder)
        raise
    return folder


class Walk:
    """The way from a root to a file: the folders that it came through, open, and their names."""

    def __init__(self, root: str, *, hard_links: bool = False) -> None:
        self._root = root
        self._hard_links = hard_links
        self._forbidden = protected.forbidden()
        self._folders = [open_root(root)]
        self.names: list[str] = []
        self._links = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for folder in self._folders:
            os.close(folder)

    @property
    def folder(self) -> int:
        """Where the walk has come to."""
        return self._folders[-1]

    def back(self) -> Iterator[int]:
        """The folders that it came through, from where it is back to the root."""
        return reversed(self._folders)

    def look(self, name: str) -> os.stat_result | None:
        """What is there under a name, be it a link. None: nothing."""
        try:
            return os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def to_file(self, names: list[str], *, new: bool = False) -> str:
        """To the folder of a regular file. Gives its name there. With `new` there need not be one of this name."""
        name = self.go(names, new=new)
        if name is None:
            raise Unfit("this is a folder", "IS_FOLDER")
        return name

    def to_name(self, names: list[str]) -> str:
        """To the folder of a name, which need not be there, and may be that of a link. The root has no name."""
        if not names:
            raise InvalidPath("this must be within a folder of the worktree, not the worktree itself")
        if self.go(names[:-1]) is not None:
            raise FileNotFound
        self._check_name(names[-1])
        return names[-1]

    def go(self, names: list[str], *, new: bool = False) -> str | None:
        """To the folder of a regular file, whose name it gives, or into a folder."""
        waiting = names[::-1]
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not self.names:
                    raise InvalidPath(OUT)
                self._back(1)
                continue
            try:
                found = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            except FileNotFoundError:
                if new and not waiting:
                    self._check_name(name)
                    return name
                raise
            if stat.S_ISLNK(found.st_mode):
                waiting += self._through(name)[::-1]
            elif waiting or stat.S_ISDIR(found.st_mode):
                self.enter(name)
            else:
                self._check_name(name)
                self._check_file(found)
                return name
        return None

    def enter(self, name: str) -> None:
        """Into a folder of the one that the walk has come to."""
        if len(self.names) == DEEPEST:
            raise InvalidPath(TOO_DEEP)
        folder = open_below(self.folder, name)
        self._folders.append(folder)
        self.names.append(name)
        protected.check(os.fstat(folder), self._forbidden)

    def look_at(self, name: str | None) -> os.stat_result:
        """A file of the folder that the walk has come to, or that folder."""
        if name is None:
            return os.fstat(self.folder)
        found = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        self._check_file(found)  # it may have been another thing a moment ago
        return found

    def entries(self) -> list[str]:
        """The names in the folder that the walk has come to, sorted. Those that no path can name are left out."""
        with os.scandir(self.folder) as entries:
            found = [entry.name for entry in islice(entries, MOST_ENTRIES + 1)]
        if len(found) > MOST_ENTRIES:
            raise Unfit(f"this folder has more than {MOST_ENTRIES} entries", "FOLDER_TOO_LARGE")
        return sorted(name for name in found if is_whole(name) and "\\" not in name and not is_unfinished(name))

    def read(self, name: str, largest: int | None = None) -> bytes:
        """A file of the folder that the walk has come to."""
        most = LARGEST if largest is None else largest
        descriptor = os.open(name, _FILE, dir_fd=self.folder)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            self._check_file(found)
            data = file.read(min(found.st_size, most) + 1)  # not more: room for all that is asked for is made at once
            if len(data) > found.st_size:  # it grows
                data += file.read(most + 1 - len(data))
        if len(data) > most:
            raise Unfit(f"this file has more than {most} bytes", "FILE_TOO_LARGE")
        return data

    def _check_name(self, name: str) -> None:
        if is_kept(name):
            raise InvalidPath(KEPT)

    def _check_file(self, found: os.stat_result) -> None:
        protected.check(found, self._forbidden)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidPath(NO_FILE)
        if found.st_nlink > 1 and not self._hard_links:
            raise InvalidPath("this file has another name, which may be outside: it is a hard link")

    def _back(self, count: int) -> None:
        for _ in range(count):
            self.names.pop()
            os.close(self._folders.pop())

    def _through(self, name: str) -> list[str]:
        """What a link says, to be walked from here, or from the root."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise InvalidPath("a path leads through too many links")
        target = os.readlink(name, dir_fd=self.folder)
        if not os.path.isabs(target):
            return target.split("/")
        # What is asked here is only how the place is called. It is walked like any other.
        real = os.path.realpath(target)
        if os.path.commonpath([self._root, real]) != self._root:
            raise InvalidPath(OUT)
        self._back(len(self.names))
        return os.path.relpath(real, self._root).split("/")
