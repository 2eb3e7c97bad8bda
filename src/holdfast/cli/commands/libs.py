"""`holdfast libs`: the libraries that templates may load, and the folder in which they lie."""

import json as json_format
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

import typer

from holdfast.cli._exits import CommandFailed, usage
from holdfast.cli._tables import table
from holdfast.cli._terminal import print_json, say
from holdfast.cli.commands import Json, command, group, said

app = group("Libraries that templates may load.")

_LARGEST: Final = 16 << 20
_PATIENCE_S: Final = 120


@command(app, "list", "holdfast libs list")
def list_libraries(json: Json = False) -> None:
    """Shows the libraries that are known by name."""
    from holdfast.libraries import CATALOGUE

    if json:
        print_json(list(CATALOGUE))
        return
    rows = [
        (one["id"], one["name"], one["version"], one["config"].get("global"), one["source"], one["description"])
        for one in CATALOGUE
    ]
    table(["ID", "Name", "Version", "Global", "Source", "Description"], rows, "No libraries found")


@command(app, "cache-info", "holdfast libs cache-info")
def cache_info(context: typer.Context, json: Json = False) -> None:
    """Shows the libraries that are there to be loaded."""
    from holdfast.libraries import LibraryCache

    cache = LibraryCache(said(context).loaded().config.libraries_dir)
    found = [one._asdict() for one in cache.scan()]
    total = sum(one["bytes"] for one in found)
    if json:
        print_json({"path": str(cache.folder), "libraries": found, "bytes": total})
        return
    print(f"Cache: {cache.folder}")
    rows = [(one["filename"], one["id"], one["version"], one["bytes"], one["sha256"]) for one in found]
    table(["File", "ID", "Version", "Bytes", "SHA-256"], rows, "No libraries found")
    print(f"Total: {total} bytes")


@command(app, "download", "holdfast libs download", "holdfast libs download lodash ramda@0.29.0")
def download(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="NAME or NAME@VERSION; by default all that are known.")] = None,
    json: Json = False,
) -> None:
    """Fetches libraries with npm into the folder in which the daemon looks for them."""
    folder = said(context).loaded().config.libraries_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fetched: list[dict[str, Any]] = []
    for name, version in _wanted(names or []):
        file = folder / f"{name}-{version}.js"
        if not file.is_file():
            npm = _npm()
            say(f"fetching {name}@{version}")
            _keep(file, _fetched(npm, name, version))
        fetched.append({"id": name, "version": version, "filename": file.name, "bytes": file.stat().st_size})
    if json:
        print_json({"path": str(folder), "libraries": fetched})
    for one in [] if json else fetched:
        print(f"{one['filename']}: {one['bytes']} bytes")


def _wanted(names: list[str]) -> list[tuple[str, str]]:
    from holdfast.libraries import CATALOGUE, check_library

    known = {one["id"]: one["version"] for one in CATALOGUE}
    wanted: list[tuple[str, str]] = []
    for word in names or known:
        name, _, version = word.partition("@")
        version = version or known.get(name, "")
        if not version:
            raise usage(f"which version of {name[:80]!r}?", f"say {name[:80]}@VERSION")
        check_library(f"{name}-{version}")
        wanted.append((name, version))
    return wanted


def _npm() -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise CommandFailed(
            "there is no npm on PATH, which fetches libraries",
            "NPM_MISSING",
            "install Node.js, or put <id>-<version>.js into the folder that `holdfast libs cache-info` shows",
        )
    return npm


def _fetched(npm: str, name: str, version: str) -> bytes:
    """The file of a package that is meant for browsers, which needs nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"{name}@{version}", "--ignore-scripts", "--silent", "--pack-destination", folder]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"npm did not fetch {name}@{version} within {_PATIENCE_S} seconds", "TIMEOUT") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or not archives:
            raise CommandFailed(f"npm could not fetch {name}@{version}", "DOWNLOAD_FAILED", _last_line(done.stderr))
        try:
            return _of_archive(archives[0])
        except (tarfile.TarError, OSError, ValueError, KeyError):
            raise CommandFailed(f"{name}@{version} has no file that could be loaded", "DOWNLOAD_FAILED") from None


def _last_line(text: str) -> str | None:
    lines = text.strip().splitlines()
    return f"npm says: {lines[-1][:200]}" if lines else None


def _of_archive(archive: Path) -> bytes:
    with tarfile.open(archive) as packed:
        about = json_format.loads(_member(packed, "package.json"))
        named = next(about[key] for key in ("jsdelivr", "unpkg", "main") if isinstance(about.get(key), str))
        text = _member(packed, named)
    text.decode()
    return text


def _member(packed: tarfile.TarFile, name: str) -> bytes:
    inside = PurePosixPath("package", *(part for part in PurePosixPath(name).parts if part not in ("..", "/")))
    for candidate in (str(inside), f"{inside}.js"):
        try:
            member = packed.getmember(candidate)
        except KeyError:
            continue
        file = packed.extractfile(member)
        if file is not None and member.size <= _LARGEST:
            return file.read()
    raise KeyError(name)


def _keep(file: Path, content: bytes) -> None:
    """Whoever reads it finds it whole, or not at all."""
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".new-", delete=False) as temporary:
        temporary.write(content)
    Path(temporary.name).replace(file)
