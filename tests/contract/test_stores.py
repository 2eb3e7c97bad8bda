"""Every store is held to the same contract. PostgreSQL's is in test_postgresql_store.py, since it needs a server."""

import tempfile

from holdfast.store import Store
from holdfast.store.contract import StoreContract
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite import SqliteStore


class TestMemoryStore(StoreContract):
    def make(self) -> Store:
        return MemoryStore()


class TestSqliteStore(StoreContract):
    def make(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteStore(f"{self.folder.name}/store.db")

    def reopen(self, store: Store) -> Store:
        store.close()
        return SqliteStore(f"{self.folder.name}/store.db")

    def teardown_method(self) -> None:
        super().teardown_method()
        self.folder.cleanup()
