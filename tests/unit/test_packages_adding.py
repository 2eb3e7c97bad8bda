"""Packages come from folders and from archives of anybody; they are linked, removed, and compared with what was added."""

import functools
import gzip
import io
import itertools
import os
import stat
import struct
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain import HoldfastError
from holdfast.strategies import Folder, PackagePath, archives, project_folder
from holdfast.strategies._errors import PackageChanged, PackageExists, PackageInvalid, PackageNotFound
from holdfast.strategies.adding import add
from holdfast.strategies.lock import Lock, read_lock
from holdfast.strategies.upkeep import link, remove, verify
from tests.package_folders import SMALL, made


@pytest.fixture
def project(tmp_path: Path) -> Folder:
    (tmp_path / "project").mkdir()
    return project_folder(tmp_path / "project")


# ---- adding ------------------------------------------------------------------------------------------------------------------------


def tar(path: Path, files: Mapping[str, str | bytes | tarfile.TarInfo], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, given in files.items():
            if isinstance(given, tarfile.TarInfo):
                archive.addfile(given)
                continue
            data = given.encode() if isinstance(given, str) else given
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def zipped(path: Path, files: Mapping[str, str | bytes], *, mode: int = 0o644, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name)
            member.external_attr, member.compress_type = mode << 16, method
            archive.writestr(member, data)
    return path


def below(top: str, files: Mapping[str, str | bytes] = SMALL) -> dict[str, str | bytes]:
    return {f"{top}/{name}": text for name, text in files.items()}


def test_a_package_comes_from_a_folder_or_an_archive(tmp_path: Path, project: Folder) -> None:
    sources = [
        made(tmp_path / "panel"),
        tar(tmp_path / "panel-1.0.tar.gz", SMALL),
        tar(tmp_path / "panel-v2.tgz", below("panel-2.0.1")),
        tar(tmp_path / "x.tar", below("./panel"), "w"),
        zipped(tmp_path / "panel.zip", below("panel") | {"panel/.git/config": "x"}),
    ]
    hashes = set()
    for source in sources:
        (found,) = add(project, source, force=True)
        assert (found.name, found.languages, found.files) == ("panel", ("lua",), 2)
        hashes.add(found.sha256)
        assert PackagePath([project]).load("panel", "deep/part") == "return 1"
        assert verify(project)[0].state == "ok"
    assert len(hashes) == 1
    assert sorted(each.name for each in project.path.iterdir()) == ["panel"]
    assert project.lock is not None
    assert stat.S_IMODE(project.lock.stat().st_mode) == stat.S_IMODE(
        made(tmp_path, {"plain": ""}).joinpath("plain").stat().st_mode
    )
    (found,) = add(project, sources[0], "other")
    assert found.name == "other"
    assert read_lock(project.lock).packages.keys() == {"panel", "other"}


def test_a_collection_is_added_whole_or_not_at_all(tmp_path: Path, project: Folder) -> None:
    files = below("set/a") | below("set/b", {"init.js": "exports.x = 1"}) | {"set/README.md": "x", "set/notes/x.md": "y"}
    source = tar(tmp_path / "set.tar.gz", files)
    assert [(one.name, one.languages, one.state) for one in add(project, source)] == [
        ("a", ("lua",), "added"),
        ("b", ("javascript",), "added"),
    ]
    changed = zipped(tmp_path / "set.zip", below("a") | below("b", {"init.js": "exports.x = 2"}) | below("c"))
    with pytest.raises(PackageExists, match="b: another") as told:
        add(project, changed)
    assert told.value.details == {"packages": ["b"]}
    assert sorted(each.name for each in project.path.iterdir()) == ["a", "b"]
    assert [(one.name, one.state) for one in add(project, changed, force=True)] == [
        ("a", "unchanged"),
        ("b", "replaced"),
        ("c", "added"),
    ]
    assert PackagePath([project]).load("b", language="javascript") == "exports.x = 2"
    with pytest.raises(PackageInvalid, match="several"):
        add(project, changed, "one")
    made(tmp_path / "folder/d")
    made(tmp_path / "folder/.e")
    assert [one.name for one in add(project, tmp_path / "folder")] == ["d"]
    made(tmp_path / "folder/bad name.x")
    with pytest.raises(PackageInvalid, match="say which"):
        add(project, tmp_path / "folder", force=True)


def linked(kind: bytes, name: str = "init.lua", target: str = "/etc/passwd") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


HOSTILE_NAMES = [
    "../x.lua",
    "a/../../x.lua",
    "/etc/x.lua",
    "a\\..\\x.lua",
    "C:/x.lua",
    "a\0b.lua",
    "a\nb",
    "a/" * 300 + "x",
    "é" * 300,
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_in_archives_lead_nowhere_else(tmp_path: Path, project: Folder, name: str) -> None:
    files = {"p/init.lua": "return {}", name: "x", f"p/{name}": "x"}
    for only in (name, f"p/{name}"):
        some = {each: text for each, text in files.items() if each in (only, "p/init.lua")}
        if name.startswith("/") and only != name:
            continue
        for source in (tar(tmp_path / "t.tar", some, "w"), zipped(tmp_path / "z.zip", some)):
            if "\0" in name:
                continue  # both end a name there
            with pytest.raises(PackageInvalid):
                add(project, source)
    assert not project.path.exists()
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix not in (".tar", ".zip")) == ["project"]


def test_what_is_no_plain_file_in_an_archive_is_refused(tmp_path: Path, project: Folder) -> None:
    for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, b"S")):
        for name in ("init.lua", ".git", "deep/part.lua"):
            given = dict(SMALL) | {name: linked(kind, name)}
            with pytest.raises(PackageInvalid):
                add(project, tar(tmp_path / f"{number}.tgz", given))
    for mode in (stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFDIR | 0o755):
        with pytest.raises(PackageInvalid):
            add(project, zipped(tmp_path / "z.zip", SMALL, mode=mode))
    with pytest.raises(PackageInvalid):
        add(project, zipped(tmp_path / "z.zip", SMALL, method=zipfile.ZIP_LZMA))  # its readers take what memory it asks for
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("init.lua", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("init.lua", "2")
    with pytest.raises(PackageInvalid, match="twice"):
        add(project, tmp_path / "twice.zip")
    assert not project.path.exists()


def test_bombs_do_not_go_off(tmp_path: Path, project: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST", 3 << 20)
    monkeypatch.setattr(archives, "_HEADERS", 1 << 20)
    monkeypatch.setattr(archives, "MOST_FILES", 50)
    large = b"\0" * (2 << 20)
    for files in (
        {"init.lua": large},
        {f"{each}.lua": b"\0" * (1 << 20) for each in range(4)},
        {f"{each}.lua": b"" for each in range(60)},
        {f".{each}": b"\0" * (1 << 20) for each in range(8)} | {"init.lua": b""},
    ):
        for source in (tar(tmp_path / "t.tgz", files), zipped(tmp_path / "z.zip", files)):
            if source.suffix == ".zip" and ".1" in files:
                continue  # what is left out of a zip is not unpacked at all
            with pytest.raises(PackageInvalid):
                add(project, source)
    # A header that claims to be followed by gigabytes of names
    claims = tarfile.TarInfo("x")
    claims.type, claims.size = tarfile.XHDTYPE, 8 << 30
    (tmp_path / "pax.tgz").write_bytes(gzip.compress(claims.tobuf() + b"1" * (8 << 20)))
    # A directory of a zip that says to be larger than it may be
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 9, 9, 1 << 30, 0, 0)
    (tmp_path / "directory.zip").write_bytes(b"\0" * 100 + end)
    (tmp_path / "large.zip").write_bytes(b"\0" * (4 << 20) + end)
    for name in ("pax.tgz", "directory.zip", "large.zip"):
        with pytest.raises(PackageInvalid):
            add(project, tmp_path / name)
    assert not project.path.exists()


def test_broken_archives_and_other_things_are_refused(tmp_path: Path, project: Folder) -> None:
    whole = tar(tmp_path / "whole.tgz", SMALL).read_bytes()
    given = {
        "cut.tgz": whole[:60],
        "no.tgz": b"hello",
        "no.zip": b"hello",
        "empty.tar": b"",
        "empty.zip": b"",
        "plain.txt": b"",
    }
    given["turned.tgz"] = whole[:20] + bytes(byte ^ 0xFF for byte in whole[20:])
    given["end.zip"] = b"PK\x05\x06"
    for name, data in given.items():
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "pipe.tar")
    (tmp_path / "nothing").mkdir()
    for name in (*given, "pipe.tar", "absent.zip", "absent", "nothing"):
        with pytest.raises(PackageInvalid) as told:
            add(project, tmp_path / name)
        assert str(tmp_path) not in str(told.value)
    assert not project.path.exists()


