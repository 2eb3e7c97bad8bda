"""A small HTTP server on a real socket, which answers as a test says and remembers what it was asked.

For what a real daemon does only when it is ill: it dies in the middle of an answer, lies, is slow, repeats itself.
"""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

CUT = object()
"""In place of a chunk: the connection is cut off, as by a process that is killed."""


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    peer: Any

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass
class Reply:
    """One answer. `content` is text or bytes as they are, anything else as JSON."""

    content: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        if isinstance(self.content, bytes):
            return self.content
        return self.content.encode() if isinstance(self.content, str) else json.dumps(self.content).encode()


class Streaming(NamedTuple):
    """An answer of chunks, each sent as it comes. It ends with the connection."""

    chunks: Iterable[Any]
    content_type: str = "text/event-stream; charset=utf-8"


class Played:
    """`answer` gets each request. What it returns that is neither `Reply` nor `Streaming` is the JSON of a 200; CUT cuts off."""

    def __init__(self, answer: Callable[[Asked], Any], port: int = 0) -> None:
        self.asked: list[Asked] = []
        self._answer = answer
        self._connections: set[socket.socket] = set()
        played = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                played._connections.add(self.connection)

            def finish(self) -> None:
                with contextlib.suppress(OSError):
                    super().finish()
                played._connections.discard(self.connection)

            def log_message(self, *args: Any) -> None:
                pass

            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    super().handle()

            def answer(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                asked = Asked(self.command, parts.path, query, headers, body, self.client_address)
                played.asked.append(asked)
                answer = played._answer(asked)
                if answer is CUT:
                    cut(self.connection)
                    self.close_connection = True
                elif isinstance(answer, Streaming):
                    self.stream(answer)
                else:
                    self.plain(answer if isinstance(answer, Reply) else Reply(answer))

            do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

            def plain(self, reply: Reply) -> None:
                content = reply.encoded()
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                if "Content-Length" not in reply.headers:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                if "Content-Length" in reply.headers:  # a lie: more was promised
                    cut(self.connection)
                    self.close_connection = True

            def stream(self, reply: Streaming) -> None:
                self.close_connection = True
                self.send_response(200)
                self.send_header("Content-Type", reply.content_type)
                self.send_header("Connection", "close")
                self.end_headers()
                for chunk in reply.chunks:
                    if chunk is CUT:
                        cut(self.connection)
                        return
                    self.wfile.write(chunk)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> "Played":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """Stops at once, and cuts off whoever is connected."""
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()


def cut(connection: socket.socket) -> None:
    """With a reset, not with a proper end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RDWR)


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
