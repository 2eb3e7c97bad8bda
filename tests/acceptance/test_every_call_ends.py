"""Every call comes to an end, and to the right one: whatever else goes on, goes wrong, or is closed meanwhile."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from holdfast import Budget, EffectKind, Function, Holdfast, HoldfastError, Limits, Settings, SourceFile
from tests.acceptance.scenes import evaluate, grants, opened, refused, scene, session, template, value

COUNT = "let n = 0; for (let i = 0; i < {}; i++) n += i; n"


@scene
async def test_a_commit_does_not_wait_for_company_that_never_comes(address: str) -> None:
    """The last job of a burst has nothing to write; those before it still become durable."""
    async with opened(address) as hf:
        first, second, answered = [await session(hf) for _ in range(3)]
        await hf.executions.run(answered, "await ask('?')")
        await hf.queries.answer(answered, "x", query="q-1")
        for _ in range(10):
            calls = (
                hf.executions.run(first, COUNT.format(30_000).replace("let n", "var n")),
                hf.executions.run(second, "1"),
                hf.queries.answer(answered, "x", query="q-1"),
            )
            async with asyncio.timeout(10):
                await asyncio.gather(*calls)


@scene
async def test_what_runs_while_holdfast_is_closed_comes_to_its_end(address: str) -> None:
    paid: list[int] = []
    functions = [Function("shop.pay", paid.append)]
    async with opened(address, functions=functions) as hf:
        here = await session(hf, capabilities=grants(functions))
        running = asyncio.ensure_future(hf.executions.run(here, "hf.call('shop.pay', 1); " + COUNT.format(300_000)))
        while not paid:
            await asyncio.sleep(0.001)
    turn = await asyncio.wait_for(running, 10)
    assert (turn.execution.status, paid) == ("ok", [1])
    async with opened(address, functions=functions) as hf:
        assert (await hf.executions.get(turn.execution.id)).result == turn.execution.result
        assert (await hf.sessions.get(here)).state == "ready"
    assert paid == [1]


@scene
async def test_effects_under_an_idempotency_key(address: str) -> None:
    paid: list[int] = []
    functions = [Function("shop.pay", paid.append)]
    async with opened(address, functions=functions) as hf:
        here = await session(hf, capabilities=grants(functions))
        source = (
            "hf.call('shop.pay', 1); hf.call('shop.pay', 2); await ask('?'); hf.call('shop.pay', 3); hf.call('shop.pay', 4); 5"
        )
        for _ in range(2):
            await hf.executions.run(here, source, idempotency_key="run")
        assert paid == [1, 2]
        for _ in range(2):
            assert value(await hf.queries.answer(here, "x", query="q-1", idempotency_key="answer")) == 5
        assert paid == [1, 2, 3, 4]
        turn = await hf.executions.run(here, "hf.call('shop.pay', 6)", background=True, idempotency_key="background")
        assert (await hf.executions.wait(turn.execution.id)).execution.status == "ok"
        slow = COUNT.format(2_000_000) + "; hf.call('shop.pay', 7)"
        assert (await hf.executions.run(here, slow, idempotency_key="slow")).execution.status == "ok"
        assert paid == [1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_function_may_raise_what_it_likes(raised: type[BaseException]) -> None:
    def fail() -> None:
        raise raised

    @scene
    async def test() -> None:
        functions = [Function("host.fail", fail)]
        async with opened("memory:", functions=functions) as hf:
            here = await session(hf, capabilities=grants(functions))
            turn = await hf.executions.run(here, "hf.call('host.fail')")
            assert turn.execution.error is not None
            assert turn.execution.error["code"] == "HOST_FAILED"
            assert await evaluate(hf, here, "1 + 1") == 2

    test()


@scene
async def test_cancelling_one_execution_leaves_the_next_alone(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, limits=Limits(wall_ms=0, cpu_ms=0))
        turn = await hf.executions.run(here, "for (;;) {}", background=True)
        assert hf._runtime.cancel(here, uuid4()) is None
        await asyncio.sleep(0.05)
        assert (await hf.executions.get(turn.execution.id)).status == "running"
        assert (await hf.executions.cancel(turn.execution.id)).status == "cancelled"


@scene
async def test_time_that_a_step_takes_counts(address: str) -> None:
    functions = [Function("host.sleep", lambda: time.sleep(0.3))]
    async with opened(address, functions=functions) as hf:
        here = await session(hf, capabilities=grants(functions))
        done = (await hf.executions.run(here, "hf.call('host.sleep')")).execution
        assert done.ended_at is not None
        assert done.metrics.elapsed_ms == done.ended_at - done.started_at >= 300
        source = "let why; hf.call('host.sleep'); try { await llm('x') } catch (e) { why = e.code } why"
        turn = await hf.executions.run(here, source, budget=Budget(max_elapsed_ms=200))
        assert value(turn) == "BUDGET_EXCEEDED"
        times = [event.ts for event in await hf.executions.events(turn.execution.id)]
        assert times == sorted(times)
        assert times[-1] - times[0] >= 300


@scene
async def test_an_answer_that_was_given_before_is_in_nobodys_way(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf)
        await hf.executions.run(here, "await ask('?')")
        await hf.queries.answer(here, "x", query="q-1")
        for n in range(20):
            again, turn = await asyncio.gather(hf.queries.answer(here, "x", query="q-1"), hf.executions.run(here, str(n)))
            assert (again.execution.status, value(turn)) == ("ok", n)


@scene
async def test_closing_waits_without_turning_round(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose caller has gone is still inside a function that cannot be stopped."""
    inside, go_on = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        go_on.wait(10)

    functions = [Function("host.block", block)]
    async with opened(address, functions=functions) as hf:
        here = await session(hf, capabilities=grants(functions))
        running = asyncio.ensure_future(hf.executions.run(here, "hf.call('host.block')"))
        await asyncio.to_thread(inside.wait, 10)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        turns = _counted(monkeypatch)
        closing = asyncio.ensure_future(hf.sessions.close(here))
        await asyncio.sleep(0.2)
        assert not closing.done()
        assert turns() < 10
        go_on.set()
        assert (await closing).state == "closed"


