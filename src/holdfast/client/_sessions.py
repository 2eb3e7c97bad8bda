"""Calls about sessions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast.client import models
from holdfast.client._calls import Call, Page, an_id, change, given, look, nothing, one, page_of, path, some_id
from holdfast.client._verbs import Group, Way, each, verb
from holdfast.domain import Budget, InvalidValue, SessionState


def _at(session: UUID | str, *rest: str) -> str:
    return path("sessions", an_id(session, "session"), *rest)


class Sessions(Group[Way]):
    """`client.sessions`: long-lived program states, and their history."""

    @verb
    def list(
        self,
        *,
        status: SessionState | str | None = None,
        template: UUID | str | None = None,
        name: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Call[Page[models.Session]]:
        """Sessions, newest first."""
        template_id = some_id(template, "template")
        read = page_of(models.Session)
        return look(path("sessions"), read, status=status, template_id=template_id, name=name, limit=limit, cursor=cursor)

    @each
    def iterate(
        self,
        *,
        status: SessionState | str | None = None,
        template: UUID | str | None = None,
        name: str | None = None,
        page_size: int = 200,
    ) -> Call[Page[models.Session]]:
        """All sessions, newest first, fetched as they are needed."""
        template_id = some_id(template, "template")
        read = page_of(models.Session)
        return look(path("sessions"), read, status=status, template_id=template_id, name=name, limit=page_size)

    @verb
    def create(
        self,
        template: UUID | str,
        *,
        version: int | None = None,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, int] | None = None,
        workspace_id: str | None = None,
        base_commit_oid: str | None = None,
        worktree_path: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Session]:
        """A new session of a template, by its id. The three fields of a worktree come together or not at all.

        Startup files run now; if one fails, the error's `details` have the id of the crashed session.
        """
        body = given(
            template_id=an_id(template, "template"),
            version=version,
            name=name,
            meta=meta,
            budget=budget,
            workspace_id=workspace_id,
            base_commit_oid=base_commit_oid,
            worktree_path=worktree_path,
        )
        return change("POST", path("sessions"), one(models.Session), body, idempotency_key)

    @verb
    def get(self, session: UUID | str) -> Call[models.Session]:
        """One session. Raises `SessionNotFound`."""
        return look(_at(session), one(models.Session))

    @verb
    def close(self, session: UUID | str, *, idempotency_key: str | None = None) -> Call[models.Session]:
        """Ends a session, and what runs or waits in it. Its history stays. Twice is fine."""
        return change("POST", _at(session, "close"), one(models.Session), None, idempotency_key)

    @verb
    def delete(self, session: UUID | str, *, idempotency_key: str | None = None) -> Call[None]:
        """Removes a session and all that belongs to it. Sessions that were forked from it stay whole."""
        return change("DELETE", _at(session), nothing, None, idempotency_key, query={"purge": True})

    # ---- history -------------------------------------------------------------------------------------------------------------------

    @verb
    def fork(
        self,
        session: UUID | str,
        checkpoint: int | None = None,
        *,
        count: int = 1,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[tuple[models.Session, ...]]:
        """New sessions that go on from a checkpoint of this one, by default from its present state."""
        body = given(checkpoint=checkpoint, count=count, name=name, meta=meta)
        return change("POST", _at(session, "fork"), one(tuple[models.Session, ...]), body, idempotency_key)

    @verb
    def rewind(self, session: UUID | str, checkpoint: int, *, idempotency_key: str | None = None) -> Call[models.Session]:
        """Makes an earlier checkpoint the present state. What came after it can still be rewound to."""
        return change("POST", _at(session, "rewind"), one(models.Session), {"checkpoint": checkpoint}, idempotency_key)

    @verb
    def checkpoints(
        self, session: UUID | str, *, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.Checkpoint]]:
        """The states that can be gone back to, in the order in which they were made."""
        return look(_at(session, "checkpoints"), page_of(models.Checkpoint), limit=limit, cursor=cursor)

    @each
    def iterate_checkpoints(self, session: UUID | str, *, page_size: int = 200) -> Call[Page[models.Checkpoint]]:
        """All states that can be gone back to, fetched as they are needed."""
        return look(_at(session, "checkpoints"), page_of(models.Checkpoint), limit=page_size)

    @verb
    def tree(self, session: UUID | str) -> Call[models.Tree]:
        """The history of a session as a tree, with the sessions that were forked from it."""
        return look(_at(session, "tree"), one(models.Tree))

    @verb
    def diff(self, session: UUID | str, before: int, after: int | None = None) -> Call[models.Diff]:
        """The global variables that differ between two checkpoints, by default between one and the present."""
        return look(_at(session, "diff"), one(models.Diff), before=before, after=after)

    @verb
    def prune(
        self,
        session: UUID | str,
        *,
        keep: int | None = None,
        before: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Pruned]:
        """Drops checkpoints: all but the newest `keep`, of those made before a time. The present and what forks need stay.

        If any `remaining` are told, the daemon goes on in the background, and `pruning` tells how far it has come.
        """
        if before is not None and before.tzinfo is None:
            raise InvalidValue("a time needs a time zone")
        body = given(keep=keep, before=None if before is None else round(before.timestamp() * 1000))
        return change("POST", _at(session, "prune"), one(models.Pruned), body, idempotency_key)

    @verb
    def pruning(self, session: UUID | str) -> Call[models.Pruned]:
        """How far the pruning of a session that is under way has come."""
        return look(_at(session, "prune"), one(models.Pruned))

    @verb
    def errors(
        self, session: UUID | str, *, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.ErrorEntry]]:
        """What went wrong in a session, oldest first."""
        return look(_at(session, "errors"), page_of(models.ErrorEntry), limit=limit, cursor=cursor)
