"""Slots for steps that take long, so that they do not slow down the short ones.

Theory of operation
-------------------
A step is short until it has used `QUANTUM_S` of CPU time. From then on it needs a slot to go on. There are as many slots as cores while
nothing short is done, and one less otherwise. A step that holds a slot keeps it for a quantum; if others wait then, it goes back into a
fair queue (`fair.py`) and its thread sleeps until its owner's turn comes again. So the number of threads that compete for cores and for
the interpreter's lock is small however many scripts run, and each owner gets its share.

`Ticket.pace` is where this happens: the sandbox calls it on the step's own thread, whenever the guest looks at the clock and before every
host call. It gives the seconds that the step slept, which do not count as its wall time. A cancelled step stops waiting at once.

A step that waits in a host call (a program, a request) uses no core. Its slot is taken away meanwhile, and it needs one again when it goes
on. An owner that holds no slot gets one after `SOON_S` even if all are taken: a holder in a host call may not notice that others wait.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from holdfast.domain import Principal
from holdfast.runtime.fair import FairQueue, Owner, Usage

QUANTUM_S: Final = 0.01
SOON_S: Final = 0.2
_SHORT_S: Final = 0.25
"""How long after the last short job a core is kept free for the next one."""
_CALLING_S: Final = 0.02
_IDLE: Final = 0.2
"""A holder in a host call whose thread used less of the time than this waits for something else than a core."""


class Ticket:
    """One job on its thread, and whether it may go on."""

    def __init__(self, gate: "Gate", owner: Owner, queued: float = 0.0) -> None:
        self._gate, self.owner = gate, owner
        self.job: object = None
        self.thread = threading.current_thread()
        self.started = time.monotonic()
        self._cpu_began = time.thread_time()
        self.long = self.holds = False
        self.until = 0.0
        """When a holder gives its slot to others, if any wait."""
        self.since = 0.0
        """Since when it holds its slot, or waits for one."""
        self.calling = self.cpu = 0.0
        """Since when it is in a host call, and the CPU time of its thread then."""
        self.computes = False
        self.called = 0.0
        """Seconds in host calls that are over."""
        self.queued = self.slept = queued
        """Seconds that it waited for its turn: before it began, and all in all so far."""
        self.asleep = 0.0
        """Since when it waits for a slot, if it does."""
        self.wakes = threading.Event()
        self.cancelled = False
        self._clock_id = _cpu_clock()

    def pace(self, *, calling: bool = False, long: bool = False) -> float:
        """Goes on at once if it may, or sleeps until it may, or until it is woken. Gives the seconds that it slept."""
        now = time.monotonic()
        slept = 0.0
        if not self.long:
            if long or (now - self.started >= QUANTUM_S and time.thread_time() - self._cpu_began >= QUANTUM_S):
                slept = self._gate.lengthen(self)
        elif not self.holds or now >= self.until:
            slept = self._gate.renew(self)
        if calling:
            self.calling = now + slept
            self.cpu = self.cpu_time()
        return slept

    def returned(self) -> None:
        """The host call is over."""
        self.called += time.monotonic() - self.calling
        self.calling, self.computes = 0.0, False

    def computing(self) -> None:
        """The host call has others compute for it, such as the helper process of a database: it needs its slot."""
        self.computes = True

    def has_run(self, now: float) -> float:
        """Seconds since it began, without those in which it waited for a slot."""
        asleep = self.asleep
        return now - self.started - (self.slept - self.queued) - (now - asleep if asleep else 0.0)

    def wake(self) -> None:
        """Ends the sleep for good: the step was told to stop, which must not take a turn."""
        self.cancelled = True
        self.wakes.set()

    def cpu_time(self) -> float:
        """CPU seconds of the thread; from any thread."""
        if self._clock_id is None:
            return 0.0
        try:
            return time.clock_gettime(self._clock_id)
        except OSError:  # the thread has just ended
            return self.cpu


def _cpu_clock() -> int | None:
    """The CPU clock of this thread, for others to read; None where the system has none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return None
    return time.pthread_getcpuclockid(threading.get_ident())


