"""Threads that run jobs, and one that watches them.

One thread is enough for short jobs: the interpreter runs one at a time, and two would take its lock from each other at every step. It takes
them from a fair queue (`fair.py`). A job that takes long leaves this thread to itself, and another one takes its place; from then on
it runs in turns with the others that take long (`gate.py`). A job of a session whose steps took long lately begins that way, on a thread
that short jobs do not need.

Threads for long jobs are limited, and no owner can take the last of them: each gets at most as many as are left for all others.
"""

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Generic, TypeVar
from uuid import UUID

from holdfast.domain import HoldfastError, Principal
from holdfast.runtime.fair import FairQueue, Owner, Usage
from holdfast.runtime.gate import Gate, Ticket
from holdfast.runtime.resident import Resident

_log: Final = logging.getLogger("holdfast.runtime")
_TICK: Final = 0.005
_MOST: Final = 256
"""Threads for jobs that take long; when twice as many exist, short jobs wait too."""
_IDLE_S: Final = 1.0
"""How long a thread waits for another long job."""
_SLOW_S: Final = 0.02
_LONG_S: Final = 0.005
"""CPU time and time in host calls of a job from which on the next one of its session is expected to take long."""

_TELL_S: Final = 1.0
_TELL_AGAIN_S: Final = 60.0
_MOST_TOLD: Final = 10_000

Job = TypeVar("Job")
_Found = tuple[Owner, tuple[Job, float]]


