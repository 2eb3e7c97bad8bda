"""JSON as it is read everywhere: an object has no two members of one name, and numbers are numbers.

What two readers take for different values is a way past whoever checks the one and acts on the other.
"""

import json
from typing import Any, Final, NoReturn


class RepeatedKey(ValueError):
    """An object has two members of one name."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key[:60]!r} is there twice in one object")
        self.key = key


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Members of an object, for `object_pairs_hook`. Raises `RepeatedKey`."""
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(key)
            seen.add(key)
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(object_pairs_hook=unique, parse_constant=_no_constant).decode


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises `ValueError`: `RepeatedKey`, or another for what is no JSON or nested too deeply."""
    try:
        return _decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("the values are nested too deeply") from None
