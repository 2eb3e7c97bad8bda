"""The seam between Holdfast and whatever keeps its data.

A store is synchronous and may be called from any thread. All that changes a session goes through `commit`, as one atomic `Commit`
with the version that the session must still have. Reads return copies. Everything that two processes could do at once is safe:
whoever comes second gets `VersionConflict`, or `LeaseLost` if the session has another owner now.

`holdfast.store.contract` is the text in which a store is held to this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from holdfast.domain import (
    Amounts,
    AuditEntry,
    ErrorEntry,
    Event,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    HoldfastError,
    Node,
    Origin,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionState,
    Step,
    Template,
    TemplateVersion,
)

LONGEST_LEASE_MS: Final = 86_400_000
"""No lease is longer. One that ends later than this from now is damaged, and holds nothing."""

Item = TypeVar("Item")


class Page(NamedTuple, Generic[Item]):
    """Some of a list, in its order. `next` is where the following page begins; None: there is none."""

    items: list[Item]
    next: str | None = None


# ---- what is written ---------------------------------------------------------------------------------------------------------------


class Effect(NamedTuple):
    """One call of a host function in a step: what was called, and what came of it if that is known.

    `reply` is None while only the intent is known.
    """

    name: str
    arguments: str
    """A hash of the arguments."""
    reply: str | None
    clock: float


@dataclass(slots=True)
class Begun:
    """A step that is under way, with all that another process needs to run it again."""

    execution_id: UUID
    request: dict[str, Any]
    now: float
    effects: list[Effect] = field(default_factory=list)
    attempts: int = 1
    since: int = 0
    """In a commit, the position of the first of `effects`: those before it stay as they are in the store, and none come after them.
    What is loaded has all of them.
    """


class Reply(NamedTuple):
    """What came of a request with an idempotency key, so that the same one again gives the same."""

    key: str
    request: str
    """A hash of the request."""
    outcome: dict[str, Any]
    created_at: int


class StateWrite(NamedTuple):
    """A change of one key of the state.

    `expected` is the version that its row must still have; 0: there must be none; None: whatever is there. With the value None the row is
    deleted, which must be one that was seen. Each commit gives what it writes a version that no row ever had.
    """

    namespace: str
    key: str
    value: str | None
    """As JSON."""
    expected: int | None = None
    expires_at: int | None = None


class Used(NamedTuple):
    """What a commit adds to the usage of its session's tenant, token and family, in which hour. `freed` are bytes that it gives back."""

    hour: int
    amounts: Amounts
    freed: int = 0


class UsageRow(NamedTuple):
    """Usage of a scope: of one member of it, in one hour. Hour 0 has what is stored now, and CPU time and steps in total."""

    member: str
    hour: int
    amounts: Amounts
    sessions: int


def tenant_scope(tenant: str) -> str:
    """The scope of a tenant's usage; its members are tokens."""
    return f"tenant/{tenant}"


def family_scope(root: UUID) -> str:
    """The scope of the usage of all forks of a session, and of their forks."""
    return f"family/{root.hex}"


class Rebased(NamedTuple):
    """A checkpoint whose base goes away: its image is now against another base."""

    checkpoint: Origin
    base: Origin | None
    sealed: bytes


@dataclass(slots=True)
class Commit:
    """One atomic change of one session, and of all that belongs to it.

    `session` is the session as it shall be; `expected` the version it must have now, None for a new one; `fence` the fence it must
    have now. `token` is drawn anew for each commit: by it a commit whose acknowledgement was lost is known again.
    """

    session: Session
    expected: int | None
    fence: int
    token: int
    new_executions: list[Execution] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    asked: list[Query] = field(default_factory=list)
    closed: list[Query] = field(default_factory=list)
    """Queries whose state, answer, `started_at` or `closed_at` has changed."""
    begun: Begun | None = None
    ended: bool = False
    """Whether the step that was recorded as begun is over: it goes, with its effects."""
    errors: list[ErrorEntry] = field(default_factory=list)
    reply: Reply | None = None
    pruned: list[int] = field(default_factory=list)
    """Numbers of steps whose checkpoints go away; their events stay."""
    rebased: list[Rebased] = field(default_factory=list)
    state: Sequence[StateWrite] = ()
    """Each key once. `StateConflict` if one of them has another version now; then nothing of this commit is written."""
    used: Used | None = None


