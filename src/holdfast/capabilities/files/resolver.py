"""What names of modules mean in a session: modules of its template, files of its worktree, and strategy packages.

Theory of operation
-------------------
A name is made a list of places, relative to the worktree, by the template's settings; each is looked for with each extension, and the
first that is there is the module. Its full name is where it really is, without links: a file is one module however it is named, and
what it names relatively is looked for beside it. What is found neither in the template nor in the worktree may be a package, whose files
have full names of their own.

Who names a module says where it names it from, and may lie about that. So all of this is arithmetic on names, and nothing is allowed
because of where a name came from. What is opened is walked from the root, folder by folder, and never leads out of it.
"""

import errno
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, Protocol

from holdfast.capabilities.catalogue import modules
from holdfast.capabilities.files._walk import Unfit, Walk, told
from holdfast.capabilities.files.worktree import parse_path, read_file
from holdfast.domain import HoldfastError, InvalidPath, TemplateSpec
from holdfast.sandbox import HostError, Module, Modules

FileKind = Literal["module", "commonjs", "either", "script", "json"]

_KINDS: Final[dict[str, dict[str, FileKind]]] = {
    "javascript": {".js": "either", ".mjs": "module", ".cjs": "commonjs", ".json": "json"},
    "lua": {".lua": "script", ".json": "json"},
}
_OTHERS: Final[dict[str, FileKind]] = {"javascript": "either", "lua": "script"}
_INDEX: Final = {"javascript": "index", "lua": "init"}
_NOT_FOUND: Final = "MODULE_NOT_FOUND"
_NAMES: Final = ("holdfast:", "node:")
"""How names begin that are no URLs."""
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ENCODED: Final = re.compile(r"%(?:25)*(?:2e|2f|5c|00)", re.IGNORECASE)
_OUT: Final = "a module must not be looked for outside of the worktree"
_WORD: Final = re.compile(r"[^./]*")
_LONGEST: Final = 4096
_LONGEST_SHOWN: Final = 200


class Packages(Protocol):
    """Packages that a template grants. What it does not grant, or cannot be used, raises a `HoldfastError`."""

    @property
    def grants_any(self) -> bool:
        """Whether any may be found."""

    def owns(self, referrer: str) -> bool:
        """Whether a full name is that of a file of a package."""

    def resolve(self, specifier: str, referrer: str) -> str | None:
        """The full name of what is named by a package's name, or relative to a file of one. None if there is no such thing."""

    def load(self, name: str) -> Module | None:
        """The file of a full name. None if it is not there."""


class Resolver:
    """What holds for all sessions of a template: its own modules, and where else to look."""

    def __init__(self, spec: TemplateSpec, own: Modules, packages: Packages | None = None) -> None:
        language = spec.language
        kinds = _KINDS[language]
        foreign = {ending for name, others in _KINDS.items() if name != language for ending in others} - kinds.keys()
        given = [extension for extension in spec.resolver["extensions"] if extension not in foreign]
        self.own, self.packages = own, packages
        self.files = frozenset(file.filename for file in spec.modules)
        self.is_lua = language == "lua"
        self.roots: tuple[str, ...] = tuple(spec.resolver["roots"])
        self.extensions = (*given, ".lua") if self.is_lua and ".lua" not in given else tuple(given)
        """What a name may go without, in the order in which it is tried."""
        self.endings = (*kinds, *given)
        """What the name of a file ends with that is a module."""
        self.index = _INDEX[language]
        self.allows_absolute: bool = spec.resolver["allow_absolute_repo_imports"]
        self._kinds: Mapping[str, FileKind] = kinds
        self._other = _OTHERS[language]

    def kind(self, path: str) -> FileKind:
        """What a file is, by its name."""
        return self._kinds.get(posixpath.splitext(path)[1], self._other)


