"""The process host: real processes, really killed, on real sockets."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.daemon import Tokens, running_pid

PROJECT = Path(__file__).parents[2]
BUSY = "let until = 0; for (let i = 0; i < 1e7; i++) until += i; until > 0"


class Started:
    """A daemon in a process of its own."""

    def __init__(self, folder: Path, notify: Path | None = None, **settings: Any) -> None:
        self.data, self.log_file = folder / "data", folder / "log"
        chosen = {"listen": "127.0.0.1:0", "log_format": "json", "lease_ms": 400, "config": os.devnull} | settings
        given = {f"HOLDFAST_{name.upper()}": str(value) for name, value in chosen.items()}
        environment = {**os.environ, "HOLDFAST_DATA_DIR": str(self.data), "NOTIFY_SOCKET": str(notify or ""), **given}
        command = [sys.executable, "-m", "tests.integration.tiny_daemon"]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def ready(self) -> "Started":
        line = self.line()
        assert line.startswith("ready http://"), line + self.log_text
        self.port = int(line.rpartition(":")[2])
        return self

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    @property
    def log_text(self) -> str:
        return self.log_file.read_text()

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_text.splitlines() if line.startswith("{")]

    def ask(self, path: str, content: str = "") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request("POST", path, content)
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else answer.status

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        connection.sendall(sent)
        return connection

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        self.process.kill()  # does nothing if it has ended
        self.end()


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    got = b""
    with connection, contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            got += part
    return got


class Later(threading.Thread):
    """A call whose answer is wanted later."""

    def __init__(self, call: Any, *args: Any) -> None:
        super().__init__(daemon=True)
        self._call, self._args = call, args
        self.start()

    def run(self) -> None:
        self.result = self._call(*self._args)

    def get(self) -> Any:
        self.join(20)
        return self.result


def until(true: Any) -> None:
    end = time.monotonic() + 15
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One that is not ended by the tests that use it."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "config.toml").write_text('log_level = "info"')
    limits = {"header_timeout_s": 0.3, "body_timeout_s": 0.3, "idle_timeout_s": 0.5, "connections": 12}
    started = Started(folder, config=folder / "config.toml", **limits).ready()
    try:
        yield started
        started.signal(signal.SIGTERM)
        assert started.end() == 0
    finally:
        started.kill()


Start = Callable[..., Started]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts daemons, none of which is left at the end."""
    with contextlib.ExitStack() as at_last:

        def begin(folder: Path, **settings: Any) -> Started:
            started = Started(folder, **settings)
            at_last.callback(started.kill)
            return started

        yield begin


# ---- connections -------------------------------------------------------------------------------------------------------------------


def test_headers_that_do_not_come_are_not_waited_for(shared: Started) -> None:
    began = time.monotonic()
    slow = shared.connect(b"GET /pid HTTP/1.1\r\nHost: x\r\n")
    silent, blank = shared.connect(), shared.connect(b"\r\n")
    for i in range(10):
        time.sleep(0.02)
        with contextlib.suppress(ConnectionError):  # on a slow machine it may be over already
            slow.sendall(f"X-{i}: 1\r\n".encode())
    assert b"408 " in (answer := rest_of(slow))
    assert b'{"error": {"code": "REQUEST_TIMEOUT"' in answer
    assert rest_of(silent) == b""
    assert rest_of(blank) == b""
    assert 0.25 < time.monotonic() - began < 3


def test_headers_of_a_later_request_are_not_waited_for_either(shared: Started) -> None:
    connection = shared.connect(b"GET /pid HTTP/1.1\r\nHost: x\r\n\r\n")
    time.sleep(0.1)
    connection.sendall(b"GET /pid HTTP/1.1\r\n")
    answer = rest_of(connection)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert answer.count(b"HTTP/1.1 408") == 1


