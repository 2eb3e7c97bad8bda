"""Memory that requests hold: unread answers, bodies that do not end, and probes that nobody else may crowd out."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.http_server import Served, served

LARGE = 3_000_000


def opened(server: Served, head: str, secret: str, body: bytes = b"") -> socket.socket:
    """A connection that has asked and reads nothing, with as little room for an answer as there can be."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.connect(("127.0.0.1", server.port))
    lines = [head + " HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {secret}"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body) + 1}"]
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return connection


def status(connection: socket.socket) -> str:
    return connection.recv(12)[9:12].decode()


@contextmanager
def large_answers(folder: Path, **settings: object) -> Iterator[tuple[Served, str, str]]:
    """A server, a path whose answer is large, and a token that may read it."""
    with served(folder, **settings) as server, server.client() as api:
        template = api.post("/templates", json={"name": "t"}).json()["id"]
        session = api.post("/sessions", json={"template_id": template}).json()["id"]
        text = f"/*{'x' * LARGE}*/1"
        assert api.post("/executions/repl", json={"session_id": session, "input": text}).status_code == 201
        yield server, f"/api/v1/executions?session_id={session}", server.made("reader", "read")


def test_an_unread_answer_keeps_its_place(tmp_path: Path) -> None:
    with large_answers(tmp_path, concurrency=2, idle_timeout_s=1.5) as (server, path, secret), ExitStack() as open_ones:
        found = [status(open_ones.enter_context(closing(opened(server, f"GET {path}", secret)))) for _ in range(4)]
        assert found == ["200", "200", "429", "429"]
        time.sleep(2.5)  # whoever reads nothing is dropped, and its place is free
        with server.client(secret) as api:
            answer = api.get("/executions", params=path.partition("?")[2])
            assert answer.status_code == 200
            assert len(answer.content) > LARGE


def test_unread_answers_of_a_token_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    with large_answers(tmp_path, inflight_mb=7) as (server, path, secret), ExitStack() as open_ones:
        found = [status(open_ones.enter_context(closing(opened(server, f"GET {path}", secret)))) for _ in range(4)]
        assert found == ["200", "200", "429", "429"]
        with server.client(secret) as api, server.client() as other:
            refused = api.get("/executions", params=path.partition("?")[2])
            assert (refused.json()["error"]["code"], refused.headers["retry-after"]) == ("RATE_LIMITED", "1")
            assert api.get("/quotas").status_code == 200
            assert other.get("/executions", params=path.partition("?")[2]).status_code == 200


def test_no_body_is_read_for_a_token_without_the_scope_nor_more_than_there_may_be(tmp_path: Path) -> None:
    with served(tmp_path, inflight_mb=1) as server, ExitStack() as open_ones:
        head, body = "POST /api/v1/templates", b"x" * 10_000
        reading = open_ones.enter_context(closing(opened(server, head, server.made("reader", "read"), body)))
        assert status(reading) == "403"
        secret = server.made("admin", "admin")
        unfinished = [open_ones.enter_context(closing(opened(server, head, secret, b"x" * 600_000))) for _ in range(2)]
        assert status(unfinished[1]) == "429"
        unfinished[0].settimeout(0.2)
        with pytest.raises(TimeoutError):
            unfinished[0].recv(1)


def test_probes_are_not_limited_by_the_requests_of_others(tmp_path: Path) -> None:
    with served(tmp_path, rate_per_s=5) as server, httpx2.Client(base_url=f"{server.url}/api/v1") as anybody:
        assert 429 in {anybody.get("/version").status_code for _ in range(10)}
        for path in ("/health", "/health/live", "/health/ready"):
            assert anybody.get(path).status_code == 200
