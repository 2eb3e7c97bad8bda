"""Strategies, and runs of them: a program that asks, in a session of its own. Answering is hot: see `_routes`.

Where a run stands is told in the shapes that algocline's hosts know. A script that fails is told as 200 with status `error`.
"""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Path, Query

from holdfast.control import Response, plain
from holdfast.http import _examples
from holdfast.http._answers import Json
from holdfast.http._call import ANSWER, READ, RUN, left
from holdfast.http._params import HotCall, Key, Listed, SessionId, key_of
from holdfast.http._routes import Counted, Hf, NoBody, Routes
from holdfast.http._sessions import budget_of
from holdfast.http.models import _executions, _templates
from holdfast.http.models import _strategies as models

routes: Final = Routes("strategies")

_NOT_FOUND: Final = ("SESSION_NOT_FOUND", "EXECUTION_NOT_FOUND")
_PACKAGE: Final = ("PACKAGE_NOT_FOUND", "PACKAGE_CHANGED", "PACKAGE_INVALID")
_Name = Annotated[str, Path(description="The name of a package.", pattern=models.PACKAGE_NAME)]
_Language = Annotated[_templates.Engine | None, Query(description="Only in this language.")]
_Most = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
_Filter = Annotated[
    str | None,
    Query(description="What is shown of open queries.", json_schema_extra={"enum": ["meta", "preview", "full"]}),
]
_History = Annotated[bool, Query(description="With the last questions and answers.")]


# ---- packages ----------------------------------------------------------------------------------------------------------------------


@routes.add("GET", "/strategies", READ, list[models.Strategy], example=[_examples.STRATEGY])
async def list_strategies(hf: Hf, listed: Listed, language: _Language = None) -> Json:
    """The packages that can be run, by name."""
    return listed.part([*await hf.strategies.list(language)])


@routes.add("GET", "/strategies/{name}", READ, models.StrategyDetail, errors=_PACKAGE, example=_examples.STRATEGY_DETAIL)
async def show_strategy(hf: Hf, name: _Name, language: _Language = None) -> Json:
    """One package, with what it says of itself and its text."""
    return Json(await hf.strategies.show(name, language))


# ---- runs --------------------------------------------------------------------------------------------------------------------------


@routes.add(
    "POST",
    "/runs",
    RUN,
    models.Reply,
    errors=(
        *_PACKAGE,
        "TEMPLATE_NOT_FOUND",
        "TEMPLATE_INACTIVE",
        "IDEMPOTENCY_CONFLICT",
        "BUDGET_EXCEEDED",
        "QUOTA_EXCEEDED",
        "VALUE_REFUSED",
        "FILE_NOT_FOUND",
        "INVALID_PATH",
        "LIBRARY_NOT_CACHED",
        "STARTUP_FAILED",
        "TEMPLATE_FAILED",
    ),
    example=_examples.NEEDS_RESPONSE,
    extra={"body": {"strategy": "self_consistency", "task": "What is 17 + 25?", "opts": {"n": 5}}},
)
async def run(hf: Hf, body: models.RunRequest, key: Key, counted: Counted) -> Json:
    """Runs code, or a strategy by name, in a session of its own, until it needs somebody or has ended."""
    how: dict[str, Any] = {
        "template": body.template,
        "budget": budget_of(body.budget),
        "wait_s": body.wait_s,
        "idempotency_key": key,
    }
    if "strategy" in body.model_fields_set:
        reply = await hf.strategies.advise(body.strategy, body.task, opts=body.opts, language=body.language, **how)
    else:
        reply = await hf.strategies.run(body.code, language=body.language, ctx=body.ctx, name=body.name, **how)
    counted.session_creates.add()
    return Json(reply)


@routes.add("GET", "/runs", READ, models.RunList, example={"active_sessions": 1, "sessions": [_examples.RUN_STATUS]})
async def list_runs(hf: Hf, pending_filter: _Filter = None, include_history: _History = False, limit: _Most = 50) -> Json:
    """Where all active runs stand, newest first."""
    return Json(await hf.strategies.status(pending_filter=pending_filter, include_history=include_history, limit=limit))


@routes.add("GET", "/runs/{session_id}", READ, models.RunStatus, errors=_NOT_FOUND, example=_examples.RUN_STATUS)
async def get_run(hf: Hf, session_id: SessionId, pending_filter: _Filter = None, include_history: _History = False) -> Json:
    """Where a run stands, whether it has ended or not."""
    return Json(await hf.strategies.status(session_id, pending_filter=pending_filter, include_history=include_history))