class Gate:
    """Slots, and those who wait for one. `lengthened` hears, on the step's thread, that a step is not short any more."""

    def __init__(self, usage: Usage, lengthened: Callable[[Ticket], None], cores: int | None = None) -> None:
        self._usage, self._lengthened = usage, lengthened
        self._cores = (
            cores or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores or os.cpu_count() or 1
        )
        self._lock = threading.Lock()
        self._waiting: FairQueue[Ticket] = FairQueue(usage.of)
        self._holders: set[Ticket] = set()
        self._held: Counter[Principal] = Counter()
        self._opened = False
        self.last_short = -_SHORT_S
        """When a short job was last put into the queue or has ended."""

    @property
    def slots(self) -> int:
        """How many long steps may run now."""
        busy = time.monotonic() - self.last_short < _SHORT_S
        return max(1, self._cores - 1) if busy else self._cores

    def lengthen(self, ticket: Ticket) -> float:
        """A step takes long: it needs a slot from now on."""
        ticket.long = True
        self._lengthened(ticket)
        return self.renew(ticket)

    def renew(self, ticket: Ticket) -> float:
        """Gives a slot to a ticket for a quantum: its own if nobody else wants it, or one for which it waits."""
        now = time.monotonic()
        with self._lock:
            if ticket.holds:
                self._charge(ticket, now)
                if not self._waiting and len(self._holders) <= self.slots:
                    ticket.until = now + QUANTUM_S
                    return 0.0
                self._release(ticket)
            ticket.wakes.clear()  # before the look at `cancelled`: whoever cancels sets that first, then wakes
            if ticket.cancelled or self._opened:
                return 0.0
            ticket.since = now
            self._waiting.push(ticket.owner, ticket)
            self._grant(now)
        if not ticket.holds:
            ticket.asleep = now
            ticket.wakes.wait()
        slept = time.monotonic() - now
        ticket.slept += slept
        ticket.asleep = 0.0
        return slept

    def leave(self, ticket: Ticket) -> None:
        """The job of a ticket is over."""
        ticket.cancelled = True  # if it still waits, nobody grants it a slot
        with self._lock:
            if ticket.holds:
                now = time.monotonic()
                self._charge(ticket, now)
                self._release(ticket)
                self._grant(now)

    def tick(self) -> None:
        """From time to time: takes slots from those who wait for something else, and gives free ones away."""
        with self._lock:
            if not self._waiting:
                return
            now = time.monotonic()
            for ticket in [ticket for ticket in self._holders if self._is_idle(ticket, now)]:
                self._charge(ticket, now)
                self._release(ticket)
            self._grant(now)

    def open(self) -> None:
        """Lets everybody through: the process is about to end."""
        with self._lock:
            self._opened = True
            waiting = self._waiting.clear()
        for ticket in waiting:
            ticket.wakes.set()

    def _is_idle(self, ticket: Ticket, now: float) -> bool:
        calling = ticket.calling
        if not calling or now - calling < _CALLING_S or ticket.computes:
            return False
        return ticket.cpu_time() - ticket.cpu < _IDLE * (now - calling)

    def _charge(self, ticket: Ticket, now: float) -> None:
        self._usage.charge(ticket.owner, now - ticket.since)
        ticket.since = now

    def _release(self, ticket: Ticket) -> None:
        ticket.holds = False
        self._holders.discard(ticket)
        principal = ticket.owner.principal
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]

    def _grant(self, now: float) -> None:
        slots = self.slots
        while len(self._holders) < slots and self._grant_one(now, None):
            pass
        if self._waiting:  # all slots are taken: owners that have none do not wait for long
            for principal in [one for one in self._waiting.principals() if not self._held[one]]:
                oldest = self._waiting.oldest(principal)
                if now - oldest.since >= SOON_S:
                    self._grant_one(now, principal)

    def _grant_one(self, now: float, of: Principal | None) -> bool:
        while True:
            found = self._waiting.pop(None if of is None else lambda principal: principal == of)
            if found is None:
                return False
            ticket = found[1]
            if ticket.cancelled:
                continue
            ticket.holds, ticket.since, ticket.until = True, now, now + QUANTUM_S
            self._holders.add(ticket)
            self._held[ticket.owner.principal] += 1
            ticket.wakes.set()
            return True
