"""Event streams: each event once and in order, resumable, and nothing left behind when a reader goes."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.http_server import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("streams"), heartbeat_s=0.3, idle_timeout_s=30.0) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def session(api: httpx2.Client) -> str:
    template = api.post("/templates", json={"name": f"t {uuid4()}"}).raise_for_status().json()["id"]
    return str(api.post("/sessions", json={"template_id": template}).raise_for_status().json()["id"])


def repl(api: httpx2.Client, session: str, source: str, **headers: str) -> Any:
    given = {"session_id": session, "input": source}
    return api.post("/executions/repl", json=given, headers=headers).raise_for_status().json()


class Message(dict[str, str]):
    @property
    def json(self) -> Any:
        return json.loads(self["data"])


def messages(response: httpx2.Response) -> Iterator[Message]:
    """What a browser would see, and heartbeats as comments."""
    assert response.status_code == 200, response.read()
    found = Message()
    for line in response.iter_lines():
        if not line:
            if found:
                yield found
            found = Message()
        elif line.startswith(":"):
            yield Message(comment=line[1:].strip())
        else:
            name, _, value = line.partition(": ")
            found[name] = value


def test_an_execution_from_its_beginning_to_its_end(api: httpx2.Client, session: str) -> None:
    made = repl(api, session, "for (let n = 0; n < 5; n++) console.log(n)")
    with api.stream("GET", f"/executions/{made['id']}/stream") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-store", "no")
        first, *found, end = messages(response)
    assert first == {"id": "0", "retry": "1000"}
    events = api.get(f"/executions/{made['id']}/events").json()
    assert [message.json for message in found] == events
    assert [message["event"] for message in found] == [event["type"] for event in events]
    assert (end["event"], end["id"]) == ("end", found[-1]["id"])


@pytest.mark.parametrize("way", ["header", "query"])
def test_it_goes_on_exactly_after_the_last_id(api: httpx2.Client, session: str, way: str) -> None:
    made = repl(api, session, "for (let n = 0; n < 5; n++) console.log(n)")
    with api.stream("GET", f"/executions/{made['id']}/stream") as response:
        _, *found, _ = messages(response)
    last = found[2]["id"]
    given: dict[str, Any] = {"headers": {"Last-Event-ID": last}} if way == "header" else {"params": {"after": last}}
    with api.stream("GET", f"/executions/{made['id']}/stream", **given) as response:
        _, *rest, _ = messages(response)
    assert rest == found[3:]


def test_an_execution_is_followed_while_it_runs(api: httpx2.Client, session: str) -> None:
    made = repl(api, session, "console.log('before'); await ask('?'); console.log('after')")
    assert made["status"] == "paused"
    with api.stream("GET", f"/executions/{made['id']}/stream") as response:
        found = messages(response)
        seen = []
        for message in found:
            if "comment" in message:
                assert message["comment"] == "hb"
                break
            seen += [message] if "event" in message else []
        assert "console" in [message["event"] for message in seen]
        api.post(f"/sessions/{session}/answers", json={"value": 1}).raise_for_status()
        rest = [message for message in found if "event" in message]
    assert rest[-1]["event"] == "end"
    seqs = [message.json["seq"] for message in (*seen, *rest[:-1])]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_session_from_now_on_and_from_the_start(api: httpx2.Client, session: str) -> None:
    before = repl(api, session, "'before'")
    with api.stream("GET", f"/sessions/{session}/stream") as response:
        found = messages(response)
        first = next(found)
        assert first["retry"] == "1000"
        after = repl(api, session, "'after'")
        seen = next(message for message in found if "event" in message)
        assert seen.json["execution_id"] == after["id"]
    with api.stream("GET", f"/sessions/{session}/stream", headers={"Last-Event-ID": first["id"]}) as response:
        again = next(message for message in messages(response) if "event" in message)
        assert again == seen  # who was cut off before the first event misses nothing
    with api.stream("GET", f"/sessions/{session}/stream", params={"after": "start"}) as response:
        all_of_it = [message for message in _until(messages(response), after["id"], after["seq"]) if "event" in message]
    assert [message.json["execution_id"] for message in all_of_it] == [before["id"]] * before["seq"] + [after["id"]] * after[
        "seq"
    ]
    with api.stream("GET", f"/sessions/{session}/stream", headers={"Last-Event-ID": all_of_it[1]["id"]}) as response:
        rest = [message for message in _until(messages(response), after["id"], after["seq"]) if "event" in message]
    assert rest == all_of_it[2:]


def _until(found: Iterator[Message], execution: str, seq: int) -> Iterator[Message]:
    for message in found:
        yield message
        if "data" in message and (message.json["execution_id"], message.json["seq"]) == (execution, seq):
            return


def test_everything(api: httpx2.Client, session: str) -> None:
    with api.stream("GET", "/events/stream") as response:
        found = messages(response)
        next(found)
        made = repl(api, session, "1")
        seen = [message for message in _until(found, made["id"], made["seq"]) if "event" in message]
    assert {message.json["session_id"] for message in seen} == {session}


def test_many_events_none_lost(api: httpx2.Client, session: str) -> None:
    with api.stream("GET", "/events/stream") as response:
        found = messages(response)
        next(found)
        made = [repl(api, session, "for (let n = 0; n < 300; n++) console.log(n)") for _ in range(3)]
        seen = [message for message in _until(found, made[-1]["id"], made[-1]["seq"]) if "event" in message]
    told = [(message.json["execution_id"], message.json["seq"]) for message in seen]
    assert told == [(one["id"], seq) for one in made for seq in range(1, one["seq"] + 1)]


@pytest.mark.parametrize("cursor", ["nonsense", "-1", "%00", "999999999", "x" * 1001, "1.x"])
def test_cursors_that_are_none(api: httpx2.Client, session: str, cursor: str) -> None:
    made = repl(api, session, "1")
    for path in (f"/executions/{made['id']}/stream", f"/sessions/{session}/stream", "/events/stream"):
        response = api.get(f"{path}?after={cursor}")
        assert (response.status_code, response.json()["error"]["code"]) == (400, "VALIDATION_ERROR"), path


def test_streams_of_what_is_not_there(api: httpx2.Client) -> None:
    assert api.get(f"/executions/{uuid4()}/stream").json()["error"]["code"] == "EXECUTION_NOT_FOUND"
    assert api.get(f"/sessions/{uuid4()}/stream").json()["error"]["code"] == "SESSION_NOT_FOUND"
    assert api.head("/events/stream").status_code == 200


def _connected(server: Served, path: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    head = f"GET /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    connection.sendall(head.encode())
    assert b"retry: 1000" in _read_until(connection, b"retry: 1000")
    return connection


def _read_until(connection: socket.socket, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        part = connection.recv(65_536)
        if not part:
            break
        found += part
    return found


async def _tasks() -> int:
    return len(asyncio.all_tasks())


def test_readers_that_leave_leave_nothing_behind(server: Served, api: httpx2.Client, session: str) -> None:
    before = server.do(_tasks())
    readers = [_connected(server, "/events/stream") for _ in range(20)]
    assert server.do(_tasks()) >= before + 20
    for reader in readers:
        reader.close()
    until = time.monotonic() + 10
    while server.do(_tasks()) > before and time.monotonic() < until:
        time.sleep(0.05)
    assert server.do(_tasks()) <= before
    assert repl(api, session, "1")["status"] == "ok"


def test_a_reader_that_does_not_read_holds_up_nobody(server: Served, api: httpx2.Client, session: str) -> None:
    stuck = _connected(server, f"/sessions/{session}/stream")
    loud = "for (let n = 0; n < 400; n++) console.log('x'.repeat(500))"
    took = []
    for _ in range(12):
        began = time.monotonic()
        assert repl(api, session, loud)["status"] == "ok"
        took.append(time.monotonic() - began)
    assert max(took) < 5
    stuck.close()


def test_streams_end_when_the_daemon_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("stops")) as server:
        reader = _connected(server, "/events/stream")
        ended: list[bytes] = []
        thread = threading.Thread(target=lambda: ended.append(_read_until(reader, b"0\r\n\r\n")))
        thread.start()
        began = time.monotonic()
        server.stop()
        thread.join(10)
        assert ended[0].endswith(b"0\r\n\r\n")  # whole: not cut off
        assert time.monotonic() - began < 5
        reader.close()


def test_a_step_of_many_pages_is_told_once_and_in_order(api: httpx2.Client) -> None:
    """Pages have a bound in bytes: of streams, of lists, and of what a reader that comes back has missed."""
    limits = {"max_output_kb": 20_000, "wall_ms": 20_000, "cpu_ms": 20_000}
    given = {"name": f"t {uuid4()}", "limits": limits}
    template = api.post("/templates", json=given).raise_for_status().json()["id"]
    session = api.post("/sessions", json={"template_id": template}).raise_for_status().json()["id"]
    source = "for (let n = 0; n < 30; n++) console.log(n + 'x'.repeat(n % 7 ? 100000 : 10))"
    done = repl(api, session, source)
    events = list(range(1, done["seq"] + 1)) if "seq" in done else None
    listed, cursor = [], None
    while True:
        page = api.get(f"/executions/{done['id']}/events", params={"limit": 1000} | ({"cursor": cursor} if cursor else {}))
        assert len(page.raise_for_status().content) < 6_000_000
        listed += [event["seq"] for event in page.json()]
        cursor = page.headers.get("X-Next-Cursor")
        if cursor is None:
            break
    assert listed == list(range(1, len(listed) + 1))
    assert len(listed) > 30
    assert events is None or events == listed
    for where, last in ((f"/executions/{done['id']}/stream", "start"), (f"/sessions/{session}/stream", "start")):
        heard: list[int] = []
        while len(heard) < len(listed):
            with api.stream("GET", where, params={"after": last}) as response:
                for message in messages(response):
                    if "data" in message and message["event"] != "end":
                        heard.append(message.json["seq"])
                        last = message["id"]
                        if len(heard) in (3, 20) or len(heard) == len(listed):
                            break
        assert heard == listed


def test_a_token_has_only_so_many_streams(tmp_path: Any) -> None:
    with served(tmp_path, streams=2) as server, server.client() as api:
        with api.stream("GET", "/events/stream") as one, api.stream("GET", "/events/stream") as two:
            assert one.status_code == two.status_code == 200
            refused = api.get("/events/stream")
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "RATE_LIMITED"
            assert int(refused.headers["Retry-After"]) >= 1
            assert api.get("/sessions").status_code == 200
        for _ in range(50):
            with api.stream("GET", "/events/stream") as again:
                if again.status_code == 200:
                    break
            time.sleep(0.1)
        else:
            pytest.fail("streams that were closed still count")
