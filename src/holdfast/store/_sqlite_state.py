"""State in SQLite: what is read of it. It is changed by commits."""

from holdfast.store._rows import plain, read_plain, state_of, state_range
from holdfast.store._sqlite_file import File
from holdfast.store.protocol import Page, StateRow


class StateReads:
    """A part of the store."""

    _sql: dict[str, str]
    _file: File

    def get_state(self, namespace: str, key: str) -> StateRow | None:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_state"], (plain(namespace), plain(key))).fetchone()
            return None if row is None else state_of(row)

    def list_state(
        self, namespace: str, *, now: int, prefix: str = "", limit: int = 1000, after: str | None = None
    ) -> Page[str]:
        given = {
            "namespace": plain(namespace),
            "prefix": plain(prefix),
            "after": "" if after is None else plain(after),
            "first": after is None,
            "now": now,
            "limit": limit + 1,
        }
        with self._file.read() as connection:
            keys = [read_plain(row[0]) for row in connection.execute(self._sql["list_state"], given)]
        return Page(keys[:limit], keys[limit - 1] if len(keys) > limit else None)

    def count_state(self, root: str, now: int) -> int:
        with self._file.read() as connection:
            count: int = connection.execute(self._sql["count_state"], state_range(root) | {"now": now}).fetchone()[0]
            return count

    def drop_state(self, before: int) -> int:
        with self._file.write() as writing:
            return writing.execute(self._sql["drop_state"], (before,)).rowcount