# ---- what is read ------------------------------------------------------------------------------------------------------------------


class Link(NamedTuple):
    """A checkpoint in a chain of deltas."""

    at: Origin
    depth: int
    base: Origin | None
    sealed: bytes


@dataclass(slots=True)
class Loaded:
    """A session with all that is needed to go on with it. `chain` begins with its present state and ends at the template."""

    session: Session
    execution: Execution | None
    open: list[Query]
    begun: Begun | None
    chain: list[Link]


class StateRow(NamedTuple):
    """A key of the state as it is."""

    key: str
    value: str
    """As JSON."""
    version: int
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """What the runs of a strategy took, all together."""

    name: str
    count: int
    elapsed_ms: int
    llm_calls: int
    rounds: int
    prompt_chars: int
    answer_chars: int
    prompt_tokens: int
    answer_tokens: int


class ToldStep(NamedTuple):
    """A step as those hear of it who follow what happens. `cursor` is where to go on after it."""

    cursor: str
    session_id: UUID
    execution_id: UUID
    number: int
    first_seq: int
    events: list[Event]
    more: bool = False
    """Whether the step has events after these. They come with the same cursor, `including` and `after_seq`."""


class Store(Protocol):
    """What the runtime needs of a store. Lists come in a stable order, in pages; `limit` is at least 1."""

    def close(self) -> None:
        """Gives everything back. Closing twice is fine."""

    def stop_waiting(self) -> None:
        """From now on, raise at once where a call would wait for a server that is away: the process is about to end."""

    def secret(self, name: str, fresh: bytes) -> bytes:
        """The small value kept under this name: `fresh`, if there was none before."""

    def find_secret(self, name: str) -> bytes | None:
        """Return the small value kept under this name, or None. Writes nothing."""

    def now(self) -> int:
        """The store's time, by which leases are judged."""

    # ---- templates

    def create_template(self, template: Template, version: TemplateVersion) -> None:
        """Raises `NameTaken`, and `VersionConflict` if what was baked for it has been dropped in between."""

    def add_version(self, version: TemplateVersion, updated_at: int) -> None:
        """The next version of a template. `VersionConflict` unless it follows the latest, and what was baked for it is there;
        `TemplateNotFound`.
        """

    def rename_template(self, template_id: UUID, name: str, updated_at: int) -> None:
        """Raises `NameTaken`; `TemplateNotFound`. Its own name is fine."""

    def get_template(self, which: UUID | str, *, tenant: str | None = None) -> Template:
        """By id or by name: names are unique within a tenant, by default in `DEFAULT_TENANT`. `TemplateNotFound`.

        With `tenant`, a template of another tenant is not found by its id either.
        """

    def get_version(self, template_id: UUID, number: int) -> TemplateVersion:
        """`TemplateNotFound`."""

    def list_templates(self, *, tenant: str | None = None, limit: int = 50, after: str | None = None) -> Page[Template]:
        """Newest first; with `tenant`, only those of this tenant."""

    def list_versions(self, template_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[TemplateVersion]:
        """Newest first."""

    def delete_template(self, template_id: UUID) -> None:
        """With its versions, and what was baked for them if no other version needs it. `TemplateInUse` while sessions of it exist;
        `TemplateNotFound`.
        """

    def drop_versions(self, keep: int | None, before: int | None) -> int:
        """Forgets versions of all templates, with what was baked only for them; tells how many. Of each template its newest `keep` stay,
        those made from `before` on, always the latest, and those of which there are sessions. None: neither keeps any.
        """

    def put_blob(self, digest: bytes, data: bytes) -> None:
        """Keeps something large by its digest. Twice is fine."""

    def get_blob(self, digest: bytes) -> bytes | None:
        """What was put under this digest."""

    # ---- sessions

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        """Writes them all, durably, in one go: None for each that was written, else why it was not. They do not affect each other.

        A commit whose token the session already bears was written before, and counts as written. Raises `StoreError` if nothing
        is known to be written.
        """

    def get_session(self, session_id: UUID) -> Session:
        """`SessionNotFound`."""

    def show_session(self, session_id: UUID) -> Session:
        """As `get_session`; if its record is damaged, the placeholder that lists have of it. `SessionNotFound`."""

    def owner_of_session(self, session_id: UUID) -> str:
        """The tenant of a session, and nothing else is read: it takes as long for any. `SessionNotFound`."""

    def owner_of_execution(self, execution_id: UUID) -> str:
        """The tenant of an execution's session, as `owner_of_session`. `ExecutionNotFound`."""

    def close_damaged(self, session_id: UUID, at: int, state: SessionState = SessionState.CLOSED) -> None:
        """Close a session whose records cannot be read, whatever state it is in: what runs or waits in it ends. `SessionNotFound`.

        With the state `crashed` it can be rewound.
        """

    def load(self, session_id: UUID) -> Loaded:
        """A session and its present. `SessionNotFound`."""

    def list_sessions(
        self,
        *,
        states: Sequence[SessionState] = (),
        template_id: UUID | None = None,
        name: str | None = None,
        idle_before: int | None = None,
        tenant: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Session]:
        """Newest first. `idle_before`: only those last updated before. `tenant`: only those of this tenant."""

    def count_sessions(self, *, tenant: str | None = None) -> dict[SessionState, int]:
        """How many there are in each state; with `tenant`, of this tenant."""

    def delete_session(self, session_id: UUID, rebased: Sequence[Rebased] = ()) -> None:
        """With all that belongs to it. `rebased` are checkpoints of others that were against its own. `SessionNotFound`.

        A session forked from it whose beginning is among `rebased` (as checkpoint 0) keeps that as its own.
        """

    # ---- what sessions have

    def get_execution(self, execution_id: UUID) -> Execution:
        """`ExecutionNotFound`."""

    def list_executions(
        self,
        session_id: UUID | None = None,
        *,
        statuses: Sequence[ExecutionStatus] = (),
        kinds: Sequence[ExecutionKind] = (),
        strategy: str | None = None,
        roots: bool = False,
        tenant: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Execution]:
        """Newest first. `strategy`: only runs of the one of this name. `roots`: none of sessions that are branches of a script's fork.
        `tenant`: only those of sessions of this tenant.
        """

    def strategy_figures(self, since: int = 0, *, tenant: str | None = None) -> list[StrategyFigures]:
        """Of runs that began from then on and have ended, by strategy; what branches took is in what the run took that forked them.
        With `tenant`, of this tenant's runs.
        """

    def list_events(
        self, execution_id: UUID, *, after_seq: int = 0, limit: int = 1000, max_bytes: int | None = None
    ) -> list[Event]:
        """In order; at least one if there is one, and no more than `max_bytes` of JSON, roughly. `ExecutionNotFound`."""

    def step_events(self, at: Origin) -> list[Event]:
        """Those of one step, in order; an empty list if there is no such step."""

    def list_steps(
        self,
        *,
        session_id: UUID | None = None,
        tenant: str | None = None,
        after: str | None = None,
        including: bool = False,
        after_seq: int = 0,
        limit: int = 500,
        max_bytes: int | None = None,
    ) -> list[ToldStep]:
        """Steps in the order in which they were committed, of one session or of all, with their events.

        Whoever goes on after the cursor of the last one misses nothing and gets nothing twice, whatever is committed or deleted
        meanwhile, and by whom. With `including`, the step at `after` itself comes first if it is still there. Steps of different
        sessions that were committed in one go may come in any order.

        With `tenant`, steps of others are left out; if such come last, a step with number 0 and no events tells only the cursor after
        them, so that they are not looked at again.

        With `max_bytes` the page ends with the event by which it has as many bytes of JSON, roughly; the last step may be told in part
        (`more`). `after_seq` leaves out events of the step that is included.

        `InvalidValue` if `after` is no cursor of this feed; `SessionNotFound`.
        """

    def last_cursor(self, session_id: UUID | None = None) -> str:
        """Where the feed of `list_steps` ends now: after it come those that are not committed yet. `SessionNotFound`."""

    def get_query(self, session_id: UUID, number: int) -> Query:
        """`QueryNotFound`."""

    def list_queries(
        self,
        session_id: UUID | None = None,
        *,
        execution_id: UUID | None = None,
        states: Sequence[QueryState] = (),
        kinds: Sequence[QueryKind] = (),
        tenant: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Query]:
        """Oldest first; with `tenant`, only those of sessions of this tenant."""

    def chain(self, at: Origin) -> list[Link]:
        """A checkpoint and all that it needs, down to the template. 0 is a session's beginning. `CheckpointNotFound`."""

    def get_node(self, at: Origin) -> Node:
        """`CheckpointNotFound`."""

    def list_nodes(self, session_id: UUID) -> list[Node]:
        """All checkpoints of a session, in the order of their numbers. A parent is the nearest that was not pruned."""

    def list_forks(self, session_id: UUID) -> list[Session]:
        """The sessions that were forked from it."""

    def list_dependents(self, session_id: UUID) -> list[Link]:
        """Checkpoints of other sessions whose base is one of this session's."""

    def list_errors(self, session_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[ErrorEntry]:
        """Oldest first."""

    def resolve_error(self, session_id: UUID, error_id: UUID, at: int) -> None:
        """`ErrorEntryNotFound`."""

    # ---- state: values by namespace and key, changed by commits. What is below session/<id>/ and template/<id>/ goes with that

    def get_state(self, namespace: str, key: str) -> StateRow | None:
        """Also if its time is up, as long as it has not been dropped."""

    def list_state(
        self, namespace: str, *, now: int, prefix: str = "", limit: int = 1000, after: str | None = None
    ) -> Page[str]:
        """The keys that begin with this and whose time is not up, sorted by code points."""

    def count_state(self, root: str, now: int) -> int:
        """How many keys there are in all namespaces whose names begin with this, which ends in a slash."""

    def drop_state(self, before: int) -> int:
        """Forgets those whose time was up before; tells how many."""

    # ---- usage: counted with the commits that use it; a new session, and a deleted one, is counted by the store itself

    def read_usage(self, scope: str, hour: int) -> list[UsageRow]:
        """What the members of a scope use in this hour, and what they have stored (hour 0)."""

    def count_running(self, tenant: str, but: UUID) -> dict[str, int]:
        """How many sessions of a tenant run or start in other processes than this one, by token."""

    def drop_usage(self, before: int) -> int:
        """Forgets the usage of hours before this one; tells how many rows. Hour 0 stays."""

    # ---- requests

    def get_reply(self, key: str) -> Reply | None:
        """What came of the request with this key."""

    def put_reply(self, reply: Reply) -> None:
        """For requests that change no session. The first one stays."""

    def drop_replies(self, before: int) -> int:
        """Forgets those created before; tells how many."""

    # ---- leases

    def beat(self, node: UUID, lease_ms: int) -> None:
        """A process says that it lives, for as long as this."""

    def retire(self, node: UUID) -> None:
        """A process ends; whatever it owned is free."""

    def is_alive(self, node: UUID) -> bool:
        """Whether a process has said so lately."""

    def list_leases(self) -> list[UUID]:
        """The processes whose leases have not run out."""

    def list_interrupted(self, *, limit: int = 100) -> list[UUID]:
        """Sessions that run or start, and whose owner is none or dead."""

    def list_orphans(self, *, limit: int = 1000) -> list[Session]:
        """Branches of scripts' forks that run or wait, although nobody waits for the fork any more."""

    def list_due(self, until: int, *, limit: int = 1000) -> list[tuple[int, UUID]]:
        """Paused sessions that wait for the clock, and the time; soonest first."""

    # ---- the audit log: entries are appended, and go when their retention is over; nothing changes one

    def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Append entries to the audit log, durably, all or none."""

    def list_audit(
        self,
        *,
        tenant: str | None = None,
        token: str | None = None,
        action: str | None = None,
        object_id: str | None = None,
        outcome: str | None = None,
        since: int | None = None,
        until: int | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[AuditEntry]:
        """Return entries of the audit log, newest first; with filters, only those with these values, from `since` to before `until`."""

    def drop_audit(self, before: int, *, limit: int = 10_000) -> int:
        """Delete entries made before this time, the oldest first and at most so many; return how many."""

    # ---- documents: the session records of workflows, by id

    def create_document(self, document_id: str, data: dict[str, Any]) -> int:
        """Gives version 1. `VersionConflict` if there is one."""

    def get_document(self, document_id: str) -> tuple[int, dict[str, Any]] | None:
        """Its version and data."""

    def update_document(self, document_id: str, data: dict[str, Any], expected: int | None) -> int:
        """Gives the new version. With `expected` None it is written whatever is there, or not. `VersionConflict`."""

    def delete_document(self, document_id: str) -> bool:
        """Whether there was one."""

    def list_documents(self) -> list[str]:
        """Ids in the order of creation."""
