"""The data directory, the store's file and tokens: out of every script's reach, whatever a template grants."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Worktree
from holdfast.capabilities import modules, read_file, resolve_root
from holdfast.capabilities.files import protected
from holdfast.domain import InvalidPath, InvalidValue, WorktreeNotAllowed
from holdfast.store import open_store
from tests.acceptance.scenes import opened, scene, value
from tests.daemon import Daemon
from tests.integration.fs_files import VERBS, Files

SECRET = "the-sealing-key"
REFUSED = {"INVALID_PATH", "WORKTREE_NOT_ALLOWED"}


class Kept:
    """A data directory in a folder that scripts may read and write as a whole."""

    def __init__(self, base: Path) -> None:
        self.base, self.data = base, base / "home" / "data"
        for folder in ("packages/p", "worktrees/w"):
            (self.data / folder).mkdir(parents=True)
        for name in ("holdfast.db", "holdfast.db-wal", "tokens.json", "token", "packages/p/init.lua"):
            (self.data / name).write_text(SECRET)
        (self.data / "worktrees/w/note.txt").write_text("note")
        self.token = base / "elsewhere.token"
        self.token.write_text(SECRET)

    def state(self) -> dict[str, Any]:
        return {str(path): path.read_text() if path.is_file() else None for path in self.data.rglob("*")}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    end = protected.protect(data_dir=kept.data, paths=[kept.token])
    yield kept
    end()


def refused(files: Files, *paths: str) -> bool:
    """Whether no verb does anything with any of these paths."""
    return all(files.code(verb, path, *given) in REFUSED for path in paths for verb, given in VERBS.items())


@pytest.mark.parametrize("above", [".", "home"])
def test_from_a_root_above_it(kept: Kept, above: str) -> None:
    files = Files(kept.base / above, write=True, hard_links=True)
    before = kept.state()
    data = os.path.relpath(kept.data, kept.base / above)
    inside = [
        data,
        *(f"{data}/{name}" for name in ("holdfast.db", "tokens.json", "token", "packages", "worktrees/w", "new", "x/y")),
    ]
    assert refused(files, *inside, *(f"{data}/../data/{name}" for name in ("token", ".", "worktrees/../token")))
    assert refused(files, str(kept.data / "token"))
    if above == ".":
        assert refused(files, "elsewhere.token")
        assert files.code("renameSync", "home", "house") == files.code("rmSync", "home", {"recursive": True}) == "INVALID_PATH"
        (kept.base / "other").mkdir()
        assert files.code("renameSync", "other", data) == "INVALID_PATH"
    assert kept.state() == before
    assert files.code("writeFileSync", "beside.txt", "x") == "ok"


def test_from_roots_in_it(kept: Kept) -> None:
    for name in ("", "packages", "packages/p", "libraries", "worktrees/../packages"):
        root = kept.data / name
        root.mkdir(exist_ok=True)
        for path in (str(root), str(root.resolve())):
            with pytest.raises(WorktreeNotAllowed):
                resolve_root(path)
        assert refused(Files(root.resolve(), write=True), ".", "token", "p/init.lua")
        with pytest.raises(InvalidValue):
            modules()["fs"].read_config({"roots": {"r": {"folder": str(root.resolve())}}})
    tree = kept.data / "worktrees/w"
    assert resolve_root(str(tree)) == str(tree)
    files = Files(tree, write=True)
    assert files.readFileSync("note.txt") == "note"
    assert refused(files, "../../token", str(kept.data / "token"))


def test_by_links_mounts_and_descriptors(kept: Kept) -> None:
    tree = kept.base / "tree"
    tree.mkdir()
    (tree / "data").symlink_to("../home/data")
    (tree / "token").symlink_to(kept.data / "token")
    os.link(kept.data / "holdfast.db", tree / "hard")
    os.link(kept.token, tree / "hard-token")
    held = os.open(kept.data / "token", os.O_RDONLY)
    folder = os.open(kept.data, os.O_RDONLY)
    try:
        assert refused(Files(tree, write=True, hard_links=True), "data/token", "hard", "hard-token")
        assert {Files(tree).code(verb, "token") for verb in ("readFileSync", "statSync", "existsSync")} == {"INVALID_PATH"}
        top = Files(Path("/"), hard_links=True)
        for process in ("self", "thread-self", str(os.getpid())):
            for name in (
                f"fd/{held}",
                f"fd/{folder}/token",
                f"cwd{kept.data}/token",
                "environ",
                "mem",
                f"root{kept.data}/token",
            ):
                for verb in ("readFileSync", "existsSync", "statSync", "readdirSync"):
                    assert top.code(verb, f"proc/{process}/{name}") in REFUSED
    finally:
        os.close(held)
        os.close(folder)
    kept.data.rename(kept.base / "moved")  # by somebody else: it is the same folder under another name
    assert refused(Files(kept.base, write=True), "moved", "moved/token", "moved/packages/p/init.lua")


def test_a_mount_of_it_elsewhere(kept: Kept) -> None:
    code = f"""
