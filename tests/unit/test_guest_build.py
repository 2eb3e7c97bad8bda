"""The guests' build in small: what a person who moves a pin or edits a guest relies on."""

import io
import tarfile
import threading
from pathlib import Path

import pytest

from guests.build.cache import Cache, copy_whole, digest
from guests.build.compile import closure
from guests.build.edits import Edit, append_includes, apply_edits
from guests.build.errors import BuildError
from guests.build.index import read_settings
from guests.build.recipes import RECIPES
from guests.build.sources import Source, unpack, verify

SOURCE = Source("thing", "1.0", "0" * 64, "deep/source")


def archive(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "thing-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as contents:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            contents.addfile(member, io.BytesIO(text.encode()))
    return path


class TestEdits:
    def test_replaces_text(self, tmp_path: Path) -> None:
        (tmp_path / "vm.c").write_text("int limit = 1;\n")
        apply_edits(tmp_path, [Edit("vm.c", "a higher limit", "limit = 1", "limit = 2")])
        assert (tmp_path / "vm.c").read_text() == "int limit = 2;\n"

    @pytest.mark.parametrize("text", ["nothing of it", "limit = 1; limit = 1;"])
    def test_one_that_no_longer_matches_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "vm.c").write_text(text)
        with pytest.raises(BuildError, match=r"vm\.c must match 1 times and matches [02] times \(a higher limit\)"):
            apply_edits(tmp_path, [Edit("vm.c", "a higher limit", "limit = 1", "limit = 2")])

    def test_a_file_that_is_gone_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match=r"vm\.c .*gone \(a higher limit\)"):
            apply_edits(tmp_path, [Edit("vm.c", "a higher limit", "limit = 1", "limit = 2")])

    def test_our_own_file_is_included_at_the_end(self, tmp_path: Path) -> None:
        (tmp_path / "vm.c").write_text("int limit = 1;")
        append_includes(tmp_path, {"vm.c": "ours.c"})
        assert (tmp_path / "vm.c").read_text().splitlines() == ["int limit = 1;", '#include "ours.c"']

    @pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
    def test_every_edit_of_a_guest_has_a_reason(self, recipe: object) -> None:
        for edit in recipe.review().edits:  # type: ignore[attr-defined]
            assert edit.reason
            assert edit.old != edit.new


class TestSources:
    def test_only_the_folder_is_unpacked(self, tmp_path: Path) -> None:
        path = archive(tmp_path, {"thing-1.0/setup.py": "bad", "thing-1.0/deep/source/a/b.c": "good"})
        unpack(path, SOURCE, tmp_path / "out")
        assert [file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.*")] == ["a/b.c"]

    def test_an_archive_cannot_write_outside(self, tmp_path: Path) -> None:
        path = archive(tmp_path, {"thing-1.0/deep/source/../../../../evil": "bad"})
        with pytest.raises(BuildError, match=r"thing 1\.0"):
            unpack(path, SOURCE, tmp_path / "out")
        assert not list(tmp_path.rglob("evil"))

    def test_a_folder_that_is_gone_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match="has no folder deep/source"):
            unpack(archive(tmp_path, {"thing-1.0/a": ""}), SOURCE, tmp_path / "out")

    def test_another_content_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match=r"thing 1\.0 is refused: its SHA-256 is \w{64}, and not 0{64} as pinned"):
            verify(archive(tmp_path, {}), SOURCE)

    def test_later_sections_of_pips_settings_win(self) -> None:
        listing = ":env:.cert='mine'\nglobal.cert='theirs'\nglobal.extra-index-url='a b'\ninstall.index-url='c'\nwheel.index-url='d'\n"
        assert read_settings(listing) == {"cert": "mine", "extra-index-url": "a b", "index-url": "c"}


class TestCache:
    def test_makes_an_entry_once(self, tmp_path: Path) -> None:
        cache = Cache(tmp_path)
        first = cache.entry("objects", "x.o", lambda path: path.write_text("first") and None)
        assert cache.entry("objects", "x.o", lambda path: path.write_text("second") and None) == first
        assert first.read_text() == "first"

    def test_a_failure_leaves_nothing(self, tmp_path: Path) -> None:
        def fail(path: Path) -> None:
            path.write_text("half")
            raise BuildError("no")

        with pytest.raises(BuildError):
            Cache(tmp_path).entry("objects", "x.o", fail)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    @pytest.mark.parametrize("folder", [False, True])
    def test_two_builds_at_once_agree(self, tmp_path: Path, folder: bool) -> None:
        together = threading.Barrier(2)
        failures: list[BaseException] = []

        def make(path: Path) -> None:
            together.wait(10)
            if folder:
                path.mkdir()
                path = path / "inner"
            path.write_text("made")

        def build() -> None:
            try:
                Cache(tmp_path).entry("packages", "x", make)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=build) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["made"]

    def test_a_file_that_is_the_same_already_is_not_touched(self, tmp_path: Path) -> None:
        (tmp_path / "from").write_text("same")
        copy_whole(tmp_path / "from", tmp_path / "to")
        before = (tmp_path / "to").stat()
        copy_whole(tmp_path / "from", tmp_path / "to")
        assert (tmp_path / "to").stat() == before

    def test_parts_of_a_digest_cannot_run_into_each_other(self) -> None:
        assert digest("ab", "c") != digest("a", "bc")


def test_an_object_depends_on_all_that_it_includes(tmp_path: Path) -> None:
    files = {
        "source/vm.c": '#include "vm.h"\n#  include "ours.c"\n#include <stdio.h>\n',
        "source/vm.h": "",
        "source/unrelated.h": "",
        "own/ours.c": '#include "../common/abi.h"\n#embed "text.js" suffix(,)\n',
        "own/text.js": "",
        "own/before.h": '#include "before.h"\n',
        "common/abi.h": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert closure(tmp_path, ["source/vm.c", "own/before.h"], ["source", "own"]) == sorted(set(files) - {"source/unrelated.h"})
