"""Going back and branching off: fork and rewind.

Every checkpoint of a session can be gone back to. A fork is a new session whose beginning is a checkpoint of another; no image is
copied. A rewind makes an earlier checkpoint the present one; what came after it stays in the history, which is therefore a tree. Both
may lead into the middle of an execution: then a new execution waits there, with the same open queries, under new ids in a rewind,
since in one session no id is ever used twice. It has asked what the one before it had asked there, so a budget lasts no longer for it.
"""

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from holdfast.domain import (
    SESSION,
    Amounts,
    CheckpointNotFound,
    Event,
    EventType,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    IdempotencyConflict,
    LibraryNotCached,
    Metrics,
    Node,
    Origin,
    Principal,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionBusy,
    SessionNotFound,
    SessionState,
    Spent,
    Step,
    VersionConflict,
    new_id,
    prompt_size,
)
from holdfast.runtime.core import Core
from holdfast.runtime.jobs import Job
from holdfast.runtime.plans import plan
from holdfast.runtime.resident import Resident
from holdfast.runtime.shelf import Shelved
from holdfast.runtime.starting import StartUp
from holdfast.runtime.stepping import Stepper, Work
from holdfast.runtime.usage import charge, size_of
from holdfast.sandbox import Resume
from holdfast.store import Commit, Reply, Store, StoreDamaged

_seeds: Final = random.SystemRandom()


def fresh_seed() -> int:
    """Where the random numbers of a session begin."""
    return _seeds.getrandbits(63)


# ---- places ------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Place:
    """A checkpoint to go on from: the execution that waits there, if one does, with what it has asked so far, and its open queries.

    `origin` is where its image is, None for the template; `starts` whether startup files of the template have yet to run there.
    """

    number: int
    origin: Origin | None
    execution: Execution | None = None
    metrics: Metrics = field(default_factory=Metrics)
    queries: list[Query] = field(default_factory=list)
    starts: bool = False
    custom: dict[str, Any] = field(default_factory=dict)

    @property
    def prompts(self) -> list[tuple[int, int]]:
        """The characters and tokens of what models are asked here once more."""
        return [prompt_size(query.payload) for query in self.queries if query.kind is QueryKind.LLM]


def _place(core: Core, resident: Resident, number: int | None) -> _Place:
    session = resident.session
    if not resident.shelved.version.baked:
        raise LibraryNotCached("this session could not start: there is nothing to go on from")
    number = session.head if number is None else number
    if not number and session.family is not None:
        raise CheckpointNotFound("a branch of a fork begins in the middle of another session: go back there instead")
    origin = Origin(session.id, number) if number else _beginning(core, session)
    if origin is None:
        return _Place(0, None, starts=bool(resident.shelved.startup))
    if number == session.head and session.state is SessionState.PAUSED:
        execution = resident.execution
        assert execution is not None
        queries = list(resident.open.values())
        return _Place(number, origin, execution, execution.metrics, queries, custom=execution.custom)
    if origin.number == 0:  # taken over from a session that is gone, and what was waited for there is gone with it
        first = StartUp.first(core.store, origin.session_id)
        if session.head and first is not None and first.parent_id is not None:
            raise CheckpointNotFound("this session began in the middle of an execution of a session that was deleted")
        return _Place(number, origin, starts=StartUp.is_start(first))
    node = core.store.get_node(origin)
    if not node.open and node.wake_at is None:
        return _Place(number, origin, starts=_starts(core, resident.shelved, node))
    execution = core.store.get_execution(node.execution_id)
    queries = [core.store.get_query(origin.session_id, query) for query in node.open]
    if node.wake_at is not None:
        asked = queries[0].asked_at if queries else node.created_at
        queries.append(Query(origin.session_id, 0, execution.id, QueryKind.TIMER, {"wake_at": node.wake_at}, asked))
    metrics, custom = _counted_at(core.store, origin)
    return _Place(number, origin, execution, metrics, queries, custom=custom)


def here(core: Core, resident: Resident) -> Origin | None:
    """Where the image of a session's present state is. None: it is the template."""
    session = resident.session
    return Origin(session.id, session.head) if session.head else _beginning(core, session)


def _starts(core: Core, shelved: Shelved, node: Node) -> bool:
    """Whether a checkpoint is the end of a startup file, and others have to follow."""
    if not shelved.startup:
        return False
    execution = core.store.get_execution(node.execution_id)
    ended_well = execution.kind is ExecutionKind.STARTUP and execution.status is ExecutionStatus.OK
    return ended_well and execution.path != shelved.startup[-1].path


