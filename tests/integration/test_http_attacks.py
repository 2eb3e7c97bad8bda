"""Attacks on a real `holdfast serve`, by whoever can reach its socket, with a token or without. Each of these did harm once, or might."""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.daemon import Tokens
from tests.daemon import NO_TLS, Daemon

_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
_CONNECTIONS = 32
_CONCURRENCY = 6
_INTERNALS = re.compile(r"SELECT|sqlite|Traceback|\.py\b|/tmp|/home|/work|object at 0x", re.IGNORECASE)
_PLACES = {"query_id": "q-1", "number": "1", "module_name": "fs", "library_name": "x"}
_SCOPES = {"read": {"read"}, "answer": {"answer", "read"}, "run": {"run", "read"}, "admin": {"admin", "run", "answer", "read"}}


class Target:
    """The daemon, its tokens, and something in it to aim at."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.tokens = Tokens(daemon.folder / "data")
        self.secrets = {scope: self.tokens.create(scope, [scope])[1] for scope in _SCOPES}
        self.until_known(self.secrets["admin"])
        self.admin = self.client("admin")
        self.template = self.admin.post("/templates", json={"name": "target"}).json()["id"]

    def client(self, scope: str, **options: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.secrets[scope]}"}
        return httpx2.Client(base_url=f"{self.daemon.url}/api/v1", headers=headers, timeout=20, verify=NO_TLS, **options)

    def session(self) -> str:
        return str(self.admin.post("/sessions", json={"template_id": self.template}).json()["id"])

    def until_known(self, secret: str, known: bool = True) -> None:
        headers = {"Authorization": f"Bearer {secret}"}
        until(
            lambda: (
                (httpx2.get(f"{self.daemon.url}/api/v1/templates", headers=headers, verify=NO_TLS).status_code == 200) is known
            )
        )

    def connect(self, sent: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=10)
        connection.sendall(sent)
        return connection

    def raw(self, sent: bytes) -> bytes:
        return rest_of(self.connect(sent))

    def head(self, line: str, *headers: str, scope: str | None = None) -> bytes:
        who = [] if scope is None else [f"Authorization: Bearer {self.secrets[scope]}"]
        return "\r\n".join([line, "Host: localhost", *who, *headers, "", ""]).encode()

    @property
    def memory(self) -> int:
        assert self.daemon.process is not None
        return int(Path(f"/proc/{self.daemon.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def until(true: Any, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def rest_of(connection: socket.socket) -> bytes:
    got = b""
    with connection:
        try:
            while part := connection.recv(65_536):
                got += part
        except ConnectionResetError:
            pass
    return got


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    limits = {"connections": str(_CONNECTIONS), "concurrency": str(_CONCURRENCY), "heartbeat_s": "0.2", "log_level": "debug"}
    daemon = Daemon(tmp_path_factory.mktemp("attacked"), **limits).start()
    try:
        found = Target(daemon)
        yield found
        found.admin.close()
        assert daemon.stop() == 0
        for secret in (*found.secrets.values(), daemon.token):
            assert secret not in daemon.log
        assert "Traceback" not in daemon.log
    finally:
        daemon.kill()


# ---- who may do what ---------------------------------------------------------------------------------------------------------------


def test_every_operation_asks_for_its_scope(target: Target) -> None:
    """With no token, and with a token of each scope, for each operation of the document. Nothing that is told has anything internal in it."""
    with httpx2.Client(base_url=target.daemon.url, timeout=20, verify=NO_TLS) as caller:
        paths = caller.get("/api/v1/openapi.json").json()["paths"]
        operations = [(path, method, about) for path, methods in paths.items() for method, about in methods.items()]
        assert len(operations) > 50
        wrong = []
        for path, method, about in operations:
            url = re.sub(r"\{(\w+)\}", lambda found: _PLACES.get(found[1], _ID), path)
            needed = about.get("x-scope")
            for scope in (None, *_SCOPES):
                headers = {} if scope is None else {"Authorization": f"Bearer {target.secrets[scope]}"}
                body = {} if "requestBody" in about else None
                with caller.stream(method.upper(), url, headers=headers, json=body) as response:
                    status = response.status_code
                    if status >= 400 and _INTERNALS.search(response.read().decode()):
                        wrong.append((method, path, response.text))
                if needed is None or (scope is not None and needed in _SCOPES[scope]):
                    expected = status not in (401, 403) and status < 500
                else:
                    expected = status == (401 if scope is None else 403)
                if not expected:
                    wrong.append((method, path, f"{scope}: {status}"))
    assert wrong == []


def test_a_stream_ends_with_the_token_that_it_was_opened_with(target: Target) -> None:
    """Who was let in once is not let in for ever. What happens after the token is gone is not told."""
    session = target.session()
    for name in ("revoked", "over"):
        _, secret = target.tokens.create(name, ["read"], int(time.time() * 1000) + 2000 if name == "over" else None)
        target.until_known(secret)
        line = f"GET /api/v1/sessions/{session}/stream HTTP/1.1"
        stream = target.connect(target.head(line, f"Authorization: Bearer {secret}", "Connection: close"))
        assert b"200 OK" in stream.recv(1000)
        if name == "revoked":
            target.tokens.revoke(name)
        target.until_known(secret, known=False)
        target.admin.post("/executions/repl", json={"session_id": session, "input": "console.log('not for you')"})
        told = rest_of(stream)
        assert b"not for you" not in told
        assert told.endswith(b"0\r\n\r\n")


def test_a_call_that_waited_is_not_answered_to_a_token_that_is_revoked(target: Target) -> None:
    """Neither by REST nor by MCP, also if the answer has begun."""
    _, secret = target.tokens.create("waits", ["run"])
    target.until_known(secret)
    bearer = f"Authorization: Bearer {secret}"

    def asked(line: str, body: dict[str, Any], *headers: str) -> socket.socket:
        data = json.dumps(body).encode()
        words = (bearer, "Content-Type: application/json", f"Content-Length: {len(data)}", "Connection: close", *headers)
        return target.connect(target.head(line, *words) + data)

    code = "alc.sleep(3000) return 'not for' .. ' you'"
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "run", "arguments": {"code": code}, "_meta": meta}
    accepted = ("Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2026-07-28")
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    run = target.admin.post("/runs", json={"code": code, "wait_s": 0}).json()["session_id"]
    place = f"GET /api/v1/runs/{run}/outcome?wait_s=20 HTTP/1.1"
    waiting = [
        asked("POST /api/v1/runs HTTP/1.1", {"code": code, "wait_s": 20}),
        asked("POST /mcp HTTP/1.1", called, *accepted, "Mcp-Method: tools/call", "Mcp-Name: run"),
        target.connect(target.head(place, bearer, "Connection: close")),
    ]
    time.sleep(0.3)
    target.tokens.revoke("waits")
    answers = [rest_of(one) for one in waiting]
    assert all(b"not for you" not in answer for answer in answers), answers
    assert [statuses(answer) for answer in answers] == [[401], [401], [401]]
    assert "not for you" in target.admin.get(f"/runs/{run}/outcome").text


# ---- requests that are read in two ways --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        ("GET http://evil.example/api/v1/health HTTP/1.1", ()),
        ("GET http://localhost:1/api/v1/health HTTP/1.1", ()),
        ("POST /api/v1/templates HTTP/1.0", ("Transfer-Encoding: chunked",)),
        ("POST /api/v1/templates HTTP/1.1", ("Transfer-Encoding: gzip, chunked",)),
        ("POST /api/v1/templates HTTP/1.1", ("Transfer-Encoding: chunked", "Content-Length: 2")),
        ("POST /api/v1/templates HTTP/1.1", ("Content-Length: 2", "Content-Length: 2")),
        ("POST /api/v1/templates HTTP/1.1", ("Transfer-Encoding: identity",)),
        ("GET /api/v1/health HTTP/1.1", ("X-Folded: a", " b")),
    ],
)
def test_what_two_programs_may_read_in_two_ways_is_refused(target: Target, line: str, headers: tuple[str, ...]) -> None:
    body = b"2\r\n{}\r\n0\r\n\r\n"
    answer = target.raw(target.head(line, *headers, "Content-Type: application/json", scope="admin") + body)
    assert statuses(answer) == [400]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "INVALID_REQUEST"


def test_the_target_may_name_the_host_too(target: Target) -> None:
    answer = target.raw(target.head("GET http://LocalHost/api/v1/health HTTP/1.1", "Connection: close"))
    assert statuses(answer) == [200]


_UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")


@pytest.mark.parametrize("pause", [0, 0.1])
@pytest.mark.parametrize("chunked", [False, True])
def test_the_body_of_a_request_for_another_protocol_is_a_body(target: Target, pause: float, chunked: bool) -> None:
    """Some clients ask for HTTP/2 with their first request, whatever it is. Its body is neither lost, nor taken for the next request."""
    hidden = target.head("GET /api/v1/version HTTP/1.1")
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(hidden)}"
    line = "POST /api/v1/templates HTTP/1.1"
    connection = target.connect(target.head(line, *_UPGRADE, length, "Content-Type: application/json", scope="admin"))
    time.sleep(pause)
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden) if chunked else hidden
    connection.sendall(body + target.head("GET /api/v1/health HTTP/1.1", "Connection: close"))
    answer = rest_of(connection)
    assert statuses(answer) == [400, 200]
    assert b"the body is not JSON" in answer
    assert answer.endswith(b'{"status":"ok"}')


def test_many_requests_for_another_protocol_at_once(target: Target) -> None:
    one = target.head("GET /api/v1/health/live HTTP/1.1", *_UPGRADE)
    answer = target.raw(one * 100 + target.head("GET /api/v1/health HTTP/1.1", "Connection: close"))
    assert statuses(answer) == [200] * 101


# ---- memory, connections and slots -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [b"0\r\n" + b"X-Trailer: 1\r\n", b"0\r\nX: ", b"5;"])
@pytest.mark.parametrize("scope", [None, "admin"])
def test_what_is_beside_a_body_cannot_be_endless(target: Target, after: bytes, scope: str | None) -> None:
    """What comes after the last part of a body, or between its parts, would be kept, and by anybody's doing."""
    before = target.memory
    line = "POST /api/v1/templates HTTP/1.1"
    connection = target.connect(
        target.head(line, "Transfer-Encoding: chunked", "Content-Type: application/json", scope=scope) + after
    )
    more = b"X-Trailer: 1\r\n" * 5000 if b"1" in after else b"x" * 65_536
    with connection, pytest.raises((ConnectionResetError, BrokenPipeError)):
        connection.sendall(more * 200)
    assert target.memory - before < 32 << 20


