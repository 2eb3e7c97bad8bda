"""HTTP as uvicorn does it with httptools, and what it leaves out: slow or endless headers, slow bodies, readers that do not read, requests
for another protocol, and requests that two programs might read in two ways.

A timer runs only while something is awaited that did not come in one piece, so an ordinary request costs none. Who is too slow is told 408
if nothing was answered yet, and the connection ends. What is refused here never reaches the application, and has the same envelope.
"""

import asyncio
import json
import logging
import re
import sys
from collections.abc import Callable
from typing import Any, Final

import httptools
from uvicorn.config import Config as ServerConfig
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.daemon.config import Config

_log: Final = logging.getLogger("holdfast.daemon")
_MOST_HEADERS: Final = 100
_LARGEST_HEADERS: Final = 65_536
_SPARE: Final = 256
"""So many connections more than there may be are told so. Any others are closed unheard, since each is an open file."""
_AUTHORITY: Final = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_APPLICATION_FIRST_S: Final = 0.5  # it may have a limit for bodies of its own, and more to say
_TOO_SLOW: Final = (408, "REQUEST_TIMEOUT", "the request came too slowly")
_TOO_LARGE: Final = (431, "HEADERS_TOO_LARGE", "the headers of the request are too large")
_INVALID: Final = (400, "INVALID_REQUEST", "this is not HTTP")
_AMBIGUOUS: Final = (400, "INVALID_REQUEST", "this request could be read in two ways")
_STOPS: Final = (503, "UNAVAILABLE", "the daemon stops; try again later")
_FULL: Final = (503, "UNAVAILABLE", "too many connections; try again later")


