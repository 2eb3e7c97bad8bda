"""Values of scripts as JSON, for modules that keep them."""

import json
import math
from typing import Any, Final

from holdfast.sandbox import HostError, Undefined, jsontext

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def plain(value: Any, who: str) -> Any:
    """A value of a script as JSON has it. What has no form there is refused, not changed."""
    if value is Undefined:
        return None
    kind = type(value)
    if value is None or kind in (bool, str, int) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [plain(item, who) for item in value]
    if kind is dict:
        return {key: plain(item, who) for key, item in value.items() if item is not Undefined}
    message = f"{who}: a value is null, true, false, a finite number, text, or a list or object of such"
    raise HostError(message, code="INVALID_ARGUMENT")


def written(value: Any) -> tuple[str, int]:
    """What is plain as JSON, in as few characters as there may be, and how many bytes that is."""
    text = jsontext.dumps(value, _encode)
    try:
        return text, len(text.encode())
    except UnicodeEncodeError:  # half a surrogate pair
        text = jsontext.dumps(value)
        return text, len(text)


def read(text: str) -> Any:
    """What was written."""
    return (
        json.loads(text) if len(text) <= jsontext.SHORT else jsontext.loads(text.encode("utf-8", "surrogatepass"), jsontext.ANY)
    )


def folded(value: Any) -> Any:
    """The same for what is equal to a script, however numbers are written. An empty list is an empty object: Lua has one for both."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list) and value:
        return [folded(item) for item in value]
    if isinstance(value, dict | list):
        return {key: folded(value[key]) for key in value}
    return value
