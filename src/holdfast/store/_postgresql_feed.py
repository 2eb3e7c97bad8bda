"""What PostgreSQL tells those who follow what happens.

Several processes commit at once, and neither a sequence nor a transaction's number says which of them comes first. So the feed goes by
the numbers of transactions, and ends before the first that is still under way: nothing can be put before what was told. A transaction
that stays open, in whatever database of the server, holds the feed of all sessions back for so long. It loses nothing by that, and the
feed of a single session does not wait: its steps are numbered, and each is committed before the next one is made.

"Now" is between transactions that were under way and others that were over, with numbers greater than theirs. So a cursor may say which
were under way: the others are not told, as they were there before.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple
from uuid import UUID

from holdfast.domain import InvalidValue, SessionNotFound
from holdfast.store._postgresql_connections import Connection, Connections
from holdfast.store._rows import (
    Row,
    check_place,
    cursor,
    plain_some,
    read_cursor,
    read_number,
    scanned,
    told_steps,
)
from holdfast.store.protocol import ToldStep

_MOST_UNDER_WAY: Final = 64


class _Place(NamedTuple):
    """A step, and what was there when the feed began: transactions before `end`, except those `under_way`."""

    xid: int
    session: int
    number: int
    end: int = 0
    under_way: tuple[int, ...] = ()

    @property
    def snapshot(self) -> str | None:
        """As PostgreSQL writes it; None if it leaves nothing out that comes after this place."""
        if self.xid >= self.end:
            return None
        return f"{min(self.under_way)}:{self.end}:{','.join(map(str, self.under_way))}"

    @property
    def text(self) -> str:
        past = () if self.snapshot is None else (self.end, *self.under_way)
        return cursor("f", *self[:3], *past)

    def at(self, xid: int, session: int, number: int) -> "_Place":
        return self._replace(xid=xid, session=session, number=number)


_START: Final = _Place(0, 0, 0)


def _read(text: str) -> _Place:
    parts = read_cursor("f", text, None)
    if len(parts) == 3 and min(parts) >= 0:
        return _Place(parts[0], parts[1], parts[2])
    xid, session, number, end, *under_way = parts if len(parts) > 4 else (0, 0, 0, 0)
    ordered = [*under_way, end]
    if not under_way or len(under_way) > _MOST_UNDER_WAY or min(parts) < 0 or not 0 < ordered[0] <= xid < end:
        raise InvalidValue("this is not the cursor of such a feed")
    if any(one >= other for one, other in pairwise(ordered)):
        raise InvalidValue("this is not the cursor of such a feed")
    return _Place(xid, session, number, end, tuple(under_way))


def _now(snapshot: str) -> _Place:
    """Where the feed ends, by what PostgreSQL says about its transactions."""
    begin, end, under_way = snapshot.split(":")
    numbers = tuple(int(xid) for xid in under_way.split(",") if xid)
    if (
        not numbers or len(numbers) > _MOST_UNDER_WAY
    ):  # too many to carry along: some that are over are told as if they were new
        return _Place(int(begin), 0, 0)
    return _Place(int(begin), 0, 0, int(end), numbers)


class FeedReads:
    """The part of a store that reads steps in the order in which they were committed."""

    _queries: Mapping[str, str]
    _connections: Connections
    _all: Callable[..., list[Row]]

    def _settle_xids(self, connection: Connection) -> None:
        """When the store is opened. Nothing is written, unless it was restored from a dump."""
        if connection.execute(self._queries["has_foreign_xids"]).fetchone() is not None:
            connection.execute(self._queries["settle_xids"])

    def list_steps(
        self,
        *,
        session_id: UUID | None = None,
        tenant: str | None = None,
        after: str | None = None,
        including: bool = False,
        after_seq: int = 0,
        limit: int = 500,
        max_bytes: int | None = None,
    ) -> list[ToldStep]:
        if session_id is not None:
            number = 0 if after is None else read_number(after)
            return self._list_steps_of(session_id, number, including, after_seq, limit, max_bytes)
        place = _START if after is None else _read(after)
        given = {
            "xid": str(place.xid),
            "session": place.session,
            "number": place.number - including,
            "snapshot": place.snapshot,
            "tenant": plain_some(tenant),
            "limit": scanned(limit, tenant),
            "bytes": max_bytes,
        }

        def work(connection: Connection) -> list[Row]:
            rows = connection.execute(self._queries["list_steps"], given, binary=True).fetchall()
            if not rows:
                check_place(place.xid, connection.execute(self._queries["next_xid"], binary=True).fetchall()[0][0])
            return rows

        rows = self._connections.read(work)
        skip = (after, after_seq) if including else None
        return told_steps(((place.at(row[0], row[1], row[5]).text, *row[2:]) for row in rows), limit, max_bytes, skip)

    def _list_steps_of(
        self, session_id: UUID, after: int, including: bool, after_seq: int, limit: int, max_bytes: int | None
    ) -> list[ToldStep]:
        given = {"id": session_id, "after": max(after - including, 0), "limit": limit, "bytes": max_bytes}
        rows = self._all("list_steps_of_session", given)
        if not rows:
            check_place(after, self._last(session_id))
        told = ((str(row[1]), True, session_id.bytes, *row) for row in rows)
        return told_steps(told, limit, max_bytes, (str(after), after_seq) if including else None)

    def last_cursor(self, session_id: UUID | None = None) -> str:
        if session_id is not None:
            return str(self._last(session_id))
        return _now(self._all("snapshot")[0][0]).text

    def _last(self, session_id: UUID) -> int:
        rows = self._all("last_number", (session_id,))
        if not rows:
            raise SessionNotFound
        return int(rows[0][0])
