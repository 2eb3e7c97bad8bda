"""Commits to PostgreSQL: a group is one statement, and what is rare in it a few more in the same transaction.

A commit that does not apply is told apart afterwards, by what its session bears then. That is also how a commit is known again whose
acknowledgement was lost: it is sent a second time, does not apply, and the session bears its token.
"""

import secrets
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from holdfast.domain import (
    CheckpointNotFound,
    ExecutionNotFound,
    HoldfastError,
    IdempotencyConflict,
    InvalidValue,
    Origin,
    QueryNotFound,
    SessionNotFound,
    StateConflict,
    TemplateNotFound,
    VersionConflict,
    session_root,
)
from holdfast.store._errors import LeaseLost, StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from holdfast.store._postgresql_connections import Connection, Connections
from holdfast.store._postgresql_driver import psycopg
from holdfast.store._postgresql_group import WITHOUT_EFFECTS, parameters
from holdfast.store._rows import error_row, listed_sessions, reply_row, session_fixed_row, signed, state_range, state_row
from holdfast.store._usage import deleted_charges
from holdfast.store.protocol import Commit, Rebased, Reply, family_scope

_STATEMENT: Final = b"holdfast_commit"
_WITH_EFFECTS: Final = b"holdfast_commit_with_effects"
_BINARY: Final = psycopg.pq.Format.BINARY
_TEXT: Final = psycopg.pq.Format.TEXT
_OF_ALL: Final = (StoreUnavailable, StoreFull, StoreReadOnly, StoreDamaged)
"""Errors that say nothing about a single commit."""
_SHARDS: Final = 256
"""Rows of one scope and hour in the table of usage. Each process adds to its own, so that few wait for each other."""
_REFUSALS: Final = {"HF001": ExecutionNotFound, "HF002": QueryNotFound}

Cursor = psycopg.Cursor[tuple[Any, ...]]


