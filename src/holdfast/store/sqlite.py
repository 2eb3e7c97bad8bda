"""SQLite: one file, several processes if need be, every commit on the disk before it is acknowledged."""

import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from holdfast.domain import (
    ErrorEntryNotFound,
    HoldfastError,
    NameTaken,
    Template,
    TemplateInUse,
    TemplateNotFound,
    TemplateVersion,
    VersionConflict,
    template_root,
)
from holdfast.store._damage import confined, secret_of
from holdfast.store._rows import (
    Row,
    cursor,
    document_of,
    listed_ids,
    pack,
    plain,
    plain_some,
    read_cursor,
    read_plain,
    reply_of,
    reply_row,
    state_range,
    template_of,
    template_row,
    version_of,
    version_row,
)
from holdfast.store._sql import load_migrations, load_queries
from holdfast.store._sqlite_audit import AuditLog
from holdfast.store._sqlite_commits import Committer
from holdfast.store._sqlite_feed import FeedReads
from holdfast.store._sqlite_file import File
from holdfast.store._sqlite_sessions import SessionReads
from holdfast.store._sqlite_state import StateReads
from holdfast.store._usage import usage_of
from holdfast.store.protocol import LONGEST_LEASE_MS, Commit, Page, Rebased, Reply, UsageRow

_DAY_MS: Final = 86_400_000
_END: Final = (1 << 63) - 1


