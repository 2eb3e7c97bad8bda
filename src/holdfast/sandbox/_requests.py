"""Requests as the bytes that a guest reads; see struct hf_request in guests/common/abi.h."""

import struct
from collections.abc import Mapping
from typing import Any, Final

from holdfast.domain import Limits
from holdfast.sandbox._errors import ValueRefused
from holdfast.sandbox._zones import zone_table
from holdfast.sandbox.steps import Abandon, Call, Configure, Evaluate, Failure, Globals, Request, Resume, RunFile, Seal
from holdfast.sandbox.values import encode

_HEAD: Final = struct.Struct("<BBHIIIIIdQ")
_SIZE: Final = struct.Struct("<I")
_ANSWER: Final = struct.Struct("<IIc")
_EVALUATE, _RUN_FILE, _RESUME, _CALL, _SEAL, _CONFIGURE, _ABANDON, _GLOBALS = 1, 2, 3, 4, 5, 6, 7, 8
_HAS_SEED, _HAS_ZONE = 1, 2
_LARGEST: Final = 1 << 30
_LATEST: Final = 8.64e15
_LARGEST_ID: Final = 0xFFFFFFFF


def encode_request(request: Request, limits: Limits, now: float, seed: int | None, zone: str | None) -> bytes:
    """The message of one step."""
    operation, parts = _parts(request)
    if not isinstance(now, int | float) or not -_LATEST <= now <= _LATEST:
        raise ValueRefused("the time is a number of milliseconds, in the range of a JavaScript date")
    flags = 0
    if seed is not None:
        if not isinstance(seed, int):
            raise ValueRefused("a seed is a whole number")
        flags = _HAS_SEED
    if zone is not None:
        if not isinstance(zone, str):
            raise ValueRefused("a time zone is a name")
        flags |= _HAS_ZONE
        parts.insert(0, _sized(zone_table(zone)))
    head = _HEAD.pack(
        operation,
        flags,
        0,
        len(parts),
        limits.stack_kb,
        limits.max_events,
        limits.max_output_kb * 1024,
        limits.max_suspensions,
        now,
        (seed or 0) & 0xFFFFFFFFFFFFFFFF,
    )
    message = b"".join((head, *parts))
    if len(message) > _LARGEST:
        raise ValueRefused(f"a request of {len(message)} bytes is too large")
    return message


def _parts(request: Request) -> tuple[int, list[bytes]]:
    if isinstance(request, Resume):
        if not isinstance(request.answers, Mapping):
            raise ValueRefused("answers are a mapping from query ids")
        return _RESUME, [_answer(query, value) for query, value in request.answers.items()]
    if isinstance(request, Evaluate):
        return _EVALUATE, [_sized(_source(request.source)), _sized(_source(request.filename))]
    if isinstance(request, RunFile):
        given = [request.args] if request.env is None else [request.args, request.env]
        return _RUN_FILE, [_sized(part) for part in (_source(request.source), _source(request.filename), *map(encode, given))]
    if isinstance(request, Call):
        return _CALL, [_sized(_source(request.function)), _sized(encode(list(request.args)))]
    if isinstance(request, Seal):
        return _SEAL, []
    if isinstance(request, Configure):
        return _CONFIGURE, []
    if isinstance(request, Abandon):
        return _ABANDON, []
    if isinstance(request, Globals):
        return _GLOBALS, []
    raise ValueRefused(f"a {type(request).__name__} is no request")


def _sized(part: bytes) -> bytes:
    return _SIZE.pack(len(part)) + part


def _source(text: str | bytes) -> bytes:
    """Source text in UTF-8; anything else is refused here, where it can be said clearly."""
    try:
        if isinstance(text, str):
            return text.encode()
        if isinstance(text, bytes):
            text.decode()
            return text
    except UnicodeError:
        raise ValueRefused("source text is not valid UTF-8") from None
    raise ValueRefused(f"source text is str or bytes, not {type(text).__name__}")


def _answer(query: int, value: Any) -> bytes:
    if type(query) is not int or not 0 <= query <= _LARGEST_ID:
        raise ValueRefused("a query id is a positive whole number")
    status = b"v"
    if type(value) is Failure:
        status, value = b"e", {name: field for name, field in value._asdict().items() if field is not None}
    encoded = encode(value)
    return _ANSWER.pack(len(encoded) + 5, query, status) + encoded
