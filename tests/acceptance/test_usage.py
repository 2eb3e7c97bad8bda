"""Limits over time: a script that wakes itself up, forks or uses tools cannot avoid them, and nothing is lost."""

import asyncio
import contextlib
import time

import pytest

from holdfast import Capability, Holdfast, HoldfastError, Limits, Tool
from holdfast.domain import HOUR_MS, UsageExceeded
from holdfast.runtime import Settings
from tests.acceptance.scenes import both, evaluate, grants, opened, scene, session

TIMERS = {
    "javascript": "n = 0; for (;;) { n++; await hf.sleep(1) }",
    "lua": "n = 0 while true do n = n + 1 alc.sleep(1) end",
}
ASKS = {"javascript": "n = 0; for (;;) { n++; await ask('?') }", "lua": "n = 0 while true do n = n + 1 alc.ask('?') end"}
COUNT = {"javascript": "n", "lua": "return n"}
IN_TOTAL = [{"max_execution_steps": 5}, {"max_session_steps": 6}, {"max_execution_events": 9}]


class Clock:
    """A clock that can be set forward. It begins shortly after an hour has."""

    def __init__(self) -> None:
        self.ahead = 1_800_000_000_000 // HOUR_MS * HOUR_MS + 1000 - time.monotonic() * 1000

    def __call__(self) -> float:
        return time.monotonic() * 1000 + self.ahead


@pytest.mark.parametrize("limits", IN_TOTAL, ids=lambda limits: next(iter(limits)))
@both
@scene
async def test_a_timer_loop_ends_at_a_limit_in_total(address: str, language: str, limits: dict[str, int]) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(**limits))
        await evaluate(hf, here, {"javascript": "var n = 7", "lua": "n = 7"}[language])
        turn = await hf.executions.run(here, TIMERS[language], background=True)
        turn = await hf.executions.wait(turn.execution.id, timeout=10)
        error = turn.execution.error
        assert turn.execution.status == "error"
        assert error is not None
        assert (error["code"], error["limit"], error["allowed"]) == ("LIMIT_EXCEEDED", *next(iter(limits.items())))
        assert error["actual"] >= error["allowed"]
        if "max_session_steps" in limits:
            with pytest.raises(UsageExceeded) as refused:
                await evaluate(hf, here, COUNT[language])
            assert refused.value.details["limit"] == "max_session_steps"
            assert refused.value.retry_after is None
        else:
            assert await evaluate(hf, here, COUNT[language]) >= 3
        assert (await hf.sessions.get(here)).usage.total.steps >= 5


