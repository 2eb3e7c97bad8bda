"""Sections 5.6, 5.7 and 5.10."""

import hashlib
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.libraries import LibraryCache
from tests.acceptance.vm_system.conftest import LODASH, Make, in_worktree, ok, refused, repl
from tests.daemon import Daemon

CHUNK = "var _ = {chunk: (list, size) => list.length ? [list.slice(0, size), ..._.chunk(list.slice(size), size)] : []};"
"""A library that does what lodash's function of this name does."""


@pytest.fixture
def cache(daemon: Daemon) -> Path:
    """The folder where the daemon looks for libraries; empty."""
    folder = daemon.folder / "data" / "libraries"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    return folder


def _with_lodash(api: httpx2.Client, template: dict[str, Any]) -> None:
    ok(api.post(f"/templates/{template['id']}/libraries", json={"name": LODASH}), 201)


def test_MOD_01(api: httpx2.Client, create: Make) -> None:
    made = repl(api, create(), "JSON.stringify({answer: 42})")
    assert made["status"] == "ok"
    assert made["result"]["json"] == '{"answer":42}'


def test_MOD_02(api: httpx2.Client, template: dict[str, Any]) -> None:
    refused(api.post(f"/templates/{template['id']}/modules", json={"name": "json"}), 422, "MODULE_NOT_ALLOWED")


@pytest.mark.parametrize("module", ["database", "exec"])
def test_MOD_04_MOD_05(api: httpx2.Client, create: Make, module: str) -> None:
    made = repl(api, create(), f"require('{module}')")
    assert made["status"] == "error"
    assert "Invalid module" in made["error"]["message"]


def _expose(api: httpx2.Client, template: dict[str, Any], module: str, **config: Any) -> None:
    ok(api.post(f"/templates/{template['id']}/modules", json={"name": module}), 201)
    if config:
        given = {"kind": "module", "name": module, "enabled": True, "config": config}
        ok(api.post(f"/templates/{template['id']}/capabilities", json=given), 201)


def test_MOD_03(api: httpx2.Client, template: dict[str, Any], create: Make, worktree: Path) -> None:
    (worktree / "note.txt").write_text("fs-module-ok")
    _expose(api, template, "fs")
    made = repl(api, create(), f"require('fs').readFileSync('{worktree}/note.txt')")
    assert made["status"] == "ok"
    assert made["result"]["preview"] == "fs-module-ok"


def test_MOD_03_fixed_files_outside_the_worktree_are_not_read(
    api: httpx2.Client, template: dict[str, Any], create: Make, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    _expose(api, template, "fs")
    made = repl(api, create(), f"require('fs').readFileSync('{tmp_path}/secret.txt')")
    assert made["status"] == "error"
    assert made["error"]["code"] == "INVALID_PATH"
    assert str(tmp_path) not in made["error"]["message"]


def test_MOD_06_fixed_programs_are_allowed_by_name(api: httpx2.Client, template: dict[str, Any], create: Make) -> None:
    source = "require('exec').run('/bin/echo', ['exec-module-ok']).trim()"
    _expose(api, template, "exec")
    before = repl(api, create(), source)
    assert before["error"]["code"] == "PROGRAM_NOT_ALLOWED"
    _expose(api, template, "exec", programs=["/bin/echo"])
    made = repl(api, create(), source)
    assert made["status"] == "ok"
    assert made["result"]["preview"] == "exec-module-ok"


def test_MOD_07(api: httpx2.Client, template: dict[str, Any], create: Make) -> None:
    _expose(api, template, "database")
    source = """
        const db = require('database');
        db.configure('sqlite3', ':memory:');
        db.exec('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)');
        db.exec('INSERT INTO users (name) VALUES (?)', 'alice');
        db.query('SELECT name FROM users WHERE id = ?', 1)[0].name
    """
    made = repl(api, create(), source)
    assert made["status"] == "ok"
    assert made["result"]["preview"] == "alice"


def test_LIB_01(api: httpx2.Client, template: dict[str, Any], create: Make, cache: Path) -> None:
    (cache / f"{LODASH}.js").write_text(CHUNK)
    _with_lodash(api, template)
    made = repl(api, create(), "_.chunk([1,2,3,4],2).length")
    assert made["status"] == "ok"
    assert made["result"]["preview"] == "2"


def test_LIB_01_the_cache_may_be_filled_later(api: httpx2.Client, template: dict[str, Any], create: Make, cache: Path) -> None:
    _with_lodash(api, template)
    (cache / f"{LODASH}.js").write_text(CHUNK)
    assert repl(api, create(), "_.chunk([1,2,3,4],2).length")["result"]["preview"] == "2"


def test_LIB_02(api: httpx2.Client, create: Make, cache: Path) -> None:
    (cache / f"{LODASH}.js").write_text(CHUNK)
    made = repl(api, create(), "_.chunk([1,2,3,4],2).length")
    assert made["status"] == "error"
    assert "is not defined" in made["error"]["message"]


def test_LIB_03_LIB_04_fixed_a_missing_library_has_a_code(
    api: httpx2.Client, template: dict[str, Any], worktree: Path, cache: Path
) -> None:
    _with_lodash(api, template)
    error = refused(api.post("/sessions", json=in_worktree(template, worktree)), 422, "LIBRARY_NOT_CACHED")
    assert "failed to load libraries" in error["message"]
    assert str(cache) not in error["message"]
    session = ok(api.get(f"/sessions/{error['details']['session_id']}"))
    assert session["status"] == "crashed"
    assert session["workspace_id"] == "workspace"
    assert "failed to load libraries" in session["last_error"]


@pytest.mark.parametrize("name", ["../../x", "lodash/../x", "", "a b", ".hidden", "x" * 300])
def test_fixed_a_library_has_a_safe_name(api: httpx2.Client, template: dict[str, Any], name: str) -> None:
    response = api.post(f"/templates/{template['id']}/libraries", json={"name": name})
    assert response.json()["error"]["code"] in ("LIBRARY_UNKNOWN", "VALIDATION_ERROR")


def test_CAC_01_CAC_03(tmp_path: Path) -> None:
    (tmp_path / f"{LODASH}.js").write_text(CHUNK)
    (tmp_path / "custom.js").write_text("1")
    cache = LibraryCache(tmp_path)
    assert [found.id for found in cache.scan()] == ["lodash"]
    (found,) = cache.scan()
    assert found.sha256 == hashlib.sha256(CHUNK.encode()).hexdigest()
    file = cache.find(LODASH)
    assert file is not None
    assert file.text == CHUNK
