"""What `fs` does to a tree: each to a name in a folder that a walk has come to, so that it happens there, whatever becomes of the path."""

import contextlib
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Callable, Collection
from typing import Final

from holdfast.capabilities.files._quota import below, hold, opened_below
from holdfast.capabilities.files._walk import DEEPEST, KEPT, NO_FILE, TOO_DEEP, Unfit, Walk, is_kept, is_unfinished
from holdfast.capabilities.files.protected import MESSAGE, Identity
from holdfast.domain import FileNotFound, InvalidPath

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE_MODE: Final = 0o644
_FOLDER_MODE: Final = 0o755
_THERE: Final = ("there is something of this name", "FILE_EXISTS")
_BATCH: Final = 1_000
_TRIES: Final = 10


def write(walk: Walk, name: str, data: bytes) -> None:
    """Puts a file in the place of what is there, at once and as a whole. A link that has taken the file's place meanwhile is replaced."""
    found = walk.look(name)
    mode = _FILE_MODE if found is None else found.st_mode & 0o777
    if not mode & 0o222:
        raise Unfit("this file is read-only", "FILE_READ_ONLY")
    other, descriptor = _begin(walk.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            os.rename(other, name, src_dir_fd=walk.folder, dst_dir_fd=walk.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(other, dir_fd=walk.folder)
        raise


def _begin(folder: int) -> tuple[str, int]:
    """A file that is not finished: its name, and its descriptor, which is held so that nobody takes it for one that was left behind."""
    for _ in range(_TRIES):
        name = f".holdfast-{secrets.token_hex(8)}.new"
        descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        is_taken = False
        try:
            hold(descriptor)
        except BlockingIOError:
            is_taken = True
        except OSError:  # a file system that has no such marks, where nobody cleans up either
            pass
        if not is_taken and os.fstat(descriptor).st_nlink:
            return name, descriptor
        os.close(descriptor)  # somebody cleans up, and came upon it before it was held
    raise Unfit("this file cannot be written", "FILE_FAILED")


def make_folder(walk: Walk, names: list[str], allow: Callable[[int], None]) -> None:
    """A folder that is not there yet, in one that is. `allow` is asked in that one, with the number of new folders."""
    if not names:
        raise Unfit(*_THERE)
    name = walk.to_name(names)
    if walk.look(name) is not None:
        raise Unfit(*_THERE)
    _check_depth(len(walk.names) + 1)
    allow(1)
    os.mkdir(name, _FOLDER_MODE, dir_fd=walk.folder)


def make_folders(walk: Walk, names: list[str], allow: Callable[[int], None]) -> None:
    """A folder, and those on the way to it, as far as they are missing."""
    for at, name in enumerate(names):
        if walk.look(name) is None:
            missing = names[at:]
            if any(map(is_kept, missing)):
                raise InvalidPath(KEPT)
            _check_depth(len(walk.names) + len(missing))
            allow(len(missing))
            for new in missing:
                with contextlib.suppress(FileExistsError):  # somebody else was faster
                    os.mkdir(new, _FOLDER_MODE, dir_fd=walk.folder)
                walk.enter(new)
            return
        if walk.go([name]) is not None:
            raise Unfit(*_THERE)


def remove(walk: Walk, name: str, keep: Collection[Identity], check: Callable[[], None], *, recursive: bool) -> None:
    """A file, a link itself, or with `recursive` a folder with all that is in it, unless something of it must be kept.

    What must be kept cannot be moved, so that what is looked at is what is removed.
    """
    found = walk.look(name)
    if found is None:
        raise FileNotFound
    if not stat.S_ISDIR(found.st_mode):
        _check_kind(found)
        _check_kept(found, keep)
        os.unlink(name, dir_fd=walk.folder)
        return
    if not recursive:
        raise Unfit("this is a folder: it is removed with {recursive: true}", "IS_FOLDER")
    with opened_below(walk.folder, name) as folder:
        _check_kept(os.fstat(folder), keep)
        with below(folder, check) as entries:
            for entry in entries:
                _check_kind(entry.found)
                _check_kept(entry.found, keep)
                if entry.is_folder:
                    _check_depth(entry.depth)
                elif is_kept(entry.name) and not is_unfinished(entry.name):
                    raise InvalidPath("there is a file of a database in this folder")
        _empty(folder, keep, check)
    os.rmdir(name, dir_fd=walk.folder)


def _empty(folder: int, keep: Collection[Identity], check: Callable[[], None], depth: int = 0) -> None:
    """What others do meanwhile may make it fail, but not lead it elsewhere: it enters no link."""
    _check_depth(depth)
    while True:
        with os.scandir(folder) as entries:
            batch = list(itertools.islice(entries, _BATCH))
        if not batch:
            return
        for entry in batch:
            check()
            with contextlib.suppress(FileNotFoundError):
                if not entry.is_dir(follow_symlinks=False):
                    _check_kept(entry.stat(follow_symlinks=False), keep)
                    os.unlink(entry.name, dir_fd=folder)
                    continue
                with opened_below(folder, entry.name) as deeper:
                    _check_kept(os.fstat(deeper), keep)
                    _empty(deeper, keep, check, depth + 1)
                os.rmdir(entry.name, dir_fd=folder)


def rename(source: Walk, name: str, target: Walk, new: str, keep: Collection[Identity], check: Callable[[], None]) -> None:
    """A file, a link itself or a folder, in place of what has the new name: a file, or an empty folder if it is a folder."""
    found, there = source.look(name), target.look(new)
    if found is None:
        raise FileNotFound
    for one in (found, there):
        if one is not None:
            _check_kind(one)
            _check_kept(one, keep)
    if stat.S_ISDIR(found.st_mode):
        if there is not None and not stat.S_ISDIR(there.st_mode):
            raise Unfit("a folder does not take the place of a file", "NOT_FOLDER")
        _check_depth(len(target.names) + 1)
        with opened_below(source.folder, name) as folder, below(folder, check) as entries:
            for entry in entries:
                if entry.is_folder:
                    _check_depth(len(target.names) + 1 + entry.depth)
    try:
        os.rename(name, new, src_dir_fd=source.folder, dst_dir_fd=target.folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unfit("a folder cannot be moved into itself", "INVALID_ARGUMENT") from None
        raise


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise InvalidPath(TOO_DEEP)


def _check_kind(found: os.stat_result) -> None:
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise InvalidPath(NO_FILE)


def _check_kept(found: os.stat_result, keep: Collection[Identity]) -> None:
    if Identity.of(found) in keep:
        raise InvalidPath("this folder is a root, or has one in it" if stat.S_ISDIR(found.st_mode) else MESSAGE)
