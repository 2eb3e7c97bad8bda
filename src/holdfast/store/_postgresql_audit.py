"""Audit log in PostgreSQL: append, list, and the retention sweep."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from holdfast.domain import AuditEntry
from holdfast.store._postgresql_connections import Connection, Connections
from holdfast.store._rows import Row, audit_of, audit_row, cursor, plain_some, read_cursor
from holdfast.store.protocol import Page

_LAST: Final = (1 << 63) - 1


class AuditLog:
    """The part of a store that keeps the audit log."""

    _queries: Mapping[str, str]
    _connections: Connections
    _page: Callable[..., Page[Any]]
    _write: Callable[..., list[Row]]

    def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        rows = [audit_row(entry) for entry in entries]

        def work(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as at:
                at.executemany(self._queries["append_audit"], rows)

        if rows:
            self._connections.write(work)

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
        given = {
            "after": _LAST if after is None else read_cursor("a", after)[0],
            "tenant": plain_some(tenant),
            "token": plain_some(token),
            "action": plain_some(action),
            "object": plain_some(object_id),
            "outcome": plain_some(outcome),
            "since": since,
            "until": until,
        }
        return self._page(
            "list_audit", given, limit, lambda rows: [audit_of(row[1:]) for row in rows], lambda row: cursor("a", row[0])
        )

    def drop_audit(self, before: int, *, limit: int = 10_000) -> int:
        return int(self._write("drop_audit", (before, limit))[0][0])
