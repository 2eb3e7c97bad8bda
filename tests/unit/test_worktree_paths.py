"""Files of a worktree can be read, and no others, whatever a path or a link says."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.capabilities import EmptyPath, parse_path, read_file, resolve_root
from holdfast.capabilities.files import _walk as module
from holdfast.domain import FileNotFound, InvalidPath, WorktreeNotFound


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A worktree beside a secret."""
    (tmp_path / "secret.js").write_text("secret")
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    (tree / "main.js").write_text("main")
    (tree / "lib" / "one.js").write_text("one")
    return tree


def read(root: Path, path: str) -> tuple[str, str]:
    return tuple(read_file(resolve_root(str(root)), path))


# ---- paths as text


@pytest.mark.parametrize("blank", ["", ".", "  ", "./", "a/..", "\t\n", "./."])
def test_pth_01_a_blank_path_is_empty(blank: str) -> None:
    with pytest.raises(EmptyPath):
        parse_path(blank)


@pytest.mark.parametrize(
    "outside", ["/tmp/a.js", "//a.js", "../a.js", "..", "a/../../b.js", "./../a", "/", "a\0b", "..\\a.js", "C:\\a.js", "\ud800"]
)
def test_pth_01_what_leads_out_is_refused(outside: str) -> None:
    with pytest.raises(InvalidPath) as raised:
        parse_path(outside)
    assert not isinstance(raised.value, EmptyPath)


@pytest.mark.parametrize("wrong", [None, 7, b"a.js", ["a.js"], "a" * 5000])
def test_what_is_no_path_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidPath):
        parse_path(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("runtime/startup.js", "runtime/startup.js"),
        ("runtime/../runtime/startup.js", "runtime/startup.js"),
        ("./a//b/./c.js", "a/b/c.js"),
        ("a/", "a"),
        ("..a/...", "..a/..."),
        (" a b.js", " a b.js"),
        ("\u00e9/\U0001f980.js", "\u00e9/\U0001f980.js"),
    ],
)
def test_pth_01_a_path_loses_its_detours(given: str, clean: str) -> None:
    assert parse_path(given) == clean


# ---- files


def test_a_file_is_read_by_its_real_path(root: Path) -> None:
    assert read(root, "lib/../lib/./one.js") == ("lib/one.js", "one")
    assert read(root, "main.js") == ("main.js", "main")


@pytest.mark.parametrize("path", ["nothing.js", "lib/nothing.js", "no/such/folder.js", "main.js/below", "", ".", " "])
def test_what_is_not_there_is_not_found(root: Path, path: str) -> None:
    with pytest.raises(FileNotFound) as raised:
        read(root, path)
    assert str(root) not in str(raised.value)


@pytest.mark.parametrize("kind", ["absolute", "relative", "folder", "through another", "chain"])
def test_pth_02_a_link_to_the_outside_is_refused(root: Path, kind: str) -> None:
    secret = root.parent / "secret.js"
    path = "link.js"
    match kind:
        case "absolute":
            (root / path).symlink_to(secret)
        case "relative":
            (root / path).symlink_to("../secret.js")
        case "folder":
            (root / "out").symlink_to(root.parent)
            path = "out/secret.js"
        case "through another":
            (root / "lib" / "up").symlink_to("..")
            path = "lib/up/../secret.js"  # by its text this is lib/secret.js
            (root / "lib" / "secret.js").symlink_to("up/../secret.js")
        case "chain":
            (root / "a").symlink_to("b")
            (root / "b").symlink_to("lib/../../secret.js")
            path = "a"
    with pytest.raises(InvalidPath) as raised:
        read(root, path)
    assert str(root.parent) not in str(raised.value)


def test_pth_02_a_folder_whose_name_only_begins_like_the_root_is_outside(root: Path) -> None:
    twin = root.parent / "tree-two"
    twin.mkdir()
    (twin / "a.js").write_text("secret")
    (root / "link.js").symlink_to(twin / "a.js")
    with pytest.raises(InvalidPath):
        read(root, "link.js")


def test_pth_03_a_link_to_the_inside_gives_the_real_place(root: Path) -> None:
    (root / "relative.js").symlink_to("lib/one.js")
    (root / "absolute.js").symlink_to(root / "lib" / "one.js")
    (root / "lib" / "up.js").symlink_to("../main.js")
    (root / "folder").symlink_to("lib")
    (root / "chain.js").symlink_to("folder/up.js")
    (root / "lib" / "self").symlink_to(root)
    for path in ("relative.js", "absolute.js", "folder/one.js", "lib/self/lib/self/lib/one.js"):
        assert read(root, path) == ("lib/one.js", "one")
    for path in ("lib/up.js", "chain.js", "folder/up.js"):
        assert read(root, path) == ("main.js", "main")


