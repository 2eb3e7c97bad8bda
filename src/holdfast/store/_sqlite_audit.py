"""Audit log in SQLite: append, list, and the retention sweep."""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.domain import AuditEntry
from holdfast.store._rows import audit_of, audit_row, cursor, plain_some, read_cursor
from holdfast.store._sqlite_file import File
from holdfast.store.protocol import Page

_END: Final = (1 << 63) - 1


class AuditLog:
    """The part of a store that keeps the audit log."""

    _file: File
    _sql: dict[str, str]

    def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        rows = [audit_row(entry) for entry in entries]
        if rows:
            with self._file.write() as writing:
                writing.executemany(self._sql["append_audit"], rows)

    def list_audit(
        self,
        *,
        tenant: str | None = None,
        token: str | None = None,
        action: str | None = None,
        object_id: str | None = None,
        outcome: str | None = None,
        since: int | None = None,
        until: int | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[AuditEntry]:
        values: dict[str, Any] = {
            "after": _END if after is None else read_cursor("a", after)[0],
            "tenant": plain_some(tenant),
            "token": plain_some(token),
            "action": plain_some(action),
            "object": plain_some(object_id),
            "outcome": plain_some(outcome),
            "since": since,
            "until": until,
            "limit": limit + 1,
        }
        with self._file.read() as connection:
            rows = connection.execute(self._sql["list_audit"], values).fetchall()
            more = cursor("a", rows[limit - 1][0]) if len(rows) > limit else None
            return Page([audit_of(row[1:]) for row in rows[:limit]], more)

    def drop_audit(self, before: int, *, limit: int = 10_000) -> int:
        with self._file.write() as writing:
            return writing.execute(self._sql["drop_audit"], (before, limit)).rowcount
