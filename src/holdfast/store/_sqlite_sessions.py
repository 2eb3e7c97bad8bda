"""What SQLite reads of sessions."""

import itertools
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final
from uuid import UUID

from holdfast.domain import (
    CheckpointNotFound,
    ErrorEntry,
    Event,
    Execution,
    ExecutionKind,
    ExecutionNotFound,
    ExecutionStatus,
    HoldfastError,
    Node,
    Origin,
    Query,
    QueryKind,
    QueryNotFound,
    QueryState,
    Session,
    SessionNotFound,
    SessionState,
)
from holdfast.store._damage import DAMAGED_ERROR, confined, damaged
from holdfast.store._event_pages import Room
from holdfast.store._rows import (
    Row,
    begun_of,
    cursor,
    error_of,
    events_of,
    execution_of,
    figures_of,
    link_of,
    listed_events,
    listed_executions,
    listed_queries,
    listed_sessions,
    node_of,
    nodes_of,
    plain,
    plain_some,
    query_of,
    read_cursor,
    read_plain,
    session_of,
)
from holdfast.store._sqlite_commits import NUMBER_BITS, Committer
from holdfast.store._sqlite_file import File
from holdfast.store.protocol import Link, Loaded, Page, StrategyFigures

_END: Final = (1 << 63) - 1
_SESSION_COLUMNS: Final = 31


