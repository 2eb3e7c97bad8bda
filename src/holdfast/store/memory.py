"""A store in memory: for tests, and for sessions that need not survive their process."""

import itertools
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from holdfast.domain import (
    DEFAULT_TENANT,
    EXECUTION,
    Checkpoint,
    CheckpointNotFound,
    ErrorEntry,
    ErrorEntryNotFound,
    Event,
    Execution,
    ExecutionKind,
    ExecutionNotFound,
    ExecutionStatus,
    Family,
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
    Step,
    Template,
    TemplateInUse,
    TemplateNotFound,
    TemplateVersion,
    VersionConflict,
    template_root,
)
from holdfast.store._errors import StoreUnavailable
from holdfast.store._event_pages import Room
from holdfast.store._memory_audit import AuditLog
from holdfast.store._memory_commits import (
    Tables,
    Writing,
    copy_begun,
    copy_error,
    copy_execution,
    copy_query,
    copy_reply,
    copy_session,
)
from holdfast.store._memory_feed import FeedReads
from holdfast.store._memory_state import StateReads
from holdfast.store._rows import cursor, figures_row, nearest, pack, plain, read_cursor, unpack, version_of, version_row
from holdfast.store._usage import usage_of
from holdfast.store.protocol import Commit, Link, Loaded, Page, Rebased, Reply, StrategyFigures, UsageRow

Item = TypeVar("Item")


