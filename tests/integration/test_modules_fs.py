"""`fs`: what it does, in sessions and asked of the module itself; its roots and quotas."""

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.capabilities import modules
from holdfast.capabilities.files import _writes as writes
from holdfast.domain import EffectKind, InvalidValue
from tests.acceptance.scenes import scene
from tests.integration.fs_files import VERBS, Files, everything, make_tree
from tests.modules import place


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


# ---- in sessions


@scene
async def test_a_script_in_javascript(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    config = {"write": True, "roots": {"data": {"folder": str(tmp_path / "data")}}, "max_files": 6}
    async with place(tree, fs=config) as at:
        here = await at.session()
        source = """
            var fs = require('fs'), code = (f, ...a) => { try { return f(...a) ?? 'ok' } catch (e) { return e.code } };
            fs.mkdirSync('a/b', {recursive: true});
            fs.writeFileSync('a/b/c', new Uint8Array([0, 255]));
            fs.renameSync('a/b/c', 'a/d');
            [fs.readdirSync('a'), Array.from(fs.readFileSync('a/d', {encoding: 'buffer'})), fs.statSync('a/b').isDirectory,
             code(fs.writeFileSync, 'f', ''), code(fs.rmSync, 'a'), code(fs.rmSync, 'a', {recursive: true}), fs.existsSync('a'),
             code(fs.writeFileSync, '@data/x', ''), code(fs.mkdirSync, 'z', {mode: 1}), code(fs.rmSync, 'z', true)]
        """
        assert await at.run(here, source) == [
            ["b", "d"],
            [0, 255],
            True,
            "QUOTA_EXCEEDED",
            "IS_FOLDER",
            "ok",
            False,
            "WRITE_NOT_ALLOWED",
            "INVALID_ARGUMENT",
            "INVALID_ARGUMENT",
        ]
        turn = await at.hf.executions.run(here, "fs.rmSync('../secret.txt')")
        assert turn.execution.error is not None
        assert turn.execution.error["code"] == "INVALID_PATH"
        told = [event for event in await at.hf.executions.events(turn.execution.id) if event.type == "system"]
        assert [event.payload["code"] for event in told] == ["INVALID_PATH"]


@scene
async def test_a_script_in_lua(tree: Path) -> None:
    async with place(tree, language="lua", fs={"write": True}) as at:
        here = await at.session()
        source = """
            local fs = require('fs')
            fs.mkdirSync('a/b', {recursive = true})
            fs.writeFileSync('a/b/c', 'x\\255')
            fs.renameSync('a/b/c', 'a/d')
            local size = #fs.readFileSync('a/d', 'buffer')
            local ok, e = pcall(fs.rmSync, 'a', {})
            fs.rmSync('a', {recursive = true})
            fs.rmSync('a', {force = true})
            local out, o = pcall(fs.renameSync, 'note.txt', '../x')
            return {size, e.code, o.code, fs.existsSync('a'), fs.readdirSync('.')}
        """
        assert await at.run(here, source) == [2, "IS_FOLDER", "INVALID_PATH", False, ["lib", "note.txt"]]


def test_what_is_not_done_twice_is_marked_so() -> None:
    kinds = modules()["fs"].functions()
    assert set(kinds) == set(VERBS)
    assert {name for name, kind in kinds.items() if kind is EffectKind.ONCE} == {"mkdirSync", "rmSync", "renameSync"}
    assert kinds["writeFileSync"] is EffectKind.IDEMPOTENT


# ---- reading


def test_reading(tree: Path) -> None:
    (tree / "link").symlink_to("lib")
    (tree / "bytes").write_bytes(b"\xff\x00")
    (tree / "back\\slash").touch()
    (tree / os.fsdecode(b"\xff")).touch()
    fs = Files(tree)
    for path in ("note.txt", "./lib/../note.txt", tree / "note.txt", tree / "lib/../note.txt", f"//{tree}/./note.txt"):
        assert fs.readFileSync(str(path)) == "héllo"
    assert fs.readFileSync("link/one.txt", "utf-8") == "one"
    assert fs.readFileSync("bytes", "buffer") == fs.readFileSync("bytes", {"encoding": "buffer"}) == b"\xff\x00"
    assert fs.readdirSync(".") == fs.readdirSync(str(tree)) == ["bytes", "lib", "link", "note.txt"]
    assert fs.readdirSync("link/") == ["one.txt"]
    seen = fs.statSync("note.txt")
    assert seen == {"size": 6, "isFile": True, "isDirectory": False, "mtimeMs": (tree / "note.txt").stat().st_mtime_ns / 1e6}
    assert fs.statSync("lib")["isDirectory"]
    assert [fs.existsSync(path) for path in ("lib", ".", "lib/no", "note.txt/no", "")] == [True, True, False, False, False]
    assert fs.code("readFileSync", "lib") == "IS_FOLDER"
    assert fs.code("readFileSync", "bytes") == "NOT_TEXT"
    assert fs.code("readFileSync", "note.txt", "latin1") == "INVALID_ARGUMENT"
    assert fs.code("readdirSync", "note.txt") == "NOT_FOLDER"
    assert Files(tree, max_file_bytes=5).code("readFileSync", "note.txt") == "FILE_TOO_LARGE"
    for verb in ("readFileSync", "readdirSync", "statSync"):
        assert {fs.code(verb, path) for path in ("no", "lib/no", "note.txt/no", "", " ")} == {"FILE_NOT_FOUND"}
    assert {fs.code(verb, "note.txt", *VERBS[verb]) for verb in list(VERBS)[4:]} == {"WRITE_NOT_ALLOWED"}


# ---- writing


def test_files_are_written_whole(tree: Path) -> None:
    (tree / "link").symlink_to("lib/one.txt")
    (tree / "new").symlink_to("lib/two.txt")
    (tree / "fixed").write_text("fixed")
    (tree / "fixed").chmod(0o444)
    (tree / "note.txt").chmod(0o640)
    fs = Files(tree, write=True)
    for path in ("note.txt", "link", "new", str(tree / "lib/three.txt"), "odd \n'\"*?[é\U0001f980~ "):
        fs.writeFileSync(path, "wrötten")
        assert fs.readFileSync(path) == "wrötten"
    assert (tree / "lib/two.txt").read_text() == "wrötten"
    assert (tree / "link").is_symlink()
    assert (tree / "note.txt").stat().st_mode & 0o777 == 0o640
    assert fs.code("writeFileSync", "fixed", "x") == "FILE_READ_ONLY"
    assert fs.code("writeFileSync", "lib", "x") == fs.code("writeFileSync", ".", "x") == "IS_FOLDER"
    assert fs.code("writeFileSync", "no/x", "x") == fs.code("writeFileSync", "note.txt/x", "x") == "FILE_NOT_FOUND"
    assert fs.code("writeFileSync", "x" * 300, "x") == "FILE_FAILED"
    assert fs.code("writeFileSync", "x", {}) == "INVALID_ARGUMENT"
    assert Files(tree, write=True, max_file_bytes=3).code("writeFileSync", "x", "four") == "FILE_TOO_LARGE"
    assert [name for name in os.listdir(tree) if name.startswith(".")] == []


def test_folders_are_made_removed_and_renamed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "_BATCH", 3)
    (tree / "link").symlink_to("lib")
    fs = Files(tree, write=True)
    fs.mkdirSync("a")
    fs.mkdirSync("link/b/c", {"recursive": True})
    fs.mkdirSync("lib/b/c", {"recursive": True})
    fs.mkdirSync(".", {"recursive": True})
    assert (tree / "lib/b/c").is_dir()
    there = [("a",), ("note.txt",), ("link",), (".",), ("note.txt", {"recursive": True}), ("note.txt/x", {"recursive": True})]
    assert {fs.code("mkdirSync", *given) for given in there} == {"FILE_EXISTS"}
    assert fs.code("mkdirSync", "no/x") == fs.code("mkdirSync", "note.txt/x") == "FILE_NOT_FOUND"
    assert (
        fs.code("rmSync", "no") == fs.code("rmSync", "no/x") == fs.code("rmSync", "", {"recursive": True}) == "FILE_NOT_FOUND"
    )
    fs.rmSync("no/x", {"force": True})
    assert fs.code("rmSync", "lib") == fs.code("rmSync", "lib", {"force": True}) == "IS_FOLDER"
    for root in (".", "lib/..", "/" + str(tree), "./"):
        assert fs.code("rmSync", root, {"recursive": True, "force": True}) == "INVALID_PATH"
        assert fs.code("renameSync", root, "x") == fs.code("renameSync", "a", root) == "INVALID_PATH"
    fs.renameSync("lib", "a")  # an empty folder gives way
    assert fs.readFileSync("a/one.txt") == "one"
    fs.mkdirSync("full/x", {"recursive": True})
    assert fs.code("renameSync", "a", "full") == "FOLDER_NOT_EMPTY"
    assert fs.code("renameSync", "note.txt", "full") == "IS_FOLDER"
    assert fs.code("renameSync", "full", "note.txt") == "NOT_FOLDER"
    assert fs.code("renameSync", "full", "full/x/y") == "INVALID_ARGUMENT"
    assert fs.code("renameSync", "no", "x") == fs.code("renameSync", "note.txt", "no/x") == "FILE_NOT_FOUND"
    fs.renameSync("note.txt", "a/one.txt")
    assert fs.readFileSync("a/one.txt") == "héllo"
    (tree / "full/x" / os.fsdecode(b"\xff\n")).touch()
    (tree / "full/x/out").symlink_to(tree.parent)
    (tree / "full/.holdfast-0123456789abcdef.new").touch()
    for at in range(10):  # more than are looked at in one go
        (tree / "full" / str(at)).touch()
    for name in ("full", "a"):
        fs.rmSync(name, {"recursive": True})
    assert fs.readdirSync(".") == ["link"]


