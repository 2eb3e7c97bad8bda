"""How packages come to a project or a user: from a folder or an archive, one or many at once, all or none.

They are written beside their places first, then the lock says that they are there, then they are put into their places. Whoever looks finds
them in either place, so that the lock alone decides: whenever somebody is killed, all of them have been added or none.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.strategies import archives, names
from holdfast.strategies._errors import PackageExists, PackageInvalid
from holdfast.strategies._files import held, write_tree
from holdfast.strategies.content import Content, read_content
from holdfast.strategies.lock import Lock, Locked, read_lock, write_lock, written
from holdfast.strategies.packages import NEW, Folder, is_package

_OLD: Final = ".old-"
_MOST: Final = 1_000
"""Packages in a collection."""
_NONE: Final = "there is no init.lua or init.js in it, nor in one of its folders"


class Added(NamedTuple):
    """A package that was added. `state` is `added`, `replaced`, or `unchanged` if it was there before."""

    name: str
    languages: tuple[str, ...]
    files: int
    sha256: str
    state: str


def add(folder: Folder, source: Path, name: str | None = None, *, force: bool = False) -> list[Added]:
    """Adds what is in a folder or an archive: a package, or a collection of packages in folders of their own.

    A name is for a single one, which else has that of its folder or archive. `PackageInvalid` if something is wrong with one of them,
    `PackageExists` if another one of its name is there, unless it is to be replaced. Nothing is changed then.
    """
    found = packages_in(source, name)
    with changing(folder) as lock:
        folder.path.mkdir(parents=True, exist_ok=True)
        states = {name: _state(folder, lock, name, content) for name, content in found.items()}
        taken = [name for name, state in states.items() if state == "replaced"]
        if taken and not force:
            raise PackageExists(f"{', '.join(taken)[:200]}: another package of this name is there").with_details(packages=taken)
        for one, content in found.items():
            if states[one] != "unchanged":
                _write(folder, one, content)
        for one, content in found.items():
            lock.packages[one] = Locked(source.absolute().name, content.sha256, content.hashes)
            lock.links.pop(one, None)
    return [Added(one, content.languages, len(content.files), content.sha256, states[one]) for one, content in found.items()]


def packages_in(source: Path, name: str | None = None) -> dict[str, Content]:
    """What a folder or an archive has in it, by the names that it would get."""
    if source.is_dir():
        found = _in_folder(source)
    elif archives.is_archive(source):
        found = _in_files(archives.read_archive(source), archives.stem(source))
    else:
        kinds = ", ".join(archives.ENDINGS)
        raise PackageInvalid(f"{source.name[:80]!r} is not a folder that is there, nor an archive ({kinds})")
    if name is not None:
        if len(found) > 1:
            raise PackageInvalid("a name is for one package, and there are several")
        return dict.fromkeys([names.check_new(name)], *found.values())
    made = {_name(word): content for word, content in found.items()}
    if len(made) < len(found):
        raise PackageInvalid("two of the packages would have the same name")
    return made


def _name(word: str) -> str:
    if not names.is_name(word):
        word = names.name_of(word)
    if not names.is_name(word):
        raise PackageInvalid(f"{ascii(word)[:80]} is not a name for a package: say which it shall have")
    return names.check_new(word)


def _in_folder(source: Path) -> dict[str, Content]:
    if is_package(source):
        return {source.absolute().name: read_content(source)}
    entries = sorted(entry.name for entry in os.scandir(source) if not names.is_left_out(entry.name))
    found = [name for name in entries if is_package(source / name)]
    if not found:
        raise PackageInvalid(_NONE)
    if len(found) > _MOST:
        raise PackageInvalid(f"a collection has at most {_MOST} packages")
    made: dict[str, Content] = {}
    total = 0
    for name in found:
        made[name] = read_content(source / name)
        total += sum(map(len, made[name].files.values()))
        if total > archives.LARGEST:
            raise PackageInvalid(f"a collection has at most {archives.LARGEST >> 20} MB in all")
    return made


def _in_files(files: Mapping[str, bytes], title: str) -> dict[str, Content]:
    """The same for the files of an archive, which may all be in one folder more."""
    for _ in range(2):
        if any(init in files for init in names.INIT.values()):
            return {title: Content.of(files)}
        below: dict[str, dict[str, bytes]] = {}
        for path, data in files.items():
            top, slash, rest = path.partition("/")
            if slash:
                below.setdefault(top, {})[rest] = data
        found = {top: inner for top, inner in below.items() if any(init in inner for init in names.INIT.values())}
        if found:
            return {top: Content.of(inner) for top, inner in sorted(found.items())}
        if len(below) != 1:
            break
        ((title, files),) = below.items()
    raise PackageInvalid(_NONE)


def _state(folder: Folder, lock: Lock, name: str, content: Content) -> str:
    """What adding it would come to."""
    root, locked = folder.path / name, lock.packages.get(name)
    if name not in lock.links and not os.path.lexists(root) and (locked is None or locked.sha256 == content.sha256):
        return "added"
    try:
        same = read_content(root).sha256 == content.sha256
    except PackageInvalid:
        same = False
    return "unchanged" if same and name not in lock.links else "replaced"


# ---- folders -----------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def changing(folder: Folder) -> Iterator[Lock]:
    """Gives the lock of a folder to be changed, while nobody else changes it or the packages."""
    if folder.lock is None:
        raise PackageInvalid("packages of this folder cannot be changed: it has no lock")
    with held(folder.hold):
        lock = read_lock(folder.lock)
        _settle(folder, lock)
        before = written(lock)
        try:
            yield lock
            if written(lock) != before:
                write_lock(folder.lock, lock)
        except BaseException:
            lock = read_lock(folder.lock)
            raise
        finally:
            _settle(folder, lock)


def _write(folder: Folder, name: str, content: Content) -> None:
    """Writes a package beside its place."""
    try:
        new = write_tree(folder.path, content.files)
    except (FileExistsError, NotADirectoryError):  # where capital letters make no difference, or a file is a folder as well
        raise PackageInvalid("two files of the package have the same name here") from None
    (folder.path / new).rename(folder.beside(name, content.sha256))


def put_away(place: Path) -> None:
    """Takes what is there from the place of a package. A link is removed, and not what it leads to."""
    if place.is_dir() and not place.is_symlink():
        place.rename(place.with_name(f"{_OLD}{secrets.token_hex(8)}"))
    elif os.path.lexists(place):
        place.unlink()


def _settle(folder: Folder, lock: Lock) -> None:
    """Puts what was added into its place, and removes what was put away, or was never added."""
    left = _left_in(folder)
    for name, locked in lock.packages.items() if left else ():
        beside = folder.beside(name, locked.sha256)
        if beside in left and _is_whole(beside, locked.sha256):
            put_away(folder.path / name)
            beside.rename(folder.path / name)
    for path in _left_in(folder):
        shutil.rmtree(path, ignore_errors=True)


def _left_in(folder: Folder) -> set[Path]:
    try:
        return {folder.path / name for name in os.listdir(folder.path) if name.startswith((NEW, _OLD))}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _is_whole(root: Path, sha256: str) -> bool:
    try:
        return read_content(root).sha256 == sha256
    except PackageInvalid:
        return False
