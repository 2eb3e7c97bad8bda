"""When to try again, and after how long. No I/O here, and the clock comes from outside."""

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

BUSY: Final = frozenset({429, 502, 503, 504})
"""Statuses that may be others a moment later."""

CONFLICT: Final = 409
"""A conflict is final, unless the server says in `Retry-After` when to come back: then a session runs in another process."""

_FIRST_S: Final = 0.05
_LONGEST_S: Final = 2.0
_AGES_S: Final = 10 * 365 * 86_400


def is_time(seconds: object) -> bool:
    """Whether this is a number of seconds that one can wait. Whoever wants to wait for ever says so in another way."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= _AGES_S  # nor is NaN


class Backoff:
    """Waits longer from one failure to the next, no two clients alike, and gives up when that has gone on for `patience_s` seconds.

    The time is counted from the first failure, not from the first attempt: an execution may take minutes before its daemon dies.
    """

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s, self._clock = patience_s, clock
        self._failures = 0
        self._since: float | None = None

    def failed(self, at_least_s: float = 0.0) -> float | None:
        """How many seconds to wait before the next attempt; None: it is time to give up."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        step = min(_LONGEST_S, _FIRST_S * 2**self._failures)
        self._failures = min(self._failures + 1, 32)
        wait = max(at_least_s, step * random.uniform(0.5, 1.0))  # noqa: S311
        return wait if now + wait <= self._since + self._patience_s else None


def retry_after(headers: Mapping[str, str]) -> float:
    """What a server says in `Retry-After`, in seconds: a number or a date; 0 if nothing, or nothing that makes sense."""
    given = headers.get("Retry-After", "").strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        date = parsedate_to_datetime(given)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())
