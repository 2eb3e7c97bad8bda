"""Packages: folders with an `init.lua` or an `init.js`, and where they are looked for.

The first folder in which a package is found for a language counts: those of the project, of HOLDFAST_PACKAGES_PATH, of the user, and ours.
In a folder that has a lock, links come first. A package that was added, and is not there or not the same any more, is an error, and never
another one of the same name.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from holdfast.domain import HoldfastError
from holdfast.strategies import names
from holdfast.strategies._errors import PackageChanged, PackageInvalid, PackageNotFound
from holdfast.strategies._files import at_rest
from holdfast.strategies.content import Content, ContentCache
from holdfast.strategies.lock import LOCK, Lock, LockCache, Locked

Source = Literal["project", "path", "user", "bundled", "link"]

PACKAGES_PATH: Final = "HOLDFAST_PACKAGES_PATH"
PROJECT: Final = ".holdfast"
BUNDLED: Final = Path(__file__).parent / "bundled"
NEW: Final = ".new-"
"""How the name of a package begins that is not in its place yet."""
_PACKAGES: Final = "packages"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of packages. One that has a lock is one that packages are added to and linked in."""

    source: Source
    path: Path
    lock: Path | None = None

    @property
    def hold(self) -> Path:
        """Whoever changes packages here holds this file."""
        return self.path.with_name(".packages-held")

    def beside(self, name: str, sha256: str) -> Path:
        """Where it is from the moment that it is whole until it is in its place."""
        return self.path / f"{NEW}{name}-{sha256}"


def project_folder(project: Path) -> Folder:
    """The packages of a project."""
    return Folder("project", project / PROJECT / _PACKAGES, project / LOCK)


def user_folder(data_dir: Path | None = None) -> Folder:
    """The packages of a user: below HOLDFAST_DATA_DIR, or where the platform has such things."""
    if data_dir is None:
        data_dir = Path(named) if (named := os.environ.get("HOLDFAST_DATA_DIR")) else _user_data()
    return Folder("user", data_dir / _PACKAGES, data_dir / LOCK)


def _user_data() -> Path:
    import platformdirs

    return platformdirs.user_data_path("holdfast", appauthor=False)


def find_project(start: Path | None = None) -> Path | None:
    """The nearest folder upwards that has `.holdfast` or `holdfast.lock`, by default from the working directory.

    One that belongs to somebody else, or any of both, does not count: others may put such things into a folder that is everybody's.
    """
    try:
        start = Path.cwd() if start is None else start.absolute()
        trusted = {0, start.stat().st_uid, *([os.geteuid()] if hasattr(os, "geteuid") else [])}
    except OSError:  # it is gone
        return None
    for folder in (start, *start.parents):
        owners: set[int] = set()
        for mark in (folder / PROJECT, folder / LOCK):
            with contextlib.suppress(OSError):
                owners.add(mark.lstat().st_uid)
        if owners and owners <= trusted:
            return folder
    return None


