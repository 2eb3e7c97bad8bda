"""What is done to packages that are there: folders are linked in their place, they are removed, and compared with what was added."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from holdfast.strategies import names
from holdfast.strategies._errors import PackageExists, PackageInvalid, PackageNotFound
from holdfast.strategies._files import at_rest
from holdfast.strategies.adding import changing, put_away
from holdfast.strategies.content import read_content
from holdfast.strategies.lock import read_lock
from holdfast.strategies.packages import Folder, differences, is_package, read_added

State = Literal["ok", "by hand", "linked", "changed", "missing"]


@dataclass(frozen=True, slots=True)
class Verified:
    """A package, and how it is. Of one that has changed, which of its files were changed, are missing, or are there besides."""

    name: str
    source: str
    state: State
    changed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def is_bad(self) -> bool:
        return self.state in ("changed", "missing")


def link(folder: Folder, path: Path, name: str | None = None, *, force: bool = False) -> str:
    """Has a folder used as a package where it is, as it is each time. Gives its name: that of the folder, unless another is given.

    It comes before a package of the same name. `PackageExists` if there is one, or another link, unless this is to be taken instead.
    """
    if folder.lock is None:
        raise PackageInvalid("packages cannot be linked in this folder: it has no lock")
    place = Path(os.path.abspath(path))
    if not is_package(place):
        raise PackageInvalid(f"{place.name[:80]!r} is not a folder with an init.lua or an init.js")
    read_content(place)
    name = names.check_new(place.name if name is None else name)
    base = Path(os.path.abspath(folder.lock)).parent
    kept = str(place.relative_to(base)) if place.is_relative_to(base) else str(place)
    with changing(folder) as lock:
        taken = lock.links.get(name, kept) != kept or name in lock.packages or os.path.lexists(folder.path / name)
        if taken and not force and place != folder.path / name:
            raise PackageExists(f"{name}: another package or link of this name is there").with_details(packages=[name])
        lock.links[name] = kept
    return name


def remove(folder: Folder, name: str) -> Literal["link", "package"]:
    """Removes a link, and else a package with its files. Says which of both it was. `PackageNotFound` if there is neither."""
    names.check_name(name)
    if folder.lock is None:
        raise PackageNotFound(f"there is no package {name!r} that could be removed")
    with changing(folder) as lock:
        if lock.links.pop(name, None) is not None:
            return "link"
        place = folder.path / name
        if lock.packages.pop(name, None) is None and not os.path.lexists(place):
            raise PackageNotFound(f"there is no package {name!r} here that could be removed")
        put_away(place)
    return "package"


def verify(folder: Folder) -> list[Verified]:
    """How each package of a folder is that was added, is linked, or is there, by name."""
    with at_rest(folder.hold):
        return _verified(folder)


def _verified(folder: Folder) -> list[Verified]:
    lock = read_lock(folder.lock) if folder.lock is not None else None
    added, links = ({}, {}) if lock is None else (lock.packages, lock.links)
    base = folder.lock.parent if folder.lock is not None else folder.path
    found: list[Verified] = []
    for name, path in links.items():
        found.append(Verified(name, "link", "linked" if is_package(base / path) else "missing"))
    for name, locked in added.items():
        try:
            added_to = read_added(folder, name, locked, read_content)
        except PackageInvalid as error:
            found.append(Verified(name, locked.source, "changed", problem=str(error)))
            continue
        if added_to is None:
            found.append(Verified(name, locked.source, "missing", missing=sorted(locked.files)))
            continue
        changed, missing, more = differences(locked.files, added_to[1].hashes).values()
        state: State = "changed" if changed or missing or more else "ok"
        found.append(Verified(name, locked.source, state, changed, missing, more))
    there = os.listdir(folder.path) if folder.path.is_dir() else []
    others = [name for name in there if names.is_name(name) and name not in added and is_package(folder.path / name)]
    found += [Verified(name, "", "by hand") for name in others]
    return sorted(found, key=lambda one: (one.name, one.source))
