"""Results and status in the shapes that algocline's hosts know, made from Holdfast's records.

    needs_response   {status, session_id, query_id, prompt, system, max_tokens}   or   {status, session_id, queries: [{id, ...}]}
    accepted         {status, session_id, remaining}
    completed        {status, session_id, result, stats}
    error            {status, session_id, error, stats}
    cancelled        {status, session_id, stats}
    waiting          {status, session_id, wake_at}: only timers are open, so nobody is asked

What algocline leaves out is here: every reply has `session_id`, errors have `stats`, and what runs can be seen.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self
from uuid import UUID

from holdfast.domain._budget import Spent, least_left
from holdfast.domain._errors import InvalidValue
from holdfast.domain._payloads import DEFAULT_MAX_TOKENS, QueryKind, prompt_parts
from holdfast.domain._records import Answer, Event, EventType, Execution, Query, Session
from holdfast.domain._states import ExecutionStatus
from holdfast.domain._tokens import Tokens, estimated, provided

PREVIEW_CHARS: Final = 200
_LOGS: Final = 20
_EXCHANGES: Final = 10

# ---- results -----------------------------------------------------------------------------------------------------------------------


def needs_response(session_id: UUID, open_queries: Sequence[Query], ids: Sequence[str] | None = None) -> dict[str, Any]:
    """What the host is asked. One question stands by itself, several in a list; timers are nobody's to answer.

    `ids` are what the queries are called, where that is not what their own sessions call them.
    """
    names = [query.id for query in open_queries] if ids is None else ids
    asked = [(name, query) for name, query in zip(names, open_queries, strict=True) if query.kind is not QueryKind.TIMER]
    if not asked:
        return waiting(session_id, open_queries)
    head = {"status": "needs_response", "session_id": str(session_id)}
    if len(asked) == 1:
        name, query = asked[0]
        return head | {"query_id": name} | _question(query)
    return head | {"queries": [{"id": name} | _question(query) for name, query in asked]}


def waiting(session_id: UUID, open_queries: Iterable[Query]) -> dict[str, Any]:
    """Nobody outside is asked: the clock, or a tool of the host, goes on with it. `wake_at` is when the clock does, if it does."""
    timers = [query.payload["wake_at"] for query in open_queries if query.kind is QueryKind.TIMER]
    return {"status": "waiting", "session_id": str(session_id), "wake_at": min(timers, default=None)}


def accepted(session_id: UUID, remaining: int) -> dict[str, Any]:
    """An answer was taken, and others are still waited for."""
    return {"status": "accepted", "session_id": str(session_id), "remaining": remaining}


def completed(execution: Execution) -> dict[str, Any]:
    """The value of an execution. One without a JSON form, such as a function, is null, with a preview beside it."""
    result = execution.result or {}
    reply = _head("completed", execution) | {"result": result.get("json")}
    if "json" not in result and "preview" in result:
        reply["result_preview"] = result["preview"]
    return reply | {"stats": _stats(execution)}


def failed(execution: Execution) -> dict[str, Any]:
    """Why an execution failed. Called `error` in the reply."""
    error = (execution.error or {}).get("message") or f"the execution ended as {execution.status}"
    return _head("error", execution) | {"error": error, "stats": _stats(execution)}


def cancelled(execution: Execution) -> dict[str, Any]:
    """Somebody stopped it."""
    return _head("cancelled", execution) | {"stats": _stats(execution)}


def transcript(queries: Iterable[Query]) -> list[dict[str, Any]]:
    """What models were asked and said, in the order of the questions; `response` is None where there is none."""
    return [
        {"query_id": query.id, "prompt": prompt_of(query), "system": query.payload.get("system"), "response": _response(query)}
        for query in queries
        if query.kind is QueryKind.LLM
    ]


def _stats(execution: Execution) -> dict[str, Any]:
    return execution.metrics.stats(execution.budget, execution.custom)


def _head(status: str, execution: Execution) -> dict[str, Any]:
    return {"status": status, "session_id": str(execution.session_id)}


_OPTIONS: Final = ("temperature", "model", "role", "stop", "schema")
_FLAGS: Final = ("grounded", "underspecified")
_LISTED: Final = {
    QueryKind.LLM: frozenset({"prompt", "messages", "system", "max_tokens", *_OPTIONS, *_FLAGS}),
    QueryKind.ASK: frozenset({"question", "options"}),
    QueryKind.APPROVE: frozenset({"question"}),
    QueryKind.TOOL: frozenset({"name", "args"}),
}
_OURS: Final = frozenset({"timeout_ms", "default"})  # for the runtime, not for whoever answers


def _question(query: Query) -> dict[str, Any]:
    payload = query.payload
    if query.kind is QueryKind.LLM:
        question = _llm_question(payload)
    elif query.kind is QueryKind.TOOL:
        question = {"kind": query.kind.value, "name": payload["name"], "args": payload.get("args")}
    else:
        question = {"kind": query.kind.value, "prompt": payload["question"]}
        if payload.get("options") is not None:
            question["options"] = payload["options"]
    # Whatever else the script says is passed on, but apart: it must not pass for a field of the reply, such as `queries`.
    extra = {key: value for key, value in payload.items() if key not in _LISTED[query.kind] and key not in _OURS}
    return question | {"extra": extra} if extra else question


def _llm_question(payload: Mapping[str, Any]) -> dict[str, Any]:
    prompt = payload.get("prompt")
    question: dict[str, Any] = {"prompt": prompt} if prompt is not None else {"messages": payload["messages"]}
    question |= {"system": payload.get("system"), "max_tokens": _max_tokens(payload)}
    question |= {name: payload[name] for name in _OPTIONS if payload.get(name) is not None}
    return question | {name: True for name in _FLAGS if payload.get(name)}


def _max_tokens(payload: Mapping[str, Any]) -> int:
    return payload.get("max_tokens") or DEFAULT_MAX_TOKENS


def prompt_of(query: Query) -> str:
    """What is asked, as one text."""
    if query.kind is QueryKind.LLM:
        return prompt_parts(query.payload)[0]
    return str(query.payload.get("question") or query.payload.get("name") or "")


def _response(query: Query) -> Any:
    return None if query.answer is None else query.answer.value


# ---- which part of open queries a status shows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingFilter:
    """What a status tells of each open query; as it is made here, nothing.

    >>> PendingFilter.parse("meta")
    PendingFilter(query_id=True, max_tokens=True, system=False, grounded=False, underspecified=False, prompt='off', chars=200)
    """

    query_id: bool = False
    max_tokens: bool = False
    system: bool = False
    grounded: bool = False
    underspecified: bool = False
    prompt: Literal["off", "preview", "full"] = "off"
    chars: int = PREVIEW_CHARS

    @classmethod
    def parse(cls, given: object, preview_chars: int = PREVIEW_CHARS) -> Self:
        """A filter from the name of a preset, or from an object with some of the fields. `InvalidValue`."""
        if isinstance(given, str):
            if given == "meta":
                return cls(query_id=True, max_tokens=True)
            if given == "preview":
                return cls(query_id=True, max_tokens=True, prompt="preview", chars=preview_chars)
            if given == "full":
                return cls(True, True, True, True, True, "full")
            raise InvalidValue(f'unknown pending_filter preset \'{given[:40]}\' (valid: "meta" | "preview" | "full")')
        if not isinstance(given, Mapping):
            raise InvalidValue(f"pending_filter must be a preset name (string) or filter object, got {_json_type(given)}")
        shown: dict[str, Any] = dict(given)
        mode = shown.pop("prompt", {"mode": "off"})
        for name, value in shown.items():
            if name not in _SWITCHES:
                raise InvalidValue(f"a pending_filter has no {str(name)[:40]!r}; it has {', '.join(_SWITCHES)}, prompt")
            if not isinstance(value, bool):
                raise InvalidValue(f"pending_filter: {name} must be true or false")
        return cls(**shown, **_prompt_mode(mode, preview_chars))

    def project(self, query: Query, name: str | None = None) -> dict[str, Any]:
        """What this shows of a query, called by its name. Only questions for models have tokens, system prompts and flags; others have a
        kind.
        """
        payload, shown = query.payload, dict[str, Any]()
        if self.query_id:
            shown["query_id"] = name or query.id
        if query.kind is QueryKind.LLM:
            if self.max_tokens:
                shown["max_tokens"] = _max_tokens(payload)
            if self.system:
                shown["system"] = payload.get("system")
            shown |= {name: bool(payload.get(name)) for name in _FLAGS if getattr(self, name)}
        elif self.query_id:
            shown["kind"] = query.kind.value
        if self.prompt == "preview":
            shown["prompt_preview"] = prompt_of(query)[: self.chars]
        elif self.prompt == "full":
            shown |= {key: value for key, value in _question(query).items() if key in _ASKED}
        return shown


_SWITCHES: Final = ("query_id", "max_tokens", "system", "grounded", "underspecified")
_ASKED: Final = frozenset({"prompt", "messages", "name", "args", "options"})


def _prompt_mode(given: object, preview_chars: int) -> dict[str, Any]:
    mode = given.get("mode") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or mode not in ("off", "preview", "full"):
        raise InvalidValue('pending_filter: prompt must be {"mode": "off" | "preview" | "full"}, with "chars" for a preview')
    chars = given.get("chars", preview_chars)
    if type(chars) is not int or chars < 0:
        raise InvalidValue("pending_filter: prompt.chars must be a whole number that is not negative")
    return {"prompt": mode, "chars": chars}


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "array"


# ---- status ------------------------------------------------------------------------------------------------------------------------

_STATES: Final = {
    ExecutionStatus.RUNNING: ("running", "running"),
    ExecutionStatus.PAUSED: ("paused", "paused"),
    ExecutionStatus.OK: ("terminal", "completed"),
    ExecutionStatus.ERROR: ("terminal", "failed"),
    ExecutionStatus.TIMEOUT: ("terminal", "failed"),
    ExecutionStatus.CANCELLED: ("terminal", "cancelled"),
}


def status(snapshots: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The status of several sessions."""
    return {"active_sessions": len(snapshots), "sessions": list(snapshots)}