def test_a_tree_is_never_deeper_than_a_path(tree: Path) -> None:
    """Not by renaming one deep folder into another either: what nobody can name nobody could remove."""
    fs = Files(tree, write=True)
    assert fs.code("mkdirSync", "d/" * 65, {"recursive": True}) == "INVALID_PATH"
    assert not fs.existsSync("d")
    fs.mkdirSync("d/" * 60, {"recursive": True})
    fs.mkdirSync("e/" * 60, {"recursive": True})
    assert fs.code("renameSync", "e", "d/" * 60 + "e") == "INVALID_PATH"
    assert fs.code("renameSync", "e", "d/" * 4 + "e") == "ok"
    fs.writeFileSync("d/" * 4 + "e/" * 60 + "x", "deep")
    fs.rmSync("d", {"recursive": True})
    deeper = tree
    for _ in range(80):  # somebody else made it
        deeper = deeper / "x"
        deeper.mkdir()
    assert fs.code("rmSync", "x", {"recursive": True}) == "INVALID_PATH"
    assert deeper.is_dir()
    fs.writeFileSync("note.txt", "larger than it was")  # it does not hinder others


# ---- roots


def test_other_roots(tree: Path, tmp_path: Path) -> None:
    for name in ("data", "work", "data/@data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/a").write_text("a")
    (tmp_path / "data/out").symlink_to(tree)
    (tree / "@types").mkdir()
    (tree / "@types/x").write_text("own")
    roots = {"data": {"folder": str(tmp_path / "data")}, "work": {"folder": str(tmp_path / "work"), "write": True}}
    fs = Files(tree, roots=roots)
    assert fs.readFileSync("@data/a") == fs.readFileSync("@data//./a") == "a"
    assert fs.readdirSync("@data") == ["@data", "a", "out"]
    assert fs.readFileSync("@types/x") == fs.readFileSync("./@types/x") == "own"
    assert fs.code("readFileSync", "./@data/a") == "FILE_NOT_FOUND"
    for path in ("@data/..", "@data/../tree/note.txt", "@data/out/note.txt", "@work/../data/a", tmp_path / "data/a"):
        assert fs.code("readFileSync", str(path)) == "INVALID_PATH"
    assert fs.code("readFileSync", "@data//etc/passwd") == "FILE_NOT_FOUND"
    fs.writeFileSync("@work/x", "x")
    for path in ("note.txt", "@data/a", "@data/new", "new"):
        assert fs.code("writeFileSync", path, "longer than that") == fs.code("mkdirSync", path + "-2") == "WRITE_NOT_ALLOWED"
    for path in ("note.txt", "@data/a"):
        assert fs.code("rmSync", path) == fs.code("renameSync", path, "x") == "WRITE_NOT_ALLOWED"
        assert fs.code("renameSync", path, "@work/y") == fs.code("renameSync", "@work/x", path) == "WRITE_NOT_ALLOWED"
    assert fs.code("rmSync", "@work", {"recursive": True}) == fs.code("renameSync", "@work", "@work/x") == "INVALID_PATH"
    assert Files(tree, write=True, roots=roots).code("renameSync", "@work/x", "x") == "DIFFERENT_ROOTS"
    alone = Files(None, roots=roots)
    assert alone.readFileSync("@work/x") == "x"
    assert alone.code("readFileSync", "x") == "WORKTREE_NOT_FOUND"
    (tmp_path / "work").rename(tmp_path / "moved")
    (tmp_path / "work").symlink_to("moved")
    assert fs.code("readFileSync", "@work/x") == "WORKTREE_NOT_FOUND"
    assert fs.readFileSync("@data/a") == "a"


