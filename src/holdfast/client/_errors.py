"""What a call of the client can raise.

HoldfastError
├── ApiError               the daemon answered with an error: status, code, message, details, body, request id
│   └── MalformedResponse  it answered, but not with what the route promises
├── Unreachable            no connection, or it broke off, and trying again did not help
│   └── NoAnswer           connected, but there was no answer in time
└── InvalidValue           refused before anything was sent: not an id, not JSON

An `ApiError` whose code belongs to an error of `holdfast.domain` is also one of that class. So `except SessionBusy` and
`except NotFound` do the same whether a program has Holdfast in its own process or asks a daemon.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any, Final, Self

from holdfast import domain
from holdfast.domain import Fault, HoldfastError

MOST_OF_BODY: Final = 64 << 10
"""How many characters of an answer an error keeps."""


class ApiError(HoldfastError):
    """The daemon answered with an error."""

    code: str  # type: ignore[misc]  # of the answer, not of the class: a newer daemon may have codes that are not known here

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        body: str = "",
        request_id: str | None = None,
    ) -> None:
        HoldfastError.__init__(self, message)
        self.status, self.code, self.message = status, code, message
        self.details: dict[str, Any] = dict(details or {})
        self.body = body[:MOST_OF_BODY]
        self.request_id = request_id

    @staticmethod
    def of(
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        body: str = "",
        request_id: str | None = None,
    ) -> "ApiError":
        """An error of the class that belongs to its code."""
        return _class_of(code)(status, code, message, details, body, request_id)

    @staticmethod
    def parse(status: int, body: str, request_id: str | None = None) -> "ApiError":
        """The error in an answer. What is not an error envelope, as from a proxy, gives one with the status and the body.

        >>> ApiError.parse(409, '{"error": {"code": "SESSION_BUSY", "message": "wait"}}')
        SessionBusy('wait')
        >>> ApiError.parse(502, "<html>").code
        'HTTP_502'
        """
        try:
            envelope = json.loads(body)["error"]
            code, message, details = envelope["code"], envelope["message"], envelope.get("details")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            code = message = details = None
        if not isinstance(code, str) or not isinstance(message, str):
            return ApiError.of(status, f"HTTP_{status}", f"the server answered with status {status}", None, body, request_id)
        return ApiError.of(status, code, message, details if isinstance(details, dict) else None, body, request_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return ApiError.of, (self.status, self.code, self.message, self.details, self.body, self.request_id)


class MalformedResponse(ApiError):
    """The daemon's answer cannot be read."""

    @classmethod
    def because(cls, status: int, reason: str, body: str = "", request_id: str | None = None) -> Self:
        return cls(status, "MALFORMED_RESPONSE", f"decode response: {reason}", None, body, request_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.code, self.message, self.details, self.body, self.request_id)


class Unreachable(HoldfastError):
    """The daemon cannot be reached."""

    code = "DAEMON_UNREACHABLE"
    fault = Fault.ENVIRONMENT


class NoAnswer(Unreachable, TimeoutError):
    """The daemon did not answer in time."""

    code = "DAEMON_TIMEOUT"


@functools.cache
def _class_of(code: str) -> type[ApiError]:
    known = _known().get(code)
    if known is None:
        return ApiError
    return type(known.__name__, (ApiError, known), {"__doc__": known.__doc__, "__module__": __name__})


@functools.cache
def _known() -> dict[str, type[HoldfastError]]:
    """The domain's errors by code. Where several share one, it is the most general."""
    found = [kind for kind in vars(domain).values() if isinstance(kind, type) and issubclass(kind, HoldfastError)]
    found.sort(key=lambda kind: -len(kind.__mro__))
    return {kind.code: kind for kind in found if kind is not HoldfastError and "code" in vars(kind)}
