"""Audit log in memory: append, list, and the retention sweep."""

import threading
from collections.abc import Sequence

from holdfast.domain import AuditEntry
from holdfast.store._memory_commits import Tables
from holdfast.store._rows import cursor, read_cursor
from holdfast.store.protocol import Page


class AuditLog:
    """The part of a store that keeps the audit log."""

    _lock: threading.RLock

    @property
    def _kept(self) -> Tables:
        raise NotImplementedError

    def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        with self._lock:
            tables = self._kept
            tables.audit += [(next(tables.counter), entry) for entry in entries]

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
        before = None if after is None else read_cursor("a", after)[0]
        with self._lock:
            found = [
                (key, entry)
                for key, entry in reversed(self._kept.audit)
                if (before is None or key < before)
                and tenant in (None, entry.tenant)
                and token in (None, entry.token)
                and action in (None, entry.action)
                and object_id in (None, entry.object_id)
                and outcome in (None, entry.outcome)
                and (since is None or entry.at >= since)
                and (until is None or entry.at < until)
            ]
        more = cursor("a", found[limit - 1][0]) if len(found) > limit else None
        return Page([entry for _, entry in found[:limit]], more)

    def drop_audit(self, before: int, *, limit: int = 10_000) -> int:
        with self._lock:
            old = sorted((entry.at, key) for key, entry in self._kept.audit if entry.at < before)[:limit]
            gone = {key for _, key in old}
            self._kept.audit = [pair for pair in self._kept.audit if pair[0] not in gone]
            return len(gone)
