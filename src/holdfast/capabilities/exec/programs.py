"""The programs that a template allows: what each is, and what a script may give it.

What a name leads to is settled when it is granted: the file itself, without links, and what is in it. When it is run it must still be the
same. What is checked is an open file, and that is what is run: also of a script, whose interpreter is given the descriptor's name. Only a
script that is not pinned is opened again by its path, which it may need to find its other files.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from holdfast.capabilities.exec.patterns import BadPattern, Pattern
from holdfast.capabilities.files._walk import open_root
from holdfast.capabilities.files.protected import Identity, is_protected
from holdfast.domain import InvalidValue, WorktreeNotAllowed, WorktreeNotFound
from holdfast.sandbox import HostError

MOST: Final = 100
"""Programs of a config."""
_LONGEST_PATH: Final = 4096
_MOST_PATTERNS: Final = 100
_MOST_NAMES: Final = 100
_LONGEST_MATCHED: Final = 8_192
_MORE: Final = "..."
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LOADER: Final = re.compile(r"LD_.*|DYLD_.*|GCONV_PATH|GLIBC_TUNABLES|BASH_ENV|ENV|SHELLOPTS|IFS", re.DOTALL)
"""With these a script says what a program loads, whatever the program is."""
_OURS: Final = "HOLDFAST_"
_SEARCH: Final = "PATH"
_READ: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Program:
    """A program, by absolute path, and what may be given to it. Several may have one path: any of them allows a call."""

    path: str
    args: tuple[str, ...] | None = None
    """A pattern for each argument, in their order; `...` at the end: any number of what is before it. None: any arguments."""
    env: tuple[str, ...] = ()
    """The variables that a script may set."""
    inherit: tuple[str, ...] = ()
    """The variables that come from the daemon's environment."""
    pinned: bool = True
    """Whether what is in the file must stay the same, too."""
    real: str = ""
    """Where it was found when it was granted."""
    digest: str = ""
    """What was in it then."""

    def __post_init__(self) -> None:
        for name, path in (("path", self.path), ("real", self.real or self.path)):
            if not path.startswith("/") or "\0" in path or len(path) > _LONGEST_PATH:
                raise InvalidValue(f"{name} must be an absolute path")
        for at, pattern in enumerate(self._words):
            try:
                Pattern(pattern)
            except BadPattern as error:
                raise InvalidValue(f"args[{at}] {error}") from None
        if len(self.args or ()) > _MOST_PATTERNS or self.args == (_MORE,):
            raise InvalidValue(f"args must be at most {_MOST_PATTERNS} patterns, with one before {_MORE!r}")
        for field, names in (("env", self.env), ("inherit", self.inherit)):
            if len(names) > _MOST_NAMES:
                raise InvalidValue(f"{field} must be at most {_MOST_NAMES} names")
            for at, name in enumerate(names):
                if not _VARIABLE.fullmatch(name):
                    raise InvalidValue(f"{field}[{at}] must be the name of a variable")
                if _LOADER.fullmatch(name) or name.startswith(_OURS) or (field == "env" and name == _SEARCH):
                    raise InvalidValue(f"{field}[{at}] must not be {name}")

    def takes(self, args: Sequence[str]) -> bool:
        """Whether these arguments are allowed."""
        if self.args is None:
            return True
        patterns = self._patterns
        if self._is_open:
            repeated = patterns[-1:] * (len(args) - len(patterns) + 1)
            patterns = patterns[:-1] + repeated
        if len(patterns) != len(args) or sum(map(len, args)) > _LONGEST_MATCHED:
            return False
        return all(pattern.matches(arg) for pattern, arg in zip(patterns, args, strict=True))

    def settled(self) -> "Program":
        """With what the path leads to now. Raises `InvalidValue` if that is no program, or not the one that was granted before."""
        real = os.path.realpath(self.path)
        if self.real not in ("", real):
            raise InvalidValue("real is not what the path leads to")
        opened = _opened(real)
        if opened is None:
            raise InvalidValue("path is not a program of this machine that can be read")
        try:
            digest = _digest(opened) if self.pinned else ""
        except OSError:
            raise InvalidValue("path is a program that cannot be read, or is being replaced") from None
        finally:
            os.close(opened.descriptor)
        if self.pinned and self.digest not in ("", digest):
            raise InvalidValue("digest is not that of the program")
        return replace(self, real=real, digest=digest)

    @property
    def _is_open(self) -> bool:
        return self.args is not None and self.args[-1:] == (_MORE,)

    @property
    def _words(self) -> tuple[str, ...]:
        words = self.args or ()
        return words[:-1] if self._is_open else words

    @cached_property
    def _patterns(self) -> list[Pattern]:
        return [Pattern(word) for word in self._words]


