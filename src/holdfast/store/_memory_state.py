"""State in memory: what is read of it. It is changed by commits."""

import threading

from holdfast.store._memory_commits import Tables
from holdfast.store._rows import plain
from holdfast.store.protocol import Page, StateRow


class StateReads:
    """A part of the store in memory."""

    _lock: threading.RLock

    @property
    def _kept(self) -> Tables:
        raise NotImplementedError

    def get_state(self, namespace: str, key: str) -> StateRow | None:
        with self._lock:
            return self._kept.state.get(namespace, {}).get(key)

    def list_state(
        self, namespace: str, *, now: int, prefix: str = "", limit: int = 1000, after: str | None = None
    ) -> Page[str]:
        with self._lock:
            rows = self._kept.state.get(namespace, {}).values()
            found = [row.key for row in rows if row.key.startswith(prefix) and _lives(row, now)]
        found.sort(key=plain)
        if after is not None:
            found = [key for key in found if plain(key) > plain(after)]
        return Page(found[:limit], found[limit - 1] if len(found) > limit else None)

    def count_state(self, root: str, now: int) -> int:
        with self._lock:
            spaces = [rows.values() for namespace, rows in self._kept.state.items() if namespace.startswith(root)]
            return sum(_lives(row, now) for rows in spaces for row in rows)

    def drop_state(self, before: int) -> int:
        with self._lock:
            gone = [
                (namespace, row.key)
                for namespace, rows in self._kept.state.items()
                for row in rows.values()
                if not _lives(row, before)
            ]
            for namespace, key in gone:
                del self._kept.state[namespace][key]
                if not self._kept.state[namespace]:
                    del self._kept.state[namespace]
            return len(gone)


def _lives(row: StateRow, now: int) -> bool:
    return row.expires_at is None or row.expires_at > now