import subprocess
from pathlib import Path
from holdfast.capabilities.files import protected
from tests.integration.fs_files import Files
base, data = Path({str(kept.base)!r}), Path({str(kept.data)!r})
end = protected.protect(data_dir=data, paths=[{str(kept.token)!r}])
for name, source in (("all", data), ("part", data / "packages"), ("worktrees", data / "worktrees")):
    (base / "tree" / name).mkdir(parents=True)
    subprocess.run(["mount", "--bind", source, base / "tree" / name], check=True)
(base / "tree" / "one").touch()
subprocess.run(["mount", "--bind", data / "token", base / "tree" / "one"], check=True)
files = Files(base / "tree")
print([files.code("readFileSync", path) for path in ("all/token", "part/p/init.lua", "one", "worktrees/w/note.txt")])
print(Files(base / "tree" / "all").code("readFileSync", "token"))
"""
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    if "Operation not permitted" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip("nothing can be mounted here")
    assert done.stdout == "['INVALID_PATH', 'INVALID_PATH', 'INVALID_PATH', 'ok']\nWORKTREE_NOT_ALLOWED\n", done.stderr


def test_a_file_that_got_the_inode_of_one_that_is_gone(kept: Kept) -> None:
    """Identities are those of files that are there: others may have the number later."""
    tree = kept.base / "tree"
    tree.mkdir()
    files = Files(tree, write=True)
    for at in range(20):
        (kept.data / "holdfast.db-wal").unlink(missing_ok=True)
        files.writeFileSync(f"{at}.txt", "x")
        assert files.readFileSync(f"{at}.txt") == "x"
        (kept.data / "holdfast.db-wal").write_text(SECRET)


@scene
async def test_the_store_in_a_worktree(tmp_path: Path) -> None:
    """Who embeds Holdfast may have the store's file where the scripts work."""
    (tmp_path / "deep").mkdir()
    os.symlink(tmp_path / "deep/work.db", tmp_path / "link.db")
    store = tmp_path / "deep/work.db"
    open_store(f"sqlite:///{store}").close()
    async with opened(f"sqlite:///{tmp_path / 'link.db'}") as hf:
        made = await hf.templates.create("t")
        for name, config in (("fs", {"write": True, "hard_links": True}), ("database", {"files": True})):
            await hf.templates.add_module(made.id, name)
            await hf.templates.add_capability(made.id, "module", name, enabled=True, config=config)
        os.link(store, tmp_path / "hard.db")
        session = await hf.sessions.create("t", worktree=Worktree("w", "c", str(tmp_path)))
        source = """
            var fs = require('fs'), database = require('database'), told = [];
            const code = (f, ...a) => { try { return String(f(...a) ?? 'ok') } catch (e) { return e.code } };
            for (const name of ['deep/work.db', 'link.db', 'hard.db', 'deep/work.db-wal', 'deep/work.db-shm'])
                told.push(code(fs.readFileSync, name, 'buffer'), code(fs.writeFileSync, name, ''), code(fs.renameSync, name, 'x'),
                    code(database.configure, 'sqlite3', name));
            told.push(code(fs.rmSync, 'deep', {recursive: true}), code(fs.renameSync, 'deep', 'x'), code(fs.rmSync, 'hard.db'));
            told
        """
        told = value(await hf.executions.run(session.id, source))
        assert {*told} == {"INVALID_PATH"}, told
        for path in ("deep/work.db", "hard.db"):
            with pytest.raises(InvalidPath):
                read_file(str(tmp_path), path)
        assert (tmp_path / "deep/work.db-wal").exists()


