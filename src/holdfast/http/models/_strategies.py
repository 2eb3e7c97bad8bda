"""Runs of strategies, and their transcripts.

Replies have the shapes that algocline's hosts know. So not all of their fields are always there: a flag is there only if it is true.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.domain import InvalidValue
from holdfast.http.models import _executions
from holdfast.http.models._base import Count, Given, Moment, Name, Object, Text, Told, absent
from holdfast.http.models._sessions import Budget, Label, Tree
from holdfast.http.models._templates import Engine

LONGEST_WAIT_S: Final = 300
_ANY_QUERY_ID: Final = (
    "^(q-[1-9][0-9]{0,17}|f(-[1-9][0-9]{0,17}-(0|[1-9][0-9]{0,8})){1,64}-[1-9][0-9]{0,17})$"  # as `parse_any_query_id` reads it
)
PACKAGE_NAME: Final = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"


Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)]
AnyQueryId = Annotated[str, Field(pattern=_ANY_QUERY_ID)]
"""The id of a query of a run: `q-7`, or `f-3-0-7` if a branch asks."""
_Usage = Annotated[dict[Annotated[str, Field(min_length=1, max_length=100)], Count], Field(max_length=20)]


class RunRequest(Given):
    """Either code, which finds `ctx`, or the name of a strategy, which gets `opts` and the `task`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["code"]}, {"required": ["strategy"]}],
            "dependentRequired": {"ctx": ["code"], "name": ["code"], "opts": ["strategy"], "task": ["strategy"]},
        }
    )

    code: Text = absent("A program. In Lua its value is what it returns, in JavaScript its last expression.")
    strategy: Annotated[str, Field(pattern=PACKAGE_NAME)] = absent("The name of a package.")
    language: Engine | None = Field(default=None, description="Of code: by default that of the template, or Lua.")
    template: Name | None = Field(
        default=None, description="The id or the name of one; by default one that grants packages, state and cards only."
    )
    ctx: Object = absent()
    opts: Object = absent()
    task: str = absent()
    name: Name = absent("What the run is called in transcripts.")
    budget: Budget | None = None
    wait_s: Wait | None = Field(
        default=None, description="How long the clock and tools of the daemon are waited for; by default 30."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_fields_set
        if len(given & {"code", "strategy"}) != 1:
            raise InvalidValue("give either code or a strategy")
        kind, foreign = ("code", {"opts", "task"}) if "code" in given else ("a strategy", {"ctx", "name"})
        for field in sorted(given & foreign):
            raise InvalidValue(f"{kind} is not run with {field}")
        return self


class ResponseGiven(Given):
    """The answer to one query: a response, or an error that is raised where the script asked."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["response"]}, {"required": ["error"]}]})

    query_id: AnyQueryId | None = Field(default=None, description="By default the only one that is open.")
    response: Any = absent()
    error: str = absent()
    usage: _Usage | None = Field(default=None, description="What a model counted, such as `prompt_tokens`.")
    model: Label | None = None
    finish_reason: Label | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.model_fields_set & {"response", "error"}) != 1:
            raise InvalidValue("an answer has either a response or an error")
        return self


_ONE: Final = ("query_id", "usage", "model", "finish_reason")


class ContinueRequest(Given):
    """Either one response or error, or several, all or none."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["response"]}, {"required": ["error"]}, {"required": ["responses"]}],
            "dependentSchemas": {field: {"not": {"required": ["responses"]}} for field in _ONE},
        }
    )

    response: Any = absent()
    error: str = absent("Raised where the script asked.")
    query_id: AnyQueryId = absent("By default the only one that is open.")
    usage: _Usage = absent("What a model counted, such as `prompt_tokens`.")
    model: Label = absent()
    finish_reason: Label = absent()
    responses: Annotated[list[ResponseGiven], Field(min_length=1, max_length=10_000)] = absent()
    wait_s: Wait | None = Field(
        default=None, description="How long the clock and tools of the daemon are waited for; by default 30."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_fields_set
        if len(given & {"response", "error", "responses"}) != 1:
            raise InvalidValue("Either 'response' or 'responses' must be provided")
        for field in sorted(given & set(_ONE) if "responses" in given else ()):
            raise InvalidValue(f"{field} belongs to one response: say it there")
        return self


class ForkRunRequest(Given):
    checkpoint: Count | None = Field(default=None, description="By default the present state.")
    name: Label | None = None


class NewNote(Given):
    content: Text
    title: Label | None = None


# ---- replies -----------------------------------------------------------------------------------------------------------------------


class _Shape(BaseModel):
    """Some of whose fields are there only if they say something."""

    model_config = ConfigDict(extra="forbid")


class Question(_Shape):
    """What is asked. Without `kind` it is for a model. Options that the script gave besides are in `extra`."""

    kind: Literal["ask", "approve", "tool"] = absent()
    prompt: str = absent()
    messages: list[Any] = absent()
    system: str | None = absent()
    max_tokens: int = absent()
    temperature: Any = absent()
    model: Any = absent()
    role: Any = absent()
    stop: Any = absent()
    json_schema: Any = Field(default_factory=lambda: None, alias="schema")
    grounded: Literal[True] = absent()
    underspecified: Literal[True] = absent()
    options: list[Any] = absent()
    name: str = absent()
    args: Any = absent()
    extra: Object = absent()


class NeedsResponse(Question):
    """One query is open."""

    status: Literal["needs_response"]
    session_id: str
    query_id: str


class OneOfMany(Question):
    id: str


class NeedsResponses(_Shape):
    """Several queries are open."""

    status: Literal["needs_response"]
    session_id: str
    queries: list[OneOfMany]


class Accepted(_Shape):
    """What was answered is taken, and as many answers are still waited for."""

    status: Literal["accepted"]
    session_id: str
    remaining: Count


class Waiting(_Shape):
    """Nobody is asked: it runs, or waits for the clock or a tool of the daemon."""

    status: Literal["waiting"]
    session_id: str
    wake_at: int | None


class Completed(_Shape):
    """It has ended, with this value. What has no JSON is null, with a preview beside it."""

    status: Literal["completed"]
    session_id: str
    result: Any
    result_preview: str = absent()
    stats: Object


class Failed(_Shape):
    """It has ended, with this error."""

    status: Literal["error"]
    session_id: str
    error: str
    stats: Object


class Cancelled(_Shape):
    """Somebody has stopped it."""

    status: Literal["cancelled"]
    session_id: str
    stats: Object


Reply = NeedsResponse | NeedsResponses | Accepted | Waiting | Completed | Failed | Cancelled
"""Where a run stands."""


class RunStatus(_Shape):
    """A run as it is seen from outside. Times are in milliseconds since 1970, as in algocline's replies."""

    session_id: str
    strategy: str | None
    state: str
    phase: str
    started_at: int
    last_activity_at: int
    metrics: Object
    pending_queries: Count = absent()
    pending: list[Object] = absent()


class RunList(Told):
    active_sessions: Count
    sessions: list[RunStatus]


class RunHistory(Tree):
    """The newest checkpoints of a run, and how many there are."""

    total: Count


# ---- strategies --------------------------------------------------------------------------------------------------------------------


class Unusable(Told):
    """Why a package cannot be used."""

    code: str
    message: str


class Strategy(_Shape):
    """A package. `source` says where it was found, `hides` where else there is one of this name."""

    name: str
    language: Engine
    version: str | None
    description: str | None
    category: str | None
    source: str
    hides: list[str]
    error: Unusable = absent()


class StrategyDetail(Strategy):
    """With what it says of itself, its files, and the text of the one that is run."""

    meta: Object
    spec: Object | None
    sha256: str
    files: list[str]
    file: str
    text: str


# ---- transcripts -------------------------------------------------------------------------------------------------------------------


class Tokens(Told):
    """Counted by whoever answered, or estimated here."""

    tokens: Count
    source: Literal["estimated", "provided", "definite"]


class TranscriptSummary(Told):
    session_id: str
    execution_id: str
    strategy: str | None
    status: str
    task_hint: str | None
    started_at: Moment
    ended_at: Moment | None
    elapsed_ms: Count
    rounds: Count
    llm_calls: Count
    total_tokens: Tokens
    notes_count: Count


class Note(Told):
    timestamp: Moment
    title: str | None
    content: str


class NotesCount(Told):
    session_id: str
    notes_count: Count


class Exchange(_Shape):
    """One query, and what was answered. Its id says which branch of a fork asked, if one did."""

    query_id: str
    kind: _executions.QueryKind
    prompt: str
    system: str | None = absent()
    options: Object = absent()
    response: Any
    error: Object = absent()
    state: _executions.QueryState
    usage: dict[str, Count] = absent()
    model: str = absent()
    finish_reason: str = absent()
    asked_at: Moment
    closed_at: Moment | None


class Transcript(TranscriptSummary):
    """All of a run. Where it is too long, the oldest exchanges are left out. What has no JSON is null, with a preview beside it."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    code: str | None
    ctx: Any
    result: Any
    result_preview: str = absent()
    error: Object | None
    stats: Object
    transcript: list[Exchange]
    notes: list[Note]
    truncated: Literal[True] = absent()
    original_rounds: Count = absent()
    returned_rounds: Count = absent()


class StrategyFigures(Told):
    """Averages are rounded."""

    count: Count
    avg_elapsed_ms: Count
    avg_llm_calls: Count
    avg_rounds: Count
    total_prompt_chars: Count
    total_response_chars: Count
    total_prompt_tokens: Count
    total_response_tokens: Count
    total_tokens: Count


class TranscriptStats(Told):
    total_sessions: Count
    strategies: dict[str, StrategyFigures]
