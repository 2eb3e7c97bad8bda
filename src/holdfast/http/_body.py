"""The body of a request: read whole, but not too much of it, nor too slowly; and JSON, strictly."""

import asyncio
import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.types import Receive

from holdfast.domain import RepeatedKey, read_json
from holdfast.http._errors import BodyTooLarge, InvalidRequest, RequestTimeout, UnsupportedMediaType, refusal
from holdfast.sandbox import jsontext

_JSON: Final = b"application/json"
_SUSPECT: Final = re.compile(rb"\\u0000|[0-9]{19}|[eE]\+?[0-9]{3}")
"""What must be looked at twice: a NUL, a number of more than 64 bits, or one that is larger than any float."""

_MOST_PROBLEMS: Final = 100
_BOUNDS: Final = jsontext.Bounds(size=1 << 31)
_CHUNK: Final = 1 << 16
_OVERLAP: Final = 32

Model = TypeVar("Model", bound=BaseModel)


class Gone(Exception):
    """The client has left before it had said what it wants."""


async def read(
    receive: Receive, length: int | None, limit: int, timeout: float, hold: Callable[[int], None] = lambda size: None
) -> bytes:
    """A body of at most `limit` bytes that comes within `timeout` seconds; `length` is what was announced.

    `hold` is called with the size of what is about to be kept, and may refuse it.
    """
    if length is not None:
        if length > limit:
            raise _too_large(limit)
        hold(length)
    try:
        async with asyncio.timeout(timeout):
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            if not message.get("more_body"):
                return _within(message.get("body", b""), limit)
            parts, size = [], 0
            while True:
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                if length is None:
                    hold(len(part))
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
    except TimeoutError:
        raise RequestTimeout from None


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body of a request may have at most {limit} bytes")


def check_type(headers: dict[bytes, bytes]) -> None:
    """Only JSON, in UTF-8, as it is. A form that a page of another site sends without asking is none."""
    given = headers.get(b"content-type", b"")
    if given != _JSON:
        kind, *options = given.lower().split(b";")
        for option in options:
            name, _, value = option.strip().partition(b"=")
            if name.strip() == b"charset" and value.strip(b' "') not in (b"utf-8", b"utf8"):
                raise UnsupportedMediaType("a body is in UTF-8 here")
        if kind.strip() != _JSON:
            raise UnsupportedMediaType
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise UnsupportedMediaType("a body is not compressed here")


def plain(body: bytes) -> Any:
    """The one JSON value that a body is, in which no object has two members of one name."""
    try:
        if len(body) <= jsontext.SHORT:
            value = from_json(body, allow_inf_nan=False)
            read_json(body)
        else:
            value = jsontext.loads(body, _BOUNDS, decode=_strict, errors="strict")
    except RepeatedKey as error:
        raise InvalidRequest(f"{error}; name it once") from None
    except jsontext.TooLarge as error:
        raise BodyTooLarge(f"the body has {error}") from None
    except ValueError as error:
        raise InvalidRequest(f"the body is not JSON: {error}" if body.strip() else "a body is needed, in JSON") from None
    if _is_suspect(body):
        _check(value)
    return value


def _strict(text: str) -> Any:
    value = from_json(text, allow_inf_nan=False)
    read_json(text)
    return value


def _is_suspect(body: bytes) -> bool:
    return any(_SUSPECT.search(body[start : start + _CHUNK + _OVERLAP]) for start in range(0, len(body), _CHUNK))


async def check_message(body: bytes) -> None:
    """Refuses a body of an application that reads it for itself, if two readers might differ or it holds too much."""
    try:
        if len(body) <= jsontext.SHORT:
            read_json(body)
        else:
            await asyncio.to_thread(jsontext.loads, body, _BOUNDS, decode=read_json)
    except RepeatedKey as error:
        raise InvalidRequest(f"{error}; name it once") from None
    except jsontext.TooLarge as error:
        raise InvalidRequest(f"the body has {error}") from None
    except ValueError:  # which the application says in its own words
        return


async def plain_of(body: bytes) -> Any:
    """As `plain`. A long body is read on another thread, in pieces, so that others are served meanwhile."""
    return plain(body) if len(body) <= jsontext.SHORT else await asyncio.to_thread(plain, body)


def parsed(model: type[Model], value: Any) -> Model:
    """The value of a body as a model."""
    try:
        return model.__pydantic_validator__.validate_python(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        if error.error_count() > _MOST_PROBLEMS:  # to list them all would take longer than anything else here
            raise InvalidRequest("nearly all of the body is unknown or of another type here") from None
        raise refusal(error.errors(include_url=False, include_context=False, include_input=False)) from None


def _check(value: Any) -> None:
    kind = type(value)
    if kind is str:
        if "\0" in value:
            raise InvalidRequest("the body has a NUL character")
    elif kind is int:
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidRequest("the body has a number of more than 64 bits")
    elif kind is float:
        if math.isinf(value):
            raise InvalidRequest("the body has a number that is too large")
    elif kind is dict:
        for key, part in value.items():
            _check(key)
            _check(part)
    elif kind is list:
        for part in value:
            _check(part)
