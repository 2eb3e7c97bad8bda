"""`fs`: files of the session's worktree, and of other folders that the template's config names."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.capabilities.files import protected
from holdfast.capabilities.files._quota import Quota
from holdfast.capabilities.files._walk import LARGEST, Unfit, Walk, lineage, told
from holdfast.capabilities.files._writes import make_folder, make_folders, remove, rename, write
from holdfast.capabilities.files.protected import Identity
from holdfast.capabilities.files.worktree import locate, resolve_root
from holdfast.capabilities.native import NativeModule, Scope, effect
from holdfast.domain import EffectKind, FileNotFound, InvalidValue, WorktreeNotAllowed, WorktreeNotFound
from holdfast.sandbox import HostError

_TEXT: Final = ("utf8", "utf-8")
_BYTES: Final = "buffer"
_MARK: Final = "@"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)
_MOST_ROOTS: Final = 20
_MOST_BYTES: Final = 1 << 40
_MOST_FILES: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class FsRoot:
    """A folder beside the worktree, and whether scripts may write there. It is named as it really is, so that no link is trusted."""

    folder: str
    write: bool = False

    def __post_init__(self) -> None:
        try:
            is_real = self.folder != "/" and resolve_root(self.folder) == self.folder
        except (WorktreeNotAllowed, WorktreeNotFound):
            is_real = False
        if not is_real:
            raise InvalidValue("folder must be the absolute path of a folder that is there, without links, and not the top")


@dataclass(frozen=True, slots=True)
class FsConfig:
    """Whether scripts may write in the worktree, which other folders they see, and how much may be in each that they write in."""

    write: bool = False
    roots: dict[str, FsRoot] = field(default_factory=dict)
    max_bytes: int = 1 << 30
    max_files: int = 100_000
    max_file_bytes: int = LARGEST
    hard_links: bool = False

    def __post_init__(self) -> None:
        if len(self.roots) > _MOST_ROOTS:
            raise InvalidValue(f"roots must be at most {_MOST_ROOTS}")
        if not all(_NAME.fullmatch(name) for name in self.roots):
            raise InvalidValue("roots must have names of at most 40 small letters, digits, _ and -")
        for name, most in (("max_bytes", _MOST_BYTES), ("max_files", _MOST_FILES), ("max_file_bytes", LARGEST)):
            if not 0 <= getattr(self, name) <= most:
                raise InvalidValue(f"{name} must be from 0 to {most}")


@dataclass(frozen=True, slots=True)
class Encoding:
    """Of a file that is read or written."""

    encoding: str = "utf8"


@dataclass(frozen=True, slots=True)
class MakeOptions:
    """With `recursive` the folders on the way are made too, and one that is there is as good as a new one."""

    recursive: bool = False


@dataclass(frozen=True, slots=True)
class RemoveOptions:
    """With `recursive` also folders, with `force` also what is not there."""

    recursive: bool = False
    force: bool = False


class _Root(NamedTuple):
    path: str
    write: bool


class _Owner(NamedTuple):
    """The root that a folder belongs to: the innermost, if roots lie in one another."""

    root: _Root
    folder: int


class Fs(NativeModule):
    """A path is relative to the worktree, or absolute and inside it, or begins with `@` and the name of another root."""

    name: ClassVar[str] = "fs"
    description: ClassVar[str] = (
        "Reads files of the session's worktree and of roots in its config, and writes them if that says so."
    )
    config_type: ClassVar[type[Any]] = FsConfig
    confined_fields: ClassVar[frozenset[str]] = frozenset({"write", "max_bytes", "max_files", "max_file_bytes"})

    def __init__(self, scope: Scope, config: FsConfig) -> None:
        super().__init__(scope, config)
        self._roots = {name: _Root(root.folder, root.write) for name, root in config.roots.items()}
        self._quotas: dict[str, Quota] = {}

    @effect(EffectKind.READ)
    def readFileSync(self, path: str, encoding: str | Encoding = "utf8") -> str | bytes:  # noqa: N802 - the name that scripts see
        as_text = _is_text(encoding)
        with self._walk(path, "this file cannot be read") as (walk, names):
            data = walk.read(walk.to_file(names), self.config.max_file_bytes)
        if not as_text:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            message = f"this file is not text in UTF-8: read it with the encoding {_BYTES!r}"
            raise HostError(message, code="NOT_TEXT") from None

    @effect(EffectKind.READ)
    def existsSync(self, path: str) -> bool:  # noqa: N802
        """Whether a file or folder is there. A path that leads out is refused, like everywhere: that is neither yes nor no."""
        try:
            with self._walk(path, "this cannot be looked at") as (walk, names):
                walk.go(names)
        except FileNotFound:
            return False
        return True

    @effect(EffectKind.READ)
    def readdirSync(self, path: str) -> list[str]:  # noqa: N802
        with self._walk(path, "this folder cannot be read") as (walk, names):
            if walk.go(names) is not None:
                raise Unfit("this is not a folder", "NOT_FOLDER")
            return walk.entries()

    @effect(EffectKind.READ)
    def statSync(self, path: str) -> dict[str, Any]:  # noqa: N802
        """Plain values: objects with methods cannot cross into a sandbox."""
        with self._walk(path, "this cannot be looked at") as (walk, names):
            name = walk.go(names)
            found = walk.look_at(name)
        return {
            "size": found.st_size,
            "isFile": name is not None,
            "isDirectory": name is None,
            "mtimeMs": found.st_mtime_ns / 1e6,
        }

    @effect(EffectKind.IDEMPOTENT)
    def writeFileSync(self, path: str, data: str | bytes, encoding: str | Encoding = "utf8") -> None:  # noqa: N802
        """The whole file at once: whoever reads sees what was there before, or all of this."""
        _is_text(encoding)
        content = data.encode() if isinstance(data, str) else data
        if len(content) > self.config.max_file_bytes:
            raise HostError(f"a file has at most {self.config.max_file_bytes} bytes", code="FILE_TOO_LARGE")
        self._check_grant()
        with self._walk(path, "this file cannot be written") as (walk, names):
            name = walk.to_file(names, new=True)
            owner, found = self._owner(walk), walk.look(name)
            self._take(owner, len(content) - (found.st_size if found else 0), 0 if found else 1)
            write(walk, name, content)

    # Twice is not as good as once for those below: what one has done makes the other fail, or do it to something else.
    @effect(EffectKind.ONCE)
    def mkdirSync(self, path: str, options: MakeOptions | None = None) -> None:  # noqa: N802
        self._check_grant()
        make = make_folders if options and options.recursive else make_folder
        with self._walk(path, "this folder cannot be made") as (walk, names):
            make(walk, names, lambda count: self._take(self._owner(walk), 0, count))

    @effect(EffectKind.ONCE)
    def rmSync(self, path: str, options: RemoveOptions | None = None) -> None:  # noqa: N802
        """A link is removed itself, not what it names."""
        self._check_grant()
        options = options or RemoveOptions()
        try:
            with self._walk(path, "this cannot be removed") as (walk, names):
                name = walk.to_name(names)
                self._owner(walk)
                remove(walk, name, self._on_the_way(), self._check, recursive=options.recursive)
        except FileNotFound:
            if not options.force:
                raise

    @effect(EffectKind.ONCE)
    def renameSync(self, path: str, to: str) -> None:  # noqa: N802
        """Within one root: what one holds is not to become a part of another, which has limits of its own."""
        self._check_grant()
        failure = "this cannot be renamed"
        with self._walk(path, failure) as (source, names), self._walk(to, failure) as (target, others):
            name, new = source.to_name(names), target.to_name(others)
            if self._owner(source).root != self._owner(target).root:
                raise HostError("a rename stays within one root: write a copy, and remove this", code="DIFFERENT_ROOTS")
            rename(source, name, target, new, self._on_the_way(), self._check)

    @contextmanager
    def _walk(self, path: str, failure: str) -> Iterator[tuple[Walk, list[str]]]:
        """A walk at the root of a path, and the names that lead on from there."""
        mark, _, rest = path.partition("/")
        other = self._roots.get(mark[1:]) if mark.startswith(_MARK) else None
        root = self.scope.root if other is None else other.path
        names = locate(root, path if other is None else rest.lstrip("/") or ".")
        try:
            with Walk(root, hard_links=self.config.hard_links) as walk, told(failure):
                yield walk, names
        except Unfit as error:
            raise HostError(str(error), code=error.script_code) from None

    def _check_grant(self) -> None:
        """Whether scripts may write anywhere. Where they may, is asked when it is known where that is."""
        if not any(root.write for root in self._all()):
            raise HostError("the template does not allow to write files", code="WRITE_NOT_ALLOWED")

    def _owner(self, walk: Walk) -> _Owner:
        """Whose the folder is that a walk has come to. Raises unless scripts may write there."""
        known = self._known()
        for folder in walk.back():
            root = known.get(Identity.of(os.fstat(folder)))
            if root is not None:
                if root.write:
                    return _Owner(root, folder)
                break
        raise HostError("the template does not allow to write here", code="WRITE_NOT_ALLOWED")

    def _known(self) -> dict[Identity, _Root]:
        """The roots that are there. If two are the same folder, one in which nobody may write decides."""
        known: dict[Identity, _Root] = {}
        for root in self._all():
            for identity in lineage(root.path)[-1:]:
                if identity not in known or not root.write:
                    known[identity] = root
        return known

    def _on_the_way(self) -> set[Identity]:
        """The folders that lead to a root or to what is protected, and those themselves."""
        paths = [*(root.path for root in self._all()), *(place.folder for place in protected.places())]
        return {identity for path in paths for identity in lineage(path)} | protected.forbidden()

    def _all(self) -> list[_Root]:
        worktree = self.scope.worktree
        return [*([] if worktree is None else [_Root(worktree, self.config.write)]), *self._roots.values()]

    def _take(self, owner: _Owner, size: int, files: int) -> None:
        quota = self._quotas.setdefault(owner.root.path, Quota(self.config.max_bytes, self.config.max_files))
        quota.take(size, files, owner.folder, self._check, self._known().keys() | protected.forbidden())

    def _check(self) -> None:
        """Called again and again by what may take long."""
        if self.scope.is_stopped():
            raise HostError("the execution was cancelled", code="CANCELLED")
        if self.scope.time_left(True) <= 0:
            raise HostError("this took too long", code="FS_TIMEOUT")


def _is_text(encoding: str | Encoding) -> bool:
    word = (encoding if isinstance(encoding, str) else encoding.encoding).lower()
    if word not in (*_TEXT, _BYTES):
        raise HostError(f"an encoding is 'utf8' or {_BYTES!r}", code="INVALID_ARGUMENT")
    return word in _TEXT
