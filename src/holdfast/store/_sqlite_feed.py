"""What SQLite tells those who follow what happens.

One process at a time writes, and each new step has the greatest key so far: the order of keys is that of commits.
"""

import sqlite3
from uuid import UUID

from holdfast.domain import SessionNotFound
from holdfast.store._rows import check_place, cursor, plain_some, read_cursor, read_number, scanned, told_step, told_steps
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
        limit: int = 500,
    ) -> list[ToldStep]:
        if session_id is not None:
            return self._list_steps_of(session_id, 0 if after is None else read_number(after), including, limit)
        place = 0 if after is None else read_cursor("f", after)[0]
        with self._file.snapshot() as connection:
            values = {"after": place - including, "tenant": plain_some(tenant), "limit": scanned(limit, tenant)}
            rows = connection.execute(self._sql["list_steps"], values).fetchall()
            if not rows:
                check_place(place, self._last(connection))
        return told_steps(((cursor("f", row[0]), *row[1:]) for row in rows), limit)

    def _list_steps_of(self, session_id: UUID, after: int, including: bool, limit: int) -> list[ToldStep]:
        with self._file.snapshot() as connection:
            key = self._session_key(connection, session_id)
            rows = connection.execute(self._sql["list_steps_of_session"], (key, after - including, limit)).fetchall()
            if not rows:
                check_place(after, self._last(connection, key))
        return [step for row in rows for step in told_step(str(row[1]), session_id.bytes, *row)]

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
