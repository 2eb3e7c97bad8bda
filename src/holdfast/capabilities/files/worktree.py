"""Worktrees: folders whose files sessions run and read, and no others. `_walk` has how that is made sure of."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from holdfast.capabilities._kinds import is_whole
from holdfast.capabilities.files._walk import IS_SAFE, OUT, Walk, told
from holdfast.capabilities.files.protected import SIDE_FILES
from holdfast.domain import FileNotFound, InvalidPath, WorktreeNotFound

__all__ = [
    "SIDE_FILES",
    "EmptyPath",
    "WorktreeFile",
    "find_file",
    "locate",
    "open_folder",
    "open_place",
    "parse_path",
    "read_file",
    "resolve_root",
]

_LONGEST: Final = 4096


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
    if "\0" in text or "\\" in text or not is_whole(text):
        raise InvalidPath("a path must not have NUL, a backslash, or half a surrogate pair in it")
    names: list[str] = []
    for name in text.split("/"):
        if name == "..":
            if not names:
                raise InvalidPath(OUT)
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    if not names:
        raise EmptyPath("a path must name a file, not the worktree itself")
    return "/".join(names)


def resolve_root(path: str) -> str:
    """The absolute path of a worktree, without links. `WorktreeNotFound` unless it is a folder."""
    if not isinstance(path, str) or not path.strip() or len(path) > _LONGEST or "\0" in path or not is_whole(path):
        raise WorktreeNotFound("a worktree is the path of a folder")
    if not IS_SAFE:
        raise WorktreeNotFound("this system has no safe way to read a worktree")
    try:
        root = os.path.realpath(path)
    except OSError:  # a link on the way has gone while it was read
        raise WorktreeNotFound from None
    with Walk(root):
        return root


def read_file(root: str, path: str) -> WorktreeFile:
    """The text of a file below a root that `resolve_root` gave.

    `FileNotFound` if there is none, or the path is blank; `InvalidPath` if it leads out, or to something that is no file of text.
    """
    try:
        names = parse_path(path).split("/")
    except EmptyPath as error:
        raise FileNotFound(str(error)) from None
    with Walk(root) as walk, told("this file cannot be read"):
        name = walk.to_file(names)
        data = walk.read(name)
    try:
        return WorktreeFile("/".join([*walk.names, name]), data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidPath("this file is not text in UTF-8") from None


def find_file(root: str, path: str) -> str | None:
    """Where a file really is, relative to the root. None: there is no file of this path. `InvalidPath` if it leads out."""
    try:
        names = parse_path(path).split("/")
        with Walk(root) as walk, told("this cannot be looked at"):
            name = walk.go(names)
    except (EmptyPath, FileNotFound):
        return None
    return None if name is None else "/".join([*walk.names, name])


@contextmanager
def open_place(root: str, names: list[str]) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder of a file, and the file's name there. The file need not be there yet; its folder must be."""
    with Walk(root) as walk:
        with told("this cannot be looked at"):
            name = walk.to_file(names, new=True)
        yield walk.folder, name


@contextmanager
def open_folder(root: str, path: str = ".") -> Iterator[int]:
    """The descriptor of a folder of a worktree, or of the worktree: to be there, whatever becomes of its name."""
    names = locate(root, path)
    with Walk(root) as walk:
        with told("this folder cannot be opened"):
            if walk.go(names) is not None:
                raise InvalidPath("this is not a folder")
        yield walk.folder


def locate(root: str, path: str) -> list[str]:
    """The names that lead from a root to a path: relative to it, or absolute and within it. Empty for the root itself."""
    if not isinstance(path, str) or not path.strip():
        raise FileNotFound("a path must not be blank")
    if path.startswith("/") and len(path) <= _LONGEST and "\0" not in path and is_whole(path):
        path = _relative(root, path)
    try:
        return parse_path(path).split("/")
    except EmptyPath:
        return []


def _relative(root: str, path: str) -> str:
    """By its text alone: nothing outside is looked at."""
    clean = os.path.normpath("/" + path.lstrip("/"))
    if clean != root and not clean.startswith(root.rstrip("/") + "/"):
        raise InvalidPath(OUT)
    return os.path.relpath(clean, root)
