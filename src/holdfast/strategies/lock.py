"""The lock: which packages were added to a project, what they must be, and which folders are linked.

A file that people may read, and keep with the project. It is read without waiting, and replaced as a whole. One that cannot be understood
is an error: to go on without it would be to take packages that nobody has looked at.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.strategies._errors import PackageInvalid
from holdfast.strategies._files import Stamp, is_settled, read_whole, write_whole
from holdfast.strategies.content import hash_of
from holdfast.strategies.names import check_part, is_name

LOCK: Final = "holdfast.lock"
_FORMAT: Final = 1
_LARGEST: Final = 4 << 20
"""Bytes: some 40,000 files. To read it takes a second for each million."""
_HEAD: Final = """\
# The strategy packages of this project, and what they must be: one that is not is refused when a script asks for it.
# `holdfast strategy add`, `link` and `remove` write this file. Keep it with the project.
"""


class Locked(NamedTuple):
    """A package that was added. `source` is what it was added from, `files` has the SHA-256 of each of its files."""

    source: str
    sha256: str
    files: Mapping[str, str]


@dataclass(slots=True)
class Lock:
    """What a lock says, by the names of packages. Links are paths, absolute or relative to the lock's folder."""

    packages: dict[str, Locked] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


class LockCache:
    """Locks as long as they have not changed. For any thread."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stamp, Lock]] = {}

    def read(self, path: Path) -> Lock:
        """What a lock says. Nobody must change it."""
        try:
            stamp = Stamp.of(path.stat())
        except OSError:
            return read_lock(path)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        begun = time.time_ns()
        lock = read_lock(path)
        if is_settled([stamp], begun):
            self._known[path] = stamp, lock
        return lock


def read_lock(path: Path) -> Lock:
    """`PackageInvalid` unless it is one, or is not there."""
    import tomllib

    try:
        data = read_whole(path, _LARGEST)
        if len(data) > _LARGEST:
            raise PackageInvalid(f"{LOCK} is too large to be a lock")
        given = tomllib.loads(data.decode())
    except (FileNotFoundError, NotADirectoryError):
        return Lock()
    except OSError:
        raise PackageInvalid(f"{LOCK} cannot be read") from None
    except (ValueError, RecursionError):
        raise PackageInvalid(f"{LOCK} is not TOML") from None
    found = given.get("format")
    if type(found) is not int or found != _FORMAT:
        raise PackageInvalid(f"{LOCK} has the format {repr(found)[:40]}, and this Holdfast knows {_FORMAT}")
    try:
        return _understood(given)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise PackageInvalid(f"{LOCK} is not as `holdfast strategy` writes it") from None


def _understood(given: Mapping[str, Any]) -> Lock:
    lock = Lock()
    for entry in given.get("package", []):
        files = {_path(name): _hash(value) for name, value in entry["files"].items()}
        name, sha256 = _name(entry), _hash(entry["sha256"])
        if hash_of(files) != sha256:
            raise PackageInvalid(f"{LOCK} contradicts itself: the hash of {name} is not that of its files")
        if name in lock.packages:
            raise PackageInvalid(f"{LOCK} has {name} twice")
        lock.packages[name] = Locked(_text(entry["source"]), sha256, files)
    for entry in given.get("link", []):
        if _name(entry) in lock.links:
            raise PackageInvalid(f"{LOCK} links {entry['name']} twice")
        lock.links[entry["name"]] = _text(entry["path"])
    return lock


def _name(entry: Mapping[str, Any]) -> str:
    name = entry["name"]
    if not is_name(name):
        raise ValueError
    return str(name)


def _path(name: str) -> str:
    for part in name.split("/"):
        check_part(part)
    return name


def _hash(value: Any) -> str:
    if len(bytes.fromhex(value)) != 32 or value != value.lower():
        raise ValueError
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError
    return value


def write_lock(path: Path, lock: Lock) -> None:
    """Replaces a lock as a whole."""
    data = written(lock).encode()
    if len(data) > _LARGEST:
        raise PackageInvalid(f"{LOCK} has no room for so many files: it has at most {_LARGEST >> 20} MB")
    write_whole(path, data)


def written(lock: Lock) -> str:
    """The text of a lock.

    >>> print(written(Lock(links={"mine": "../mine"})).partition("\\n\\n")[2])
    [[link]]
    name = "mine"
    path = "../mine"
    <BLANKLINE>
    """
    lines = [f"{_HEAD}format = {_FORMAT}", ""]
    for name, entry in sorted(lock.packages.items()):
        lines += ["[[package]]", f"name = {_quoted(name)}", f"source = {_quoted(entry.source)}", f'sha256 = "{entry.sha256}"']
        lines += ["", "[package.files]", *(f'{_quoted(file)} = "{entry.files[file]}"' for file in sorted(entry.files)), ""]
    for name, path in sorted(lock.links.items()):
        lines += ["[[link]]", f"name = {_quoted(name)}", f"path = {_quoted(path)}", ""]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    # DEL is the one control character that JSON leaves as it is
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
