"""Which job runs when.

Theory of operation
-------------------
All decisions are made on the event loop's thread, without locks. Each session that has something to do has a slot: a queue of jobs, of
which one at a time is with a worker thread. A worker loads the session if it is not resident, runs the job, and hands a commit to the
committer. When that is durable the loop hears of it, tells the caller, and gives the slot's next job away.

Sessions that have nothing to do stay resident, most recently used first, up to a number; the others take no memory at all.
"""

import asyncio
import contextlib
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from holdfast.capabilities import Overlay
from holdfast.domain import (
    HoldfastError,
    Principal,
    SessionBusy,
    SessionNotFound,
    SessionState,
    StateConflict,
    TemplateNotFound,
    VersionConflict,
)
from holdfast.runtime._errors import RuntimeClosed
from holdfast.runtime.bell import Bell
from holdfast.runtime.core import Core
from holdfast.runtime.fair import Owner
from holdfast.runtime.jobs import Close, Gone, Job, Park, RunsElsewhere, Start, Wake, replay
from holdfast.runtime.lanes import MOST_CONFLICTS, Lanes
from holdfast.runtime.outages import Outage, Outages, is_transient
from holdfast.runtime.resident import Resident, check_whole, records_damaged, template_lost
from holdfast.runtime.workers import Workers
from holdfast.sandbox import RequestRefused
from holdfast.store import Commit, LeaseLost, StoreDamaged, StoreError

_RETRIES: Final = 5
_AGAIN_S: Final = 0.1
_LARGE_PART: Final = 4
"""A session that holds more than this part of the memory of all idle ones goes before the others."""
_MOST_OWNERS: Final = 65_536
_FIRST_LOOK_S: Final = 0.02
_LONGEST_LOOK_S: Final = 0.25


@dataclass(slots=True, eq=False)
class Task:
    """A job on its way, and who waits for it."""

    job: Job
    future: "asyncio.Future[Any]"
    patient_until: float = 0.0
    """Until when, by the loop's clock, it waits for another process that runs the session."""
    looks: int = 0
    """How often it has looked whether that process has come to an end."""
    tries: int = 0
    conflicts: int = 0
    """How often others had changed the same state when it came to its commit."""
    lane: str | None = None
    """The namespace in which that was, while it is tried again."""
    ran: bool = False
    over: bool = False
    """Whether all but its commit is done. Others may see its end in the store before the loop hears of it."""
    cancelled: bool = False
    waited: bool = False
    """Whether it was parked, so that it is ahead of those that still are."""
    ended: "asyncio.Future[None] | None" = None
    """For those who wait for its end after its caller has gone."""
    replays: UUID | None = None
    """The execution whose interrupted step it runs again first, while it does."""
    stopped: bool = False
    """Whether that was told to stop."""
    replayed: Commit | None = None
    """What that came to; it counts whatever becomes of the job."""
    commit: Commit | None = None
    """What the job itself came to."""
    since: float = 0.0
    """When it was submitted."""
    outage: Outage | None = None
    """The outage of the store that it waits for."""
    resubmits: bool = False
    """Whether only its commit is left to be done, which the store could not take."""

    def is_cancelled(self) -> bool:
        if self.replays is None:
            return self.cancelled
        return self.stopped or (self.cancelled and not isinstance(self.job, Start))


@dataclass(slots=True, eq=False)
class Slot:
    """A session that has something to do, or is resident."""

    id: UUID
    tasks: deque[Task] = field(default_factory=deque)
    parked: deque[Task] = field(default_factory=deque)
    busy: Task | None = None
    resident: Resident | None = None
    size: int = 0
    """Bytes that the resident held when it was last idle."""

    @property
    def executes(self) -> bool:
        """Whether the script runs, or is about to."""
        tasks = self.tasks if self.busy is None or self.busy.over else (self.busy, *self.tasks)
        return any(task.job.executes and not self._is_in_vain(task.job) for task in tasks)

    def _is_in_vain(self, job: Job) -> bool:
        """Whether a job finds nothing to do, as far as is known: an alarm that rings late, an answer that was given before."""
        if isinstance(job, Start):
            return False
        if self.resident is None:
            return isinstance(job, Wake)
        return self.resident.session.state is SessionState.READY

    @property
    def idle(self) -> bool:
        return self.busy is None and not self.tasks


