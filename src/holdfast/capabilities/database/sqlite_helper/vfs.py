"""The files that SQLite can name: one database in one folder, and what SQLite keeps beside it.

Theory of operation
-------------------
SQLite's own file system layer calls the system by a table of functions, which can be replaced. Here those that take a path are: a path
is "/" and one name, the name is looked up below the descriptor of a folder and never through a link, and what was opened is looked at
before SQLite gets it. So the file that is checked is the file that is used, for the database, its journals and its shared memory, each time
that one of them is opened, whatever is renamed meanwhile. All other names do not exist.

What takes a descriptor (read, write, lock, sync) is as it was, and costs nothing more.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from typing import Any, Final

import apsw

SIDE_FILES: Final = (b"-journal", b"-wal", b"-shm")
_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_RANDOM: Final = b"/dev/urandom"
_ALWAYS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_AT_SYMLINK_NOFOLLOW: Final = 0x100 if os.uname().sysname == "Linux" else 0x20
_OLD_STAT: Final = 1
"""The version of the structure, which C libraries of before 2021 are asked for."""

_PATH: Final = ctypes.c_char_p
_INT: Final = ctypes.c_int
_POINTER: Final = ctypes.c_void_p


class Unfit(Exception):
    """There is something that must not be opened as a database."""


class Files:
    """What SQLite can name. Nothing, until a folder is given; then nothing but that."""

    def __init__(self) -> None:
        self._folder = -1
        self._names: frozenset[bytes] = frozenset()
        self._main = b""
        self._forbidden: frozenset[tuple[int, int]] = frozenset()
        self._is_sealed = False
        libc = ctypes.CDLL(None, use_errno=True)
        self._fstatat = _stat_at(libc)
        self._kept: list[Any] = []  # the table has their addresses

    def install(self) -> None:
        """Puts these functions in the place of the system's, for this process and those that it forks."""
        vfs = apsw.VFS("holdfast", "unix")
        for name, result, arguments, call in (
            ("open", _INT, (_PATH, _INT, _INT), self._open),
            ("stat", _INT, (_PATH, _POINTER), self._stat),
            ("lstat", _INT, (_PATH, _POINTER), self._stat),
            ("access", _INT, (_PATH, _INT), self._access),
            ("unlink", _INT, (_PATH,), self._unlink),
            ("readlink", ctypes.c_ssize_t, (_PATH, _POINTER, ctypes.c_size_t), _refuse),
            ("getcwd", _POINTER, (_POINTER, ctypes.c_size_t), _no_folder),
            ("mkdir", _INT, (_PATH, _INT), _refuse),
            ("rmdir", _INT, (_PATH,), _refuse),
        ):
            function = ctypes.CFUNCTYPE(result, *arguments, use_errno=True)(call)
            address = ctypes.cast(function, _POINTER).value
            assert address is not None
            if not vfs.xSetSystemCall(name, address):
                raise RuntimeError(name)
            self._kept.append(function)
        self._kept.append(vfs)

    def seal(self, folder: int, name: str, forbidden: frozenset[tuple[int, int]]) -> str:
        """From now on there is one database. Gives the path that SQLite has for it, and raises `Unfit` if it must not be opened."""
        self._is_sealed = True
        if folder < 0:
            return ":memory:"
        self._folder, self._main, self._forbidden = folder, os.fsencode(name), forbidden
        self._names = frozenset([self._main, *(self._main + end for end in SIDE_FILES)])
        if b"/" in self._main or self._main in (b"", b".", b"..") or _identity(os.fstat(folder)) in forbidden:
            raise Unfit
        for each in self._names:
            self._look(each)
        return f"/{name}"

    def size(self) -> int:
        try:
            return os.stat(self._main, dir_fd=self._folder, follow_symlinks=False).st_size
        except OSError:
            return 0

    def _look(self, name: bytes) -> None:
        """Before there are any locks: to close a file that is open elsewhere in a process would end them."""
        try:
            descriptor = os.open(name, os.O_RDONLY | _ALWAYS, dir_fd=self._folder)
        except FileNotFoundError:
            return
        except OSError:
            raise Unfit from None
        try:
            found = os.fstat(descriptor)
            self._check(found)
            # A journal that names other files: SQLite would delete them. Its own never do, where nothing is attached.
            if os.pread(descriptor, len(_MAGIC), max(0, found.st_size - len(_MAGIC))) == _MAGIC:
                raise Unfit
        except OSError:
            raise Unfit from None
        finally:
            os.close(descriptor)

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or _identity(found) in self._forbidden:
            raise Unfit

    def _name(self, path: bytes) -> bytes:
        name = path[1:]
        if path[:1] != b"/" or name not in self._names:
            raise FileNotFoundError(errno.ENOENT, "")
        return name

    # ---- in the place of the system's ----------------------------------------------------------------------------------------------

    def _open(self, path: bytes, flags: int, mode: int) -> int:
        if path == _RANDOM and not self._is_sealed:
            return _result(lambda: os.open(path, flags | _ALWAYS))
        if path == b"/" and self._folder >= 0:
            return _result(lambda: os.open(".", os.O_RDONLY | os.O_DIRECTORY | _ALWAYS, dir_fd=self._folder))
        return _result(lambda: self._opened(path, flags, mode))

    def _opened(self, path: bytes, flags: int, mode: int) -> int:
        descriptor = os.open(self._name(path), flags | _ALWAYS, mode, dir_fd=self._folder)
        try:
            self._check(os.fstat(descriptor))
        except Unfit:
            # It stays open. If it is the database by another name, closing it would end the locks of this process.
            raise PermissionError(errno.EACCES, "") from None
        return descriptor

    def _stat(self, path: bytes, buffer: int) -> int:
        if path == b"/":
            return self._fstatat(self._folder, b".", buffer, 0)
        return _result(lambda: self._fstatat(self._folder, self._name(path), buffer, _AT_SYMLINK_NOFOLLOW))

    def _access(self, path: bytes, mode: int) -> int:
        def look() -> int:
            name = self._name(path)
            self._check(os.stat(name, dir_fd=self._folder, follow_symlinks=False))
            if not os.access(name, mode, dir_fd=self._folder):
                raise PermissionError(errno.EACCES, "")
            return 0

        return _result(look)

    def _unlink(self, path: bytes) -> int:
        def unlink() -> int:
            name = self._name(path)
            if name == self._main:
                raise PermissionError(errno.EACCES, "")
            os.unlink(name, dir_fd=self._folder)
            return 0

        return _result(unlink)


def _result(call: Callable[[], int]) -> int:
    """What a function of C gives: -1 and an error number if it fails."""
    try:
        return call()
    except OSError as error:
        ctypes.set_errno(error.errno or errno.EACCES)
    except BaseException:  # noqa: BLE001 - it was called by C, which can be told nothing else
        ctypes.set_errno(errno.EACCES)
    return -1


def _refuse(*_: Any) -> int:
    ctypes.set_errno(errno.EACCES)
    return -1


def _no_folder(*_: Any) -> None:
    ctypes.set_errno(errno.EACCES)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _stat_at(libc: ctypes.CDLL) -> Callable[[int, bytes, int, int], int]:
    for name in ("fstatat$INODE64", "fstatat64", "fstatat"):
        found = getattr(libc, name, None)
        if found is not None:
            found.argtypes = (_INT, _PATH, _POINTER, _INT)
            return found  # type: ignore[no-any-return]
    old = libc.__fxstatat
    old.argtypes = (_INT, _INT, _PATH, _POINTER, _INT)
    return lambda folder, path, buffer, flags: int(old(_OLD_STAT, folder, path, buffer, flags))
