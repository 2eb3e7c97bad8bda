"""Tenants: nobody sees a trace of another's, by any route, tool, list, stream, name or key; operators may name a tenant."""

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

from holdfast.daemon import Tokens
from tests.daemon import NO_TLS, Daemon

VICTIM = "victim"
MODERN = "2026-07-28"
NAME = "s3cret-name"
ANSWER = "s3cret-answer"


class World:
    """A daemon with two tenants. `victim` has one of everything; `attacker` has nothing."""

    def __init__(self, folder: Path) -> None:
        roots = f"{folder / 'work' / '{tenant}'},{folder / 'plain'}"
        self.folder = folder
        self.daemon = Daemon(folder, heartbeat_s="0.1", worktree_roots=roots).start()
        tokens = Tokens(folder / "data")
        self.secrets = {
            "victim": tokens.create("victim", ["admin"], tenant=VICTIM)[1],
            "attacker": tokens.create("attacker", ["admin"], tenant="attacker")[1],
            "reader": tokens.create("reader", ["read"], tenant="attacker")[1],
            "runner": tokens.create("runner", ["run", "answer"])[1],
            "operator": self.daemon.token,
        }
        self.ids: dict[str, str] = {}
        time.sleep(1.1)  # the daemon looks at the tokens twice a second

    def client(self, who: str, **headers: str) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.secrets[who]}", **headers}
        return httpx2.Client(base_url=f"{self.daemon.url}/api/v1", headers=headers, timeout=30, verify=NO_TLS)

    def fill(self) -> None:
        with self.client("victim") as api:
            template = made(api.post("/templates", json={"name": NAME, "engine": "javascript"}))["id"]
            capability = made(
                api.post(
                    f"/templates/{template}/capabilities",
                    json={"kind": "module", "name": "state", "enabled": True, "config": {"namespace": "shared"}},
                )
            )["id"]
            startup = made(api.post(f"/templates/{template}/startup-files", json={"path": "a.js"}))["id"]
            api.delete(f"/templates/{template}/startup-files/{startup}").raise_for_status()
            session = made(api.post("/sessions", json={"template_id": template, "name": NAME}))["id"]
            done = made(api.post("/executions/repl", json={"session_id": session, "input": "console.log('x'); 7"}))["id"]
            paused = made(
                api.post("/executions/strategy", json={"session_id": session, "source": f"await ask('{ANSWER}')", "ctx": {}})
            )
            self.ids = {
                "template_id": template,
                "capability_id": capability,
                "startup_id": startup,
                "session_id": session,
                "execution_id": paused["id"],
                "done": done,
            }

    def seen(self) -> str:
        """All that the victim sees of its own."""
        with self.client("victim") as api:
            places = [
                f"/sessions/{self.ids['session_id']}",
                f"/executions/{self.ids['execution_id']}",
                f"/executions/{self.ids['execution_id']}/events",
                f"/templates/{self.ids['template_id']}",
                f"/sessions/{self.ids['session_id']}/tree",
                "/queries",
                "/sessions",
                "/templates",
            ]
            return json.dumps([api.get(place).json() for place in places])


def made(response: httpx2.Response) -> Any:
    assert response.status_code == 201, response.text
    return response.json()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("tenants"))
    try:
        found.fill()
        yield found
    finally:
        found.daemon.kill()


# ---- every route -------------------------------------------------------------------------------------------------------------------


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def filled(path: str, ids: dict[str, str]) -> str:
    """A path of the document with ids in it."""
    fixed = {"query_id": "q-1", "number": "1", "module_name": "fs", "library_name": "lodash-4.17.21", "name": "reflect"}
    return re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1]) or fixed.get(found[1]) or str(ids["other"]), path)