def test_no_link_is_on_the_way_to_a_root(tmp_path: Path) -> None:
    (tmp_path / "up/tree").mkdir(parents=True)
    (tmp_path / "other/tree").mkdir(parents=True)
    (tmp_path / "other/tree/secret").write_text("secret")
    fs = Files(tmp_path / "up/tree", write=True)
    fs.writeFileSync("x", "x")
    (tmp_path / "up").rename(tmp_path / "away")
    (tmp_path / "up").symlink_to("other")
    assert fs.tried("secret") == everything("WORKTREE_NOT_FOUND")


def test_of_roots_in_one_another_the_innermost_decides(tree: Path, tmp_path: Path) -> None:
    (tree / "out").mkdir()
    (tree / "lib/fixed").mkdir()
    out, fixed = {"folder": str(tree / "out"), "write": True}, {"folder": str(tree / "lib/fixed")}
    fs = Files(tree, roots={"out": out})
    fs.writeFileSync("out/x", "x")
    assert fs.code("writeFileSync", "x", "x") == "WRITE_NOT_ALLOWED"
    fs = Files(tree, write=True, roots={"out": out, "fixed": fixed})
    for path in ("lib/fixed/x", "@fixed/x"):
        assert fs.code("writeFileSync", path, "x") == fs.code("mkdirSync", path) == "WRITE_NOT_ALLOWED"
    assert fs.code("renameSync", "note.txt", "lib/fixed/x") == "WRITE_NOT_ALLOWED"
    assert fs.code("renameSync", "note.txt", "out/x") == "DIFFERENT_ROOTS"
    for path in ("lib", "lib/fixed", "out"):  # a root, or a way to one, stays where it is
        assert fs.code("rmSync", path, {"recursive": True}) == fs.code("renameSync", path, "x") == "INVALID_PATH"
    assert fs.code("renameSync", "lib", "out/x") == "DIFFERENT_ROOTS"
    above = Files(tree, roots={"all": {"folder": str(tmp_path), "write": True}})
    assert above.code("rmSync", "@all/tree", {"recursive": True}) == "INVALID_PATH"
    assert above.code("writeFileSync", "@all/tree/x", "x") == "WRITE_NOT_ALLOWED"
    same = Files(tree, write=True, roots={"same": {"folder": str(tree)}})
    assert same.code("writeFileSync", "x", "x") == same.code("writeFileSync", "@same/x", "x") == "WRITE_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"write": "yes"}, "config.write"),
        ({"root": "/"}, "config.root"),
        ({"roots": {"Data": {"folder": "/usr"}}}, "config.roots"),
        ({"roots": {"../x": {"folder": "/usr"}}}, "config.roots"),
        ({"roots": {"a": "/usr"}}, "config.roots.a"),
        ({"roots": {"a": {"folder": "/"}}}, "config.roots.a.folder"),
        ({"roots": {"a": {"folder": "/usr/.."}}}, "config.roots.a.folder"),
        ({"roots": {"a": {"folder": "/usr/"}}}, "config.roots.a.folder"),
        ({"roots": {"a": {"folder": "usr"}}}, "config.roots.a.folder"),
        ({"roots": {"a": {"folder": "/no/such"}}}, "config.roots.a.folder"),
        ({"roots": {"a": {"folder": "/proc/self/cwd"}}}, "config.roots.a.folder"),
        ({"roots": {"a": {"folder": "/usr", "write": 1}}}, "config.roots.a.write"),
        ({"roots": {"a": {}}}, "config.roots.a.folder"),
        ({"max_bytes": -1}, "config.max_bytes"),
        ({"max_files": 1.5}, "config.max_files"),
        ({"max_file_bytes": (16 << 20) + 1}, "config.max_file_bytes"),
    ],
)
def test_a_bad_config_names_the_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        modules()["fs"].read_config(config)
    assert raised.value.details["field"] == field


