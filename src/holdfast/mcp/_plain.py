"""Values of scripts, for a wire that takes less than they may hold: no half of a surrogate pair, and no list within hundreds of others."""

import json
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

_DEEPEST: Final = 100


def shown(value: Any) -> tuple[str, Any]:
    """A value as the text of JSON, and as it can be sent.

    >>> shown({"a": [1, None]})
    ('{"a":[1,null]}', {'a': [1, None]})
    """
    try:
        return to_json(value).decode(), value
    except PydanticSerializationError:
        sent = _mended(value, 0)
        return json.dumps(sent, ensure_ascii=False, separators=(",", ":")), sent


def sendable(value: Any) -> Any:
    """A value as it can be sent: with replacement characters for what is no text, and as text from a certain depth on.

    >>> sendable("a" + chr(0xD800))
    'a\ufffd'
    """
    return shown(value)[1]


def _mended(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if depth == _DEEPEST and isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, dict):
        return {_mended(key, depth): _mended(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(part, depth + 1) for part in value]
    return value
