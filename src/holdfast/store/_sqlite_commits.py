"""How SQLite takes commits: many sessions' in one transaction, so that they share what costs most, waiting for the disk.

A group is written kind by kind, the sessions' rows first, by compare-and-set. If all goes well, that is five statements for any number of
commits. If anything does not, the group is rolled back and written again commit by commit, each behind a savepoint, so that only those
fail which must. That is rare, and costs no further wait for the disk.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from holdfast.domain import (
    CheckpointNotFound,
    Conflict,
    ExecutionNotFound,
    HoldfastError,
    IdempotencyConflict,
    InvalidValue,
    NotFound,
    Origin,
    QueryNotFound,
    SessionNotFound,
    StateConflict,
    TemplateNotFound,
    VersionConflict,
    session_root,
)
from holdfast.store._errors import LeaseLost, StoreError
from holdfast.store._rows import (
    Row,
    begun_text,
    effect_rows,
    effects_left,
    error_row,
    execution_fixed_row,
    execution_given,
    execution_row,
    listed_sessions,
    plain,
    query_fixed_row,
    query_row,
    reply_row,
    session_fixed_row,
    session_row,
    signed,
    state_range,
    state_row,
    step_row,
)
from holdfast.store._usage import Charge, charges, deleted_charges
from holdfast.store.protocol import Commit, Rebased, family_scope

NUMBER_BITS: Final = 28
"""The place of a query or an effect is its session's key and its number, in one integer."""

_CACHED_KEYS: Final = 1 << 16
_BAD: Final = (HoldfastError, sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.DataError)


class _WrittenBefore(HoldfastError):
    """The session bears this commit's token."""


class _OldKey(HoldfastError):
    """The session was deleted and made again, by another process."""