def test_trailers_and_small_parts_are_fine(target: Target) -> None:
    body = json.dumps({"name": "in small parts", "limits": None}).encode().ljust(60_000)
    parts = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\nX-Trailer: 1\r\n\r\n"
    line = "POST /api/v1/templates HTTP/1.1"
    headers = ("Transfer-Encoding: chunked", "Content-Type: application/json", "Connection: close")
    assert statuses(target.raw(target.head(line, *headers, scope="admin") + parts)) == [201]


def test_connections_are_not_kept_without_end(target: Target) -> None:
    """More than there may be are told so, and those beyond that are closed: each is an open file, and the store needs some too."""
    assert target.daemon.process is not None
    files = Path(f"/proc/{target.daemon.process.pid}/fd")
    held = [target.connect(b"") for _ in range(400)]
    try:
        until(lambda: len(list(files.iterdir())) < 360)
        time.sleep(0.1)
        assert len(list(files.iterdir())) < 360
    finally:
        for connection in held:
            connection.close()
    until(lambda: httpx2.get(f"{target.daemon.url}/api/v1/health", verify=NO_TLS).status_code == 200)


def test_nothing_is_read_from_nobody(target: Target) -> None:
    """Slow bodies without a token took the places of those who ask for the daemon's health."""
    head = target.head("POST /api/v1/health HTTP/1.1", "Content-Type: application/json", "Content-Length: 1000")
    held = [target.connect(head) for _ in range(_CONCURRENCY)]
    try:
        assert statuses(held[0].recv(1000)) == [405]
        assert httpx2.get(f"{target.daemon.url}/api/v1/health", verify=NO_TLS).status_code == 200
    finally:
        for connection in held:
            connection.close()


