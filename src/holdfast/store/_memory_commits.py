"""What a store in memory keeps, and how a commit changes it: all of it or nothing.

Copies are made by way of rows, so that a record comes back from here as it would from a database.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

from holdfast.domain import (
    AuditEntry,
    Checkpoint,
    CheckpointNotFound,
    Conflict,
    ErrorEntry,
    Execution,
    ExecutionNotFound,
    HoldfastError,
    IdempotencyConflict,
    Origin,
    Query,
    QueryNotFound,
    Session,
    SessionNotFound,
    StateConflict,
    Step,
    Template,
    TemplateNotFound,
    TemplateVersion,
    VersionConflict,
    session_root,
)
from holdfast.store import _rows as rows
from holdfast.store._errors import LeaseLost
from holdfast.store._usage import Charge, commit_charges, deleted_charges
from holdfast.store.protocol import Begun, Commit, Effect, Link, Rebased, Reply, StateRow, StateWrite, family_scope

Key = TypeVar("Key")
Value = TypeVar("Value")


def copy_session(session: Session) -> Session:
    return rows.session_of(rows.session_fixed_row(session) + rows.session_row(session))


def copy_execution(execution: Execution, changed: Execution | None = None) -> Execution:
    """With what may change taken from `changed`."""
    fixed = (*rows.execution_fixed_row(execution), rows.execution_given(execution))
    return rows.execution_of(execution.session_id, fixed + rows.execution_row(changed or execution))


def copy_query(query: Query, changed: Query | None = None) -> Query:
    """With what may change taken from `changed`."""
    return rows.query_of(query.session_id, rows.query_fixed_row(query) + rows.query_row(changed or query))


def copy_step(step: Step) -> Step:
    checkpoint = None if step.checkpoint is None else replace(step.checkpoint)
    return replace(step, events=rows.events_of(step.first_seq, rows.step_row(step)[6]), checkpoint=checkpoint)


def copy_error(entry: ErrorEntry) -> ErrorEntry:
    return replace(entry)


def copy_begun(begun: Begun, effects: list[Effect]) -> Begun:
    """With these effects: nobody can change one, so that they need not be copied."""
    return replace(rows.begun_of(rows.begun_text(begun)), effects=effects)


def copy_reply(reply: Reply) -> Reply:
    return rows.reply_of(rows.reply_row(reply))


@dataclass
class Tables:
    """All that is kept. `keys` say in which order things came."""

    counter: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    keys: dict[UUID, int] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[bytes, bytes] = field(default_factory=dict)
    templates: dict[UUID, Template] = field(default_factory=dict)
    versions: dict[UUID, dict[int, TemplateVersion]] = field(default_factory=dict)
    sessions: dict[UUID, Session] = field(default_factory=dict)
    tokens: dict[UUID, int] = field(default_factory=dict)
    executions: dict[UUID, Execution] = field(default_factory=dict)
    steps: dict[UUID, dict[int, Step]] = field(default_factory=dict)
    queries: dict[UUID, dict[int, Query]] = field(default_factory=dict)
    errors: dict[UUID, dict[UUID, ErrorEntry]] = field(default_factory=dict)
    begun: dict[UUID, Begun] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    nodes: dict[UUID, int] = field(default_factory=dict)
    documents: dict[str, tuple[int, str]] = field(default_factory=dict)
    usage: dict[Charge, list[int]] = field(default_factory=dict)
    state: dict[str, dict[str, StateRow]] = field(default_factory=dict)
    """By namespace and key."""
    feed: list[tuple[int, UUID, int]] = field(default_factory=list)
    """Steps in the order in which they were committed: a place, and where the step is."""
    audit: list[tuple[int, AuditEntry]] = field(default_factory=list)
    """With keys in the order of insertion."""
    fed: int = 0
    """The last place that was given. It is not given again."""

    def is_named(self, name: str, template: Template) -> bool:
        """Whether another template of the same tenant has this name."""
        return any(
            other.name == name and other.tenant == template.tenant and other.id != template.id
            for other in self.templates.values()
        )

    def checkpoint(self, at: Origin) -> Checkpoint:
        step = self.steps.get(at.session_id, {}).get(at.number)
        if step is None or step.checkpoint is None:
            raise CheckpointNotFound
        return step.checkpoint

    def place(self, at: Origin) -> Origin | None:
        """Where this checkpoint is kept. None: it is the template itself."""
        if at.session_id not in self.sessions:
            raise CheckpointNotFound
        while at.number == 0 and 0 not in self.steps[at.session_id]:
            origin = self.sessions[at.session_id].origin
            if origin is None:
                return None
            if origin.number == 0 and origin.session_id not in self.sessions:
                return None  # a session whose beginning forks need is not deleted
            if origin.session_id not in self.sessions:
                raise CheckpointNotFound
            at = origin
        self.checkpoint(at)
        return at

    def forks(self, session_id: UUID) -> list[Session]:
        return [s for s in self.sessions.values() if s.origin is not None and s.origin.session_id == session_id]

    def dependents(self, session_id: UUID) -> list[Link]:
        return [
            Link(Origin(fork, number), checkpoint.depth, checkpoint.base, checkpoint.sealed)
            for fork, steps in self.steps.items()
            if fork != session_id
            for number, step in sorted(steps.items())
            if (checkpoint := step.checkpoint) is not None
            and checkpoint.base is not None
            and checkpoint.base.session_id == session_id
        ]

    def drop_state(self, root: str) -> None:
        """All namespaces whose names begin with this."""
        for namespace in [name for name in self.state if name.startswith(root)]:
            del self.state[namespace]


class Writing:
    """One change, which is undone if it turns out that it cannot be made."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._undo: list[Callable[[], Any]] = []

    def commit(self, commit: Commit) -> HoldfastError | None:
        try:
            if self._session(commit):
                self._rest(commit)
        except HoldfastError as error:
            self._roll_back()
            return error
        except BaseException:
            self._roll_back()
            raise
        return None

    def _roll_back(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _put(self, table: dict[Key, Value], key: Key, value: Value) -> None:
        if key in table:
            self._undo.append(lambda old=table[key]: table.__setitem__(key, old))  # type: ignore[misc]
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = value

    def _add(self, table: dict[Key, Value], key: Key, value: Value) -> None:
        if key in table:
            raise Conflict
        self._put(table, key, value)

    def _session(self, commit: Commit) -> bool:
        """Whether the rest is to be written: not if it was before."""
        tables, session = self._tables, commit.session
        old = tables.sessions.get(session.id)
        if old is not None and tables.tokens[session.id] == rows.signed(commit.token) and old.version != commit.expected:
            return False
        if commit.expected is None:
            self._new_session(commit, old)
        else:
            if old is None:
                raise SessionNotFound
            if old.fence != commit.fence:
                raise LeaseLost
            if old.version != commit.expected:
                raise VersionConflict
            fixed = rows.session_fixed_row(old)
            self._put(tables.sessions, session.id, rows.session_of(fixed + rows.session_row(session)))
        self._put(tables.tokens, session.id, rows.signed(commit.token))
        return True

    def _new_session(self, commit: Commit, old: Session | None) -> None:
        tables, session = self._tables, commit.session
        if old is not None:
            raise VersionConflict
        if session.template_id not in tables.templates:
            raise TemplateNotFound
        if session.origin is not None and all(step.number for step in commit.steps):
            tables.place(session.origin)
        self._put(tables.sessions, session.id, copy_session(session))
        self._put(tables.keys, session.id, next(tables.counter))
        self._put(tables.steps, session.id, {})
        self._put(tables.queries, session.id, {})
        self._put(tables.errors, session.id, {})

    def _rest(self, commit: Commit) -> None:
        tables, session_id = self._tables, commit.session.id
        for execution in commit.new_executions:
            self._add(tables.executions, execution.id, copy_execution(execution))
            self._put(tables.keys, execution.id, next(tables.counter))
        for execution in commit.executions:
            old = tables.executions.get(execution.id)
            if old is None or old.session_id != session_id:
                raise ExecutionNotFound
            self._put(tables.executions, execution.id, copy_execution(old, execution))
        for step in commit.steps:
            self._check_base(session_id, None if step.checkpoint is None else step.checkpoint.base)
            self._add(tables.steps[session_id], step.number, copy_step(step))
            if step.number:
                tables.fed += 1
                tables.feed.append((tables.fed, session_id, step.number))
                self._undo.append(tables.feed.pop)
        for query in commit.asked:
            self._add(tables.queries[session_id], query.number, copy_query(query))
        for query in commit.closed:
            asked = tables.queries[session_id].get(query.number)
            if asked is None:
                raise QueryNotFound
            self._put(tables.queries[session_id], query.number, copy_query(asked, query))
        if commit.ended and session_id in tables.begun:
            begun = tables.begun.pop(session_id)
            self._undo.append(lambda: tables.begun.__setitem__(session_id, begun))
        if commit.begun is not None:
            self._begin(session_id, commit.begun)
        for entry in commit.errors:
            self._add(tables.errors[session_id], entry.id, copy_error(entry))
            self._put(tables.keys, entry.id, next(tables.counter))
        if commit.reply is not None:
            self._reply(commit.reply)
        for rebased in commit.rebased:
            self._rebase(rebased)
        for number in commit.pruned:
            self._prune(Origin(session_id, number))
        for write in commit.state:
            self._state(write, rows.signed(commit.token))
        self._charge(commit_charges(commit))

    def _charge(self, charged: Iterable[tuple[Charge, list[int]]]) -> None:
        usage = self._tables.usage
        for charge, amounts in charged:
            self._put(usage, charge, list(map(sum, zip(usage.get(charge, [0] * 5), amounts, strict=True))))

    def _begin(self, session_id: UUID, begun: Begun) -> None:
        old, since = self._tables.begun.get(session_id), begun.since
        effects = [] if old is None else old.effects
        gone = effects[since:]
        effects[since:] = begun.effects
        self._undo.append(lambda: effects.__setitem__(slice(since, None), gone))
        self._put(self._tables.begun, session_id, copy_begun(begun, effects))

    def _state(self, write: StateWrite, version: int) -> None:
        keys = self._tables.state.setdefault(write.namespace, {})
        row = keys.get(write.key)
        if write.expected is not None and write.expected != (0 if row is None else row.version):
            raise StateConflict(write.namespace)
        if write.value is not None:
            self._put(keys, write.key, StateRow(write.key, write.value, version, write.expires_at))
        elif row is None or write.expected is None:
            raise StateConflict(write.namespace)
        else:
            del keys[write.key]
            self._undo.append(lambda: keys.__setitem__(write.key, row))

    def _reply(self, reply: Reply) -> None:
        old = self._tables.replies.get(reply.key)
        if old is not None:
            raise VersionConflict if old.request == reply.request else IdempotencyConflict
        self._put(self._tables.replies, reply.key, copy_reply(reply))

    # ---- checkpoints

    def _check_base(self, session_id: UUID, base: Origin | None) -> None:
        """One in another session must be there: that session may have changed without this one's knowledge."""
        if base is not None and base.session_id != session_id:
            try:
                self._tables.checkpoint(base)
            except CheckpointNotFound:
                raise VersionConflict("The checkpoint that this one is made from has gone in between.") from None

    def _rebase(self, rebased: Rebased) -> None:
        """Gives a checkpoint another base; the beginning of a fork becomes its own by that."""
        tables, (session_id, number) = self._tables, rebased.checkpoint
        place = tables.place(rebased.checkpoint)
        if place is None:
            raise CheckpointNotFound
        self._check_base(session_id, rebased.base)
        step = tables.steps[place.session_id][place.number]
        checkpoint = replace(tables.checkpoint(place), base=rebased.base, sealed=rebased.sealed)
        if place == rebased.checkpoint:
            step = replace(step, checkpoint=checkpoint)
        else:
            step = replace(step, number=0, parent=0, first_seq=1, events=[], checkpoint=checkpoint)
        self._put(tables.steps[session_id], number, step)

    def _prune(self, at: Origin) -> None:
        tables = self._tables
        step = tables.steps[at.session_id].get(at.number)
        if step is None:
            return
        self._put(tables.steps[at.session_id], at.number, replace(step, checkpoint=None))
        if any(link.base == at for link in tables.dependents(at.session_id)) or any(
            fork.origin == at and 0 not in tables.steps[fork.id] for fork in tables.forks(at.session_id)
        ):
            raise VersionConflict("Another session was forked from this checkpoint in between.")

    # ---- deleting

    def delete(self, session_id: UUID, rebased: Sequence[Rebased]) -> None:
        """A session with all that belongs to it."""
        tables = self._tables
        if session_id not in tables.sessions:
            raise SessionNotFound
        try:
            for change in rebased:
                self._rebase(change)
            has_beginning = tables.place(Origin(session_id, 0)) is not None
            if tables.dependents(session_id) or any(
                fork.origin is not None and (fork.origin.number or has_beginning) and 0 not in tables.steps[fork.id]
                for fork in tables.forks(session_id)
            ):
                raise VersionConflict("Another session was forked from this one in between.")
        except BaseException:
            self._roll_back()
            raise
        self._charge(deleted_charges(tables.sessions[session_id]))
        for charge in [charge for charge in tables.usage if charge[0] == family_scope(session_id)]:
            del tables.usage[charge]
        tables.drop_state(session_root(session_id))
        tables.feed = [told for told in tables.feed if told[1] != session_id]
        for execution in [e.id for e in tables.executions.values() if e.session_id == session_id]:
            del tables.executions[execution], tables.keys[execution]
        for table in (tables.sessions, tables.keys, tables.tokens, tables.steps, tables.queries, tables.errors, tables.begun):
            table.pop(session_id, None)