def test_pth_03_the_root_itself_may_be_named_by_a_link(root: Path) -> None:
    other = root.parent / "other"
    other.symlink_to(root)
    (root / "link.js").symlink_to(other / "main.js")  # absolute, by a name of the root that is not its real one
    assert resolve_root(str(other)) == os.path.realpath(root)
    assert read(other, "link.js") == ("main.js", "main")


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(InvalidPath):
        read(root, "a")


def test_a_link_that_leads_nowhere_is_not_found(root: Path) -> None:
    (root / "a").symlink_to("nothing")
    with pytest.raises(FileNotFound):
        read(root, "a")


def test_folders_pipes_sockets_and_devices_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe")  # to open it would wait for a writer
    (root / "folder").symlink_to("lib")
    with socket.socket(socket.AF_UNIX) as listening:
        place = Path.cwd()
        os.chdir(root)  # the path of a socket must be short
        try:
            listening.bind("socket")
        finally:
            os.chdir(place)
        for path in ("pipe", "socket", "lib", "folder"):
            with pytest.raises(InvalidPath):
                read(root, path)
    with pytest.raises(InvalidPath):
        read(Path("/dev"), "null")


def test_large_binary_and_very_deep_files_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidPath, match="UTF-8"):
        read(root, "bytes")
    monkeypatch.setattr(module, "LARGEST", 100)
    (root / "fits").write_text("x" * 100)
    (root / "large").write_text("x" * 101)
    assert read(root, "fits")[1] == "x" * 100
    with pytest.raises(InvalidPath, match="100 bytes"):
        read(root, "large")
    deep = root
    for _ in range(70):
        deep = deep / "d"
        deep.mkdir()
    (deep / "a").write_text("deep")
    with pytest.raises(InvalidPath, match="folders"):
        read(root, "d/" * 70 + "a")
    with pytest.raises(InvalidPath):
        read(root, "x" * 300)  # longer than a name may be


def test_a_byte_order_mark_is_no_part_of_the_text(root: Path) -> None:
    (root / "mark.js").write_bytes(b"\xef\xbb\xbf1")
    (root / "empty.js").touch()
    assert read(root, "mark.js") == ("mark.js", "1")
    assert read(root, "empty.js") == ("empty.js", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(root: Path) -> None:
    (root / "main.js").chmod(0)
    with pytest.raises(InvalidPath):
        read(root, "main.js")


# ---- roots


def test_pth_04_a_root_must_be_a_folder(root: Path) -> None:
    (root / "broken").symlink_to("nothing")
    for path in (root / "main.js", root / "nothing", root / "broken"):
        with pytest.raises(WorktreeNotFound) as raised:
            resolve_root(str(path))
        assert str(root) not in str(raised.value)
    for wrong in ("", " ", "a\0b", None, 7, "\ud800", "x" * 5000):
        with pytest.raises(WorktreeNotFound):
            resolve_root(wrong)  # type: ignore[arg-type]


def test_a_relative_root_becomes_absolute(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    assert resolve_root("lib/..") == os.path.realpath(root)


def test_a_root_that_has_gone_or_was_replaced_by_a_link_is_not_found(root: Path) -> None:
    real = resolve_root(str(root))
    root.rename(root.parent / "moved")
    with pytest.raises(WorktreeNotFound):
        read_file(real, "main.js")
    root.symlink_to(root.parent)
    with pytest.raises(WorktreeNotFound):
        read_file(real, "secret.js")


# ---- others who change the tree meanwhile


SWAP = """
import os, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.rename("lib", "away")
    os.symlink("..", "lib")
    os.unlink("lib")
    os.rename("away", "lib")
"""


def test_a_tree_that_changes_under_the_walk_never_gives_what_is_outside(root: Path) -> None:
    """A folder that becomes a link and a folder again, as fast as can be: a check before the opening would be fooled."""
    (root.parent / "one.js").write_text("secret")
    real, found, until = resolve_root(str(root)), set(), time.monotonic() + 1
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", SWAP, real], stdout=subprocess.PIPE) as swapping:
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            while time.monotonic() < until:
                try:
                    found.add(read_file(real, "lib/one.js").text)
                except (FileNotFound, InvalidPath) as error:
                    found.add(error.code)
        finally:
            swapping.kill()
    assert {"one"} < found <= {"one", "FILE_NOT_FOUND", "INVALID_PATH"}


def test_no_descriptor_stays_open(root: Path) -> None:
    real = resolve_root(str(root))
    (root / "out").symlink_to("/etc")
    (root / "again").symlink_to(root / "lib")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("lib/one.js", "lib", "nothing", "out/passwd", "lib/nothing", "again/one.js", "../x"):
        with contextlib.suppress(FileNotFound, InvalidPath):
            read_file(real, path)
    assert len(os.listdir("/proc/self/fd")) == before
