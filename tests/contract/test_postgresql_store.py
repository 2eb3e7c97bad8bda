"""PostgreSQL keeps the contract of stores, on a real server."""

from holdfast.store import Store
from holdfast.store.contract import StoreContract
from holdfast.store.postgresql import PostgresqlStore
from tests.postgres import fresh_schema


class TestPostgresql(StoreContract):
    def make(self) -> Store:
        self.address = fresh_schema()
        return PostgresqlStore(self.address)

    def reopen(self, store: Store) -> Store:
        store.close()
        return PostgresqlStore(self.address)
