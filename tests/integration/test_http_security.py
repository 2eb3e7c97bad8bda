"""What nobody may do, and what nobody should send: each is refused with a code, and the daemon goes on."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from holdfast.control import Executions, Sessions
from tests.daemon import NO_TLS
from tests.http_server import Served, served

_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("security")
    origins = ("https://friend.example",)
    with served(
        folder, body_limit_kb=64, body_timeout_s=0.4, allowed_hosts=("box.example",), allowed_origins=origins
    ) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


def refused(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == code, error
    assert response.headers["x-request-id"]
    return error


def raw_code(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} /api/v1{path} HTTP/1.1", *headers, "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# ---- who asks ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer hf_wrong", "Basic aGY6aGY=", "hf_x", "Bearer \xff\xfe", "Bearer " + "x" * 5000]
)
def test_without_a_good_token_nothing_is_told(server: Served, given: str | None) -> None:
    headers = {} if given is None else {b"Authorization": given.encode("latin-1")}
    with httpx2.Client(base_url=f"{server.url}/api/v1", headers=headers, verify=NO_TLS) as nobody:
        for method, path in (
            ("GET", "/templates"),
            ("POST", "/executions/repl"),
            ("GET", "/events/stream"),
            ("GET", "/nowhere"),
        ):
            response = nobody.request(method, path)
            refused(response, 401, "UNAUTHENTICATED")
            assert response.headers["www-authenticate"].startswith("Bearer")


def test_a_revoked_token_is_no_token(server: Served) -> None:
    secret = server.made("short-lived", "read")
    with server.client(secret) as api:
        assert api.get("/templates").status_code == 200
        server.tokens.revoke("short-lived")
        refused(api.get("/templates"), 401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("read", {"read"}),
        ("answer", {"read", "answer"}),
        ("run", {"read", "run"}),
        ("admin", {"read", "answer", "run", "admin"}),
    ],
)
def test_scopes(server: Served, scope: str, allowed: set[str]) -> None:
    calls = {
        "read": ("GET", f"/sessions/{_ID}", None),
        "answer": ("POST", f"/sessions/{_ID}/answers", {"value": 1}),
        "run": ("POST", "/executions/repl", {"session_id": _ID, "input": "1"}),
        "admin": ("DELETE", f"/templates/{_ID}", None),
    }
    with server.client(server.made(f"scope {scope}", scope)) as api:
        for needed, (method, path, body) in calls.items():
            response = api.request(method, path, json=body)
            if needed in allowed:
                assert response.status_code == 404, response.text
            else:
                assert scope not in refused(response, 403, "FORBIDDEN")["message"].split()


# ---- for whom, and from where ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:80", "box.example:3210"])
def test_hosts_that_are_ours(server: Served, host: str) -> None:
    assert server.raw(request("GET", "/health", f"Host: {host}")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:3210",
        "",
        "localhost@evil.example",
        "127.0.0.1:x",
        "::1",
        "[::1",
    ],
)
def test_hosts_that_are_not_ours(server: Served, host: str) -> None:
    """DNS rebinding: a name of the attacker's that points to this machine."""
    answer = server.raw(request("GET", "/health", f"Host: {host}", f"Authorization: Bearer {server.token}"))
    assert raw_code(answer) == (421, "HOST_NOT_ALLOWED")


def test_no_host_and_two_hosts(server: Served) -> None:
    assert raw_code(server.raw(request("GET", "/health"))) == (421, "HOST_NOT_ALLOWED")
    two = request("GET", "/health", "Host: localhost", "Host: evil.example")
    assert raw_code(server.raw(two)) == (421, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "file://", "http://[", ""])