class Opened(NamedTuple):
    """The file of a program, open."""

    descriptor: int
    path: str
    is_script: bool
    """Whether the system runs another program with it."""
    identity: tuple[int, ...]
    folders: list[Identity]
    """The folders that lead to it, from the top."""


def choose(programs: Sequence[Program], cmd: str, args: Sequence[str], env: Mapping[str, str]) -> Program:
    """The program that a call is for. Raises what says why there is none."""
    named = [program for program in programs if program.path == cmd]
    if not named:
        raise HostError("this program is not one that the template allows", code="PROGRAM_NOT_ALLOWED")
    fitting = [program for program in named if program.takes(args)]
    if not fitting:
        raise HostError("the template does not allow this program these arguments", code="ARGUMENTS_NOT_ALLOWED")
    for program in fitting:
        if env.keys() <= set(program.env):
            return program
    name = min(env.keys() - set(fitting[0].env))
    raise HostError(f"the template does not allow to set the variable {name[:40]!r}", code="VARIABLE_NOT_ALLOWED")


@contextmanager
def open_program(program: Program, worktree: os.stat_result) -> Iterator[Opened]:
    """The program itself, if it is what was granted. One in the worktree is none: a script may be able to write there."""
    opened = _opened(program.real or os.path.realpath(program.path))
    try:
        if opened is None or Identity.of(worktree) in opened.folders:
            raise HostError("this program is not there, or lies in the worktree", code="PROGRAM_NOT_ALLOWED")
        if program.pinned and program.digest and not _has_digest(opened, program.digest):
            raise HostError("this program is not what it was when the template allowed it", code="PROGRAM_NOT_ALLOWED")
        yield opened
    finally:
        if opened is not None:
            os.close(opened.descriptor)


def _has_digest(opened: Opened, digest: str) -> bool:
    try:
        return _digest(opened) == digest
    except OSError:
        return False


def _opened(real: str) -> Opened | None:
    """A program by its real path: through no link, and none of Holdfast's own files."""
    name = os.path.basename(real)
    folders: list[Identity] = []
    try:
        folder = open_root(os.path.dirname(real), folders)
    except (WorktreeNotAllowed, WorktreeNotFound):
        return None
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and not is_protected(found) and os.access(name, os.X_OK, dir_fd=folder):
            return Opened(descriptor, real, os.pread(descriptor, 2, 0) == b"#!", _identity(found), folders)
        os.close(descriptor)
    except (OSError, ValueError):
        pass
    finally:
        os.close(folder)
    return None


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(opened: Opened) -> str:
    """What is in the open file. It is read again only if it has changed."""
    return _digest_of(opened.identity, _Descriptor(opened.descriptor))


class _Descriptor(int):
    """A descriptor that is no part of a cache's key: all descriptors of a file are alike."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descriptor)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=256)
def _digest_of(identity: tuple[int, ...], descriptor: _Descriptor) -> str:
    known, at = hashlib.sha256(), 0
    while data := os.pread(descriptor, _PIECE, at):
        known.update(data)
        at += len(data)
    if _identity(os.fstat(descriptor)) != identity:
        raise OSError("it is being replaced")
    return f"sha256:{known.hexdigest()}"
