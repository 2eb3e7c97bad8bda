"""Sessions in a PostgreSQL database, for several processes and machines at once."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final
from uuid import UUID

from holdfast.domain import (
    CheckpointNotFound,
    ErrorEntry,
    ErrorEntryNotFound,
    Event,
    Execution,
    ExecutionKind,
    ExecutionNotFound,
    ExecutionStatus,
    HoldfastError,
    NameTaken,
    Node,
    Origin,
    Query,
    QueryKind,
    QueryNotFound,
    QueryState,
    Session,
    SessionNotFound,
    SessionState,
    Template,
    TemplateInUse,
    TemplateNotFound,
    TemplateVersion,
    VersionConflict,
    template_root,
)
from holdfast.store import _rows
from holdfast.store._damage import DAMAGED_ERROR, confined, damaged, secret_of
from holdfast.store._postgresql_audit import AuditLog
from holdfast.store._postgresql_commit import Committer
from holdfast.store._postgresql_connections import LONGEST_HELD, Connection, Connections
from holdfast.store._postgresql_driver import psycopg
from holdfast.store._postgresql_feed import FeedReads
from holdfast.store._postgresql_schema import migrate
from holdfast.store._postgresql_state import StateReads
from holdfast.store._rows import Row, cursor, pack, plain, plain_some, read_cursor, read_plain
from holdfast.store._sql import load_migrations, load_queries
from holdfast.store._usage import usage_of
from holdfast.store.protocol import Commit, Link, Loaded, Page, Rebased, Reply, StrategyFigures, UsageRow

_LAST: Final = (1 << 63) - 1
_FIRST: Final = -(1 << 63)
_SESSION: Final = 31
"""How many columns a session has."""


class PostgresqlStore(FeedReads, StateReads, AuditLog):
    """A store at an address as libpq knows them. Its tables are made, or brought up to date, in the first schema of the search path.

    >>> PostgresqlStore("postgresql://localhost/holdfast?options=-csearch_path%3Dmine")  # doctest: +SKIP

    `patience` is for how many seconds a write tries to reach a server again that is gone.
    """

    def __init__(self, address: str, *, patience: float = 5.0, migrations: Sequence[str] | None = None) -> None:
        self._queries: Mapping[str, str] = load_queries("postgresql")
        self._committer = Committer(self._queries)
        self._connections = Connections(address, patience, self._committer.prepare)
        wanted = load_migrations("postgresql") if migrations is None else migrations
        try:
            self._connections.open(lambda connection: self._prepare(connection, wanted))
        except BaseException:
            self.close()
            raise

    def _prepare(self, connection: Connection, migrations: Sequence[str]) -> None:
        migrate(connection, migrations)
        self._settle_xids(connection)

    def stop_waiting(self) -> None:
        """Let writes fail at once while the server is away: the process is about to end."""
        self._connections.stop_waiting()

    dialect: Final = "postgresql"

    def maintain(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement of maintenance, which marks its values as `%s`: see `holdfast.store.repair`."""

        def work(connection: Connection) -> list[Row]:
            done = connection.execute(statement, tuple(values), binary=True)
            return done.fetchall() if done.description else []

        return self._connections.write(work)

    def close(self) -> None:
        self._connections.close()

    def secret(self, name: str, fresh: bytes) -> bytes:
        found = self.find_secret(name)
        if found is None:
            self._write("put_secret", (plain(name), fresh))
            found = self.find_secret(name)  # that of another process, if it was faster
        return fresh if found is None else found

    def find_secret(self, name: str) -> bytes | None:
        row = self._row("get_secret", (plain(name),))
        return None if row is None else secret_of(name, row[0])

    def now(self) -> int:
        return self._number("now")

    # ---- templates

    def create_template(self, template: Template, version: TemplateVersion) -> None:
        def work(connection: Connection, again: bool) -> None:
            row = template.id, *_rows.template_row(template)[1:]
            if connection.execute(self._queries["create_template"], row).fetchone() is None:
                named = {"name": plain(template.name), "tenant": plain(template.tenant)}
                known = connection.execute(self._queries["get_template_by_name"], named, binary=True).fetchone()
                if again and known is not None and known[0] == template.id.bytes:
                    return  # written by the attempt before, which was not acknowledged
                raise NameTaken
            self._create_version(connection, version)

        self._write_versions(work)

    def add_version(self, version: TemplateVersion, updated_at: int) -> None:
        given = {"id": version.template_id, "number": version.number, "updated_at": updated_at}

        def work(connection: Connection, again: bool) -> None:
            if connection.execute(self._queries["advance_template"], given).fetchone() is None:
                named = {"id": version.template_id, "tenant": None}
                row = connection.execute(self._queries["get_template_by_id"], named, binary=True).fetchone()
                if row is None:
                    raise TemplateNotFound
                number = (version.template_id, version.number)
                there = connection.execute(self._queries["get_version"], number, binary=True).fetchone()
                if again and there == _rows.version_row(version):
                    return
                raise VersionConflict
            self._create_version(connection, version)

        self._write_versions(work)

    def rename_template(self, template_id: UUID, name: str, updated_at: int) -> None:
        def work(connection: Connection) -> bool:
            try:
                row = (plain(name), updated_at, template_id)
                return connection.execute(self._queries["rename_template"], row).fetchone() is not None
            except psycopg.errors.UniqueViolation:
                raise NameTaken from None

        if not self._connections.write(work):
            raise TemplateNotFound

    def _write_versions(self, work: Callable[[Connection, bool], None]) -> None:
        """One transaction at a time, of all processes. `work` is told whether it came to its commit before, and no word came back."""
        unsure = False

        def attempt(connection: Connection) -> None:
            nonlocal unsure
            with connection.transaction():
                connection.execute(self._queries["lock_versions"])
                work(connection, unsure)
                unsure = True

        # The lock may be that of a process that was stopped: it is worth waiting until PostgreSQL ends its transaction.
        self._connections.write(attempt, locks=LONGEST_HELD)

    def _create_version(self, connection: Connection, version: TemplateVersion) -> None:
        row = version.template_id, *_rows.version_row(version)
        if connection.execute(self._queries["create_version"], row).fetchone() is None:
            raise VersionConflict  # what was baked for it went with another template, after it was looked for

    def get_template(self, which: UUID | str, *, tenant: str | None = None) -> Template:
        by, value = ("id", which) if isinstance(which, UUID) else ("name", plain(which))
        given = {by: value, "tenant": plain_some(tenant)}
        return _rows.template_of(_found(self._row(f"get_template_by_{by}", given), TemplateNotFound))

    def get_version(self, template_id: UUID, number: int) -> TemplateVersion:
        return _rows.version_of(template_id, _found(self._row("get_version", (template_id, number)), TemplateNotFound))

    def list_templates(self, *, tenant: str | None = None, limit: int = 50, after: str | None = None) -> Page[Template]:
        given = {"after": _position("t", after, _LAST)[0], "tenant": plain_some(tenant)}
        return self._page(
            "list_templates",
            given,
            limit,
            lambda rows: confined([row[1:] for row in rows], _rows.template_of),
            lambda row: cursor("t", row[0]),
        )

    def list_versions(self, template_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[TemplateVersion]:
        given = {"id": template_id, "after": _position("v", after, _LAST)[0]}
        return self._page(
            "list_versions",
            given,
            limit,
            lambda rows: confined(rows, lambda row: _rows.version_of(template_id, row)),
            lambda row: cursor("v", row[0]),
        )

    def delete_template(self, template_id: UUID) -> None:
        def work(connection: Connection, again: bool) -> None:
            baked = connection.execute(self._queries["baked_of_template"], (template_id,)).fetchall()
            try:
                gone = connection.execute(self._queries["delete_template"], (template_id,)).fetchone()
            except psycopg.errors.ForeignKeyViolation:
                raise TemplateInUse from None
            if gone is None and not again:
                raise TemplateNotFound
            connection.execute(self._queries["drop_baked"], ([digest for (digest,) in baked],))
            connection.execute(self._queries["delete_states"], _rows.state_range(template_root(template_id)))

        self._write_versions(work)

    def drop_versions(self, keep: int | None, before: int | None) -> int:
        gone: list[Any] = []

        def work(connection: Connection, again: bool) -> None:
            gone[:] = connection.execute(self._queries["drop_versions"], {"keep": keep, "before": before}).fetchall()
            connection.execute(self._queries["drop_baked"], ([digest for (digest,) in gone],))

        self._write_versions(work)
        return len(gone)

    def put_blob(self, digest: bytes, data: bytes) -> None:
        self._write("put_blob", (digest, data))

    def get_blob(self, digest: bytes) -> bytes | None:
        row = self._row("get_blob", (digest,))
        return None if row is None else bytes(row[0])

    # ---- sessions

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        return self._committer.commit(self._connections, commits)

    def get_session(self, session_id: UUID) -> Session:
        return _rows.session_of(_found(self._row("get_session", (session_id,)), SessionNotFound))

    def show_session(self, session_id: UUID) -> Session:
        return _rows.listed_sessions([_found(self._row("get_session", (session_id,)), SessionNotFound)])[0]

    def owner_of_session(self, session_id: UUID) -> str:
        return _rows.read_plain(_found(self._row("owner_of_session", (session_id,)), SessionNotFound)[0])

    def owner_of_execution(self, execution_id: UUID) -> str:
        return _rows.read_plain(_found(self._row("owner_of_execution", (execution_id,)), ExecutionNotFound)[0])

    def close_damaged(self, session_id: UUID, at: int, state: SessionState = SessionState.CLOSED) -> None:
        values = {"id": session_id, "at": at, "error": DAMAGED_ERROR, "state": state.value}
        if not self._write("close_damaged", values):
            raise SessionNotFound

    def load(self, session_id: UUID) -> Loaded:
        return self._connections.read(lambda connection: self._load(connection, session_id))

    def _load(self, connection: Connection, session_id: UUID) -> Loaded:
        while True:
            row = connection.execute(self._queries["load_session"], (session_id,), binary=True).fetchone()
            key, begun, *rest = _found(row, SessionNotFound)
            session, execution = _rows.session_of(tuple(rest[:_SESSION])), tuple(rest[_SESSION:])
            waiting = connection.execute(self._queries["load_open"], (key,), binary=True).fetchall()
            effects: list[Row] = []
            if begun is not None:
                effects = connection.execute(self._queries["load_effects"], (key,), binary=True).fetchall()
            links = connection.execute(self._queries["load_chain"], {"id": session_id}, binary=True).fetchall()
            # Each statement sees a moment of its own. They are one if the session was the same before and after; else once more.
            if not links:
                raise damaged("checkpoint", f"{session_id}/{session.head}")
            if links[0][0] == session.version:
                break
        try:
            chain = _links([link[1:] for link in links])
        except CheckpointNotFound:
            raise damaged("checkpoint", f"{session_id}/{session.head}") from None
        return Loaded(
            session=session,
            execution=None if execution[0] is None else _rows.execution_of(session_id, execution),
            open=[_rows.query_of(session_id, query) for query in waiting],
            begun=None if begun is None else _rows.begun_of(begun, effects),
            chain=chain,
        )

    def list_sessions(
        self,
        *,
        states: Sequence[SessionState] = (),
        template_id: UUID | None = None,
        name: str | None = None,
        idle_before: int | None = None,
        tenant: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Session]:
        given = {
            "after": _position("s", after, _LAST)[0],
            "states": _values(states),
            "template_id": template_id,
            "name": None if name is None else plain(name),
            "idle_before": idle_before,
            "tenant": plain_some(tenant),
        }
        return self._page(
            "list_sessions",
            given,
            limit,
            lambda rows: _rows.listed_sessions(row[1:] for row in rows),
            lambda row: cursor("s", row[0]),
        )

    def count_sessions(self, *, tenant: str | None = None) -> dict[SessionState, int]:
        counts: dict[str, int] = dict(self._all("count_sessions", {"tenant": plain_some(tenant)}))
        return {state: counts[state.value] for state in SessionState if state.value in counts}

    def delete_session(self, session_id: UUID, rebased: Sequence[Rebased] = ()) -> None:
        attempts = count()

        def work(connection: Connection) -> None:
            again = next(attempts) > 0
            with connection.transaction(), connection.cursor(binary=True) as at:
                try:
                    self._committer.delete(at, session_id, rebased)
                except SessionNotFound:
                    if not again:
                        raise

        self._connections.write(work)

    # ---- what sessions have

    def get_execution(self, execution_id: UUID) -> Execution:
        row = _found(self._row("get_execution", (execution_id,)), ExecutionNotFound)
        return _rows.execution_of(UUID(bytes=row[0]), row[1:])

    def list_executions(
        self,
        session_id: UUID | None = None,
        *,
        statuses: Sequence[ExecutionStatus] = (),
        kinds: Sequence[ExecutionKind] = (),
        strategy: str | None = None,
        roots: bool = False,
        tenant: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Execution]:
        given = {
            "after": _position("e", after, _LAST)[0],
            "session_id": session_id,
            "statuses": _values(statuses),
            "kinds": _values(kinds),
            "strategy": None if strategy is None else plain(strategy),
            "roots": roots,
            "tenant": plain_some(tenant),
        }
        return self._page(
            "list_executions",
            given,
            limit,
            lambda rows: _rows.listed_executions(row[1:] for row in rows),
            lambda row: cursor("e", row[0]),
        )

    def strategy_figures(self, since: int = 0, *, tenant: str | None = None) -> list[StrategyFigures]:
        given = {"since": since, "tenant": plain_some(tenant)}
        return [_rows.figures_of(row) for row in self._all("strategy_figures", given)]

    def list_events(
        self, execution_id: UUID, *, after_seq: int = 0, limit: int = 1000, max_bytes: int | None = None
    ) -> list[Event]:
        rows = self._all("list_events", {"id": execution_id, "after": after_seq, "limit": limit, "bytes": max_bytes})
        if not rows:
            _found(self._row("has_execution", (execution_id,)), ExecutionNotFound)
        return _rows.listed_events(rows, after_seq, limit, max_bytes)

    def step_events(self, at: Origin) -> list[Event]:
        row = self._row("step_events", (at.session_id, at.number))
        return [] if row is None else _rows.events_of(*row)

    def get_query(self, session_id: UUID, number: int) -> Query:
        return _rows.query_of(session_id, _found(self._row("get_query", (session_id, number)), QueryNotFound))

    def list_queries(
        self,
        session_id: UUID | None = None,
        *,
        execution_id: UUID | None = None,
        states: Sequence[QueryState] = (),
        kinds: Sequence[QueryKind] = (),
        tenant: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Query]:
        asked_at, session, number = _position("q", after, _FIRST, _FIRST, _FIRST)
        given = {
            "after_time": asked_at,
            "after_session": session,
            "after_number": number,
            "session_id": session_id,
            "execution_id": execution_id,
            "states": _values(states),
            "kinds": _values(kinds),
            "tenant": plain_some(tenant),
        }
        name = "list_open_queries" if set(states) == {QueryState.OPEN} else "list_queries"
        if session_id is not None or execution_id is not None:
            name += "_of_session"
        return self._page(
            name,
            given,
            limit,
            lambda rows: _rows.listed_queries((row[0], *row[2:]) for row in rows),
            lambda row: cursor("q", row[6], row[1], row[2]),
        )

    def chain(self, at: Origin) -> list[Link]:
        return _links(self._all("chain", {"id": at.session_id, "number": at.number}))

    def get_node(self, at: Origin) -> Node:
        return _rows.node_of(_found(self._row("get_node", {"id": at.session_id, "number": at.number}), CheckpointNotFound))

    def list_nodes(self, session_id: UUID) -> list[Node]:
        return _rows.nodes_of(self._all("list_nodes", {"id": session_id}))

    def list_forks(self, session_id: UUID) -> list[Session]:
        return confined(self._all("list_forks", (session_id,)), _rows.session_of)

    def list_dependents(self, session_id: UUID) -> list[Link]:
        return confined(self._all("list_dependents", (session_id,)), _rows.link_of)

    def list_errors(self, session_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[ErrorEntry]:
        given = {"id": session_id, "after": _position("x", after, _FIRST)[0]}
        return self._page(
            "list_errors",
            given,
            limit,
            lambda rows: confined([row[1:] for row in rows], _rows.error_of),
            lambda row: cursor("x", row[0]),
        )

    def resolve_error(self, session_id: UUID, error_id: UUID, at: int) -> None:
        if not self._write("resolve_error", {"session_id": session_id, "id": error_id, "at": at}):
            raise ErrorEntryNotFound

    # ---- requests

    def get_reply(self, key: str) -> Reply | None:
        row = self._row("get_reply", (plain(key),))
        return None if row is None else _rows.reply_of(row)

    def put_reply(self, reply: Reply) -> None:
        self._write("put_reply", _rows.reply_row(reply))

    def read_usage(self, scope: str, hour: int) -> list[UsageRow]:
        return usage_of(self._all("read_usage", (plain(scope), hour)))

    def count_running(self, tenant: str, but: UUID) -> dict[str, int]:
        return {read_plain(token): count for token, count in self._all("count_running", (plain(tenant), but))}

    def drop_usage(self, before: int) -> int:
        return int(self._write("drop_usage", (before,))[0][0])

    def drop_replies(self, before: int) -> int:
        return int(self._write("drop_replies", (before,))[0][0])

    # ---- leases

    def beat(self, node: UUID, lease_ms: int) -> None:
        self._write("beat", {"id": node, "lease": lease_ms})

    def retire(self, node: UUID) -> None:
        self._write("retire", (node,))

    def is_alive(self, node: UUID) -> bool:
        return self._row("is_alive", (node,)) is not None

    def list_leases(self) -> list[UUID]:
        return _rows.listed_ids(self._all("list_leases"))

    def list_interrupted(self, *, limit: int = 100) -> list[UUID]:
        return _rows.listed_ids(self._all("list_interrupted", (limit,)))

    def list_orphans(self, *, limit: int = 1000) -> list[Session]:
        return confined(self._all("list_orphans", (limit,)), _rows.session_of)

    def list_due(self, until: int, *, limit: int = 1000) -> list[tuple[int, UUID]]:
        return confined(self._all("list_due", (until, limit)), lambda row: (int(row[0]), UUID(bytes=row[1])))

    # ---- documents

    def create_document(self, document_id: str, data: dict[str, Any]) -> int:
        given = plain(document_id), pack(data)
        return self._write_document("create_document", given, document_id, (1, given[1]))

    def get_document(self, document_id: str) -> tuple[int, dict[str, Any]] | None:
        row = self._row("get_document", (plain(document_id),))
        return None if row is None else _rows.document_of(document_id, row)

    def update_document(self, document_id: str, data: dict[str, Any], expected: int | None) -> int:
        given = {"id": plain(document_id), "data": pack(data), "expected": expected}
        if expected is None:
            return int(self._write("put_document", given)[0][0])
        return self._write_document("update_document", given, document_id, (expected + 1, given["data"]))

    def delete_document(self, document_id: str) -> bool:
        attempts = count()

        def work(connection: Connection) -> bool:
            again = next(attempts) > 0
            gone = connection.execute(self._queries["delete_document"], (plain(document_id),)).fetchone()
            return gone is not None or again

        return self._connections.write(work)

    def list_documents(self) -> list[str]:
        return confined(self._all("list_documents"), lambda row: read_plain(row[0]))

    def _write_document(self, name: str, given: Any, document_id: str, wanted: Row) -> int:
        attempts = count()

        def work(connection: Connection) -> int:
            again = next(attempts) > 0
            row = connection.execute(self._queries[name], given).fetchone()
            if row is None and again:
                # Perhaps the attempt before wrote it, and was not acknowledged.
                row = connection.execute(self._queries["get_document"], (plain(document_id),)).fetchone()
                row = row if row == wanted else None
            if row is None:
                raise VersionConflict
            return int(row[0])

        return self._connections.write(work)

    # ---- statements by name

    def _all(self, name: str, given: Any = None) -> list[Row]:
        return self._connections.read(lambda connection: connection.execute(self._queries[name], given, binary=True).fetchall())

    def _row(self, name: str, given: Any = None) -> Row | None:
        rows = self._all(name, given)
        return rows[0] if rows else None

    def _number(self, name: str) -> int:
        return int(self._all(name)[0][0])

    def _write(self, name: str, given: Any) -> list[Row]:
        """For what may be done twice."""

        def work(connection: Connection) -> list[Row]:
            done = connection.execute(self._queries[name], given, binary=True)
            return done.fetchall() if done.description else []

        return self._connections.write(work)

    def _page(
        self,
        name: str,
        given: dict[str, Any],
        limit: int,
        items: Callable[[list[Row]], list[Any]],
        position: Callable[[Row], str],
    ) -> Page[Any]:
        rows = self._all(name, given | {"limit": limit + 1})
        return Page(items(rows[:limit]), position(rows[limit - 1]) if len(rows) > limit else None)


def _links(rows: Sequence[Row]) -> list[Link]:
    """Rows of a walk from checkpoint to base, as links."""
    if not rows:
        raise CheckpointNotFound
    links = []
    for session_id, number, depth, base_session, base_number, sealed, *_ in rows:
        if depth is not None:
            base = session_id if base_number is not None and base_session is None else base_session
            links.append(_rows.link_of((session_id, number, depth, base, base_number, sealed)))
        elif number != 0:
            raise CheckpointNotFound
    *_, next_session, next_number = rows[-1]
    # A session that is gone may have been forked only at its beginning, if that was the template: others are kept by forks as their own.
    if next_session is not None and next_number != 0:
        raise CheckpointNotFound
    return links


def _position(kind: str, after: str | None, *start: int) -> Sequence[int]:
    """Where a page begins."""
    return start if after is None else read_cursor(kind, after, len(start))


def _first(kind: str) -> Callable[[Row], str]:
    """The cursor after a row whose first column is its place in the list."""
    return lambda row: cursor(kind, row[0])


def _values(words: Sequence[Any]) -> list[str] | None:
    return [word.value for word in words] if words else None


def _found(row: Row | None, missing: type[HoldfastError]) -> Row:
    if row is None:
        raise missing
    return row
