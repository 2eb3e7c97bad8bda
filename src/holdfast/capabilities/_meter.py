"""How often native modules were called, with what outcome, and how long that took."""

import threading
from typing import Final, NamedTuple

_REFUSALS: Final = ("_NOT_ALLOWED", "_NOT_GRANTED")
_OTHERS: Final = frozenset(["INVALID_PATH", "HOST_FUNCTION_NOT_FOUND"])


def is_refusal(code: str | None) -> bool:
    """Whether an error says that something is not granted, rather than that it went wrong.

    >>> is_refusal("PROGRAM_NOT_ALLOWED"), is_refusal("PROGRAM_FAILED")
    (True, False)
    """
    return code is not None and (code.endswith(_REFUSALS) or code in _OTHERS)


class Called(NamedTuple):
    """The calls of one function that ended in one way."""

    module: str
    function: str
    outcome: str
    """ok, error or refused"""
    calls: int
    seconds: float


class Meter:
    """Counts calls, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str, str], tuple[int, float]] = {}

    def count(self, module: str, function: str, outcome: str, seconds: float) -> None:
        with self._lock:
            count, total = self._rows.get((module, function, outcome), (0, 0.0))
            self._rows[module, function, outcome] = count + 1, total + seconds

    def rows(self) -> list[Called]:
        """All so far, by name."""
        with self._lock:
            return [Called(*key, *value) for key, value in sorted(self._rows.items())]