def test_who_has_left_gives_its_place_back(target: Target) -> None:
    session = target.session()
    execution = target.admin.post("/executions/repl", json={"session_id": session, "input": "await ask('?')"}).json()["id"]
    with target.client("run") as runs:
        busy = runs.post(
            "/executions/repl",
            json={"session_id": target.session(), "input": "for (;;) {}"},
            headers={"Prefer": "respond-async"},
        ).json()["id"]
        for _ in range(2 * _CONCURRENCY):
            wait = f"GET /api/v1/executions/{busy}/wait?timeout_ms=60000 HTTP/1.1"
            target.connect(target.head(wait, scope="read")).close()
        with target.client("read") as reads:
            until(lambda: reads.get("/version").status_code == 200, 5)
            assert reads.get(f"/executions/{execution}/wait").json()["status"] == "paused"
        assert runs.post(f"/executions/{busy}/cancel").json()["status"] == "cancelled"


def test_who_has_left_a_run_gives_its_place_back(target: Target) -> None:
    body = {"code": "await hf.sleep(60_000)", "language": "javascript", "wait_s": 0}
    session = target.admin.post("/runs", json=body).json()["session_id"]
    for _ in range(2 * _CONCURRENCY):
        wait = f"GET /api/v1/runs/{session}/outcome?wait_s=60 HTTP/1.1"
        target.connect(target.head(wait, scope="read")).close()
    with target.client("read") as reads:
        until(lambda: reads.get("/version").status_code == 200, 5)
    assert target.admin.post(f"/runs/{session}/cancel").json()["status"] == "cancelled"


