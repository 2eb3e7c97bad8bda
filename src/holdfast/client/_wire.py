"""From calls to HTTP and back: what both ways of sending share. It builds requests and judges answers, and sends nothing."""

import ssl
import time
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn

import httpx2

from holdfast.client._calls import Answer, Call, Result
from holdfast.client._errors import ApiError, MalformedResponse, NoAnswer, Unreachable
from holdfast.client._find import Server
from holdfast.client._retry import BUSY, CONFLICT, Backoff, retry_after

_CONNECT_S: Final = 5.0
_KEPT_S: Final = 30.0
_LARGEST: Final = 256 << 20
_SHORTEST_S: Final = 0.05
_UNAVAILABLE: Final = 503
_LASTING: Final = frozenset({"STORE_READ_ONLY", "STORE_DAMAGED", "STORE_TOO_NEW", "STORE_UNKNOWN"})
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a client behaves. `timeout_s` is for each answer, `execution_timeout_s` for calls that may run scripts."""

    server: Server
    tls: ssl.SSLContext
    timeout_s: float | None
    execution_timeout_s: float | None
    retry_for_s: float
    connections: int
    tenant: str | None = None

    def timeout(self, read_s: float | None) -> httpx2.Timeout:
        """For an answer that may take so long, and as long for a connection that others use for theirs."""
        connect = _CONNECT_S if self.timeout_s is None else min(_CONNECT_S, self.timeout_s)
        return httpx2.Timeout(self.timeout_s, connect=connect, read=read_s, pool=read_s)

    def for_httpx(self, limited: bool) -> dict[str, Any]:
        """How to make an httpx client: for calls, or for streams, which are as many as somebody follows.

        Redirects are not followed, so that the token goes nowhere else; nor is a proxy asked for what is on this machine.
        """
        server = self.server
        headers = {"User-Agent": "holdfast", "Accept": "application/json"}
        if server.token is not None:
            headers["Authorization"] = f"Bearer {server.token}"
        if self.tenant is not None:
            headers["X-Holdfast-Tenant"] = self.tenant
        return {
            "base_url": server.url,
            "headers": headers,
            "follow_redirects": False,
            "trust_env": not server.local,
            "verify": self.tls,
            "limits": httpx2.Limits(
                max_connections=self.connections if limited else None,
                max_keepalive_connections=self.connections if limited else 0,
                keepalive_expiry=_KEPT_S,
            ),
        }


def tls_for(server: Server) -> ssl.SSLContext:
    """Whom to trust. Without TLS nobody, since reading the list of those takes a while."""
    return httpx2.create_ssl_context() if server.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Attempts(Generic[Result]):
    """One call, from its first attempt to its result."""

    def __init__(self, settings: Settings, call: Call[Result]) -> None:
        self._settings, self._call = settings, call
        self._backoff = Backoff(settings.retry_for_s)
        self._since = time.monotonic()

    def request(self) -> dict[str, Any]:
        """What to send: the same each time, with the same idempotency key."""
        call, settings = self._call, self._settings
        headers = dict(call.headers)
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return {
            "method": call.method,
            "url": call.path,
            "params": call.query,
            "content": call.body,
            "headers": headers,
            "timeout": settings.timeout(self.within_s),
        }

    @property
    def within_s(self) -> float | None:
        """How many seconds the answer may take; None: as many as it likes."""
        read_s = self._settings.execution_timeout_s if self._call.slow else self._settings.timeout_s
        return None if read_s is None else read_s + self._call.extra_s

    def failed(self, error: httpx2.HTTPError) -> float:
        """There is no answer: how long to wait before the next attempt. Raises when there is none.

        What was not sent may be sent again; what may have arrived only if that does no harm. Who did not answer in time is not asked
        again: the caller said how long to wait.
        """
        again = isinstance(error, _UNSENT) or (
            self._call.repeatable and isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError)
        )
        wait = self._backoff.failed() if again else None
        if wait is None:
            raise_for(error, self._settings)
        return wait

    def busy(self, answer: Answer) -> float | None:
        """How long to wait before the next attempt; None: this answer is the last word.

        A daemon whose answer has a `Retry-After` is alive, and a conflict with one is about something that has an end: that is waited
        for as long as the answer may take. Errors that last, as that of a damaged store, have none.
        """
        if answer.status in self._call.fine or not self._call.repeatable:
            return None
        if answer.status == CONFLICT and "Retry-After" in answer.headers:
            wait = max(retry_after(answer.headers), _SHORTEST_S)
            return wait if self.within_s is None or time.monotonic() + wait < self._since + self.within_s else None
        if answer.status not in BUSY or (answer.status == _UNAVAILABLE and _lasts(answer)):
            return None
        return self._backoff.failed(retry_after(answer.headers))

    def result(self, answer: Answer) -> Result:
        """The result in an answer; raises the error in it."""
        if not 200 <= answer.status < 300 and answer.status not in self._call.fine:
            raise error_in(answer)
        try:
            return self._call.read(answer)
        except (ValueError, RecursionError) as error:  # what JSON and pydantic raise
            raise malformed(answer, _first_line(error)) from None


class Reading:
    """What follows the head of an answer, piece by piece: it has so many seconds, however little comes at a time, and a largest size."""

    def __init__(self, within_s: float | None) -> None:
        self._until = None if within_s is None else time.monotonic() + within_s
        self._pieces: list[bytes] = []
        self._size = 0

    def take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > _LARGEST:
            raise httpx2.DecodingError(f"an answer has at most {_LARGEST} bytes")
        if self._until is not None and time.monotonic() > self._until:
            raise httpx2.ReadTimeout("the answer has no end")
        self._pieces.append(piece)

    def answer(self, response: httpx2.Response) -> Answer:
        return Answer(response.status_code, response.headers, b"".join(self._pieces))


def error_in(answer: Answer) -> ApiError:
    """The error that an answer tells."""
    body = answer.content.decode("utf-8", "replace")
    return ApiError.parse(answer.status, body, answer.headers.get("X-Request-Id"))


def _lasts(answer: Answer) -> bool:
    """Whether an answer is an error that no waiting ends."""
    return error_in(answer).code in _LASTING


def malformed(answer: Answer, reason: str) -> MalformedResponse:
    body = answer.content.decode("utf-8", "replace")
    return MalformedResponse.because(answer.status, reason, body, answer.headers.get("X-Request-Id"))


def raise_for(error: httpx2.HTTPError, settings: Settings) -> NoReturn:
    """Says in our words that there is no answer."""
    url = settings.server.url
    if isinstance(error, httpx2.DecodingError):
        raise MalformedResponse.because(200, _first_line(error)) from error
    if isinstance(error, httpx2.TimeoutException) and not isinstance(error, httpx2.ConnectTimeout):
        raise NoAnswer(f"the daemon at {url} did not answer in time") from error
    if isinstance(error, _UNSENT):
        raise Unreachable(f"no daemon can be reached at {url}: {_first_line(error)}") from error
    raise Unreachable(f"the connection to the daemon at {url} broke off: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).partition("\n")[0] or type(error).__name__)[:500]
