"""`fs`: what no script gets it to do, however it is asked, and whoever changes the tree meanwhile."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.capabilities.files import _walk as walking
from holdfast.capabilities.files import _writes as writes
from holdfast.sandbox import HostError
from tests.integration.fs_files import VERBS, Files, everything, make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A worktree. Whatever a test tries, the secret beside it stays as it is."""
    yield make_tree(tmp_path)
    assert (tmp_path / "secret.txt").read_text() == "secret"


# ---- what no verb does


def test_no_path_leads_out(tree: Path) -> None:
    out = [
        "..", "../secret.txt", "lib/../../secret.txt", "/etc/passwd", "/", tree.parent, f"{tree}/../secret.txt", f"{tree}-two/a",
        "lib\\one.txt", "..\\secret.txt", "a\0b", "x" * 5000, "/proc/self/environ", "/proc/self/cwd", "/dev/null", "//etc/passwd",
        "lib/../..", "./../tree/../secret.txt", "@no/../../secret.txt", "~/../../x", "\ud800",
    ]  # fmt: skip
    fs = Files(tree, write=True)
    tried = fs.tried(*out[:-1])
    assert tried == everything("INVALID_PATH")
    assert {fs.code(verb, out[-1], *given) for verb, given in VERBS.items()} == {"INVALID_ARGUMENT"}
    assert {fs.code("renameSync", "note.txt", str(path)) for path in out[:-1]} == {"INVALID_PATH"}
    assert (tree / "note.txt").read_text() == "héllo"
    for odd in (
        "%2e%2e/secret.txt",
        "..;/secret.txt",
        "\uff0e\uff0e/secret.txt",
        "..\u200b/secret.txt",
        "file:///etc/passwd",
        "...",
        "-rf",
    ):
        assert fs.code("readFileSync", odd) == "FILE_NOT_FOUND"
    for wrong in (7, None, ["note.txt"], {}, b"note.txt", True):
        assert fs.code("readFileSync", wrong) == "INVALID_ARGUMENT"


def test_no_link_leads_out(tree: Path) -> None:
    links = {
        "out": "..", "secret": "../secret.txt", "absolute": tree.parent / "secret.txt", "zero": "/dev/zero", "proc": "/proc/self/root",
        "deep": "lib/../../secret.txt", "chain": "secret", "up": "lib/../out", "new": "../new.txt",
    }  # fmt: skip
    for name, target in links.items():
        (tree / name).symlink_to(target)
    fs = Files(tree, write=True)
    following = list(VERBS)[:6]  # the others do it to the link itself
    for path in [*links, "out/secret.txt", "out/tree/note.txt", "up/secret.txt", "proc/etc/passwd", "chain/x"]:
        assert {fs.code(verb, path, *VERBS[verb]) for verb in following} == {"INVALID_PATH"}, path
    for path in ("out/secret.txt", "up/tree", "proc/etc/passwd"):
        assert fs.code("rmSync", path, {"recursive": True}) == fs.code("renameSync", path, "x") == "INVALID_PATH"
        assert fs.code("renameSync", "note.txt", path) == "INVALID_PATH"
    (tree / "circle").symlink_to("circle")
    assert fs.code("readFileSync", "circle") == "INVALID_PATH"
    (tree / "gone").symlink_to("no")
    assert fs.code("readFileSync", "gone") == fs.code("mkdirSync", "gone/x", {"recursive": True}) == "FILE_NOT_FOUND"
    # A link is removed and renamed itself, and what it names stays.
    fs.renameSync("out", "renamed")
    assert os.readlink(tree / "renamed") == ".."
    for name in ("renamed", "secret", "absolute", "zero", "proc"):
        fs.rmSync(name, {"recursive": True})
    fs.renameSync("note.txt", "deep")
    assert not (tree / "deep").is_symlink()
    assert sorted(os.listdir(tree.parent)) == ["secret.txt", "tree"]