class _Refused(Exception):
    """Ends the parsing of a request."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    limits: Config
    """Of the daemon; `protocol_for` makes a class that has them."""

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._application = self.app
        self._in_headers = False
        self._in_body = False
        self._header_bytes = 0
        self._loose_bytes = 0
        """What has come since the headers, or the last part of the body: how parts are divided, and what is after the last."""
        self._fed = b""
        self._skipped: bytes | None = None
        self._framing = b""
        self._stands_in = False
        self._refusal = _INVALID
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    # ---- the connection ------------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections + _SPARE:
            transport.abort()
            return
        self._wait(self.limits.header_timeout_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_waiting_for_reader()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_body:
            self._loose_bytes += len(data)
        self._feed(data)
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > _LARGEST_HEADERS:
                self._refuse(_TOO_LARGE)
                return
        elif self._loose_bytes > _LARGEST_HEADERS:
            self._refuse(_TOO_LARGE)
            return
        if self._timer is None:
            if self._in_headers or self._rests():
                self._wait(self.limits.header_timeout_s, self._too_slow)
            elif self._in_body:
                self._wait(self.limits.body_timeout_s + _APPLICATION_FIRST_S, self._too_slow)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.idle_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_waiting_for_reader()
        super().resume_writing()

    # ---- the parser ----------------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._stands_in:
            return
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_headers:  # and not after the body, where nobody looks for any
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._stands_in:
            return
        self._stop_waiting()
        headers = self.headers
        if len(headers) > _MOST_HEADERS or sum([len(name) + len(value) for name, value in headers]) > _LARGEST_HEADERS:
            self._refusal = _TOO_LARGE
            raise _Refused
        if self._is_ambiguous():
            self._refusal = _AMBIGUOUS
            raise _Refused
        full = len(self.connections) > self.limits.connections
        self.app = _answer_full if full else self._application
        super().on_headers_complete()
        self._in_headers, self._in_body, self._loose_bytes = False, True, 0
        if self.parser.should_upgrade():
            self._framing = self._framing_of_body()

    def on_chunk_header(self) -> None:
        self._loose_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._framing:  # the body is still to come
            return
        self._in_body = False
        self._stop_waiting()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called for what cannot be parsed, or was refused while it was."""
        self._refuse(self._refusal)

    def _is_ambiguous(self) -> bool:
        """Whether a proxy before us may read the request in another way: whom it is for, or where it ends."""
        target = _AUTHORITY.match(self.url)
        if target is not None:
            hosts = [value.lower() for name, value in self.headers if name == b"host"]
            if hosts != [target[1].lower()]:
                return True
        coded = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        return bool(coded) and (coded != [b"chunked"] or self.parser.get_http_version() == "1.0")

    # ---- requests for another protocol ---------------------------------------------------------------------------------------------

    def _unsupported_upgrade_warning(self) -> None:
        """There is none here, and whoever asks for one gets an ordinary answer. Called when the parser has given up after such a head: it
        takes what follows for the other protocol, which is the body, or the next request."""
        error = sys.exception()
        assert isinstance(error, httptools.HttpParserUpgrade)
        self._skipped = self._fed[error.args[0] :]

    def _feed(self, data: bytes) -> None:
        self._fed = data
        super().data_received(data)
        while self._skipped is not None:
            self._fed, self._skipped = self._skipped, None
            framing, self._framing = self._framing, b""
            self._stands_in = True
            self.parser.feed_data(framing)
            self._stands_in = False
            super().data_received(self._fed)
        self._fed = b""

    def _framing_of_body(self) -> bytes:
        """The head of a request whose body has the same length, which tells the parser what it has skipped. It is never empty."""
        framing = [b"%s: %s\r\n" % one for one in self.headers if one[0] in (b"content-length", b"transfer-encoding")]
        return b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(framing or [b"content-length: 0\r\n"])

    # ---- waiting -------------------------------------------------------------------------------------------------------------------

    def _rests(self) -> bool:
        """Whether nothing is asked, and nobody waits for the next question: uvicorn stops waiting when anything arrives."""
        return not self._answers() and self.timeout_keep_alive_task is None

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._timer = self.loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_waiting_for_reader(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # we do not read, so they are not the ones who are slow
            self._wait(self.limits.header_timeout_s, self._too_slow)
        elif self._in_body and self._answers() and self.cycle.response_started:
            self.cycle.keep_alive = False  # the application did not want the rest
        elif self._in_headers or self._in_body:
            self._refuse(_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, refusal: tuple[int, str, str]) -> None:
        """Ends the connection, with an answer if nothing else is being said, or was said of this request."""
        cycle = self.cycle
        if self._answers():
            if self._in_headers:  # of the next request: the one before it still has its answer
                cycle.keep_alive = False
                return
            if cycle.response_started or self.pipeline:
                self.transport.abort()
                return
            cycle.disconnected = True  # so the application is told that nobody listens
            cycle.message_event.set()
        elif self._in_body:  # answered before it was read to its end
            self.transport.close()
            return
        _log.info("a request was refused", extra={"fields": {"status": refusal[0], "code": refusal[1]}})
        self.transport.write(answer_of(refusal, self.server_state.default_headers))
        self.transport.close()

    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def stop(self) -> None:
        """Ends it now. Whoever waits for an answer is told that there will be none."""
        if self.transport.is_closing():
            return
        if self._answers():
            self._in_headers = False
            self._refuse(_STOPS)
        else:
            self.transport.close()


def protocol_for(config: Config) -> type[Protocol]:
    """The protocol, with the limits of a configuration."""
    return type("Protocol", (Protocol,), {"limits": config})


def _body(refusal: tuple[int, str, str]) -> bytes:
    return json.dumps({"error": {"code": refusal[1], "message": refusal[2]}}).encode()


def answer_of(refusal: tuple[int, str, str], headers: list[tuple[bytes, bytes]]) -> bytes:
    """A whole answer, as bytes, that ends its connection."""
    body = _body(refusal)
    lines = [STATUS_LINE[refusal[0]], b"content-type: application/json\r\nconnection: close\r\n"]
    lines += [b"%s: %s\r\n" % header for header in headers]
    return b"".join([*lines, b"content-length: %d\r\n\r\n" % len(body), body])


async def _answer_full(scope: Any, receive: Any, send: Any) -> None:
    body = _body(_FULL)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": _FULL[0], "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