class SessionModules:
    """The modules of one session. Without a worktree there are those of its template only."""

    def __init__(self, resolver: Resolver, root: str | None) -> None:
        self._resolver, self._root = resolver, root

    @property
    def reads_files(self) -> bool:
        """Whether what it finds may be another thing the next time."""
        packages = self._resolver.packages
        return self._root is not None or (packages is not None and packages.grants_any)

    def resolve(self, specifier: str, referrer: str, kind: str) -> str:
        """The full name of a module. `INVALID_PATH` if the name leads out, `MODULE_NOT_FOUND` if nothing is there."""
        if not _is_relative(specifier):
            try:
                return self._resolver.own.resolve(specifier, "", kind)
            except HostError as error:
                if error.script_code != _NOT_FOUND or (specifier.startswith(_NAMES) and "/" not in specifier):
                    raise
        packages = self._resolver.packages
        try:
            _check(specifier)
            inside = packages is not None and _is_relative(specifier) and packages.owns(referrer)
            found = None if inside else self._find(specifier, referrer)
            if found is None and packages is not None and not _is_of_native(specifier):
                found = packages.resolve(specifier, referrer)
        except HostError:
            raise
        except HoldfastError as error:
            raise _told(error, specifier) from None
        if found is None:
            raise _absent(specifier)
        return found

    def load(self, name: str) -> Module:
        """The module of a full name."""
        if name in self._resolver.own:
            return self._resolver.own.load(name)
        packages = self._resolver.packages
        try:
            if packages is not None and packages.owns(name):
                found = packages.load(name)
            else:
                found = None if self._root is None else Module(self._resolver.kind(name), read_file(self._root, name).text)
        except HostError:
            raise
        except HoldfastError as error:
            raise _told(error, name) from None
        if found is None:
            raise _absent(name)
        return found

    def _find(self, specifier: str, referrer: str) -> str | None:
        places = self._places(specifier, referrer)
        paths = [path for place in places for path in self._paths(place, specifier)]
        for path in (*places, *paths):
            if path in self._resolver.files:
                return path
        for path in paths if self._root is not None else ():
            found = _find_file(self._root or "", path)
            if found is not None:
                packages = self._resolver.packages
                return f"./{found}" if packages is not None and packages.owns(found) else found
        if specifier.startswith("/") and self._below(specifier) is None:  # it was perhaps meant to be one of the host's
            raise InvalidPath(_OUT)
        return None

    def _places(self, specifier: str, referrer: str) -> list[str]:
        """Where a name may lead, relative to the worktree."""
        if _is_relative(specifier):
            whole = posixpath.join(posixpath.dirname(referrer), specifier)
            place = self._below(whole) if whole.startswith("/") else _inside(whole)
            if place is None:
                raise InvalidPath(_OUT)
            return [place]
        if specifier.startswith("/"):
            if not self._resolver.allows_absolute:
                raise InvalidPath("the template does not allow absolute paths of modules")
            place = self._below(specifier)
            return [_inside(posixpath.normpath("/" + specifier).lstrip("/")) if place is None else place]
        if not specifier.strip():
            return []
        names = [specifier]
        if self._resolver.is_lua:
            dotted = specifier.split(".")
            if "" in dotted:
                raise InvalidPath("a name has no empty parts between its dots")
            names = ["/".join(dotted)]
            if "/" in specifier or specifier.endswith(self._resolver.endings):
                names.append(specifier)
        return [_inside(posixpath.join(root, name)) for name in names for root in self._resolver.roots]

    def _paths(self, place: str, specifier: str) -> Iterator[str]:
        """The files that a place may mean, the first first."""
        resolver = self._resolver
        if place and not specifier.endswith(("/", "/.", "/..")) and specifier not in (".", ".."):
            if place.endswith(resolver.endings):
                yield place
            yield from (place + extension for extension in resolver.extensions)
        yield from (posixpath.join(place, resolver.index + extension) for extension in resolver.extensions)

    def _below(self, path: str) -> str | None:
        """Where an absolute path of the host lies in the worktree, by its name; None if it does not."""
        root, clean = (self._root or "").rstrip("/"), posixpath.normpath("/" + path.lstrip("/"))
        if self._root is None or not (clean == root or clean.startswith(root + "/")):
            return None
        return clean[len(root) + 1 :]


def _find_file(root: str, path: str) -> str | None:
    """Where a file really is, relative to the root. None if there is no file of this name."""
    names = parse_path(path).split("/")
    with Walk(root) as walk, told("this file cannot be read"):
        try:
            name = walk.go(names)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        return None if name is None else "/".join([*walk.names, name])


def _absent(name: str) -> HostError:
    return HostError(f"Invalid module: there is no module {name[:_LONGEST_SHOWN]!r}", code=_NOT_FOUND)


def _told(error: HoldfastError, name: str) -> HostError:
    message = f"module {name[:_LONGEST_SHOWN]!r}: {error}"
    return HostError(message, code=error.script_code if isinstance(error, Unfit) else error.code)


def _is_relative(specifier: str) -> bool:
    return specifier.startswith(("./", "../")) or specifier in (".", "..")


def _is_of_native(specifier: str) -> bool:
    """Whether it begins with the name of a native module: no package is found by that, nor a part of one."""
    word = _WORD.match(specifier)
    return word is not None and word[0] in modules()


def _check(specifier: str) -> None:
    """Refuses what another system, or somebody who decodes it once more, would take for a way out."""
    if len(specifier) > _LONGEST:
        raise InvalidPath(f"the name of a module has at most {_LONGEST} characters")
    if "\0" in specifier or "\\" in specifier:
        raise InvalidPath("the name of a module must not have NUL or a backslash in it")
    if _ENCODED.search(specifier):
        raise InvalidPath("the name of a module is taken as it is: it must not have percent-encoded dots or slashes in it")
    if _URL.match(specifier):
        raise InvalidPath("a module is named by a path in the worktree, or by its name, and not by a URL")


def _inside(path: str) -> str:
    """A relative path without detours; empty for the worktree itself."""
    clean = posixpath.normpath(path)
    if clean == ".." or clean.startswith(("../", "/")):
        raise InvalidPath(_OUT)
    return "" if clean == "." else clean