def test_pipes_sockets_devices_hard_links_and_side_files_are_nobodys(tree: Path, tmp_path: Path) -> None:
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tree):  # the path of a socket must be short
        listening.bind("socket")
    kept = ["a.db-journal", "a.db-wal", "A.DB-SHM", ".holdfast-0123456789abcdef.new"]
    for name in kept:
        (tree / name).touch()
    fs = Files(tree, write=True)
    assert fs.tried("pipe", "socket") | {"mkdirSync": set()} == everything("INVALID_PATH") | {"mkdirSync": set()}
    assert fs.code("mkdirSync", "pipe") == "FILE_EXISTS"
    assert fs.tried(*kept) == everything("INVALID_PATH")
    assert {fs.code("renameSync", "note.txt", path) for path in ("pipe", *kept, "new-journal")} == {"INVALID_PATH"}
    assert {fs.code("mkdirSync", path) for path in ("x-wal", "lib/x-SHM")} == {"INVALID_PATH"}
    assert fs.code("mkdirSync", "n/x-wal/y", {"recursive": True}) == "INVALID_PATH"
    assert fs.readdirSync(".") == sorted(["A.DB-SHM", "a.db-journal", "a.db-wal", "lib", "note.txt", "pipe", "socket"])
    (tree / "lib" / "deep").mkdir()
    for name in ("pipe", "a.db-wal"):  # they are not removed with their folder either, and nothing else of it is
        (tree / name).rename(tree / "lib" / "deep" / name)
        assert fs.code("rmSync", "lib", {"recursive": True, "force": True}) == "INVALID_PATH"
        (tree / "lib" / "deep" / name).unlink()
    assert fs.readFileSync("lib/one.txt") == "one"
    # A hard link is the file outside.
    os.link(tmp_path / "secret.txt", tree / "hard")
    for verb in list(VERBS)[:5]:
        assert fs.code(verb, "hard", *VERBS[verb]) == ("INVALID_PATH")
    allowed = Files(tree, write=True, hard_links=True)
    assert allowed.readFileSync("hard") == "secret"
    allowed.writeFileSync("hard", "mine")  # another file takes its place
    os.link(tmp_path / "secret.txt", tree / "again")
    fs.renameSync("again", "hard")
    fs.rmSync("hard")
    if os.geteuid() == 0:
        assert set().union(*Files(Path("/dev")).tried("null", "zero").values()) <= {"INVALID_PATH", "WRITE_NOT_ALLOWED"}


# ---- others who change the tree meanwhile


SWAP = """
import os, shutil, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.rename("lib", "away")
    try:
        os.symlink("../outside", "lib")
        os.unlink("lib")
    except OSError:  # a folder was made here meanwhile
        pass
    while os.path.exists("away"):
        try:
            os.rename("away", "lib")
        except OSError:
            shutil.rmtree("lib", ignore_errors=True)
"""


def test_a_tree_that_changes_under_a_verb_never_leads_out(tree: Path, tmp_path: Path) -> None:
    """A folder becomes a link to the outside and a folder again, as fast as can be: a check before the deed would be fooled."""
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "one.txt").write_text("secret")
    (outside / "sub/two.txt").write_text("secret")
    before = sorted(outside.rglob("*"))
    fs = Files(tree, write=True)
    results: set[Any] = set()
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", SWAP, str(tree)], stdout=subprocess.PIPE) as swapping:
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            for at in range(150):
                for verb, *given in (
                    ("readFileSync", "lib/one.txt"),
                    ("writeFileSync", "lib/new.txt", "x"),
                    ("mkdirSync", f"lib/sub/{at}", {"recursive": True}),
                    ("renameSync", "lib/new.txt", f"lib/{at}.txt"),
                    ("renameSync", "lib/sub/two.txt", "stolen.txt"),
                    ("rmSync", f"lib/{at}.txt"),
                    ("rmSync", "lib/sub", {"recursive": True}),
                    ("statSync", "lib/sub/two.txt"),
                ):
                    try:
                        results.add(str(fs.calls[verb](*given)))
                    except HostError as error:
                        results.add(error.script_code)
        finally:
            swapping.kill()
    assert results <= {"one", "None", "FILE_NOT_FOUND", "INVALID_PATH", "FILE_EXISTS"}
    assert sorted(outside.rglob("*")) == before
    assert {path.read_text() for path in before if path.is_file()} == {"secret"}
    assert not (tree / "stolen.txt").exists()


def test_a_folder_that_becomes_a_link_while_it_is_emptied_is_not_followed(tree: Path, tmp_path: Path) -> None:
    """At the worst moment: between the look at what is in a folder and the removal."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (tree / "lib/sub").mkdir()
    (tree / "lib/sub/x").touch()
    removed = os.unlink

    def swap(path: Any, **options: Any) -> None:
        monkey.undo()
        (tree / "lib/sub").rename(tree / "away")
        (tree / "lib/sub").symlink_to(outside)
        removed(path, **options)

    with pytest.MonkeyPatch.context() as monkey:
        monkey.setattr(os, "unlink", swap)
        assert Files(tree, write=True).code("rmSync", "lib", {"recursive": True}) in ("ok", "FILE_NOT_FOUND")
    assert (outside / "precious").exists()


def test_writers_of_one_file_at_the_same_time_leave_it_whole(tree: Path) -> None:
    texts = [str(digit) * 20_000 for digit in range(4)]
    failed: list[BaseException] = []

    def work(text: str) -> None:
        try:
            fs = Files(tree, write=True)
            for _ in range(10):
                fs.writeFileSync("note.txt", text)
                assert fs.readFileSync("note.txt") in texts
        except BaseException as error:  # noqa: BLE001 - it is told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [name for name in os.listdir(tree) if name.startswith(".")] == []


def test_what_fails_half_way_leaves_nothing_behind(tree: Path) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as monkey:
        monkey.setattr(os, "fsync", full)
        assert Files(tree, write=True).code("writeFileSync", "note.txt", "x") == "DISK_FULL"
        with walking.Walk(str(tree)) as walk, pytest.raises(OSError, match="space"):
            writes.write(walk, "new", b"x")
    assert sorted(os.listdir(tree)) == ["lib", "note.txt"]
    assert (tree / "note.txt").read_text() == "héllo"
