"""Which store an address names."""

from holdfast.store._errors import StoreUnknown
from holdfast.store.protocol import Store


def open_store(address: str) -> Store:
    """The store at `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://...`; made if it is not there."""
    scheme, separator, rest = address.partition(":")
    if address == "memory:":
        from holdfast.store.memory import MemoryStore

        return MemoryStore()
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > 3:
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(rest[3:])
    if scheme in ("postgresql", "postgres") and separator:
        from holdfast.store.postgresql import PostgresqlStore

        return PostgresqlStore(address)
    raise StoreUnknown