# ---- quotas


def test_a_quota_is_what_is_there(tree: Path) -> None:
    config: dict[str, Any] = {"write": True, "max_bytes": 1_000, "max_files": 10}  # three are there, and 9 bytes
    fs = Files(tree, **config)
    assert fs.code("writeFileSync", "a", "x" * 992) == "QUOTA_EXCEEDED"
    assert not (tree / "a").exists()
    fs.writeFileSync("a", "x" * 991)
    assert fs.code("writeFileSync", "note.txt", "longer.") == "QUOTA_EXCEEDED"
    fs.writeFileSync("note.txt", "short.")  # what makes nothing larger is free
    fs.writeFileSync("a", "x" * 900)
    for other in ("b", "c/d", "e"):  # to rename makes no room, nor does another session, nor what is not a file
        fs.mkdirSync("c", {"recursive": True})
        fs.renameSync("a" if other == "b" else "b" if other == "c/d" else "c/d", other)
        assert fs.code("writeFileSync", "x", "x" * 92) == "QUOTA_EXCEEDED"
        assert Files(tree, **config).code("writeFileSync", "x", "x" * 92) == "QUOTA_EXCEEDED"
    fs.rmSync("e")
    fs.writeFileSync("x", "x" * 991)
    fs.writeFileSync("x", "")
    assert sorted(os.listdir(tree)) == ["c", "lib", "note.txt", "x"]
    assert fs.code("mkdirSync", "f/" * 6, {"recursive": True}) == "QUOTA_EXCEEDED"
    assert not (tree / "f").exists()
    fs.mkdirSync("f/" * 5, {"recursive": True})
    assert fs.code("writeFileSync", "y", "") == fs.code("mkdirSync", "y") == "QUOTA_EXCEEDED"
    fs.renameSync("x", "note.txt")
    fs.mkdirSync("y")
    (tree / "loop").symlink_to(".")  # is one more, and not all again
    fs.rmSync("y", {"recursive": True})
    fs.writeFileSync("note.txt", "x")
    assert fs.code("writeFileSync", "loop/y", "") == "QUOTA_EXCEEDED"