def test_pages_of_other_sites_are_refused(api: httpx2.Client, origin: str) -> None:
    for method, path in (("GET", "/health"), ("POST", "/templates"), ("OPTIONS", "/templates")):
        response = api.request(method, path, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
        refused(response, 403, "FORBIDDEN")
        assert "access-control-allow-origin" not in response.headers


def test_pages_that_may_ask(server: Served, api: httpx2.Client) -> None:
    assert api.get("/health", headers={"Origin": server.url}).status_code == 200
    friend = {"Origin": "https://friend.example"}
    assert api.get("/health", headers=friend).headers["access-control-allow-origin"] == "https://friend.example"
    with httpx2.Client(base_url=f"{server.url}/api/v1", verify=NO_TLS) as browser:
        asked = browser.options("/templates", headers={**friend, "Access-Control-Request-Method": "POST"})
        assert asked.status_code == 200
        assert "POST" in asked.headers["access-control-allow-methods"]
        refused(browser.get("/templates", headers=friend), 401, "UNAUTHENTICATED")


# ---- bodies ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application/json; charset=latin-1",
    ],
)
def test_bodies_are_json(api: httpx2.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    for path in ("/templates", "/executions/repl"):
        refused(api.post(path, content=b'{"name": "x"}', headers=headers), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_compressed_bodies_are_refused(api: httpx2.Client) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused(api.post("/templates", content=b"x", headers=headers), 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"'])
def test_ways_to_say_json(api: httpx2.Client, kind: str) -> None:
    refused(api.post("/templates", content=b"{}", headers={"Content-Type": kind}), 400, "VALIDATION_ERROR")


_BROKEN = {
    "empty": b"",
    "blank": b"   ",
    "cut off": b'{"name": "x"',
    "two values": b'{"name": "x"} {"name": "y"}',
    "not an object": b'["name"]',
    "a text": b'"name"',
    "null": b"null",
    "single quotes": b"{'name': 'x'}",
    "bad UTF-8": b'{"name": "\xff"}',
    "UTF-8 of half a pair": b'{"name": "\xed\xa0\x80"}',
    "half a pair": b'{"name": "\\ud800"}',
    "NUL": b'{"name": "a\\u0000b"}',
    "raw NUL": b'{"name": "a\x00b"}',
    "NaN": b'{"name": "x", "limits": {"wall_ms": NaN}}',
    "Infinity": b'{"name": "x", "limits": {"wall_ms": -Infinity}}',
    "too large for a float": b'{"name": "x", "limits": {"wall_ms": 1e999}}',
    "65 bits": b'{"name": "x", "limits": {"wall_ms": 36893488147419103232}}',
    "very many digits": b'{"name": "x", "limits": {"wall_ms": ' + b"9" * 5000 + b"}}",
    "deep": b"[" * 20_000 + b"]" * 20_000,
    "a mark of order": b'\xef\xbb\xbf{"name": "x"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "an unknown field": b'{"name": "x", "surprise": 1}',
    "an unknown field within": b'{"name": "x", "limits": {"surprise": 1}}',
    "a number for a text": b'{"name": 1}',
    "an object for a text": b'{"name": {"$ne": 1}}',
    "null for a text": b'{"name": null}',
    "a text for a number": b'{"name": "x", "limits": {"wall_ms": "5"}}',
    "a fraction": b'{"name": "x", "limits": {"wall_ms": 1.5}}',
    "true for a number": b'{"name": "x", "limits": {"wall_ms": true}}',
}


@pytest.mark.parametrize("what", _BROKEN)
def test_bodies_that_cannot_be_read(api: httpx2.Client, what: str) -> None:
    headers = {"Content-Type": "application/json"}
    refused(api.post("/templates", content=_BROKEN[what], headers=headers), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "what", ["empty", "cut off", "two values", "bad UTF-8", "half a pair", "deep", "null", "not an object", "an unknown field"]
)
def test_the_hot_routes_read_as_strictly(api: httpx2.Client, what: str) -> None:
    headers = {"Content-Type": "application/json"}
    for path in ("/executions/repl", "/executions/run-file", f"/sessions/{_ID}/answers", f"/sessions/{_ID}/queries/q-1/answer"):
        refused(api.post(path, content=_BROKEN[what], headers=headers), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "value", [b"NaN", b"1e999", b"123456789012345678901234567890", b'"\\u0000"', b'{"\\u0000": 1}', b"[" * 300 + b"]" * 300]
)
def test_values_that_are_no_json(api: httpx2.Client, value: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    refused(api.post(f"/sessions/{_ID}/answers", content=b'{"value": ' + value + b"}", headers=headers), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/templates", {}),
        ("/templates", {"name": ""}),
        ("/templates", {"name": " \n"}),
        ("/templates", {"name": "x" * 201}),
        ("/templates", {"name": "x", "engine": "goja"}),
        ("/templates", {"name": "x", "limits": {"mem_mb": 0}}),
        ("/templates", {"name": "x", "limits": {"wall_ms": -1}}),
        (f"/templates/{_ID}/capabilities", {"kind": "x"}),
        (f"/templates/{_ID}/modules", {}),
        (f"/templates/{_ID}/libraries", {"name": ""}),
        (f"/templates/{_ID}/startup-files", {"order_index": 1}),
        ("/sessions", {}),
        ("/sessions", {"template_id": "nope"}),
        ("/sessions", {"template_id": _ID, "version": 0}),
        ("/sessions", {"template_id": _ID, "workspace_id": "w"}),
        ("/executions/repl", {"session_id": _ID}),
        ("/executions/repl", {"session_id": _ID, "input": ""}),
        ("/executions/repl", {"session_id": "../../etc", "input": "1"}),
        ("/executions/run-file", {"session_id": _ID}),
        ("/executions/strategy", {"session_id": _ID}),
        (f"/sessions/{_ID}/rewind", {}),
        (f"/sessions/{_ID}/rewind", {"checkpoint": -1}),
        (f"/sessions/{_ID}/fork", {"count": 0}),
        (f"/sessions/{_ID}/answers", {}),
        (f"/sessions/{_ID}/answers", {"answers": {}}),
        (f"/sessions/{_ID}/answers", {"answers": {"nope": 1}}),
        (f"/sessions/{_ID}/answers", {"answers": {"q-1": 1}, "value": 2}),
        (f"/sessions/{_ID}/queries/q-1/answer", {}),
        (f"/sessions/{_ID}/queries/q-1/answer", {"value": 1, "error": {"message": "x"}}),
    ],
)
def test_values_that_make_no_sense(api: httpx2.Client, path: str, body: dict[str, Any]) -> None:
    refused(api.post(path, json=body), 400, "VALIDATION_ERROR")


def test_a_refusal_names_the_field(api: httpx2.Client) -> None:
    error = refused(api.post("/templates", json={"name": "x", "limits": {"wall_ms": "5"}}), 400, "INVALID_REQUEST")
    assert error["details"]["problems"][0]["field"] == "limits.wall_ms"
    assert "limits.wall_ms" in error["message"]


def test_large_bodies(server: Served, api: httpx2.Client) -> None:
    body = json.dumps({"name": "x" * 70_000}).encode()
    headers = {"Content-Type": "application/json"}
    refused(api.post("/templates", content=body, headers=headers), 413, "BODY_TOO_LARGE")

    def parts() -> Iterator[bytes]:
        yield from (body[at : at + 1000] for at in range(0, len(body), 1000))

    refused(api.post("/templates", content=parts(), headers=headers), 413, "BODY_TOO_LARGE")
    head = (
        "Host: localhost",
        f"Authorization: Bearer {server.token}",
        "Content-Type: application/json",
        "Content-Length: 99999999999",
    )
    answer = server.raw(request("POST", "/templates", *head))
    assert raw_code(answer) == (413, "BODY_TOO_LARGE")
    assert b"connection: close" in answer.lower()


def test_nothing_is_read_for_whoever_may_not_ask(server: Served) -> None:
    answer = server.raw(
        request("POST", "/templates", "Host: localhost", "Content-Type: application/json", "Content-Length: 99999999")
    )
    assert raw_code(answer) == (401, "UNAUTHENTICATED")


def test_slow_bodies(server: Served) -> None:
    head = (
        "Host: localhost",
        f"Authorization: Bearer {server.token}",
        "Content-Type: application/json",
        "Content-Length: 1000",
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request("POST", "/executions/repl", *head, body=b"{"))
        began, answer = time.monotonic(), b""
        stopped = threading.Event()

        def drip() -> None:
            while not stopped.wait(0.1):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        with contextlib.suppress(ConnectionResetError):  # what is still dripped after the answer resets the connection
            while part := connection.recv(65_536):
                answer += part
        stopped.set()
        dripping.join()
    assert raw_code(answer) == (408, "REQUEST_TIMEOUT")
    assert time.monotonic() - began < 5


def test_a_body_that_never_ends_is_given_up(server: Served, api: httpx2.Client) -> None:
    head = (
        "Host: localhost",
        f"Authorization: Bearer {server.token}",
        "Content-Type: application/json",
        "Content-Length: 1000",
    )
    server.raw(request("POST", "/executions/repl", *head, body=b"{"), until=lambda _: True)  # gone in the middle
    assert api.get("/health").status_code == 200


# ---- paths and queries -------------------------------------------------------------------------------------------------------------

_GAMES = [
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "%2e%2e",
    "..",
    "a%20b",
    "' OR 1=1 --",
    "{{7*7}}",
    "%F0%9F%92%A9",
    "0",
    "-1",
    "x" * 2000,
    "%ff",
    "q-1",
]


@pytest.mark.parametrize("game", _GAMES)
def test_games_with_ids(server: Served, game: str) -> None:
    for path in (
        f"/templates/{game}",
        f"/templates/{_ID}/capabilities/{game}",
        f"/sessions/{game}",
        f"/sessions/{_ID}/queries/{game}x",
        f"/executions/{game}",
        f"/executions/{game}/events",
        f"/executions/{game}/stream",
    ):
        method = "DELETE" if "capabilities" in path else "GET"
        head = ("Host: localhost", f"Authorization: Bearer {server.token}")
        target = path.replace(" ", "%20")
        status, code = raw_code(server.raw(request(method, target, *head)))
        assert (status, code) in {(400, "VALIDATION_ERROR"), (404, "NOT_FOUND"), (405, "METHOD_NOT_ALLOWED")}, path


@pytest.mark.parametrize(
    "form",
    [
        "{3F2504E0-4F89-41D3-9A0C-0305E82C3301}",
        "urn:uuid:3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "3f2504e04f8941d39a0c0305e82c3301",
    ],
)
def test_ways_to_write_an_id(api: httpx2.Client, form: str) -> None:
    refused(api.get(f"/sessions/{form}"), 404, "SESSION_NOT_FOUND")
    refused(api.post("/executions/repl", json={"session_id": form, "input": "1"}), 404, "SESSION_NOT_FOUND")
    refused(api.get("/executions", params={"session_id": form}), 404, "SESSION_NOT_FOUND")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "VALIDATION_ERROR"),
        ("limit=1001", "VALIDATION_ERROR"),
        ("limit=x", "VALIDATION_ERROR"),
        ("limit=", "VALIDATION_ERROR"),
        ("limit=99999999999999999999999999", "VALIDATION_ERROR"),
        ("cursor=", "VALIDATION_ERROR"),
        ("cursor=%00", "VALIDATION_ERROR"),
        ("status=nonsense", "VALIDATION_ERROR"),
        ("template_id=nope", "VALIDATION_ERROR"),
        ("surprise=1", "INVALID_REQUEST"),
        ("limit=1&limit=2", "INVALID_REQUEST"),
    ],
)
def test_queries_that_make_no_sense(api: httpx2.Client, query: str, code: str) -> None:
    refused(api.get(f"/sessions?{query}"), 400, code)


