"""Packages on disk: names, contents, where they are looked for, the lock, and how one is begun."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.capabilities import modules
from holdfast.domain import HoldfastError, InvalidPath
from holdfast.strategies import Folder, PackagePath, content, find_project, names, project_folder, user_folder
from holdfast.strategies._errors import PackageExists, PackageInvalid, PackageNotFound
from holdfast.strategies.adding import add
from holdfast.strategies.content import Content, ContentCache, read_content
from holdfast.strategies.lock import Lock, Locked, read_lock, written
from holdfast.strategies.scaffold import scaffold
from holdfast.strategies.upkeep import link, remove
from tests.package_folders import SMALL, made


@pytest.fixture
def project(tmp_path: Path) -> Folder:
    (tmp_path / "project").mkdir()
    return project_folder(tmp_path / "project")


# ---- names -------------------------------------------------------------------------------------------------------------------------

TRICKS = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a.b",
    "/etc",
    "a\\b",
    "1a",
    "-a",
    "a b",
    "a\0",
    "a\n",
    "é",
    "x" * 65,
    "package:a",
    "~",
    None,
    7,
]


@pytest.mark.parametrize("name", TRICKS)
def test_a_name_with_a_trick_in_it_is_none(name: Any, project: Folder, tmp_path: Path) -> None:
    path = PackagePath([project])
    for call in (names.check_name, path.find, path.get, lambda name: remove(project, name), lambda name: path.load(name)):
        with pytest.raises(PackageInvalid):
            call(name)
    if name:
        with pytest.raises(PackageInvalid):
            add(project, made(tmp_path / "panel"), name)
        with pytest.raises(PackageInvalid):
            link(project, made(tmp_path / "panel"), name)
        with pytest.raises(PackageInvalid):
            scaffold(tmp_path, name)


def test_names_that_scripts_use_for_something_else_are_not_given(tmp_path: Path, project: Folder) -> None:
    assert modules().keys() <= names._TAKEN
    for name in ("string", "alc", "hf", "package", "fs"):
        with pytest.raises(PackageInvalid, match="something else"):
            add(project, made(tmp_path / "panel"), name)


@pytest.mark.parametrize("specifier", ["a.", "a/", "a..b", "a//b", ".a", "1.a", "é.b", "a b.c"])
def test_what_cannot_mean_a_package(specifier: str) -> None:
    assert names.parse(specifier) is None


def test_parts_are_files_of_the_package() -> None:
    assert names.parse("a/b/../x.js") == ("a", "x.js")  # without detours, and still in it
    assert list(names.files_of(names.Place("p", "x"), "lua")) == ["x.lua", "x/init.lua"]
    assert list(names.files_of(names.Place("p", "x"), "javascript")) == ["x.js", "x/index.js", "x/init.js"]
    assert next(names.files_of(names.Place("p", "x.json"), "lua")) == "x.json"
    for part in ("..", "../x", "x/../../y"):
        with pytest.raises(InvalidPath):
            names.beside(part, names.Place("p", "init.lua"))
        with pytest.raises(InvalidPath):
            names.parse(f"p/{part}")


# ---- what is in one ----------------------------------------------------------------------------------------------------------------


def test_a_content_has_all_files_and_a_hash_of_names_and_contents(tmp_path: Path) -> None:
    root = made(tmp_path / "p", SMALL | {"data.bin": b"\xff\0", ".git/x": "1", "node_modules/y/z.js": "2", ".hidden": "3"})
    (root / "same.lua").symlink_to("deep/part.lua")
    found = read_content(root)
    assert list(found.files) == ["data.bin", "deep/part.lua", "init.lua", "same.lua"]
    assert found.languages == ("lua",)
    assert found.text("same.lua") == "return 1"
    with pytest.raises(PackageInvalid, match=r"data\.bin is not text"):
        found.text("data.bin")
    listed = subprocess.run(["sha256sum", *found.files], cwd=root, capture_output=True, check=True).stdout
    assert found.sha256 == subprocess.run(["sha256sum"], input=listed, capture_output=True, check=True).stdout.decode()[:64]
    (root / "deep/part.lua").rename(root / "deep/other.lua")
    (root / "same.lua").unlink()
    assert read_content(root).sha256 != found.sha256


def test_nothing_outside_is_part_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "secret.lua").write_text("return 'secret'")
    for number, target in enumerate(("../secret.lua", str(tmp_path / "secret.lua"), "/etc/passwd", "..", "loop.lua")):
        root = made(tmp_path / f"p{number}")
        (root / "loop.lua").symlink_to(target)
        with pytest.raises(PackageInvalid) as told:
            read_content(root)
        assert str(tmp_path) not in str(told.value)
    root = made(tmp_path / "inner")
    (root / "folder").symlink_to("deep")
    os.mkfifo(root / "pipe.lua")
    with pytest.raises(PackageInvalid):
        read_content(root)


def test_there_is_a_bound_on_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MOST_FILES", 3)
    monkeypatch.setattr(content, "LARGEST_FILE", 100)
    monkeypatch.setattr(content, "LARGEST", 150)
    monkeypatch.setattr(content, "_MOST_ENTRIES", 20)
    for number, files in enumerate(
        [
            {f"{each}.lua": "" for each in range(4)},
            {f".{each}": "" for each in range(21)},
            {"init.lua": "x" * 101},
            {"init.lua": "x" * 80, "y.lua": "y" * 80},
            {"/".join("f" * 18) + "/x.lua": ""},
            {"a\nb.lua": ""},
            {"a:b.lua": ""},
            {"a\x9bb.lua": ""},
            {"a\u202eaul.b": ""},
            {"x" * 201: ""},
        ]
    ):
        with pytest.raises(PackageInvalid):
            read_content(made(tmp_path / str(number), files))
    with pytest.raises(PackageInvalid, match="not there"):
        read_content(tmp_path / "nothing")


def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    root, cache = made(tmp_path / "p"), ContentCache()
    assert cache.read(root) is not cache.read(root)  # it was written just now: who knows
    for each in ("init.lua", "deep/part.lua"):
        os.utime(root / each, (1, 1))

    def aged(found: os.stat_result) -> Any:
        return content.Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns - 10**10)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(content.Stamp, "of", staticmethod(aged))
        first = cache.read(root)
        assert cache.read(root) is first
        (root / "init.lua").write_text("return {1}")
        os.utime(root / "init.lua", (1, 1))
        second = cache.read(root)
        assert second.text("init.lua") == "return {1}"
        assert cache.read(root) is second
        (root / "more.lua").write_text("")
        assert "more.lua" in cache.read(root).files
        (root / "init.lua").unlink()
        assert cache.read(root).languages == ()


def test_what_is_kept_in_memory_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_KEPT", 250)
    monkeypatch.setattr(content, "is_settled", lambda stamps, now: True)
    roots = [made(tmp_path / str(number), {"init.lua": "x" * 100}) for number in range(3)]
    cache = ContentCache()
    first, second = cache.read(roots[0]), cache.read(roots[1])
    for text in ("a" * 90, "b" * 95, "c" * 90):  # another one of the same package takes the place of the one before
        (roots[1] / "init.lua").write_text(text)
        second = cache.read(roots[1])
    assert (cache.read(roots[0]), cache.read(roots[1])) == (first, second)
    assert cache.read(roots[0]) is first
    third = cache.read(roots[2])
    assert cache.read(roots[1]) is second
    assert cache.read(roots[2]) is third
    assert cache.read(roots[0]) is not first


def test_a_file_that_changes_while_it_is_read_is_not_taken_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, real = made(tmp_path / "p"), os.fstat

    def before(handle: int) -> os.stat_result:
        found = real(handle)
        return os.stat_result((*found[:6], found.st_size - 3, *found[7:]))

    monkeypatch.setattr(content.os, "fstat", before)
    with pytest.raises(PackageInvalid, match="changes while it is read"):
        read_content(root)
    monkeypatch.setattr(os.path, "realpath", lambda path: os.readlink(path))  # as it does if a link is gone by then
    with pytest.raises(PackageInvalid, match="not there"):
        read_content(root)


# ---- where they are looked for -----------------------------------------------------------------------------------------------------


def test_the_first_folder_counts_for_each_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "one/p", {"init.lua": "return 'path'"})
    made(tmp_path / "data/packages/p", {"init.lua": "return 'user'", "init.js": "exports.x = 'user'"})
    made(tmp_path / "data/packages/no package", {"init.lua": ""})
    made(tmp_path / "data/packages/nothing", {"main.lua": ""})
    monkeypatch.setenv("HOLDFAST_PACKAGES_PATH", os.pathsep.join(["", str(tmp_path / "gone"), str(tmp_path / "one")]))
    path = PackagePath.default(None, tmp_path / "data")
    found = path.get("p")
    assert (found.source, found.language, found.text) == ("path", "lua", "return 'path'")
    assert path.get("p", "javascript").source == "user"
    assert path.load("p", language="javascript") == "exports.x = 'user'"
    assert path.get("reflect").source == "bundled"
    listed = {(one.name, one.language): (one.source, one.hides) for one in path.list()}
    assert listed["p", "lua"] == ("path", ("user",))
    assert listed["p", "javascript"] == ("user", ())
    assert [(one.name, one.hides) for one in path.list("lua", "p")] == [("p", ("user",))]
    assert path.list(name="nobody") == ()
    assert {"reflect", "self_consistency", "tree_of_thoughts", "p"} == {name for name, _ in listed}
    made(tmp_path / "project/.holdfast/packages/p", {"init.lua": "return 'project'"})
    path = PackagePath.default(tmp_path / "project", tmp_path / "data")
    assert (path.get("p").source, path.get("p", "javascript").source) == ("project", "user")
    with pytest.raises(PackageNotFound, match="no part 'x'"):
        path.load("p", "x")
    with pytest.raises(PackageNotFound, match="no strategy package 'q'"):
        path.get("q")
    with pytest.raises(PackageNotFound, match="one for lua"):
        PackagePath.of(tmp_path / "one").get("p", "javascript")


def test_the_user_has_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    assert user_folder().path == tmp_path / "packages"
    monkeypatch.delenv("HOLDFAST_DATA_DIR")
    assert user_folder().path.name == "packages"


def test_a_project_is_the_nearest_folder_upwards_that_is_not_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "holdfast.lock").write_text(written(Lock()))
    assert find_project(deep) == tmp_path
    (tmp_path / "a" / ".holdfast").mkdir()
    assert find_project(deep) == tmp_path / "a"
    assert find_project(tmp_path) == tmp_path
    real = Path.stat

    def others(path: Path, **options: Any) -> Any:
        found = real(path, **options)
        return os.stat_result((*found[:4], 4321, *found[5:])) if path.name == ".holdfast" else found

    monkeypatch.setattr(Path, "stat", others)
    assert find_project(deep) == tmp_path
    (tmp_path / "a" / "holdfast.lock").write_text(written(Lock()))  # one of both is not enough
    assert find_project(deep) == tmp_path
    (tmp_path / "a" / ".holdfast").rmdir()
    (tmp_path / "a" / ".holdfast").symlink_to(tmp_path)  # and what it leads to does not matter
    assert find_project(deep) == tmp_path


# ---- the lock ----------------------------------------------------------------------------------------------------------------------


def test_a_lock_comes_back_as_it_was_written(tmp_path: Path) -> None:
    made_of = Content.of({"quo'te.lua": b"1", "é/init.lua": b"2"})
    lock = Lock({"p": Locked('a "b" \\ é\x7f.zip', made_of.sha256, made_of.hashes)}, {"mine": "../é \\ x"})
    (tmp_path / "holdfast.lock").write_text(written(lock))
    assert read_lock(tmp_path / "holdfast.lock") == lock
    assert written(lock).startswith("# ")
    assert read_lock(tmp_path / "none") == Lock()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("format = 2", "has the format 2, and this Holdfast knows 1"),
        ("", "has the format None"),
        ("format = true", "has the format True"),
        ("format = [", "not TOML"),
        ("\udcff", "not TOML"),
        ("format = 1\npackage = 7", "not as"),
        ("format = 1\n[[package]]\nname = '../x'\nsource = 'x'\nsha256 = ''\nfiles = {}", "not as"),
        ("format = 1\n[[package]]\nname = 'x'\nsource = 'x'\nsha256 = '" + "0" * 64 + "'\nfiles = {}", "contradicts itself"),
        ("format = 1\n[[package]]\nname = 'x'\nsource = 'x'\nsha256 = '0'\nfiles = {'../y' = '0'}", "cannot be called"),
        ("format = 1\n[[link]]\nname = 'x'\npath = 1", "not as"),
        ("format = 1\n[[link]]\nname = 'x'\npath = 'a'\n[[link]]\nname = 'x'\npath = 'b'", "twice"),
    ],
)
def test_a_lock_that_cannot_be_understood_is_an_error(project: Folder, text: str, told: str) -> None:
    assert project.lock is not None
    made(project.path / "p")
    project.lock.write_bytes(text.encode("utf-8", "surrogateescape"))
    path = PackagePath([project])
    with pytest.raises(PackageInvalid, match=told):
        path.find("p")
    assert [(one.name, str(one.problem).startswith(("holdfast.lock", "a file"))) for one in path.list()] == [("p", True)]


# ---- a new one ---------------------------------------------------------------------------------------------------------------------

INJECTION = "\"]] .. os.exit() --\n*/ `${x}` \\ </script> \u2028 '"


def test_a_package_to_begin_with(tmp_path: Path) -> None:
    for language, name in (("lua", "init.lua"), ("javascript", "init.js")):
        file = scaffold(tmp_path, "fresh", language, INJECTION, 'a"b')
        assert file == tmp_path / "fresh" / name
        with pytest.raises(PackageExists):
            scaffold(tmp_path, "fresh", language)
        assert len([line for line in file.read_text().splitlines() if "os.exit" in line]) == 1
    assert read_content(tmp_path / "fresh").languages == ("lua", "javascript")
    for bad in ({"language": "python"}, {"description": "x" * 501}, {"category": "\ud800"}):
        with pytest.raises(HoldfastError):
            scaffold(tmp_path, "other", **bad)
    assert not (tmp_path / "other").exists()