def test_many_sessions_do_not_write_much_more_than_one(tree: Path) -> None:
    """Each looks again before it has used a part of the room that it saw."""
    several = [Files(tree, write=True, max_files=50) for _ in range(4)]
    written = [fs.code("writeFileSync", f"{at}-{who}", "") for at in range(20) for who, fs in enumerate(several)]
    assert set(written) == {"ok", "QUOTA_EXCEEDED"}
    assert sum(len(names) + len(folders) for _, folders, names in os.walk(tree)) <= 50 + 4


def test_roots_have_a_quota_each(tree: Path) -> None:
    (tree / "out").mkdir()
    fs = Files(tree, write=True, max_files=4, max_bytes=100, roots={"out": {"folder": str(tree / "out"), "write": True}})
    for at in range(4):
        fs.writeFileSync(f"out/{at}", "x" * 25)
    assert fs.code("writeFileSync", "@out/x", "") == fs.code("writeFileSync", "out/0", "x" * 26) == "QUOTA_EXCEEDED"
    fs.writeFileSync("own", "x" * 91)  # the root in it, and what is there, are not its own
    assert fs.code("writeFileSync", "own2", "") == "QUOTA_EXCEEDED"


def test_what_was_left_behind_is_removed_but_not_what_is_being_written(tree: Path) -> None:
    left = [tree / ".holdfast-0123456789abcdef.new", tree / "lib/.holdfast-ffffffffffffffff.new"]
    for path in left:
        path.write_text("half")
    others = tree / ".holdfast-x.new"
    others.touch()
    fs = Files(tree, write=True)
    renamed = os.rename

    def slow(*given: Any, **options: Any) -> None:
        """Another session writes while this one is about to finish."""
        monkey.undo()
        Files(tree, write=True).writeFileSync("second", "x")
        renamed(*given, **options)

    with pytest.MonkeyPatch.context() as monkey:
        monkey.setattr(os, "rename", slow)
        fs.writeFileSync("first", "x")
    assert fs.readFileSync("first") == fs.readFileSync("second") == "x"
    assert not any(path.exists() for path in left)
    assert others.exists()


def test_long_work_ends_when_it_is_told_to(tree: Path) -> None:
    stopped = False
    fs = Files(tree, stopped=lambda: stopped, write=True)
    fs.writeFileSync("a", "x")
    stopped = True
    assert fs.code("rmSync", "lib", {"recursive": True}) == fs.code("renameSync", "lib", "lib2") == "CANCELLED"
    assert (tree / "lib/one.txt").exists()
