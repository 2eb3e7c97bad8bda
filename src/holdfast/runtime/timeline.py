"""Going back and branching off: fork, rewind, prune, delete, and the difference between two checkpoints.

Every checkpoint of a session can be gone back to. A fork is a new session whose beginning is a checkpoint of another; no image is
copied. A rewind makes an earlier checkpoint the present one; what came after it stays in the history, which is therefore a tree. Both
may lead into the middle of an execution: then a new execution waits there, with the same open queries, under new ids in a rewind,
since in one session no id is ever used twice.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from holdfast.domain import (
    SESSION,
    CheckpointNotFound,
    Event,
    EventType,
    Execution,
    ExecutionStatus,
    InvalidValue,
    Node,
    Origin,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionBusy,
    SessionState,
    Step,
    new_id,
)
from holdfast.runtime.core import Core
from holdfast.runtime.jobs import Job
from holdfast.runtime.resident import Resident, climb
from holdfast.runtime.shelf import Shelved
from holdfast.runtime.stepping import Stepper, Work
from holdfast.sandbox import Finished, Globals, Resume, compose
from holdfast.store import Commit, Link, Rebased, Reply, Store

_seeds: Final = random.SystemRandom()


def fresh_seed() -> int:
    """Where the random numbers of a session begin."""
    return _seeds.getrandbits(63)


# ---- places ------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Place:
    """A checkpoint to go on from: the execution that waits there, if one does, and its queries.

    `origin` is where its image is, None for the template; `starts` whether the template's startup files have yet to run there.
    """

    number: int
    origin: Origin | None
    execution: Execution | None = None
    queries: list[Query] = field(default_factory=list)
    starts: bool = False


def _place(core: Core, resident: Resident, number: int | None) -> _Place:
    session = resident.session
    number = session.head if number is None else number
    origin = Origin(session.id, number) if number else _beginning(core, session)
    if origin is None:
        return _Place(0, None, starts=bool(resident.shelved.startup))
    if number == session.head and session.state is not SessionState.CRASHED:
        waiting = session.state is SessionState.PAUSED
        queries = list(resident.open.values())
        return _Place(number, origin, resident.execution if waiting else None, queries)
    if origin == (session.id, 0):
        return _Place(0, _waited_for_nothing(core, origin))
    node = core.store.get_node(origin)
    if not node.open and node.wake_at is None:
        return _Place(number, origin)
    execution = core.store.get_execution(node.execution_id)
    queries = [core.store.get_query(origin.session_id, query) for query in node.open]
    if node.wake_at is not None:
        asked = queries[0].asked_at if queries else node.created_at
        queries.append(Query(origin.session_id, 0, execution.id, QueryKind.TIMER, {"wake_at": node.wake_at}, asked))
    return _Place(number, origin, execution, queries)


def _beginning(core: Core, session: Session) -> Origin | None:
    """Where the image is that a session began with: its own, if it was forked from a session that is gone. None: the template."""
    if session.origin is None:
        return None
    chain = core.store.chain(Origin(session.id, 0))
    return chain[0].at if chain else None


def _waited_for_nothing(core: Core, own: Origin) -> Origin:
    """A beginning that a session took over from one that is gone; what was waited for there is gone with it."""
    page = core.store.list_executions(own.session_id, limit=1000)
    while page.next is not None:
        page = core.store.list_executions(own.session_id, limit=1000, after=page.next)
    if page.items and page.items[-1].parent_id is not None:
        raise CheckpointNotFound("this session began in the middle of an execution of a session that was deleted")
    return own


def _go_on(session: Session, place: _Place, now: int, message: str, *, renumber: bool) -> tuple[Execution, Step, list[Query]]:
    """The execution that waits at a place, once more, in this session."""
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
        budget=before.budget,
        parent_id=before.id,
    )
    execution.metrics.steps = 1
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
    """New sessions that go on from a checkpoint of this one."""

    looks: ClassVar[bool] = True

    def __init__(
        self, number: int | None, count: int, name: str | None, meta: dict[str, Any], reply: Reply | None = None
    ) -> None:
        self._number, self._count, self._name, self._meta, self._reply = number, count, name, meta, reply
        self.forks: list[Session] = []

    def check(self, core: Core, resident: Resident) -> None:
        if self._number is not None and not 0 <= self._number <= resident.session.steps:
            raise CheckpointNotFound

    def run(self, core: Core, resident: Resident) -> None:
        """Makes the sessions, and waits until they are durable. The source is not changed."""
        place = _place(core, resident, self._number)
        now = core.now(resident)
        commits = [self._commit(core, resident.session, place, now) for _ in range(self._count)]
        if self._reply is not None:
            commits[-1].reply = self._reply._replace(outcome={"session_ids": [str(commit.session.id) for commit in commits]})
        core.committer.commit_all(commits)
        self.forks = [commit.session for commit in commits]

    def _commit(self, core: Core, source: Session, place: _Place, now: int) -> Commit:
        session = Session(
            new_id(),
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


# ---- rewind ------------------------------------------------------------------------------------------------------------------------


class Rewind(Job):
    """An earlier checkpoint becomes the present state."""

    executes: ClassVar[bool] = True
    leaves: ClassVar[bool] = True

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
        else:
            if session.state is not SessionState.READY:
                session.state = SESSION.next(session.state, SessionState.READY)
            if place.starts:  # it begins once more
                session.state = SESSION.next(SESSION.next(session.state, SessionState.RUNNING), SessionState.STARTING)
        commit.reply = self._reply
        return commit


# ---- prune -------------------------------------------------------------------------------------------------------------------------


class Prune(Job):
    """Checkpoints that nobody needs go away; their events stay."""

    leaves: ClassVar[bool] = True

    def __init__(self, keep: int | None, before: int | None) -> None:
        self._keep, self._before = keep, before
        self.pruned = 0

    def check(self, core: Core, resident: Resident) -> None:
        if self._keep is None and self._before is None:
            raise InvalidValue("say how many checkpoints to keep, or from when on")

    def run(self, core: Core, resident: Resident) -> Commit | None:
        session = resident.session
        nodes = core.store.list_nodes(session.id)
        forks = {fork.origin.number for fork in core.store.list_forks(session.id) if fork.origin is not None}
        victims = doomed(session.id, nodes, session.head, forks, self._keep, self._before)
        if not victims:
            return None
        commit = core.change(session)
        commit.rebased = rebase(core.store, session.id, nodes, victims, core.key)
        commit.pruned = sorted(victims)
        self.pruned = len(victims)
        return commit

    def result(self, resident: Resident) -> int:
        return self.pruned


def doomed(
    session_id: UUID, nodes: Sequence[Node], head: int, forks: set[int], keep: int | None, before: int | None
) -> set[int]:
    """The checkpoints that may go: not the newest, not one that was forked from, and nothing that a fork's deltas build on."""
    by_number = {node.number: node for node in nodes}
    needed = {head}
    for number in forks:
        while number in by_number:
            needed.add(number)
            base = by_number[number].base
            number = base.number if base is not None and base.session_id == session_id else -1
    newest_first = sorted((node.number for node in nodes), reverse=True)
    spared = set(newest_first[:keep]) if keep is not None else set()
    old = {node.number for node in nodes if before is None or node.created_at < before}
    return {number for number in newest_first if number in old} - needed - spared


