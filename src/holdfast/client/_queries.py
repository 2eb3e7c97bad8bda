"""Calls about queries: what paused executions wait for, and the answers."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from holdfast.client import models
from holdfast.client._calls import Call, Page, a_query, an_id, change, given, look, one, page_of, path, some_id
from holdfast.client._verbs import Group, Way, each, verb
from holdfast.domain import InvalidValue, QueryKind, QueryState


def _at(session: UUID | str, query: str | int, *rest: str) -> str:
    return path("sessions", an_id(session, "session"), "queries", a_query(query), *rest)


class Queries(Group[Way]):
    """`client.queries`: list, get, answer, cancel.

    An answer is bound to one query. The same answer again changes nothing; another one raises `AnswerConflict`.
    """

    @verb
    def list(
        self,
        session: UUID | str | None = None,
        *,
        execution: UUID | str | None = None,
        state: QueryState | str | None = None,
        kind: QueryKind | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Call[Page[models.Query]]:
        """Queries, oldest first; by default those that are open, of all sessions."""
        found = _filters(session, execution, state, kind)
        return look(path("queries"), page_of(models.Query), **found, limit=limit, cursor=cursor)

    @each
    def iterate(
        self,
        session: UUID | str | None = None,
        *,
        execution: UUID | str | None = None,
        state: QueryState | str | None = None,
        kind: QueryKind | str | None = None,
        page_size: int = 200,
    ) -> Call[Page[models.Query]]:
        """All queries, oldest first, fetched as they are needed."""
        return look(path("queries"), page_of(models.Query), **_filters(session, execution, state, kind), limit=page_size)

    @verb
    def get(self, session: UUID | str, query: str | int) -> Call[models.Query]:
        """One query. Raises `QueryNotFound`."""
        return look(_at(session, query), one(models.Query))

    @verb
    def answer(
        self,
        session: UUID | str,
        value: Any,
        *,
        query: str | int | None = None,
        usage: Mapping[str, int] | None = None,
        model: str | None = None,
        finish_reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Execution]:
        """Answers a query, and returns where the execution stands then. Without `query` it is the only one that is open.

        `usage` may say what a model counted, such as `prompt_tokens` and `completion_tokens`; `model` and `finish_reason` who answered, and
        why it said no more.
        """
        about = given(usage=usage, model=model, finish_reason=finish_reason)
        if query is not None:
            body = {"value": value, **about}
            return change("POST", _at(session, query, "answer"), one(models.Execution), body, idempotency_key)
        if about:
            raise InvalidValue("usage, model and finish_reason belong to one query: say which")
        return _answers(session, {"value": value}, idempotency_key)

    @verb
    def answer_many(
        self, session: UUID | str, answers: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Call[models.Execution]:
        """Answers several queries by their ids, all or none."""
        return _answers(session, {"answers": {a_query(query): value for query, value in answers.items()}}, idempotency_key)

    @verb
    def fail(
        self,
        session: UUID | str,
        query: str | int,
        message: str,
        *,
        code: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Execution]:
        """Answers a query with an error, which is raised where the script asked."""
        body = {"error": given(message=message, code=code)}
        return change("POST", _at(session, query, "answer"), one(models.Execution), body, idempotency_key)

    @verb
    def cancel(self, session: UUID | str, query: str | int, *, idempotency_key: str | None = None) -> Call[models.Execution]:
        """Withdraws a query: it raises in the script with code `QUERY_CANCELLED`. Twice is fine."""
        return change("POST", _at(session, query, "cancel"), one(models.Execution), None, idempotency_key)


def _answers(session: UUID | str, body: dict[str, Any], key: str | None) -> Call[models.Execution]:
    return change("POST", path("sessions", an_id(session, "session"), "answers"), one(models.Execution), body, key)


def _filters(
    session: UUID | str | None, execution: UUID | str | None, state: QueryState | str | None, kind: QueryKind | str | None
) -> dict[str, Any]:
    return {
        "session_id": some_id(session, "session"),
        "execution_id": some_id(execution, "execution"),
        "state": state,
        "kind": kind,
    }