class Dispatcher:
    """Gives jobs to workers, and their results to callers. On the loop, `settled` is called after each job that has worked, and `written`
    after each commit of one.
    """

    def __init__(
        self,
        core: Core,
        most_resident: tuple[int, int],
        settled: Callable[[Resident], None],
        written: Callable[[Commit], None],
        busy_wait_s: float,
        outages: Outages,
    ) -> None:
        self._core, self._settled, self._written, self._outages = core, settled, written, outages
        self._most, self._most_bytes = most_resident
        self._bytes = 0
        """The sum of the sizes of all slots."""
        self._busy_wait_s = busy_wait_s
        self._loop = asyncio.get_running_loop()
        self._bell = Bell(self._loop, self._settle)
        self._slots: OrderedDict[UUID, Slot] = OrderedDict()
        self._finished: deque[tuple[Slot, Task, HoldfastError | Park | None]] = deque()
        self._leaving: list[tuple[Slot, Task]] = []
        self._under_way = 0
        self._closed = self._evicting = False
        self._owners: OrderedDict[UUID, Principal] = OrderedDict()
        """Principals of the sessions that were loaded last, for the order of jobs; worker threads add to it."""
        self.workers: Workers[tuple[Slot, Task]] = Workers(
            self._work,
            core.committer.flush,
            core.begin_after_ms,
            lambda work: self._owner(work[0]),
            lambda work: work[1].job.executes,
        )
        self._lanes: Lanes[tuple[Slot, Task]] = Lanes(self._loop, self._again)
        self.recovered = 0
        """How many interrupted steps this process has gone on with."""
        self.troubled: set[UUID] = set()
        """Sessions that the store had no ear for: perhaps it knows of a step that was begun, and nobody goes on with it."""

    # ---- on the loop ---------------------------------------------------------------------------------------------------------------

    def submit(self, session_id: UUID, job: Job) -> "asyncio.Future[Any]":
        """Does a job when the session's turn has come. The future has its result after it is durable."""
        if self._closed:
            raise RuntimeClosed
        slot = self._slots.get(session_id)
        if slot is None:
            slot = self._slots[session_id] = Slot(session_id)
        if isinstance(job, Start) and slot.executes and not job.wait:
            raise SessionBusy("an execution runs in this session")
        patience_s = math.inf if isinstance(job, Start) and job.wait else self._busy_wait_s if job.patient else 0
        task = Task(job, self._loop.create_future(), self._loop.time() + patience_s, since=self._loop.time())
        slot.tasks.append(task)
        self._give(slot)
        return task.future

    def cancel(self, session_id: UUID, execution_id: UUID | None = None) -> "asyncio.Future[Any] | None":
        """Stops the script that runs in a session, if it is this execution's. Gives what is done at its end; None if nothing runs."""
        slot = self._slots.get(session_id)
        task = None if slot is None else slot.busy
        if slot is None or task is None or not (task.job.executes or task.replays):
            return None
        resident = slot.resident
        if execution_id is not None and (task.replays or _execution_of(task.job, resident)) not in (None, execution_id):
            return None
        replays = task.replays is not None
        if replays:
            task.stopped = True
        else:
            task.cancelled = True
        sandbox = None if resident is None else resident.sandbox
        if sandbox is not None:
            sandbox.cancel()
        self.workers.hurry((slot, task))
        if replays:  # the job itself goes on after that, perhaps for long
            return asyncio.ensure_future(asyncio.sleep(_AGAIN_S))
        if not task.future.done():
            return task.future
        if task.ended is None:
            task.ended = self._loop.create_future()
        return task.ended

    def try_parked(self) -> None:
        """Lets those who wait for a session look whether it is free: another process may have gone on with it."""
        for slot in [slot for slot in self._slots.values() if slot.parked and slot.idle]:
            self._unpark(slot)
            self._give(slot)

    def knows(self, session_id: UUID) -> bool:
        """Whether a job of this session is on its way."""
        slot = self._slots.get(session_id)
        return slot is not None and not slot.idle

    @property
    def resident(self) -> int:
        """How many sessions are in memory."""
        return sum(slot.resident is not None for slot in self._slots.values())

    @property
    def parked(self) -> set[UUID]:
        """Sessions that jobs wait for."""
        return {slot.id for slot in self._slots.values() if slot.parked}

    @property
    def waiting(self) -> int:
        """How many jobs wait for their turn."""
        return sum(len(slot.tasks) + len(slot.parked) for slot in self._slots.values())

    def _owner(self, slot: Slot) -> Owner:
        """Whose a session is. Of one that was not loaded yet nobody knows, and it is nobody's until then."""
        resident = slot.resident
        return Owner(self._owners.get(slot.id, Principal()) if resident is None else resident.session.principal, slot.id)

    def _give(self, slot: Slot) -> None:
        while slot.busy is None and slot.tasks:
            task = slot.tasks.popleft()
            if task.future.cancelled():  # nobody waits for it any more, and it has not begun
                if task.waited:
                    self._unpark(slot)
                continue
            slot.busy = task
            self._hand_over(slot, task)

    def _hand_over(self, slot: Slot, task: Task) -> None:
        """Gives a job to the workers. While others are under way, jobs that come in one turn of the loop go together at its end: a
        worker that wakes up earlier would only fight with the loop for Python's lock.
        """
        if not self._under_way:
            self._under_way = 1
            self.workers.put((slot, task))
            return
        self._under_way += 1
        self._leaving.append((slot, task))
        if len(self._leaving) == 1:
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        leaving, self._leaving = self._leaving, []
        for work in leaving:
            self.workers.put(work)

    def _unpark(self, slot: Slot) -> None:
        """Lets the first of those who wait for the session try again, before those who came later."""
        if slot.parked:
            slot.tasks.appendleft(slot.parked.popleft())

    def _settle(self) -> None:
        """Tells callers, and gives the next jobs away."""
        while self._finished:  # workers add to it meanwhile
            slot, task, error = self._finished.popleft()
            slot.busy = None
            self._under_way -= 1
            if task.lane is not None:
                self._lanes.leave(task.lane)
                task.lane = None
            if task.ended is not None:
                task.ended.set_result(None)
                task.ended = None
            if task.replayed is not None:
                self._written(task.replayed)
                task.replayed = None
            if error is None:
                self._outage_over(slot, task)
                for commit in (*task.job.written, *(() if task.commit is None else (task.commit,))):
                    self._written(commit)
                self._succeeded(slot, task)
            else:
                self._failed(slot, task, error)
            if not self._closed:
                self._give(slot)
                self._keep(slot)

    def _succeeded(self, slot: Slot, task: Task) -> None:
        resident = slot.resident
        assert resident is not None
        self._outages.forget(resident)
        if not task.future.done():
            task.future.set_result(task.job.result(resident))
        if task.cancelled or task.job.leaves:  # a sandbox that was told to stop would do so at its next step
            self._drop(slot)
        if resident.session.state not in (SessionState.PAUSED, SessionState.STARTING):
            self._unpark(slot)
        if not self._closed:
            self._settled(resident)

    def _failed(self, slot: Slot, task: Task, error: HoldfastError | Park) -> None:
        if isinstance(error, Park) and self._closed:  # those that wait were told before it came to that
            error = RuntimeClosed()
        if isinstance(error, Park):
            if task.waited:
                slot.parked.appendleft(task)
            else:
                slot.parked.append(task)
            task.waited = True
            return
        if isinstance(error, RunsElsewhere) and self._loop.time() < task.patient_until and not self._closed:
            self._look_later(slot, task)
            return
        if isinstance(error, RunsElsewhere) and not task.job.patient:
            error = SessionBusy("the session runs in another process")
        if task.ran and slot.resident is not None:
            (self._outages.keep if isinstance(error, StoreError) else self._outages.forget)(slot.resident)
        if is_transient(error) and not self._closed and self._wait_for_store(slot, task, error):
            return
        self._outage_over(slot, task)
        outdated = isinstance(error, LeaseLost | VersionConflict) and not isinstance(error, Gone)
        if task.ran or outdated or task.cancelled:
            self._drop(slot)
        if isinstance(error, StateConflict) and task.conflicts <= MOST_CONFLICTS and not self._closed:
            self._meet(slot, task, error)
            return
        if task.job.executes and isinstance(error, StoreError | StateConflict) and not isinstance(error, StoreDamaged):
            self.troubled.add(slot.id)
        if outdated and task.tries < _RETRIES and not self._closed:
            task.tries += 1
            slot.tasks.appendleft(task)
            return
        if not task.future.done():
            task.future.set_exception(error)
        self._unpark(slot)  # the next may hear the same, but it must hear something

    def _wait_for_store(self, slot: Slot, task: Task, error: HoldfastError) -> bool:
        """Let a job wait for a store that is away or full. False: it has waited long enough, and leaves nothing behind in memory.

        A commit stays in memory, however long the outage takes; only its caller goes.
        """
        outage = task.outage = self._outages.met(slot.id, task.outage, error)
        is_over_due = self._outages.is_over_due(outage.since, error)
        if task.commit is None:
            if is_over_due or (task.ran and not task.job.repeatable):
                self._outages.note(error)
                return False
            if task.ran:
                self._drop(slot)
        elif is_over_due and not task.future.done():
            task.future.set_exception(error)
        task.resubmits = task.commit is not None
        slot.busy = task
        for other in [other for other in slot.tasks if self._outages.is_over_due(max(other.since, outage.since), error)]:
            slot.tasks.remove(other)
            if not other.future.done():
                other.future.set_exception(error)
        self._loop.call_later(outage.pause_s, self._again, (slot, task))
        return True

    def _outage_over(self, slot: Slot, task: Task) -> None:
        if task.outage is not None:
            task.outage, task.resubmits = None, False
            self._outages.over(slot.id)

    def _meet(self, slot: Slot, task: Task, error: StateConflict) -> None:
        """Runs a job again whose step met that of another session in the state. Meanwhile the session has nothing else to do."""
        slot.busy, task.over = task, False
        task.conflicts += 1
        task.lane = error.namespace
        self._lanes.enter(error.namespace, (slot, task), task.conflicts)

    def _look_later(self, slot: Slot, task: Task) -> None:
        """Tries a job again whose session another process runs now. Later jobs of the session stay behind it, in their order."""
        self._drop(slot)
        slot.busy, task.over = task, False
        delay = min(_LONGEST_LOOK_S, _FIRST_LOOK_S * 2**task.looks)
        task.looks = min(task.looks + 1, 16)
        self._loop.call_later(delay, self._look, slot, task)

    def _look(self, slot: Slot, task: Task) -> None:
        if self._closed:
            return
        now = self._loop.time()
        for late in [late for late in slot.tasks if late.job.patient and late.patient_until <= now]:
            slot.tasks.remove(late)
            if not late.future.done():
                late.future.set_exception(RunsElsewhere())
        if not task.future.cancelled():
            self._hand_over(slot, task)
            return
        slot.busy = None  # nobody waits for it any more, and it has not begun
        self._unpark(slot)
        self._give(slot)
        self._keep(slot)

    def _again(self, work: tuple[Slot, Task]) -> None:
        if not self._closed:
            self._hand_over(*work)

    def _keep(self, slot: Slot) -> None:
        """Keeps the most recently used sessions in memory, and forgets the others."""
        slots = self._slots
        if slot.id in slots:
            slots.move_to_end(slot.id)
            self._measure(slot)
            if slot.resident is None and slot.idle and not slot.parked:
                del slots[slot.id]
        if (len(slots) > self._most or self._bytes > self._most_bytes) and not self._evicting:
            self._evicting = True
            self._loop.call_soon(
                self._evict
            )  # to give memory back takes a while, and callers that were told just now come first

    def _evict(self) -> None:
        self._evicting = False
        slots = self._slots
        excess = len(slots) - self._most
        for other in [other for _, other in zip(range(excess), slots.values(), strict=False)]:
            if other.idle:
                self._put_away(other)
        if self._bytes > self._most_bytes:
            for other in sorted(slots.values(), key=lambda slot: slot.size * _LARGE_PART <= self._most_bytes):
                if other.idle and other.size:
                    self._put_away(other)
                if self._bytes <= self._most_bytes:
                    break

    def _put_away(self, slot: Slot) -> None:
        self._drop(slot)
        self._measure(slot)
        if not slot.parked:
            del self._slots[slot.id]

    def _measure(self, slot: Slot) -> None:
        """Notes how much memory an idle session holds. On the loop only."""
        size = slot.resident.size if slot.resident is not None and slot.busy is None else 0
        self._bytes += size - slot.size
        slot.size = size

    def _drop(self, slot: Slot) -> None:
        resident, slot.resident = slot.resident, None
        if resident is not None:
            resident.let_go()

    async def close(self, grace_ms: float) -> None:
        """Refuses new jobs, and those that wait. Those that run have so long to end; then they are stopped, to go on later."""
        self._closed = True
        for slot in self._slots.values():
            for task in (*slot.tasks, *slot.parked):
                if not task.future.done():
                    task.future.set_exception(RuntimeClosed())
            slot.tasks.clear()
            slot.parked.clear()
        self._leave()
        threads = ThreadPoolExecutor(2, "holdfast-close")  # the loop's own may be taken, for as long as the application likes
        ended = self._loop.run_in_executor(threads, self.workers.close)
        await asyncio.wait([ended], timeout=grace_ms / 1000)
        while not ended.done():
            await self._loop.run_in_executor(threads, self._interrupt)
            await asyncio.wait([ended], timeout=_AGAIN_S)
        await self._loop.run_in_executor(threads, self._commit_kept)
        threads.shutdown(wait=False)
        self._bell.close()
        self._settle()
        for slot in self._slots.values():
            if slot.busy is not None and not slot.busy.future.done():
                slot.busy.future.set_exception(RuntimeClosed())
            with contextlib.suppress(HoldfastError):  # one shall not keep the others
                self._drop(slot)
        self._slots.clear()

    def _commit_kept(self) -> None:
        """Submit the commits that wait for the store once more: this process is about to forget them."""
        tasks = [slot.busy for slot in self._slots.values() if slot.busy is not None and slot.busy.resubmits]
        kept = [task.commit for task in tasks if task.commit is not None]
        with contextlib.suppress(HoldfastError):
            self._core.committer.commit_all(kept)

    def _interrupt(self) -> None:
        """Stops the scripts that run. What they do is durable first, so that whoever opens the store next goes on with it."""
        self._core.stopping = True
        self.workers.gate.open()
        for slot in list(self._slots.values()):
            resident = slot.resident
            if slot.busy is None or resident is None:
                continue
            begin, sandbox = resident.begin, resident.sandbox
            if begin is not None and sandbox is not None:
                with contextlib.suppress(HoldfastError):  # then it is as if it had never been asked for
                    begin()
                sandbox.cancel()

    # ---- on worker threads ---------------------------------------------------------------------------------------------------------

    def _work(self, work: tuple[Slot, Task]) -> float:
        """Gives the CPU seconds of the job itself: this thread may then write the commits of others as well."""
        began = time.thread_time()
        slot, task = work
        core = self._core
        if task.resubmits and task.commit is not None:
            core.committer.submit(task.commit, lambda error: self._finished.append((slot, task, error)))
            return 0.0
        commit: Commit | None = None
        problem: HoldfastError | Park | None = None
        task.ran = task.over = False
        task.commit = None
        if task.job.looks and not self._is_current(slot):
            self._drop(slot)
        kept = slot.resident is not None
        done = False
        try:
            resident = slot.resident
            if resident is None:
                resident = slot.resident = self._load(slot.id)
            resident.is_cancelled = task.is_cancelled
            if resident.begun is not None:
                task.ran = True  # if this fails, what is in memory is not what is in the store
                task.replays = resident.begun.execution_id
                done = isinstance(task.job, Start) and task.job.id == task.replays
                try:
                    task.replayed = self._go_on(resident, task)
                finally:
                    task.replays = None
                if task.stopped:  # a sandbox that was told to stop would do so at its next step
                    resident.hibernate()
                task.ran = False
                self._outages.forget(resident)
            if isinstance(task.job, Start) and task.job.is_committed(core, resident):
                done = True  # the acknowledgement was lost in an outage
            if task.conflicts > MOST_CONFLICTS and task.replayed is None:
                raise StateConflict
            if not done:  # what was run again is not the job itself, begun by this process and now at its end
                task.job.check(core, resident)
                task.ran = True
                commit = task.commit = task.job.run(core, resident)
        except RequestRefused as error:  # the records say that something waits, and the image that nothing does, or the reverse
            problem = records_damaged(slot.id)
            problem.__cause__ = error
            core.report(problem)
        except (HoldfastError, Park) as error:
            problem = error
        except BaseException as error:  # noqa: BLE001 - the caller must hear of it, whatever it is, and the thread goes on
            problem = HoldfastError("something went wrong in Holdfast that was not foreseen")
            problem.__cause__ = error
            core.report(problem)
        task.over = True
        used = time.thread_time() - began
        if commit is None:
            unproven = kept and not task.job.looks and (problem is None or not task.ran)
            if unproven and not self._is_current(slot):
                problem = VersionConflict()  # it was decided by a state that another process has left
            self._finished.append((slot, task, problem))
            self.flushed()
        else:
            core.committer.submit(commit, lambda error: self._finished.append((slot, task, error)), linger=self.workers.backlog)
        return used

    def _load(self, session_id: UUID) -> Resident:
        loaded = self._core.store.load(session_id)
        check_whole(loaded)
        self._outages.known(loaded)
        self._owners[session_id] = loaded.session.principal
        if len(self._owners) > _MOST_OWNERS:
            with contextlib.suppress(KeyError):  # another thread was faster
                self._owners.popitem(last=False)
        try:
            shelved = self._core.shelf.get(loaded.session.template_id, loaded.session.template_version)
        except TemplateNotFound:  # no template goes while it has sessions
            raise template_lost(loaded.session) from None
        state = Overlay(self._core.store, self._core.clock) if shelved.native else None
        return Resident(loaded, shelved, self._core.key, state)

    def _is_current(self, slot: Slot) -> bool:
        """Whether the session in memory is the one in the store. If that cannot be said now, nothing is better than it."""
        if slot.resident is None:
            return True
        try:
            return self._core.store.get_session(slot.id).version == slot.resident.session.version
        except SessionNotFound:
            return False
        except HoldfastError:
            return True

    def _go_on(self, resident: Resident, task: Task) -> Commit:
        """Runs the step again that was under way when its process died, or met another's in the state."""
        owner, begun, job = resident.session.owner, resident.begun, task.job
        assert begun is not None
        if owner is not None and owner != self._core.node and self._core.is_alive(owner):
            raise RunsElsewhere
        commit = replay(
            self._core,
            resident,
            begun,
            closing=isinstance(job, Close),
            conflicts=task.conflicts,
            resumed=task.outage is not None,
        )
        self._core.committer.commit(commit)
        self.recovered += not task.conflicts
        commit.executions = [execution.copy() for execution in commit.executions]  # as it is now: the job may go on with it
        return commit

    def flushed(self) -> None:
        """On any thread: jobs have ended."""
        if self._finished:
            self._bell.ring()


def _execution_of(job: Job, resident: Resident | None) -> UUID | None:
    """The execution that a job goes on with, as far as is known."""
    if isinstance(job, Start):
        return job.id
    return None if resident is None else resident.session.execution_id