class SqliteStore(SessionReads, FeedReads, StateReads, AuditLog):
    """A store in one SQLite file, which is made if it is not there.

    `patience_ms` is how long a call waits for other processes that write. `migrations` is for tests.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, patience_ms: int = 10_000, migrations: Sequence[str] | None = None
    ) -> None:
        self._sql = load_queries("sqlite")
        self._file = File(os.fspath(path), load_migrations("sqlite") if migrations is None else migrations, patience_ms)
        self._committer = Committer(self._sql)

    @property
    def path(self) -> str:
        """The file. Others lie beside it while the store is open."""
        return self._file.path

    dialect: Final = "sqlite"

    def maintain(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement of maintenance, which marks its values as `%s`: see `holdfast.store.repair`."""
        with self._file.write() as writing:
            return writing.execute(statement.replace("%s", "?"), tuple(values)).fetchall()

    def close(self) -> None:
        self._file.close()

    def stop_waiting(self) -> None:
        """There is no server."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def secret(self, name: str, fresh: bytes) -> bytes:
        found = self.find_secret(name)
        if found is None:
            key = (plain(name),)
            with self._file.write() as writing:
                writing.execute(self._sql["put_secret"], (*key, fresh))
                found = secret_of(name, writing.execute(self._sql["get_secret"], key).fetchone()[0])
        return found

    def find_secret(self, name: str) -> bytes | None:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_secret"], (plain(name),)).fetchone()
            return None if row is None else secret_of(name, row[0])

    # ---- templates

    def create_template(self, template: Template, version: TemplateVersion) -> None:
        rows = template_row(template), version_row(version)
        with self._file.write() as writing:
            try:
                writing.execute(self._sql["insert_template"], rows[0])
            except sqlite3.IntegrityError:
                raise NameTaken from None
            self._insert_version(writing, writing.lastrowid, rows[1])

    def add_version(self, version: TemplateVersion, updated_at: int) -> None:
        values, template_id = version_row(version), version.template_id.bytes
        with self._file.write() as writing:
            found = writing.execute(self._sql["template_by_id"], {"id": template_id, "tenant": None}).fetchone()
            if found is None:
                raise TemplateNotFound
            writing.execute(self._sql["update_template"], (version.number, updated_at, template_id, version.number - 1))
            if not writing.rowcount:
                raise VersionConflict
            self._insert_version(writing, found[0], values)

    def rename_template(self, template_id: UUID, name: str, updated_at: int) -> None:
        with self._file.write() as writing:
            try:
                writing.execute(self._sql["rename_template"], (plain(name), updated_at, template_id.bytes))
            except sqlite3.IntegrityError:
                raise NameTaken from None
            if not writing.rowcount:
                raise TemplateNotFound

    def _insert_version(self, writing: sqlite3.Cursor, template: int | None, values: Row) -> None:
        writing.execute(self._sql["insert_version"], (template, *values))
        if not writing.rowcount:  # what was baked for it went with another template, after it was looked for
            raise VersionConflict

    def get_template(self, which: UUID | str, *, tenant: str | None = None) -> Template:
        by, key = ("name", plain(which)) if isinstance(which, str) else ("id", which.bytes)
        values = {by: key, "tenant": plain_some(tenant)}
        with self._file.read() as connection:
            row = connection.execute(self._sql[f"template_by_{by}"], values).fetchone()
            if row is None:
                raise TemplateNotFound
            return template_of(row[1:])

    def get_version(self, template_id: UUID, number: int) -> TemplateVersion:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_version"], (template_id.bytes, number)).fetchone()
            if row is None:
                raise TemplateNotFound
            return version_of(template_id, row)

    def list_templates(self, *, tenant: str | None = None, limit: int = 50, after: str | None = None) -> Page[Template]:
        key = _END if after is None else read_cursor("t", after)[0]
        values = {"after": key, "tenant": plain_some(tenant), "limit": limit + 1}
        with self._file.read() as connection:
            rows = connection.execute(self._sql["list_templates"], values).fetchall()
            more = cursor("t", rows[limit - 1][0]) if len(rows) > limit else None
            return Page(confined([row[1:] for row in rows[:limit]], template_of), more)

    def list_versions(self, template_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[TemplateVersion]:
        number = _END if after is None else read_cursor("v", after)[0]
        with self._file.read() as connection:
            rows = connection.execute(self._sql["list_versions"], (template_id.bytes, number, limit + 1)).fetchall()
            more = cursor("v", rows[limit - 1][0]) if len(rows) > limit else None
            return Page(confined(rows[:limit], lambda row: version_of(template_id, row)), more)

    def delete_template(self, template_id: UUID) -> None:
        with self._file.write() as writing:
            baked = writing.execute(self._sql["baked_of_template"], (template_id.bytes,)).fetchall()
            try:
                writing.execute(self._sql["delete_template"], (template_id.bytes,))
            except sqlite3.IntegrityError:  # sessions refer to it
                raise TemplateInUse from None
            if not writing.rowcount:
                raise TemplateNotFound
            writing.executemany(self._sql["drop_baked"], baked)
            writing.execute(self._sql["delete_states"], state_range(template_root(template_id)))

    def drop_versions(self, keep: int | None, before: int | None) -> int:
        with self._file.write() as writing:
            gone = writing.execute(self._sql["drop_versions"], {"keep": keep, "before": before}).fetchall()
            writing.executemany(self._sql["drop_baked"], {(baked,) for (baked,) in gone})
            return len(gone)

    def put_blob(self, digest: bytes, data: bytes) -> None:
        with self._file.write() as writing:
            writing.execute(self._sql["put_blob"], (digest, data))

    def get_blob(self, digest: bytes) -> bytes | None:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_blob"], (digest,)).fetchone()
        return None if row is None else bytes(row[0])

    # ---- sessions

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        if not commits:
            return []
        with self._file.write() as writing:
            return self._committer.write(writing, commits)

    def delete_session(self, session_id: UUID, rebased: Sequence[Rebased] = ()) -> None:
        with self._file.write() as writing:
            self._committer.delete(writing, session_id, rebased)

    def resolve_error(self, session_id: UUID, error_id: UUID, at: int) -> None:
        with self._file.write() as writing:
            writing.execute(self._sql["resolve_error"], (at, session_id.bytes, error_id.bytes))
            if not writing.rowcount:
                raise ErrorEntryNotFound

    # ---- usage

    def read_usage(self, scope: str, hour: int) -> list[UsageRow]:
        with self._file.read() as connection:
            return usage_of(connection.execute(self._sql["read_usage"], (plain(scope), hour)))

    def count_running(self, tenant: str, but: UUID) -> dict[str, int]:
        with self._file.read() as connection:
            rows = connection.execute(self._sql["count_running"], (plain(tenant), but.bytes))
            return {read_plain(token): count for token, count in rows}

    def drop_usage(self, before: int) -> int:
        with self._file.write() as writing:
            return writing.execute(self._sql["drop_usage"], (before,)).rowcount

    # ---- requests

    def get_reply(self, key: str) -> Reply | None:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_reply"], (plain(key),)).fetchone()
            return None if row is None else reply_of(row)

    def put_reply(self, reply: Reply) -> None:
        row = reply_row(reply)
        with self._file.write() as writing:
            writing.execute(self._sql["put_reply"], row)

    def drop_replies(self, before: int) -> int:
        with self._file.write() as writing:
            return writing.execute(self._sql["drop_replies"], (before,)).rowcount

    # ---- leases

    def _living(self) -> tuple[int, int]:
        """When the lease of a living node ends: not before and not after."""
        now = self.now()
        return now + 1, now + LONGEST_LEASE_MS

    def beat(self, node: UUID, lease_ms: int) -> None:
        with self._file.write() as writing:
            now = self.now()
            writing.execute(self._sql["beat"], (node.bytes, now + lease_ms))
            writing.execute(self._sql["forget_nodes"], (now - _DAY_MS,))

    def retire(self, node: UUID) -> None:
        with self._file.write() as writing:
            writing.execute(self._sql["retire"], (node.bytes,))

    def is_alive(self, node: UUID) -> bool:
        with self._file.read() as connection:
            return connection.execute(self._sql["is_alive"], (node.bytes, *self._living())).fetchone() is not None

    def list_leases(self) -> list[UUID]:
        with self._file.read() as connection:
            rows = connection.execute(self._sql["list_leases"], self._living()).fetchall()
            return listed_ids(rows)

    def list_interrupted(self, *, limit: int = 100) -> list[UUID]:
        with self._file.read() as connection:
            return listed_ids(connection.execute(self._sql["list_interrupted"], (*self._living(), limit)).fetchall())

    def list_due(self, until: int, *, limit: int = 1000) -> list[tuple[int, UUID]]:
        with self._file.read() as connection:
            rows = connection.execute(self._sql["list_due"], (until, limit)).fetchall()
            return confined(rows, lambda row: (int(row[0]), UUID(bytes=row[1])))

    # ---- documents

    def create_document(self, document_id: str, data: dict[str, Any]) -> int:
        text = pack(data)
        with self._file.write() as writing:
            writing.execute(self._sql["create_document"], (plain(document_id), text))
            if not writing.rowcount:
                raise VersionConflict
            return 1

    def get_document(self, document_id: str) -> tuple[int, dict[str, Any]] | None:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_document"], (plain(document_id),)).fetchone()
            return None if row is None else document_of(document_id, row)

    def update_document(self, document_id: str, data: dict[str, Any], expected: int | None) -> int:
        name, text = plain(document_id), pack(data)
        with self._file.write() as writing:
            writing.execute(self._sql["update_document"], (text, name, expected, expected))
            if not writing.rowcount:
                if expected is not None:
                    raise VersionConflict
                writing.execute(self._sql["create_document"], (name, text))
            version: int = writing.execute(self._sql["document_version"], (name,)).fetchone()[0]
            return version

    def delete_document(self, document_id: str) -> bool:
        with self._file.write() as writing:
            return writing.execute(self._sql["delete_document"], (plain(document_id),)).rowcount > 0

    def list_documents(self) -> list[str]:
        with self._file.read() as connection:
            return confined(connection.execute(self._sql["list_documents"]), lambda row: read_plain(row[0]))