def rebase(store: Store, session_id: UUID, nodes: Sequence[Node], victims: set[int], key: bytes) -> list[Rebased]:
    """The deltas that are against a victim, made against what that is against: without thawing anything."""
    by_number = {node.number: node for node in nodes}
    sealed: dict[int, bytes] = {}

    def image(number: int) -> bytes:
        if number not in sealed:
            for link in store.chain(Origin(session_id, number)):  # most of these will be asked for as well
                if link.at.session_id == session_id:
                    sealed.setdefault(link.at.number, link.sealed)
        return sealed[number]

    rebased: list[Rebased] = []
    for node in nodes:  # in the order of numbers: bases come before what is made against them
        base = node.base
        if base is None or base.session_id != session_id or base.number not in victims:
            continue
        merged = compose(image(base.number), image(node.number), key)
        new_base = by_number[base.number].base
        if node.number in victims:
            sealed[node.number] = merged
            by_number[node.number] = node._replace(base=new_base)
        else:
            rebased.append(Rebased(Origin(session_id, node.number), new_base, merged))
    return rebased


# ---- delete ------------------------------------------------------------------------------------------------------------------------


class Delete(Job):
    """A closed session goes away. A job like any other, so that nobody forks what is about to go, or finds it in memory later."""

    leaves: ClassVar[bool] = True
    looks: ClassVar[bool] = True

    def run(self, core: Core, resident: Resident) -> None:
        core.store.delete_session(resident.id, independent(core.store, resident.id, core.key))


def independent(store: Store, session_id: UUID, key: bytes) -> list[Rebased]:
    """All that other sessions build on this one, made to stand without it."""
    rebased = [
        Rebased(link.at, None, _flat([link, *store.chain(link.base)], key))
        for link in store.list_dependents(session_id)
        if link.base
    ]
    for fork in store.list_forks(session_id):
        assert fork.origin is not None
        chain = store.chain(fork.origin)
        if chain:
            rebased.append(Rebased(Origin(fork.id, 0), None, _flat(chain, key)))
    return rebased


def _flat(chain: Sequence[Link], key: bytes) -> bytes:
    """One image against the template that does what a chain does."""
    merged = chain[-1].sealed
    for link in reversed(chain[:-1]):
        merged = compose(merged, link.sealed, key)
    return merged


# ---- diff --------------------------------------------------------------------------------------------------------------------------


def globals_at(core: Core, shelved: Shelved, at: Origin) -> dict[str, dict[str, str]]:
    """The global variables at a checkpoint: type, preview and digest of each."""
    ladder = climb(core.store.chain(at), shelved, core.key)
    limits = shelved.limits.but(max_output_kb=0, max_events=0)
    template = shelved.template
    sandbox = template.thaw(ladder[-1].image, limits=limits) if ladder else template.create(limits=limits, seed=0)
    with sandbox:
        outcome = sandbox.step(Globals(), now=0)
    assert isinstance(outcome, Finished)
    found: dict[str, dict[str, str]] = outcome.result.value
    return found


def difference(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> dict[str, Any]:
    """What was added, removed and changed between two sets of globals."""
    changed = {
        name: {"before": _shown(before[name]), "after": _shown(after[name])}
        for name in before.keys() & after.keys()
        if before[name] != after[name]
    }
    return {
        "added": {name: _shown(after[name]) for name in sorted(after.keys() - before.keys())},
        "removed": {name: _shown(before[name]) for name in sorted(before.keys() - after.keys())},
        "changed": dict(sorted(changed.items())),
    }


def _shown(described: dict[str, str]) -> dict[str, str]:
    return {"type": described["type"], "preview": described["preview"]}