def _counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often `asyncio.wait` was called since."""
    calls, wait = [0], asyncio.wait

    async def counted(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        return await wait(*args, **options)

    monkeypatch.setattr(asyncio, "wait", counted)
    return lambda: calls[0]


# ---- another process ---------------------------------------------------------------------------------------------------------------

QUICK = Settings(lease_ms=900)


async def _two(address: str) -> tuple[Holdfast, Holdfast, Any]:
    """Two who share a store, as two processes would, and a session."""
    one, other = opened(address, settings=QUICK), opened(address, settings=QUICK)
    await one.__aenter__()
    await other.__aenter__()
    await template(one, "javascript", "t", limits=Limits(wall_ms=0, cpu_ms=0))
    return one, other, (await one.sessions.create("t")).id


@scene
async def test_waiting_for_a_session_that_runs_elsewhere(durable: str) -> None:
    one, other, here = await _two(durable)
    running = await one.executions.run(here, COUNT.format(6_000_000), background=True)
    with refused("SESSION_BUSY"):
        await other.executions.run(here, "1")
    waited = await other.executions.run(here, "n + 1", wait=True)
    ended = (await one.executions.get(running.execution.id)).result
    assert ended is not None
    assert value(waited) == ended["json"] + 1
    await other.__aexit__(None, None, None)
    await one.__aexit__(None, None, None)


@scene
async def test_waiting_for_a_session_that_is_deleted_elsewhere(durable: str) -> None:
    one, other, here = await _two(durable)
    await one.executions.run(here, "await ask('?')")
    waiting = [asyncio.ensure_future(other.executions.run(here, "1", wait=True)) for _ in range(3)]
    await asyncio.sleep(0.1)
    await one.sessions.delete(here)
    for waits in waiting:
        with pytest.raises(HoldfastError) as refusal:
            await asyncio.wait_for(waits, 20)
        assert refusal.value.code in ("SESSION_NOT_READY", "SESSION_NOT_FOUND")  # it is closed before it goes away
    await other.__aexit__(None, None, None)
    await one.__aexit__(None, None, None)


@scene
async def test_the_same_request_waits_for_the_one_that_runs_elsewhere(durable: str) -> None:
    one, other, here = await _two(durable)
    first = asyncio.ensure_future(one.executions.run(here, COUNT.format(6_000_000), idempotency_key="k"))
    while not (await other.executions.list(here)).items:  # until it is known that it runs
        await asyncio.sleep(0.02)
    again = await other.executions.run(here, COUNT.format(6_000_000), idempotency_key="k")
    assert (await first).execution.result == again.execution.result is not None
    await other.__aexit__(None, None, None)
    await one.__aexit__(None, None, None)


@scene
async def test_a_session_s_name_can_be_shown() -> None:
    async with opened("memory:") as hf:
        here = await session(hf, "javascript")
        for odd in ("", "  ", "a\0b", "\ud800", "x" * 10_000, 5):
            with refused("VALIDATION_ERROR"):
                await hf.sessions.fork(here, name=odd)  # type: ignore[arg-type]
        assert (await hf.sessions.fork(here, name="Zoë's")).name == "Zoë's"


@pytest.mark.parametrize("bad", [None, 5.5, b"x", object(), ["x"]])
def test_what_is_no_id_is_refused(bad: Any) -> None:
    deep: Any = bad
    for _ in range(10_000):
        deep = [deep]

    @scene
    async def test() -> None:
        async with opened("memory:") as hf:
            for odd in (bad, deep):
                for call in (hf.sessions.get, hf.executions.get, hf.sessions.close):
                    with refused("VALIDATION_ERROR"):
                        await call(odd)
            with refused("VALIDATION_ERROR"):
                await hf.queries.get(uuid4(), deep)

    test()


# ---- what cannot be thawed any more ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["paused", "ready"])
@pytest.mark.parametrize("missing", ["image", "baked memory"])
@scene
async def test_what_cannot_be_thawed_can_be_closed_and_deleted(sqlite: str, missing: str, state: str) -> None:
    async with opened(sqlite) as hf:
        name = await template(hf, "javascript", "t", libraries=[SourceFile("a.js", "var lib = 1")])
        here = (await hf.sessions.create(name)).id
        await hf.executions.run(here, "await ask('?')" if state == "paused" else "var x = 1")
    with contextlib.closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as connection:
        if missing == "image":
            connection.execute("UPDATE steps SET sealed = zeroblob(length(sealed))")
        else:
            connection.execute("DELETE FROM blobs WHERE digest IN (SELECT baked FROM template_versions)")
        connection.commit()
    async with opened(sqlite) as hf:
        with refused("STORE_DAMAGED"):
            await (hf.queries.answer(here, "x") if state == "paused" else hf.executions.run(here, "x"))
        assert (await hf.sessions.get(here)).state == state
        assert (await hf.sessions.close(here)).state == "closed"
        await hf.sessions.delete(here)
        assert not (await hf.sessions.list()).items


# ---- closing and taking over -------------------------------------------------------------------------------------------------------


@scene
async def test_closing_while_many_scripts_are_slow(sqlite: str) -> None:
    for _ in range(6):
        async with opened(sqlite, settings=Settings(grace_ms=0)) as hf:
            await template(hf, "javascript", "t", limits=Limits(wall_ms=0, cpu_ms=0))
            sessions = [(await hf.sessions.create("t")).id for _ in range(12)]
            running = [asyncio.ensure_future(hf.executions.run(here, "for (;;) {}")) for here in sessions]
            await asyncio.sleep(0.05)
        for turn in running:
            with refused("CLOSED"):
                await turn
        assert not [thread for thread in threading.enumerate() if thread.name == "holdfast-worker"]


@scene
async def test_the_lease_is_kept_while_what_runs_comes_to_its_end(durable: str) -> None:
    called: list[float] = []

    def slow() -> str:
        called.append(time.monotonic())
        time.sleep(1.5)
        return "done"

    functions = [Function("host.slow", slow, EffectKind.IDEMPOTENT)]
    settings = Settings(lease_ms=600, grace_ms=10_000)
    async with opened(durable, functions=functions, settings=settings):
        async with opened(durable, functions=functions, settings=settings) as hf:
            here = await session(hf, capabilities=grants(functions))
            running = asyncio.ensure_future(hf.executions.run(here, "hf.call('host.slow')"))
            await asyncio.sleep(0.2)
        assert value(await running) == "done"
    assert len(called) == 1


@scene
async def test_what_waits_to_be_recovered_can_be_stopped(sqlite: str) -> None:
    settings = Settings(grace_ms=0)
    async with opened(sqlite, settings=settings) as hf:
        await template(hf, "javascript", "t", limits=Limits(wall_ms=0, cpu_ms=0))
        sessions = [(await hf.sessions.create("t")).id for _ in range(7)]
        turns = [await hf.executions.run(here, "for (;;) {}", background=True) for here in sessions]
    async with opened(sqlite, settings=settings) as hf:
        ends = [hf.sessions.close(here) for here in sessions[::2]]
        ends += [hf.executions.cancel(turn.execution.id) for turn in turns[1::2]]
        await asyncio.wait_for(asyncio.gather(*ends), 30)
        for turn in turns:
            assert (await hf.executions.get(turn.execution.id)).status == "cancelled"


@scene
async def test_one_key_in_two_processes_runs_a_script_once_or_twice(durable: str) -> None:
    """Whoever comes second may have begun before it could know; it does not try again."""
    called: list[int] = []

    def count() -> None:
        called.append(1)
        time.sleep(0.05)

    functions = [Function("host.count", count, EffectKind.IDEMPOTENT)]
    async with opened(durable, functions=functions) as one, opened(durable, functions=functions) as other:
        for n in range(3):
            here = await session(one, capabilities=grants(functions))
            called.clear()
            calls = [hf.executions.run(here, "hf.call('host.count')", idempotency_key=f"k{n}") for hf in (one, other)]
            first, second = await asyncio.gather(*calls)
            assert first.execution.id == second.execution.id
            assert len(called) <= 2


@scene
async def test_opening_does_not_wait_for_the_applications_threads(sqlite: str) -> None:
    loop, go_on = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    taken = loop.run_in_executor(None, go_on.wait, 20)
    async with asyncio.timeout(15):
        async with opened(sqlite) as hf:
            here = await session(hf)
            assert await evaluate(hf, here, "1") == 1
    assert not taken.done()
    go_on.set()
    await taken