@routes.add(
    "GET",
    "/runs/{session_id}/outcome",
    READ,
    models.Reply,
    errors=_NOT_FOUND,
    example=_examples.COMPLETED,
    hot=NoBody,
)
async def get_outcome(
    hf: Hf,
    call: HotCall,
    session_id: SessionId,
    wait_s: Annotated[models.Wait | None, Query(description="How long to wait at most; by default 30 seconds.")] = None,
) -> Json:
    """Waits until a run needs somebody or has ended; when the time is over, tells that it goes on."""
    reply = await hf.strategies.outcome(session_id, wait_s=0)
    if reply["status"] != "waiting" or wait_s == 0:
        return Json(reply)
    assert call.receive is not None
    waiting = asyncio.ensure_future(hf.strategies.outcome(session_id, wait_s=wait_s))
    leaving = asyncio.ensure_future(left(call.receive))  # who has left must not count among those who wait
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        return Json(waiting.result() if waiting.done() else reply)
    finally:
        waiting.cancel()
        leaving.cancel()


@routes.add(
    "POST",
    "/runs/{session_id}/continue",
    ANSWER,
    models.Reply,
    errors=(
        *_NOT_FOUND,
        "QUERY_NOT_FOUND",
        "ANSWER_CONFLICT",
        "ANSWER_AMBIGUOUS",
        "SESSION_NOT_READY",
        "IDEMPOTENCY_CONFLICT",
        "USAGE_EXCEEDED",
        "QUOTA_EXCEEDED",
        "VALUE_REFUSED",
    ),
    example=_examples.COMPLETED,
    hot=models.ContinueRequest,
    extra={"body": {"response": "42", "usage": {"prompt_tokens": 12, "completion_tokens": 1}, "model": "small"}},
)
async def continue_run(hf: Hf, call: HotCall, body: models.ContinueRequest, session_id: SessionId) -> Json:
    """Answers what a run asks, and tells where it stands then. The same answer again changes nothing; another one is ANSWER_CONFLICT."""
    given = body.responses if "responses" in body.model_fields_set else (body,)
    responses = [Response(one.response, one.query_id, one.error, one.usage, one.model, one.finish_reason) for one in given]
    return Json(await hf.strategies.resume(session_id, responses, wait_s=body.wait_s, idempotency_key=key_of(call)))


@routes.add(
    "GET", "/runs/{session_id}/queries", READ, list[_executions.Query], errors=_NOT_FOUND, example=[_examples.BRANCH_QUERY]
)
async def list_run_queries(hf: Hf, session_id: SessionId, listed: Listed) -> Json:
    """What a run waits for, with what its branches do, under the ids that answers name. Not what the clock and tools of the daemon do."""
    asked = await hf.strategies.asked(session_id)
    return listed.part([plain.query(one.query) | {"id": one.id, "session_id": str(session_id)} for one in asked])


@routes.add(
    "POST",
    "/runs/{session_id}/cancel",
    RUN,
    models.Reply,
    errors=(*_NOT_FOUND, "IDEMPOTENCY_CONFLICT"),
    example=_examples.CANCELLED,
)
async def cancel_run(hf: Hf, session_id: SessionId, key: Key) -> Json:
    """Stops a run, and its branches. One that has ended stays as it is, and is told so."""
    return Json(await hf.strategies.cancel(session_id, idempotency_key=key))


@routes.add(
    "POST",
    "/runs/{session_id}/fork",
    RUN,
    models.Reply,
    errors=(*_NOT_FOUND, "CHECKPOINT_NOT_FOUND", "SESSION_BUSY", "SESSION_NOT_READY", "IDEMPOTENCY_CONFLICT"),
    example=_examples.NEEDS_RESPONSE,
    extra={"body": {"checkpoint": 2, "name": "another way"}},
)
async def fork_run(hf: Hf, session_id: SessionId, body: models.ForkRunRequest, key: Key, counted: Counted) -> Json:
    """Makes a second run that goes on from a checkpoint of this one, and tells where that stands."""
    reply = await hf.strategies.fork(session_id, body.checkpoint, name=body.name, idempotency_key=key)
    counted.session_creates.add()
    return Json(reply)


@routes.add("GET", "/runs/{session_id}/history", READ, models.RunHistory, errors=_NOT_FOUND, example=_examples.HISTORY)
async def get_run_history(hf: Hf, session_id: SessionId, limit: _Most = 50) -> Json:
    """The newest checkpoints of a run, each with the one that it follows, and what was open there."""
    return Json(plain.tree(await hf.strategies.history(session_id, limit=limit)))
