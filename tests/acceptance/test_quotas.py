"""Quotas of tenants and tokens: what all sessions of one use together, durable, and the same for every process of a store."""

import asyncio

import pytest

from holdfast import Holdfast
from holdfast.domain import HOUR_MS, InvalidValue, Limits, QuotaExceeded, Quotas
from holdfast.runtime import Settings
from tests.acceptance.scenes import evaluate, opened, scene, session
from tests.acceptance.test_usage import TIMERS, Clock


def bounded(address: str, clock: Clock | None = None, **quota: float) -> Holdfast:
    settings = Settings(quotas=Quotas.parse({"tenant": quota}), **({} if clock is None else {"clock": clock}))
    return opened(address, settings=settings)


@scene
async def test_sessions(address: str) -> None:
    async with bounded(address, sessions=3) as hf:
        made = [await session(hf) for _ in range(2)]
        with pytest.raises(QuotaExceeded) as refused:
            await hf.sessions.fork_many(made[0], 2)
        await hf.sessions.fork(made[0])
        with pytest.raises(QuotaExceeded) as refused:
            await session(hf)
        expected = {"quota": "sessions", "scope": "tenant", "limit": 3, "used": 3}
        assert (refused.value.details, refused.value.retry_after) == (expected, None)
        outcomes = await asyncio.gather(*[hf.sessions.create("javascript") for _ in range(5)], return_exceptions=True)
        assert all(isinstance(outcome, QuotaExceeded) for outcome in outcomes)
        await hf.sessions.close(made[1])
        await hf.sessions.delete(made[1])
        assert (await hf.sessions.get(await session(hf))).state == "ready"


@scene
async def test_what_is_stored(address: str) -> None:
    async with bounded(address, events=40) as hf:
        here = await session(hf)
        await evaluate(hf, here, "for (let i = 0; i < 50; i++) console.log(i)")
        for _ in range(2):  # also when it was read a moment ago
            with pytest.raises(QuotaExceeded) as refused:
                await evaluate(hf, here, "1")
        assert refused.value.details["quota"] == "events"
        assert refused.value.details["used"] >= 50
        with pytest.raises(QuotaExceeded):
            await session(hf)
        await hf.sessions.close(here)
        await hf.sessions.delete(here)
        assert await evaluate(hf, await session(hf), "1") == 1


RANDOM = "globalThis.a = new Uint32Array(2e6); let x = 1; for (let i = 0; i < 2e6; i++) a[i] = x = x * 48271 % 2147483647; "


@scene
async def test_a_step_that_would_store_too_much_is_rolled_back(address: str) -> None:
    async with bounded(address, mb=2) as hf:
        here = await session(hf, limits=Limits(cpu_ms=20_000, wall_ms=30_000, max_output_kb=60_000))
        await evaluate(hf, here, "globalThis.kept = 1")
        for source in (RANDOM + "1", RANDOM + "await ask('x')", "await ask('x'.repeat(4e6))", "console.log('x'.repeat(4e6))"):
            turn = await hf.executions.run(here, source)
            assert (turn.execution.status, turn.execution.error["code"]) == ("error", "QUOTA_EXCEEDED"), source[:30]
            assert turn.execution.error["quota"] == "mb"
        assert await evaluate(hf, here, "[kept, typeof a]") == [1, "undefined"]
        assert (await hf.sessions.get(here)).usage.stored_bytes < 2 << 20
        turn = await hf.executions.run(here, "await ask('?'); " + RANDOM)  # which was paused in between
        turn = await hf.queries.answer(here, "on")
        assert turn.execution.error["code"] == "QUOTA_EXCEEDED"
        assert await evaluate(hf, here, "typeof a") == "undefined"


@scene
async def test_cpu_time_of_an_hour_is_durable_and_shared(durable: str) -> None:
    address = durable
    clock = Clock()
    async with bounded(address, clock, cpu_s_per_hour=0.2) as hf, bounded(address, clock, cpu_s_per_hour=0.2) as other:
        here, there = await session(hf), await session(other)
        waiting = await session(hf)
        asked = await hf.executions.run(waiting, "await ask('?'); 'end'")
        await evaluate(hf, here, "let n = 0; for (let i = 0; i < 8e6; i++) n += i; 1")
        with pytest.raises(QuotaExceeded) as refused:
            await evaluate(hf, here, "1")
        assert refused.value.details["quota"] == "cpu_s_per_hour"
        assert 3500 < (refused.value.retry_after or 0) <= 3600
        with pytest.raises(QuotaExceeded):
            await hf.queries.answer(waiting, "now")
        await asyncio.sleep(1.1)
        with pytest.raises(QuotaExceeded):
            await evaluate(other, there, "1")
    async with bounded(address, clock, cpu_s_per_hour=0.2) as hf:
        with pytest.raises(QuotaExceeded):
            await evaluate(hf, here, "1")
        clock.ahead += HOUR_MS
        turn = await hf.queries.answer(waiting, "now")
        assert (turn.execution.id, turn.execution.result) == (
            asked.execution.id,
            {"type": "string", "preview": "end", "json": "end"},
        )


@scene
async def test_a_timer_loop_waits_for_its_tenant(address: str) -> None:
    async with bounded(address, events=30) as hf:
        here = await session(hf)
        turn = await hf.executions.run(here, TIMERS["javascript"], background=True)
        for _ in range(1000):
            found = await hf.sessions.get(here)
            if found.wake_at is not None and found.wake_at > found.updated_at + 50_000:
                break
            await asyncio.sleep(0.01)
        assert found.state == "paused"
        assert found.usage.stored_events <= 40
        told = [e.payload for e in await hf.executions.events(turn.execution.id) if e.payload.get("code") == "QUOTA_EXCEEDED"]
        assert told[0]["quota"] == "events"


@scene
async def test_executions_at_a_time(address: str) -> None:
    async with bounded(address, executions=2) as hf:
        made = [await session(hf) for _ in range(3)]
        running = [await hf.executions.run(one, "for (;;);", background=True) for one in made[:2]]
        with pytest.raises(QuotaExceeded) as refused:
            await hf.executions.run(made[2], "1", background=True)
        expected = {"quota": "executions", "scope": "tenant", "limit": 2, "used": 2, "retry_after": 1}
        assert refused.value.details == expected
        for turn in running:
            await hf.executions.cancel(turn.execution.id)
        assert await evaluate(hf, made[2], "1") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tenants": {"a": {"session": 1}}}, "there is no quota 'session'"),
        ({"tokens": []}, "quotas.tokens is a table"),
        ({"all": {}}, "quotas have no 'all'"),
        ({"token": {"events": 1.5}}, "quota events must be a whole number"),
        ({"tenant": {"mb": -1}}, "quota mb must be a number"),
    ],
)
def test_quotas_that_make_no_sense(given: object, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        Quotas.parse(given)