class Workers(Generic[Job]):
    """A pool of threads that call `run` with jobs, in turns by owner.

    `run` gives the CPU seconds that a job used; `owner` says whose it is, as far as is known; `executes` whether it runs a script, since
    only those take long.
    """

    def __init__(
        self,
        run: Callable[[Job], float],
        flush: Callable[[], None],
        begin_after_ms: float,
        owner: Callable[[Job], Owner],
        executes: Callable[[Job], bool] = lambda job: True,
        usage: Usage | None = None,
    ) -> None:
        self._run, self._flush, self._begin_after, self._owner = run, flush, begin_after_ms / 1000, owner
        self._executes = executes
        self.usage = usage or Usage()
        self.gate = Gate(self.usage, self._detach)
        self._short: FairQueue[tuple[Job, float]] = FairQueue(self.usage.of)
        self._long: FairQueue[tuple[Job, float]] = FairQueue(self.usage.of)
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """One entry for each short job that was put, so that the thread for them can wait; False at the end."""
        self._long_wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._idle = False
        """Whether a thread for long jobs waits for one."""
        self._tickets: dict[threading.Thread, Ticket] = {}
        self._running: dict[Resident, tuple[float, Ticket | None]] = {}
        self._threads: set[threading.Thread] = set()
        self._base: threading.Thread | None = None
        """The thread for short jobs, unless it has just become one for a long job."""
        self._detached: dict[threading.Thread, Principal] = {}
        self._counts: Counter[Principal] = Counter()
        self._told: dict[UUID, float] = {}
        """Until when each session is not told again that it is slowed down."""
        self._lock = threading.Lock()
        self._busy, self._attention = threading.Event(), threading.Event()
        self._closed = False
        self._watch = threading.Thread(target=self._watching, name="holdfast-watch", daemon=True)
        self._new_base().start()
        self._watch.start()

    def put(self, job: Job) -> None:
        """Runs a job as soon as it is its owner's turn."""
        owner = self._owner(job)
        now = time.monotonic()
        with self._lock:
            if self._executes(job) and self._is_long(owner):
                self._long.push(owner, (job, now))
                if self._idle:
                    self._long_wakes.put(True)
                else:
                    self._attention.set()
            else:
                self._short.push(owner, (job, now))
                self._wakes.put(True)
                self.gate.last_short = now
                if self._base is None:
                    self._attention.set()
        if not self._busy.is_set():
            self._busy.set()

    def hurry(self, job: Job) -> None:
        """Begins a job at once that was told to stop, wherever it waits: it ends as soon as it has begun."""
        with self._lock:
            found = self._long.remove(lambda item: item[0] == job)
            if found is not None:
                self._short.push(found[0], found[1])
                self._wakes.put(True)
                self._attention.set()
            tickets = [
                ticket for ticket in list(self._tickets.values()) if ticket.job == job
            ]  # workers change it without the lock
        for ticket in tickets:
            ticket.wake()

    @property
    def backlog(self) -> bool:
        """Whether short jobs wait."""
        return bool(self._short)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a thread."""
        return len(self._short) + len(self._long)

    def enter(self, resident: Resident) -> None:
        """A step of this session begins."""
        ticket = self._tickets.get(threading.current_thread())
        if ticket is not None and resident.sandbox is not None:
            ticket.cancelled = False
            if not ticket.long:
                ticket.owner = Owner(resident.session.principal, resident.id)
            resident.sandbox.pacer = ticket
        self._running[resident] = (time.monotonic(), ticket)
        if not self._busy.is_set():  # the watch may have seen nobody while the session was loaded
            self._busy.set()

    def leave(self, resident: Resident) -> float:
        """It has ended. Gives the seconds that it waited for its turn, if that is worth telling: its owner used much lately, it waited for
        long, and the session was not told in the last minute.
        """
        self._running.pop(resident, None)
        ticket = self._tickets.get(threading.current_thread())
        if resident.sandbox is not None:
            resident.sandbox.pacer = None
        if ticket is None or ticket.slept < _TELL_S or self.usage.of(ticket.owner.principal) < _TELL_S:
            return 0.0
        now = time.monotonic()
        if now < self._told.get(resident.id, now):
            return 0.0
        if len(self._told) > _MOST_TOLD:
            self._told.clear()
        self._told[resident.id] = now + _TELL_AGAIN_S
        return ticket.slept

    def close(self) -> None:
        """Waits for the jobs that run and that wait; none is begun after that."""
        self._closed = True
        self._busy.set()
        self._attention.set()
        self._watch.join()  # first of all: it may be about to add a thread
        with self._lock:
            if self._base is None:
                self._new_base().start()
            threads = list(self._threads)
        self._wakes.put(False)
        self._long_wakes.put(False)
        for thread in threads:
            thread.join()
        self._flush()

    # ---- threads -------------------------------------------------------------------------------------------------------------------

    def _is_long(self, owner: Owner) -> bool:
        """Whether a job is begun as one that takes long. What nobody knows is, if its owner has many threads already."""
        expected = self.usage.expected(owner)
        return not self._admits(owner.principal) if expected is None else expected > _LONG_S

    def _admits(self, principal: Principal) -> bool:
        """Whether an owner may have another thread for a long job."""
        return self._counts[principal] < _MOST - len(self._detached)

    def _may_add(self) -> bool:
        return len(self._threads) < 2 * _MOST and not self._closed

    def _new_base(self) -> threading.Thread:
        """A thread for short jobs, to be started by the caller without the lock: that waits for the interpreter's."""
        thread = self._base = threading.Thread(target=self._short_jobs, name="holdfast-worker", daemon=True)
        self._threads.add(thread)
        return thread

    def _new_long(self) -> threading.Thread | None:
        """A thread for a long job that waits, likewise; None if there is no job that may begin, or a thread that waits for one."""
        found = None if self._idle else self._take_long()
        if found is None:
            return None
        thread = threading.Thread(target=self._long_jobs, args=(found,), name="holdfast-long", daemon=True)
        self._threads.add(thread)
        self._count(thread, found[0].principal)
        return thread

    def _take_long(self) -> "_Found[Job] | None":
        return self._long.pop(None if self._closed else self._admits)

    def _count(self, thread: threading.Thread, principal: Principal) -> None:
        self._detached[thread] = principal
        self._counts[principal] += 1

    def _discount(self, thread: threading.Thread) -> None:
        principal = self._detached.pop(thread)
        self._counts[principal] -= 1
        if not self._counts[principal]:
            del self._counts[principal]

    def _detach(self, ticket: Ticket) -> None:
        """A job takes long: its thread is not the one for short jobs any more."""
        added = None
        with self._lock:
            if self._base is ticket.thread:
                self._base = None
                self._count(ticket.thread, ticket.owner.principal)
                if self._short and self._may_add():
                    added = self._new_base()
        if added is not None:
            added.start()

    def _short_jobs(self) -> None:
        me = threading.current_thread()
        while True:
            more = self._next()
            with self._lock:
                found = self._short.pop()
                if found is None and not more:
                    break
            if not more:
                self._wakes.put(False)
            if found is None:
                continue
            self._do(found)
            with self._lock:
                if self._base is not me:  # it was a long one
                    self._discount(me)
                    if self._base is not None:
                        break
                    self._base = me
        self._flush()
        self._long_jobs(None)

    def _next(self) -> bool:
        """Whether there is a job, or else it is time to end. Nobody waits for one while commits wait for company: it may not come."""
        try:
            return self._wakes.get_nowait()
        except queue.Empty:
            self._flush()
            return self._wakes.get()

    def _long_jobs(self, found: "_Found[Job] | None") -> None:
        me = threading.current_thread()
        while True:
            if found is not None:
                self._do(found, long=True)
                found = None
            with self._lock:
                if me in self._detached:
                    self._discount(me)
                found = self._take_long()
                if found is not None:
                    self._count(me, found[0].principal)
                    continue
                if self._closed or self._idle:
                    break
                self._idle = True
            with contextlib.suppress(queue.Empty):
                self._long_wakes.get(timeout=_IDLE_S)
            with self._lock:
                self._idle = False
                if self._long_wakes.empty() and not self._long:
                    break
                with contextlib.suppress(queue.Empty):
                    self._long_wakes.get_nowait()
        with self._lock:
            self._threads.discard(me)

    def _do(self, found: "_Found[Job]", *, long: bool = False) -> None:
        me = threading.current_thread()
        owner, (job, queued) = found
        ticket = Ticket(self.gate, owner, time.monotonic() - queued)
        ticket.job = job
        self._tickets[me] = ticket
        if long:
            self.gate.lengthen(ticket)
        used = self._run(job)
        del self._tickets[me]
        owner = self._owner(job)
        if ticket.long:
            self.gate.leave(ticket)
        else:
            self.usage.charge(owner, used)
            self.gate.last_short = time.monotonic()
        if self._executes(job):
            self.usage.note_step(owner, used + ticket.called)
        if long:
            self._flush()  # a commit may have waited for the company of short jobs

    # ---- the watch -----------------------------------------------------------------------------------------------------------------

    def _watching(self) -> None:
        while not self._closed:
            self._busy.wait()
            if self._attention.wait(_TICK):
                self._attention.clear()
            slow = self._detach_slow()
            if slow:  # whoever was to write may be at a script that takes long
                self._flush()
            self._begin_slow()
            self.gate.tick()
            while (added := self._needed()) is not None:
                added.start()
            if not self._running and not self._tickets and not self.waiting and not self._closed:
                self._busy.clear()
                if self.waiting or self._running:
                    self._busy.set()

    def _needed(self) -> threading.Thread | None:
        """Another thread, if there is work for it."""
        with self._lock:
            if not self._may_add():
                return None
            return self._new_base() if self._short and self._base is None else self._new_long()

    def _detach_slow(self) -> int:
        """Replaces the thread for short jobs if its job takes long without running a guest. Gives how many threads are at long jobs."""
        ticket = None if self._base is None else self._tickets.get(self._base)
        if ticket is not None and time.monotonic() - ticket.started > _SLOW_S:
            self._detach(ticket)
        return len(self._detached)

    def _begin_slow(self) -> None:
        """Makes a step durable that takes long, so that a crash does not lose it. One at a time: others want to write in between."""
        now = time.monotonic()
        for resident, (since, ticket) in list(self._running.items()):
            begin = resident.begin
            if (
                now - since < self._begin_after
                or begin is None
                or (ticket is not None and ticket.has_run(now) < self._begin_after)
            ):
                continue
            self._running[resident] = (float("inf"), ticket)
            try:
                begin()
            except HoldfastError as error:
                _log.info("a step that takes long could not be made durable yet: %s", error)
                if resident in self._running:
                    self._running[resident] = (now, ticket)
            return
