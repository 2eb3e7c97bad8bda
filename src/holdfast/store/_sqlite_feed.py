"""What SQLite tells those who follow what happens.

One process at a time writes, and each new step has the greatest key so far: the order of keys is that of commits.
"""

import sqlite3
from contextlib import closing
from uuid import UUID

from holdfast.domain import SessionNotFound
from holdfast.store._event_pages import Room
from holdfast.store._rows import check_place, cursor, plain_some, read_cursor, read_number, scanned, told_steps
from holdfast.store._sqlite_file import File
from holdfast.store.protocol import ToldStep


class FeedReads:
    """The part of a store that reads steps in the order in which they were committed."""

    _file: File
    _sql: dict[str, str]

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
        place = 0 if after is None else read_cursor("f", after)[0]
        with self._file.snapshot() as connection:
            values = {"after": place - including, "tenant": plain_some(tenant), "limit": scanned(limit, tenant)}
            with closing(connection.execute(self._sql["list_steps"], values)) as found:
                rows = list(Room(max_bytes).texts(found))
            if not rows:
                check_place(place, self._last(connection))
        skip = (after, after_seq) if including else None
        return told_steps(((cursor("f", row[0]), *row[1:]) for row in rows), limit, max_bytes, skip)

    def _list_steps_of(
        self, session_id: UUID, after: int, including: bool, after_seq: int, limit: int, max_bytes: int | None
    ) -> list[ToldStep]:
        with self._file.snapshot() as connection:
            key = self._session_key(connection, session_id)
            with closing(connection.execute(self._sql["list_steps_of_session"], (key, after - including, limit))) as found:
                rows = list(Room(max_bytes).texts(found))
            if not rows:
                check_place(after, self._last(connection, key))
        told = ((str(row[1]), True, session_id.bytes, *row) for row in rows)
        return told_steps(told, limit, max_bytes, (str(after), after_seq) if including else None)

    def last_cursor(self, session_id: UUID | None = None) -> str:
        with self._file.snapshot() as connection:
            if session_id is None:
                return cursor("f", self._last(connection))
            return str(self._last(connection, self._session_key(connection, session_id)))

    def _session_key(self, connection: sqlite3.Connection, session_id: UUID) -> int:
        row = connection.execute(self._sql["session_key"], (session_id.bytes,)).fetchone()
        if row is None:
            raise SessionNotFound
        return int(row[0])

    def _last(self, connection: sqlite3.Connection, session: int | None = None) -> int:
        """The greatest key, or the greatest number in a session."""
        if session is None:
            row = connection.execute(self._sql["last_key"]).fetchone()
        else:
            row = connection.execute(self._sql["last_number"], (session,)).fetchone()
        return int(row[0])