class Committer:
    """Writes groups of commits over the connection for writing."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self._queries = queries
        self._shard = secrets.randbelow(_SHARDS)
        self._statements = {_STATEMENT: queries["commit"].encode(), _WITH_EFFECTS: queries["commit_with_effects"].encode()}

    def prepare(self, connection: Connection) -> None:
        """Once for each connection."""
        for name, statement in self._statements.items():
            _checked(connection.pgconn.prepare(name, statement))

    def commit(self, connections: Connections, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        """As `Store.commit`."""
        outcomes: dict[int, HoldfastError | None] = {}
        for wave in _waves(commits):
            # Every process locks rows in the same order, so that two of them do not wait for each other.
            wave.sort(key=lambda at: commits[at].session.id.int)
            outcomes |= zip(wave, self._commit(connections, [commits[at] for at in wave]), strict=True)
        ordered = [outcomes[at] for at in range(len(commits))]
        _raise_if_nothing_is_known(ordered)
        return ordered

    def _commit(self, connections: Connections, commits: list[Commit]) -> list[HoldfastError | None]:
        try:
            group = parameters(commits, self._shard)
            keys = connections.write(lambda connection: self._write(connection, commits, group))
        except _OF_ALL as error:
            return [error] * len(commits)
        except (HoldfastError, struct.error, ValueError, TypeError) as error:
            if len(commits) > 1:  # one of them makes no sense, and must not take the others with it
                return [outcome for commit in commits for outcome in self._commit(connections, [commit])]
            return [error if isinstance(error, HoldfastError) else InvalidValue("something in this change cannot be kept")]
        missed = [commit for key, commit in zip(keys, commits, strict=True) if not key]
        if not missed:
            return [None] * len(commits)
        reasons = iter(self._reasons(connections, missed))
        return [None if key else next(reasons) for key in keys]

    def _reasons(self, connections: Connections, commits: list[Commit]) -> Iterable[HoldfastError | None]:
        ids = [commit.session.id for commit in commits]
        try:
            rows = connections.read(lambda c: c.execute(self._queries["standing"], (ids,), binary=True).fetchall())
        except StoreError as error:
            return [error] * len(commits)
        standing = {row[0]: row[1:] for row in rows}
        return [_reason(commit, standing.get(commit.session.id.bytes)) for commit in commits]

    def _write(self, connection: Connection, commits: list[Commit], group: list[bytes]) -> list[int]:
        """The keys of the sessions whose commits applied, and 0 for others."""
        if not any(map(_is_rare, commits)):
            return _execute(connection, group)
        with connection.transaction(), connection.cursor(binary=True) as cursor:
            for commit in commits:
                if commit.expected is None:
                    self._create(cursor, commit)
            keys = _execute(connection, group)
            for key, commit in zip(keys, commits, strict=True):
                if key:
                    self._write_rest(cursor, key, commit)
            self._write_state(cursor, [commit for key, commit in zip(keys, commits, strict=True) if key and commit.state])
            return keys

    def _create(self, cursor: Cursor, commit: Commit) -> None:
        """The row of a new session, unless there is one. A fork holds what it is made from until it is committed."""
        session = commit.session
        *_, worktree, _, query, rest, tenant, created_by = session_fixed_row(session)
        parent = None if session.family is None else session.family.parent
        origin = session.origin or (None, None)
        fixed = worktree, parent, query, rest, tenant, created_by
        row = session.id, session.template_id, session.created_at, *origin, *fixed, commit.fence
        try:
            created = cursor.execute(self._queries["new_session"], row).rowcount
        except psycopg.errors.ForeignKeyViolation:
            raise TemplateNotFound from None
        if created and session.origin is not None and all(step.number for step in commit.steps):
            self._place(cursor, session.origin)

    def _write_rest(self, cursor: Cursor, key: int, commit: Commit) -> None:
        for base in _foreign_bases(commit):
            self._base(cursor, commit.session.id, base)
        for entry in commit.errors:
            cursor.execute(self._queries["create_error"], (key, entry.id, *error_row(entry)[1:]))
        if commit.reply is not None:
            self._reply(cursor, commit.reply)
        for rebased in commit.rebased:
            self._rebase(cursor, rebased)
        if commit.pruned:
            cursor.execute(self._queries["prune"], (key, commit.pruned))
            needed = {"id": commit.session.id, "numbers": commit.pruned}
            if _scalar(cursor.execute(self._queries["is_needed"], needed)):
                raise VersionConflict("Another session was forked from this checkpoint in between.")

    def _write_state(self, cursor: Cursor, commits: list[Commit]) -> None:
        """Last of all, and in the order of the keys in every process, for the same reason as sessions."""
        writes = [(write, state_row(write, commit)) for commit in commits for write in commit.state]
        writes.sort(key=lambda pair: pair[0][:2])
        for write, row in writes:
            name = "delete_state" if write.value is None else "put_state"
            if not cursor.execute(self._queries[name], row).rowcount:
                raise StateConflict(write.namespace)

    def _reply(self, cursor: Cursor, reply: Reply) -> None:
        row = reply_row(reply)
        if cursor.execute(self._queries["put_reply"], row).fetchone() is None:
            known = cursor.execute(self._queries["get_reply"], row[:1]).fetchone()
            raise VersionConflict if known is None or known[1] == row[1] else IdempotencyConflict

    def _rebase(self, cursor: Cursor, rebased: Rebased) -> None:
        """Gives a checkpoint another base; the beginning of a fork becomes its own by that."""
        session_id, number = rebased.checkpoint
        place = self._place(cursor, rebased.checkpoint)
        held = cursor.execute(self._queries["hold_session"], (session_id,)).fetchone()
        if place is None or held is None:
            raise CheckpointNotFound
        base_session, base_number = self._base(cursor, session_id, rebased.base)
        values = {
            "session": held[0],
            "number": number,
            "base_session": base_session,
            "base_number": base_number,
            "sealed": rebased.sealed,
            "origin": place[0],
            "origin_number": place[1],
        }
        cursor.execute(self._queries["rebase" if place == (held[0], number) else "create_beginning"], values)

    def _base(self, cursor: Cursor, session_id: UUID, base: Origin | None) -> tuple[UUID | None, int | None]:
        """How a row names its base. One in another session must be there: that session may have changed without this one's knowledge."""
        if base is None or base.session_id == session_id:
            return None, None if base is None else base.number
        held = cursor.execute(self._queries["hold_session"], (base.session_id,)).fetchone()
        if held is None or not _scalar(cursor.execute(self._queries["has_checkpoint"], (held[0], base.number))):
            raise VersionConflict("The checkpoint that this one is made from has gone in between.")
        return base

    def _place(self, cursor: Cursor, at: Origin) -> tuple[int, int] | None:
        """The session's key and the number of the row that has a checkpoint, which stays. None: it is the template itself."""
        (session_id, number), first = at, True
        while True:
            held = cursor.execute(self._queries["hold_session"], (session_id,)).fetchone()
            if held is None:
                if first or number:
                    raise CheckpointNotFound
                return None  # a session whose beginning forks need is not deleted
            key, origin_session, origin_number = held
            if _scalar(cursor.execute(self._queries["has_checkpoint"], (key, number))):
                return key, number
            if number:
                raise CheckpointNotFound
            if origin_session is None:
                return None
            session_id, number, first = UUID(bytes=origin_session), origin_number, False

    def delete(self, cursor: Cursor, session_id: UUID, rebased: Iterable[Rebased]) -> None:
        """A session with all that belongs to it."""
        key = _scalar(cursor.execute(self._queries["lock_session"], (session_id,)))
        if key is None:
            raise SessionNotFound
        for change in rebased:
            self._rebase(cursor, change)
        values = {"id": session_id, "has_beginning": self._place(cursor, Origin(session_id, 0)) is not None}
        if _scalar(cursor.execute(self._queries["has_dependents"], values)):
            raise VersionConflict("Another session was forked from this one in between.")
        (found,) = listed_sessions(cursor.execute(self._queries["get_session"], (session_id,)))
        for charge, amounts in deleted_charges(found):
            cursor.execute(self._queries["charge"], (*charge, self._shard, *amounts))
        cursor.execute(self._queries["drop_scope"], (family_scope(session_id),))
        cursor.execute(self._queries["delete_session"], {"key": key})
        cursor.execute(self._queries["delete_states"], state_range(session_root(session_id)))