LONG = "folder/" + "x" * 150 + "/é.lua"


@pytest.mark.parametrize("written", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_is_read_whole_however_it_was_written(tmp_path: Path, written: int) -> None:
    files = {"init.lua": b"return {}", "deep/part.lua": b"x" * 700, "empty.lua": b""}
    files |= {"y" * 90 + "/" + "z" * 90: b"1"} if written == tarfile.USTAR_FORMAT else {LONG: b"1"}
    for packed in (True, False):
        source = tmp_path / ("p.tgz" if packed else "p.tar")
        with tarfile.open(source, "w:gz" if packed else "w", format=written) as archive:
            archive.addfile(linked(tarfile.DIRTYPE, "deep"))
            archive.addfile(linked(tarfile.DIRTYPE, ".git"))
            for name, data in (files | {".git/large": b"2" * 2_000_000}).items():
                member = tarfile.TarInfo(name)
                member.size, member.mtime = len(data), 1.5  # type: ignore[assignment] # POSIX has a header for it
                archive.addfile(member, io.BytesIO(data))
        assert archives.read_archive(source) == files
        whole = source.read_bytes()
        for broken in (
            whole[: len(whole) // 2],
            whole[:-6] if packed else whole[:3000],
            bytes([*whole[:150], 1, *whole[151:]]),
        ):
            source.write_bytes(broken)
            with pytest.raises(PackageInvalid, match="cannot be read as an archive"):
                archives.read_archive(source)


def test_headers_of_a_tar_take_no_longer_than_they_are(tmp_path: Path) -> None:
    """Python's own reader takes hours for the first, and minutes for the others."""

    def header(kind: bytes, text: bytes, claimed: int | None = None) -> bytes:
        member = tarfile.TarInfo("init.lua")
        member.type, member.size = kind, len(text) if claimed is None else claimed
        return member.tobuf() + text + b"\0" * (-len(text) % 512)

    def record(key: str, value: str) -> bytes:
        rest = f" {key}={value}\n"
        return next(f"{n}{rest}".encode() for n in range(len(rest), len(rest) + 9) if len(f"{n}{rest}") == n)

    file, end = header(b"0", b"return {}"), b"\0" * 1024
    sparse = b"".join(record(f"GNU.sparse.{key}", value) for key, value in {"major": "1", "minor": "0", "name": "x"}.items())
    for number, data in enumerate(
        [
            header(b"x", b"1" * 400_000) + file,
            header(b"x", b"1" * 60_000) + file,
            header(b"L", b"x" * 400_000) + file,
            header(b"x", sparse) + header(b"0", b"9999999\n" + b"0\n" * 1_000_000),
            header(b"x", record("size", "-512")) + file,
            header(b"x", record("size", "9" * 30)) + file,
            header(b"g", record("path", "../x.lua")) + file,
            header(b"x", record("path", "../x.lua")) + file,
            header(b"0", b"", 8 << 29),
        ]
    ):
        (tmp_path / f"{number}.tgz").write_bytes(gzip.compress(data + end, 1))
        with pytest.raises(PackageInvalid):
            archives.read_archive(tmp_path / f"{number}.tgz")
    many = header(b"g", record("comment", "x")) * 2000 + header(b"x", record("path", "other.lua")) + file + end
    (tmp_path / "many.tar").write_bytes(many)
    assert archives.read_archive(tmp_path / "many.tar") == {"other.lua": b"return {}"}


def killed_after(changes: int, work: Callable[[], object]) -> bool:
    """Whether a process that does this, and is killed after so many changes to files, did not come to its end."""
    process = os.fork()
    if process == 0:
        left = [changes]

        def count(event: str, given: Any) -> None:
            is_change = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir") or (event == "open" and given[2] & 3)
            left[0] -= is_change
            if left[0] < 0:
                os._exit(9)

        sys.addaudithook(count)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9


def test_whenever_it_is_killed_all_packages_are_old_or_all_are_new(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made(tmp_path / "old" / name, {"init.lua": "return 'old'"})
        made(tmp_path / "new" / name, {"init.lua": "return 'new'"})
    seen: list[str] = []
    for changes in itertools.count():
        (tmp_path / str(changes)).mkdir()
        project = project_folder(tmp_path / str(changes))
        add(project, tmp_path / "old")
        is_killed = killed_after(changes, functools.partial(add, project, tmp_path / "new", force=True))
        path = PackagePath([project])
        (text,) = {path.load(name) for name in ("a", "b")}
        assert {one.state for one in verify(project)} == {"ok"}
        seen.append(text)
        if not is_killed:
            break
        if changes % 4 == 0:  # whoever comes next finishes it
            assert add(project, tmp_path / "old" / "a", "c")[0].state == "added"
            assert {path.load(name) for name in ("a", "b")} == {text}
            assert sorted(each.name for each in project.path.iterdir()) == ["a", "b", "c"]
    assert seen == sorted(seen, reverse=True)
    assert {"return 'old'", "return 'new'"} == set(seen)


ADDS = """
import sys
from pathlib import Path
from holdfast.strategies import project_folder
from holdfast.strategies.adding import add
folder = project_folder(Path(sys.argv[1]))
for number in range(5):
    add(folder, Path(sys.argv[2]), f"{sys.argv[3]}{number}")
    add(folder, Path(sys.argv[2]) if number % 2 else Path(sys.argv[4]), "shared", force=True)
"""


def test_two_processes_add_at_once_and_readers_find_whole_packages(tmp_path: Path, project: Folder) -> None:
    first, second = made(tmp_path / "first"), made(tmp_path / "second", SMALL | {"init.lua": "return {2}"})
    add(project, first, "shared")
    root = str(project.path.parents[1])
    adding = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(ADDS), root, str(first), name, str(second)]) for name in "ab"
    ]
    path = PackagePath([project])
    seen = set()
    while any(process.poll() is None for process in adding):
        seen.add(path.load("shared"))
        assert {one.state for one in verify(project)} == {"ok"}
    assert [process.wait() for process in adding] == [0, 0]
    assert seen <= {"return {}", "return {2}"}
    assert {one.name for one in path.list()} == {"shared", *(f"{name}{number}" for name in "ab" for number in range(5))}
    assert {one.state for one in verify(project)} == {"ok"}
    assert not [each for each in project.path.iterdir() if each.name.startswith(".")]


