"""Brings the tables of a PostgreSQL database up to date."""

from collections.abc import Sequence
from typing import Final

from holdfast.store._errors import StoreTooNew
from holdfast.store._postgresql_connections import Connection

# Any number will do, as long as every process takes the same: it is the initials of Holdfast.
_LOCK: Final = 0x68_66

# Not by to_regclass: it may remember, within a transaction, that there was none.
_EXISTS: Final = "SELECT 1 FROM pg_class WHERE relname = 'schema_version' AND relnamespace = current_schema()::regnamespace"
_READ: Final = "SELECT version FROM schema_version"


def migrate(connection: Connection, migrations: Sequence[str]) -> None:
    """Runs those that have not run, in one transaction. Several processes may do so at once. `StoreTooNew`."""
    if _version(connection, len(migrations)) == len(migrations):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = _version(connection, len(migrations))
        if version == 0:
            connection.execute("CREATE TABLE schema_version (version bigint NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES (0)")
        for migration in migrations[version:]:
            connection.execute(migration.encode())
        connection.execute("UPDATE schema_version SET version = %s", (len(migrations),))


def _version(connection: Connection, known: int) -> int:
    exists = connection.execute(_EXISTS).fetchone() is not None
    row = connection.execute(_READ).fetchone() if exists else None
    version = int(row[0]) if row else 0
    if version > known:
        raise StoreTooNew
    return version
