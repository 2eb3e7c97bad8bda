"""What Holdfast keeps: templates, sessions, executions, steps with their events and checkpoints, queries, error entries.

Plain values. Whoever has one may change it; that changes nothing anywhere else, since stores take and give copies. Times are
milliseconds since 1970. What only a store can say, such as a row's place, is not here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from holdfast.domain._budget import Budget
from holdfast.domain._ids import query_id
from holdfast.domain._metrics import Metrics
from holdfast.domain._payloads import QueryKind
from holdfast.domain._principal import DEFAULT_TENANT, Principal
from holdfast.domain._spec import TemplateSpec
from holdfast.domain._states import ExecutionStatus, QueryState, SessionState
from holdfast.domain._usage import Usage


class _Copied:
    """A record that can be copied. By position: `dataclasses.replace` takes several times as long, and this is done at every pause."""

    __slots__ = ()

    def copy(self) -> Self:
        return type(self)(*_VALUES[type(self).__name__](self))


# ---- templates ---------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Template(_Copied):
    """A template by name. Its versions never change; `latest` is the number of the newest."""

    id: UUID
    name: str
    latest: int
    created_at: int
    updated_at: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class TemplateVersion:
    """One version: what it is made from, the guest that it was baked with, and the digest of what came of it.

    Both digests are empty while it is not baked, because one of its libraries was not in the cache.
    """

    template_id: UUID
    number: int
    spec: TemplateSpec
    guest: bytes
    baked: bytes
    created_at: int


# ---- sessions ----------------------------------------------------------------------------------------------------------------------


class Origin(NamedTuple):
    """A checkpoint of a session: where another one was forked from, or what a delta was made against."""

    session_id: UUID
    number: int


class Worktree(NamedTuple):
    """The folder of files that a session works on. `path` is where the host has it; the other two are the caller's, and never read."""

    workspace_id: str
    base_commit_oid: str
    path: str


@dataclass(frozen=True, slots=True)
class Family:
    """Where a session stands that is a branch of a script's fork: the branch at `index`, counted from 0, of what `parent` asked as `query`.

    `root` is the session where it all began, which is no branch; `depth` counts the forks from there.
    """

    root: UUID
    parent: UUID
    query: int
    index: int
    depth: int


@dataclass(slots=True)
class Session(_Copied):
    """One long-lived program state.

    `head` is the checkpoint that is its present state; 0 is its beginning: the template, or the checkpoint it was forked from.
    `steps` and `queries` are the last numbers used. `version` goes up with each commit, `fence` with each change of `owner`.
    """

    id: UUID
    template_id: UUID
    template_version: int
    state: SessionState
    created_at: int
    updated_at: int
    name: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    closed_at: int | None = None
    version: int = 1
    fence: int = 0
    owner: UUID | None = None
    head: int = 0
    steps: int = 0
    queries: int = 0
    execution_id: UUID | None = None
    wake_at: int | None = None
    seed: int | None = None
    origin: Origin | None = None
    budget: Budget | None = None
    llm_calls: int = 0
    tokens: int = 0
    last_error: str | None = None
    worktree: Worktree | None = None
    family: Family | None = None
    tenant: str = DEFAULT_TENANT
    token: str = ""
    usage: Usage = field(default_factory=Usage)
    damaged: bool = False
    """Whether its record cannot be read: then this is only a placeholder in a list."""

    @property
    def principal(self) -> Principal:
        """Return the tenant that the session belongs to and the token that created it."""
        return Principal(self.tenant, self.token)

    def copy(self) -> Self:
        twin = _Copied.copy(self)
        twin.meta = dict(self.meta)
        return twin


class ExecutionKind(StrEnum):
    """Why an execution runs."""

    REPL = "repl"
    RUN_FILE = "run_file"
    STARTUP = "startup"
    STRATEGY = "strategy"


