"""What a script says besides printing: log lines, progress, its own statistics. It comes from a guest, so nothing about it is certain."""

import json
from typing import Any, Final

from holdfast.domain import EventType
from holdfast.runtime._plain import plain
from holdfast.sandbox import jsontext

_encode: Final = json.JSONEncoder(ensure_ascii=False).encode
_LONGEST_LEVEL: Final = 40
_LONGEST_KEY: Final = 200
_LARGEST: Final = (1 << 53) - 1
MOST_STATS: Final = 32_768
"""How many characters of JSON the statistics of an execution have at most: they are written with each of its steps."""

Said = tuple[str, dict[str, Any]]


def log(record: Any) -> Said | None:
    """The event of a log line; None if it makes no sense."""
    said = plain(record)
    if not isinstance(said, dict) or not isinstance(said.get("message"), str):
        return None
    level = said.get("level")
    if not isinstance(level, str) or len(level) > _LONGEST_LEVEL:
        return None
    return EventType.LOG.value, {"level": level, "message": said["message"]}


def progress(record: Any) -> Said | None:
    """The event of a step forward; None if it makes no sense."""
    said = plain(record)
    if not isinstance(said, dict):
        return None
    step, total, message = _count(said.get("step")), _count(said.get("total")), said.get("message")
    if step is None or total is None or not isinstance(message, str | None):
        return None
    return EventType.PROGRESS.value, {"step": step, "total": total, "message": message}


class Stats:
    """The statistics of an execution, as a step leaves them. They count if the step does."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known
        self._fresh: dict[str, Any] = {}
        self._sizes: dict[str, int] | None = None
        self._size = 0

    def put(self, record: Any) -> str | None:
        """Keeps one. Gives why it is not kept, if it is not."""
        said = plain(record)
        key = said.get("key") if isinstance(said, dict) else None
        if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
            return f"a statistic has a name of 1 to {_LONGEST_KEY} characters"
        if self._sizes is None:
            self._sizes = {name: _size(name, value) for name, value in self._known.items()}
            self._size = sum(self._sizes.values())
        value = said.get("value")
        size = _size(key, value)
        total = self._size - self._sizes.get(key, 0) + size
        if total > MOST_STATS:
            return f"statistics have at most {MOST_STATS} characters: {key!r} is not kept"
        self._sizes[key], self._size = size, total
        self._fresh[key] = value
        return None

    def kept(self) -> dict[str, Any]:
        """All of them."""
        return self._known | self._fresh if self._fresh else self._known


def _size(key: str, value: Any) -> int:
    return len(jsontext.dumps({key: value}, _encode))


def _count(value: Any) -> int | None:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def slowed_down(seconds: float) -> dict[str, Any]:
    """The event that tells a session why it took long: its owner used so much that others came first."""
    message = (
        f"this step waited {seconds:.1f} s for its turn: this owner's scripts used much CPU time lately, and others come first then. "
        "The wait does not count as wall time; run fewer scripts at once, or shorter ones"
    )
    return {"level": "warn", "code": "SLOWED_DOWN", "message": message, "waited_ms": round(seconds * 1000)}
