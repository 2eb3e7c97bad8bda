"""What the daemon tells, as values that do not change.

Fields that are not known here are left out, and words that are not known stay as they are: a newer daemon may have more of both.
Times are aware, in UTC.
"""

from typing import Annotated, Any, TypeAlias, TypedDict, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from holdfast.domain import EventType, ExecutionKind, ExecutionStatus, QueryKind, QueryState, SessionState

_Word = TypeVar("_Word")
_Known: TypeAlias = Annotated[_Word | str, Field(union_mode="left_to_right")]


class Resource(BaseModel):
    """What all have in common."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


# ---- templates ---------------------------------------------------------------------------------------------------------------------


class Template(Resource):
    """What sessions are made from. `version` is the number of its latest one."""

    id: str
    name: str
    engine: str
    is_active: bool = True
    version: int = 1
    exposed_modules: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    created_at: AwareDatetime
    updated_at: AwareDatetime
    damaged: bool = False


class Limits(Resource):
    """What a script may use up. 0 is no limit, except for memory and the stack."""

    cpu_ms: int
    wall_ms: int
    mem_mb: int
    stack_kb: int | None = None
    max_events: int
    max_output_kb: int
    max_suspensions: int | None = None
    max_cpu_s_per_hour: int | None = None
    max_steps_per_hour: int | None = None
    max_events_per_hour: int | None = None
    max_mb_per_hour: int | None = None
    max_execution_cpu_s: int | None = None
    max_execution_steps: int | None = None
    max_execution_events: int | None = None
    max_execution_mb: int | None = None
    max_session_cpu_s: int | None = None
    max_session_steps: int | None = None
    max_session_events: int | None = None
    max_session_mb: int | None = None


class Resolver(Resource):
    """How imports are found."""

    roots: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    allow_absolute_repo_imports: bool = False


class RuntimeOptions(Resource):
    """How scripts are run."""

    esm: bool = True
    strict: bool = True
    console: bool = True


class Settings(Resource):
    """How a template's sessions run."""

    template_id: str
    limits: Limits
    resolver: Resolver
    runtime: RuntimeOptions


class Capability(Resource):
    """Something that sessions of a template may reach, if it is enabled."""

    id: str
    template_id: str
    kind: str
    name: str
    enabled: bool = False
    config: dict[str, Any] = {}


class StartupFile(Resource):
    """A file of the worktree that runs as a session starts, in the order of `order_index`."""

    id: str
    template_id: str
    path: str
    order_index: int = 0
    mode: str = "eval"


class Permission(Resource):
    """What sessions of a template may reach, or may not, and why. `config` is what holds, with secrets hidden."""

    kind: str
    name: str
    granted: bool
    reason: str = ""
    description: str = ""
    functions: tuple[str, ...] = ()
    config: dict[str, Any] = {}


class TemplateDetail(Resource):
    """A template with all that belongs to it, and what its sessions may reach."""

    template: Template
    settings: Settings
    capabilities: tuple[Capability, ...] = ()
    startup_files: tuple[StartupFile, ...] = ()
    policy: tuple[Permission, ...] = ()


class TemplateVersion(Resource):
    """One version of a template. It never changes."""

    template_id: str
    number: int
    spec: dict[str, Any] = {}
    created_at: AwareDatetime


class Named(Resource):
    """A module or library of a template."""

    template_id: str
    name: str


# ---- sessions ----------------------------------------------------------------------------------------------------------------------


class Origin(Resource):
    """Where a session was forked from."""

    session_id: str
    checkpoint: int


class Family(Resource):
    """Which branch a session is, counted from 0, of what another one asked; `root_id` is the session where all of that began."""

    root_id: str
    parent_id: str
    query_id: str
    index: int
    depth: int


class Session(Resource):
    """One long-lived program state. `head` is the checkpoint that is its present; `execution_id` is what runs or waits in it."""

    id: str
    template_id: str
    template_version: int = 1
    name: str | None = None
    meta: dict[str, Any] = {}
    workspace_id: str | None = None
    base_commit_oid: str | None = None
    worktree_path: str | None = None
    status: _Known[SessionState]
    created_at: AwareDatetime
    updated_at: AwareDatetime | None = None
    closed_at: AwareDatetime | None = None
    last_error: str | None = None
    execution_id: str | None = None
    head: int | None = None
    origin: Origin | None = None
    wake_at: AwareDatetime | None = None
    family: Family | None = None
    usage: dict[str, Any] = {}
    damaged: bool = False