@dataclass(slots=True)
class Execution(_Copied):
    """One run inside a session. Its events are those of the session's steps from `first_step` to `last_step`.

    `parent_id` is set where it goes on from the middle of another: after a fork or a rewind. `custom` are the script's own statistics.
    """

    id: UUID
    session_id: UUID
    kind: ExecutionKind
    status: ExecutionStatus
    started_at: int
    first_step: int
    last_step: int
    seq: int = 0
    input: str | None = None
    path: str | None = None
    args: Any = None
    ended_at: int | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    metrics: Metrics = field(default_factory=Metrics)
    budget: Budget | None = None
    parent_id: UUID | None = None
    env: Any = None
    custom: dict[str, Any] = field(default_factory=dict)
    damaged: bool = False

    def copy(self) -> Self:
        twin = _Copied.copy(self)
        twin.metrics = self.metrics.copy()
        twin.custom = dict(self.custom)
        return twin


class EventType(StrEnum):
    """What an event tells."""

    STDOUT = "stdout"
    STDERR = "stderr"
    CONSOLE = "console"
    VALUE = "value"
    EXCEPTION = "exception"
    SYSTEM = "system"
    INPUT_ECHO = "input_echo"
    QUERY = "query"
    ANSWER = "answer"
    CHECKPOINT = "checkpoint"
    PROGRESS = "progress"
    LOG = "log"


class Event(NamedTuple):
    """Something that happened in an execution. `seq` counts from 1 without gaps."""

    seq: int
    ts: int
    type: str
    payload: dict[str, Any]


@dataclass(slots=True)
class Checkpoint:
    """A state that can be gone back to.

    `sealed` is the image, as a difference from `base`, or from the template if that is None. `depth` counts the states since the
    template; the base is one of these. `open` are the numbers of the queries that waited.
    """

    depth: int
    base: Origin | None
    sealed: bytes
    open: tuple[int, ...] = ()
    wake_at: int | None = None


@dataclass(slots=True)
class Step:
    """What one step left: its events, and a checkpoint unless it was rolled back or pruned. `parent` is where it went on from."""

    number: int
    parent: int
    execution_id: UUID
    created_at: int
    first_seq: int
    events: list[Event]
    checkpoint: Checkpoint | None = None
    text: str | None = None
    """The events as a store packs them, where somebody had to do that before."""


class Node(NamedTuple):
    """A checkpoint in the history of a session, without its image."""

    number: int
    parent: int
    execution_id: UUID
    created_at: int
    depth: int
    base: Origin | None
    size: int
    open: tuple[int, ...]
    wake_at: int | None = None


# ---- queries -----------------------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """A value, or an error that is raised where the script asked.

    `usage` is what whoever answered has counted, `model` which one that was, `finish_reason` why it said no more.
    """

    value: Any = None
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None
    finish_reason: str | None = None

    def same_as(self, other: "Answer") -> bool:
        """Whether it says the same; who said it, and how many tokens that took, does not matter."""
        return self.error == other.error and _same(self.value, other.value)

    def as_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"error": self.error} if self.error is not None else {"value": self.value}
        about = {"usage": self.usage, "model": self.model, "finish_reason": self.finish_reason}
        return plain | {name: said for name, said in about.items() if said is not None}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        return cls(*map(given.get, cls._fields))


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: to Python 1, 1.0 and True are one."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


@dataclass(slots=True)
class Query(_Copied):
    """What a paused execution waits for. `guest_id` is what the script's side calls it; a timer has none.

    `started_at` is set, and durable, before a tool runs that must not run twice.
    """

    session_id: UUID
    number: int
    execution_id: UUID
    kind: QueryKind
    payload: dict[str, Any]
    asked_at: int
    guest_id: int | None = None
    state: QueryState = QueryState.OPEN
    deadline: int | None = None
    started_at: int | None = None
    closed_at: int | None = None
    answer: Answer | None = None
    damaged: bool = False

    @property
    def id(self) -> str:
        return query_id(self.number)


# ---- the rest ----------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ErrorEntry:
    """One entry in a session's error history."""

    id: UUID
    timestamp: int
    phase: str
    task_id: str | None
    execution_id: UUID | None
    kind: str
    message: str
    attempt: int = 1
    resolved_at: int | None = None


_VALUES: Final[dict[str, Callable[[Any], tuple[Any, ...]]]] = {
    kind.__name__: attrgetter(*[field.name for field in fields(kind)]) for kind in (Template, Session, Execution, Query)
}
