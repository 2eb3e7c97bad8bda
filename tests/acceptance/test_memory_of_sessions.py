"""Memory of sessions: no template allows more than the operator, and idle sessions hold only so much together."""

import asyncio

import pytest

from holdfast.domain import InvalidValue, Limits, LimitTooHigh
from holdfast.runtime import Settings
from tests.acceptance.scenes import opened, scene

LARGE = "globalThis.a = new Uint8Array({mb} << 20).fill(7); await ask('x'); 'end'"


@scene
async def test_no_template_has_a_limit_above_the_ceiling(durable: str) -> None:
    async with opened(durable) as hf:
        await hf.templates.create("before", limits=Limits(mem_mb=512))
        small, large = [(await hf.sessions.create("before")).id for _ in range(2)]
        await hf.executions.run(large, LARGE.format(mb=80))
    ceiling = {"mem_mb": 64, "max_output_kb": 1000}
    async with opened(durable, settings=Settings(limits_ceiling=ceiling)) as hf:
        for limits, told in ((Limits(mem_mb=65), "mem_mb is 65"), (Limits(mem_mb=64, max_output_kb=1001), "at most 1000")):
            with pytest.raises(LimitTooHigh, match=told):
                await hf.templates.create("above", limits=limits)
        await hf.templates.create("below", limits=Limits(mem_mb=64, max_output_kb=0))
        much = await hf.executions.run((await hf.sessions.create("below")).id, "console.log('x'.repeat(2e6))")
        assert much.execution.error is not None  # no limit is as much as the ceiling allows
        assert "1000" in much.execution.error["message"]
        with pytest.raises(InvalidValue, match="at most 64"):
            await hf.templates.set("below", limits={"mem_mb": 4095})
        await hf.templates.set("before", limits={"wall_ms": 4000})  # what it had may stay, and does not help
        turn = await hf.executions.run(small, "new Uint8Array(100 << 20).length")
        assert turn.execution.result is None
        turn = await hf.queries.answer(large, "on")
        assert turn.execution.result is not None  # it keeps what it has


@scene
async def test_idle_sessions_hold_only_so_much_together(address: str) -> None:
    async with opened(address, settings=Settings(resident_mb=24)) as hf:
        await hf.templates.create("t")
        sessions = [(await hf.sessions.create("t")).id for _ in range(5)]
        for session in sessions[:4]:
            await hf.executions.run(session, LARGE.format(mb=4))
        await asyncio.sleep(0.1)
        assert 1 <= (await hf.summary())["resident"] <= 2  # each of the last four holds 8 MB and more
        await hf.executions.run(sessions[4], LARGE.format(mb=16))
        await asyncio.sleep(0.1)
        assert (await hf.summary())["resident"] == 0  # one that is too large for all of it
        for session in (sessions[0], sessions[4]):
            assert (await hf.queries.answer(session, "on")).execution.result["json"] == "end"
