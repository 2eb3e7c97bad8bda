"""State in PostgreSQL: what is read of it. It is changed by commits."""

from collections.abc import Mapping

from holdfast.store._postgresql_connections import Connections
from holdfast.store._rows import Row, keys_of, plain, state_of, state_page, state_range
from holdfast.store.protocol import Page, StateRow


class StateReads:
    """A part of the store."""

    _queries: Mapping[str, str]
    _connections: Connections

    def get_state(self, namespace: str, key: str) -> StateRow | None:
        rows = self._read("get_state", {"namespace": plain(namespace), "key": plain(key)})
        return state_of(rows[0]) if rows else None

    def list_state(
        self, namespace: str, *, now: int, prefix: str = "", limit: int = 1000, after: str | None = None
    ) -> Page[str]:
        return keys_of(self._read("list_state", state_page(namespace, prefix, now, limit, after)), limit)

    def count_state(self, root: str, now: int) -> int:
        return int(self._read("count_state", state_range(root) | {"now": now})[0][0])

    def drop_state(self, before: int) -> int:
        gone = self._connections.write(lambda c: c.execute(self._queries["drop_state"], (before,)).fetchone())
        return 0 if gone is None else int(gone[0])

    def _read(self, name: str, given: Mapping[str, object]) -> list[Row]:
        return self._connections.read(lambda c: c.execute(self._queries[name], given, binary=True).fetchall())
