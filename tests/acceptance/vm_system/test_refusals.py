"""Sections 5.4, 5.5 and 5.9."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.acceptance.vm_system.conftest import Make, in_worktree, ok, refused, repl


def test_ERR_01(api: httpx2.Client) -> None:
    refused(api.post("/templates", json={}), 400, "VALIDATION_ERROR")


def test_ERR_02(api: httpx2.Client) -> None:
    refused(api.get("/executions", params={"limit": 3}), 400, "VALIDATION_ERROR")


def test_ERR_03(api: httpx2.Client, create: Make) -> None:
    made = repl(api, create(), "1")
    refused(api.get(f"/executions/{made['id']}/events", params={"after_seq": -1}), 400, "VALIDATION_ERROR")


def test_ERR_04_ERR_05(api: httpx2.Client) -> None:
    refused(api.get(f"/templates/{uuid4()}"), 404, "TEMPLATE_NOT_FOUND")
    refused(api.get(f"/sessions/{uuid4()}"), 404, "SESSION_NOT_FOUND")


@pytest.mark.parametrize("what", ["templates", "sessions", "executions"])
def test_ERR_06_ERR_07_ERR_08(api: httpx2.Client, what: str) -> None:
    refused(api.get(f"/{what}/not-a-uuid"), 400, "VALIDATION_ERROR")


def test_ERR_09(api: httpx2.Client, create: Make) -> None:
    session = create()
    endless = {"session_id": session["id"], "input": "for (;;) {}"}
    running = ok(api.post("/executions/repl", json=endless, headers={"Prefer": "respond-async"}), 202)
    refused(api.post("/executions/repl", json={"session_id": session["id"], "input": "1"}), 409, "SESSION_BUSY")
    assert ok(api.post(f"/executions/{running['id']}/cancel"))["status"] == "cancelled"
    assert repl(api, session, "1")["status"] == "ok"


def test_ERR_10(api: httpx2.Client, worktree: Path) -> None:
    refused(api.post("/sessions", json=in_worktree({"id": "nope"}, worktree)), 400, "VALIDATION_ERROR")


def test_ERR_11_ERR_12(api: httpx2.Client) -> None:
    refused(api.post("/executions/repl", json={"session_id": "nope", "input": "1"}), 400, "VALIDATION_ERROR")
    refused(api.get("/executions", params={"session_id": "nope"}), 400, "VALIDATION_ERROR")


def _file(api: httpx2.Client, session: dict[str, Any], path: str) -> httpx2.Response:
    return api.post("/executions/run-file", json={"session_id": session["id"], "path": path})


def test_ERR_13_SAF_02(api: httpx2.Client, create: Make) -> None:
    refused(_file(api, create(), "../etc/passwd"), 422, "INVALID_PATH")


def test_ERR_14(api: httpx2.Client, template: dict[str, Any]) -> None:
    refused(api.post(f"/templates/{template['id']}/modules", json={"name": "json"}), 422, "MODULE_NOT_ALLOWED")


# ---- safety


def test_SAF_01(api: httpx2.Client, template: dict[str, Any]) -> None:
    given = {"path": "../outside-startup.js"}
    refused(api.post(f"/templates/{template['id']}/startup-files", json=given), 422, "INVALID_PATH")


def test_SAF_03(api: httpx2.Client, create: Make, worktree: Path) -> None:
    (worktree.parent / "outside.js").write_text("1")
    (worktree / "link.js").symlink_to(worktree.parent / "outside.js")
    refused(_file(api, create(), "link.js"), 422, "INVALID_PATH")


def test_SAF_04(api: httpx2.Client, template: dict[str, Any], worktree: Path) -> None:
    (worktree.parent / "outside.js").write_text("1")
    (worktree / "link.js").symlink_to(worktree.parent / "outside.js")
    ok(api.post(f"/templates/{template['id']}/startup-files", json={"path": "link.js"}), 201)
    error = refused(api.post("/sessions", json=in_worktree(template, worktree)), 422, "INVALID_PATH")
    assert error["details"]["template_id"] == template["id"]


def test_SAF_05_fixed_the_breach_is_recorded(api: httpx2.Client, template: dict[str, Any], create: Make) -> None:
    limits = {"max_events": 1, "max_output_kb": 1}
    ok(api.patch(f"/templates/{template['id']}/settings", json={"limits": limits}))
    session = create()
    loud = "for (let n = 0; n < 100; n++) console.log('x'.repeat(100))"
    given = {"session_id": session["id"], "input": loud}
    error = refused(api.post("/executions/repl", json=given), 422, "OUTPUT_LIMIT_EXCEEDED")
    assert error["details"]["limit"] in ("max_events", "max_output_kb")
    recorded = ok(api.get(f"/executions/{error['details']['execution_id']}"))
    assert recorded["status"] == "error"
    assert recorded["error"]["code"] == "LIMIT_EXCEEDED"


# ---- paths


@pytest.mark.parametrize("path", ["", ".", "  "])
def test_PTH_01_there_is_no_path(api: httpx2.Client, create: Make, path: str) -> None:
    response = _file(api, create(), path)
    assert response.json()["error"]["code"] in ("FILE_NOT_FOUND", "VALIDATION_ERROR")
    assert response.status_code in (400, 404)


@pytest.mark.parametrize("path", ["/tmp/a.js", "../a.js", "a/../../b.js"])
def test_PTH_01_paths_that_lead_out(api: httpx2.Client, create: Make, path: str) -> None:
    refused(_file(api, create(), path), 422, "INVALID_PATH")


def test_PTH_01_paths_are_cleaned(api: httpx2.Client, create: Make, worktree: Path) -> None:
    (worktree / "runtime").mkdir()
    (worktree / "runtime" / "startup.js").write_text("7")
    made = ok(_file(api, create(), "runtime/../runtime/startup.js"), 201)
    assert made["path"] == "runtime/startup.js"


def test_PTH_02_PTH_03(api: httpx2.Client, create: Make, worktree: Path) -> None:
    (worktree / "real").mkdir()
    (worktree / "real" / "file.js").write_text("8")
    (worktree / "inside.js").symlink_to("real/file.js")
    (worktree / "folder").symlink_to(worktree.parent)
    session = create()
    made = ok(_file(api, session, "inside.js"), 201)
    assert (made["path"], made["result"]["preview"]) == ("real/file.js", "8")
    refused(_file(api, session, "folder/x.js"), 422, "INVALID_PATH")


def test_PTH_04(api: httpx2.Client, template: dict[str, Any], worktree: Path) -> None:
    (worktree / "file").write_text("")
    refused(api.post("/sessions", json=in_worktree(template, worktree / "file")), 422, "WORKTREE_NOT_FOUND")


def test_fixed_a_folder_is_no_file(api: httpx2.Client, create: Make, worktree: Path) -> None:
    (worktree / "folder.js").mkdir()
    refused(_file(api, create(), "folder.js"), 422, "INVALID_PATH")


def test_a_file_that_is_not_there(api: httpx2.Client, create: Make) -> None:
    refused(_file(api, create(), "nowhere.js"), 404, "FILE_NOT_FOUND")
