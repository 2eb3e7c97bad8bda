"""What can be done with one session: start, answer, wake, cancel, close, recover. One job of a session runs at a time.

A job runs on a worker thread. `check` may refuse, and has changed nothing then. `run` does the work and gives the commit that makes it
count; whatever goes wrong from there on, the resident is dropped, and the session is as it was.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from holdfast.capabilities import is_refusal
from holdfast.domain import (
    QUERY,
    SESSION,
    Answer,
    Budget,
    Conflict,
    EventType,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    InvalidValue,
    PendingQueries,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionBusy,
    SessionNotReady,
    SessionState,
    StateConflict,
    VersionConflict,
    prompt_size,
    query_id,
)
from holdfast.runtime import branches
from holdfast.runtime._errors import QueryExpired, RecoveryFailed
from holdfast.runtime._given_up import uncertain
from holdfast.runtime._plain import text_of
from holdfast.runtime.core import Core
from holdfast.runtime.journal import Refused
from holdfast.runtime.lanes import MOST_CONFLICTS
from holdfast.runtime.requests import given, request_from_dict
from holdfast.runtime.resident import Resident
from holdfast.runtime.stepping import Stepper, Work
from holdfast.runtime.usage import held_event, tell_held, wake_at
from holdfast.sandbox import Evaluate, Request, Resume, RunFile
from holdfast.store import Begun, Commit, LeaseLost, Reply, StoreDamaged

_MOST_ATTEMPTS: Final = 10
_ANSWER: Final = EventType.ANSWER.value


@dataclass(slots=True)
class Turn:
    """Where an execution stands: at its end, or waiting for `queries`. `forks` says of those that are forks how their branches stand, as
    far as somebody has looked.
    """

    session: Session
    execution: Execution
    queries: list[Query]
    forks: dict[int, branches.Standing] = field(default_factory=dict)


class Job:
    """Something to be done with a session."""

    executes: ClassVar[bool] = False
    """Whether it runs the script: then another execution is refused, or waits."""
    leaves: ClassVar[bool] = False
    """Whether the session is elsewhere afterwards than what is in memory."""
    looks: ClassVar[bool] = False
    """Whether what is in memory must be the present before it runs: it does not end in a commit that would prove it."""
    repeatable: ClassVar[bool] = True
    """Whether it may be run again after the store was away while it ran, whatever the store has of it."""
    written: Sequence[Commit] = ()
    """Commits of other sessions that it has seen to itself."""

    @property
    def patient(self) -> bool:
        """Whether it waits, for a while, if another process runs the session now."""
        return False

    def check(self, core: Core, resident: Resident) -> None:
        """Raises if it cannot be done now."""

    def run(self, core: Core, resident: Resident) -> Commit | None:
        """Does it. None: there is nothing to write."""
        raise NotImplementedError

    def result(self, resident: Resident) -> Any:
        """What the caller gets, after the commit."""
        return resident.session.copy()


def turn(resident: Resident) -> Turn:
    """Where the present or last execution of a session stands."""
    assert resident.execution is not None
    queries = [query.copy() for query in resident.open.values()]
    return Turn(resident.session.copy(), resident.execution.copy(), queries)


# ---- start -------------------------------------------------------------------------------------------------------------------------


class Park(Exception):
    """The session cannot run this now, and the caller asked to wait."""


class Gone(LeaseLost):
    """Another process has taken this session over, and goes on with this execution. Look there what came of it."""


class RunsElsewhere(SessionBusy):
    """Another process still runs a step of this session, for longer than this call may wait. Send the call again."""

    retry_after = 1


class Repeated(Conflict):
    """Another process was asked the same, with the same idempotency key, and was faster."""


@dataclass(slots=True)
class Start(Job):
    """A new execution."""

    executes: ClassVar[bool] = True

    id: UUID
    kind: ExecutionKind
    source: str
    path: str | None = None
    args: Any = None
    budget: Budget | None = None
    wait: bool = False
    durable: bool = False
    """Whether the caller hears of it as soon as it is sure to run."""
    reply: Reply | None = None
    told: Callable[[], object] | None = None
    """Called, on a worker thread, when it is sure to run."""
    work: Work | None = None
    env: Any = None

    @property
    def patient(self) -> bool:
        return self.wait

    def check(self, core: Core, resident: Resident) -> None:
        if self.work is not None and self.work.durable:
            raise Gone  # whoever has taken the session over goes on with it: a second run would do everything twice
        if self.work is not None and self.reply is not None and core.store.get_reply(self.reply.key) is not None:
            raise Repeated
        state = resident.session.state
        if state is SessionState.STARTING and self.kind is ExecutionKind.STARTUP:
            return
        if state is SessionState.READY:
            core.admit(resident, begins=True)
            return
        if state in (SessionState.PAUSED, SessionState.RUNNING, SessionState.STARTING):
            if self.wait:
                raise Park
            raise SessionBusy(f"the session is {state.value}: another execution has to end first")
        raise SessionNotReady(f"the session is {state.value}")

    def is_committed(self, core: Core, resident: Resident) -> bool:
        """Whether this process has run it before, and the store has its end."""
        execution = resident.execution
        ours = self.work is not None and resident.session.owner == core.node and resident.begun is None
        return ours and execution is not None and execution.id == self.id

    def run(self, core: Core, resident: Resident) -> Commit:
        session = resident.session
        now = core.now(resident)
        first = session.steps + 1
        execution = Execution(
            self.id,
            session.id,
            self.kind,
            ExecutionStatus.RUNNING,
            now,
            first,
            first,
            input=None if self.kind is ExecutionKind.STARTUP else self.source,
            path=self.path,
            args=self.args,
            budget=self.budget,
            env=self.env,
        )
        echo = [(EventType.INPUT_ECHO.value, {"text": self.source})] if self.kind is ExecutionKind.REPL else []
        work = self.work = Work(self._request(resident), execution, events=echo, reply=self.reply)
        # A session that starts was admitted when it was made.
        counted = self.kind is not ExecutionKind.STARTUP
        with core.quotas.execution(session.principal) if counted else contextlib.nullcontext():
            return Stepper(core, resident, work).run(begin=self.durable, begun=self.told)

    def _request(self, resident: Resident) -> Request:
        if self.kind is ExecutionKind.REPL:
            return Evaluate(self.source)
        source, path = self.source, self.path or self.kind.value
        if self.kind is ExecutionKind.RUN_FILE:
            return RunFile(source, path, self.args, self.env or {})
        if self.kind is ExecutionKind.STRATEGY:  # on the same line, so that the lines of the script count right
            in_lua = resident.shelved.version.spec.language == "lua"
            source = f"{'ctx' if in_lua else 'globalThis.ctx'} = __ARGS__; {source}"
        return RunFile(source, path, self.args)

    def result(self, resident: Resident) -> Turn:
        return turn(resident)


# ---- answers -----------------------------------------------------------------------------------------------------------------------


class Answers(Job):
    """Answers to open queries, all or none. Without a number it is for the only one that is open."""

    executes: ClassVar[bool] = True
    state: ClassVar[QueryState] = QueryState.ANSWERED
    """What becomes of the queries."""
    ends_forks: ClassVar[bool] = False
    """Whether it may be for a fork, which only its branches answer."""
    is_limited: ClassVar[bool] = True
    """Whether it is refused while a limit over time is used up. What the host itself answers is not: then nothing new is begun."""
    is_round: ClassVar[bool] = True
    """Whether it counts as one more time that the script was answered."""
    patient = True

    def __init__(self, answers: Sequence[tuple[int | None, Answer]], reply: Reply | None = None) -> None:
        self._answers, self.reply = answers, reply
        self.is_reply_kept = False
        """Whether the reply is part of the commit; it is not if nothing changed."""
        self._fresh: list[tuple[Query, Answer]] = []
        self._old: Query | None = None

    def check(self, core: Core, resident: Resident) -> None:
        self._fresh = []
        opened = resident.open
        known = [
            core.store.get_query(resident.id, n) for n in {n for n, _ in self._answers} if n is not None and n not in opened
        ]
        if known and any(query.state is QueryState.OPEN for query in known):
            raise VersionConflict  # asked by another process: what is in memory is outdated
        numbers = {number for number, _ in self._answers}
        asked = [query for query in opened.values() if query.number in numbers or not branches.is_fork(query)]
        pending = PendingQueries([*asked, *known])
        for number, answer in self._answers:
            if number in opened and opened[number].kind is QueryKind.TIMER:
                raise InvalidValue(f"query {query_id(number)} waits for the clock; nobody can answer it")
            if number in opened and branches.is_fork(opened[number]) and not self._may_end(resident.session, opened[number]):
                raise InvalidValue(f"query {query_id(number)} waits for branches; nobody else can answer it")
            query = pending.check(number, answer)
            if query is None:
                self._old = next(query for query in known if query.number == number)
                continue
            if any(query is earlier for earlier, _ in self._fresh):
                raise InvalidValue(f"query {query.id} is answered twice in one call")
            if query.kind is QueryKind.APPROVE and answer.error is None and type(answer.value) is not bool:
                raise InvalidValue(f"query {query.id} wants true or false")
            self._fresh.append((query, answer))
        if self._fresh and self.is_limited:
            core.admit(resident, begins=False)

    def run(self, core: Core, resident: Resident) -> Commit | None:
        if not self._fresh:
            return None
        with core.quotas.execution(resident.session.principal) if self.is_limited else contextlib.nullcontext():
            return self._run(core, resident)

    def _run(self, core: Core, resident: Resident) -> Commit:
        now = core.now(resident)
        work = Work(Resume(), reply=self.reply)
        given_answers: dict[int, Any] = {}
        for query, answer in self._fresh:
            given_answers[query.guest_id or 0] = give(core, resident, work, query, answer, self.state, now)
        work.request = Resume(given_answers)
        assert resident.execution is not None
        if work.reply is not None:
            work.reply = work.reply._replace(outcome={"execution_id": str(resident.execution.id)})
            self.is_reply_kept = True
        resident.execution.metrics.rounds += self.is_round
        return Stepper(core, resident, work).run()

    def _may_end(self, session: Session, fork: Query) -> bool:
        return self.ends_forks and not branches.is_birth(session, fork)

    def result(self, resident: Resident) -> Any:
        """Where the execution stands, or the id of one that was answered before."""
        if not self._fresh and self._old is not None and resident.session.execution_id != self._old.execution_id:
            return self._old.execution_id
        return turn(resident)


def give(core: Core, resident: Resident, work: Work, query: Query, answer: Answer, state: QueryState, now: int) -> Any:
    """Notes an answer in all the places where it counts. Gives it as the sandbox takes it."""
    query.state = QUERY.next(query.state, state)
    query.answer, query.closed_at = answer, now
    del resident.open[query.number]
    work.closed.append(query)
    work.events.append((_ANSWER, {"query_id": query.id, "state": state._value_}))
    if query.kind is QueryKind.LLM:
        _count(resident, query, answer)
    elif branches.is_fork(query):
        assert resident.execution is not None
        branches.charge(core.store, resident.session, resident.execution, query)
    elif query.kind is QueryKind.TOOL and answer.error is not None and is_refusal(answer.error.get("code")):
        refused = Refused(query.payload["name"], answer.error["code"], answer.error["message"])
        work.events.append((EventType.SYSTEM.value, refused.as_dict()))
    return given(answer)


def _count(resident: Resident, query: Query, answer: Answer) -> None:
    assert resident.execution is not None
    session, metrics = resident.session, resident.execution.metrics
    before = metrics.prompt_tokens.tokens + metrics.answer_tokens.tokens
    value = answer.value if answer.error is None else ""
    text = value if isinstance(value, str) else text_of(value)
    usage = answer.usage or {}
    counted = usage.get("prompt_tokens")
    estimated = 0 if counted is None else prompt_size(query.payload)[1]
    metrics.answer(estimated, text, counted, usage.get("completion_tokens"))
    session.tokens += metrics.prompt_tokens.tokens + metrics.answer_tokens.tokens - before


class CancelQuery(Answers):
    """A query is withdrawn: it raises in the script. Twice is fine."""

    state: ClassVar[QueryState] = QueryState.CANCELLED
    ends_forks: ClassVar[bool] = True

    def __init__(self, number: int, reply: Reply | None = None) -> None:
        message = f"query {query_id(number)} was cancelled"
        super().__init__([(number, Answer(error={"message": message, "code": "QUERY_CANCELLED"}))], reply)
        self._number = number

    def check(self, core: Core, resident: Resident) -> None:
        if self._number not in resident.open:
            known = core.store.get_query(resident.id, self._number)
            if known.state is QueryState.CANCELLED:
                self._fresh, self._old = [], known
                return
        super().check(core, resident)


# ---- the clock ---------------------------------------------------------------------------------------------------------------------


class Wake(Job):
    """The clock: timers that are due, and queries whose time is up."""

    executes: ClassVar[bool] = True

    def __init__(self, at: int) -> None:
        self._at = at

    def run(self, core: Core, resident: Resident) -> Commit | None:
        session = resident.session
        now = core.now(resident)
        if session.wake_at == self._at:
            now = max(now, self._at)  # whoever sent this has waited long enough, whatever the clock did in between
        if session.state is not SessionState.PAUSED or session.wake_at is None or session.wake_at > now:
            return None
        resident.latest = now
        held = core.hold(resident, session.usage, now)
        was_held = resident.held_until is not None
        resident.held_until = None if held is None else held[0]
        if held is not None or not self._is_due(resident, now):  # it waits longer, or has waited only for its tools
            commit = core.change(session)
            session.wake_at = wake_at(resident, resident.held_until)
            if held is not None and not was_held:
                tell_held(resident, commit, held_event(*held), now)
            return commit
        work = Work(Resume())
        answers: dict[int, Any] = {}
        for query in list(resident.open.values()):
            if query.deadline is not None and query.deadline <= now:
                answers[query.guest_id or 0] = give(core, resident, work, query, _late(query), QueryState.EXPIRED, now)
        work.request = Resume(answers)
        return Stepper(core, resident, work).run()

    def _is_due(self, resident: Resident, now: int) -> bool:
        due = resident.due()
        return due is not None and due <= now


def _late(query: Query) -> Answer:
    if "default" in query.payload:
        return Answer(query.payload["default"])
    return Answer(error={"message": f"nobody answered query {query.id} in time", "code": QueryExpired.code})


# ---- tools -------------------------------------------------------------------------------------------------------------------------


class StartTool(Job):
    """Notes that a tool is about to run, so that it is never run a second time."""

    def __init__(self, number: int, started_at: int | None = None) -> None:
        """`started_at` is what an earlier job of this process was about to note, which was not told whether the store has it."""
        self._number = number
        self.uncertain = False
        self.elsewhere = False
        self.started_at = started_at

    def run(self, core: Core, resident: Resident) -> Commit | None:
        query = resident.open.get(self._number)
        if query is None:
            return None
        starter = resident.starters.get(query.number)
        if query.started_at is not None and query.started_at == self.started_at and starter in (None, core.node):
            return None  # noted by this process, which has not begun to run it: an outage of the store came between
        if query.started_at is not None:
            self.elsewhere = starter not in (None, core.node) and core.is_alive(starter)
            self.uncertain = not self.elsewhere
            return None
        query.started_at = self.started_at = core.now(resident)
        commit = core.change(resident.session)
        commit.closed = [query]
        return commit

    def result(self, resident: Resident) -> Query | Answer | None:
        """The query, if the tool is to be run; what to tell the script, if nobody knows; None if it is settled, or runs elsewhere."""
        query = None if self.elsewhere else resident.open.get(self._number)
        return uncertain() if self.uncertain and query is not None else query


# ---- the end of things -------------------------------------------------------------------------------------------------------------


class Cancel(Job):
    """A paused execution is dropped where it stands."""

    patient = True

    def __init__(self, execution_id: UUID | None = None) -> None:
        self._execution_id = execution_id

    def run(self, core: Core, resident: Resident) -> Commit | None:
        session = resident.session
        if session.state is not SessionState.PAUSED or self._execution_id not in (None, session.execution_id):
            return None
        return Stepper(core, resident, Work(Resume())).cancel()


class Close(Job):
    """The session ends. Closing it twice is fine."""

    patient = True

    def run(self, core: Core, resident: Resident) -> Commit | None:
        session = resident.session
        if session.state is SessionState.CLOSED:
            return None
        commit = self._cancelled(core, resident) if session.state is SessionState.PAUSED else core.change(session)
        session.state = SESSION.next(session.state, SessionState.CLOSED)
        session.closed_at = session.updated_at = core.now(resident)
        resident.close_modules()
        return commit

    def _cancelled(self, core: Core, resident: Resident) -> Commit:
        """What waits is dropped. If nobody can thaw it any more there is no checkpoint of that, but it ends."""
        work = Work(Resume())
        try:
            resident.awake()
        except StoreDamaged:
            # As a step that had just begun: then there is nothing to be brought in order.
            work.started, work.durable = resident.execution, True
        return Stepper(core, resident, work).cancel()


# ---- recovery ----------------------------------------------------------------------------------------------------------------------


class Recover(Job):
    """Goes on with what a process left behind. The worker does that before any job; this one only asks for it."""

    executes: ClassVar[bool] = True

    def run(self, core: Core, resident: Resident) -> Commit | None:
        return None


def replay(core: Core, resident: Resident, begun: Begun, *, closing: bool, conflicts: int = 0, resumed: bool = False) -> Commit:
    """Runs a step again that did not come to its end. If it cannot be, that is an error, unless the session is to be closed anyway.

    `conflicts` is how often this process has run it already, because others changed the same state; `resumed` says that the store was away.
    """
    execution = resident.execution
    assert execution is not None
    saved = begun.request
    try:
        request, events = request_from_dict(saved), [(kind, payload) for kind, payload in saved["events"]]
    except (LookupError, TypeError, ValueError, AttributeError):
        raise StoreDamaged(f"The step under way in session {resident.id} is damaged in the store.").with_details(
            kind="step under way", id=str(resident.id)
        ) from None
    first = execution.metrics.steps == 0
    again = Begun(begun.execution_id, saved, begun.now, begun.effects, begun.attempts + (0 if conflicts or resumed else 1))
    work = Work(request, execution if first else None, events=events, begun=again, durable=True)
    stepper = Stepper(core, resident, work)
    if begun.attempts >= _MOST_ATTEMPTS:
        return stepper.give_up(RecoveryFailed())
    if conflicts > MOST_CONFLICTS:
        return stepper.give_up(StateConflict())
    try:
        resident.awake()  # before it is written down that it is tried once more
    except StoreDamaged as error:
        if not closing:
            raise
        work.started = execution
        return stepper.give_up(error)
    return stepper.run(begin=True)
