"""The guests' build as a whole, as a process of its own: what a person sees, and that the same input gives the same bytes."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from guests.build.cache import Cache, default_root, digest
from guests.build.recipes import LUA
from guests.build.sources import fetch

PROJECT = Path(__file__).parents[2]
INSTALLED = PROJECT / "src" / "holdfast" / "sandbox" / "guests"


def build(*arguments: str, folder: Path = PROJECT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "guests.build", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.wasm"))}


@pytest.fixture
def without_settings(tmp_path: Path) -> dict[str, str]:
    """Variables for a build with an empty cache that knows no package index."""
    cleared = {name: "" for name in os.environ if name.startswith("PIP_")}
    return cleared | {"HOLDFAST_CACHE_DIR": str(tmp_path / "cache"), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}


def one_line(failed: subprocess.CompletedProcess[str]) -> str:
    assert failed.returncode == 1
    assert not failed.stdout
    (line,) = failed.stderr.splitlines()
    return line


class TestMessages:
    def test_an_index_that_cannot_be_reached(self, tmp_path: Path, without_settings: dict[str, str]) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            without_settings |= {
                "PIP_NO_INDEX": "",
                "PIP_INDEX_URL": f"http://user:secret@127.0.0.1:{closed.getsockname()[1]}/simple",
            }
            line = one_line(build("lua", "--out", str(tmp_path), **without_settings))
        assert line.startswith("holdfast: the source distribution of lupa 2.8 cannot be fetched: ")
        assert "refused" in line
        assert "pip config list" in line
        assert "secret" not in line

    def test_no_index_at_all(self, tmp_path: Path, without_settings: dict[str, str]) -> None:
        assert "pip is told to use no index" in one_line(build("lua", "--out", str(tmp_path), **without_settings))

    def test_an_archive_with_another_content(self, tmp_path: Path, without_settings: dict[str, str]) -> None:
        (tmp_path / "lupa-2.8.tar.gz").write_bytes(b"something else")
        line = one_line(build("lua", "--out", str(tmp_path), **without_settings | {"PIP_FIND_LINKS": str(tmp_path)}))
        assert "lupa 2.8 is refused: its SHA-256 is " in line
        assert not list((tmp_path / "cache").rglob("*.tar.gz"))

    def test_a_guest_that_does_not_exist(self, tmp_path: Path) -> None:
        assert "no such guest: cobol" in build("cobol", "--out", str(tmp_path)).stderr


def test_archives_come_from_where_pip_would_look(
    tmp_path: Path, without_settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(fetch(LUA, Cache(default_root())), tmp_path / "lupa-2.8.tar.gz")
    for name, value in (without_settings | {"PIP_FIND_LINKS": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    assert fetch(LUA, Cache(tmp_path / "cache")).is_file()


def test_nothing_is_done_when_nothing_changed(tmp_path: Path) -> None:
    first = build("--out", str(tmp_path))
    before = {path.name: path.stat() for path in tmp_path.iterdir()}
    again = build("--out", str(tmp_path), PIP_NO_INDEX="1")
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert {path.name: path.stat() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_same_input_gives_the_same_bytes_in_any_folder(tmp_path: Path) -> None:
    """The second build takes a minute, so it is kept by the hash of what it was made from, like the first one."""
    elsewhere = tmp_path / "a folder of another name"
    shutil.copytree(PROJECT / "guests", elsewhere / "guests", ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    sources = sorted(path for path in elsewhere.rglob("*") if path.is_file())
    contents = [part for path in sources for part in (str(path.relative_to(elsewhere)), path.read_bytes())]

    def make(folder: Path) -> None:
        cache = tmp_path / "cache" / "build"  # empty, but for what others have made: archives, and zig's own C library
        cache.mkdir(parents=True)
        for theirs in ("downloads", "npm", "packages", "zig"):
            (cache / theirs).symlink_to(default_root() / theirs)
        built = build("--out", str(folder), folder=elsewhere, TMPDIR=str(tmp_path), HOLDFAST_CACHE_DIR=str(cache.parent))
        assert built.returncode == 0, built.stderr

    second = Cache(default_root()).entry("second", digest(version("ziglang"), *contents), make)
    assert digests(second) == digests(INSTALLED)
    assert set(digests(INSTALLED)) == {"javascript.wasm", "lua.wasm"}