@scene
async def test_a_session_in_the_data_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("packages", "worktrees/w"):
        (data / name).mkdir(parents=True)
    (data / "secret.js").write_text("1")
    async with Holdfast.open(f"sqlite:///{data / 'x.db'}", data_dir=data) as hf:
        await hf.templates.create("t")
        for name in ("", "packages", "worktrees/w/../../packages"):
            with pytest.raises(WorktreeNotAllowed):
                await hf.sessions.create("t", worktree=Worktree("w", "c", str(data / name)))
        await hf.sessions.create("t", worktree=Worktree("w", "c", str(data / "worktrees/w")))
        above = await hf.sessions.create("t", worktree=Worktree("w", "c", str(tmp_path)))
        with pytest.raises(InvalidPath):
            await hf.executions.run_path(above.id, "data/secret.js")
        for source in ("await import('./data/secret.js')", "require('./data/secret.js')"):
            turn = await hf.executions.run(above.id, source)
            assert turn.execution.error is not None
            assert turn.execution.error["code"] == "INVALID_PATH"
    with contextlib.suppress(OSError):
        assert resolve_root(str(data))  # nobody keeps anything there any more


def test_scripts_of_a_daemon_over_all_of_its_folder(tmp_path: Path) -> None:
    """An administrator's session whose worktree is the folder above the data directory, with every grant that there is."""
    (tmp_path / "way").symlink_to("data")
    (tmp_path / "out.token").symlink_to(tmp_path / "data/token")
    daemon = Daemon(tmp_path)
    daemon.start()
    try:
        with daemon.client() as api:
            template = api.post("/templates", json={"name": "t"}).json()["id"]
            grants = {
                "fs": {"write": True, "hard_links": True},
                "database": {"files": True},
                "exec": {"programs": ["/bin/cat", "/bin/sh"]},
            }
            for name, config in grants.items():
                api.post(f"/templates/{template}/modules", json={"name": name})
                given = {"kind": "module", "name": name, "enabled": True, "config": config}
                assert api.post(f"/templates/{template}/capabilities", json=given).status_code < 300
            worktree = {"workspace_id": "w", "base_commit_oid": "c"}
            for place in ("data", "data/packages"):
                (tmp_path / place).mkdir(exist_ok=True)
                refused = api.post(
                    "/sessions", json={"template_id": template, **worktree, "worktree_path": str(tmp_path / place)}
                )
                assert refused.json()["error"]["code"] == "WORKTREE_NOT_ALLOWED"
            made = api.post("/sessions", json={"template_id": template, **worktree, "worktree_path": str(tmp_path)}).json()[
                "id"
            ]
            source = """
                const fs = require('fs'), exec = require('exec'), database = require('database'), told = [];
                const attempt = f => { try { told.push(String(f())) } catch (e) { told.push(e.code) } };
                for (const path of ['data/token', 'way/token', 'out.token', 'data/tokens.json', 'data/holdfast.db', 'data/holdfast.db-wal']) {
                    attempt(() => fs.readFileSync(path, 'buffer'));
                    attempt(() => exec.run('/bin/cat', [path]));
                    attempt(() => require('./' + path + '.js'));
                    attempt(() => database.configure('sqlite3', path));
                    attempt(() => exec.run('/bin/sh', [], {input: 'cat ' + path}));
                }
                attempt(() => exec.run('/bin/sh', [], {input: 'cat /proc/[0-9]*/environ 2>/dev/null; true'}));
                attempt(() => fs.renameSync('data', 'x'));
                attempt(() => fs.rmSync('data', {recursive: true}));
                told.join(' ')
            """
            done = api.post("/executions/repl", json={"session_id": made, "input": source}).json()
            told = str(done)
            assert "INVALID_PATH" in told
            assert "ARGUMENTS_NOT_ALLOWED" in told
            assert "PROGRAM_FAILED" in told
            for secret in (daemon.token, "SQLite format", "HOLDFAST_DATA_DIR=", '"sha256"'):
                assert secret not in told
            assert api.get("/health/ready").status_code == 200
    finally:
        daemon.kill()