def test_one_token_does_not_take_the_places_of_another(target: Target) -> None:
    head = target.head("GET /api/v1/events/stream HTTP/1.1", scope="read")
    held = [target.connect(head) for _ in range(_CONCURRENCY)]
    try:
        for connection in held:
            connection.recv(1000)
        with target.client("read") as full, target.client("run") as other:
            refused = full.get("/templates")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "RATE_LIMITED")
            assert other.get("/templates").status_code == 200
    finally:
        for connection in held:
            connection.close()
    with target.client("read") as again:
        until(lambda: again.get("/templates").status_code == 200)


# ---- bodies ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"{%s}" % b",".join(b'"k%d":1' % number for number in range(200_000)),
        b'{"session_id": "%s", "input": "1", "budget": {%s}}'
        % (_ID.encode(), b",".join(b'"k%d":1' % number for number in range(200_000))),
    ],
    ids=["fields", "fields of a field"],
)
def test_a_body_with_much_that_is_wrong_is_not_listed(target: Target, body: bytes) -> None:
    """That took more than a second, in which nobody else was answered."""
    for path in ("/executions/repl", "/templates"):
        response = target.admin.post(path, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 400
        error = response.json()["error"]
        assert error["code"] == "INVALID_REQUEST"
        if b"budget" not in body or path == "/executions/repl":
            assert "details" not in error


def test_a_refusal_names_a_field_called_path(target: Target) -> None:
    for path, body in (
        ("/executions/run-file", {"session_id": _ID, "path": 5}),
        (f"/templates/{target.template}/startup-files", {"path": 5}),
    ):
        error = target.admin.post(path, json=body).json()["error"]
        assert error["code"] == "INVALID_REQUEST"
        assert error["message"].startswith("path: ")
        assert error["details"]["problems"][0]["field"] == "path"
    error = target.admin.post("/executions/run-file", json={"session_id": _ID}).json()["error"]
    assert (error["code"], error["message"]) == ("VALIDATION_ERROR", "path: this is required")


@pytest.mark.parametrize("kind", ["application/json;charset = latin-1", 'application/json; charset = "utf-16"'])
def test_other_ways_to_write_a_charset(target: Target, kind: str) -> None:
    response = target.admin.post("/templates", content=b"{}", headers={"Content-Type": kind})
    assert response.status_code == 415


# ---- paths and hosts ---------------------------------------------------------------------------------------------------------------


def test_a_line_end_is_no_part_of_a_path(target: Target) -> None:
    for path in ("/health%0A", "/templates%0A", "/health/live%0A", f"/sessions/{_ID}%0A", f"/sessions/{_ID}%0A/stream"):
        response = target.admin.get(path)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND"), path
    for line in target.daemon.log.split("\n")[:-1]:  # the last one may be half written
        assert re.match(r"\d{4}-\d\d-\d\dT", line) or line.startswith("Listening"), line


@pytest.mark.parametrize("host", ["[localhost]", "localhost.", "127.1", "[0:0:0:0:0:0:0:1]", "localhost,evil.example"])
def test_other_ways_to_write_a_host(target: Target, host: str) -> None:
    answer = target.raw(f"GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert statuses(answer) == [421]
