"""Names that are swapped while they are opened: by links, pipes and files of others. `python -m tests.hostile.race` has more rounds."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.daemon import Tokens
from holdfast.daemon._errors import DaemonError
from holdfast.daemon.tokens import new_secret, read_secret
from holdfast.libraries import LibraryCache
from holdfast.libraries.cache import checksum
from holdfast.libraries.lock import Locked
from holdfast.strategies._errors import PackageInvalid
from holdfast.strategies.adding import packages_in
from tests.hostile.race import race
from tests.hostile.swapping import exchanged

if not sys.platform.startswith("linux"):
    pytest.skip("names are exchanged and files watched by Linux", allow_module_level=True)

_ROUNDS = 16
_OF_PROGRAMS = 4
"""Each takes a process or two."""


def _rounds(name: str) -> int:
    return _OF_PROGRAMS if name.startswith("exec") else _ROUNDS


def test_no_function_that_opens_a_name_is_led_outside(tmp_path: Path) -> None:
    found = dict(race(tmp_path, _rounds))
    assert len(found) >= 20
    assert {name: tally.outside for name, tally in found.items() if tally.outside} == {}
    assert sum(tally.done for tally in found.values()) > 0 < sum(tally.refused for tally in found.values())


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_library_is_what_was_added_or_nothing(tmp_path: Path, pipe: Path) -> None:
    """Neither a pipe that nobody writes to, nor another file in its place for a moment."""
    cache = LibraryCache(tmp_path / "libraries")
    text = b"var one = 1"
    name = cache.put(Locked("one", "1.0.0", "javascript", "one", "file", "", checksum(text)), text)
    other = tmp_path / "other"
    other.write_text("var one = 2")
    for swapped in (pipe, other):
        with exchanged([(cache.folder / name, swapped)]):
            found = {None if file is None else file.text for file in (cache.find("one-1.0.0") for _ in range(100))}
        assert found <= {text.decode(), None}


def test_an_archive_is_no_pipe(tmp_path: Path, pipe: Path) -> None:
    archive = tmp_path / "p.zip"
    archive.write_bytes(b"PK")
    with exchanged([(archive, pipe)]):
        for _ in range(100):
            with pytest.raises(PackageInvalid):
                packages_in(archive)


def test_tokens_of_others_are_never_taken(tmp_path: Path) -> None:
    """Whose file it is, and what is in it, is asked of one open file."""
    tokens = Tokens(tmp_path / "data")
    tokens.create("mine", ["read"])
    theirs = Tokens(tmp_path / "theirs")
    _, secret = theirs.create("theirs", ["admin"])
    (tmp_path / "theirs/tokens.json").chmod(0o666)
    (tmp_path / "token").write_text(new_secret())
    (tmp_path / "other-token").write_text(new_secret())
    (tmp_path / "other-token").chmod(0o666)
    good = (tmp_path / "token").read_text()
    (tmp_path / "token").chmod(0o600)
    refused = 0
    with exchanged(
        [(tmp_path / "data/tokens.json", tmp_path / "theirs/tokens.json"), (tmp_path / "token", tmp_path / "other-token")]
    ):
        for at in range(100_000):
            if at > 300 and refused:
                break
            try:
                tokens.reload()
            except DaemonError:
                refused += 1
            assert tokens.verify(secret) is None
            assert read_secret(tmp_path / "token", trusted=True) in (good, None)
    assert refused
