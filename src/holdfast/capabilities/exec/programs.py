"""The programs that a template allows: what each is, and what a script may give it.

What a name leads to is settled when it is granted: the file itself, without links, and what is in it. When it is run it must still be the
same. What is checked is an open file, and that is what is run.
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
from holdfast.domain import InvalidValue
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
        os.close(opened.descriptor)
        if not self.pinned:
            return replace(self, real=real, digest="")
        try:
            digest = _digest(real, opened.identity)
        except OSError:
            raise InvalidValue("path is a program that cannot be read, or is being replaced") from None
        if self.digest not in ("", digest):
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
    """The system opens a script again, by its path."""
    identity: tuple[int, ...]


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
def open_program(program: Program, worktree: str) -> Iterator[Opened]:
    """The program itself, if it is what was granted. One in the worktree is none: a script may be able to write there."""
    real = os.path.realpath(program.real or program.path)
    opened = None
    if real == (program.real or real) and not real.startswith(worktree.rstrip("/") + "/"):
        opened = _opened(real)
    if opened is None:
        raise HostError("this program is not there, or lies in the worktree", code="PROGRAM_NOT_ALLOWED")
    try:
        if program.pinned and program.digest and not _has_digest(opened, program.digest):
            raise HostError("this program is not what it was when the template allowed it", code="PROGRAM_NOT_ALLOWED")
        yield opened
    finally:
        os.close(opened.descriptor)


def _has_digest(opened: Opened, digest: str) -> bool:
    try:
        return _digest(opened.path, opened.identity) == digest
    except OSError:
        return False


def _opened(real: str) -> Opened | None:
    try:
        descriptor = os.open(real, _READ)
    except (OSError, ValueError):
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or not os.access(real, os.X_OK):
        os.close(descriptor)
        return None
    return Opened(descriptor, real, os.pread(descriptor, 2, 0) == b"#!", _identity(found))


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=256)
def _digest(real: str, identity: tuple[int, ...]) -> str:
    """What is in a file. It is read again only if it has changed."""
    with open(os.open(real, _READ), "rb", buffering=0) as file:
        known = hashlib.sha256()
        while data := file.read(_PIECE):
            known.update(data)
        if _identity(os.fstat(file.fileno())) != identity:
            raise OSError("it is being replaced")
    return f"sha256:{known.hexdigest()}"
