"""Executions. Starting one is hot: see `_routes`."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Query
from starlette.requests import Request

from holdfast.control import plain
from holdfast.domain import InvalidValue, Limit
from holdfast.http import _examples
from holdfast.http._answers import Json
from holdfast.http._call import READ, RUN, Call, left
from holdfast.http._errors import OutputLimitExceeded
from holdfast.http._params import ExecutionId, Key, Listed, StartCall, is_async, key_of
from holdfast.http._routes import Hf, Routes
from holdfast.http._sessions import budget_of
from holdfast.http.models import _base
from holdfast.http.models import _executions as models
from holdfast.runtime import Turn

routes: Final = Routes("executions")

_START: Final = (
    "SESSION_NOT_FOUND",
    "SESSION_BUSY",
    "SESSION_NOT_READY",
    "IDEMPOTENCY_CONFLICT",
    "OUTPUT_LIMIT_EXCEEDED",
    "BUDGET_EXCEEDED",
    "USAGE_EXCEEDED",
    "QUOTA_EXCEEDED",
    "VALUE_REFUSED",
)
_PAGE_BYTES: Final = 4 << 20
_NOT_FOUND: Final = ("EXECUTION_NOT_FOUND",)
_LOUD: Final = (Limit.EVENTS.value, Limit.OUTPUT.value)
_ASYNC: Final = {"Preference-Applied": "respond-async"}
_LONGEST_WAIT_MS: Final = 60_000


def told(turn: Turn, status: int, headers: dict[str, str] | None = None) -> Json:
    """Where an execution stands. One that said more than it may is recorded, and refused as vm-system does."""
    execution, error = turn.execution, turn.execution.error
    if status != 202 and error is not None and error.get("limit") in _LOUD and error.get("code") == "LIMIT_EXCEEDED":
        breach = {name: error.get(name) for name in ("limit", "allowed", "actual")}
        raise OutputLimitExceeded(error.get("message")).with_details(
            session_id=str(execution.session_id), execution_id=str(execution.id), **breach
        )
    return Json(plain.turn(turn), status, headers)


def _how(call: Call, body: models.ReplRequest | models.RunFileRequest | models.StrategyRequest) -> dict[str, Any]:
    """What is said of every start in the same way."""
    return {
        "budget": budget_of(body.budget),
        "wait": body.wait or False,
        "background": is_async(call),
        "idempotency_key": key_of(call),
    }


def _started(turn: Turn, how: dict[str, Any]) -> Json:
    return told(turn, 202, _ASYNC) if how["background"] else told(turn, 201)


@routes.add(
    "POST",
    "/executions/repl",
    RUN,
    models.Execution,
    status=201,
    errors=_START,
    example=_examples.EXECUTION,
    hot=models.ReplRequest,
    extra={"body": {"session_id": _examples.SESSION_ID, "input": "1 + 1"}, "async": True},
)
async def run_repl(hf: Hf, call: StartCall, body: models.ReplRequest) -> Json:
    """Runs a snippet as a REPL does, to its end or until it waits for somebody. A script that fails is 201 with status `error`."""
    how = _how(call, body)
    return _started(await hf.executions.run(body.session_id, body.input, **how), how)


@routes.add(
    "POST",
    "/executions/run-file",
    RUN,
    models.Execution,
    status=201,
    errors=(*_START, "FILE_NOT_FOUND", "INVALID_PATH", "WORKTREE_NOT_FOUND"),
    example=_examples.RAN_FILE,
    hot=models.RunFileRequest,
    extra={
        "body": {"session_id": _examples.SESSION_ID, "path": "calc.js", "args": {"a": 1}, "env": {"mode": "test"}},
        "async": True,
    },
)
async def run_file(hf: Hf, call: StartCall, body: models.RunFileRequest) -> Json:
    """Runs a file of the session's worktree. It finds `args` and `env`, also as `__ARGS__` and `__ENV__`."""
    how = _how(call, body)
    return _started(await hf.executions.run_path(body.session_id, body.path, body.args, body.env, **how), how)


