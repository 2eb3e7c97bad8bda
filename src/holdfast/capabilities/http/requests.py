"""One request to one address, and its response: over a connection of its own, with an end to everything.

The protocol itself is done by h11. Here is what it leaves open: who is connected to, how long all of it may take, and how much may come.
Nothing of the environment is looked at (no proxies, no cookies, no passwords of the user), but for where certificates lie.
"""

import errno
import math
import os
import selectors
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import count
from typing import Final, NamedTuple, TypeVar

import h11

from holdfast.capabilities.http.urls import Url
from holdfast.sandbox import HostError

Headers = list[tuple[str, str]]
Given = TypeVar("Given")

_LARGEST_HEAD: Final = 64 << 10
_MOST_HEADERS: Final = 200
_MOST_INTERIM: Final = 10
_LARGEST_WASTE: Final = 1 << 20
"""Of heads and of the marks between pieces of a body."""
_PIECE: Final = 64 << 10
_MOST_TURNS: Final = 16_384
_BYTES_A_TURN: Final = 64
"""A response may come in so many pieces, and in one more for each so many bytes: a piece takes the same time, however small it is."""
_BREATH: Final = 256
_BREATH_S: Final = 0.02
"""After so many pieces comes a pause, so that many responses at once leave time for everybody else."""
_LOOK_S: Final = 0.05
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
_INVALID: Final = "the server's response is not one that can be understood"


class Reply(NamedTuple):
    """What came back, whole."""

    status: int
    reason: str
    headers: Headers
    body: bytes


class Deadline:
    """When all of a request must be over."""

    def __init__(self, seconds: float, is_stopped: Callable[[], bool]) -> None:
        self._until = time.monotonic() + seconds
        self._is_stopped = is_stopped

    def left(self) -> float:
        """Seconds. Raises if there are none, or nobody waits any more."""
        if self._is_stopped():
            raise HostError("the execution was cancelled", code="CANCELLED")
        left = self._until - time.monotonic()
        if left <= 0:
            raise HostError("the request took too long", code="HTTP_TIMEOUT")
        return left


def exchange(
    addresses: Sequence[str], url: Url, method: str, headers: Headers, body: bytes, most: int, deadline: Deadline
) -> Reply:
    """Asks the first of the addresses that answers. At most so many bytes are taken, as they come and as they are unpacked."""
    with _Wire(_connect(addresses, url.port, deadline), deadline) as wire:
        if url.scheme == "https":
            wire.encrypt(url.host)
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
        try:
            encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            request = h11.Request(method=method, target=url.target, headers=encoded)
            wire.send((connection.send(request) or b"") + (connection.send(h11.Data(data=body)) or b""))
            connection.send(h11.EndOfMessage())
        except h11.LocalProtocolError:
            raise HostError("this is not a request that can be made", code="INVALID_ARGUMENT") from None
        try:
            return _read(wire, connection, most, deadline)
        except h11.RemoteProtocolError:
            raise HostError(_INVALID, code="RESPONSE_INVALID") from None


def _connect(addresses: Sequence[str], port: int, deadline: Deadline) -> socket.socket:
    for at, address in enumerate(addresses):
        made = _reached(address, port, deadline, deadline.left() / (len(addresses) - at))
        if made is not None:
            return made
    raise HostError("the server cannot be reached", code="CONNECTION_FAILED")


def _reached(address: str, port: int, deadline: Deadline, seconds: float) -> socket.socket | None:
    """A connection to one address, which gets its share of the time."""
    try:
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError:  # a system without IPv6
        return None
    is_open = False
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = made.connect_ex((address, port)) in (0, errno.EINPROGRESS, errno.EWOULDBLOCK)
        ready = began and _wait(made, deadline, write=True, seconds=seconds)
        is_open = ready and made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    except OSError:
        return None
    finally:
        if not is_open:
            made.close()
    return made if is_open else None


def _wait(connection: socket.socket, deadline: Deadline, *, write: bool, seconds: float = math.inf) -> bool:
    """Whether the connection is ready, for at most so many seconds. Without a number it is, or the deadline raises."""
    until = time.monotonic() + seconds
    with _Selector() as selector:
        selector.register(connection, selectors.EVENT_WRITE if write else selectors.EVENT_READ)
        while not selector.select(min(_LOOK_S, deadline.left())):
            if time.monotonic() > until:
                return False
    return True