class Checkpoint(Resource):
    """A state of a session that can be gone back to. `open` are the ids of the queries that waited."""

    number: int
    parent: int | None = None
    execution_id: str | None = None
    created_at: AwareDatetime | None = None
    depth: int = 0
    bytes: int = 0
    open: tuple[str, ...] = ()
    wake_at: AwareDatetime | None = None


class TreeNode(Resource):
    """A checkpoint, the one that it follows, and the ids of the sessions that were forked there. 0 is the session's beginning."""

    number: int
    parent: int | None = None
    execution_id: str | None = None
    created_at: AwareDatetime | None = None
    bytes: int = 0
    open: tuple[str, ...] = ()
    head: bool = False
    forks: tuple[str, ...] = ()


class Tree(Resource):
    """The history of a session: its checkpoints by number, however they branch."""

    session_id: str
    origin: Origin | None = None
    nodes: tuple[TreeNode, ...]


class Shown(Resource):
    """A variable, as a person would want to see it."""

    type: str
    preview: str


class Changed(Resource):
    """A variable that differs."""

    before: Shown
    after: Shown


class Diff(Resource):
    """The global variables that differ between two checkpoints, by name."""

    added: dict[str, Shown] = {}
    removed: dict[str, Shown] = {}
    changed: dict[str, Changed] = {}


class ErrorEntry(Resource):
    """Something that went wrong in a session."""

    id: str
    timestamp: AwareDatetime
    phase: str
    task_id: str | None = None
    execution_id: str | None = None
    kind: str
    message: str
    attempt: int = 1
    resolved_at: AwareDatetime | None = None


class Pruned(Resource):
    """How many checkpoints went."""

    pruned: int
    remaining: int = 0


# ---- executions --------------------------------------------------------------------------------------------------------------------


class Query(Resource):
    """What a paused execution waits for."""

    id: str
    session_id: str
    execution_id: str
    kind: _Known[QueryKind]
    payload: dict[str, Any] = {}
    state: _Known[QueryState]
    asked_at: AwareDatetime
    deadline: AwareDatetime | None = None
    closed_at: AwareDatetime | None = None
    answer: dict[str, Any] | None = None


class Execution(Resource):
    """One run inside a session. `queries` are those that are open."""

    id: str
    session_id: str
    kind: _Known[ExecutionKind]
    status: _Known[ExecutionStatus]
    input: str | None = None
    path: str | None = None
    args: Any = None
    env: Any = None
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    metrics: dict[str, Any] = {}
    custom: dict[str, Any] = {}
    seq: int = 0
    parent_id: str | None = None
    queries: tuple[Query, ...] = ()


class Event(Resource):
    """Something that happened in an execution. `seq` counts from 1 without gaps.

    `cursor` is set on those that a stream tells: following it `after` this goes on with the next one.
    """

    execution_id: str
    session_id: str | None = None
    seq: int
    ts: AwareDatetime
    type: _Known[EventType]
    payload: dict[str, Any] = {}
    cursor: str | None = None


# ---- strategies --------------------------------------------------------------------------------------------------------------------


class Strategy(Resource):
    """A package that can be run, or whose `error` says why not. `hides` says where else there is one of this name."""

    name: str
    language: str
    version: str | None = None
    description: str | None = None
    category: str | None = None
    source: str | None = None
    hides: tuple[str, ...] = ()
    error: dict[str, Any] | None = None


class StrategyDetail(Strategy):
    """A package with what it says of itself, its files, and the text of the one that is run."""

    meta: dict[str, Any] = {}
    spec: dict[str, Any] | None = None
    sha256: str | None = None
    files: tuple[str, ...] = ()
    file: str | None = None
    text: str = ""


class Reply(TypedDict, total=False):
    """Where a run stands, as algocline's hosts know it: what is there depends on `status`, and what is not known here is there too.

    `needs_response` has `query_id` and the question, or `queries`; `accepted` has `remaining`, `waiting` has `wake_at`, `completed` has
    `result`, `error` has `error`; what has ended has `stats`.
    """

    status: str
    session_id: str
    query_id: str
    prompt: str
    messages: list[Any]
    system: str | None
    max_tokens: int
    queries: list[dict[str, Any]]
    remaining: int
    wake_at: int | None
    result: Any
    error: str
    stats: dict[str, Any]


class Response(TypedDict, total=False):
    """What a run is told: a response or an error, and perhaps the id of the query that it is for, and what a model counted."""

    query_id: str
    response: Any
    error: str
    usage: dict[str, int]
    model: str
    finish_reason: str


class RunHistory(Tree):
    """The newest checkpoints of a run, and how many there are."""

    total: int = 0


