"""Executions, their events, and queries."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from holdfast.domain import InvalidValue
from holdfast.http.models._base import QUERY_ID, Count, Given, Moment, Object, QueryId, SessionId, Text, Told, absent
from holdfast.http.models._sessions import Budget, Label

ExecutionKind = Literal["repl", "run_file", "startup", "strategy"]
ExecutionStatus = Literal["running", "paused", "ok", "error", "timeout", "cancelled"]
QueryKind = Literal["llm", "ask", "approve", "timer", "tool"]
QueryState = Literal["open", "answered", "cancelled", "expired"]


def _either(*fields: str) -> dict[str, Any]:
    return {"oneOf": [{"required": [field]} for field in fields]}


class _Start(Given):
    session_id: SessionId
    budget: Budget | None = None
    wait: bool | None = Field(default=None, description="Queue behind what runs, instead of SESSION_BUSY.")


class ReplRequest(_Start):
    """A snippet to be run as a REPL does."""

    input: Text


class RunFileRequest(_Start):
    """A file of the session's worktree to be run."""

    path: Text
    args: Object | None = None
    env: Object | None = None


class StrategyRequest(_Start):
    """A strategy to be run: a file that finds its input in the global `ctx`."""

    source: Text
    ctx: Object | None = None


class AnswerError(Given):
    message: str
    code: str | None = None


Usage = Annotated[dict[Annotated[str, Field(min_length=1, max_length=100)], Count | None], Field(max_length=20)]
"""What a model counted. Some send names without a number."""


class AnswerRequest(Given):
    """Either a value, or an error that is raised where the script asked."""

    model_config = ConfigDict(json_schema_extra=_either("value", "error"))

    value: Any = absent()
    error: AnswerError = absent()
    usage: Usage | None = Field(
        default=None, description="What a model counted: `prompt_tokens`, `completion_tokens`, or others."
    )
    model: Label | None = None
    finish_reason: Label | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.model_fields_set & {"value", "error"}) != 1:
            raise InvalidValue("an answer has either a value or an error")
        return self


class AnswersRequest(Given):
    """Answers by the ids of their queries, all or none; or a value for the only query that is open."""

    model_config = ConfigDict(json_schema_extra=_either("answers", "value"))

    answers: Annotated[dict[QueryId, Any], Field(min_length=1, json_schema_extra={"propertyNames": {"pattern": QUERY_ID}})] = (
        absent()
    )
    value: Any = absent()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.model_fields_set & {"answers", "value"}) != 1:
            raise InvalidValue("give either answers or a value")
        return self


# ---- answers -----------------------------------------------------------------------------------------------------------------------


class Query(Told):
    id: str
    session_id: str
    execution_id: str
    kind: QueryKind
    payload: Object
    state: QueryState
    asked_at: Moment
    deadline: Moment | None
    closed_at: Moment | None
    answer: Object | None


class Execution(Told):
    id: str = Field(json_schema_extra={"format": "uuid"})
    session_id: str
    kind: ExecutionKind
    status: ExecutionStatus
    input: str | None
    path: str | None
    args: Any
    env: Any
    started_at: Moment
    ended_at: Moment | None
    result: Object | None
    error: Object | None
    metrics: Object
    custom: Object = Field(description="What the script counted itself.")
    seq: Count
    parent_id: str | None
    queries: list[Query] = Field(description="What it waits for.")


class Event(Told):
    execution_id: str
    session_id: str
    seq: Count
    ts: Moment
    type: str
    payload: Object
