"""Sessions and their history."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from holdfast.http.models._base import WHOLE, Count, Given, Moment, Number, Object, Ok, TemplateId, Text, Told, absent

SessionStatus = Literal["starting", "ready", "running", "paused", "crashed", "closed"]
Label = Annotated[str, Field(max_length=1000)]


_WORKTREE: Final = ("workspace_id", "base_commit_oid", "worktree_path")


class Budget(Given):
    """How much may be asked of models. What is left out has no limit."""

    max_llm_calls: Count | None = None
    max_elapsed_ms: Count | None = None
    max_tokens: Count | None = None


class NewSession(Given):
    """A session to be made. The three fields of the worktree come together or not at all."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {one: [two for two in _WORKTREE if two != one] for one in _WORKTREE}}
    )

    template_id: TemplateId
    version: Number | None = Field(default=None, description="Of the template; by default its latest.")
    workspace_id: Text = absent()
    base_commit_oid: Text = absent()
    worktree_path: Text = absent("A folder on the machine of the daemon.")
    name: Label | None = None
    meta: Object | None = Field(default=None, description="Yours: it is kept, and never read.")
    budget: Budget | None = None


class ForkRequest(Given):
    checkpoint: Count | None = Field(default=None, description="By default the present state.")
    count: Annotated[int, Field(ge=1, le=100), WHOLE] | None = None
    name: Label | None = None
    meta: Object | None = None


class RewindRequest(Given):
    checkpoint: Count


class PruneRequest(Given):
    """Which checkpoints go: all but the newest `keep`, of those made `before` a time in milliseconds since 1970; or either."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    keep: Count = absent()
    before: Count = absent()


# ---- answers -----------------------------------------------------------------------------------------------------------------------


class Origin(Told):
    session_id: str
    checkpoint: Count


class Family(Told):
    """A branch of a script's fork: which one, of which query of which session, and where all of that began."""

    root_id: str
    parent_id: str
    query_id: str
    index: Count
    depth: Number


class Amounts(Told):
    """What was used in some time."""

    cpu_s: float
    steps: Count
    events: Count
    bytes: Count


class HourOfUsage(Amounts):
    """What was used in the last hour of the clock in which anything was."""

    began_at: Moment


class Usage(Told):
    """What a session has used, and what is stored of it. A fork begins with the amounts of what it was forked from."""

    hour: HourOfUsage
    execution: Amounts = Field(description="In the present or last execution.")
    total: Amounts
    stored_events: Count
    stored_bytes: Count


class Session(Told):
    id: str = Field(json_schema_extra={"format": "uuid"})
    template_id: str
    template_version: Number
    name: str | None
    meta: Object
    workspace_id: str | None
    base_commit_oid: str | None
    worktree_path: str | None
    status: SessionStatus
    created_at: Moment
    updated_at: Moment
    closed_at: Moment | None
    last_error: str | None
    execution_id: str | None
    head: Count
    origin: Origin | None
    wake_at: Moment | None
    family: Family | None = Field(description="Whose branch it is, if a script has forked it.")
    usage: Usage
    damaged: bool = Field(description="Whether its record cannot be read: then all but its id may be missing.")


class SessionDeleted(Told):
    status: Ok
    session_id: str


class Checkpoint(Told):
    number: Number
    parent: Count
    execution_id: str
    created_at: Moment
    depth: Count
    bytes: Count
    open: list[str]
    wake_at: Moment | None


class TreeNode(Told):
    """A checkpoint; 0 is the session's beginning, and has no parent."""

    number: Count
    parent: Count | None
    execution_id: str | None
    created_at: Moment | None
    bytes: Count
    open: list[str]
    head: bool
    forks: list[str]


class Tree(Told):
    session_id: str
    origin: Origin | None
    nodes: list[TreeNode]


class Difference(Told):
    """The global variables that differ between two checkpoints."""

    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, Any]


class Pruned(Told):
    pruned: Count
    remaining: Count


class ErrorEntry(Told):
    id: str
    timestamp: Moment
    phase: str
    task_id: str | None
    execution_id: str | None
    kind: str
    message: str
    attempt: int
    resolved_at: Moment | None