class MemoryStore(FeedReads, StateReads, AuditLog):
    """Dictionaries and one lock. It says of itself what a file would: once closed, it cannot be reached."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tables: Tables | None = Tables()

    @property
    def _kept(self) -> Tables:
        if self._tables is None:
            raise StoreUnavailable("The store is closed.")
        return self._tables

    def close(self) -> None:
        with self._lock:
            self._tables = None

    def stop_waiting(self) -> None:
        """There is no server."""

    def secret(self, name: str, fresh: bytes) -> bytes:
        with self._lock:
            return self._kept.secrets.setdefault(name, bytes(fresh))

    def find_secret(self, name: str) -> bytes | None:
        with self._lock:
            return self._kept.secrets.get(name)

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    # ---- templates

    def create_template(self, template: Template, version: TemplateVersion) -> None:
        with self._lock:
            tables = self._kept
            if template.id in tables.templates or tables.is_named(template.name, template):
                raise NameTaken
            self._check_baked(version)
            tables.templates[template.id] = template.copy()
            tables.versions[template.id] = {version.number: _copy_version(version)}
            tables.keys[template.id] = next(tables.counter)

    def add_version(self, version: TemplateVersion, updated_at: int) -> None:
        with self._lock:
            template = self._kept.templates.get(version.template_id)
            if template is None:
                raise TemplateNotFound
            if template.latest != version.number - 1:
                raise VersionConflict
            self._check_baked(version)
            self._kept.versions[template.id][version.number] = _copy_version(version)
            template.latest, template.updated_at = version.number, updated_at

    def rename_template(self, template_id: UUID, name: str, updated_at: int) -> None:
        with self._lock:
            template = self._kept.templates.get(template_id)
            if template is None:
                raise TemplateNotFound
            if self._kept.is_named(name, template):
                raise NameTaken
            template.name, template.updated_at = name, updated_at

    def _check_baked(self, version: TemplateVersion) -> None:
        blobs = self._kept.blobs
        if version.guest in blobs and version.baked not in blobs:  # it went with another template, after it was looked for
            raise VersionConflict

    def get_template(self, which: UUID | str, *, tenant: str | None = None) -> Template:
        wanted = DEFAULT_TENANT if tenant is None and isinstance(which, str) else tenant
        with self._lock:
            for template in self._kept.templates.values():
                if which in (template.id, template.name) and wanted in (None, template.tenant):
                    return template.copy()
        raise TemplateNotFound

    def get_version(self, template_id: UUID, number: int) -> TemplateVersion:
        with self._lock:
            version = self._kept.versions.get(template_id, {}).get(number)
            if version is None:
                raise TemplateNotFound
            return _copy_version(version)

    def list_templates(self, *, tenant: str | None = None, limit: int = 50, after: str | None = None) -> Page[Template]:
        with self._lock:
            keys = self._kept.keys
            newest = (one for one in reversed(self._kept.templates.values()) if tenant in (None, one.tenant))
            return _page("t", newest, lambda template: (-keys[template.id],), Template.copy, limit, after)

    def list_versions(self, template_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[TemplateVersion]:
        with self._lock:
            newest = reversed(self._kept.versions.get(template_id, {}).values())
            return _page("v", newest, lambda version: (-version.number,), _copy_version, limit, after)

    def delete_template(self, template_id: UUID) -> None:
        with self._lock:
            if template_id not in self._kept.templates:
                raise TemplateNotFound
            if any(session.template_id == template_id for session in self._kept.sessions.values()):
                raise TemplateInUse
            del self._kept.templates[template_id]
            self._kept.drop_state(template_root(template_id))
            gone = {version.baked for version in self._kept.versions.pop(template_id).values()}
            for baked in gone - {version.baked for group in self._kept.versions.values() for version in group.values()}:
                self._kept.blobs.pop(baked, None)

    def drop_versions(self, keep: int | None, before: int | None) -> int:
        with self._lock:
            tables = self._kept
            used = {(session.template_id, session.template_version) for session in tables.sessions.values()}
            gone = [
                version
                for template in tables.templates.values()
                for version in tables.versions[template.id].values()
                if version.number <= template.latest - max(keep or 0, 1)
                and (before is None or version.created_at < before)
                and (template.id, version.number) not in used
            ]
            for version in gone:
                del tables.versions[version.template_id][version.number]
            left = {version.baked for group in tables.versions.values() for version in group.values()}
            for baked in {version.baked for version in gone} - left:
                tables.blobs.pop(baked, None)
            return len(gone)

    def put_blob(self, digest: bytes, data: bytes) -> None:
        with self._lock:
            self._kept.blobs.setdefault(bytes(digest), bytes(data))

    def get_blob(self, digest: bytes) -> bytes | None:
        with self._lock:
            return self._kept.blobs.get(digest)

    # ---- sessions

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        with self._lock:
            return [Writing(self._kept).commit(commit) for commit in commits]

    def get_session(self, session_id: UUID) -> Session:
        with self._lock:
            session = self._kept.sessions.get(session_id)
            if session is None:
                raise SessionNotFound
            return copy_session(session)

    def show_session(self, session_id: UUID) -> Session:
        return self.get_session(session_id)

    def owner_of_session(self, session_id: UUID) -> str:
        with self._lock:
            session = self._kept.sessions.get(session_id)
        if session is None:
            raise SessionNotFound
        return session.tenant

    def owner_of_execution(self, execution_id: UUID) -> str:
        with self._lock:
            execution = self._kept.executions.get(execution_id)
            session = None if execution is None else self._kept.sessions.get(execution.session_id)
        if session is None:
            raise ExecutionNotFound
        return session.tenant

    def close_damaged(self, session_id: UUID, at: int, state: SessionState = SessionState.CLOSED) -> None:
        self.get_session(session_id)  # nothing is ever damaged here

    def load(self, session_id: UUID) -> Loaded:
        with self._lock:
            tables, session = self._kept, self.get_session(session_id)
            execution = None if session.execution_id is None else tables.executions.get(session.execution_id)
            waiting = sorted(
                (q for q in tables.queries[session_id].values() if q.state is QueryState.OPEN), key=lambda q: q.number
            )
            begun = tables.begun.get(session_id)
            return Loaded(
                session,
                None if execution is None else copy_execution(execution),
                [copy_query(query) for query in waiting],
                None if begun is None else copy_begun(begun, list(begun.effects)),
                self.chain(Origin(session_id, session.head)),
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
        with self._lock:
            keys = self._kept.keys
            found = (
                session
                for session in reversed(self._kept.sessions.values())
                if (not states or session.state in states)
                and (template_id is None or session.template_id == template_id)
                and (name is None or session.name == name)
                and (idle_before is None or session.updated_at < idle_before)
                and tenant in (None, session.tenant)
            )
            return _page("s", found, lambda session: (-keys[session.id],), copy_session, limit, after)

    def count_sessions(self, *, tenant: str | None = None) -> dict[SessionState, int]:
        counts: dict[SessionState, int] = {}
        with self._lock:
            for session in self._kept.sessions.values():
                if tenant in (None, session.tenant):
                    counts[session.state] = counts.get(session.state, 0) + 1
        return counts

    def delete_session(self, session_id: UUID, rebased: Sequence[Rebased] = ()) -> None:
        with self._lock:
            Writing(self._kept).delete(session_id, rebased)

    def list_orphans(self, *, limit: int = 1000) -> list[Session]:
        with self._lock:
            active = (SessionState.RUNNING, SessionState.PAUSED)
            found = (
                s for s in self._kept.sessions.values() if s.state in active and s.family and not self._is_awaited(s.family)
            )
            return [copy_session(session) for session in itertools.islice(found, limit)]

    def _is_awaited(self, family: Family) -> bool:
        query = self._kept.queries.get(family.parent, {}).get(family.query)
        return query is not None and query.state is QueryState.OPEN

    # ---- what sessions have

    def get_execution(self, execution_id: UUID) -> Execution:
        with self._lock:
            execution = self._kept.executions.get(execution_id)
            if execution is None:
                raise ExecutionNotFound
            return copy_execution(execution)

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
        with self._lock:
            keys = self._kept.keys
            found = (
                execution
                for execution in reversed(self._kept.executions.values())
                if (session_id is None or execution.session_id == session_id)
                and (not statuses or execution.status in statuses)
                and (not kinds or execution.kind in kinds)
                and (strategy is None or (execution.kind is ExecutionKind.STRATEGY and execution.path == strategy))
                and not (roots and self._kept.sessions[execution.session_id].family)
                and tenant in (None, self._kept.sessions[execution.session_id].tenant)
            )
            return _page("e", found, lambda execution: (-keys[execution.id],), copy_execution, limit, after)

    def strategy_figures(self, since: int = 0, *, tenant: str | None = None) -> list[StrategyFigures]:
        figures: dict[str, list[int]] = {}
        with self._lock:
            for execution in self._kept.executions.values():
                if execution.kind is not ExecutionKind.STRATEGY or execution.started_at < since:
                    continue
                session = self._kept.sessions[execution.session_id]
                if EXECUTION.is_final(execution.status) and session.family is None and tenant in (None, session.tenant):
                    taken = figures_row(execution.metrics)
                    known = figures.get(execution.path or "", [0] * len(taken))
                    figures[execution.path or ""] = [sum(pair) for pair in zip(known, taken, strict=True)]
        return [StrategyFigures(name, *figures[name]) for name in sorted(figures)]

    def list_events(
        self, execution_id: UUID, *, after_seq: int = 0, limit: int = 1000, max_bytes: int | None = None
    ) -> list[Event]:
        with self._lock:
            execution = self._kept.executions.get(execution_id)
            if execution is None:
                raise ExecutionNotFound
            steps, last = self._kept.steps[execution.session_id], execution.last_step

            def own(number: int) -> Iterator[Step]:
                """Its steps from this number on: between them may be some of others."""
                for at in range(number, last + 1):
                    step = steps.get(at)
                    if step is not None and step.execution_id == execution_id:
                        yield step

            def last_seq(number: int) -> int:
                return next((step.first_seq + len(step.events) - 1 for step in own(number)), after_seq + 1)

            # Both seq and number go up within an execution.
            begin = execution.first_step + bisect_right(range(execution.first_step, last + 1), after_seq, key=last_seq)
            found = (event for step in own(begin) for event in step.events if event.seq > after_seq)
            return _copies(Room(max_bytes).take(list(itertools.islice(found, limit))))

    def step_events(self, at: Origin) -> list[Event]:
        with self._lock:
            step = self._kept.steps.get(at.session_id, {}).get(at.number)
            return [] if step is None else _copies(step.events)

    def get_query(self, session_id: UUID, number: int) -> Query:
        with self._lock:
            query = self._kept.queries.get(session_id, {}).get(number)
            if query is None:
                raise QueryNotFound
            return copy_query(query)

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
        with self._lock:
            tables = self._kept
            within = session_id is not None or execution_id is not None
            groups = tables.queries.values() if session_id is None else [tables.queries.get(session_id, {})]
            found = [
                query
                for group in groups
                for query in group.values()
                if (execution_id is None or query.execution_id == execution_id)
                and (not states or query.state in states)
                and (not kinds or query.kind in kinds)
                and tenant in (None, tables.sessions[query.session_id].tenant)
            ]

            def order(query: Query) -> tuple[int, ...]:
                return (0 if within else query.asked_at, tables.keys[query.session_id], query.number)

            return _page("q", sorted(found, key=order), order, copy_query, limit, after)

    def chain(self, at: Origin) -> list[Link]:
        with self._lock:
            links: list[Link] = []
            place = self._kept.place(at)
            while place is not None:
                checkpoint = self._kept.checkpoint(place)
                links.append(Link(place, checkpoint.depth, checkpoint.base, checkpoint.sealed))
                place = None if checkpoint.base is None else self._kept.place(checkpoint.base)
            return links

    def get_node(self, at: Origin) -> Node:
        with self._lock:
            step = self._kept.steps.get(at.session_id, {}).get(at.number)
            if step is None or step.checkpoint is None or step.number == 0:
                raise CheckpointNotFound
            return _node(step, step.checkpoint, step.parent)

    def list_nodes(self, session_id: UUID) -> list[Node]:
        with self._lock:
            steps = sorted(self._kept.steps.get(session_id, {}).values(), key=lambda step: step.number)
            gone = {step.number: step.parent for step in steps if step.checkpoint is None}
            return [
                _node(step, step.checkpoint, nearest(step.parent, gone))
                for step in steps
                if step.checkpoint is not None and step.number > 0
            ]

    def list_forks(self, session_id: UUID) -> list[Session]:
        with self._lock:
            return [copy_session(fork) for fork in self._kept.forks(session_id)]

    def list_dependents(self, session_id: UUID) -> list[Link]:
        with self._lock:
            return self._kept.dependents(session_id)

    def list_errors(self, session_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[ErrorEntry]:
        with self._lock:
            keys = self._kept.keys
            entries = self._kept.errors.get(session_id, {}).values()
            return _page("x", entries, lambda entry: (keys[entry.id],), copy_error, limit, after)

    def resolve_error(self, session_id: UUID, error_id: UUID, at: int) -> None:
        with self._lock:
            entries = self._kept.errors.get(session_id, {})
            if error_id not in entries:
                raise ErrorEntryNotFound
            entries[error_id] = replace(entries[error_id], resolved_at=at)

    # ---- requests

    def get_reply(self, key: str) -> Reply | None:
        with self._lock:
            reply = self._kept.replies.get(key)
            return None if reply is None else copy_reply(reply)

    def put_reply(self, reply: Reply) -> None:
        with self._lock:
            self._kept.replies.setdefault(reply.key, copy_reply(reply))

    def read_usage(self, scope: str, hour: int) -> list[UsageRow]:
        with self._lock:
            found = self._kept.usage.items()
            return usage_of((k[1], k[2], *amounts) for k, amounts in found if k[0] == plain(scope) and k[2] in (0, hour))

    def count_running(self, tenant: str, but: UUID) -> dict[str, int]:
        busy = SessionState.RUNNING, SessionState.STARTING
        with self._lock:
            found = [s for s in self._kept.sessions.values() if s.tenant == tenant and s.state in busy and s.owner != but]
            return dict(Counter(session.token for session in found))

    def drop_usage(self, before: int) -> int:
        with self._lock:
            gone = [key for key in self._kept.usage if 0 < key[2] < before]
            for key in gone:
                del self._kept.usage[key]
            return len(gone)

    def drop_replies(self, before: int) -> int:
        with self._lock:
            old = [reply.key for reply in self._kept.replies.values() if reply.created_at < before]
            for key in old:
                del self._kept.replies[key]
            return len(old)

    # ---- leases

    def beat(self, node: UUID, lease_ms: int) -> None:
        with self._lock:
            self._kept.nodes[node] = self.now() + lease_ms

    def retire(self, node: UUID) -> None:
        with self._lock:
            self._kept.nodes.pop(node, None)

    def is_alive(self, node: UUID) -> bool:
        with self._lock:
            return self._kept.nodes.get(node, 0) > self.now()

    def list_leases(self) -> list[UUID]:
        with self._lock:
            now = self.now()
            return [node for node, until in self._kept.nodes.items() if until > now]

    def list_interrupted(self, *, limit: int = 100) -> list[UUID]:
        busy = (SessionState.STARTING, SessionState.RUNNING)
        with self._lock:
            found = (
                s.id
                for s in self._kept.sessions.values()
                if s.state in busy and (s.owner is None or not self.is_alive(s.owner))
            )
            return list(itertools.islice(found, limit))

    def list_due(self, until: int, *, limit: int = 1000) -> list[tuple[int, UUID]]:
        with self._lock:
            keys = self._kept.keys
            found = [
                (session.wake_at, keys[session.id], session.id)
                for session in self._kept.sessions.values()
                if session.state is SessionState.PAUSED and session.wake_at is not None and session.wake_at <= until
            ]
            return [(wake_at, session_id) for wake_at, _, session_id in sorted(found)[:limit]]

    # ---- documents

    def create_document(self, document_id: str, data: dict[str, Any]) -> int:
        with self._lock:
            if document_id in self._kept.documents:
                raise VersionConflict
            self._kept.documents[document_id] = (1, pack(data))
            return 1

    def get_document(self, document_id: str) -> tuple[int, dict[str, Any]] | None:
        with self._lock:
            found = self._kept.documents.get(document_id)
            return None if found is None else (found[0], unpack(found[1]))

    def update_document(self, document_id: str, data: dict[str, Any], expected: int | None) -> int:
        with self._lock:
            version = self._kept.documents.get(document_id, (0, ""))[0]
            if expected is not None and (expected != version or not version):
                raise VersionConflict
            self._kept.documents[document_id] = (version + 1, pack(data))
            return version + 1

    def delete_document(self, document_id: str) -> bool:
        with self._lock:
            return self._kept.documents.pop(document_id, None) is not None

    def list_documents(self) -> list[str]:
        with self._lock:
            return list(self._kept.documents)


def _page(
    kind: str,
    items: Iterable[Item],
    order: Callable[[Item], tuple[int, ...]],
    copy: Callable[[Item], Item],
    limit: int,
    after: str | None,
) -> Page[Item]:
    """A page of what is in the order of `order`, upwards: the cursor is where the last item stands in it."""
    if after is not None:
        position = tuple(read_cursor(kind, after, 3 if kind == "q" else 1))
        items = (item for item in items if order(item) > position)
    found = list(itertools.islice(items, limit + 1))
    more = cursor(kind, *order(found[limit - 1])) if len(found) > limit else None
    return Page([copy(item) for item in found[:limit]], more)


def _copy_version(version: TemplateVersion) -> TemplateVersion:
    return version_of(version.template_id, version_row(version))


def _copies(events: Iterable[Event]) -> list[Event]:
    return [event._replace(payload=unpack(pack(event.payload))) for event in events]


def _node(step: Step, made: Checkpoint, parent: int) -> Node:
    size = len(made.sealed)
    return Node(step.number, parent, step.execution_id, step.created_at, made.depth, made.base, size, made.open, made.wake_at)
