"""Files of a worktree, and no others.

Theory of operation
-------------------
A path is walked name by name, each opened relative to the descriptor of the folder before it, and never through a symbolic link: a link is
read, and what it says is walked in its place. So what is found is what is opened, whatever others do to the tree meanwhile, and the walk
itself knows where it is: `..` goes back to a folder that it came through, and beyond the root it goes nowhere. A link may name a place in
the tree by an absolute path; that is walked from the root again.

This needs nothing of the kernel but `openat`, and is therefore the same wherever there are descriptors of folders.
"""

import errno
import os
import stat
from typing import Final, NamedTuple, Self

from holdfast.domain import FileNotFound, InvalidPath, WorktreeNotFound

LARGEST: Final = 16 << 20
"""Bytes of a file."""

_LONGEST: Final = 4096
_MOST_LINKS: Final = 40
_DEEPEST: Final = 64
"""Each folder on the way is a descriptor."""
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
_OUT: Final = "a path must not lead out of the worktree"
_NO_FILE: Final = "this is neither a file nor a folder"


class EmptyPath(InvalidPath):
    """A path must not be blank."""


class WorktreeFile(NamedTuple):
    """A file that was read. `path` is where it really is, relative to the root: without links, and without detours."""

    path: str
    text: str


def parse_path(text: str) -> str:
    """A relative path without detours. Whether anything is there is another question.

    >>> parse_path("runtime/../runtime/startup.js")
    'runtime/startup.js'
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise InvalidPath(f"a path is text of at most {_LONGEST} characters")
    if not text.strip():
        raise EmptyPath
    if text.startswith("/"):
        raise InvalidPath("a path must be relative to the worktree")
    if "\0" in text or "\\" in text or not _is_encodable(text):
        raise InvalidPath("a path must not have NUL, a backslash, or half a surrogate pair in it")
    names: list[str] = []
    for name in text.split("/"):
        if name == "..":
            if not names:
                raise InvalidPath(_OUT)
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    if not names:
        raise EmptyPath("a path must name a file, not the worktree itself")
    return "/".join(names)


def resolve_root(path: str) -> str:
    """The absolute path of a worktree, without links. `WorktreeNotFound` unless it is a folder."""
    if not isinstance(path, str) or not path.strip() or len(path) > _LONGEST or "\0" in path or not _is_encodable(path):
        raise WorktreeNotFound("a worktree is the path of a folder")
    if not _NOFOLLOW or os.open not in os.supports_dir_fd:
        raise WorktreeNotFound("this system has no safe way to read a worktree")
    root = os.path.realpath(path)
    with _Walk(root):
        return root


def read_file(root: str, path: str) -> WorktreeFile:
    """The text of a file below a root that `resolve_root` gave.

    `FileNotFound` if there is none, or the path is blank; `InvalidPath` if it leads out, or to something that is no file of text.
    """
    try:
        names = parse_path(path).split("/")
    except EmptyPath as error:
        raise FileNotFound(str(error)) from None
    with _Walk(root) as walk:
        try:
            found = walk.go(names)
            with os.fdopen(walk.open(found[-1]), "rb") as file:
                data = file.read(LARGEST + 1)
        except OSError as error:
            if error.errno in _ABSENT:
                raise FileNotFound from None
            raise InvalidPath("this file cannot be read") from None
    if len(data) > LARGEST:
        raise InvalidPath(f"this file has more than {LARGEST} bytes")
    try:
        return WorktreeFile("/".join(found), data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidPath("this file is not text in UTF-8") from None


class _Walk:
    """The way from a root to a file: the folders that it came through, open, and their names."""

    def __init__(self, root: str) -> None:
        try:
            descriptor = os.open(root, _FOLDER | _NOFOLLOW)
        except OSError:
            raise WorktreeNotFound from None
        self._root = root
        self._folders = [descriptor]
        self._names: list[str] = []
        self._links = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for folder in self._folders:
            os.close(folder)

    def go(self, names: list[str]) -> list[str]:
        """To the folder of a regular file. Gives the names that really lead to the file."""
        waiting = names[::-1]
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not self._names:
                    raise InvalidPath(_OUT)
                self._back(1)
                continue
            kind = os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):
                waiting += self._through(name)[::-1]
            elif waiting or stat.S_ISDIR(kind):
                self._into(name)
            elif stat.S_ISREG(kind):
                return [*self._names, name]
            else:
                raise InvalidPath(_NO_FILE)
        raise InvalidPath("this is a folder")

    def open(self, name: str) -> int:
        """A file of the folder that the walk has come to."""
        file = os.open(name, _FILE | _NOFOLLOW, dir_fd=self._folders[-1])
        if not stat.S_ISREG(os.fstat(file).st_mode):  # it was another thing a moment ago
            os.close(file)
            raise InvalidPath(_NO_FILE)
        return file

    def _into(self, name: str) -> None:
        if len(self._names) == _DEEPEST:
            raise InvalidPath(f"a path leads through at most {_DEEPEST} folders")
        self._folders.append(os.open(name, _FOLDER | _NOFOLLOW, dir_fd=self._folders[-1]))
        self._names.append(name)

    def _back(self, count: int) -> None:
        for _ in range(count):
            self._names.pop()
            os.close(self._folders.pop())

    def _through(self, name: str) -> list[str]:
        """What a link says, to be walked from here, or from the root."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise InvalidPath("a path leads through too many links")
        target = os.readlink(name, dir_fd=self._folders[-1])
        if not os.path.isabs(target):
            return target.split("/")
        # What is asked here is only how the place is called. It is walked like any other.
        real = os.path.realpath(target)
        if os.path.commonpath([self._root, real]) != self._root:
            raise InvalidPath(_OUT)
        self._back(len(self._names))
        return os.path.relpath(real, self._root).split("/")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
