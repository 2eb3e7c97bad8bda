"""One step of a session: run the script until it ends or waits, and put all that came of it into one commit.

Theory of operation
-------------------
A step goes on from the session's last checkpoint and ends in the next one. Nothing of it is kept until it ends; then everything is,
in one transaction: the events, the new queries, the answers that it was given, the image, the counters. If the process dies before
that, nobody has heard of the step, and it is as if it had not been asked for.

Two things make a step durable while it runs: an effect that must not happen twice, and being slow. Its request is then in the store
with the effects that it had so far (`Begun`), and whoever finds it there after a crash runs it again.

A limit, a cancellation or a fault of the host rolls the step back. If the script was paused before, it is dropped where it stood then,
so that the session can be used.

A query that may not be asked raises in the script at once, in the same step (`asking.py`). One by which the script leaves ends its
execution there (`leaving.py`).
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from holdfast.domain import (
    EXECUTION,
    QUERY,
    SESSION,
    Amounts,
    Answer,
    Checkpoint,
    ErrorEntry,
    Event,
    EventType,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    HoldfastError,
    Origin,
    Query,
    QueryKind,
    QueryState,
    SessionState,
    StateConflict,
    Step,
    hour_of,
    new_id,
)
from holdfast.runtime import branches, saying
from holdfast.runtime._errors import HostFailed, LimitExceeded, ReplayDiverged, RuntimeClosed
from holdfast.runtime._given_up import Crashed, Dropped, described
from holdfast.runtime._plain import plain
from holdfast.runtime.asking import Asking
from holdfast.runtime.fair import Owner
from holdfast.runtime.journal import MOST_REFUSED, settled
from holdfast.runtime.leaving import left
from holdfast.runtime.requests import request_as_dict
from holdfast.runtime.resident import Resident, Rung, base_depth, image_damaged
from holdfast.runtime.usage import charge, held_event, size_of, size_of_input, size_of_state, wake_at
from holdfast.sandbox import (
    Abandon,
    Breached,
    Cancelled,
    Failed,
    Finished,
    GuestFault,
    Image,
    Label,
    Outcome,
    Paused,
    Request,
    RequestRefused,
    Resume,
    ValueRefused,
)
from holdfast.sandbox import Query as ScriptQuery
from holdfast.store import Begun, Commit, Effect, LeaseLost, Reply, StateWrite, StoreDamaged, StoreError, packed

if TYPE_CHECKING:
    from holdfast.runtime.core import Core

_MOST_REFUSALS: Final = 100
_RAN: Final = (Finished, Failed, Paused)
_CONSOLE: Final = EventType.CONSOLE.value
_CHECKPOINT: Final = EventType.CHECKPOINT.value
_SAYINGS: Final = {"log": saying.log, "progress": saying.progress}


@dataclass(slots=True)
class Work:
    """A step to be done. `started` is a new execution; without one the present one goes on."""

    request: Request
    started: Execution | None = None
    closed: list[Query] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    reply: Reply | None = None
    begun: Begun | None = None
    durable: bool = False
    """Whether it is in the store that this step runs."""


class Stepper:
    """Does one step of a resident."""

    def __init__(self, core: "Core", resident: Resident, work: Work) -> None:
        self._core, self._resident, self._work = core, resident, work
        execution = work.started or resident.execution
        assert execution is not None
        self._execution: Execution = execution
        self._first_seq = execution.seq + 1
        self._events: list[Event] = []
        self._asking = Asking(resident, execution, self._put)
        self._stats = saying.Stats(execution.custom)
        self._errors: list[ErrorEntry] = []
        self._waited = 0.0
        """Seconds that the step waited for its turn, if its owner is to be told."""
        self._unwritten: HoldfastError | None = None
        """Why it could not be made durable that this step runs. All else that is raised while it runs is raised by the host."""
        self._stored = 0 if work.begun is None else settled(work.begun.effects)
        """How many effects, from the first on, are in the store as they will stay."""
        now = work.begun.now if work.begun is not None else core.clock()
        self._now = resident.latest = max(math.ceil(now), resident.latest)
        """The script's time, which stands still while the step runs."""
        self._time = self._now
        """Ours: when the step came to where it is now."""
        self._state_bytes = 0
        """Written to the state before the end of the step. What is in the state belongs to no session, and is not stored of one."""
        self._sealed: tuple[Image, bytes, int] | None = None
        """The state at the end of the step, if it was looked at before: its image, sealed, and how many images before it stay."""
        self._began = self._cpu = 0.0
        """CPU time: of the thread when the step began, and what the step has used."""

    def cancel(self) -> Commit:
        """The commit by which a paused execution is dropped where it stands."""
        return self._commit(Cancelled())

    def drop(self) -> Commit:
        """The commit by which a paused execution ends because the session goes on from elsewhere."""
        return self._commit(Dropped())

    def give_up(self, error: HoldfastError) -> Commit:
        """The commit by which a step that cannot be run is rolled back."""
        return self._commit(Crashed(error))

    def run(self, *, begin: bool = False, begun: Callable[[], object] | None = None) -> Commit:
        """The commit that makes the step count. With `begin` it is durable first that the step runs; `begun` hears of that."""
        resident, work = self._resident, self._work
        if begin:
            resident.journal.load(list(work.begun.effects) if work.begun is not None else [])
            resident.begin = self._begin
            self._begin()
            if begun is not None:
                begun()
        for kind, payload in work.events:
            self._put(kind, payload)
        self._began, resident.charged = time.thread_time() - resident.take_owed(), 0.0
        outcome = self._run()
        if self._waited:
            self._put(EventType.SYSTEM.value, saying.slowed_down(self._waited))
        self._cpu = time.thread_time() - self._began + resident.charged
        if resident.charged:  # the scheduler counts this thread alone
            self._core.watch.usage.charge(Owner(resident.session.principal, resident.id), resident.charged)
        commit = self._commit(outcome)
        self._events = []  # this is part of a cycle, and there may be very many
        return commit

    # ---- running -------------------------------------------------------------------------------------------------------------------

    def _run(self) -> Outcome | Crashed:
        resident, work = self._resident, self._work
        sandbox = resident.awake()
        if resident.is_cancelled():
            sandbox.cancel()
        effects: list[Effect] = list(work.begun.effects) if work.begun is not None else []
        resident.journal.start(sandbox, effects)
        if resident.state is not None:
            resident.state.clear()
        resident.begin = self._begin
        resident.budget = lambda: self._asking.left(self._core.now(resident))
        self._core.watch.enter(resident)
        request: Request = work.request
        seed = resident.session.seed
        started = time.monotonic()
        refusals = 0
        try:
            while True:
                if self._core.is_stopping():
                    raise RuntimeClosed
                outcome = sandbox.step(request, now=self._now, seed=seed)
                self._time = resident.latest = self._core.now(resident)
                if isinstance(outcome, Cancelled) and self._core.is_stopping() and not resident.is_cancelled():
                    raise RuntimeClosed
                self._take(outcome)
                queries = outcome.queries if type(outcome) is Paused else ()
                end = left(queries, resident.shelved.version.spec.language) if queries else None
                if end is not None:
                    dropped = sandbox.step(Abandon(), now=self._now)
                    self._take(dropped)
                    outcome = end if type(dropped) is Finished else dropped
                over = self._over_quota(outcome, queries if end is None else ())
                if over is not None:
                    sandbox.close()
                    return over
                refused = self._asking.ask(queries, self._time) if queries and end is None else None
                if not refused:
                    over = self._over_in_total(outcome)
                    if over is not None:
                        sandbox.close()
                        return over
                    if work.begun is not None and isinstance(outcome, _RAN) and resident.journal.is_behind:
                        raise ReplayDiverged
                    acted = resident.journal.acted and isinstance(outcome, _RAN)  # what is rolled back changes nothing
                    if acted and resident.state is not None and resident.state.writes():
                        self._begin(settles=True)  # apart, so that others who change the same state do not undo what is known
                    return outcome
                refusals += 1
                wall = resident.shelved.limits.wall_ms
                if refusals > _MOST_REFUSALS or (wall and (time.monotonic() - started) * 1000 > wall):
                    sandbox.close()
                    return Crashed(LimitExceeded("the script keeps asking for what is refused"))
                request, seed, self._sealed = Resume(refused), None, None
        except (RequestRefused, ValueRefused, RuntimeClosed):
            raise
        except (ReplayDiverged, GuestFault) as error:
            return Crashed(error)
        except BaseException as error:  # a function of the host may raise anything, and is never on the main thread
            if error is self._unwritten or (isinstance(error, (StoreError, LeaseLost)) and not isinstance(error, StoreDamaged)):
                raise  # the step is rolled back, and is run again when the store is back
            crash = HostFailed()
            crash.__cause__ = error
            self._core.report(crash)
            return Crashed(crash)
        finally:
            self._waited = self._core.watch.leave(resident)
            resident.budget = lambda: None  # it would keep all events of this step until the next one
            with resident.lock:
                resident.begin = None

    def _over_in_total(self, outcome: Outcome) -> Crashed | None:
        """What becomes of a step after which the execution would go on, although a limit in total is reached."""
        if type(outcome) is not Paused:
            return None
        self._cpu = time.thread_time() - self._began + self._resident.charged
        resident, hour = self._resident, hour_of(self._time)
        usage = resident.session.usage.plus(self._used(0), hour, begins=self._work.started is not None)
        excess = self._core.allowances.in_total(usage, resident.shelved.limits, self._time)
        return None if excess is None else Crashed(LimitExceeded(str(excess)).with_details(**excess.as_dict()))

    def _over_quota(self, outcome: Outcome, queries: Sequence[ScriptQuery]) -> Crashed | None:
        """What becomes of a step that would store more than a quota leaves."""
        resident, work, quotas = self._resident, self._work, self._core.quotas
        principal = resident.session.principal
        if not isinstance(outcome, _RAN) or not quotas.bounds_bytes(principal):
            return None
        number = resident.session.steps + 1
        self._sealed = self._seal(number)
        said = size_of(Step(number, 0, self._execution.id, self._time, self._first_seq, self._events), (), ())
        size = said + len(self._sealed[1]) + sum(len(packed(plain(query.payload))) for query in queries)
        size += 0 if work.started is None else size_of_input(work.started)
        error = quotas.excess_with(principal, self._time, size)
        if error is None:
            return None
        self._sealed = None
        if quotas.excess_with(principal, self._time, said) is not None:  # then what it said is too much as well
            del self._events[len(work.events) :]
            self._execution.seq = self._first_seq - 1 + len(self._events)
        return Crashed(error)

    def _begin(self, settles: bool = False) -> None:
        """Makes the step durable as it stands: with its request, and the effects that it had so far. With `settles`, which only the
        thread may ask for that runs it, what it did to the state is written as well, and counts whatever becomes of the step.
        """
        resident, journal, work = self._resident, self._resident.journal, self._work
        with resident.lock:
            if resident.begin is None:
                return
            state = resident.state if settles else None
            try:
                self._write(len(journal.effects) if settles else journal.certain, () if state is None else state.writes())
            except StateConflict:
                if work.durable:  # it is run again, but not what it did before it came to this state
                    self._write(journal.certain, ())
                raise
            if state is not None:
                journal.settle()
                state.clear()

    def _write(self, count: int, state: Sequence[StateWrite]) -> None:
        """Of the effects so many; those that the store has are not written again."""
        resident, work, execution = self._resident, self._work, self._execution
        session = resident.session
        expected, fence, owner = session.version, session.fence, session.owner
        commit = self._core.change(session)
        self._runs()
        attempts = work.begun.attempts if work.begun is not None else 1
        if self._core.is_stopping():  # an orderly end is not the step's fault
            attempts = 0
        request = request_as_dict(work.request) | {"events": work.events}
        since = min(self._stored, count)
        begun = Begun(execution.id, request, self._now, resident.journal.effects[since:count], attempts, since)
        commit.session, commit.closed, commit.begun, commit.state = session.copy(), work.closed, begun, state
        commit.reply = None if work.durable else work.reply  # once is enough, and twice would be a conflict
        stored = [execution.copy()]
        stored[0].seq = self._first_seq - 1
        self._asking.as_it_began(commit.session, stored[0])
        if work.started is not None and not work.durable:
            commit.new_executions = stored
        else:
            commit.executions = stored
        try:
            self._core.committer.commit(commit)
        except HoldfastError as error:  # the commit at the end of the step must not miss a version that never was
            session.version, session.fence, session.owner = expected, fence, owner
            self._unwritten = error
            raise
        work.durable = True
        self._state_bytes += size_of_state(state)
        self._stored = since + settled(begun.effects)

    def _runs(self) -> None:
        """The session and the execution run, if they did not before."""
        session, execution = self._resident.session, self._execution
        if session.state is not SessionState.RUNNING:
            session.state = SESSION.next(session.state, SessionState.RUNNING)
        if execution.status is not ExecutionStatus.RUNNING:
            execution.status = EXECUTION.next(execution.status, ExecutionStatus.RUNNING)
        session.execution_id = execution.id

    # ---- what the script said ------------------------------------------------------------------------------------------------------

    def _put(self, kind: str, payload: dict[str, Any]) -> None:
        execution = self._execution
        execution.seq += 1
        self._events.append(Event(execution.seq, self._time, kind, payload))

    def _take(self, outcome: Outcome) -> None:
        waiting: dict[int, Query] | None = None
        for kind, payload in outcome.events:
            if kind == "console":
                self._put(_CONSOLE, payload)
            elif kind == "cancelled":
                waiting = self._resident.by_guest_id() if waiting is None else waiting
                query = waiting.pop(payload["id"], None)
                if query is not None:
                    self._close_query(query, QueryState.CANCELLED)
            elif kind == "unhandled":
                error = plain(payload)
                text = f"unhandled rejection: {error.get('name')}: {error.get('message')}"
                self._put(EventType.SYSTEM.value, {"level": "error", "message": text})
            elif kind in _SAYINGS:
                said = _SAYINGS[kind](payload)
                if said is not None:
                    self._put(*said)
            elif kind == "stat" and (problem := self._stats.put(payload)) is not None:
                self._put(EventType.SYSTEM.value, {"level": "warn", "message": problem})

        if self._resident.journal.refused:
            self._tell_refused()

    def _tell_refused(self) -> None:
        """What the script called and was not granted, or not so."""
        journal = self._resident.journal
        refused, journal.refused = journal.refused, []
        for one in refused[:MOST_REFUSED]:
            self._put(EventType.SYSTEM.value, one.as_dict())
        if len(refused) > MOST_REFUSED:
            self._put(EventType.SYSTEM.value, {"level": "warn", "message": "more calls were refused, which are not listed"})

    def _close_query(self, query: Query, state: QueryState) -> None:
        query.state = QUERY.next(query.state, state)
        query.closed_at = self._time
        del self._resident.open[query.number]
        if query.kind is not QueryKind.TIMER:
            self._put(
                EventType.SYSTEM.value,
                {"level": "info", "message": f"query {query.id} was {state.value}", "query_id": query.id},
            )
        if branches.is_fork(query):
            branches.charge(self._core.store, self._resident.session, self._execution, query)
        if query not in self._asking.asked:
            self._work.closed.append(query)

    # ---- the end -------------------------------------------------------------------------------------------------------------------

    def _commit(self, outcome: Outcome | Crashed) -> Commit:
        resident, work, execution, now = self._resident, self._work, self._execution, self._time
        session = resident.session
        commit = self._core.change(session)
        session.steps += 1
        number, parent = session.steps, session.head
        self._runs()
        resident.execution = execution
        metrics = execution.metrics
        metrics.steps += 1
        metrics.cpu_us += round(self._cpu * 1e6)
        metrics.elapsed_ms = now - execution.started_at
        if isinstance(outcome, _RAN):
            execution.custom = self._stats.kept()
        checkpoint: Checkpoint | None = None
        held_until: int | None = None
        if isinstance(outcome, Paused):
            execution.status = EXECUTION.next(execution.status, ExecutionStatus.PAUSED)
            session.state = SESSION.next(session.state, SessionState.PAUSED)
            metrics.pauses += 1
            self._set_timer(outcome.wake_at)
            held_until = self._hold()
            checkpoint = self._checkpoint(number)
        elif isinstance(outcome, Finished | Failed):
            self._set_timer(None)
            self._finish(outcome)
            checkpoint = self._checkpoint(number)
        else:
            checkpoint = self._roll_back(outcome, number)
        if resident.state is not None and isinstance(outcome, _RAN):
            commit.state = resident.state.writes()
        if not resident.open or type(outcome) is not Paused:
            session.wake_at = None
        else:
            session.wake_at = wake_at(resident, held_until)
        session.updated_at = now
        execution.last_step = number
        step = Step(number, parent, execution.id, now, self._first_seq, self._events, checkpoint)
        commit.steps = [step]
        commit.asked, commit.closed, commit.errors = self._asking.asked, work.closed, self._errors
        if work.started is not None and not work.durable:
            commit.new_executions = [execution]
        else:
            commit.executions = [execution]
        state_bytes = self._state_bytes + size_of_state(commit.state)
        size = size_of(step, commit.asked, commit.closed) + state_bytes
        size += 0 if work.started is None else size_of_input(work.started)
        charge(commit, self._used(size), self._time, begins=work.started is not None, freed=state_bytes)
        commit.ended = work.durable or resident.begun is not None
        resident.begun = None
        commit.reply = None if work.durable else work.reply
        return commit

    def _set_timer(self, wake_at: float | None) -> None:
        """A pause that waits for the clock is a query like any other, which the clock answers."""
        due = None if wake_at is None else math.ceil(wake_at)
        for query in list(self._resident.open.values()):
            if query.kind is QueryKind.TIMER:
                if query.payload["wake_at"] == due:
                    return
                rang = query.payload["wake_at"] <= self._now
                if rang:
                    query.answer = Answer()
                self._close_query(query, QueryState.ANSWERED if rang else QueryState.CANCELLED)
        if due is not None:
            self._asking.add(None, QueryKind.TIMER, {"wake_at": due}, self._time)

    def _hold(self) -> int | None:
        """When the session may go on by itself, if a limit of this hour is used up. It is told why once, when that happens."""
        resident = self._resident
        used = resident.session.usage.plus(self._used(0), hour_of(self._time))
        held = self._core.hold(resident, used, self._time)
        if held is None:
            resident.held_until = None
            return None
        until, why = held
        if resident.held_until != until:
            self._put(EventType.SYSTEM.value, held_event(until, why))
        resident.held_until = until
        return until

    def _used(self, size: int) -> Amounts:
        """What the step has used, as far as it has come."""
        return Amounts(round(self._cpu * 1e6), 1, len(self._events), size)

    def _finish(self, outcome: Finished | Failed) -> None:
        execution = self._execution
        if type(outcome) is Finished:
            result = outcome.result
            execution.result = result.as_dict() if result.has_json else {"type": result.type, "preview": result.preview}
            self._put(EventType.VALUE.value, execution.result)
            self._over(ExecutionStatus.OK, SessionState.STARTING if self._more_to_start() else SessionState.READY)
            return
        assert isinstance(outcome, Failed)
        error = outcome.error
        described = {"name": error.name, "message": error.message, "stack": error.stack}
        if error.code is not None:
            described["code"] = error.code
        self._put(EventType.EXCEPTION.value, described)
        self._fail(described, error.code or error.name, ExecutionStatus.ERROR)

    def _more_to_start(self) -> bool:
        """Whether this was a startup file, and not the last one."""
        execution = self._execution
        files = self._resident.shelved.startup if execution.kind is ExecutionKind.STARTUP else []
        return bool(files) and execution.path != files[-1].path

    def _fail(self, described: dict[str, Any], kind: str, status: ExecutionStatus) -> None:
        session, execution = self._resident.session, self._execution
        execution.error = described
        session.last_error = described["message"]
        startup = execution.kind is ExecutionKind.STARTUP
        if status is not ExecutionStatus.CANCELLED:
            phase = SessionState.STARTING if startup else SessionState.RUNNING
            entry = ErrorEntry(new_id(), self._time, phase.value, None, execution.id, kind, described["message"])
            self._errors.append(entry)
        self._over(status, SessionState.CRASHED if startup else SessionState.READY)

    def _over(self, status: ExecutionStatus, state: SessionState) -> None:
        resident, execution = self._resident, self._execution
        execution.status = EXECUTION.next(execution.status, status)
        execution.ended_at = self._time
        resident.session.state = SESSION.next(resident.session.state, state)
        resident.session.execution_id = None
        for query in list(resident.open.values()):
            self._close_query(query, QueryState.CANCELLED)

    def _roll_back(self, outcome: Breached | Cancelled | Crashed, number: int) -> Checkpoint | None:
        """The step does not count. If the script was paused before it, it is dropped where it stood."""
        resident, work = self._resident, self._work
        self._sealed = None
        resident.hibernate()
        drop = work.started is None and not isinstance(outcome, Dropped)
        if drop:
            try:
                self._take(resident.awake().step(Abandon(), now=self._now))
            except GuestFault as error:  # what it stands at is no state that anything can go on from
                raise image_damaged(resident.ladder[-1].at) from error
        elif resident.journal.refused:  # a fault of the host tells nothing of the step that it ended
            self._tell_refused()
        why, status = described(outcome)
        level = "info" if status is ExecutionStatus.CANCELLED else "error"
        self._put(EventType.SYSTEM.value, {"level": level} | why)
        self._fail(why, why["code"], status)
        return self._checkpoint(number) if drop else None

    def _seal(self, number: int) -> tuple[Image, bytes, int]:
        """The present state: its image, that as a sealed delta, and how many images of the ladder the delta is made against."""
        resident, ladder = self._resident, self._resident.ladder
        image = resident.awake().freeze(Label(resident.session.id, number))
        depth = (ladder[-1].depth if ladder else 0) + 1
        kept, target = len(ladder), base_depth(depth)
        while kept and ladder[kept - 1].depth > target:
            kept -= 1
        base = ladder[kept - 1].image if kept else resident.shelved.template
        return image, image.seal(self._core.key, base), kept

    def _checkpoint(self, number: int) -> Checkpoint:
        """The present state, as a delta against the nearest base that keeps all chains short."""
        resident, metrics = self._resident, self._execution.metrics
        session, ladder, sandbox = resident.session, resident.ladder, resident.awake()
        image, sealed, kept = self._sealed or self._seal(number)
        depth = (ladder[-1].depth if ladder else 0) + 1
        base = ladder[kept - 1] if kept else None
        ladder[kept:] = [Rung(depth, Origin(session.id, number), image)]
        session.head, session.seed = number, None
        if sandbox.memory > metrics.peak_memory:
            metrics.peak_memory = sandbox.memory
        metrics.checkpoint_bytes += len(sealed)
        told = {"number": number, "bytes": len(sealed), "spent": metrics.spent_row()}
        self._put(_CHECKPOINT, told | {"custom": self._execution.custom} if self._execution.custom else told)
        waiting, wake_at = [], None
        for query in resident.open.values():
            if query.guest_id is not None:
                waiting.append(query.number)
            else:
                wake_at = query.payload["wake_at"]
        return Checkpoint(depth, base.at if base else None, sealed, tuple(waiting), wake_at)
