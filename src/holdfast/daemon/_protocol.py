"""HTTP as uvicorn does it with httptools, and what it leaves out: slow or endless headers, slow bodies, and readers that do not read.

A timer runs only while something is awaited that did not come in one piece, so an ordinary request costs none. Who is too slow is told 408
if nothing was answered yet, and the connection ends. What is refused here never reaches the application, and has the same envelope.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Final

from uvicorn.config import Config as ServerConfig
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.daemon.config import Config

_log: Final = logging.getLogger("holdfast.daemon")
_MOST_HEADERS: Final = 100
_LARGEST_HEADERS: Final = 65_536
_APPLICATION_FIRST_S: Final = 0.5  # it may have a limit for bodies of its own, and more to say
_TOO_SLOW: Final = (408, "REQUEST_TIMEOUT", "the request came too slowly")
_TOO_LARGE: Final = (431, "HEADERS_TOO_LARGE", "the headers of the request are too large")
_INVALID: Final = (400, "INVALID_REQUEST", "this is not HTTP")
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
        self._refusal = _INVALID
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    # ---- the connection ------------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(self.limits.header_timeout_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_waiting_for_reader()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > _LARGEST_HEADERS:
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
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        headers = self.headers
        if len(headers) > _MOST_HEADERS or sum([len(name) + len(value) for name, value in headers]) > _LARGEST_HEADERS:
            self._refusal = _TOO_LARGE
            raise _Refused
        full = len(self.connections) > self.limits.connections
        self.app = _answer_full if full else self._application
        super().on_headers_complete()
        self._in_headers, self._in_body = False, True

    def on_message_complete(self) -> None:
        self._in_body = False
        self._stop_waiting()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called for what cannot be parsed, or was refused while it was."""
        self._refuse(self._refusal)

    def _unsupported_upgrade_warning(self) -> None:
        """There are none here, and whoever asks for one gets an ordinary answer."""

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