class SessionReads:
    """The half of a store that reads sessions and what they have."""

    _file: File
    _sql: dict[str, str]
    _committer: Committer

    def get_session(self, session_id: UUID) -> Session:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_session"], (session_id.bytes,)).fetchone()
            if row is None:
                raise SessionNotFound
            return session_of(row)

    def show_session(self, session_id: UUID) -> Session:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_session"], (session_id.bytes,)).fetchone()
            if row is None:
                raise SessionNotFound
            return listed_sessions([row])[0]

    def owner_of_session(self, session_id: UUID) -> str:
        return self._owner("owner_of_session", session_id, SessionNotFound)

    def owner_of_execution(self, execution_id: UUID) -> str:
        return self._owner("owner_of_execution", execution_id, ExecutionNotFound)

    def _owner(self, query: str, some_id: UUID, missing: type[HoldfastError]) -> str:
        with self._file.read() as connection:
            row = connection.execute(self._sql[query], (some_id.bytes,)).fetchone()
        if row is None:
            raise missing
        return read_plain(row[0])

    def close_damaged(self, session_id: UUID, at: int, state: SessionState = SessionState.CLOSED) -> None:
        with self._file.write() as writing:
            row = writing.execute(self._sql["session_key"], (session_id.bytes,)).fetchone()
            if row is None:
                raise SessionNotFound
            places = row[0] << NUMBER_BITS, row[0] + 1 << NUMBER_BITS
            writing.execute(self._sql["close_damaged"], {"at": at, "key": row[0], "state": state.value})
            writing.execute(self._sql["end_damaged"], {"at": at, "session": row[0], "error": DAMAGED_ERROR})
            writing.execute(self._sql["cancel_damaged"], (at, *places))
            writing.execute(self._sql["cut_journal"], places)

    def load(self, session_id: UUID) -> Loaded:
        with self._file.snapshot() as connection:
            row = connection.execute(self._sql["load_session"], (session_id.bytes,)).fetchone()
            if row is None:
                raise SessionNotFound
            key, begun = row[:2]
            self._committer.remember(session_id, key)
            session, of_execution = session_of(row[2 : 2 + _SESSION_COLUMNS]), row[2 + _SESSION_COLUMNS :]
            places = key << NUMBER_BITS, key + 1 << NUMBER_BITS
            waiting = connection.execute(self._sql["load_open"], places).fetchall()
            effects: list[Row] = []
            if begun is not None:
                rows = connection.execute(self._sql["load_effects"], places)
                effects = [(place - places[0] - 1, data) for place, data in rows]
            return Loaded(
                session,
                None if of_execution[0] is None else execution_of(session_id, of_execution),
                [query_of(session_id, query) for query in waiting],
                None if begun is None else begun_of(begun, effects),
                self._present_chain(connection, key, session),
            )

    def _present_chain(self, connection: sqlite3.Connection, key: int, session: Session) -> list[Link]:
        try:
            return self._chain(connection, key, session.head, session.origin)
        except (CheckpointNotFound, RecursionError):
            raise damaged("checkpoint", f"{session.id}/{session.head}") from None

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
        values = {
            "after": _END if after is None else read_cursor("s", after)[0],
            "states": _words(states),
            "name": None if name is None else plain(name),
            "idle_before": idle_before,
            "tenant": plain_some(tenant),
            "limit": limit + 1,
        }
        if template_id is not None:
            sql = self._sql["list_sessions_of_template"]
            values["template_id"] = template_id.bytes
        else:
            sql = self._sql["list_sessions" if tenant is None else "list_sessions_of_tenant"]
        with self._file.read() as connection:
            rows = connection.execute(sql, values).fetchall()
            return Page(
                listed_sessions(row[1:] for row in rows[:limit]), cursor("s", rows[limit - 1][0]) if len(rows) > limit else None
            )

    def count_sessions(self, *, tenant: str | None = None) -> dict[SessionState, int]:
        with self._file.read() as connection:
            counts = connection.execute(self._sql["count_sessions"], {"tenant": plain_some(tenant)}).fetchone()
            return {state: int(count) for state, count in zip(SessionState, counts, strict=True) if count}

    def list_forks(self, session_id: UUID) -> list[Session]:
        with self._file.read() as connection:
            return confined(connection.execute(self._sql["list_forks"], (session_id.bytes,)), session_of)

    def list_orphans(self, *, limit: int = 1000) -> list[Session]:
        with self._file.read() as connection:
            return confined(connection.execute(self._sql["list_orphans"], (limit,)), session_of)

    # ---- executions and events

    def get_execution(self, execution_id: UUID) -> Execution:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_execution"], (execution_id.bytes,)).fetchone()
            if row is None:
                raise ExecutionNotFound
            return execution_of(UUID(bytes=row[0]), row[1:])

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
        values = {
            "session_id": None if session_id is None else session_id.bytes,
            "after": _END if after is None else read_cursor("e", after)[0],
            "statuses": _words(statuses),
            "kinds": _words(kinds),
            "strategy": None if strategy is None else plain(strategy),
            "roots": roots,
            "tenant": plain_some(tenant),
            "limit": limit + 1,
        }
        sql = self._sql["list_executions" if session_id is None else "list_executions_of_session"]
        with self._file.read() as connection:
            rows = connection.execute(sql, values).fetchall()
            found = listed_executions(row[1:] for row in rows[:limit])
            return Page(found, cursor("e", rows[limit - 1][0]) if len(rows) > limit else None)

    def strategy_figures(self, since: int = 0, *, tenant: str | None = None) -> list[StrategyFigures]:
        values = {"since": since, "tenant": plain_some(tenant)}
        with self._file.read() as connection:
            return [figures_of(row) for row in connection.execute(self._sql["strategy_figures"], values)]

    def list_events(
        self, execution_id: UUID, *, after_seq: int = 0, limit: int = 1000, max_bytes: int | None = None
    ) -> list[Event]:
        with self._file.snapshot() as connection:
            place = connection.execute(self._sql["execution_place"], (execution_id.bytes,)).fetchone()
            if place is None:
                raise ExecutionNotFound
            session, first, last = place
            most = 1 << (last - first + 1).bit_length() >> 1 if after_seq else 0
            values = {"session": session, "first": first, "last": last, "most": most}
            values |= {"execution_id": execution_id.bytes, "after_seq": after_seq}
            with closing(connection.execute(self._sql["list_events"], values)) as found:
                rows = list(itertools.islice(Room(max_bytes).texts(found), limit))  # each has an event at least
        return listed_events(rows, after_seq, limit, max_bytes)

    def step_events(self, at: Origin) -> list[Event]:
        with self._file.read() as connection:
            row = connection.execute(self._sql["step_events"], (at.session_id.bytes, at.number)).fetchone()
            return [] if row is None else events_of(*row)

    # ---- queries

    def get_query(self, session_id: UUID, number: int) -> Query:
        with self._file.read() as connection:
            values = (number, session_id.bytes)
            row = connection.execute(self._sql["get_query"], values).fetchone() if 0 < number < 1 << NUMBER_BITS else None
            if row is None:
                raise QueryNotFound
            return query_of(session_id, row)

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
        after_time, after_place = (-_END, 0) if after is None else read_cursor("q", after, 2)
        values: dict[str, Any] = {
            "execution_id": None if execution_id is None else execution_id.bytes,
            "states": _words(states),
            "kinds": _words(kinds),
            "after_time": after_time,
            "after": after_place,
            "tenant": plain_some(tenant),
            "limit": limit + 1,
        }
        with self._file.snapshot() as connection:
            listed = "list_open_queries" if set(states) == {QueryState.OPEN} else "list_queries"
            if session_id is None and execution_id is None:
                rows = connection.execute(self._sql[listed], values).fetchall()
            else:
                if session_id is not None:
                    place = connection.execute(self._sql["session_key"], (session_id.bytes,)).fetchone()
                else:
                    place = connection.execute(self._sql["execution_place"], (values["execution_id"],)).fetchone()
                values["session"] = None if place is None else place[0]
                rows = connection.execute(self._sql[f"{listed}_of_session"], values).fetchall()
            found = listed_queries((row[0], *row[2:]) for row in rows[:limit])
            last = rows[limit - 1] if len(rows) > limit else None
            return Page(found, None if last is None else cursor("q", last[6] if type(last[6]) is int else 0, last[1]))

    # ---- checkpoints

    def chain(self, at: Origin) -> list[Link]:
        with self._file.snapshot() as connection:
            row = connection.execute(self._sql["session_key"], (at.session_id.bytes,)).fetchone()
            if row is None:
                raise CheckpointNotFound
            try:
                return self._chain(connection, row[0], at.number, _origin(row))
            except RecursionError:  # a session that says it was forked from itself
                raise damaged("checkpoint", f"{at.session_id}/{at.number}") from None

    def _chain(self, connection: sqlite3.Connection, key: int, number: int, origin: Origin | None) -> list[Link]:
        """One statement, unless it leads to the beginning of a fork: that is a checkpoint of another session."""
        if number == 0 and origin is None:
            return []
        links = [link_of(row) for row in connection.execute(self._sql["chain"], (key, number))]
        base = links[-1].base if links else None
        if links and base is None:
            return links
        if base is not None:
            key, number, origin = 0, base.number, None
            row = connection.execute(self._sql["session_key"], (base.session_id.bytes,)).fetchone()
            if row is not None:
                key, origin = row[0], _origin(row)
        if number:
            raise CheckpointNotFound
        if origin is None:
            return links
        row = connection.execute(self._sql["session_key"], (origin.session_id.bytes,)).fetchone()
        if row is None:
            if origin.number:
                raise CheckpointNotFound
            return links  # the beginning of one that is gone, which was the template: others are kept by forks as their own
        return links + self._chain(connection, row[0], origin.number, _origin(row))

    def get_node(self, at: Origin) -> Node:
        with self._file.read() as connection:
            row = connection.execute(self._sql["get_node"], (at.session_id.bytes, at.number)).fetchone()
            if row is None:
                raise CheckpointNotFound
            return node_of(row)

    def list_nodes(self, session_id: UUID) -> list[Node]:
        with self._file.read() as connection:
            return nodes_of(connection.execute(self._sql["list_nodes"], (session_id.bytes,)))

    def list_dependents(self, session_id: UUID) -> list[Link]:
        with self._file.read() as connection:
            return confined(connection.execute(self._sql["list_dependents"], (session_id.bytes,)), link_of)

    # ---- errors

    def list_errors(self, session_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[ErrorEntry]:
        key = 0 if after is None else read_cursor("x", after)[0]
        with self._file.read() as connection:
            rows = connection.execute(self._sql["list_errors"], (session_id.bytes, key, limit + 1)).fetchall()
            return Page(
                confined([row[1:] for row in rows[:limit]], error_of),
                cursor("x", rows[limit - 1][0]) if len(rows) > limit else None,
            )


def _words(words: Sequence[str]) -> str:
    """As the queries look for them; empty: any will do."""
    return f",{','.join(words)}," if words else ""


def _origin(row: tuple[int, bytes | None, int]) -> Origin | None:
    return None if row[1] is None else Origin(UUID(bytes=row[1]), row[2])