def _counted_at(store: Store, at: Origin) -> tuple[Metrics, dict[str, Any]]:
    """What an execution had asked, been told, and counted itself at a checkpoint: the last event of its step tells."""
    try:
        told = store.step_events(at)[-1].payload
        return Metrics.from_spent(told["spent"]), dict(told.get("custom", {}))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise StoreDamaged("The events of this checkpoint are damaged; go back to another one.") from None


def _beginning(core: Core, session: Session) -> Origin | None:
    """Where the image is that a session began with: its own, if it was forked from a session that is gone. None: the template."""
    if session.origin is None:
        return None
    chain = core.store.chain(Origin(session.id, 0))
    return chain[0].at if chain else None


def _go_on(session: Session, place: _Place, now: int, message: str, *, renumber: bool) -> tuple[Execution, Step, list[Query]]:
    """The execution that waits at a place, once more, in this session. It has asked what it had; the session asks what is open anew."""
    assert place.execution is not None
    before = place.execution
    session.steps += 1
    number = session.steps
    execution = Execution(
        new_id(),
        session.id,
        before.kind,
        ExecutionStatus.PAUSED,
        now,
        number,
        number,
        seq=1,
        input=before.input,
        path=before.path,
        args=before.args,
        metrics=Metrics.from_spent(place.metrics.spent_row()),
        budget=before.budget,
        parent_id=before.id,
        env=before.env,
        custom=dict(place.custom),
    )
    execution.metrics.steps = 1
    session.llm_calls += len(place.prompts)
    session.tokens += sum(tokens for _, tokens in place.prompts)
    queries: list[Query] = []
    for query in place.queries:
        if renumber or query.number == 0:
            session.queries += 1
        again = query.copy()
        again.number = session.queries if renumber or query.number == 0 else query.number
        again.session_id, again.execution_id = session.id, execution.id
        again.state, again.answer, again.closed_at, again.started_at = QueryState.OPEN, None, None, None
        if query.deadline is not None:  # it is asked once more, and has as long as it had
            again.deadline = now + query.deadline - query.asked_at
        again.asked_at = now
        queries.append(again)
    due = [query.deadline if query.guest_id is not None else query.payload["wake_at"] for query in queries]
    session.execution_id, session.wake_at = execution.id, min([at for at in due if at is not None], default=None)
    event = Event(1, now, EventType.SYSTEM.value, {"level": "info", "message": message})
    return execution, Step(number, session.head, execution.id, now, 1, [event]), queries


# ---- fork --------------------------------------------------------------------------------------------------------------------------


class Fork(Job):
    """New sessions that go on from a checkpoint of this one.

    Several are several commits, and a process may die between two, or do the same as another. So for a request with a key the ids are
    drawn first, and kept: whoever does it again makes those that are not there yet. The reply comes with the last one, after all others.
    """

    looks: ClassVar[bool] = True
    patient = True
    repeatable: ClassVar[bool] = False  # without a key nothing tells whether the forks are there

    def __init__(
        self,
        number: int | None,
        count: int,
        name: str | None,
        meta: dict[str, Any],
        reply: Reply | None = None,
        token: str | None = None,
    ) -> None:
        self._number, self._count, self._name, self._meta, self._reply = number, count, name, meta, reply
        self._token = token
        """Id of the token that asks for the forks; None: that of the session."""
        self.forks: list[Session] = []
        self.wait_for_tools = False
        """Whether what they wait for may be a tool of this process, which is begun at once then."""

    def check(self, core: Core, resident: Resident) -> None:
        if self._number is not None and not 0 <= self._number <= resident.session.steps:
            raise CheckpointNotFound

    def run(self, core: Core, resident: Resident) -> None:
        """Makes the sessions, and waits until they are durable. The source is not changed."""
        store, reply = core.store, self._reply
        known = None if reply is None else store.get_reply(reply.key)
        if reply is not None and known is not None:  # by another process, after this one has looked
            if known.request != reply.request:
                raise IdempotencyConflict
            self.forks = [store.get_session(UUID(fork)) for fork in known.outcome["session_ids"]]
            return
        place = _place(core, resident, self._number)
        ids = [new_id() for _ in range(self._count)]
        made: dict[UUID, Session] = {}
        if reply is not None and self._count > 1:
            drawn, number = self._draw(store, reply, ids, place.number)
            if drawn != ids:
                ids, made = drawn, those_there(store, drawn)
            if number != place.number:
                place = _place(core, resident, number)
        self.wait_for_tools = any(query.kind is QueryKind.TOOL for query in place.queries)
        now = core.now(resident)
        token = resident.session.token if self._token is None else self._token
        with core.quotas.sessions(Principal(resident.session.tenant, token), now, len(ids) - len(made)):
            commits = [self._commit(core, fork, resident.session, place, now) for fork in ids if fork not in made]
            if reply is None:
                core.committer.commit_all(commits)
            elif commits:
                commits[-1].reply = reply._replace(outcome={"session_ids": [str(fork) for fork in ids]})
                core.committer.commit_all(commits[:-1])
                core.committer.commit(commits[-1])
        self.written = commits
        made |= {commit.session.id: commit.session for commit in commits}
        self.forks = [made[fork] for fork in ids]

    def _draw(self, store: Store, reply: Reply, ids: list[UUID], number: int) -> tuple[list[UUID], int]:
        """The ids of the forks that a request makes, and the checkpoint: as whoever came first has drawn them."""
        drawn = plan(store, reply, {"session_ids": [str(fork) for fork in ids], "checkpoint": number})
        if drawn is None:
            raise VersionConflict  # it was so old that it went at once
        if drawn.request != reply.request:
            raise IdempotencyConflict
        return [UUID(fork) for fork in drawn.outcome["session_ids"]], drawn.outcome["checkpoint"]

    def _commit(self, core: Core, fork: UUID, source: Session, place: _Place, now: int) -> Commit:
        session = Session(
            fork,
            source.template_id,
            source.template_version,
            SessionState.READY,
            now,
            now,
            name=self._name,
            meta=self._meta,
            origin=place.origin,
            seed=fresh_seed(),
            budget=source.budget,
            queries=max([source.queries, *(query.number for query in place.queries)]),
            worktree=source.worktree,
            usage=source.usage.forked(source.id),
            tenant=source.tenant,
            token=source.token if self._token is None else self._token,
        )
        commit = Commit(session, None, 0, core.token())
        if place.execution is not None:
            session.state = SessionState.PAUSED
            message = f"forked from checkpoint {place.number} of session {source.id}"
            execution, step, queries = _go_on(session, place, now, message, renumber=False)
            commit.new_executions, commit.steps, commit.asked = [execution], [step], queries
        elif place.starts:
            session.state = SessionState.STARTING
            core.own(session)
            session.version = 1
        return commit

    def result(self, resident: Resident) -> list[Session]:
        return self.forks


