"""Section 5.2."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.acceptance.vm_system.conftest import Make, events, in_worktree, ok, refused, repl


def _active(api: httpx2.Client) -> int:
    return int(ok(api.get("/runtime/summary"))["active_sessions"])


def test_SES_01(create: Make) -> None:
    first, second = create(), create()
    assert first["id"] != second["id"]
    assert first["status"] == second["status"] == "ready"


def test_SES_02_SES_03_SES_04_SES_05(api: httpx2.Client, create: Make) -> None:
    before = _active(api)
    first, second = create(), create()
    assert _active(api) == before + 2
    both = {first["id"], second["id"]}
    assert both <= {found["id"] for found in ok(api.get("/sessions"))}
    assert ok(api.get(f"/sessions/{first['id']}"))["id"] == first["id"]
    assert both <= {found["id"] for found in ok(api.get("/sessions", params={"status": "ready"}))}
    assert both <= set(ok(api.get("/runtime/summary"))["active_session_ids"])


def test_SES_06_SES_07_SES_08(api: httpx2.Client, create: Make) -> None:
    first, second = create(), create()
    before = _active(api)
    assert ok(api.post(f"/sessions/{first['id']}/close", json={}))["status"] == "closed"
    assert ok(api.get(f"/sessions/{first['id']}"))["status"] == "closed"
    assert _active(api) == before - 1
    ok(api.delete(f"/sessions/{second['id']}"))
    assert ok(api.get(f"/sessions/{second['id']}"))["status"] == "closed"
    assert _active(api) == before - 2
    closed = {found["id"] for found in ok(api.get("/sessions", params={"status": "closed"}))}
    assert {first["id"], second["id"]} <= closed


def test_SES_09(api: httpx2.Client) -> None:
    refused(api.get(f"/sessions/{uuid4()}"), 404, "SESSION_NOT_FOUND")


def test_SES_10(api: httpx2.Client, create: Make) -> None:
    session = create()
    assert repl(api, session, "var persisted = 20; persisted")["status"] == "ok"
    second = repl(api, session, "persisted + 22")
    assert second["status"] == "ok"
    assert second["result"]["preview"] == "42"
    assert events(api, second)


def test_fixed_closing_twice_is_fine(api: httpx2.Client, create: Make) -> None:
    session = create()
    first = ok(api.post(f"/sessions/{session['id']}/close"))
    assert ok(api.post(f"/sessions/{session['id']}/close")) == first


def test_fixed_a_closed_session_is_not_ready(api: httpx2.Client, create: Make) -> None:
    session = create()
    ok(api.post(f"/sessions/{session['id']}/close"))
    body = {"session_id": session["id"], "input": "1"}
    refused(api.post("/executions/repl", json=body), 409, "SESSION_NOT_READY")


def test_fixed_a_session_can_be_removed(api: httpx2.Client, create: Make) -> None:
    session = create()
    ok(api.delete(f"/sessions/{session['id']}", params={"purge": True}))
    refused(api.get(f"/sessions/{session['id']}"), 404, "SESSION_NOT_FOUND")


def test_fixed_a_worktree_that_is_not_there_has_a_code(api: httpx2.Client, template: dict[str, Any], worktree: Path) -> None:
    given = in_worktree(template, worktree / "nowhere")
    error = refused(api.post("/sessions", json=given), 422, "WORKTREE_NOT_FOUND")
    assert str(worktree) not in error["message"]


def test_fixed_the_state_that_is_asked_for_is_checked(api: httpx2.Client) -> None:
    refused(api.get("/sessions", params={"status": "asleep"}), 400, "VALIDATION_ERROR")


def test_fixed_a_template_with_sessions_is_in_use(api: httpx2.Client, template: dict[str, Any], create: Make) -> None:
    create()
    refused(api.delete(f"/templates/{template['id']}"), 409, "TEMPLATE_IN_USE")


@pytest.mark.parametrize("source", ["throw new Error('startup broke')", "syntax error here"])
def test_fixed_a_startup_file_that_fails_has_a_code(
    api: httpx2.Client, template: dict[str, Any], worktree: Path, source: str
) -> None:
    (worktree / "start.js").write_text(source)
    ok(api.post(f"/templates/{template['id']}/startup-files", json={"path": "start.js"}), 201)
    error = refused(api.post("/sessions", json=in_worktree(template, worktree)), 422, "STARTUP_FAILED")
    session = ok(api.get(f"/sessions/{error['details']['session_id']}"))
    assert session["status"] == "crashed"
    assert session["last_error"]
    startup = ok(api.get("/executions", params={"session_id": session["id"]}))
    assert [found["kind"] for found in startup] == ["startup"]


def test_startup_files_run_in_their_order(api: httpx2.Client, template: dict[str, Any], worktree: Path) -> None:
    (worktree / "second.js").write_text("globalThis.order = globalThis.order + ' second'")
    (worktree / "first.js").write_text("globalThis.order = 'first'")
    for path, index in (("second.js", 20), ("first.js", 10)):
        given = {"path": path, "order_index": index}
        ok(api.post(f"/templates/{template['id']}/startup-files", json=given), 201)
    session = ok(api.post("/sessions", json=in_worktree(template, worktree)), 201)
    assert repl(api, session, "order")["result"]["preview"] == "first second"
