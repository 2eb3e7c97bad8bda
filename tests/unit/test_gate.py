"""Slots for long steps: who waits, who is woken, what is charged."""

import threading
import time
from collections.abc import Callable
from uuid import UUID, uuid4

from holdfast.domain import Principal
from holdfast.runtime.fair import Owner, Usage
from holdfast.runtime.gate import SOON_S, Gate, Ticket


def owner(tenant: str) -> Owner:
    return Owner(Principal(tenant, "t"), uuid4())


class Step(threading.Thread):
    """A step that computes until it is told to end, in a thread of its own."""

    def __init__(self, gate: Gate, tenant: str, *, busy: bool = True) -> None:
        super().__init__(daemon=True)
        self._gate, self._tenant, self._busy = gate, tenant, busy
        self.over = threading.Event()
        self.ready = threading.Event()
        self.ran = self.slept = 0.0
        self.ticket: Ticket | None = None
        self.start()
        assert self.ready.wait(5)

    def run(self) -> None:
        ticket = self.ticket = Ticket(self._gate, owner(self._tenant))
        self.ready.set()
        self.slept += self._gate.lengthen(ticket)
        while not self.over.is_set():
            since = time.monotonic()
            while self._busy and time.monotonic() - since < 0.002:
                pass
            self.ran += time.monotonic() - since
            self.slept += ticket.pace()
        self._gate.leave(ticket)

    def end(self) -> None:
        self.over.set()
        assert self.ticket is not None
        self.ticket.wake()
        self.join(5)
        assert not self.is_alive()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_only_so_many_run_at_once_and_owners_take_turns() -> None:
    gate = Gate(Usage(), lambda ticket: None, cores=1)
    steps = [Step(gate, "many") for _ in range(6)] + [Step(gate, "one")]
    began = time.monotonic()
    while time.monotonic() - began < 1:
        assert len(gate._holders) <= 2  # the second one: whoever has none gets one soon
        gate.tick()
        time.sleep(0.005)
    for step in steps:
        step.end()
    ran = [step.ran for step in steps]
    assert all(ran)
    assert ran[-1] > sum(ran) / 4  # half of it, but for the noise of the machine


def test_a_step_that_waits_is_woken_at_once_by_a_cancel() -> None:
    gate = Gate(Usage(), lambda ticket: None, cores=1)
    first = Step(gate, "a", busy=False)
    until(lambda: bool(gate._holders))
    assert first.ticket is not None
    first.ticket.until = float("inf")
    second = Step(gate, "a")
    until(lambda: bool(second.ticket and second.ticket.asleep))
    began = time.monotonic()
    second.end()
    assert time.monotonic() - began < 1
    first.end()
    assert not gate._holders
    assert not gate._held


def test_an_open_gate_lets_everybody_through() -> None:
    gate = Gate(Usage(), lambda ticket: None, cores=1)
    first = Step(gate, "a", busy=False)
    until(lambda: bool(gate._holders))
    assert first.ticket is not None
    first.ticket.until = float("inf")
    second = Step(gate, "a")
    until(lambda: bool(second.ticket and second.ticket.asleep))
    gate.open()
    until(lambda: second.ran > 0)
    first.end()
    second.end()


def test_a_short_step_needs_no_slot_and_a_long_one_says_so_once() -> None:
    told: list[Ticket] = []
    gate = Gate(Usage(), told.append, cores=1)
    ticket = Ticket(gate, owner("a"))
    assert ticket.pace() == 0
    assert not ticket.long
    until(lambda: bool(ticket.pace() or ticket.long))
    assert told == [ticket]
    assert ticket.holds
    gate.leave(ticket)
    assert not gate._holders


def test_the_owner_is_charged_for_holding_a_slot() -> None:
    usage = Usage()
    gate = Gate(usage, lambda ticket: None, cores=1)
    step = Step(gate, "a")
    until(lambda: step.ran > 0.05)
    step.end()
    assert 0.02 < usage.of("a") < 5


def test_whoever_waits_for_something_else_gives_its_slot_back() -> None:
    gate = Gate(Usage(), lambda ticket: None, cores=1)
    over = threading.Event()
    held: list[bool] = []

    def call() -> None:
        ticket = Ticket(gate, Owner(Principal("a", "t"), UUID(int=1)))
        gate.lengthen(ticket)
        ticket.pace(calling=True)
        over.wait(10)  # a program, a request
        held.append(ticket.holds)
        gate.leave(ticket)

    caller = threading.Thread(target=call)
    caller.start()
    until(lambda: bool(gate._holders))
    step = Step(gate, "a")
    deadline = time.monotonic() + 5
    while not step.ran and time.monotonic() < deadline:
        gate.tick()
        time.sleep(0.005)
    assert step.ran
    over.set()
    caller.join(5)
    step.end()
    assert held == [False]


def test_an_owner_without_a_slot_gets_one_soon_though_all_are_taken() -> None:
    gate = Gate(Usage(), lambda ticket: None, cores=1)
    first = Step(gate, "a", busy=False)
    until(lambda: bool(gate._holders))
    assert first.ticket is not None
    first.ticket.until = float("inf")  # as in a host call that computes for long
    again, other = Step(gate, "a"), Step(gate, "b")
    began = time.monotonic()
    while not other.ran and time.monotonic() - began < 5:
        gate.tick()
        time.sleep(0.01)
    assert time.monotonic() - began >= SOON_S / 2
    assert other.ran
    assert not again.ran
    for step in (again, other, first):
        step.end()


def test_a_step_that_is_cancelled_while_it_asks_for_a_slot_does_not_wait() -> None:
    gate = Gate(Usage(), lambda ticket: None, cores=1)
    holder = Step(gate, "holder", busy=False)
    until(lambda: holder.ticket is not None and holder.ticket.holds)
    ended = threading.Event()

    def ask() -> None:
        ticket = Ticket(gate, owner("other"))

        class CancelledMeanwhile(threading.Event):
            """The cancellation comes in the moment before the event is cleared."""

            def clear(self) -> None:
                ticket.wake()
                super().clear()

        ticket.wakes = CancelledMeanwhile()
        gate.lengthen(ticket)
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    assert ended.wait(5)
    holder.end()