def asked(method: str, path: str, operation: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """A request that would do for these ids, if they were the caller's."""
    request: dict[str, Any] = {"method": method, "url": filled(path, ids).removeprefix("/api/v1")}
    query = {
        parameter["name"]: ids.get(parameter["name"], parameter.get("example"))
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and (parameter["name"] in ids or parameter.get("required"))
    }
    if "before" in query:
        query["before"] = 0
    if query:
        request["params"] = query
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is not None:
        body = dict(content.get("example") or {})
        request["json"] = {key: ids.get(key, value) for key, value in body.items()}
    return request


def told(response: httpx2.Response, ids: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    """An answer with the ids of the request left out."""
    text = response.text
    for some_id in ids.values():
        text = text.replace(some_id, "ID").replace(some_id.replace("-", ""), "ID")
    text = text.replace(response.headers["x-request-id"], "REQUEST")
    text = re.sub(r"[0-9a-f-]{36}", "ANY", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)", "TIME", text)
    headers = {key: value for key, value in response.headers.items() if key not in ("date", "x-request-id", "content-length")}
    return response.status_code, text, headers


@pytest.mark.parametrize("who", ["attacker", "reader", "runner", "operator"])
def test_no_route_tells_another_tenants_object_from_none(world: World, who: str) -> None:
    before = world.seen()
    routes = 0
    with world.client(who) as api:
        for method, path, operation in operations(api.get("/openapi.json").json()):
            names = set(re.findall(r"\{(\w+)\}", path)) | {one["name"] for one in operation.get("parameters", ())}
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example") or {}
            if not (names | body.keys()) & {"template_id", "session_id", "execution_id"}:
                continue
            routes += 1
            theirs = {**world.ids, "other": str(uuid4())}
            nobodys = {name: str(uuid4()) for name in theirs}
            answers = []
            for ids in (theirs, nobodys):
                request = asked(method, path, operation, ids)
                answers.append(told(api.request(**request, headers={"Idempotency-Key": uuid4().hex}), ids))
            assert answers[0] == answers[1], f"{method} {path}"
            if "name" not in body:  # such as a session of a template, whose name is not the id
                assert answers[0][0] in (200, 400, 403, 404, 422), f"{method} {path}: {answers[0]}"
            if answers[0][0] == 200:
                assert answers[0][1] in ("[]", "null"), f"{method} {path}: {answers[0]}"
    assert routes > 40
    assert world.seen() == before


@pytest.mark.parametrize("who", ["attacker", "reader", "runner", "operator"])
def test_no_list_has_anything_of_another_tenant(world: World, who: str) -> None:
    with world.client(who) as api:
        for method, path, operation in operations(api.get("/openapi.json").json()):
            if method != "GET" or "{" in path or path.endswith("/stream"):
                continue
            required = [one["name"] for one in operation.get("parameters", ()) if one.get("required") and one["in"] == "query"]
            if required:
                continue
            text = api.get(path.removeprefix("/api/v1")).text
            tried = () if path.endswith("/audit") else world.ids.values()  # a caller's own log has the ids that it tried
            for secret in (*tried, NAME, ANSWER, VICTIM):
                if who == "operator" and secret == VICTIM and path.endswith("/audit"):
                    continue
                assert secret not in text, path


def test_metrics_and_figures_of_the_process_are_for_operators(world: World) -> None:
    for who, status in (("attacker", 403), ("reader", 403), ("runner", 403), ("operator", 200)):
        with world.client(who) as api:
            assert api.get("/metrics").status_code == status
            summary = api.get("/runtime/summary").json()
            assert (summary["memory_bytes"] is not None) == (who == "operator")
            assert (summary["resident"] is not None) == (who == "operator")
            assert sum(summary["sessions"].values()) == 0


# ---- names, keys, cursors, streams ---------------------------------------------------------------------------------------------------


def test_names_and_keys_are_the_tenants_own(world: World) -> None:
    with world.client("attacker") as api, world.client("victim") as theirs:
        key = {"Idempotency-Key": "same"}
        mine = made(api.post("/templates", json={"name": NAME}, headers=key))
        assert mine["id"] != world.ids["template_id"]
        other = theirs.post("/templates", json={"name": "else"}, headers=key)
        assert other.status_code == 201
        assert api.get("/templates", params={"name": NAME}).json()[0]["id"] == mine["id"]
        api.delete(f"/templates/{mine['id']}").raise_for_status()
        theirs.delete(f"/templates/{other.json()['id']}").raise_for_status()


def test_a_cursor_is_the_tenants_own_and_tells_nothing(world: World) -> None:
    def paged(api: httpx2.Client) -> str:
        found = [made(api.post("/templates", json={"name": f"page-{number}"}))["id"] for number in range(3)]
        cursor, again = (str(api.get("/templates", params={"limit": 1}).headers["x-next-cursor"]) for _ in range(2))
        assert cursor != again, "whether two are equal would tell whether somebody has written in between"
        assert len(cursor) == len(again)
        for template in found:
            api.delete(f"/templates/{template}").raise_for_status()
        return cursor

    with world.client("attacker") as api, world.client("victim") as theirs:
        mine, other = paged(api), paged(theirs)
        assert api.get("/templates", params={"cursor": mine}).status_code == 200
        refused = api.get("/templates", params={"cursor": other})
        made_up = api.get("/templates", params={"cursor": "dDE"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "INVALID_VALUE") or refused.status_code == 400
        assert made_up.status_code == refused.status_code
        assert made_up.json()["error"]["message"] == refused.json()["error"]["message"]


def test_the_stream_of_all_events_is_that_of_the_tenant(world: World) -> None:
    heard: dict[str, list[str]] = {"attacker": [], "victim": []}
    ready, done = threading.Barrier(3), threading.Event()

    def listen(who: str) -> None:
        with world.client(who) as api, api.stream("GET", "/events/stream") as stream:
            lines = stream.iter_lines()
            next(lines)
            ready.wait(20)
            for line in lines:
                heard[who].append(line)
                if done.is_set():
                    return

    threads = [threading.Thread(target=listen, args=(who,), daemon=True) for who in heard]
    for thread in threads:
        thread.start()
    ready.wait(20)
    with world.client("victim") as api:
        session = made(api.post("/sessions", json={"template_id": world.ids["template_id"]}))["id"]
        for number in range(20):
            made(api.post("/executions/repl", json={"session_id": session, "input": f"console.log('{ANSWER}', {number})"}))
        until = time.monotonic() + 20
        while not any("19" in line for line in heard["victim"]) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        done.set()
        for thread in threads:
            thread.join(20)
        api.delete(f"/sessions/{session}", params={"purge": True}).raise_for_status()
    assert any(ANSWER in line for line in heard["victim"])
    assert not [line for line in heard["attacker"] if line and not line.startswith(":") and "retry" not in line]


# ---- state -------------------------------------------------------------------------------------------------------------------------


def test_shared_state_of_one_tenant_is_not_anothers(world: World) -> None:
    found = {}
    for who in ("attacker", "victim", "operator"):
        with world.client(who) as api:
            template = made(api.post("/templates", json={"name": "state-user"}))["id"]
            grant = {"kind": "module", "name": "state", "enabled": True, "config": {"namespace": "common"}}
            made(api.post(f"/templates/{template}/capabilities", json=grant))
            session = made(api.post("/sessions", json={"template_id": template}))["id"]
            code = f"const s = require('state'); const was = s.get('k') ?? null; s.set('k', '{who}'); was"
            turn = made(api.post("/executions/repl", json={"session_id": session, "input": code}))
            assert turn["status"] == "ok", turn
            found[who] = json.dumps(turn["result"])
            again = made(api.post("/executions/repl", json={"session_id": session, "input": "require('state').get('k')"}))
            assert who in json.dumps(again["result"])
            api.delete(f"/sessions/{session}", params={"purge": True}).raise_for_status()
            api.delete(f"/templates/{template}").raise_for_status()
    assert not [was for was in found.values() for who in found if who in was], found


# ---- operators ---------------------------------------------------------------------------------------------------------------------


def test_an_operator_names_a_tenant(world: World) -> None:
    header = "X-Holdfast-Tenant"
    with world.client("operator", **{header: VICTIM}) as api:
        assert api.get(f"/sessions/{world.ids['session_id']}").json()["id"] == world.ids["session_id"]
        assert [one["id"] for one in api.get("/sessions").json()] == [world.ids["session_id"]]
        assert api.get("/templates", params={"name": NAME}).json()[0]["id"] == world.ids["template_id"]
    with world.client("operator", **{header: "*"}) as api:
        assert world.ids["session_id"] in api.get("/sessions").text
        assert api.get(f"/executions/{world.ids['execution_id']}").status_code == 200
        assert api.post("/templates", json={"name": "whose"}).status_code in (400, 422)
    with world.client("operator", **{header: "No Tenant"}) as api:
        assert api.get("/sessions").status_code in (400, 422)


@pytest.mark.parametrize("who", ["attacker", "reader", "runner"])
def test_nobody_else_names_another_tenant(world: World, who: str) -> None:
    for name in (VICTIM, "there-is-none", "*"):
        with world.client(who, **{"X-Holdfast-Tenant": name}) as api:
            refused = api.get("/sessions")
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
            assert name not in refused.text
    own = "default" if who == "runner" else "attacker"
    with world.client(who, **{"X-Holdfast-Tenant": own}) as api:
        assert api.get("/sessions").status_code == 200


# ---- worktrees ---------------------------------------------------------------------------------------------------------------------


def test_a_worktree_lies_below_the_tenants_own_root(world: World) -> None:
    work = world.folder / "work"
    for place in (work / "attacker" / "mine", work / VICTIM / "theirs", work / "default" / "d", world.folder / "plain" / "p"):
        place.mkdir(parents=True, exist_ok=True)
    (work / "attacker" / "link").symlink_to(work / VICTIM / "theirs")
    allowed = {
        "attacker": {work / "attacker" / "mine"},
        "runner": {work / "default" / "d", world.folder / "plain" / "p"},
        "operator": {work / "default" / "d", world.folder / "plain" / "p"},
    }
    every = [work / "attacker" / "mine", work / VICTIM / "theirs", work / VICTIM, work, work / "attacker" / "link"]
    every += [work / "attacker" / ".." / VICTIM / "theirs", work / "default" / "d", world.folder / "plain" / "p", world.folder]
    for who, places in allowed.items():
        admin = "operator" if who == "runner" else who
        with world.client(admin) as api:
            template = made(api.post("/templates", json={"name": f"w-{who}"}))["id"]
        with world.client(who) as api:
            for place in every:
                body = {"template_id": template, "workspace_id": "w", "base_commit_oid": "c", "worktree_path": str(place)}
                answer = api.post("/sessions", json=body)
                if place in places:
                    made(answer)
                else:
                    assert answer.json()["error"]["code"] == "WORKTREE_NOT_ALLOWED", (who, place, answer.text)


# ---- MCP ---------------------------------------------------------------------------------------------------------------------------


def rpc(world: World, who: str, method: str, params: dict[str, Any]) -> str:
    headers = {
        "Authorization": f"Bearer {world.secrets[who]}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
    }
    name = params.get("name") or params.get("uri")
    if name:
        headers["Mcp-Name"] = name
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return httpx2.post(f"{world.daemon.url}/mcp", json=message, headers=headers, timeout=30, verify=NO_TLS).text


def tool_calls(session_id: str) -> dict[str, dict[str, Any]]:
    return {
        "continue": {"session_id": session_id, "response": "x"},
        "cancel": {"session_id": session_id},
        "fork": {"session_id": session_id},
        "status": {"session_id": session_id},
        "history": {"session_id": session_id},
        "transcripts": {"session_id": session_id},
    }


@pytest.mark.parametrize("who", ["attacker", "operator"])
def test_no_tool_or_resource_tells_another_tenants_run_from_none(world: World, who: str) -> None:
    before, session_id = world.seen(), world.ids["session_id"]
    own = rpc(world, "victim", "tools/call", {"name": "transcripts", "arguments": {"session_id": session_id}})
    assert ANSWER in own, own
    tools = json.loads(re.search(r"\{.*\}", rpc(world, who, "tools/list", {}))[0])["result"]["tools"]  # type: ignore[index]
    about_sessions = {tool["name"] for tool in tools if "session_id" in tool["inputSchema"]["properties"]}
    assert about_sessions == tool_calls("").keys(), "a tool that takes a session id is called here"
    for name, given in tool_calls(session_id).items():
        nobodys = str(uuid4())
        theirs = rpc(world, who, "tools/call", {"name": name, "arguments": given})
        none = rpc(world, who, "tools/call", {"name": name, "arguments": tool_calls(nobodys)[name]})
        assert theirs.replace(session_id, "ID") == none.replace(nobodys, "ID"), name
        assert "NOT_FOUND" in theirs, theirs
    for kind in ("transcripts", "sessions"):
        nobodys = str(uuid4())
        theirs = rpc(world, who, "resources/read", {"uri": f"holdfast://{kind}/{session_id}"})
        none = rpc(world, who, "resources/read", {"uri": f"holdfast://{kind}/{nobodys}"})
        assert theirs.replace(session_id, "ID") == none.replace(nobodys, "ID"), kind
    for name, given in (("status", {}), ("templates", {}), ("transcripts", {}), ("templates", {"name": NAME})):
        text = rpc(world, who, "tools/call", {"name": name, "arguments": given})
        for secret in (session_id, world.ids["template_id"], ANSWER):
            assert secret not in text
    assert world.seen() == before


def test_readiness_is_the_same_with_any_token(world: World) -> None:
    answers = set()
    for who in world.secrets:
        with world.client(who) as api:
            answer = api.get("/health/ready")
            answers.add((answer.status_code, answer.text))
    assert len(answers) == 1


# ---- grants ------------------------------------------------------------------------------------------------------------------------


def test_an_administrator_of_a_tenant_grants_only_what_the_operator_lets(world: World) -> None:
    with world.client("attacker") as api, world.client("operator", **{"X-Holdfast-Tenant": "attacker"}) as operator:
        template = made(api.post("/templates", json={"name": "grants"}))["id"]
        place = f"/templates/{template}/capabilities"
        for name in ("exec", "env", "database", "http"):
            refused = api.post(place, json={"kind": "module", "name": name, "enabled": True, "config": {}})
            assert refused.json()["error"]["code"] == "CAPABILITY_INVALID", refused.text
            assert api.post(f"/templates/{template}/modules", json={"name": name}).status_code >= 400
        for enabled in (True, False):  # one that is not enabled would still tell whether a folder is there
            answers = []
            for folder in ("/etc", str(world.folder / "work" / VICTIM), str(world.folder / "plain"), "/no/such/folder", 7):
                config = {"roots": {"x": {"folder": folder, "write": True}}}
                refused = api.post(place, json={"kind": "module", "name": "fs", "enabled": enabled, "config": config})
                assert (refused.status_code, refused.json()["error"]["code"]) == (422, "CAPABILITY_INVALID"), refused.text
                answers.append(refused.json()["error"]["message"])
            assert len(set(answers)) == 1, "nobody is told what is there"
        config = {"write": True, "roots": {}, "max_files": 9}
        made(api.post(place, json={"kind": "module", "name": "fs", "enabled": True, "config": config}))
        made(api.post(place, json={"kind": "module", "name": "exec", "enabled": False, "config": {}}))
        granted = made(operator.post(place, json={"kind": "module", "name": "env", "enabled": True, "config": {}}))
        assert api.delete(f"{place}/{granted['id']}").status_code >= 400, "what the operator has set stays so"
        operator.delete(f"{place}/{granted['id']}").raise_for_status()