# ---- what is done to them ----------------------------------------------------------------------------------------------------------


def test_a_package_that_is_not_what_was_added_is_refused(tmp_path: Path, project: Folder) -> None:
    source = made(tmp_path / "panel", SMALL | {"data.json": "{}"})
    add(project, source)
    path = PackagePath([project, Folder("user", tmp_path / "others")])
    made(tmp_path / "others/panel")
    (project.path / "panel/init.lua").write_text("return 'evil'")
    (project.path / "panel/data.json").unlink()
    (project.path / "panel/more.lua").write_text("")
    for _ in range(2):
        with pytest.raises(PackageChanged) as told:
            path.find("panel")
    assert told.value.details == {"package": "panel", "changed": ["init.lua"], "missing": ["data.json"], "added": ["more.lua"]}
    (verified,) = verify(project)
    assert (verified.state, verified.changed, verified.missing, verified.added) == (
        "changed",
        ["init.lua"],
        ["data.json"],
        ["more.lua"],
    )
    with pytest.raises(PackageExists):
        add(project, source)
    assert add(project, source, force=True)[0].state == "replaced"
    assert path.load("panel") == "return {}"
    for each in sorted((project.path / "panel").rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    (project.path / "panel").rmdir()
    with pytest.raises(PackageChanged, match="not there"):  # and not the user's
        path.find("panel")
    assert (verify(project)[0].state, verify(project)[0].missing) == ("missing", ["data.json", "deep/part.lua", "init.lua"])
    assert [(one.source, one.problem and one.problem.code, one.hides) for one in path.list()] == [
        ("project", "PACKAGE_CHANGED", ("user",))
    ]
    assert add(project, source)[0].state == "added"
    assert verify(project)[0].state == "ok"
    made(project.path / "hand")
    assert [(one.name, one.state) for one in verify(project)] == [("hand", "by hand"), ("panel", "ok")]


def test_a_link_is_read_where_it_is(tmp_path: Path, project: Folder) -> None:
    source = made(tmp_path / "project/work/panel")
    assert link(project, source) == "panel"
    assert project.lock is not None
    assert read_lock(project.lock).links == {"panel": "work/panel"}  # fit for others who have the project
    path = PackagePath([project])
    assert path.get("panel").source == "link"
    (source / "init.lua").write_text("return 'new'")
    assert path.load("panel") == "return 'new'"
    elsewhere = made(tmp_path / "elsewhere", {"init.lua": "return 'elsewhere'"})
    with pytest.raises(PackageExists):
        link(project, elsewhere, "panel")
    with pytest.raises(PackageExists):
        add(project, elsewhere, "panel")
    assert link(project, source) == "panel"  # once more
    link(project, elsewhere, "panel", force=True)
    assert path.load("panel") == "return 'elsewhere'"
    add(project, source, "panel", force=True)
    assert (path.get("panel").source, read_lock(project.lock).links) == ("project", {})
    with pytest.raises(PackageExists):
        link(project, elsewhere, "panel")
    link(project, elsewhere, "panel", force=True)
    assert [(one.name, one.source, one.state) for one in verify(project)] == [
        ("panel", "link", "linked"),
        ("panel", "panel", "ok"),
    ]
    assert (remove(project, "panel"), path.get("panel").source) == ("link", "project")
    assert elsewhere.exists()
    link(project, elsewhere, "away")
    (elsewhere / "init.lua").unlink()
    with pytest.raises(PackageInvalid, match="link"):
        path.find("away")
    assert [one.state for one in verify(project)] == ["missing", "ok"]
    for bad in (tmp_path / "nothing", elsewhere, tmp_path):
        with pytest.raises(PackageInvalid):
            link(project, bad)


def test_nobody_is_kept_waiting_by_a_pipe(tmp_path: Path, project: Folder) -> None:
    source = made(tmp_path / "panel")
    link(project, source)
    project.hold.unlink()
    os.mkfifo(project.hold)
    (source / "init.lua").unlink()
    path = PackagePath([project])
    with pytest.raises(PackageInvalid, match="link"):
        path.find("panel")
    os.mkfifo(project.path.parent / "packages")
    assert project.lock is not None
    project.lock.unlink()
    os.mkfifo(project.lock)
    for call in (lambda: path.find("panel"), lambda: verify(project), lambda: remove(project, "panel")):
        with pytest.raises(PackageInvalid, match="cannot be read"):
            call()


def test_a_pipe_in_the_place_of_a_package_gives_way(tmp_path: Path, project: Folder) -> None:
    add(project, made(tmp_path / "panel"))
    remove(project, "panel")
    os.mkfifo(project.path / "panel")
    assert add(project, tmp_path / "panel", force=True)[0].state == "replaced"
    assert sorted(each.name for each in project.path.iterdir()) == ["panel"]


def test_removing_removes_that_and_nothing_else(tmp_path: Path, project: Folder) -> None:
    source = made(tmp_path / "panel")
    add(project, source)
    kept = made(tmp_path / "kept")
    (project.path / "byhand").symlink_to(kept)
    assert PackagePath([project]).find("byhand") is not None
    assert remove(project, "byhand") == "package"
    assert (kept / "init.lua").exists()
    assert remove(project, "panel") == "package"
    assert list(project.path.iterdir()) == []
    assert project.lock is not None
    assert read_lock(project.lock) == Lock()
    for name in ("panel", "reflect"):
        with pytest.raises(PackageNotFound):
            remove(project, name)
    for folder in (Folder("path", tmp_path), Folder("bundled", tmp_path)):
        with pytest.raises(HoldfastError):
            remove(folder, "panel")
        with pytest.raises(PackageInvalid):
            add(folder, source)
