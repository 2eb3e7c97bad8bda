"""A server on the loopback that answers as it is told, well or badly: each path is one behaviour. It remembers what it was asked."""

import gzip
import json
import socketserver
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

CERTIFICATES = Path(__file__).parent / "certificates"


class Asked(NamedTuple):
    """A request that came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Web(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *, tls: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self.hanging = 0
        """Clients that wait for nothing."""
        self.port: int = self.server_address[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / "good.test.pem")
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what is tested here."""


class _Handler(socketserver.StreamRequestHandler):
    server: Web

    def handle(self) -> None:
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) != 3 or not line[2].startswith("HTTP/"):  # such as the beginning of TLS, which may look like three words
            return
        headers: dict[str, str] = {}
        while (raw := self.rfile.readline().decode("latin-1").strip()) != "":
            name, _, value = raw.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        self.asked = Asked(line[0], line[1], headers, body)
        self.server.asked.append(self.asked)
        path = urlsplit(line[1]).path
        _PATHS.get("/" + path.split("/")[1], _echo)(self)

    def say(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        self.wfile.write("\r\n".join([*head, "", ""]).encode("latin-1") + body)

    def write(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.wfile.write(piece)

    def forever(self, head: bytes, piece: bytes) -> None:
        self.wfile.write(head)
        while not self.server.over.is_set():
            self.wfile.write(piece)

    def hang(self, head: bytes = b"") -> None:
        """Until the client goes away."""
        self.server.hanging += 1
        try:
            self.write(head)
            self.connection.recv(1)
        finally:
            self.server.hanging -= 1

    def trickle(self) -> None:
        self.write(_OK + b"\r\n")
        while not self.server.over.wait(0.005):
            self.write(b"x")


def _echo(at: _Handler) -> None:
    asked = at.asked
    told = {"method": asked.method, "target": asked.target, "headers": asked.headers, "body": asked.body.decode("latin-1")}
    at.say(json.dumps(told).encode(), "Content-Type: application/json", "X-Two: a", "X-Two: b")


def _redirect(at: _Handler) -> None:
    """/redirect/307?where"""
    parts = urlsplit(at.asked.target)
    at.say(b"", f"Location: {unquote(parts.query)}", status=f"{parts.path.split('/')[2]} Found")


def _status(at: _Handler) -> None:
    at.say(b'{"why": "so"}', status=f"{at.asked.target.split('/')[2]} Said")


def _sized(at: _Handler) -> None:
    """/sized?1000"""
    size = int(next(iter(parse_qs(urlsplit(at.asked.target).query, keep_blank_values=True))))
    at.say(b"x" * size)


def _second(at: _Handler) -> None:
    """Nothing, but for whoever comes again."""
    if [asked.target for asked in at.server.asked].count(at.asked.target) > 1:
        _echo(at)
    else:
        at.hang()


_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_BOMB = gzip.compress(b"\0" * (20 << 20))
_PATHS: dict[str, Callable[[_Handler], None]] = {
    "/redirect": _redirect,
    "/status": _status,
    "/sized": _sized,
    "/bytes": lambda at: at.say(b"\xff\x00\xfe"),
    "/text": lambda at: at.say("\ufeffhéllo".encode()),
    "/gzip": lambda at: at.say(gzip.compress(b"packed"), "Content-Encoding: gzip"),
    "/deflate": lambda at: at.say(zlib.compress(b"packed"), "Content-Encoding: deflate"),
    "/raw": lambda at: at.say(_flushed(b"packed"), "Content-Encoding: deflate"),
    "/until-closed": lambda at: at.write(_OK + b"\r\n", b"all of it"),
    "/chunked": lambda at: at.write(_CHUNKED, b"3;x=y\r\none\r\n3\r\ntwo\r\n0\r\nTrailer: x\r\n\r\n"),
    "/interim": lambda at: at.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 3, _OK + b"Content-Length: 2\r\n\r\nok"),
    "/bomb": lambda at: at.say(_BOMB, "Content-Encoding: gzip"),
    "/twice": lambda at: at.say(gzip.compress(_BOMB), "Content-Encoding: gzip, gzip"),
    "/brotli": lambda at: at.say(b"...", "Content-Encoding: br"),
    "/half": lambda at: at.say(gzip.compress(b"packed")[:-9], "Content-Encoding: gzip"),
    "/not-packed": lambda at: at.say(b"plain", "Content-Encoding: gzip"),
    "/endless": lambda at: at.forever(_OK + b"\r\n", b"x" * 65536),
    "/endless-chunks": lambda at: at.forever(_CHUNKED, b"1;" + b"x" * 1000 + b"\r\nx\r\n"),
    "/crumbs": lambda at: at.write(_CHUNKED, b"1\r\nx\r\n" * int(urlsplit(at.asked.target).query), b"0\r\n\r\n"),
    "/endless-head": lambda at: at.forever(_OK, b"X-Flood: " + b"x" * 1000 + b"\r\n"),
    "/endless-line": lambda at: at.forever(b"HTTP/1.1 200 ", b"x" * 65536),
    "/endless-trailers": lambda at: at.forever(_CHUNKED + b"0\r\n", b"X-Flood: x\r\n"),
    "/endless-interim": lambda at: at.forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "/many-headers": lambda at: at.say(b"", *(f"X-{i}: x" for i in range(201))),
    "/second": _second,
    "/silent": lambda at: at.hang(),
    "/trickle": lambda at: at.trickle(),
    "/loop": lambda at: at.say(b"", "Location: /loop", status="302 Found"),
    "/stalled": lambda at: at.hang(_OK + b"Content-Length: 10\r\n\r\nx"),
    "/short": lambda at: at.write(_OK + b"Content-Length: 10\r\n\r\nx"),
    "/bad-chunk": lambda at: at.write(_CHUNKED, b"zz\r\nxx\r\n"),
    "/bad-length": lambda at: at.write(_OK + b"Content-Length: -1\r\n\r\n"),
    "/two-lengths": lambda at: at.write(_OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
    "/bad-head": lambda at: at.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
    "/switch": lambda at: at.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    "/nothing": lambda at: None,
}


def _flushed(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@contextmanager
def web(*, tls: bool = False) -> Iterator[Web]:
    with Web(tls=tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
