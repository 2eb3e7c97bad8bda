"""State in SQLite: what is read of it. It is changed by commits."""

from holdfast.store._rows import keys_of, plain, state_of, state_page, state_range
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
        with self._file.read() as connection:
            rows = connection.execute(self._sql["list_state"], state_page(namespace, prefix, now, limit, after))
            return keys_of(rows, limit)

    def count_state(self, root: str, now: int) -> int:
        with self._file.read() as connection:
            count: int = connection.execute(self._sql["count_state"], state_range(root) | {"now": now}).fetchone()[0]
            return count

    def drop_state(self, before: int) -> int:
        with self._file.write() as writing:
            return writing.execute(self._sql["drop_state"], (before,)).rowcount