class _Wire:
    """A connection on which nothing waits for longer than it may."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self._deadline = connection, deadline

    def __enter__(self) -> "_Wire":
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def encrypt(self, host: str) -> None:
        """The server must show a certificate for the name, not for the address."""
        places = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        try:
            wrapped = _context(*places).wrap_socket(
                self._connection, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
            self._connection = wrapped
            self._do(wrapped.do_handshake)
        except ssl.SSLCertVerificationError as error:
            raise HostError(f"the server's certificate is not valid: {error.verify_message}", code="TLS_FAILED") from None
        except (OSError, ValueError):
            raise HostError("there is no safe connection to the server", code="TLS_FAILED") from None

    def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                sent = self._do(partial(self._connection.send, rest[:_PIECE]), write=True)
            except OSError:  # it may have said why before it closed
                return
            rest = rest[sent:]

    def receive(self) -> bytes:
        try:
            return self._do(partial(self._connection.recv, _PIECE))
        except ssl.SSLZeroReturnError:
            return b""
        except OSError:
            raise HostError("the connection was lost", code="CONNECTION_FAILED") from None

    def _do(self, work: Callable[[], Given], *, write: bool = False) -> Given:
        while True:
            self._deadline.left()
            try:
                return work()
            except BlockingIOError:
                _wait(self._connection, self._deadline, write=write)
            except ssl.SSLWantReadError:
                _wait(self._connection, self._deadline, write=False)
            except ssl.SSLWantWriteError:
                _wait(self._connection, self._deadline, write=True)


def _read(wire: _Wire, connection: h11.Connection, most: int, deadline: Deadline) -> Reply:
    head: h11.Response | None = None
    body = _Body(most)
    wired = interim = 0
    for turn in count(1):
        deadline.left()
        if turn > _MOST_TURNS + wired // _BYTES_A_TURN:
            raise HostError("the server's response comes in too many small pieces", code="RESPONSE_TOO_LARGE")
        if turn % _BREATH == 0:
            time.sleep(_BREATH_S)
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = wire.receive()
            wired += len(data)
            if wired > most * 8 + _LARGEST_WASTE:
                raise _too_large(most)
            connection.receive_data(data)
        elif isinstance(event, h11.InformationalResponse):
            interim += 1
            if interim > _MOST_INTERIM:
                raise HostError(_INVALID, code="RESPONSE_INVALID")
        elif isinstance(event, h11.Response):
            head = event
            if len(head.headers) > _MOST_HEADERS:
                raise HostError("the server's response has too many headers", code="RESPONSE_TOO_LARGE")
            body.kinds = [value.decode("latin-1") for name, value in head.headers if name == b"content-encoding"]
        elif isinstance(event, h11.Data):
            body.take(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = [(name.decode("latin-1"), _text(value)) for name, value in head.headers]
            return Reply(head.status_code, _text(bytes(head.reason)), headers, body.end())
        else:
            raise HostError(_INVALID, code="RESPONSE_INVALID")
    raise AssertionError("a count has no end")


class _Body:
    """What comes, unpacked as it comes, so that little that would become much is noticed at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._data = bytearray()
        self.kinds: list[str] = []
        """How it is packed, as the server says."""
        self._unpacker: zlib._Decompress | None = None

    def take(self, data: bytes) -> None:
        self._taken += len(data)
        if self._taken > self._most:
            raise _too_large(self._most)
        if self._taken == len(data) > 0:
            self._unpacker = _unpacker(self.kinds, data[0])
        if self._unpacker is None:
            self._data += data
            return
        try:
            self._data += self._unpacker.decompress(data, self._most - len(self._data) + 1)
        except zlib.error:
            raise HostError(_INVALID, code="RESPONSE_INVALID") from None
        if len(self._data) > self._most:
            raise _too_large(self._most)

    def end(self) -> bytes:
        if self._unpacker is not None and not self._unpacker.eof:
            raise HostError(_INVALID, code="RESPONSE_INVALID")
        return bytes(self._data)


def _unpacker(kinds: list[str], first: int) -> "zlib._Decompress | None":
    """For a body that begins with this byte. Servers disagree about what deflate is: with a header, or without."""
    packed = [kind for text in kinds for kind in text.lower().replace(" ", "").split(",") if kind not in ("", "identity")]
    if not packed:
        return None
    if packed in (["gzip"], ["x-gzip"]):
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    if packed == ["deflate"]:
        return zlib.decompressobj(zlib.MAX_WBITS if first & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS)
    raise HostError("the server's response is packed in a way that was not asked for", code="RESPONSE_INVALID")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _too_large(most: int) -> HostError:
    return HostError(f"the server's response has more than {most} bytes", code="RESPONSE_TOO_LARGE")


@cache
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """The system's certificates, or those that the two variables name, which are arguments so that another value is another context."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)  # anybody in between can end a connection
    context.set_alpn_protocols(["http/1.1"])
    return context