_EVIL = "hf_" + "e" * 43
_TOKENS = {
    "format": 1,
    "tokens": [
        {
            "id": "deadbeef0000",
            "name": "evil",
            "tenant": "default",
            "scopes": ["admin"],
            "created_at": 1,
            "expires_at": None,
            "sha256": hashlib.sha256(_EVIL.encode()).hexdigest(),
        }
    ],
}


def _put_decoy(base: Path) -> None:
    """Move the folder above the data directory, and put another with other tokens and links to the files in its place."""
    os.rename(base / "lab", base / "lab2")
    (base / "lab/data").mkdir(parents=True)
    tokens = base / "lab/data/tokens.json"
    tokens.write_text(json.dumps(_TOKENS))
    tokens.chmod(0o600)
    for name in ("holdfast.db", "holdfast.db-wal", "holdfast.db-shm", "node", "daemon.lock", "tokens.lock", "audit"):
        (base / "lab/data" / name).symlink_to(base / "lab2/data" / name)


def test_another_folder_in_the_place_of_the_data_directory(tmp_path: Path) -> None:
    """A daemon takes no tokens and no store from it, whoever put it there. A program with a shell cannot."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "tree").mkdir()
    daemon = Daemon(tmp_path / "lab").start()
    try:
        with daemon.client() as api:
            template = api.post("/templates", json={"name": "t"}).json()["id"]
            api.post(f"/templates/{template}/modules", json={"name": "exec"})
            given = {"kind": "module", "name": "exec", "enabled": True, "config": {"programs": ["/bin/sh"]}}
            assert api.post(f"/templates/{template}/capabilities", json=given).status_code < 300
            worktree = {"workspace_id": "w", "base_commit_oid": "c", "worktree_path": str(tmp_path / "tree")}
            session = api.post("/sessions", json={"template_id": template, **worktree}).json()["id"]
            source = f"require('exec').spawnSync('/bin/sh', [], {{input: 'cd {tmp_path} && mv lab lab2 && echo moved'}}).stdout"
            done = api.post("/executions/repl", json={"session_id": session, "input": source}).json()
            assert "moved" not in str(done["result"])
            assert (tmp_path / "lab/data/tokens.json").exists()

            _put_decoy(tmp_path)
            log = tmp_path / "lab2/daemon.log"
            until = time.monotonic() + 20
            while "tokens.directory_replaced" not in log.read_text() and time.monotonic() < until:
                time.sleep(0.1)
            assert log.read_text().count("tokens.directory_replaced") == 1
            assert api.get("/templates", headers={"Authorization": f"Bearer {_EVIL}"}).status_code == 401
            refused = api.post("/templates", json={"name": "u"})
            assert refused.json()["error"]["code"] == "STORE_UNAVAILABLE"

            os.rename(tmp_path / "lab", tmp_path / "decoy")
            os.rename(tmp_path / "lab2", tmp_path / "lab")
            assert api.post("/templates", json={"name": "u"}).status_code < 300
    finally:
        daemon.kill()
