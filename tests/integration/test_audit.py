"""The audit log: who did what to which object, from where and with which outcome; and nothing that was said."""

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.daemon import Tokens
from holdfast.store.sqlite import SqliteStore
from tests.daemon import NO_TLS, Daemon
from tests.integration.cli_process import Terminal

SECRET = "pass-phrase-4711"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(tmp_path_factory.mktemp("audit")).start()
    yield running
    running.kill()


def entries(api: httpx2.Client, **filters: Any) -> list[dict[str, Any]]:
    answer = api.get("/audit", params=filters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def waited(api: httpx2.Client, **filters: Any) -> list[dict[str, Any]]:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found = entries(api, **filters)
        if found:
            return found
        time.sleep(0.1)
    return []


@contextmanager
def as_token(daemon: Daemon, name: str, *scopes: str, tenant: str = "default") -> Iterator[httpx2.Client]:
    secret = Tokens(daemon.folder / "data").create(name, scopes, tenant=tenant)[1]
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx2.Client(base_url=f"{daemon.url}/api/v1", headers=headers, timeout=30, verify=NO_TLS) as client:
        until = time.monotonic() + 10
        while client.get("/sessions").status_code == 401 and time.monotonic() < until:
            time.sleep(0.1)
        yield client


def test_every_change_is_noted_with_who_what_where_and_how(daemon: Daemon) -> None:
    with daemon.client() as operator, as_token(daemon, "builder", "admin") as api:
        template = api.post("/templates", json={"name": "audited"}, headers={"X-Request-Id": "r-1"}).json()["id"]
        session = api.post("/sessions", json={"template_id": template, "name": SECRET, "meta": {"k": SECRET}}).json()["id"]
        run = api.post("/executions/repl", json={"session_id": session, "input": f"await ask('{SECRET}')"}).json()
        api.post(f"/sessions/{session}/queries/q-1/answer", json={"value": SECRET}).raise_for_status()
        assert api.delete(f"/templates/{template}").status_code == 409
        api.delete(f"/sessions/{session}", params={"purge": True}).raise_for_status()
        api.delete(f"/templates/{template}").raise_for_status()

        token = next(one for one in Tokens(daemon.folder / "data").list() if one.name == "builder")
        found = entries(operator, token=token.id)[::-1]
        assert [(one["action"], one["outcome"], one["status"], one["object_type"], one["object_id"]) for one in found] == [
            ("POST /templates", "ok", 201, "template", template),
            ("POST /sessions", "ok", 201, "session", session),
            ("POST /executions/repl", "ok", 201, "execution", run["id"]),
            ("POST /sessions/{session_id}/queries/{query_id}/answer", "ok", 200, "session", session),
            ("DELETE /templates/{template_id}", "TEMPLATE_IN_USE", 409, "template", template),
            ("DELETE /sessions/{session_id}", "ok", 200, "session", session),
            ("DELETE /templates/{template_id}", "ok", 200, "template", template),
        ]
        assert {(one["token_name"], one["tenant"], one["surface"], one["address"]) for one in found} == {
            ("builder", "default", "rest", "127.0.0.1")
        }
        assert found[0]["request_id"] == "r-1"
        assert SECRET not in json.dumps(entries(operator, limit=1000))


def test_filters_and_pages(daemon: Daemon) -> None:
    with daemon.client() as api:
        made = [api.post("/templates", json={"name": f"page-{number}"}).json()["id"] for number in range(3)]
        assert [one["object_id"] for one in entries(api, action="POST /templates", limit=3)] == made[::-1]
        assert [one["action"] for one in entries(api, object_id=made[1])] == ["POST /templates"]
        first = api.get("/audit", params={"limit": 1})
        second = api.get("/audit", params={"limit": 1, "cursor": first.headers["x-next-cursor"]})
        assert second.json()[0]["object_id"] == made[1]
        at = first.json()[0]["at"]
        assert entries(api, since=at)[-1]["at"] >= at
        assert all(one["at"] < at for one in entries(api, until=at))
        assert api.get("/audit", params={"since": "yesterday"}).status_code in (400, 422)
        for template in made:
            api.delete(f"/templates/{template}").raise_for_status()


def test_refusals_are_counted_together(daemon: Daemon) -> None:
    with daemon.client() as operator, as_token(daemon, "looker", "read") as api:
        for _ in range(300):
            assert api.post("/templates", json={"name": "x"}).status_code == 403
        nobody = httpx2.Client(base_url=f"{daemon.url}/api/v1", headers={"Authorization": "Bearer hf_no"}, verify=NO_TLS)
        with nobody:
            for number in range(300):
                assert nobody.get(f"/sessions/{number}").status_code == 401
        forbidden, unknown = waited(operator, outcome="FORBIDDEN"), waited(operator, outcome="UNAUTHENTICATED")
        assert (forbidden[0]["token_name"], forbidden[0]["action"]) == ("looker", "POST /templates")
        assert unknown[0]["token"] == ""
        assert len(forbidden) + len(unknown) <= 4, "a flood is a few rows"


def test_conflicts_and_methods_of_no_route_are_counted_together(daemon: Daemon) -> None:
    with daemon.client() as operator, as_token(daemon, "clash", "admin", tenant="clashes") as api:
        api.post("/templates", json={"name": "taken"}).raise_for_status()
        for _ in range(100):
            assert api.post("/templates", json={"name": "taken"}).status_code == 409
        taken = waited(api, outcome="NAME_TAKEN")
        time.sleep(0.6)
        assert len(waited(api, outcome="NAME_TAKEN")) == 1
        assert taken[0]["status"] == 409
        with httpx2.Client(base_url=daemon.url, verify=NO_TLS) as nobody:
            for method in ("GET", "POST", "MKCOL", "PROPFIND", "MOVE"):
                assert nobody.request(method, "/x").status_code == 401
        found = {one["action"] for one in waited(operator, outcome="UNAUTHENTICATED")}
        assert found == {"unmatched"}


def test_only_administrators_read_it_and_only_of_their_tenant(daemon: Daemon) -> None:
    with (
        daemon.client() as operator,
        as_token(daemon, "b-admin", "admin", tenant="b") as theirs,
        as_token(daemon, "b-reader", "read", tenant="b") as reader,
    ):
        assert reader.get("/audit").status_code == 403
        theirs.post("/templates", json={"name": "of-b"}).raise_for_status()
        assert {one["tenant"] for one in entries(theirs)} == {"b"}
        assert [one["action"] for one in entries(theirs, action="POST /templates")] == ["POST /templates"]
        assert not [one for one in entries(operator, limit=1000) if one["tenant"] == "b"]
        every = operator.get("/audit", params={"limit": 1000}, headers={"X-Holdfast-Tenant": "*"}).json()
        assert {"b", "default"} <= {one["tenant"] for one in every}


def test_tools_of_mcp_are_noted(daemon: Daemon) -> None:
    with daemon.client() as operator:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "run", "Authorization": f"Bearer {daemon.token}"}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "run", "arguments": {"code": f"return '{SECRET}'"}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = httpx2.post(f"{daemon.url}/mcp", json=message, headers=headers, timeout=30, verify=NO_TLS)
        assert SECRET in answer.text
        (entry,) = waited(operator, action="mcp run")
        assert (entry["outcome"], entry["surface"], entry["object_type"], entry["address"]) == (
            "ok",
            "mcp",
            "session",
            "127.0.0.1",
        )
        assert entry["object_id"] in answer.text
        assert entry["token_name"] == "first"
        assert SECRET not in json.dumps(entries(operator, limit=1000))


