"""All routes, over a real socket."""

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from holdfast.http.models import _executions, _ops, _sessions, _templates
from tests.daemon import NO_TLS
from tests.http_server import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("api")) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def refused(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == code, error
    assert error["message"]
    return error


def new_template(api: httpx2.Client, **body: Any) -> dict[str, Any]:
    made: dict[str, Any] = ok(api.post("/templates", json={"name": f"t {uuid4()}", **body}), 201)
    return made


@pytest.fixture(scope="module")
def template(api: httpx2.Client) -> dict[str, Any]:
    return new_template(api)


@pytest.fixture
def session(api: httpx2.Client, template: dict[str, Any]) -> str:
    return str(ok(api.post("/sessions", json={"template_id": template["id"]}), 201)["id"])


def repl(api: httpx2.Client, session: str, source: str, **more: Any) -> Any:
    return ok(api.post("/executions/repl", json={"session_id": session, "input": source, **more}), 201)


# ---- operations --------------------------------------------------------------------------------------------------------------------


def test_health_and_version_need_no_token(server: Served) -> None:
    with httpx2.Client(base_url=f"{server.url}/api/v1", verify=NO_TLS) as nobody:
        assert ok(nobody.get("/health")) == {"status": "ok"}
        assert ok(nobody.get("/health/live")) == {"status": "ok"}
        _ops.Readiness.model_validate(ok(nobody.get("/health/ready")))
        _ops.VersionInfo.model_validate(ok(nobody.get("/version")))


def test_summary_counts_sessions(api: httpx2.Client, session: str) -> None:
    found = _ops.Summary.model_validate(ok(api.get("/runtime/summary")))
    assert session in found.active_session_ids
    assert found.active_session_ids == sorted(found.active_session_ids)
    assert found.active_sessions == sum(found.sessions[state] for state in ("starting", "ready", "running", "paused"))
    assert found.memory_bytes > 1 << 20


def test_metrics_are_prometheus_text(api: httpx2.Client, session: str) -> None:
    repl(api, session, "console.log('said'); 1")
    response = api.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    for name in ("session_creates_total", 'sessions{state="ready"}', "process_resident_memory_bytes", "sessions_resident"):
        assert any(line.startswith(name) for line in lines), name
    assert any(line.startswith('execution_total{kind="repl",status="ok"}') for line in lines)
    assert any(line.startswith('http_requests_total{route="/api/v1/executions/repl",status="201"}') for line in lines)
    assert any(line.startswith('execution_duration_ms_bucket{kind="repl",le="+Inf"}') for line in lines)
    for name in ("session_creates_total", "execution_events_total", "execution_output_bytes_total"):
        assert int(next(line for line in lines if line.startswith(name)).split()[1]) > 0
    for line in lines:
        assert line.startswith("#") or float(line.rpartition(" ")[2]) >= 0


def test_what_ends_in_the_background_is_counted(api: httpx2.Client, session: str) -> None:
    def failed() -> int:
        found = re.search(r'execution_total\{kind="repl",status="error"\} (\d+)', api.get("/metrics").text)
        return 0 if found is None else int(found[1])

    before = failed()
    body = {"session_id": session, "input": "for (let n = 0; n < 1e6; n++); throw new Error('at last')"}
    made = api.post("/executions/repl", json=body, headers={"Prefer": "respond-async"})
    assert made.status_code == 202
    ended = api.get(f"/executions/{made.json()['id']}/wait", params={"timeout_ms": 20_000}).json()
    assert ended["status"] == "error"
    assert failed() == before + 1


def test_head_is_get_without_a_body(api: httpx2.Client) -> None:
    response = api.head("/health")
    assert (response.status_code, response.content) == (200, b"")


# ---- templates ---------------------------------------------------------------------------------------------------------------------


def test_a_template_from_beginning_to_end(api: httpx2.Client) -> None:
    made = new_template(api, limits={"wall_ms": 4000})
    _templates.Template.model_validate(made)
    where = f"/templates/{made['id']}"
    assert (made["engine"], made["version"], made["exposed_modules"], made["libraries"]) == ("javascript", 1, [], [])
    detail = _templates.TemplateDetail.model_validate(ok(api.get(where)))
    assert (detail.settings.limits.wall_ms, detail.settings.limits.cpu_ms) == (4000, 2000)
    assert (detail.capabilities, detail.startup_files) == ([], [])

    changed = ok(api.patch(where, json={"limits": {"max_events": 7}}))
    assert changed["version"] == 2
    settings = ok(api.patch(f"{where}/settings", json={"runtime": {"strict": False}}))
    assert (settings["limits"]["wall_ms"], settings["limits"]["max_events"], settings["runtime"]["strict"]) == (4000, 7, False)
    assert ok(api.get(f"{where}/settings")) == settings
    versions = ok(api.get(f"{where}/versions"))
    assert [version["number"] for version in versions] == [3, 2, 1]
    _templates.Version.model_validate(versions[0])
    assert ok(api.get(f"{where}/versions/1"))["spec"]["limits"]["max_events"] == 50_000
    refused(api.get(f"{where}/versions/99"), 404, "TEMPLATE_NOT_FOUND")

    name = f"renamed {uuid4()}"
    assert ok(api.patch(where, json={"name": name}))["name"] == name
    assert [found["id"] for found in ok(api.get("/templates", params={"name": name}))] == [made["id"]]
    assert ok(api.get("/templates", params={"name": "nobody has this name"})) == []
    twin = ok(api.post(f"{where}/clone", json={"name": f"twin {uuid4()}"}), 201)
    assert ok(api.get(f"/templates/{twin['id']}/settings"))["limits"] == settings["limits"]
    refused(api.post("/templates", json={"name": name}), 409, "NAME_TAKEN")

    assert ok(api.delete(where)) == {"status": "ok", "template_id": made["id"]}
    refused(api.get(where), 404, "TEMPLATE_NOT_FOUND")
    refused(api.delete(where), 404, "TEMPLATE_NOT_FOUND")


def test_the_parts_of_a_template(api: httpx2.Client) -> None:
    where = f"/templates/{new_template(api)['id']}"
    capability = ok(api.post(f"{where}/capabilities", json={"kind": "module", "name": "fs", "config": {"write": True}}), 201)
    _templates.Capability.model_validate(capability)
    assert (capability["enabled"], capability["config"]) == (False, {"write": True})
    refused(api.post(f"{where}/capabilities", json={"kind": "module", "name": "fs"}), 409, "CAPABILITY_EXISTS")
    assert ok(api.get(f"{where}/capabilities")) == [capability]

    assert ok(api.post(f"{where}/modules", json={"name": "fs"}), 201)["name"] == "fs"
    ok(api.post(f"{where}/modules", json={"name": "fs"}), 201)
    assert ok(api.get(f"{where}/modules")) == ["fs"]
    refused(api.post(f"{where}/modules", json={"name": "json"}), 422, "MODULE_NOT_ALLOWED")
    ok(api.post(f"{where}/libraries", json={"name": "lodash-4.17.21"}), 201)
    assert ok(api.get(f"{where}/libraries")) == ["lodash-4.17.21"]
    refused(api.post(f"{where}/libraries", json={"name": "../../etc/passwd"}), 422, "LIBRARY_UNKNOWN")

    late = ok(api.post(f"{where}/startup-files", json={"path": "b.js", "order_index": 20}), 201)
    early = ok(api.post(f"{where}/startup-files", json={"path": "x/../a.js", "order_index": 10, "mode": "eval"}), 201)
    _templates.StartupFile.model_validate(early)
    assert [file["path"] for file in ok(api.get(f"{where}/startup-files"))] == ["a.js", "b.js"]
    refused(api.post(f"{where}/startup-files", json={"path": "a.js"}), 409, "STARTUP_FILE_EXISTS")
    refused(api.post(f"{where}/startup-files", json={"path": "../a.js"}), 422, "INVALID_PATH")
    refused(api.post(f"{where}/startup-files", json={"path": "c.js", "mode": "import"}), 422, "STARTUP_MODE_UNSUPPORTED")

    assert ok(api.get(where))["template"]["libraries"] == ["lodash-4.17.21"]
    ok(api.delete(f"{where}/capabilities/{capability['id']}"))
    refused(api.delete(f"{where}/capabilities/{capability['id']}"), 404, "CAPABILITY_NOT_FOUND")
    ok(api.delete(f"{where}/startup-files/{late['id']}"))
    refused(api.delete(f"{where}/startup-files/{late['id']}"), 404, "STARTUP_NOT_FOUND")
    for part in ("modules/fs", "libraries/lodash-4.17.21"):
        ok(api.delete(f"{where}/{part}"))
        ok(api.delete(f"{where}/{part}"))
    for part in ("capabilities", "modules", "libraries"):
        assert ok(api.get(f"{where}/{part}")) == []


@pytest.mark.parametrize("part", ["", "/settings", "/versions", "/capabilities", "/modules", "/libraries", "/startup-files"])
def test_parts_of_what_is_not_there(api: httpx2.Client, part: str) -> None:
    refused(api.get(f"/templates/{uuid4()}{part}"), 404, "TEMPLATE_NOT_FOUND")


def test_the_catalogue(api: httpx2.Client) -> None:
    assert [one["id"] for one in ok(api.get("/catalogue/languages"))] == ["javascript", "lua"]
    known = {"fs", "exec", "database", "http", "state", "card", "env", "clock", "random", "crypto"}
    assert {one["id"] for one in ok(api.get("/catalogue/modules"))} == known
    assert ok(api.get("/catalogue/libraries", params={"limit": 1}))[0]["id"] == "lodash"


def test_sessions_of_a_template(api: httpx2.Client) -> None:
    made = new_template(api)
    session = ok(api.post("/sessions", json={"template_id": made["id"]}), 201)
    refused(api.delete(f"/templates/{made['id']}"), 409, "TEMPLATE_IN_USE")
    ok(api.patch(f"/templates/{made['id']}", json={"is_active": False}))
    refused(api.post("/sessions", json={"template_id": made["id"]}), 409, "TEMPLATE_INACTIVE")
    found = ok(api.get("/sessions", params={"template_id": made["id"], "status": "ready"}))
    assert [one["id"] for one in found] == [session["id"]]
    refused(api.get("/sessions", params={"template_id": str(uuid4())}), 404, "TEMPLATE_NOT_FOUND")


# ---- sessions ----------------------------------------------------------------------------------------------------------------------


def test_a_session_with_a_worktree(api: httpx2.Client, template: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "calc.js").write_text("console.log('hi'); __ARGS__.a + 41")
    given = {"template_id": template["id"], "workspace_id": "w", "base_commit_oid": "c", "worktree_path": str(tmp_path)}
    session = ok(api.post("/sessions", json={**given, "name": "n", "meta": {"k": [1]}}), 201)
    _sessions.Session.model_validate(session)
    assert (session["workspace_id"], session["name"], session["meta"], session["status"]) == ("w", "n", {"k": [1]}, "ready")
    run = {"session_id": session["id"], "path": "calc.js", "args": {"a": 1}, "env": {"e": "x"}}
    made = ok(api.post("/executions/run-file", json=run), 201)
    _executions.Execution.model_validate(made)
    assert (made["kind"], made["status"], made["result"]["preview"], made["path"]) == ("run_file", "ok", "42", "calc.js")
    assert (made["args"], made["env"]) == ({"a": 1}, {"e": "x"})
    refused(api.post("/executions/run-file", json={**run, "path": "no.js"}), 404, "FILE_NOT_FOUND")
    refused(api.post("/executions/run-file", json={**run, "path": "../no.js"}), 422, "INVALID_PATH")
    for part in ("workspace_id", "base_commit_oid", "worktree_path"):
        rest = {name: value for name, value in given.items() if name != part}
        refused(api.post("/sessions", json=rest), 400, "VALIDATION_ERROR")
    error = refused(api.post("/sessions", json=given | {"worktree_path": str(tmp_path / "no")}), 422, "WORKTREE_NOT_FOUND")
    assert error["details"]["template_id"] == template["id"]
    assert str(tmp_path) not in error["message"]


def test_a_startup_file_that_fails_leaves_a_crashed_session(api: httpx2.Client, tmp_path: Path) -> None:
    made = new_template(api)
    ok(api.post(f"/templates/{made['id']}/startup-files", json={"path": "bad.js"}), 201)
    (tmp_path / "bad.js").write_text("throw new Error('no')")
    given = {"template_id": made["id"], "workspace_id": "w", "base_commit_oid": "c", "worktree_path": str(tmp_path)}
    error = refused(api.post("/sessions", json=given), 422, "STARTUP_FAILED")
    left = ok(api.get(f"/sessions/{error['details']['session_id']}"))
    assert (left["status"], left["template_id"]) == ("crashed", made["id"])
    assert left["last_error"]
    refused(api.post("/executions/repl", json={"session_id": left["id"], "input": "1"}), 409, "SESSION_NOT_READY")


def test_a_session_is_closed_twice_and_purged(api: httpx2.Client, session: str) -> None:
    for _ in range(2):
        closed = ok(api.post(f"/sessions/{session}/close", json={}))
        assert closed["status"] == "closed"
        assert closed["closed_at"]
    assert ok(api.delete(f"/sessions/{session}"))["status"] == "closed"
    refused(api.post("/executions/repl", json={"session_id": session, "input": "1"}), 409, "SESSION_NOT_READY")
    assert ok(api.delete(f"/sessions/{session}", params={"purge": "true"})) == {"status": "ok", "session_id": session}
    refused(api.get(f"/sessions/{session}"), 404, "SESSION_NOT_FOUND")
    refused(api.post(f"/sessions/{session}/close"), 404, "SESSION_NOT_FOUND")


def test_history_fork_rewind_tree_diff_prune(api: httpx2.Client, session: str) -> None:
    repl(api, session, "var n = 1")
    repl(api, session, "n = 2; var m = 3")
    where = f"/sessions/{session}"
    checkpoints = ok(api.get(f"{where}/checkpoints"))
    assert [one["number"] for one in checkpoints] == [1, 2]
    _sessions.Checkpoint.model_validate(checkpoints[0])
    difference = ok(api.get(f"{where}/diff", params={"before": 1, "after": 2}))
    _sessions.Difference.model_validate(difference)
    assert ("m" in difference["added"], "n" in difference["changed"]) == (True, True)
    forks = ok(api.post(f"{where}/fork", json={"checkpoint": 1, "count": 2, "name": "f"}), 201)
    assert [fork["origin"] for fork in forks] == [{"session_id": session, "checkpoint": 1}] * 2
    assert repl(api, forks[0]["id"], "n")["result"]["preview"] == "1"
    tree = ok(api.get(f"{where}/tree"))
    _sessions.Tree.model_validate(tree)
    assert [(node["number"], node["parent"], node["head"]) for node in tree["nodes"]] == [
        (0, None, False),
        (1, 0, False),
        (2, 1, True),
    ]
    assert sorted(tree["nodes"][1]["forks"]) == sorted(fork["id"] for fork in forks)
    assert ok(api.post(f"{where}/rewind", json={"checkpoint": 1}))["head"] == 1
    assert repl(api, session, "typeof m")["result"]["preview"] == "undefined"
    refused(api.post(f"{where}/rewind", json={"checkpoint": 77}), 404, "CHECKPOINT_NOT_FOUND")
    refused(api.post(f"{where}/fork", json={"checkpoint": 77}), 404, "CHECKPOINT_NOT_FOUND")
    assert ok(api.post(f"{where}/prune", json={"keep": 1}))["pruned"] >= 1
    assert ok(api.get(f"{where}/errors")) == []


# ---- executions --------------------------------------------------------------------------------------------------------------------


def test_an_execution_and_its_events(api: httpx2.Client, session: str) -> None:
    made = repl(api, session, "console.log('x'); 20 + 22")
    _executions.Execution.model_validate(made)
    assert (made["status"], made["result"]["preview"], made["args"], made["env"]) == ("ok", "42", [], {})
    assert ok(api.get(f"/executions/{made['id']}")) == made
    events = ok(api.get(f"/executions/{made['id']}/events"))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    for event in events:
        _executions.Event.model_validate(event)
        assert (event["execution_id"], event["session_id"]) == (made["id"], session)
    page = api.get(f"/executions/{made['id']}/events", params={"limit": 1})
    assert ok(page) == events[:1]
    assert ok(api.get(f"/executions/{made['id']}/events", params={"cursor": page.headers["x-next-cursor"]})) == events[1:]
    assert ok(api.get(f"/executions/{made['id']}/events", params={"after_seq": len(events) - 1})) == events[-1:]
    assert ok(api.get(f"/executions/{made['id']}/events", params={"after_seq": 99})) == []
    refused(api.get(f"/executions/{uuid4()}/events"), 404, "EXECUTION_NOT_FOUND")


def test_a_script_that_fails_is_created_all_the_same(api: httpx2.Client, session: str) -> None:
    made = repl(api, session, "throw new Error('boom')")
    assert (made["status"], made["result"], "boom" in made["error"]["message"]) == ("error", None, True)


def test_a_strategy(api: httpx2.Client, session: str) -> None:
    given = {"session_id": session, "source": "return ctx.n + 1", "ctx": {"n": 1}}
    made = ok(api.post("/executions/strategy", json=given), 201)
    assert (made["kind"], made["args"]) == ("strategy", {"n": 1})


def test_lists_have_pages(api: httpx2.Client, session: str) -> None:
    made = [repl(api, session, str(n))["id"] for n in range(5)]
    url, seen = f"/executions?session_id={session}&limit=2", []
    for _ in range(5):
        response = api.get(url)
        seen += [one["id"] for one in ok(response)]
        if "x-next-cursor" not in response.headers:
            break
        url = response.links["next"]["url"].removeprefix("/api/v1")
    assert seen == made[::-1]
    assert ok(api.get("/executions", params={"session_id": session, "status": "error"})) == []
    refused(api.get("/executions", params={"session_id": str(uuid4())}), 404, "SESSION_NOT_FOUND")
    refused(api.get("/sessions", params={"cursor": "nonsense"}), 400, "VALIDATION_ERROR")
    refused(api.get("/catalogue/languages", params={"cursor": "nonsense"}), 400, "VALIDATION_ERROR")


def test_respond_async_then_wait(api: httpx2.Client, session: str) -> None:
    body = {"session_id": session, "input": "let n = 0; while (n < 2e6) n++; n"}
    response = api.post("/executions/repl", json=body, headers={"Prefer": "respond-async"})
    made = ok(response, 202)
    assert response.headers["preference-applied"] == "respond-async"
    ended = ok(api.get(f"/executions/{made['id']}/wait", params={"timeout_ms": 20_000}))
    assert (ended["status"], ended["result"]["preview"]) == ("ok", "2000000")
    refused(api.get(f"/executions/{made['id']}/wait", params={"timeout_ms": 60_001}), 400, "VALIDATION_ERROR")


def test_busy_wait_and_cancel(api: httpx2.Client, session: str) -> None:
    paused = repl(api, session, "await ask('Who?')")
    assert paused["status"] == "paused"
    refused(api.post("/executions/repl", json={"session_id": session, "input": "1"}), 409, "SESSION_BUSY")
    waiting: list[Any] = []
    thread = threading.Thread(target=lambda: waiting.append(repl(api, session, "2", wait=True)))
    thread.start()
    assert ok(api.get(f"/executions/{paused['id']}/wait", params={"timeout_ms": 0}))["status"] == "paused"
    cancelled = ok(api.post(f"/executions/{paused['id']}/cancel"))
    thread.join(20)
    assert (cancelled["status"], waiting[0]["result"]["preview"]) == ("cancelled", "2")
    assert ok(api.post(f"/executions/{paused['id']}/cancel"))["status"] == "cancelled"
    refused(api.post(f"/executions/{uuid4()}/cancel"), 404, "EXECUTION_NOT_FOUND")


def test_limits(api: httpx2.Client) -> None:
    made = new_template(api, limits={"max_events": 5, "wall_ms": 200})
    session = ok(api.post("/sessions", json={"template_id": made["id"]}), 201)["id"]
    loud = {"session_id": session, "input": "for (let n = 0; n < 100; n++) console.log(n)"}
    error = refused(api.post("/executions/repl", json=loud), 422, "OUTPUT_LIMIT_EXCEEDED")
    details = error["details"]
    assert (details["session_id"], details["limit"], details["allowed"]) == (session, "max_events", 5)
    recorded = ok(api.get(f"/executions/{details['execution_id']}"))
    assert (recorded["status"], recorded["error"]["code"]) == ("error", "LIMIT_EXCEEDED")
    slow = repl(api, session, "while (true) {}")
    assert (slow["status"], slow["error"]["code"]) == ("timeout", "LIMIT_EXCEEDED")


def test_a_client_that_leaves_does_not_stop_its_execution(server: Served, api: httpx2.Client, session: str) -> None:
    body = json.dumps({"session_id": session, "input": "let n = 0; while (n < 8e6) n++; globalThis.done = n"}).encode()
    head = f"POST /api/v1/executions/repl HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    server.raw(head.encode() + body, until=lambda _: True)  # and is gone
    until = time.monotonic() + 20
    found: list[Any] = []
    while time.monotonic() < until and not (found and found[0]["status"] == "ok"):
        found = ok(api.get("/executions", params={"session_id": session}))
        time.sleep(0.02)
    assert (found[0]["status"], found[0]["result"]["preview"]) == ("ok", "8000000")


# ---- queries -----------------------------------------------------------------------------------------------------------------------


def test_queries_and_answers(api: httpx2.Client, session: str) -> None:
    paused = repl(api, session, "await Promise.all([ask('A?'), approve('B?')])")
    assert [query["id"] for query in paused["queries"]] == ["q-1", "q-2"]
    _executions.Query.model_validate(paused["queries"][0])
    assert ok(api.get("/queries", params={"session_id": session})) == paused["queries"]
    assert ok(api.get("/queries", params={"execution_id": paused["id"], "kind": "approve"})) == paused["queries"][1:]
    assert ok(api.get("/queries", params={"session_id": session, "state": "answered"})) == []
    where = f"/sessions/{session}/queries"
    assert ok(api.get(f"{where}/q-1")) == paused["queries"][0]
    refused(api.get(f"{where}/q-9"), 404, "QUERY_NOT_FOUND")
    refused(api.get(f"{where}/nonsense"), 400, "VALIDATION_ERROR")
    refused(api.post(f"/sessions/{session}/answers", json={"value": 1}), 409, "ANSWER_AMBIGUOUS")
    about = {"usage": {"prompt_tokens": 1, "cached_tokens": 0}, "model": "small", "finish_reason": "stop"}
    many = {f"n{number}": 1 for number in range(21)}
    for wrong in ({"usage": {"prompt_tokens": -1}}, {"usage": many}, {"finish_reason": "x" * 1001}):
        refused(api.post(f"{where}/q-1/answer", json={"value": 1} | wrong), 400, "VALIDATION_ERROR")
    refused(api.post(f"{where}/q-1/answer", json={"value": 1, "model": 7}), 400, "INVALID_REQUEST")
    after = ok(api.post(f"{where}/q-1/answer", json={"value": {"x": [1]}} | about))
    assert ok(api.get(f"{where}/q-1"))["answer"] == {"value": {"x": [1]}} | about
    assert (after["status"], [query["id"] for query in after["queries"]]) == ("paused", ["q-2"])
    ok(api.post(f"{where}/q-1/answer", json={"value": {"x": [1]}}))
    refused(api.post(f"{where}/q-1/answer", json={"value": "other"}), 409, "ANSWER_CONFLICT")
    ended = ok(api.post(f"/sessions/{session}/answers", json={"value": True}))
    assert (ended["status"], ended["result"]["json"]) == ("ok", [{"x": [1]}, True])
    assert ok(api.get(f"{where}/q-2"))["answer"] == {"value": True}


def test_answers_that_raise_and_queries_withdrawn(api: httpx2.Client, session: str) -> None:
    repl(api, session, "try { await ask('A?') } catch (e) { e.message + e.code }")
    failed = ok(api.post(f"/sessions/{session}/queries/q-1/answer", json={"error": {"message": "no", "code": "X"}}))
    assert failed["result"]["preview"] == "noX"
    repl(api, session, "try { await ask('A?') } catch (e) { e.code }")
    assert ok(api.post(f"/sessions/{session}/queries/q-2/cancel"))["result"]["preview"] == "QUERY_CANCELLED"
    repl(api, session, "await Promise.all([ask('A?'), ask('B?')])")
    both = ok(api.post(f"/sessions/{session}/answers", json={"answers": {"q-3": 1, "q-4": None}}))
    assert both["result"]["json"] == [1, None]


# ---- idempotency -------------------------------------------------------------------------------------------------------------------


def test_the_same_key_does_it_once(api: httpx2.Client, session: str) -> None:
    key = {"Idempotency-Key": f"key {uuid4()}"}
    body = {"session_id": session, "input": "globalThis.n = (globalThis.n || 0) + 1"}
    first = ok(api.post("/executions/repl", json=body, headers=key), 201)
    assert ok(api.post("/executions/repl", json=body, headers=key), 201)["id"] == first["id"]
    assert repl(api, session, "n")["result"]["preview"] == "1"
    refused(api.post("/executions/repl", json=body | {"input": "2"}, headers=key), 409, "IDEMPOTENCY_CONFLICT")
    refused(api.post("/templates", json={"name": f"t {uuid4()}"}, headers=key), 409, "IDEMPOTENCY_CONFLICT")


def test_every_route_that_changes_something_takes_a_key(api: httpx2.Client, session: str) -> None:
    name, key = f"t {uuid4()}", {"Idempotency-Key": str(uuid4())}
    made = [ok(api.post("/templates", json={"name": name}, headers=key), 201)["id"] for _ in range(2)]
    assert made[0] == made[1]
    where = f"/templates/{made[0]}"

    def twice(method: str, path: str, body: Any = None) -> None:
        key = {"Idempotency-Key": str(uuid4())}
        first, again = (api.request(method, path, json=body, headers=key) for _ in range(2))
        assert first.is_success, first.text
        assert (first.status_code, first.json()) == (again.status_code, again.json())

    twice("PATCH", where, {"limits": {"wall_ms": 1000}})
    assert ok(api.get(where))["template"]["version"] == 2
    twice("PATCH", f"{where}/settings", {"limits": {"wall_ms": 2000}})
    twice("POST", f"{where}/clone", {"name": f"t {uuid4()}"})
    twice("POST", f"{where}/capabilities", {"kind": "module", "name": "fs"})
    twice("POST", f"{where}/modules", {"name": "fs"})
    twice("POST", f"{where}/libraries", {"name": "lodash"})
    twice("POST", f"{where}/startup-files", {"path": "a.js"})
    detail = ok(api.get(where))
    twice("DELETE", f"{where}/capabilities/{detail['capabilities'][0]['id']}")
    twice("DELETE", f"{where}/startup-files/{detail['startup_files'][0]['id']}")
    twice("DELETE", f"{where}/modules/fs")
    twice("DELETE", f"{where}/libraries/lodash")
    twice("POST", "/sessions", {"template_id": made[0], "name": "once"})
    assert len(ok(api.get("/sessions", params={"name": "once"}))) == 1
    repl(api, session, "1")
    twice("POST", f"/sessions/{session}/fork", {"count": 2})
    twice("POST", f"/sessions/{session}/rewind", {"checkpoint": 1})
    twice("POST", f"/sessions/{session}/prune", {"keep": 0})
    paused = repl(api, session, "await ask('?')")
    twice("POST", f"/executions/{paused['id']}/cancel")
    twice("POST", f"/sessions/{session}/close")
    twice("DELETE", f"/sessions/{session}?purge=true")
    empty = new_template(api)["id"]
    twice("DELETE", f"/templates/{empty}")


def test_tokens_do_not_see_each_others_replies(server: Served, api: httpx2.Client, session: str) -> None:
    body = {"session_id": session, "input": "1"}
    key = {"Idempotency-Key": "shared"}
    mine = ok(api.post("/executions/repl", json=body, headers=key), 201)
    with server.client(server.made("other", "run")) as other:
        theirs = ok(other.post("/executions/repl", json=body, headers=key), 201)
    assert mine["id"] != theirs["id"]


# ---- the document ------------------------------------------------------------------------------------------------------------------


def test_the_document_says_everything(server: Served) -> None:
    with httpx2.Client(base_url=f"{server.url}/api/v1", verify=NO_TLS) as nobody:
        document = ok(nobody.get("/openapi.json"))
        page = nobody.get("/docs")
    assert document["openapi"].startswith("3.1")
    operations = [(path, method, one) for path, methods in document["paths"].items() for method, one in methods.items()]
    assert len(operations) > 50
    assert len({one["operationId"] for *_, one in operations}) == len(operations)
    for path, method, one in operations:
        where = f"{method} {path}"
        assert one["tags"], where
        assert one["description"], where
        fine = [answer for status, answer in one["responses"].items() if status < "300"]
        assert fine, where
        assert all("example" in content for answer in fine for content in answer["content"].values()), where
        for status in ("400", "403", "429", "500"):
            assert one["responses"][status]["content"]["application/json"]["schema"] == {
                "$ref": "#/components/schemas/Error"
            }, where
        if "requestBody" in one:
            assert "example" in one["requestBody"]["content"]["application/json"], where
        if method != "get":
            assert "Idempotency-Key" in [parameter["name"] for parameter in one["parameters"]], where
        assert one["security"] or path.startswith(("/api/v1/health", "/api/v1/version")), where
    assert page.headers["content-type"].startswith("text/html")
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/executions/repl", '{"session_id": "SESSION", "input": "1", "input": "2"}'),
        ("/executions/repl", '{"session_id": "SESSION", "in\\u0070ut": "1", "input": "2"}'),
        ("/sessions", '{"name": "a", "name": "a"}'),
        ("/templates", '{"name": "doubled", "limits": {"wall_ms": 1000, "wall_ms": 2000}}'),
        ("/templates", '{"name": "doubled", "x": [' + '{"a": 1},' * 30_000 + '{"a": 1, "a": 2}]}'),
    ],
)
def test_a_key_that_is_there_twice_is_refused(api: httpx2.Client, session: str, path: str, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    refused = api.post(path, content=body.replace("SESSION", session), headers=headers)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "INVALID_REQUEST"
    assert "twice" in refused.json()["error"]["message"]


def test_a_body_with_too_many_values_is_refused_before_it_is_read(api: httpx2.Client, session: str) -> None:
    body = f'{{"session_id": "{session}", "input": "1", "x": [{"[]," * 1_000_000}[]]}}'
    refused = api.post("/executions/repl", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == "BODY_TOO_LARGE"


def test_too_large_a_difference_is_refused_as_documented(api: httpx2.Client, session: str) -> None:
    source = "for (let n = 0; n < 6000; n++) globalThis['n'.repeat(900) + n] = n"
    first = ok(api.get(f"/sessions/{session}/checkpoints"))
    number = first[-1]["number"] if first else 0
    assert api.post("/executions/repl", json={"session_id": session, "input": source}).status_code in (200, 201)
    refused = api.get(f"/sessions/{session}/diff", params={"before": number})
    assert refused.status_code == 422
    assert refused.json()["error"]["code"] == "DIFF_TOO_LARGE"
