"""Fair scheduling, from outside: what waits is not charged for it, can be stopped, and is told why; native calls are shared by owner."""

import asyncio
import threading
import time
from typing import Any
from uuid import UUID

import pytest

from holdfast import Holdfast, Limits
from holdfast.domain import ExecutionStatus, Principal
from holdfast.runtime import workers
from holdfast.runtime.fair import Owner
from holdfast.runtime.threads import Threads
from holdfast.sandbox import Engine, Finished

BUSY = "let n = 0; for (let i = 0; i < 1e6; i++) n += i; n"
LOOP = "for (;;) ;"


class Sleepy:
    """A pacer that lets a step wait for longer than its wall time when it is first asked."""

    def __init__(self) -> None:
        self.asked = 0

    def pace(self, *, calling: bool = False, long: bool = False) -> float:
        self.asked += 1
        if self.asked > 1:
            return 0.0
        began = time.monotonic()
        time.sleep(3.2)
        return time.monotonic() - began

    def computing(self) -> None:
        raise AssertionError("nothing is called")

    def returned(self) -> None:
        raise AssertionError("nothing is called")

    def wake(self) -> None:
        raise AssertionError("nobody cancels this")


def test_waiting_for_a_turn_is_not_wall_time() -> None:
    with Engine() as engine:
        template = engine.guest("javascript").template()
        with template.create(limits=Limits(wall_ms=3000, cpu_ms=0)) as sandbox:
            pacer = sandbox.pacer = Sleepy()
            outcome = sandbox.evaluate(BUSY.replace("1e6", "5e6"))
            assert isinstance(outcome, Finished), outcome
            assert pacer.asked


def test_a_script_that_waits_for_its_turn_can_be_cancelled() -> None:
    """However many scripts run and wait, before their first instruction or in the middle, each is stopped soon."""

    async def scene() -> None:
        async with Holdfast.open("memory:") as hf:
            await hf.templates.create("t", limits=Limits(wall_ms=0, cpu_ms=0))
            sessions = [(await hf.sessions.create("t")).id for _ in range(40)]
            turns = [await hf.executions.run(session, LOOP, background=True) for session in sessions]
            await asyncio.sleep(0.5)
            began = time.monotonic()
            await asyncio.gather(*(hf.executions.cancel(turn.execution.id) for turn in turns))
            assert time.monotonic() - began < 20
            for turn in turns:
                assert (await hf.executions.get(turn.execution.id)).status is ExecutionStatus.CANCELLED
            value = await hf.executions.run(sessions[0], "1 + 1")
            assert value.execution.result is not None
            assert value.execution.result["preview"] == "2"

    asyncio.run(scene())


def test_short_scripts_go_on_beside_many_long_ones() -> None:

    async def scene() -> None:
        async with Holdfast.open("memory:") as hf:
            await hf.templates.create("t", limits=Limits(wall_ms=0, cpu_ms=0))
            sessions = [(await hf.sessions.create("t")).id for _ in range(100)]
            polite = (await hf.sessions.create("t")).id
            turns = [await hf.executions.run(session, LOOP, background=True) for session in sessions]
            for _ in range(20):
                turn = await asyncio.wait_for(hf.executions.run(polite, "1 + 1"), 20)
                assert turn.execution.status is ExecutionStatus.OK
            await asyncio.gather(*(hf.executions.cancel(turn.execution.id) for turn in turns))

    asyncio.run(scene())


def test_a_process_ends_soon_though_many_scripts_wait_for_their_turn() -> None:

    async def scene() -> None:
        async with Holdfast.open("memory:") as hf:
            await hf.templates.create("t", limits=Limits(wall_ms=0, cpu_ms=0))
            for _ in range(30):
                await hf.executions.run((await hf.sessions.create("t")).id, LOOP, background=True)
            began = time.monotonic()
        assert time.monotonic() - began < 20

    asyncio.run(scene())


def test_a_noisy_owner_is_told_why_it_is_slow_and_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:

    async def scene() -> None:
        monkeypatch.setattr(workers, "_TELL_S", 0.05)
        async with Holdfast.open("memory:") as hf:
            await hf.templates.create("t", limits=Limits(wall_ms=0, cpu_ms=0))
            sessions = [(await hf.sessions.create("t")).id for _ in range(10)]
            told: list[Any] = []
            for _ in range(2):
                turns = await asyncio.gather(*(hf.executions.run(session, BUSY) for session in sessions))
                for turn in turns:
                    events = await hf.executions.events(turn.execution.id)
                    told += [(turn.session.id, event.payload) for event in events if event.payload.get("code") == "SLOWED_DOWN"]
            assert told
            assert len({session for session, _ in told}) == len(told)  # each at most once
            for _, payload in told:
                assert payload["level"] == "warn"
                assert payload["waited_ms"] >= 50

    asyncio.run(scene())


def test_native_calls_are_shared_by_owner() -> None:
    """An owner that fills its part leaves room for others, and one that has none gets a thread though all are taken."""

    async def scene() -> None:
        threads = Threads(8, "test")
        gate = threading.Event()
        running: list[str] = []
        lock = threading.Lock()

        def work(tenant: str) -> str:
            with lock:
                running.append(tenant)
            gate.wait(10)
            return tenant

        def call(tenant: str, session: int) -> "asyncio.Future[str]":
            return threads.call(lambda: work(tenant), Owner(Principal(tenant), UUID(int=session)))

        async def settle(count: int) -> None:
            for _ in range(500):
                if len(running) >= count:
                    break
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)

        calls = [call("noisy", session) for session in range(100)]
        await settle(4)
        assert running == ["noisy"] * 4
        calls += [call(f"other-{number}", 1) for number in range(8)]
        await settle(12)
        assert len([one for one in running if one != "noisy"]) == 8
        gate.set()
        assert sorted(await asyncio.gather(*calls)) == sorted(running)
        threads.close()

    asyncio.run(scene())