def test_a_body_that_does_not_come_is_not_waited_for(shared: Started) -> None:
    gone = shared.ask("/pid")["gone"]
    connection = shared.connect(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
    assert b"HTTP/1.1 408" in rest_of(connection)
    assert shared.ask("/pid")["gone"] == gone + 1, "the application is told that nobody listens"


def test_a_request_in_small_pieces_is_fine_if_it_is_quick(shared: Started) -> None:
    connection = shared.connect()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"POST /body HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nabcd":
        connection.sendall(bytes([byte]))
    assert rest_of(connection).endswith(b"\r\n\r\n4")


def test_an_idle_connection_ends(shared: Started) -> None:
    connection = shared.connect(b"GET /pid HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"HTTP/1.1 200" in rest_of(connection)


def test_an_answer_takes_its_time(shared: Started) -> None:
    assert shared.ask("/sleep?q=0.7") == "slept"


def test_who_does_not_read_is_left(shared: Started) -> None:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", shared.port))
    connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    time.sleep(0.7)
    connection.settimeout(5)
    assert len(rest_of(connection)) < 1000 * 65536


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"400"),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET /pid HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET /pid HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(101)) + b"\r\n", b"431"),
        (b"GET /pid HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
    ],
)
def test_what_is_refused_has_the_envelope(shared: Started, sent: bytes, status: bytes) -> None:
    answer = rest_of(shared.connect(sent))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"content-type: application/json\r\n" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]


def test_endless_headers_end(shared: Started) -> None:
    connection = shared.connect(b"GET /pid HTTP/1.1\r\nX: ")
    for _ in range(9):
        connection.sendall(b"a" * 8192)
        time.sleep(0.005)
    assert rest_of(connection).startswith(b"HTTP/1.1 431")