class Tokens(Resource):
    """How many: counted by whoever answered (`provided`), or `estimated`."""

    tokens: int
    source: str = ""


class TranscriptSummary(Resource):
    """A run of a strategy, in figures."""

    session_id: str
    execution_id: str | None = None
    strategy: str | None = None
    status: str
    task_hint: str | None = None
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    elapsed_ms: int = 0
    rounds: int = 0
    llm_calls: int = 0
    total_tokens: Tokens | None = None
    notes_count: int = 0


class Exchange(Resource):
    """One query of a run, and what was answered. Its id says which branch of a fork asked, if one did."""

    query_id: str
    kind: _Known[QueryKind]
    prompt: str | None = None
    system: str | None = None
    options: dict[str, Any] = {}
    response: Any = None
    error: dict[str, Any] | None = None
    state: _Known[QueryState]
    usage: dict[str, int] | None = None
    model: str | None = None
    finish_reason: str | None = None
    asked_at: AwareDatetime
    closed_at: AwareDatetime | None = None


class Note(Resource):
    """What somebody has noted about a run."""

    timestamp: AwareDatetime
    title: str | None = None
    content: str


class NotesCount(Resource):
    """How many notes a run has."""

    session_id: str
    notes_count: int


class Transcript(TranscriptSummary):
    """All of a run. Where it is too long, the oldest exchanges are left out, and `truncated` is true."""

    code: str | None = None
    ctx: Any = None
    result: Any = None
    result_preview: str | None = None
    error: dict[str, Any] | None = None
    stats: dict[str, Any] = {}
    transcript: tuple[Exchange, ...] = ()
    notes: tuple[Note, ...] = ()
    truncated: bool = False
    original_rounds: int | None = None
    returned_rounds: int | None = None


class StrategyFigures(Resource):
    """What runs of a strategy took, in all and on average."""

    count: int
    avg_elapsed_ms: int = 0
    avg_llm_calls: int = 0
    avg_rounds: int = 0
    total_prompt_chars: int = 0
    total_response_chars: int = 0
    total_prompt_tokens: int = 0
    total_response_tokens: int = 0
    total_tokens: int = 0


class TranscriptStats(Resource):
    """Figures by strategy."""

    total_sessions: int
    strategies: dict[str, StrategyFigures] = {}


# ---- the daemon --------------------------------------------------------------------------------------------------------------------


class Health(Resource):
    """Whether the daemon is there."""

    status: str


class Recovery(Resource):
    """What a daemon found when it started: executions that were interrupted, and those that go on."""

    interrupted: int = 0
    recovered: int = 0


class Readiness(Resource):
    """Whether the daemon can be used: `ok`, `recovering` or `unavailable`."""

    status: str
    store: Any = None
    reason: str | None = None
    recovery: Recovery | None = None


class Version(Resource):
    """What the daemon is."""

    version: str
    api: str
    python: str | None = None


class QuotaOf(Resource):
    """The quotas of a tenant or a token, and what is used of them. 0 is no limit."""

    name: str = ""
    limits: dict[str, float] = {}
    used: dict[str, float] = {}


class Quotas(Resource):
    """The quotas of the tenant and of the token."""

    tenant: QuotaOf
    token: QuotaOf


class Summary(Resource):
    """What the daemon is busy with. `sessions` counts them by state."""

    active_sessions: int
    active_session_ids: tuple[str, ...] = ()
    sessions: dict[str, int] = {}
    resident: int | None = None
    hibernated: int | None = None
    waiting: int | None = None
    recovered: int | None = None
    memory_bytes: int | None = None


class AuditEntry(Resource):
    """Who did what to which object, from where, and with which outcome."""

    at: AwareDatetime
    action: str
    outcome: str
    status: int = 0
    tenant: str = "default"
    token: str = ""
    token_name: str = ""
    object_type: str = ""
    object_id: str = ""
    surface: str = ""
    address: str = ""
    request_id: str = ""
    count: int = 1


class Language(Resource):
    """A language that templates may be of."""

    id: str
    name: str
    version: str | None = None
    extensions: tuple[str, ...] = ()
    description: str = ""


class Module(Resource):
    """A native module that templates may expose."""

    id: str
    name: str
    kind: str | None = None
    description: str = ""
    functions: tuple[Any, ...] = ()
    config: dict[str, Any] = {}


class Library(Resource):
    """A library that templates may load."""

    id: str
    name: str
    version: str | None = None
    description: str = ""
    source: str | None = None
    type: str | None = None
    config: dict[str, Any] = {}