def snapshot(
    session: Session,
    execution: Execution | None,
    open_queries: Sequence[Query] = (),
    history: Sequence[Query] = (),
    logs: Sequence[Event] = (),
    *,
    now: int,
    pending_filter: PendingFilter | None = None,
    include_history: bool = False,
    ids: Sequence[str] | None = None,
    history_ids: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The status of one session, which runs, waits or has ended.

    `history` are queries of the execution in the order they were asked, open or not; `ids` and `history_ids` are what the open ones and
    those are called, as in `needs_response`; `logs` are its events, or the last of them. A session in which nothing has run yet has its own
    state for both `state` and `phase`.
    """
    state, phase = _STATES[execution.status] if execution else (session.state.value, session.state.value)
    names = [query.id for query in open_queries] if ids is None else ids
    asked = [(name, query) for name, query in zip(names, open_queries, strict=True) if query.kind is not QueryKind.TIMER]
    shown: dict[str, Any] = {
        "session_id": str(session.id),
        "state": state,
        "phase": phase,
        "started_at": execution.started_at if execution else session.created_at,
        "last_activity_at": session.updated_at,
        "metrics": _metrics(session, execution, asked, logs, now),
    }
    if include_history:
        shown["metrics"]["conversation_history"] = conversation_history(history, history_ids)
    if state == "paused":
        shown["pending_queries"] = len(asked)
        if pending_filter is not None:
            shown["pending"] = [pending_filter.project(query, name) for name, query in asked]
    return shown


def conversation_history(queries: Sequence[Query], ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The ten newest questions that a model or a person was asked, and the answers; the newest comes last."""
    names = [query.id for query in queries] if ids is None else ids
    asked = [
        (name, query) for name, query in zip(names, queries, strict=True) if query.kind not in (QueryKind.TIMER, QueryKind.TOOL)
    ]
    return [
        {
            "query_id": name,
            "prompt": prompt_of(query),
            "response": _response(query),
            "prompt_tokens": _prompt_tokens(query).tokens,
            "response_tokens": _response_tokens(query.answer).tokens,
            "started_at": query.asked_at,
            "completed_at": query.closed_at,
        }
        for name, query in asked[-_EXCHANGES:]
    ]


def recent_logs(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The last twenty lines that a script logged or printed, oldest first."""
    lines: list[dict[str, Any]] = []
    for event in reversed(events):
        if event.type in _SOURCES:
            said = event.payload
            message = said["message"] if "message" in said else said.get("text", "")
            source = said.get("source", _SOURCES[event.type])
            lines.append({"ts": event.ts, "level": said.get("level", "info"), "source": source, "message": message})
            if len(lines) == _LOGS:
                break
    return lines[::-1]


_SOURCES: Final[dict[str, str]] = {EventType.CONSOLE: "console", EventType.LOG: "alc.log"}


def _metrics(
    session: Session, execution: Execution | None, asked: Sequence[tuple[str, Query]], logs: Sequence[Event], now: int
) -> dict[str, Any]:
    if execution is None:
        empty = {"prompt_total": 0, "response_total": 0, "total": 0, "current_query": None}
        return {"elapsed_ms": 0, "llm_calls": 0, "rounds": 0, "tokens": empty, "recent_logs": recent_logs(logs)}
    metrics = execution.metrics
    until = now if execution.ended_at is None else execution.ended_at
    elapsed = max(0, until - execution.started_at)
    shown: dict[str, Any] = {
        "elapsed_ms": elapsed,
        "llm_calls": metrics.llm_calls,
        "rounds": metrics.rounds,
        "tokens": {
            "prompt_total": metrics.prompt_tokens.tokens,
            "response_total": metrics.answer_tokens.tokens,
            "total": metrics.total_tokens.tokens,
            "current_query": _current_query(asked),
        },
        "recent_logs": recent_logs(logs),
    }
    progress = next((event.payload for event in reversed(logs) if event.type == EventType.PROGRESS), None)
    if progress is not None:
        shown["progress"] = {name: progress.get(name) for name in ("step", "total", "message")}
    budgets = [
        (execution.budget, Spent(metrics.llm_calls, elapsed, metrics.total_tokens.tokens)),
        (session.budget, Spent(session.llm_calls, max(0, until - session.created_at), session.tokens)),
    ]
    left = least_left([(budget, spent) for budget, spent in budgets if budget is not None])
    if left is not None:
        shown["budget_remaining"] = left
    return shown


def _current_query(asked: Sequence[tuple[str, Query]]) -> dict[str, Any] | None:
    for name, query in reversed(asked):
        if query.kind is QueryKind.LLM:
            return {
                "query_id": name,
                "prompt_tokens": _prompt_tokens(query).tokens,
                "started_waiting_at": query.asked_at,
            }
    return None


def _prompt_tokens(query: Query) -> Tokens:
    counted = _counted(query.answer, "prompt_tokens")
    return counted or estimated(prompt_of(query)) + estimated(query.payload.get("system") or "")


def _response_tokens(answer: Answer | None) -> Tokens:
    counted = _counted(answer, "completion_tokens")
    if counted is not None or answer is None or answer.error is not None:
        return counted or Tokens()
    text = answer.value if isinstance(answer.value, str) else json.dumps(answer.value, ensure_ascii=False)
    return estimated(text)


def _counted(answer: Answer | None, name: str) -> Tokens | None:
    """What whoever answered has counted; that is better than an estimate."""
    count = answer.usage.get(name) if answer is not None and answer.usage is not None else None
    return provided(count) if isinstance(count, int) else None
