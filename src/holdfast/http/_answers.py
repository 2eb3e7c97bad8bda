"""Answers: JSON bytes with their headers, sent as they are. Nothing is validated on the way out: the tests do that."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response

from holdfast.sandbox import jsontext

_JSON: Final = b"application/json"


def encoded(plain: Any) -> bytes:
    """Plain values as JSON. What has no place in JSON (NaN, half of a surrogate pair) becomes null or a replacement character."""
    try:
        if jsontext.is_short(plain):
            return to_json(plain, inf_nan_mode="null")
        return jsontext.dumps(plain, _text).encode()  # without holding the interpreter lock
    except (PydanticSerializationError, ValueError):  # half a pair, or nested deeper than this serialiser goes
        return json.dumps(_mended(plain), ensure_ascii=False, separators=(",", ":")).encode()


def _text(plain: Any) -> str:
    return to_json(plain, inf_nan_mode="null").decode()


def _mended(plain: Any) -> Any:
    if isinstance(plain, float) and not math.isfinite(plain):
        return None
    if isinstance(plain, str):
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(plain, dict):
        return {_mended(key): _mended(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_mended(value) for value in plain]
    return plain


class Json(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def __init__(self, plain: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        body = self.body = encoded(plain)
        self.status_code = status_code
        self.subject = plain.get("id") if type(plain) is dict else None
        """Id of what the answer is about, if it is one object."""
        self.background = None
        raw = [(b"content-type", _JSON), (b"content-length", b"%d" % len(body))]
        if headers:
            raw += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        self.raw_headers = raw
