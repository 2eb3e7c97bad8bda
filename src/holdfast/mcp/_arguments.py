"""The arguments of a call, checked against the schema of its tool. Nonsense is an `InvalidValue` that says what is wanted."""

import math
from collections.abc import Mapping
from typing import Any, Final

from holdfast.domain import InvalidValue
from holdfast.mcp._tools import Schema, Tool

_KINDS: Final[dict[str, tuple[str, Any]]] = {
    "string": ("text", str),
    "integer": ("a whole number", int),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", bool),
    "object": ("an object", dict),
    "array": ("a list", list),
}


def checked(tool: Tool, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a call. One that is null was not given, unless anything may be given for it.

    >>> from holdfast.mcp._tools import TOOLS
    >>> checked(TOOLS["history"], {"session_id": "s", "limit": None})
    {'session_id': 's'}
    """
    found = dict(given or {})
    check_content(found, "the arguments")
    return _object(tool.input, found, "")


def check_content(value: Any, what: str) -> None:
    """Refuses what not every store can keep, or what would become something else on its way: as the REST API does."""
    try:
        problem = _problem(value)
    except RecursionError:
        raise InvalidValue(f"{what} are nested too deep") from None
    if problem is not None:
        raise InvalidValue(f"{what} have {problem}")


def _object(schema: Schema, value: dict[str, Any], where: str) -> dict[str, Any]:
    known = schema["properties"]
    for name in value:
        if name not in known:
            raise InvalidValue(f"there is no argument {where + name[:60]!r}; there are {', '.join(known)}")
    found = {name: part for name, part in value.items() if part is not None or not known[name]}
    for name in schema.get("required", ()):
        if name not in found:
            raise InvalidValue(f"{where}{name} is required")
    for name, part in found.items():
        _check(known[name], part, where + name)
    return found


def _check(schema: Schema, value: Any, where: str) -> None:
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        raise InvalidValue(f"{where} must be one of {', '.join(choices)}")
    wanted = schema.get("type")
    if wanted is None:
        return
    names = [wanted] if isinstance(wanted, str) else wanted
    if not any(_is(name, value) for name in names):
        raise InvalidValue(f"{where} must be {' or '.join(_KINDS[name][0] for name in names)}")
    if "properties" in schema and isinstance(value, dict):
        _object(schema, value, f"{where}.")
    for index, item in enumerate(value if "items" in schema else ()):
        _check(schema["items"], item, f"{where}[{index}]")


def _problem(value: Any) -> str | None:
    if isinstance(value, str):
        if "\0" in value:
            return "a NUL character"
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return "half of a surrogate pair"
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            return "a number of more than 64 bits"
    elif isinstance(value, float):
        if not math.isfinite(value):
            return "a number that is none, or is too large"
    elif isinstance(value, dict):
        return next((found for part in (*value, *value.values()) if (found := _problem(part))), None)
    elif isinstance(value, list):
        return next((found for part in value if (found := _problem(part))), None)
    return None


def _is(name: str, value: Any) -> bool:
    kind = _KINDS[name][1]
    return isinstance(value, kind) and (name == "boolean" or not isinstance(value, bool))
