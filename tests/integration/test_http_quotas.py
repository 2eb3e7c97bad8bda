"""Quotas over REST, the client and the command line."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.http_server import served

QUOTAS = {"tenant": {"sessions": 2, "executions": 1}, "tokens": {}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with served(Path(tmp_path_factory.mktemp("quotas")), quotas=QUOTAS) as server, server.client() as client:
        yield client


def test_quotas_are_told_and_shown(api: httpx2.Client) -> None:
    template = api.post("/templates", json={"name": "t"}).json()["id"]
    sessions = [api.post("/sessions", json={"template_id": template}).json()["id"] for _ in range(2)]
    refused = api.post("/sessions", json={"template_id": template})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "QUOTA_EXCEEDED")
    assert "retry-after" not in refused.headers
    details = refused.json()["error"]["details"]
    assert [details[name] for name in ("quota", "scope", "limit", "used")] == ["sessions", "tenant", 2, 2]
    loop = {"session_id": sessions[0], "input": "for (;;);"}
    running = api.post("/executions/repl", json=loop, headers={"Prefer": "respond-async"})
    assert running.status_code == 202
    busy = api.post("/executions/repl", json={"session_id": sessions[1], "input": "1"})
    assert (busy.status_code, busy.json()["error"]["details"]["quota"]) == (429, "executions")
    assert busy.headers["retry-after"] == "1"
    shown = api.get("/quotas").json()
    assert shown["tenant"]["limits"]["sessions"] == shown["tenant"]["used"]["sessions"] == 2
    assert shown["tenant"]["used"]["executions"] == 1
    api.post(f"/executions/{running.json()['id']}/cancel")
    for session in sessions:
        assert api.get(f"/sessions/{session}").json()["usage"]["total"]["steps"] >= 0


def test_requests_a_second_of_a_tenant(tmp_path: Path) -> None:
    with served(tmp_path, quotas={"tenant": {"requests_per_s": 3}}) as server, server.client() as api:
        answers = [api.get("/quotas") for _ in range(8)]
        limited = [answer for answer in answers if answer.status_code == 429]
        assert limited
        error = limited[0].json()["error"]
        assert (error["code"], error["details"]["scope"], error["details"]["limit"]) == ("RATE_LIMITED", "tenant", 3)
        assert limited[0].headers["retry-after"] == "1"


def test_pruning_says_what_remains(tmp_path: Path) -> None:
    with served(tmp_path) as server, server.client() as api:
        template = api.post("/templates", json={"name": "t"}).json()["id"]
        session = api.post("/sessions", json={"template_id": template}).json()["id"]
        for _ in range(3):
            api.post("/executions/repl", json={"session_id": session, "input": "1"})
        assert api.get(f"/sessions/{session}/prune").json() == {"pruned": 0, "remaining": 0}
        pruned = api.post(f"/sessions/{session}/prune", json={"keep": 1})
        assert (pruned.status_code, pruned.json()) == (200, {"pruned": 2, "remaining": 0})
