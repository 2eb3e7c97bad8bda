"""Errors as HTTP tells them: one envelope, `{"error": {"code", "message", "details"?}}`, whatever went wrong.

HoldfastError
└── TransportError          the request itself is at fault
    ├── InvalidRequest      not JSON, an unknown field, a wrong type
    ├── Unauthenticated     no token, or one that is not known
    ├── RequestForbidden    the token may not do this, or the page that asks is of another site
    ├── MethodNotAllowed    the path has no such method
    ├── RequestTimeout      the body came too slowly
    ├── BodyTooLarge
    ├── UnsupportedMediaType
    ├── HostNotAllowed      the Host header names another machine
    ├── RateLimited         too many requests, or too many at once
    └── Unavailable         the daemon stops, or has too many connections; told by its server, before any of this
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from holdfast.domain import Fault, Forbidden, HoldfastError, InvalidValue, NotFound
from holdfast.http._answers import Json
from holdfast.http._statuses import INTERNAL, LASTING, STATUSES, UNEXPECTED, status_of

_log: Final = logging.getLogger("holdfast.http")
_OUR_FAULT: Final = "something went wrong here; the log of the daemon has it under this request's id"
_WRONG_KIND: Final = frozenset({"extra_forbidden", "is_instance_of"})


class TransportError(HoldfastError):
    """The request cannot be taken."""

    code = "INVALID_REQUEST"
    fault = Fault.CALLER
    closes = False
    """Whether the connection ends with the answer: there may be more of the request that nobody wants to read."""


class InvalidRequest(TransportError):
    """The request is not what this route takes."""


class Unauthenticated(TransportError):
    """A bearer token is needed, and this one is not known here."""

    code = "UNAUTHENTICATED"


class RequestForbidden(Forbidden, TransportError):
    """This is not allowed."""


class MethodNotAllowed(TransportError):
    """This path does not take this method."""

    code = "METHOD_NOT_ALLOWED"


class RequestTimeout(TransportError):
    """The body of the request came too slowly."""

    code = "REQUEST_TIMEOUT"
    closes = True


class BodyTooLarge(TransportError):
    """The body of the request is too large."""

    code = "BODY_TOO_LARGE"
    closes = True


class UnsupportedMediaType(TransportError):
    """A body is JSON here: send it with Content-Type: application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class HostNotAllowed(TransportError):
    """The Host header names a machine that this daemon is not known as."""

    code = "HOST_NOT_ALLOWED"


class RateLimited(TransportError):
    """Too many requests. Try again later."""

    code = "RATE_LIMITED"

    def __init__(self, message: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(TransportError):
    """Holdfast is about to stop, or has too many connections. Try again later."""

    code = "UNAVAILABLE"


class OutputLimitExceeded(HoldfastError):
    """The execution had more events or output than its template allows. It is recorded with what it had."""

    code = "OUTPUT_LIMIT_EXCEEDED"
    fault = Fault.SCRIPT


def envelope(code: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of every answer that is an error."""
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error["details"] = dict(details)
    return {"error": error}


def answer_to(error: Exception, request_id: str = "") -> Json:
    """What a client is told of an error. What is our fault is logged, and not told."""
    if not isinstance(error, HoldfastError):
        return _internal(error, request_id)
    code = error.code
    if code in UNEXPECTED or code == INTERNAL or code not in STATUSES:
        return _internal(error, request_id)
    status = status_of(code)
    if status >= 500:
        _log.error("request %s: %s: %s", request_id, code, error)
    headers: dict[str, str] = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="holdfast"'
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    elif status == STATUSES["UNAVAILABLE"] and code not in LASTING:
        headers["Retry-After"] = "1"
    if isinstance(error, TransportError) and error.closes:
        headers["Connection"] = "close"
    return Json(envelope(code, str(error), error.details), status, headers)


def _internal(error: Exception, request_id: str) -> Json:
    _log.error("request %s failed", request_id, exc_info=error)
    return Json(envelope(INTERNAL, _OUR_FAULT), 500)


def refusal(errors: Sequence[Any]) -> HoldfastError:
    """What pydantic found wrong with a body: the first thing, in words, and ten of them as details.

    A field that is missing, or whose value is out of bounds, is a VALIDATION_ERROR; one that is unknown or of another type is an
    INVALID_REQUEST.
    """
    kind = InvalidRequest if any(_is_wrong_kind(error["type"]) for error in errors) else InvalidValue
    return _refusal(kind, [(error["loc"], error) for error in errors[:10]])


def refusal_of_parameters(errors: Sequence[Any]) -> HoldfastError:
    """What is wrong with parameters of a path, a query or headers. All are texts, so none is of another type."""
    return _refusal(InvalidValue, [(error["loc"][1:], error) for error in errors[:10]])


def _refusal(kind: type[HoldfastError], errors: Iterable[tuple[Sequence[Any], Any]]) -> HoldfastError:
    found = [{"field": _field(place), "problem": _problem(error)} for place, error in errors]
    first = found[0]
    message = f"{first['field']}: {first['problem']}" if first["field"] else first["problem"]
    return kind(message).with_details(problems=found)


def _is_wrong_kind(kind: str) -> bool:
    return kind in _WRONG_KIND or kind.endswith("_type")


def _field(place: Sequence[Any]) -> str:
    return ".".join(str(part)[:60] for part in place)[:200]


def _problem(error: Any) -> str:
    kind, message = error["type"], str(error["msg"])
    if kind == "missing":
        return "this is required"
    if kind == "extra_forbidden":
        return "there is no such field"
    return message.removeprefix("Value error, ")[:300]


def method_not_allowed(methods: Iterable[str]) -> Json:
    """The answer for a path that takes only these methods."""
    answer = answer_to(MethodNotAllowed())
    answer.headers["Allow"] = ", ".join(sorted(methods))
    return answer


async def on_http_error(request: Request, error: Exception) -> Json:
    """For what the router says: that there is no such path, or no such method."""
    assert isinstance(error, HTTPException)
    if error.status_code == STATUSES["NOT_FOUND"]:
        return answer_to(NotFound("there is no such path"))
    if error.status_code == STATUSES["METHOD_NOT_ALLOWED"]:
        path = request.scope["path"]
        matching = [route for route in request.app.routes if isinstance(route, Route) and route.path_regex.match(path)]
        return method_not_allowed({method for route in matching for method in route.methods or ()} - {"HEAD"})
    return answer_to(error)