@both
@scene
async def test_an_hour_that_is_used_up_delays_timers_and_refuses_calls(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language, limits=Limits(max_steps_per_hour=5))
        other = await session(hf, language)
        turn = await hf.executions.run(here, TIMERS[language], background=True)
        while (found := await hf.sessions.get(here)).usage.hourly.steps < 5:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        found = await hf.sessions.get(here)
        ends = (int(clock()) // HOUR_MS + 1) * HOUR_MS
        assert (found.state, found.usage.hourly.steps, found.wake_at) == ("paused", 5, ends)
        events = await hf.executions.events(turn.execution.id)
        told = [event.payload for event in events if event.payload.get("code") == "USAGE_EXCEEDED"]
        assert [(one["limit"], one["available_at"]) for one in told] == [("max_steps_per_hour", ends)]
        assert await evaluate(hf, other, {"javascript": "1", "lua": "return 1"}[language]) == 1
        clock.ahead += HOUR_MS
        while (found := await hf.sessions.get(here)).usage.total.steps < 10:
            await asyncio.sleep(0.01)
        assert found.usage.hourly.steps == 5
        await hf.executions.cancel(turn.execution.id)


@both
@scene
async def test_answers_come_again_when_the_hour_is_over(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language, limits=Limits(max_steps_per_hour=3))
        await hf.executions.run(here, ASKS[language])
        for _ in range(2):
            await hf.queries.answer(here, "yes")
        with pytest.raises(UsageExceeded) as refused:
            await hf.queries.answer(here, "yes")
        assert refused.value.details | {"available_at": 0, "retry_after": 0} == {
            "limit": "max_steps_per_hour", "allowed": 3, "actual": 3, "available_at": 0, "retry_after": 0
        }  # fmt: skip
        assert 3500 < (refused.value.retry_after or 0) <= 3600
        clock.ahead += HOUR_MS
        turn = await hf.queries.answer(here, "yes")
        assert turn.execution.status == "paused"
        await hf.executions.cancel(turn.execution.id)
        assert await evaluate(hf, here, COUNT[language]) == 4


@scene
async def test_code_that_is_kept_counts_as_stored(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, limits=Limits(max_mb_per_hour=1))
        await hf.executions.run_file(here, f"/* {'x' * 1_100_000} */ 1", "large.js")
        found = await hf.sessions.get(here)
        assert found.usage.stored_bytes == found.usage.total.bytes > 1_100_000
        with pytest.raises(UsageExceeded):
            await evaluate(hf, here, "1")


@scene
async def test_what_is_written_to_the_state_counts_by_the_hour(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, limits=Limits(max_mb_per_hour=1), capabilities=[Capability("module", "state")])
        await evaluate(hf, here, "for (let n = 0; n < 30; n++) require('state').set('k' + n, 'x'.repeat(50_000))")
        usage = (await hf.sessions.get(here)).usage
        assert usage.total.bytes - usage.stored_bytes > 1_500_000
        with pytest.raises(UsageExceeded):
            await evaluate(hf, here, "1")


@scene
async def test_tools_of_the_host_wait_for_the_next_hour(address: str) -> None:
    clock, calls = Clock(), 0

    async def work(args: object) -> int:
        nonlocal calls
        calls += 1
        return calls

    tools = [Tool("work", work)]
    async with opened(address, settings=Settings(clock=clock), tools=tools) as hf:
        here = await session(hf, capabilities=grants(tools=tools), limits=Limits(max_steps_per_hour=4))
        await hf.executions.run(here, "for (;;) await hf.tool('work', 1)", background=True)
        while (await hf.sessions.get(here)).usage.hourly.steps < 4:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert (calls, (await hf.sessions.get(here)).usage.hourly.steps) == (3, 4)
        clock.ahead += HOUR_MS
        while (await hf.sessions.get(here)).usage.total.steps < 8:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert (await hf.sessions.get(here)).usage.hourly.steps == 4


@scene
async def test_forks_share_one_allowance(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "javascript", limits=Limits(max_steps_per_hour=20))
        await hf.executions.run(here, ASKS["javascript"])
        forks = await hf.sessions.fork_many(here, 10)
        done = 0
        with contextlib.suppress(UsageExceeded):
            for _ in range(20):
                for fork in forks:
                    await hf.queries.answer(fork.id, "yes")
                    done += 1
                await asyncio.sleep(0.4)  # what was read of a family is taken for the present for a second
        assert 19 <= done <= 60
        with pytest.raises(UsageExceeded):
            await hf.queries.answer(forks[0].id, "yes")


@scene
async def test_bounds_of_the_host_hold_for_all_templates(address: str) -> None:
    async with opened(address, settings=Settings(usage_limits={"max_execution_steps": 4})) as hf:
        here = await session(hf, "javascript", limits=Limits(max_execution_steps=0))
        turn = await hf.executions.run(here, TIMERS["javascript"], background=True)
        turn = await hf.executions.wait(turn.execution.id, timeout=10)
        assert turn.execution.error is not None
        assert turn.execution.error["limit"] == "max_execution_steps"
    with pytest.raises(HoldfastError, match="usage_limits has no 'max_steps'"):
        Holdfast.open("memory:", settings=Settings(usage_limits={"max_steps": 4}))
