"""Compiled guests and templates on disk: kept, checked, and never needed."""

import os
import shutil
import stat

import pytest

from holdfast.sandbox import Engine, Finished, Source
from holdfast.sandbox._cache import Cache, default_directory


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "cache"


def works(cache, language):
    with Engine(cache) as engine:
        template = engine.guest(language).template([Source("lib", "kept = 1")])
        with template.create() as sandbox:
            assert isinstance(sandbox.evaluate("kept"), Finished)
        return template.digest


def files(directory):
    return [path for path in directory.rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory in which all is kept that was made, and the digest of that. Compiling takes a while."""
    directory = tmp_path_factory.mktemp("made") / "cache"
    return directory, works(directory, "lua")


@pytest.fixture
def kept(made, directory):
    """A copy of it for one test, and the digest."""
    shutil.copytree(made[0], directory)
    return directory, made[1]


def test_what_was_made_once_is_kept(kept):
    directory, digest = kept
    before = {path: path.stat().st_mtime_ns for path in files(directory)}
    assert len(before) == 2
    assert works(directory, "lua") == digest
    assert {path: path.stat().st_mtime_ns for path in files(directory)} == before


@pytest.mark.parametrize(
    "damage",
    [lambda b: b"", lambda b: b[:1000], lambda b: b[:-1], lambda b: b[:9999] + b"x" + b[10000:], lambda b: b"x" * len(b)],
)
def test_damaged_files_are_made_again(kept, damage):
    directory, digest = kept
    for path in files(directory):
        path.write_bytes(damage(path.read_bytes()))
    assert works(directory, "lua") == digest
    assert works(directory, "lua") == digest


def test_nothing_is_kept_where_nothing_can_be(tmp_path, made):
    file = tmp_path / "file"
    file.write_text("in the way")
    assert works(None, "lua") == works(file / "cache", "lua") == made[1]


def test_a_directory_that_others_may_write_to_is_not_used(directory):
    folder = directory / "modules"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    Cache(directory, "modules").write("name", b"content")
    assert not files(directory)
    folder.chmod(0o700)
    Cache(directory, "modules").write("name", b"content")
    assert Cache(directory, "modules").read("name") == b"content"
    assert stat.S_IMODE(os.stat(files(directory)[0]).st_mode) == 0o600


def test_the_directory_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLDFAST_CACHE_DIR", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("HOLDFAST_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "holdfast"
