"""Brings an SQLite file to the present schema. Only forward: what a newer Holdfast has written is refused."""

import sqlite3
from collections.abc import Iterator, Sequence

from holdfast.store._errors import StoreDamaged, StoreTooNew

_APPLICATION = 0x686F6C64  # "hold", in the file's header: whose file it is


def migrate(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Runs what is missing, each in a transaction of its own. The schema's version is how many have run.

    Foreign keys are off meanwhile, so that a table can be made anew without deleting what refers to it; they are checked at the end.
    """
    if _version(connection, len(migrations)) == len(migrations):
        return
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        _run(connection, migrations)
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def _run(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    while _version(connection, len(migrations)) < len(migrations):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again: another process may have been faster.
            done = _version(connection, len(migrations))
            if done < len(migrations):
                for statement in _statements(migrations[done]):
                    connection.execute(statement)
                if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
                    raise StoreDamaged
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {done + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _version(connection: sqlite3.Connection, newest: int) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION and (version or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()):
        raise StoreDamaged("This is a database, but not one of Holdfast.")
    if version > newest:
        raise StoreTooNew
    return version


def _statements(script: str) -> Iterator[str]:
    """`executescript` would commit; so one by one."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not so in the middle of a text or a comment
            yield statement
            statement = ""