def _is_rare(commit: Commit) -> bool:
    """Whether it has parts that are not in the statement of a group."""
    if commit.expected is None or commit.errors or commit.reply or commit.pruned or commit.rebased or commit.state:
        return True
    return bool(_foreign_bases(commit))


def _foreign_bases(commit: Commit) -> list[Origin]:
    """Checkpoints of other sessions that its own are made from."""
    bases = [step.checkpoint.base for step in commit.steps if step.checkpoint is not None]
    return [base for base in bases if base is not None and base.session_id != commit.session.id]


def _waves(commits: Sequence[Commit]) -> list[list[int]]:
    """The places of commits, such that each wave has a session once: one statement sees only what was there before it."""
    waves: list[list[int]] = []
    seen: dict[object, int] = {}
    for at, commit in enumerate(commits):
        wave = seen.get(commit.session.id, -1) + 1
        seen[commit.session.id] = wave
        if wave == len(waves):
            waves.append([])
        waves[wave].append(at)
    return waves


def _execute(connection: Connection, group: list[bytes]) -> list[int]:
    # Not by psycopg's cursor: it would adapt each of eighty parameters anew, and wait in Python while they are sent. Groups are
    # written twice as fast by one blocking call, which releases the interpreter's lock.
    name = _STATEMENT if len(group) == WITHOUT_EFFECTS else _WITH_EFFECTS
    result = _checked(connection.pgconn.exec_prepared(name, group, [_BINARY] * len(group), _TEXT))
    keys = result.get_value(0, 0) or b""
    return [int(key) for key in keys[1:-1].split(b",")]


def _checked(result: "psycopg.pq.abc.PGresult") -> "psycopg.pq.abc.PGresult":
    if result.status in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
        return result
    state = (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode()
    if state in _REFUSALS:
        raise _REFUSALS[state]
    try:
        kind: type[psycopg.Error] = psycopg.errors.lookup(state)
    except KeyError:
        kind = psycopg.OperationalError if not state else psycopg.DatabaseError
    raise kind


def _scalar(cursor: Cursor) -> Any:
    """The first value of the first row, if there is one."""
    row = cursor.fetchone()
    return None if row is None else row[0]


def _raise_if_nothing_is_known(outcomes: list[HoldfastError | None]) -> None:
    """One error instead of the same for each: there is nothing to tell apart."""
    if outcomes and isinstance(outcomes[0], _OF_ALL) and all(isinstance(outcome, _OF_ALL) for outcome in outcomes):
        raise outcomes[0]


def _reason(commit: Commit, standing: tuple[int, int] | None) -> HoldfastError | None:
    """Why it did not apply. None if it did, before."""
    if standing is None:
        return SessionNotFound()
    fence, token = standing
    if token == signed(commit.token):
        return None
    if commit.expected is not None and fence != commit.fence:
        return LeaseLost()
    return VersionConflict()