def those_there(store: Store, ids: Sequence[UUID]) -> dict[UUID, Session]:
    """Those of these sessions that are there."""
    found: dict[UUID, Session] = {}
    for session_id in ids:
        with contextlib.suppress(SessionNotFound):
            found[session_id] = store.get_session(session_id)
    return found


# ---- rewind ------------------------------------------------------------------------------------------------------------------------


class Rewind(Job):
    """An earlier checkpoint becomes the present state."""

    executes: ClassVar[bool] = True
    leaves: ClassVar[bool] = True
    patient = True

    def __init__(self, number: int, reply: Reply | None = None) -> None:
        self._number, self._reply = number, reply

    def check(self, core: Core, resident: Resident) -> None:
        if not 0 <= self._number <= resident.session.steps:
            raise CheckpointNotFound
        if resident.session.state is SessionState.CLOSED:
            SESSION.next(SessionState.CLOSED, SessionState.READY)
        if resident.session.state is SessionState.RUNNING:
            raise SessionBusy

    def run(self, core: Core, resident: Resident) -> Commit:
        session = resident.session
        place = _place(core, resident, self._number)
        place.queries = [query.copy() for query in place.queries]
        if place.prompts and session.budget is not None:
            spent = Spent(session.llm_calls, core.now(resident) - session.created_at, session.tokens)
            session.budget.check(spent, len(place.prompts), sum(tokens for _, tokens in place.prompts))
        is_wreck = session.state is SessionState.CRASHED and place.number > 0
        commit = (
            Stepper(core, resident, Work(Resume())).drop() if session.state is SessionState.PAUSED else core.change(session)
        )
        now = resident.latest = core.now(resident)
        session.head, session.seed, session.updated_at, session.wake_at = self._number, fresh_seed(), now, None
        if place.execution is not None:
            message = f"rewound to checkpoint {self._number}"
            execution, step, queries = _go_on(session, place, now, message, renumber=True)
            session.state = SESSION.next(session.state, SessionState.PAUSED)
            commit.new_executions.append(execution)
            commit.steps.append(step)
            commit.asked = [*commit.asked, *queries]
            charge(commit, Amounts(0, 1, 1, size_of(step, queries, ())), now, begins=True)
            resident.open = {query.number: query for query in queries}  # of whom tools are begun at once
        else:
            if session.state is not SessionState.READY:
                session.state = SESSION.next(session.state, SessionState.READY)
            if place.starts and not is_wreck:  # of a wreck one wants to see what there was before the file that failed
                session.state = SESSION.next(SESSION.next(session.state, SessionState.RUNNING), SessionState.STARTING)
        commit.reply = self._reply
        return commit