def test_too_many_connections_are_told_to_come_back(shared: Started) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(12):
            held.enter_context(shared.connect())
        answer = rest_of(shared.connect(b"GET /pid HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in answer
    assert b'"UNAVAILABLE"' in answer
    until(lambda: shared.ask("/pid") != 503)


def test_answers_do_not_say_what_serves_them(shared: Started) -> None:
    answer = rest_of(shared.connect(b"GET /pid HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).lower()
    assert b"\r\nserver:" not in answer
    assert b"\r\ndate:" in answer


# ---- tokens and signals ------------------------------------------------------------------------------------------------------------


def test_the_first_token_is_there_and_others_count_within_a_second(shared: Started) -> None:
    path = shared.data / "token"
    assert path.stat().st_mode & 0o777 == 0o600
    assert shared.data.stat().st_mode & 0o777 == 0o700
    first = path.read_text().strip()
    assert shared.ask("/who", first) == "first"
    _, secret = Tokens(shared.data).create("ci", ["run"])
    until(lambda: shared.ask("/who", secret) == "ci")
    Tokens(shared.data).revoke("ci")
    until(lambda: shared.ask("/who", secret) is None)
    assert first not in shared.log_text


def test_sighup_reads_tokens_and_the_log_level_again(shared: Started) -> None:
    config = shared.data.parent / "config.toml"
    before = len(shared.log)
    config.write_text('log_level = "loud"')
    shared.signal(signal.SIGHUP)
    until(lambda: any(line.get("code") == "CONFIG_INVALID" for line in shared.log[before:]))
    config.write_text('log_level = "error"')
    _, secret = Tokens(shared.data).create("hup", ["read"])
    shared.signal(signal.SIGHUP)
    until(lambda: shared.ask("/who", secret) == "hup")
    before = len(shared.log)
    rest_of(shared.connect(b"nonsense\r\n\r\n"))
    config.write_text('log_level = "info"')
    shared.signal(signal.SIGHUP)
    until(lambda: len(shared.log) > before)
    assert "refused" not in str(shared.log[before:])


# ---- starts that are refused -------------------------------------------------------------------------------------------------------


def test_a_second_one_is_refused_and_touches_nothing(shared: Started, start: Start, tmp_path: Path) -> None:
    assert running_pid(shared.data) == shared.process.pid
    before = {path: path.stat().st_mtime_ns for path in shared.data.iterdir() if "holdfast.db" not in path.name}
    second = start(shared.data.parent, store=f"sqlite:///{tmp_path}/other.db")
    line = second.line()
    assert second.end() == 1
    assert line.startswith("ALREADY_RUNNING")
    assert f"(process {shared.process.pid})" in line
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert list(tmp_path.iterdir()) == []
    assert shared.ask("/pid")["pid"] == shared.process.pid


def test_an_address_that_is_taken_and_one_without_a_token(shared: Started, start: Start, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "open").mkdir()
    taken = start(tmp_path / "taken", listen=f"127.0.0.1:{shared.port}")
    open_to_all = start(tmp_path / "open", listen="0.0.0.0:0")
    line = taken.line()
    assert taken.end() == 1
    assert line.startswith("CANNOT_LISTEN")
    assert f"127.0.0.1:{shared.port}" in line
    line = open_to_all.line()
    assert open_to_all.end() == 1
    assert line.startswith("TOKEN_NEEDED")
    for refused in (taken, open_to_all):
        assert not (refused.data / "holdfast.db").exists()
    assert not (open_to_all.data / "token").exists()
    assert running_pid(open_to_all.data) is None


# ---- the end -----------------------------------------------------------------------------------------------------------------------


def test_kill_9_and_start_again(start: Start, tmp_path: Path) -> None:
    """And then a stop in which a request ends, a stream ends, and nobody new comes in."""
    first = start(tmp_path).ready()
    waits, runs = first.ask("/make"), first.ask("/make")
    assert first.ask(f"/run?q={waits}", "const who = await ask('Who?'); who + '!'") == "paused"
    running = first.connect(f"POST /run?q={runs} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BUSY)}\r\n\r\n{BUSY}".encode())
    until(lambda: first.ask(f"/executions?q={runs}") == ["running"])
    first.kill()
    assert rest_of(running) == b"", "it was killed while it ran"

    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(10)
    second = start(tmp_path, listen="localhost:0", notify=tmp_path / "notify").ready()
    assert notified.recv(100) == b"READY=1"
    assert "Ada!" in str(second.ask(f"/answer?q={waits}", "Ada"))
    until(lambda: second.ask(f"/executions?q={runs}") == ["ok"])
    until(lambda: any(line.get("recovered") == 1 for line in second.log))

    stream = second.connect(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    request = Later(second.ask, "/sleep?q=0.6")
    time.sleep(0.2)
    second.signal(signal.SIGTERM)
    assert rest_of(stream).endswith(b"5\r\nlast\n\r\n0\r\n\r\n")
    with pytest.raises(ConnectionRefusedError):
        second.connect()
    assert request.get() == "slept"
    assert second.end() == 0
    assert [line["message"] for line in second.log][-1] == "stopped"
    assert notified.recv(100) == b"STOPPING=1"
    notified.close()
    assert running_pid(tmp_path / "data") is None


def test_who_waits_for_a_script_longer_than_the_grace_is_told_and_the_script_goes_on_later(
    start: Start, tmp_path: Path
) -> None:
    """And then a second signal, which ends everything at once."""
    first = start(tmp_path, shutdown_grace_s=0.1).ready()
    session = first.ask("/make")
    request = Later(first.ask, f"/run?q={session}", "let n = 0; " + BUSY.replace("1e7", "1e9"))
    until(lambda: first.ask(f"/executions?q={session}") == ["running"])
    first.signal(signal.SIGTERM)
    assert first.end() == 0
    assert request.get() == 503

    second = start(tmp_path, shutdown_grace_s=60).ready()
    assert second.ask(f"/executions?q={session}") in (["running"], ["ok"])
    held = second.connect(b"GET /sleep?q=60 HTTP/1.1\r\nHost: x\r\n\r\n")
    time.sleep(0.1)
    second.signal(signal.SIGTERM)
    until(lambda: second.log_text.count("stopping: requests") == 2)
    second.signal(signal.SIGINT)
    time.sleep(0.3)
    assert second.process.poll() is None, "a terminal and a supervisor may both pass the same one on"
    second.signal(signal.SIGTERM)
    assert second.end() == 128 + signal.SIGTERM
    assert rest_of(held) == b""
    assert "second signal" in second.log_text
