"""Queries: what paused executions wait for, and the answers. Answering is hot: see `_routes`."""

from typing import Annotated, Final

from fastapi import Query

from holdfast.control import plain
from holdfast.http import _examples
from holdfast.http._answers import Json
from holdfast.http._call import ANSWER, READ
from holdfast.http._executions import told
from holdfast.http._params import HotCall, Key, Listed, QueryId, SessionId, key_of
from holdfast.http._routes import Hf, Routes
from holdfast.http.models import _base
from holdfast.http.models import _executions as models

routes: Final = Routes("queries")

_ANSWER: Final = (
    "SESSION_NOT_FOUND",
    "QUERY_NOT_FOUND",
    "ANSWER_CONFLICT",
    "SESSION_NOT_READY",
    "IDEMPOTENCY_CONFLICT",
    "OUTPUT_LIMIT_EXCEEDED",
    "USAGE_EXCEEDED",
    "QUOTA_EXCEEDED",
    "VALUE_REFUSED",
)


@routes.add(
    "GET",
    "/queries",
    READ,
    list[models.Query],
    errors=("SESSION_NOT_FOUND", "EXECUTION_NOT_FOUND"),
    example=[_examples.QUERY],
)
async def list_queries(
    hf: Hf,
    listed: Listed,
    session_id: Annotated[_base.SessionId | None, Query(description="Only those of this session.")] = None,
    execution_id: Annotated[_base.ExecutionId | None, Query(description="Only those of this execution.")] = None,
    state: Annotated[models.QueryState, Query(description="Only those in this state.")] = "open",
    kind: Annotated[models.QueryKind | None, Query(description="Only those of this kind.")] = None,
) -> Json:
    """Queries of all sessions, oldest first; by default those that are open."""
    if session_id is not None:
        await hf.sessions.get(session_id)
    if execution_id is not None:
        await hf.executions.get(execution_id)
    page = await hf.queries.list(
        session_id,
        execution=execution_id,
        states=[state],
        kinds=[] if kind is None else [kind],
        limit=listed.limit,
        after=listed.cursor,
    )
    return listed.answer(page, plain.query)


@routes.add(
    "GET",
    "/sessions/{session_id}/queries/{query_id}",
    READ,
    models.Query,
    errors=("SESSION_NOT_FOUND", "QUERY_NOT_FOUND"),
    example=_examples.QUERY,
)
async def get_query(hf: Hf, session_id: SessionId, query_id: QueryId) -> Json:
    """One query of a session."""
    await hf.sessions.get(session_id)
    return Json(plain.query(await hf.queries.get(session_id, query_id)))


@routes.add(
    "POST",
    "/sessions/{session_id}/queries/{query_id}/answer",
    ANSWER,
    models.Execution,
    errors=_ANSWER,
    example=_examples.EXECUTION,
    hot=models.AnswerRequest,
    extra={"body": {"value": "Ada", "usage": {"prompt_tokens": 12, "completion_tokens": 3}}},
)
async def answer_query(hf: Hf, call: HotCall, body: models.AnswerRequest, session_id: SessionId, query_id: QueryId) -> Json:
    """Answers a query with a value, or with an error that is raised where the script asked.

    The same answer again is accepted and changes nothing; another one is ANSWER_CONFLICT. Tells where the execution stands then.
    """
    key = key_of(call)
    if "error" in body.model_fields_set:
        turn = await hf.queries.fail(session_id, body.error.message, query=query_id, code=body.error.code, idempotency_key=key)
    else:
        usage = None if body.usage is None else {name: count for name, count in body.usage.items() if count is not None}
        about = {"model": body.model, "finish_reason": body.finish_reason}
        turn = await hf.queries.answer(session_id, body.value, query=query_id, usage=usage, **about, idempotency_key=key)
    return told(turn, 200)


@routes.add(
    "POST",
    "/sessions/{session_id}/answers",
    ANSWER,
    models.Execution,
    errors=(*_ANSWER, "ANSWER_AMBIGUOUS"),
    example=_examples.EXECUTION,
    hot=models.AnswersRequest,
    extra={"body": {"answers": {"q-1": "Ada", "q-2": True}}},
)
async def answer_session(hf: Hf, call: HotCall, body: models.AnswersRequest, session_id: SessionId) -> Json:
    """Answers several queries, all or none; or, with `value`, the only one that is open."""
    key = key_of(call)
    if "answers" in body.model_fields_set:
        return told(await hf.queries.answer_many(session_id, body.answers, idempotency_key=key), 200)
    return told(await hf.queries.answer(session_id, body.value, idempotency_key=key), 200)


@routes.add(
    "POST",
    "/sessions/{session_id}/queries/{query_id}/cancel",
    ANSWER,
    models.Execution,
    errors=_ANSWER,
    example=_examples.EXECUTION | {"status": "error", "result": None},
)
async def cancel_query(hf: Hf, session_id: SessionId, query_id: QueryId, key: Key) -> Json:
    """Withdraws a query: it raises in the script with code QUERY_CANCELLED. Twice is fine."""
    return told(await hf.queries.cancel(session_id, query_id, idempotency_key=key), 200)