class Committer:
    """Writes commits, inside the one writer's transaction."""

    def __init__(self, sql: dict[str, str]) -> None:
        self._sql = sql
        # Only a hint: whoever uses a key compares the id as well, since another process may have deleted the session.
        self._keys: dict[int, int] = {}

    def write(self, cursor: sqlite3.Cursor, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        """What came of each."""
        try:
            self._together(cursor, commits)
            return [None] * len(commits)
        except StoreError:
            raise
        except (*_BAD, ValueError, TypeError, OverflowError):
            cursor.execute("ROLLBACK")
            cursor.execute("BEGIN IMMEDIATE")
        return [self._alone(cursor, commit) for commit in commits]

    def _alone(self, cursor: sqlite3.Cursor, commit: Commit) -> HoldfastError | None:
        outcome: HoldfastError | None = None
        cursor.execute("SAVEPOINT one")
        try:
            try:
                self._together(cursor, [commit])
            except _OldKey:
                cursor.execute("ROLLBACK TO one")
                self._together(cursor, [commit])
        except _WrittenBefore:
            cursor.execute("ROLLBACK TO one")
        except (StoreError, sqlite3.OperationalError):
            raise
        except (*_BAD, ValueError, TypeError, OverflowError) as error:
            cursor.execute("ROLLBACK TO one")
            outcome = self._reason(cursor, commit, error)
        cursor.execute("RELEASE one")
        return outcome

    def _reason(self, cursor: sqlite3.Cursor, commit: Commit, error: Exception) -> HoldfastError:
        """Why a commit that stands alone could not be written."""
        if isinstance(error, HoldfastError):
            return error
        if not isinstance(error, sqlite3.IntegrityError):
            return InvalidValue("something in this change cannot be kept")
        if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            # What a new session refers to is its template; what is written to an old one refers to the session.
            return TemplateNotFound() if commit.expected is None else SessionNotFound()
        if commit.reply is not None:
            found = cursor.execute(self._sql["get_reply"], (plain(commit.reply.key),)).fetchone()
            if found is not None:
                return VersionConflict() if found[1] == plain(commit.reply.request) else IdempotencyConflict()
        return Conflict()

    def _together(self, cursor: sqlite3.Cursor, commits: Sequence[Commit]) -> None:
        """Writes all, or raises."""
        sessions: list[Row] = []
        executions: list[Row] = []
        steps: list[Row] = []
        asked: list[Row] = []
        closed: list[Row] = []
        others: list[tuple[int, Commit]] = []
        for commit in commits:
            session, session_id = commit.session, commit.session.id
            if commit.expected is None:
                key = self._new_session(cursor, commit)
            else:
                key = self._keys.get(session_id.int) or self._find(cursor, session_id)
                mark = (signed(commit.token), key, session_id.bytes, commit.expected, commit.fence)
                sessions.append(session_row(session) + mark)
            for execution in commit.new_executions:
                cursor.execute(self._sql["insert_execution"], (key, *execution_fixed_row(execution), *execution_row(execution)))
                cursor.execute(self._sql["insert_input"], (cursor.lastrowid, execution_given(execution)))
            for execution in commit.executions:
                executions.append((*execution_row(execution), execution.id.bytes, key))  # noqa: PERF401 - a list would be made for one
            for step in commit.steps:
                base = None if step.checkpoint is None else step.checkpoint.base
                steps.append((*step_row(step), key, *self._base(cursor, session_id, base)))
            place = key << NUMBER_BITS
            for query in commit.asked:
                number, *fixed = query_fixed_row(query)
                asked.append((place + _checked(number), *fixed, *query_row(query)))
            for query in commit.closed:
                closed.append((*query_row(query), place + _checked(query.number)))  # noqa: PERF401
            if commit.ended or commit.begun or commit.errors or commit.reply or commit.pruned or commit.rebased or commit.state:
                others.append((key, commit))
        if sessions and cursor.executemany(self._sql["update_session"], sessions).rowcount != len(sessions):
            raise self._missed(cursor, commits[0])
        self._many(cursor, "insert_step", steps)
        self._many(cursor, "update_execution", executions, ExecutionNotFound)
        self._many(cursor, "insert_query", asked)
        self._many(cursor, "update_query", closed, QueryNotFound)
        for key, commit in others:
            self._others(cursor, key, commit)
        self._charge(cursor, charges(commits))

    def _many(self, cursor: sqlite3.Cursor, name: str, rows: list[Row], missing: type[NotFound] = NotFound) -> None:
        if rows and cursor.executemany(self._sql[name], rows).rowcount != len(rows):
            raise missing

    def _charge(self, cursor: sqlite3.Cursor, rows: Mapping[Charge, Sequence[int]]) -> None:
        """Adds to the usage of tenants and families, once for all commits of a group."""
        if rows:
            cursor.executemany(self._sql["charge"], [(*charge, *amounts) for charge, amounts in rows.items()])

    # ---- the session's row

    def _find(self, cursor: sqlite3.Cursor, session_id: UUID) -> int:
        row = cursor.execute(self._sql["session_marks"], (session_id.bytes,)).fetchone()
        if row is None:
            raise SessionNotFound
        self.remember(session_id, row[0])
        return int(row[0])

    def remember(self, session_id: UUID, key: int) -> None:
        """The key of a session that is likely to be written."""
        if len(self._keys) >= _CACHED_KEYS:
            self._keys.clear()
        self._keys[session_id.int] = key

    def _missed(self, cursor: sqlite3.Cursor, commit: Commit) -> HoldfastError:
        """Why a session's row was not updated, if the commit stands alone."""
        self._keys.pop(commit.session.id.int, None)
        row = cursor.execute(self._sql["session_marks"], (commit.session.id.bytes,)).fetchone()
        if row is None:
            return SessionNotFound()
        _, version, fence, token = row
        if token == signed(commit.token):
            return _WrittenBefore()
        if fence != commit.fence:
            return LeaseLost()
        return VersionConflict() if version != commit.expected else _OldKey()

    def _new_session(self, cursor: sqlite3.Cursor, commit: Commit) -> int:
        session = commit.session
        marks = cursor.execute(self._sql["session_marks"], (session.id.bytes,)).fetchone()
        if marks is not None:
            raise _WrittenBefore if marks[3] == signed(commit.token) else VersionConflict
        if session.origin is not None and all(step.number for step in commit.steps):
            self._place(cursor, session.origin)
        cursor.execute(self._sql["insert_session"], (*session_fixed_row(session), *session_row(session), signed(commit.token)))
        key = cursor.lastrowid or 0
        self.remember(session.id, key)
        return key

    # ---- what few commits have

    def _others(self, cursor: sqlite3.Cursor, key: int, commit: Commit) -> None:
        self._journal(cursor, key << NUMBER_BITS, commit)
        for entry in commit.errors:
            cursor.execute(self._sql["insert_error"], (key, *error_row(entry)))
        if commit.reply is not None:
            cursor.execute(self._sql["insert_reply"], reply_row(commit.reply))
        for rebased in commit.rebased:
            self.rebase(cursor, rebased)
        for number in commit.pruned:
            cursor.execute(self._sql["prune"], (key, number))
            needed = {"session": key, "session_id": commit.session.id.bytes, "number": number}
            if cursor.execute(self._sql["is_needed"], needed).fetchone()[0]:
                raise VersionConflict("Another session was forked from this checkpoint in between.")
        for write in commit.state:
            name = "delete_state" if write.value is None else "put_state"
            if not cursor.execute(self._sql[name], state_row(write, commit)).rowcount:
                raise StateConflict(write.namespace)

    def _journal(self, cursor: sqlite3.Cursor, place: int, commit: Commit) -> None:
        """The step that is under way, and after it its effects."""
        begun, left = commit.begun, effects_left(commit)
        if begun is not None:
            rows = [(place, begun_text(begun))]
            rows += [(place + _checked(position + 1), data) for position, data in effect_rows(begun)]
            cursor.executemany(self._sql["put_journal"], rows)
        if left is not None:
            first = place if begun is None else place + 1 + left
            cursor.execute(self._sql["cut_journal"], (first, place + (1 << NUMBER_BITS)))

    def rebase(self, cursor: sqlite3.Cursor, rebased: Rebased) -> None:
        """Gives a checkpoint another base; the beginning of a fork becomes its own by that."""
        session_id, number = rebased.checkpoint
        row = cursor.execute(self._sql["checkpoint_place"], (number, session_id.bytes)).fetchone()
        if row is None:
            raise CheckpointNotFound
        key, depth = row[:2]
        base = self._base(cursor, session_id, rebased.base)
        if depth is not None:
            cursor.execute(self._sql["rebase"], (*base, rebased.sealed, key, number))
            return
        origin = self._place(cursor, rebased.checkpoint)
        if number or origin is None:
            raise CheckpointNotFound
        values = {"fork": key, "base_session": base[0], "base_number": base[1], "sealed": rebased.sealed}
        cursor.execute(self._sql["insert_beginning"], values | {"session": origin[0], "number": origin[1]})

    def _base(self, cursor: sqlite3.Cursor, session_id: UUID, base: Origin | None) -> tuple[int | None, int | None]:
        """How a row names its base. One in another session must be there: that session may have changed without this one's knowledge."""
        if base is None:
            return None, None
        if base.session_id == session_id:
            return None, base.number
        row = cursor.execute(self._sql["checkpoint_place"], (base.number, base.session_id.bytes)).fetchone()
        if row is None or row[1] is None:
            raise VersionConflict("The checkpoint that this one is made from has gone in between.")
        return row[0], base.number

    def _place(self, cursor: sqlite3.Cursor, at: Origin) -> tuple[int, int] | None:
        """The session's key and the number of the row that has a checkpoint. None: it is the template itself."""
        session_id, number = at.session_id.bytes, at.number
        row = cursor.execute(self._sql["checkpoint_place"], (number, session_id)).fetchone()
        if row is None:
            raise CheckpointNotFound
        while row is not None:
            key, depth, session_id, origin_number = row
            if depth is not None:
                return key, number
            if number:
                raise CheckpointNotFound
            if session_id is None:
                return None
            number = origin_number
            row = cursor.execute(self._sql["checkpoint_place"], (number, session_id)).fetchone()
        if number:
            raise CheckpointNotFound
        return None  # a session whose beginning forks need is not deleted

    # ---- deleting

    def delete(self, cursor: sqlite3.Cursor, session_id: UUID, rebased: Sequence[Rebased]) -> None:
        """A session with all that belongs to it."""
        marks = cursor.execute(self._sql["session_marks"], (session_id.bytes,)).fetchone()
        if marks is None:
            raise SessionNotFound
        key: int = marks[0]
        for change in rebased:
            self.rebase(cursor, change)
        has_beginning = self._place(cursor, Origin(session_id, 0)) is not None
        values = {"session": key, "session_id": session_id.bytes, "has_beginning": has_beginning}
        if cursor.execute(self._sql["has_dependents"], values).fetchone()[0]:
            raise VersionConflict("Another session was forked from this one in between.")
        (found,) = listed_sessions(cursor.execute(self._sql["get_session"], (session_id.bytes,)))
        self._charge(cursor, dict(deleted_charges(found)))
        cursor.execute(self._sql["drop_scope"], (family_scope(session_id),))
        places = key << NUMBER_BITS, key + 1 << NUMBER_BITS
        cursor.execute(self._sql["delete_queries"], places)
        cursor.execute(self._sql["cut_journal"], places)
        cursor.execute(self._sql["keep_last_key"], (key,))
        cursor.execute(self._sql["delete_session"], (key,))
        cursor.execute(self._sql["delete_states"], state_range(session_root(session_id)))
        cursor.execute(self._sql["drop_old_keys"])
        self._keys.pop(session_id.int, None)


def _checked(number: int) -> int:
    if not 0 < number < 1 << NUMBER_BITS:
        raise InvalidValue("a session has no more than 268,435,455 queries, and a step no more effects")
    return number
