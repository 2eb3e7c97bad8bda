"""How a script's fork is made and joined: jobs of the session that forks, and of its branches.

Branches are several commits, and a process may die between two of them, or do the same as another. Those that are there stay, and tell from
which checkpoint the others are made; that all are there is noted in the query itself. From then on one that is missing was deleted. A fork
is joined by the commit that closes its query, so it is joined once.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from holdfast.domain import (
    EXECUTION,
    Answer,
    Event,
    EventType,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    Family,
    Metrics,
    Origin,
    Query,
    QuotaExceeded,
    Session,
    SessionState,
    Spent,
    Step,
    VersionConflict,
    hidden_root,
    session_root,
)
from holdfast.runtime import branches
from holdfast.runtime._errors import BranchFailed, ForkLimit
from holdfast.runtime._plain import LARGEST
from holdfast.runtime.core import Core
from holdfast.runtime.jobs import Answers, Job
from holdfast.runtime.resident import Resident
from holdfast.runtime.timeline import fresh_seed, here, those_there
from holdfast.sandbox import jsontext
from holdfast.store import Commit, StateWrite, Store

_COUNT: Final = "branches"
_TRIES: Final = 3


class Branch(Job):
    """Makes the branches of a fork that are not there yet. None of its result: nobody waits for the fork any more."""

    looks: ClassVar[bool] = True

    def __init__(self, number: int) -> None:
        self._number = number
        self._refusal: Answer | None = None

    def run(self, core: Core, resident: Resident) -> Commit | None:
        query = resident.open.get(self._number)
        if query is None or query.started_at is not None:
            return None
        try:
            self._make(core, resident, query)
        except (ForkLimit, QuotaExceeded) as error:
            self._refusal = Answer(error={"message": str(error), "code": error.code})
            return None
        query.started_at = core.now(resident)
        commit = core.change(resident.session)
        commit.closed = [query]
        return commit

    def result(self, resident: Resident) -> Query | Answer | None:
        """The query, if its branches are there; what to tell the script, if they cannot be made; None if it does not wait for them."""
        query = resident.open.get(self._number)
        return self._refusal if query is not None and self._refusal is not None else query

    def _make(self, core: Core, resident: Resident, query: Query) -> None:
        ids = branches.children(query)
        for attempt in range(_TRIES):
            there = those_there(core.store, ids)
            if len(there) == len(ids):
                return
            origin = next(iter(there.values())).origin if there else here(core, resident)
            now = core.now(resident)
            commits = [
                _commit(core, resident, query, index, origin, now) for index, child in enumerate(ids) if child not in there
            ]
            try:
                with core.quotas.sessions(resident.session.principal, now, len(commits)):
                    if not there:
                        commits[0].state = [_counted(core.store, commits[0].session, len(ids))]
                        core.committer.commit(commits[0])
                    core.committer.commit_all(commits if there else commits[1:])
            except VersionConflict:  # another process makes them too
                if attempt == _TRIES - 1:
                    raise
            else:
                self.written = commits
                return


def _counted(store: Store, branch: Session, more: int) -> StateWrite:
    """Counts the branches of a family, with the first of a fork: the others follow it, come what may."""
    assert branch.family is not None
    place = hidden_root(session_root(branch.family.root), "forks")
    row = store.get_state(place, _COUNT)
    total = more + (0 if row is None else int(row.value))
    if total > branches.MOST_IN_FAMILY:
        raise ForkLimit(f"a run has at most {branches.MOST_IN_FAMILY} branches in all its forks")
    return StateWrite(place, _COUNT, str(total), 0 if row is None else row.version)


def _commit(core: Core, resident: Resident, query: Query, index: int, origin: Origin | None, now: int) -> Commit:
    """A branch as it begins: it waits where the script forked, for nothing but to be told which branch it is."""
    source, before, waiting = resident.session, resident.execution, list(resident.open.values())
    assert before is not None
    names = branches.names(query)
    branch = branches.child_id(source.id, query.number, index)
    root, depth = (source.id, 0) if source.family is None else (source.family.root, source.family.depth)
    execution = Execution(
        branches.execution_of(branch),
        branch,
        ExecutionKind.STRATEGY,
        ExecutionStatus.PAUSED,
        now,
        1,
        1,
        seq=1,
        path=names[index],
        args=before.args,
        metrics=Metrics(steps=1),
        budget=branches.share(before.budget, _spent(before, now), query, index, waiting),
        parent_id=before.id,
        env=before.env,
    )
    spent = Spent(source.llm_calls, now - source.created_at, source.tokens)
    session = Session(
        branch,
        source.template_id,
        source.template_version,
        SessionState.PAUSED,
        now,
        now,
        steps=1,
        queries=query.number,
        execution_id=execution.id,
        seed=fresh_seed(),
        origin=origin,
        budget=branches.share(source.budget, spent, query, index, waiting),
        worktree=source.worktree,
        family=Family(root, source.id, query.number, index, depth + 1),
        usage=source.usage.forked(source.id),
        tenant=source.tenant,
        token=source.token,
    )
    born = query.copy()
    born.session_id, born.execution_id, born.asked_at, born.deadline, born.started_at = branch, execution.id, now, None, None
    message = f"branch {index + 1} of {len(names)} of query {query.id} of session {source.id}"
    event = Event(1, now, EventType.SYSTEM.value, {"level": "info", "message": message})
    commit = Commit(session, None, 0, core.token())
    commit.new_executions, commit.asked = [execution], [born]
    commit.steps = [Step(1, 0, execution.id, now, 1, [event])]
    return commit


def _spent(execution: Execution, now: int) -> Spent:
    spent = execution.metrics.spent
    return Spent(spent.llm_calls, now - execution.started_at, spent.tokens)


class _Told(Answers):
    """Answers the query of a fork, if it is open: nobody else may."""

    patient = False
    is_round: ClassVar[bool] = False

    def __init__(self, number: int) -> None:
        super().__init__([])
        self._number = number

    def check(self, core: Core, resident: Resident) -> None:
        self._fresh = []
        query = resident.open.get(self._number)
        answer = None if query is None else self._said(core, resident, query)
        if query is not None and answer is not None:
            self._fresh = [(query, answer)]

    def _said(self, core: Core, resident: Resident, query: Query) -> Answer | None:
        raise NotImplementedError

    def result(self, resident: Resident) -> Any:
        return None


class Born(_Told):
    """A branch is told which one it is, and begins. Twice is fine."""

    def _said(self, core: Core, resident: Resident, query: Query) -> Answer | None:
        family = resident.session.family
        return None if family is None or family.query != query.number else Answer({"child": family.index + 1})


class Refuse(_Told):
    """A fork that cannot be made raises in the script."""

    def __init__(self, number: int, why: Answer) -> None:
        super().__init__(number)
        self._why = why

    def _said(self, core: Core, resident: Resident, query: Query) -> Answer | None:
        return self._why


class Join(_Told):
    """A fork whose branches have all ended is answered with what came of them. Its result: whether it has to be waited for longer."""

    _waits = False

    def _said(self, core: Core, resident: Resident, query: Query) -> Answer | None:
        ends = [branches.latest(core.store, child) for child in branches.children(query)]
        self._waits = not all(map(has_ended, ends))
        return None if self._waits else _answer(query, ends)

    def result(self, resident: Resident) -> bool:
        return self._waits


def has_ended(branch: Execution | None) -> bool:
    """Whether nothing more comes of a branch. One that was deleted has ended too."""
    return branch is None or EXECUTION.is_final(branch.status)


def _answer(query: Query, ends: Sequence[Execution | None]) -> Answer:
    told = [_told(name, end) for name, end in zip(branches.names(query), ends, strict=True)]
    if branches.aborts(query):
        # Those that were stopped because another one has failed are not why.
        rank = {ExecutionStatus.ERROR: 0, ExecutionStatus.TIMEOUT: 0, ExecutionStatus.OK: 2}
        ranks = [1 if end is None else rank.get(end.status, 1) for end in ends]
        first = min(range(len(ends)), key=ranks.__getitem__)
        if ranks[first] < rank[ExecutionStatus.OK]:
            return _failed(f"alc.fork: strategy '{told[first]['strategy']}' failed: {told[first]['error']}")
    answer = Answer({"results": told})
    size = len(jsontext.dumps(answer.value))
    return answer if size <= LARGEST else _failed(f"alc.fork: the results have {size} bytes; at most {LARGEST} are taken")


def _failed(message: str) -> Answer:
    return Answer(error={"message": message, "code": BranchFailed.code})


def _told(name: str, end: Execution | None) -> dict[str, Any]:
    if end is not None and end.status is ExecutionStatus.OK:
        return {"strategy": name, "ok": True, "result": (end.result or {}).get("json")}
    error = "the session of this branch was deleted" if end is None else (end.error or {}).get("message")
    return {"strategy": name, "ok": False, "error": error or "it has failed"}
