"""What is published: source distribution, wheel and repository."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pip._internal.models.index import PyPI
from unearth import PackageFinder

from guests.build import npm
from guests.build.cache import Cache, default_root
from guests.build.recipes import LUA, QUICKJS
from guests.build.sources import fetch

PROJECT = Path(__file__).parents[2]
GUESTS = {"holdfast/sandbox/guests/javascript.wasm", "holdfast/sandbox/guests/lua.wasm"}

# What a user of the wheel would do first.
FIRST_SCRIPT = """
from holdfast.sandbox import Engine

with Engine() as engine:
    for language, source in {"javascript": "'Hello ' + await ask('Who?')", "lua": "return 'Hello ' .. alc.ask('Who?')"}.items():
        with engine.guest(language).template().create() as sandbox:
            sandbox.evaluate(source)
            print(sandbox.resume({1: language}).result.value)
"""


def run(*command: str | Path, folder: Path = PROJECT, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    out = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out)
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the unpacked source distribution. The build requirements are here, as `make` has installed them: that they
    are enough for a build shows in each clone, and to unpack 600 MB of them again would tell nothing new.
    """
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as contents:
        contents.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (unpacked,) = folder.iterdir()
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", folder=unpacked)
    (path,) = (folder / "dist").iterdir()
    return path


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The files of an archive, without its top folder."""
    with tarfile.open(archive) as contents:
        for member in contents:
            if file := contents.extractfile(member) if member.isfile() else None:
                yield member.name.partition("/")[2], file.read()


@pytest.mark.slow
class TestSourceDistribution:
    def test_has_the_sources_of_the_guests_and_of_their_build(self, sdist: Path) -> None:
        names = {name for name, _ in members(sdist)}
        here = [path for path in (PROJECT / "guests").rglob("*") if path.is_file()]
        wanted = {
            path.relative_to(PROJECT).as_posix() for path in here if not {"__pycache__", "node_modules"} & set(path.parts)
        }
        assert wanted <= names
        assert {"hatch_build.py", "pyproject.toml", "src/holdfast/sandbox/__init__.py"} <= names

    def test_has_nothing_that_was_built(self, sdist: Path) -> None:
        assert not [name for name, content in members(sdist) if name.endswith(".wasm") or content.startswith(b"\0asm")]

    def test_has_nothing_of_third_parties(self, sdist: Path) -> None:
        cache = Cache(default_root())
        theirs = {content for source in (QUICKJS, LUA) for _, content in members(fetch(source, cache)) if content.strip()}
        assert not [name for name, content in members(sdist) if content in theirs]


@pytest.mark.slow
@pytest.mark.timeout(400)
class TestWheel:
    def test_is_for_every_platform_and_has_the_guests(self, wheel: Path) -> None:
        assert wheel.name.endswith("-py3-none-any.whl")
        with zipfile.ZipFile(wheel) as contents:
            names = set(contents.namelist())
        assert names >= GUESTS
        assert {name.partition("/")[0] for name in names} == {"holdfast", f"holdfast-{wheel.name.split('-')[1]}.dist-info"}

    def test_has_the_same_guests_as_this_folder(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as contents:
            for name in GUESTS:
                assert (
                    hashlib.sha256(contents.read(name)).digest()
                    == hashlib.sha256((PROJECT / "src" / name).read_bytes()).digest()
                )

    def test_runs_in_an_empty_environment_without_a_compiler(self, wheel: Path, tmp_path: Path) -> None:
        venv.create(tmp_path / "venv", with_pip=False)
        python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        wanted = ("--quiet", "--no-compile", "--only-binary", ":all:", wheel)
        run(sys.executable, "-m", "pip", "--python", python, "install", *wanted)
        alone = {"PATH": str(python.parent), "PYTHONPATH": "", "HOLDFAST_CACHE_DIR": str(tmp_path / "cache")}
        assert not shutil.which("cc", path=alone["PATH"])
        assert run(python, "-I", "-c", FIRST_SCRIPT, folder=tmp_path, **alone) == "Hello javascript\nHello lua\n"


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """All files that are tracked, or would be if everything were added."""
    if not (PROJECT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a repository")
    listing = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return [PROJECT / name for name in listing.split("\0") if name and (PROJECT / name).is_file()]


class TestRepository:
    def test_has_nothing_that_was_built(self, files: list[Path]) -> None:
        assert not [path for path in files if path.suffix == ".wasm" or path.read_bytes().startswith(b"\0asm")]

    def test_names_no_registry(self, files: list[Path]) -> None:
        """Mirrors must work, so registries are known to pip and npm only, and are asked for here the same way."""
        default = str(PackageFinder().sources[0]["url"])
        registry = npm.run(["npm", "config", "get", "registry", f"--userconfig={os.devnull}"], PROJECT / "guests")
        hosts = {urlsplit(url.strip()).hostname or "" for url in (default, registry)} | {PyPI.file_storage_domain}
        pattern = re.compile("|".join(re.escape(host.removeprefix("files.")) for host in hosts).encode())
        assert len(hosts) == 3
        assert not [path for path in files if pattern.search(path.read_bytes())]

    def test_pins_npm_packages_by_hash_and_not_by_place(self, files: list[Path]) -> None:
        for path in files:
            if path.name == "package-lock.json":
                for name, package in json.loads(path.read_text())["packages"].items():
                    assert "resolved" not in package, name
                    assert not name or package["integrity"].startswith("sha512-"), name
