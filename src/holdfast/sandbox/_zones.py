"""Time zones as tables that a guest can search: it has no zone database and must not depend on the host's."""

import struct
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.sandbox._errors import ValueRefused

_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2100, 1, 1, tzinfo=UTC)
_STRIDE: Final = timedelta(days=7)  # no zone changes its offset twice in a week and back


@lru_cache(maxsize=64)
def zone_table(name: str) -> bytes:
    """The name, a NUL, and pairs of when an offset begins and what it is, in seconds. See guests/common/clock.c."""
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueRefused(f"there is no time zone {name!r}") from None
    pairs = [(int(_FIRST.timestamp()), _offset(zone, _FIRST))]
    moment = _FIRST
    while moment < _LAST:
        following = moment + _STRIDE
        if _offset(zone, following) != pairs[-1][1]:
            pairs.append(_transition(zone, moment, following))
        moment = following
    return name.encode() + b"\0" + b"".join(struct.pack("<qi", *pair) for pair in pairs)


def _offset(zone: ZoneInfo, moment: datetime) -> int:
    offset = moment.astimezone(zone).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def _transition(zone: ZoneInfo, low: datetime, high: datetime) -> tuple[int, int]:
    """The first second with the offset that holds at `high`."""
    after = _offset(zone, high)
    first, last = int(low.timestamp()), int(high.timestamp())
    while last - first > 1:
        middle = (first + last) // 2
        if _offset(zone, datetime.fromtimestamp(middle, UTC)) == after:
            last = middle
        else:
            first = middle
    return last, after