def test_a_session_must_be_named(api: httpx2.Client) -> None:
    refused(api.get("/executions?limit=3"), 400, "VALIDATION_ERROR")


def test_unknown_paths_and_methods(api: httpx2.Client) -> None:
    refused(api.get("/nowhere"), 404, "NOT_FOUND")
    refused(api.get("/templates/"), 404, "NOT_FOUND")
    for method, path in (
        ("PUT", "/templates"),
        ("DELETE", "/executions/repl"),
        ("PATCH", "/health/live"),
        ("OPTIONS", "/templates"),
    ):
        response = api.request(method, path)
        refused(response, 405, "METHOD_NOT_ALLOWED")
        assert response.headers["allow"]


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there", "\x7f", "ü"])
def test_idempotency_keys_that_are_none(server: Served, key: str) -> None:
    head = (
        b"Host: localhost",
        b"Authorization: Bearer " + server.token.encode(),
        b"Content-Type: application/json",
        b"Connection: close",
    )
    for path, body in (
        (b"/templates", b'{"name": "x"}'),
        (b"/executions/repl", b'{"session_id": "%s", "input": "1"}' % _ID.encode()),
    ):
        lines = [
            b"POST /api/v1" + path + b" HTTP/1.1",
            *head,
            b"Idempotency-Key: " + key.encode(),
            b"Content-Length: %d" % len(body),
        ]
        answer = server.raw(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        assert raw_code(answer)[0] == 400


# ---- every answer ------------------------------------------------------------------------------------------------------------------


def test_headers_of_every_answer(server: Served, api: httpx2.Client) -> None:
    for path, given in (("/health", "a.b_c-1"), ("/health/live", "x" * 128), ("/nowhere", "id")):
        response = api.get(path, headers={"X-Request-Id": given})
        assert response.headers["x-request-id"] == given
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
        assert "server" not in response.headers
    for bad in ("", "x" * 129, "a b", "a;b"):
        assert api.get("/health", headers={"X-Request-Id": bad}).headers["x-request-id"] != bad


def test_what_is_our_fault_is_not_told(server: Served, api: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret /etc/holdfast at line 7")

    monkeypatch.setattr(Sessions, "get", broken)
    monkeypatch.setattr(Executions, "run", broken)
    for response in (api.get(f"/sessions/{_ID}"), api.post("/executions/repl", json={"session_id": _ID, "input": "1"})):
        error = refused(response, 500, "INTERNAL")
        assert "secret" not in json.dumps(error)
        assert "Traceback" not in response.text


# ---- shares ------------------------------------------------------------------------------------------------------------------------


def test_rate_and_concurrency(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("shares"), rate_per_s=5, concurrency=2) as server:
        with server.client() as api:
            answers = [api.get("/version") for _ in range(10)]
            limited = [answer for answer in answers if answer.status_code == 429]
            assert 3 <= len(limited) <= 6
            refused(limited[0], 429, "RATE_LIMITED")
            assert int(limited[0].headers["retry-after"]) >= 1
        with server.client(server.made("other", "read")) as other:
            assert other.get("/version").status_code == 200  # each token has its own share
            with other.stream("GET", "/events/stream"), other.stream("GET", "/events/stream"):
                refused(other.get("/version"), 429, "RATE_LIMITED")
            until = time.monotonic() + 5
            while other.get("/version").status_code == 429 and time.monotonic() < until:
                time.sleep(0.05)
            assert other.get("/version").status_code in (200, 429)
