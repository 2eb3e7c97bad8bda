"""Packages of npm, fetched by npm itself into a folder. Their scripts are never run.

npm checks what arrives by the integrity that the registry names, or by the one that our lock names if there is one. What has none, such as
a repository or a folder, is refused.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.libraries._errors import LibraryNotAdded
from holdfast.libraries._process import npm, run

_WANTED: Final = re.compile(r"[0-9A-Za-z.*^~<>=| +-]*", re.ASCII)
_PACKAGE: Final = re.compile(r"(?:@[a-z0-9][a-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*", re.ASCII)
_KEPT: Final = ("version", "integrity", "dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta")
_MARKS: Final = ("inBundle", "optional", "peer", "dev", "devOptional", "os", "cpu", "libc")
_OPTIONS: Final = (
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--no-bin-links",
    "--no-engine-strict",
    "--no-strict-peer-deps",
    "--package-lock",
    "--omit-lockfile-registry-resolved",
    "--allow-git=none",
    "--loglevel=error",
)


class Fetched(NamedTuple):
    """A package with all that it needs, in `node_modules` of a folder."""

    folder: Path
    name: str
    version: str
    integrity: str
    packages: dict[str, Any]

    @property
    def home(self) -> Path:
        return self.folder / "node_modules" / self.name


def fetch(name: str, wanted: str, folder: Path, packages: Mapping[str, Any] | None = None) -> Fetched:
    """Fetches a version, or the newest of a range. With what was locked before, exactly that."""
    if not _PACKAGE.fullmatch(name) or not _WANTED.fullmatch(wanted):
        raise LibraryNotAdded(f"{name[:80]!r} is not a package that could be fetched", "DOWNLOAD_FAILED")
    manifest: dict[str, Any] = {"private": True, "dependencies": {name: wanted or "latest"}}
    (folder / "package.json").write_text(json.dumps(manifest))
    if packages:
        locked = {"lockfileVersion": 3, "requires": True, "packages": {"": manifest, **packages}}
        (folder / "package-lock.json").write_text(json.dumps(locked))
    command, environment = npm()
    verb = "ci" if packages else "install"
    shown = f"{name}@{wanted}" if wanted else name
    what = f"npm could not fetch {shown}"
    run([*command, verb, "--omit=dev", "--omit=optional", *_OPTIONS], folder, "DOWNLOAD_FAILED", what, environment)
    return _fetched(name, folder, shown)


def install(manifests: Path, folder: Path) -> None:
    """Puts what a lock file of ours pins into a folder, with the parts for this platform."""
    for name in ("package.json", "package-lock.json"):
        (folder / name).write_bytes((manifests / name).read_bytes())
    command, environment = npm()
    run([*command, "ci", *_OPTIONS], folder, "DOWNLOAD_FAILED", "npm could not fetch the bundler", environment)


def _fetched(name: str, folder: Path, shown: str) -> Fetched:
    try:
        lock = json.loads((folder / "package-lock.json").read_bytes())["packages"]
        packages = {place: _kept(entry) for place, entry in lock.items() if place}
        own = packages[f"node_modules/{name}"]
        version = str(own["version"])
    except (OSError, ValueError, KeyError, TypeError):
        raise LibraryNotAdded(f"npm could not fetch {shown}", "DOWNLOAD_FAILED") from None
    for place, entry in packages.items():
        if not entry.get("inBundle") and not str(entry.get("integrity", "")).startswith(("sha512-", "sha256-", "sha1-")):
            part = place.removeprefix("node_modules/")
            message = f"{shown} cannot be verified: nothing says what {part[:80]} must be"
            raise LibraryNotAdded(message, "INTEGRITY_MISMATCH", "only packages of a registry are taken")
    return Fetched(folder, name, version, str(own["integrity"]), packages)


def _kept(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in (*_KEPT, *_MARKS) if key in entry}