@routes.add(
    "POST",
    "/executions/strategy",
    RUN,
    models.Execution,
    status=201,
    errors=_START,
    example=_examples.EXECUTION | {"kind": "strategy", "path": "strategy", "args": {"topic": "tides"}},
    hot=models.StrategyRequest,
    extra={
        "body": {"session_id": _examples.SESSION_ID, "source": "await llm(ctx.topic)", "ctx": {"topic": "tides"}},
        "async": True,
    },
)
async def run_strategy(hf: Hf, call: StartCall, body: models.StrategyRequest) -> Json:
    """Runs a strategy: a file that finds its input in the global `ctx`, and whose budget may be `ctx.budget`."""
    how = _how(call, body)
    return _started(await hf.executions.strategy(body.session_id, body.source, body.ctx, **how), how)


@routes.add("GET", "/executions", READ, list[models.Execution], errors=("SESSION_NOT_FOUND",), example=[_examples.EXECUTION])
async def list_executions(
    hf: Hf,
    listed: Listed,
    session_id: Annotated[_base.SessionId, Query(description="Whose executions.")],
    status: Annotated[models.ExecutionStatus | None, Query(description="Only those with this status.")] = None,
) -> Json:
    """The executions of a session, newest first."""
    await hf.sessions.get(session_id)
    page = await hf.executions.list(session_id, status=status, limit=listed.limit, after=listed.cursor)
    return listed.answer(page, plain.execution)


@routes.add("GET", "/executions/{execution_id}", READ, models.Execution, errors=_NOT_FOUND, example=_examples.EXECUTION)
async def get_execution(hf: Hf, execution_id: ExecutionId) -> Json:
    """One execution, and what it waits for."""
    return Json(plain.turn(await hf.executions.turn(execution_id)))


@routes.add("GET", "/executions/{execution_id}/events", READ, list[models.Event], errors=_NOT_FOUND, example=[_examples.EVENT])
async def list_events(
    hf: Hf,
    listed: Listed,
    execution_id: ExecutionId,
    after_seq: Annotated[int, Query(ge=0, le=(1 << 53) - 1, description="Only those after this one.")] = 0,
) -> Json:
    """The events of an execution, in order. The cursor of this list is a `seq` too. A page has at most about 4 MB."""
    after = after_seq if listed.cursor is None else _seq(listed.cursor)
    events = await hf.executions.events(execution_id, after_seq=after, limit=listed.limit, max_bytes=_PAGE_BYTES)
    found = await hf.executions.get(execution_id)  # after that, so that it knows of all of these
    shown = [plain.event(found.id, found.session_id, event) for event in events]
    return listed.headed(shown, str(events[-1].seq) if events and events[-1].seq < found.seq else None)


def _seq(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
        raise InvalidValue("the cursor is not one of this list")
    return int(cursor)


@routes.add(
    "POST",
    "/executions/{execution_id}/cancel",
    RUN,
    models.Execution,
    errors=(*_NOT_FOUND, "IDEMPOTENCY_CONFLICT"),
    example=_examples.EXECUTION | {"status": "cancelled", "result": None},
)
async def cancel_execution(hf: Hf, execution_id: ExecutionId, key: Key) -> Json:
    """Stops an execution, running or paused. The session can be used afterwards. One that has ended stays as it is."""
    cancelled = await hf.executions.cancel(execution_id, idempotency_key=key)
    return Json(plain.turn(Turn(await hf.sessions.get(cancelled.session_id), cancelled, [])))


@routes.add("GET", "/executions/{execution_id}/wait", READ, models.Execution, errors=_NOT_FOUND, example=_examples.PAUSED)
async def wait_for_execution(
    hf: Hf,
    request: Request,
    execution_id: ExecutionId,
    timeout_ms: Annotated[int, Query(ge=0, le=_LONGEST_WAIT_MS, description="How long to wait at most.")] = 30_000,
) -> Json:
    """Waits until an execution has ended or waits for somebody; when the time is over, tells where it stands."""
    waiting = asyncio.ensure_future(hf.executions.wait(execution_id, timeout_ms / 1000))
    leaving = asyncio.ensure_future(left(request.receive))  # who has left must not count among those who wait
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return Json(plain.turn(waiting.result()))
    except TimeoutError:
        pass
    finally:
        waiting.cancel()
        leaving.cancel()
    return Json(plain.turn(await hf.executions.turn(execution_id)))