def test_tokens_and_the_daemon_itself_are_noted_and_kill_9_loses_no_change_of_a_template(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    Tokens(tmp_path / "data").create("before", ["read"])  # while no daemon runs
    daemon.start()
    try:
        admin = Tokens(tmp_path / "data").create("later", ["admin"])[1]
        Tokens(tmp_path / "data").revoke("before")
        headers = {"Authorization": f"Bearer {admin}"}
        with httpx2.Client(base_url=f"{daemon.url}/api/v1", headers=headers, timeout=30, verify=NO_TLS) as api:
            until = time.monotonic() + 10
            while api.get("/sessions").status_code == 401 and time.monotonic() < until:
                time.sleep(0.1)
            for number in range(20):
                api.post("/templates", json={"name": f"t-{number}"}).raise_for_status()
            daemon.kill()
        daemon.start()
        with httpx2.Client(base_url=f"{daemon.url}/api/v1", headers=headers, timeout=30, verify=NO_TLS) as api:
            assert len(entries(api, action="POST /templates", limit=100)) == 20
            assert len(entries(api, action="daemon start")) == 2
            assert {one["outcome"] for one in entries(api, action="token create")} == {"ok"}
            assert len(entries(api, action="token create")) == 2
            (revoked,) = entries(api, action="token revoke")
            assert (revoked["surface"], revoked["object_type"]) == ("cli", "token")
        assert daemon.stop() == 0
        with contextlib.closing(SqliteStore(tmp_path / "data" / "holdfast.db")) as store:
            assert [entry.action for entry in store.list_audit(limit=1).items] == ["daemon stop"]
    finally:
        daemon.kill()


def test_the_command_lists_it(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli = Terminal(capsys)
    found = run_cli("--server-url", daemon.url, "--token", daemon.token, "audit", "list", "--limit", "3", "--json")
    assert found.code == 0, found.err
    assert {"action", "outcome", "at", "token_name"} <= json.loads(found.out)[0].keys()
    shown = run_cli("--server-url", daemon.url, "--token", daemon.token, "audit", "list", "--action", "daemon start")
    assert "daemon start" in shown.out
