"""Files of a worktree, and no others.

Theory of operation
-------------------
A path is walked name by name, each opened relative to the descriptor of the folder before it, and never through a symbolic link: a link is
read, and what it says is walked in its place. So what is found is what is opened, whatever others do to the tree meanwhile, and the walk
itself knows where it is: `..` goes back to a folder that it came through, and beyond the root it goes nowhere. A link may name a place in
the tree by an absolute path; that is walked from the root again.

This needs nothing of the kernel but `openat`, and is therefore the same wherever there are descriptors of folders.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

from holdfast.domain import FileNotFound, InvalidPath, WorktreeNotFound

LARGEST: Final = 16 << 20
"""Bytes of a file."""

SIDE_FILES: Final = ("-journal", "-wal", "-shm")
"""How files end that SQLite keeps beside a database. It does what they say, such as to delete a file anywhere: nobody else writes them."""
MOST_ENTRIES: Final = 10_000
"""Names in a folder."""

_LONGEST: Final = 4096
_MOST_LINKS: Final = 40
_DEEPEST: Final = 64
"""Each folder on the way is a descriptor."""
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
_OUT: Final = "a path must not lead out of the worktree"
_NO_FILE: Final = "this is neither a file nor a folder"


class EmptyPath(InvalidPath):
    """A path must not be blank."""


class WorktreeFile(NamedTuple):
    """A file that was read. `path` is where it really is, relative to the root: without links, and without detours."""

    path: str
    text: str


class Seen(NamedTuple):
    """What is there: a regular file, or else a folder."""

    size: int
    is_file: bool
    modified_ms: float


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
    with _Walk(root) as walk, _told("this file cannot be read"):
        name = walk.to_file(names)
        data = walk.read(name)
    try:
        return WorktreeFile("/".join([*walk.names, name]), data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidPath("this file is not text in UTF-8") from None


def read_bytes(root: str, path: str) -> bytes:
    """What is in a file. This path and those of the functions below may be absolute, if they lie within the root."""
    names = locate(root, path)
    with _Walk(root) as walk, _told("this file cannot be read"):
        return walk.read(walk.to_file(names))


def look_at(root: str, path: str) -> Seen:
    """What is there. `FileNotFound` if nothing is, `InvalidPath` if it is neither a file nor a folder."""
    names = locate(root, path)
    with _Walk(root) as walk, _told("this cannot be looked at"):
        name = walk.go(names)
        found = os.fstat(walk.folder) if name is None else os.stat(name, dir_fd=walk.folder, follow_symlinks=False)
    if name is not None and not stat.S_ISREG(found.st_mode):  # it was another thing a moment ago
        raise InvalidPath(_NO_FILE)
    return Seen(found.st_size, name is not None, found.st_mtime_ns / 1e6)


def list_folder(root: str, path: str) -> list[str]:
    """The names in a folder, sorted. Those that are not UTF-8 are left out: no path can name them."""
    names = locate(root, path)
    with _Walk(root) as walk, _told("this folder cannot be read"):
        if walk.go(names) is not None:
            raise InvalidPath("this is not a folder")
        found: list[str] = []
        with os.scandir(walk.folder) as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) > MOST_ENTRIES:
                    raise InvalidPath(f"this folder has more than {MOST_ENTRIES} entries")
    return sorted(name for name in found if _is_encodable(name))


def write_file(root: str, path: str, data: bytes) -> None:
    """Puts a file in the place of what is there, at once and as a whole. The folder must be there.

    A link is followed to the file that it names, if that is inside. One that takes the file's place while this runs is replaced.
    """
    if len(data) > LARGEST:
        raise InvalidPath(f"a file has at most {LARGEST} bytes")
    names = locate(root, path)
    with _Walk(root) as walk, _told("this file cannot be written"):
        walk.write(walk.to_file(names, new=True), data)


def find_place(root: str, path: str) -> list[str]:
    """The names that really lead to a file, which need not be there yet; its folder must be."""
    names = locate(root, path)
    with _Walk(root) as walk, _told("this cannot be looked at"):
        name = walk.to_file(names, new=True)
        return [*walk.names, name]


def locate(root: str, path: str) -> list[str]:
    """The names that lead from a root to a path: relative to it, or absolute and within it. Empty for the root itself."""
    if not isinstance(path, str) or not path.strip():
        raise FileNotFound("a path must not be blank")
    if path.startswith("/") and len(path) <= _LONGEST and "\0" not in path and _is_encodable(path):
        path = _relative(root, path)
    try:
        return parse_path(path).split("/")
    except EmptyPath:
        return []


def _relative(root: str, path: str) -> str:
    """What is asked is only how a place is called. It is walked like any other."""
    for real in (os.path.normpath(path), os.path.realpath(path)):
        if real == root or real.startswith(root.rstrip("/") + "/"):
            return os.path.relpath(real, root)
    raise InvalidPath(_OUT)


@contextlib.contextmanager
def _told(failure: str) -> Iterator[None]:
    """What a system call raises, as one of our errors, which says nothing of where the worktree is."""
    try:
        yield
    except OSError as error:
        if error.errno in _ABSENT:
            raise FileNotFound from None
        raise InvalidPath(failure) from None


class _Walk:
    """The way from a root to a file: the folders that it came through, open, and their names."""

    def __init__(self, root: str) -> None:
        try:
            descriptor = os.open(root, _FOLDER | _NOFOLLOW)
        except OSError:
            raise WorktreeNotFound from None
        self._root = root
        self._folders = [descriptor]
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

    def to_file(self, names: list[str], *, new: bool = False) -> str:
        """To the folder of a regular file. Gives its name there. With `new` there need not be one of this name."""
        name = self.go(names, new=new)
        if name is None:
            raise InvalidPath("this is a folder")
        return name

    def go(self, names: list[str], *, new: bool = False) -> str | None:
        """To the folder of a regular file, whose name it gives, or into a folder."""
        waiting = names[::-1]
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not self.names:
                    raise InvalidPath(_OUT)
                self._back(1)
                continue
            try:
                kind = os.stat(name, dir_fd=self.folder, follow_symlinks=False).st_mode
            except FileNotFoundError:
                if new and not waiting:
                    return name
                raise
            if stat.S_ISLNK(kind):
                waiting += self._through(name)[::-1]
            elif waiting or stat.S_ISDIR(kind):
                self._into(name)
            elif stat.S_ISREG(kind):
                return name
            else:
                raise InvalidPath(_NO_FILE)
        return None

    def read(self, name: str) -> bytes:
        """A file of the folder that the walk has come to."""
        descriptor = os.open(name, _FILE | _NOFOLLOW, dir_fd=self.folder)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was another thing a moment ago
                raise InvalidPath(_NO_FILE)
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise InvalidPath(f"this file has more than {LARGEST} bytes")
        return data

    def write(self, name: str, data: bytes) -> None:
        """A file of the folder that the walk has come to: another one first, which then takes its place."""
        if name.endswith(SIDE_FILES):
            raise InvalidPath("this name is kept for a database")
        mode = 0o644
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=self.folder, follow_symlinks=False).st_mode & 0o777
        if not mode & 0o222:
            raise InvalidPath("this file is read-only")
        other = f".{secrets.token_hex(8)}.new"
        try:
            descriptor = os.open(other, _NEW | _NOFOLLOW, 0o600, dir_fd=self.folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            os.rename(other, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(other, dir_fd=self.folder)
            raise

    def _into(self, name: str) -> None:
        if len(self.names) == _DEEPEST:
            raise InvalidPath(f"a path leads through at most {_DEEPEST} folders")
        self._folders.append(os.open(name, _FOLDER | _NOFOLLOW, dir_fd=self._folders[-1]))
        self.names.append(name)

    def _back(self, count: int) -> None:
        for _ in range(count):
            self.names.pop()
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
        self._back(len(self.names))
        return os.path.relpath(real, self._root).split("/")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