@dataclass(frozen=True, slots=True)
class Package:
    """A package in one language, with all that was in it when it was looked for."""

    name: str
    language: str
    source: Source
    root: Path
    content: Content

    @property
    def text(self) -> str:
        """That of its init file."""
        return self.content.text(names.INIT[self.language])

    @property
    def sha256(self) -> str:
        return self.content.sha256

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of each file."""
        return self.content.hashes

    def file_of(self, part: str = "") -> str | None:
        """The file that a part of it means: `sub` is `sub.lua` or `sub/init.lua`. Without a part, the init file."""
        tried = names.files_of(names.Place(self.name, part), self.language)
        return next((file for file in tried if file in self.content.files), None)


class Listed(NamedTuple):
    """A package that is there, or should be. Without a content it cannot be used, and `problem` says why."""

    name: str
    language: str
    source: Source
    package: Package | None
    problem: HoldfastError | None = None
    hides: tuple[Source, ...] = ()
    """Where others of the same name and language are, which are not found because of this one."""


class PackagePath:
    """Folders of packages, the first first. They need not be there, and are looked at each time: what is added can be used at once.

    For any thread.
    """

    def __init__(self, folders: Sequence[Folder]) -> None:
        self.folders = tuple(folders)
        self._contents, self._locks = ContentCache(), LockCache()

    @classmethod
    def default(cls, project: Path | None = None, user: Path | None = None) -> Self:
        """The packages of a project, of HOLDFAST_PACKAGES_PATH, of a user by the data directory, and ours."""
        named = [Path(word) for word in os.environ.get(PACKAGES_PATH, "").split(os.pathsep) if word]
        return cls(
            [
                *([] if project is None else [project_folder(project)]),
                *(Folder("path", folder.absolute()) for folder in named),
                user_folder(user),
                Folder("bundled", BUNDLED),
            ]
        )

    @classmethod
    def of(cls, *folders: str | os.PathLike[str]) -> Self:
        """The packages of these folders only."""
        return cls([Folder("path", Path(folder).absolute()) for folder in folders])

    def find(self, name: str, language: str | None = None) -> Package | None:
        """The package of a name, for a language or for any; None if there is none.

        `PackageInvalid` if what is there cannot be used, `PackageChanged` if it is not what was added.
        """
        names.check_name(name)
        for folder in self.folders:
            for package in self._in(folder, name):
                if language in (None, package.language):
                    return package
        return None

    def get(self, name: str, language: str | None = None) -> Package:
        """The package of a name. `PackageNotFound` if there is none."""
        found = self.find(name, language)
        if found is None:
            other = self.find(name) if language is not None else None
            told = f"there is no strategy package {name!r}"
            raise PackageNotFound(told if other is None else f"{told} for {language}: it is one for {other.language}")
        return found

    def load(self, name: str, part: str = "", language: str | None = None) -> str:
        """The text of a part of a package; without a part, of its init file."""
        package = self.get(name, language)
        file = package.file_of(names.inside(part))
        if file is None:
            raise PackageNotFound(f"the package {name!r} has no part {part[:80]!r}")
        return package.content.text(file)

    def list(self, language: str | None = None, name: str | None = None) -> tuple[Listed, ...]:
        """All that can be found, by name and language, and what is there and cannot be used; or only what has this name."""
        found: dict[tuple[str, str], Listed] = {}
        for folder in self.folders:
            for one in self._all(folder, name):
                if language not in (None, one.language):
                    continue
                first = found.setdefault((one.name, one.language), one)
                if first is not one:
                    found[one.name, one.language] = first._replace(hides=(*first.hides, one.source))
        return tuple(sorted(found.values(), key=lambda one: (one.name, one.language)))

    def _all(self, folder: Folder, only: str | None) -> Iterator[Listed]:
        """What is in a folder, also what cannot be used."""
        problem: HoldfastError | None = None
        lock = Lock()
        try:
            lock = self._lock_of(folder)
        except PackageInvalid as error:
            problem = error
        there = {*_folders_in(folder.path), *lock.packages, *lock.links}
        for name in sorted(there if only is None else there & {only}):
            source: Source = "link" if name in lock.links else folder.source
            try:
                if problem is not None:
                    raise problem
                for package in self._in(folder, name):
                    yield Listed(name, package.language, package.source, package)
            except HoldfastError as error:
                for language in _meant(folder.path / name, lock.packages.get(name)):
                    yield Listed(name, language, source, None, error)

    def _in(self, folder: Folder, name: str) -> Sequence[Package]:
        """The package of a folder in each of its languages, if it is there and is what was added."""
        try:
            return self._looked(folder, name)
        except (PackageChanged, PackageInvalid):
            if folder.lock is None:
                raise
            with at_rest(folder.hold):  # perhaps it was just being replaced
                return self._looked(folder, name)

    def _looked(self, folder: Folder, name: str) -> Sequence[Package]:
        lock = self._lock_of(folder)
        if folder.lock is not None and name in lock.links:
            root = folder.lock.parent / lock.links[name]
            if not is_package(root):
                raise PackageInvalid(f"{name!r} is a link to a folder that is not there, or is no package")
            return _spoken(name, "link", root, self._contents.read(root))
        root, locked = folder.path / name, lock.packages.get(name)
        if locked is None:
            return _spoken(name, folder.source, root, self._contents.read(root)) if is_package(root) else []
        found = read_added(folder, name, locked, self._contents.read)
        if found is None:
            raise PackageChanged(f"the package {name!r} was added, and is not there any more")
        root, content = found
        if content.sha256 != locked.sha256:
            raise _changed(name, content, locked)
        return _spoken(name, folder.source, root, content)

    def _lock_of(self, folder: Folder) -> Lock:
        return Lock() if folder.lock is None else self._locks.read(folder.lock)


def read_added(folder: Folder, name: str, locked: Locked, read: Callable[[Path], Content]) -> tuple[Path, Content] | None:
    """Where a package is that was added, and what is there; None: nothing. It may be another one by now.

    The lock is written before packages are put into their places: if somebody was killed in between, it is still beside its place.
    """
    beside, place = folder.beside(name, locked.sha256), folder.path / name
    if os.path.isdir(beside):
        with contextlib.suppress(PackageInvalid):
            content = read(beside)
            if content.sha256 == locked.sha256:
                return beside, content
    return (place, read(place)) if os.path.isdir(place) else None


def _spoken(name: str, source: Source, root: Path, content: Content) -> Sequence[Package]:
    return [Package(name, language, source, root, content) for language in content.languages]


def _changed(name: str, content: Content, locked: Locked) -> PackageChanged:
    return PackageChanged(f"the package {name!r} is not what was added").with_details(
        package=name, **{how: files[:20] for how, files in differences(locked.files, content.hashes).items()}
    )


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    """
    >>> differences({"a": "1", "b": "2"}, {"b": "3", "c": "4"})
    {'changed': ['b'], 'missing': ['a'], 'added': ['c']}
    """
    return {
        "changed": sorted(name for name in before.keys() & now.keys() if before[name] != now[name]),
        "missing": sorted(before.keys() - now.keys()),
        "added": sorted(now.keys() - before.keys()),
    }


def is_package(root: Path) -> bool:
    """Whether a folder has an init file."""
    return any(os.path.isfile(root / file) for file in names.INIT.values())


def _meant(root: Path, locked: Locked | None) -> list[str]:
    """The languages of a package that cannot be read, as far as one can tell."""
    known = () if locked is None else locked.files
    return [one for one, file in names.INIT.items() if file in known or os.path.isfile(root / file)] or ["lua"]


def _folders_in(path: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(path) if names.is_name(entry.name) and entry.is_dir()]
    except OSError:
        return []
