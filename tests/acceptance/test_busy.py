"""One execution at a time in a session, and no session in another's way."""

import asyncio
import threading
import time

from holdfast import Holdfast, HoldfastError, Limits, Settings
from holdfast.runtime.jobs import Wake
from holdfast.store import Commit, open_store
from tests.acceptance.scenes import both, evaluate, opened, refused, scene, session, template, value

FOREVER = {"javascript": "for (;;) {}", "lua": "while true do end"}
ASK = {"javascript": "await ask('?')", "lua": "return alc.ask('?')"}


@both
@scene
async def test_a_second_caller_hears_that_it_is_busy(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=400))
        running = asyncio.ensure_future(hf.executions.run(here, FOREVER[language]))
        await asyncio.sleep(0.05)
        with refused("SESSION_BUSY"):
            await hf.executions.run(here, "1")
        assert not running.done()  # it does not wait to hear so
        assert (await running).execution.status == "timeout"
        await hf.executions.run(here, ASK[language])
        with refused("SESSION_BUSY") as busy:
            await hf.executions.run(here, "1")
        assert "paused" in str(busy.error)
        assert value(await hf.queries.answer(here, "x")) == "x"


@scene
async def test_whoever_sees_the_end_in_the_store_may_go_on() -> None:
    """Others can see a commit before the process that made it has heard that it is done."""
    store = open_store("memory:")
    written, told = threading.Event(), threading.Event()
    commit = store.commit

    def slow_to_tell(commits: list[Commit]) -> list[HoldfastError | None]:
        outcome = commit(commits)
        if written.is_set() or not commits[0].executions + commits[0].new_executions:
            return outcome
        written.set()
        told.wait(10)
        return outcome

    async with Holdfast.open(store) as hf:
        here = await session(hf, "javascript")
        store.commit = slow_to_tell  # type: ignore[method-assign]
        first = asyncio.ensure_future(hf.executions.run(here, "let x = 1"))
        await asyncio.to_thread(written.wait, 10)
        assert (await hf.sessions.get(here)).state == "ready"
        second = asyncio.ensure_future(hf.executions.run(here, "x + 1"))
        await asyncio.sleep(0.05)
        assert not first.done()
        told.set()
        assert value(await second) == 2


@both
@scene
async def test_those_who_wait_come_in_order(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        note = {
            "javascript": "globalThis.order = (globalThis.order || []).concat({}); order.join()",
            "lua": "order = order and order .. ',' .. {0} or '{0}' return order",
        }[language]
        asks = {"javascript": "await ask('a')", "lua": "return alc.ask('a')"}[language]
        await hf.executions.run(here, asks)
        waiting = [
            asyncio.ensure_future(hf.executions.run(here, note.replace("{0}", str(n)).replace("{}", str(n)), wait=True))
            for n in range(3)
        ]
        await asyncio.sleep(0.05)
        answered = asyncio.ensure_future(hf.queries.answer(here, 1))
        await asyncio.sleep(0)  # the answer is on its way, and those who come now are last
        waiting += [
            asyncio.ensure_future(hf.executions.run(here, note.replace("{0}", str(n)).replace("{}", str(n)), wait=True))
            for n in range(3, 6)
        ]
        await answered
        turns = await asyncio.gather(*waiting)
        assert [value(turn) for turn in turns] == ["0", "0,1", "0,1,2", "0,1,2,3", "0,1,2,3,4", "0,1,2,3,4,5"]
        assert (await hf.summary())["waiting"] == 0


@both
@scene
async def test_those_who_wait_hear_when_the_session_is_closed(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, ASK[language])
        waiting = [asyncio.ensure_future(hf.executions.run(here, "1", wait=True)) for _ in range(3)]
        await asyncio.sleep(0.05)
        await hf.sessions.close(here)
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [getattr(outcome, "code", None) for outcome in outcomes] == ["SESSION_NOT_READY"] * 3


@both
@scene
async def test_who_gave_up_waiting_does_not_run_later(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, ASK[language])
        waiting = asyncio.ensure_future(hf.executions.run(here, "late = 1", wait=True))
        patient = asyncio.ensure_future(
            hf.executions.run(here, {"javascript": "typeof late", "lua": "return type(late)"}[language], wait=True)
        )
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.sleep(0)
        await hf.queries.answer(here, "x")
        assert value(await patient) in ("undefined", "nil")


@scene
async def test_waiting_for_a_session_that_pauses_again(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "lua")
        await hf.executions.run(here, ASK["lua"])
        first = asyncio.ensure_future(hf.executions.run(here, ASK["lua"], wait=True))
        second = asyncio.ensure_future(hf.executions.run(here, "return 2", wait=True))
        await asyncio.sleep(0.02)
        await hf.queries.answer(here, 1)
        assert (await first).execution.status == "paused"
        await asyncio.sleep(0.02)
        assert not second.done()
        await hf.queries.answer(here, 1)
        assert value(await second) == 2


@both
@scene
async def test_a_busy_script_delays_nobody_else(address: str, language: str) -> None:
    async with opened(address) as hf:
        name = await template(hf, language, "t", limits=Limits(wall_ms=30_000, cpu_ms=0))
        busy, *others = [(await hf.sessions.create(name)).id for _ in range(4)]
        for other in others:
            await evaluate(hf, other, "n = 0")
        running = asyncio.ensure_future(hf.executions.run(busy, FOREVER[language]))
        await asyncio.sleep(0.1)
        for _ in range(5):
            for other in others:
                await evaluate(hf, other, {"javascript": "n += 1", "lua": "n = n + 1 return n"}[language])
        assert not running.done()
        await hf.executions.cancel((await hf.executions.list(busy, status="running")).items[0].id)
        assert (await running).execution.status == "cancelled"


@scene
async def test_twenty_endless_loops_let_others_through(address: str) -> None:
    async with opened(address) as hf:
        name = await template(hf, "lua", "t", limits=Limits(wall_ms=3000, cpu_ms=0))
        loops = [(await hf.sessions.create(name)).id for _ in range(20)]
        other = (await hf.sessions.create(name)).id
        running = [asyncio.ensure_future(hf.executions.run(each, FOREVER["lua"])) for each in loops]
        begun = time.monotonic()
        assert await evaluate(hf, other, "return 1") == 1
        assert time.monotonic() - begun < 2
        assert not any(each.done() for each in running)
        await asyncio.gather(*(hf.sessions.close(each) for each in loops))
        ended = await asyncio.gather(*running)
        assert {turn.execution.status for turn in ended} == {"cancelled"}


@scene
async def test_many_sessions_at_once(address: str) -> None:
    async with opened(address) as hf:
        name = await template(hf, "lua")
        made = [(await hf.sessions.create(name)).id for _ in range(64)]
        turns = await asyncio.gather(*(hf.executions.run(each, f"return alc.ask('{n}')") for n, each in enumerate(made)))
        assert [turn.queries[0].payload["question"] for turn in turns] == [str(n) for n in range(64)]
        turns = await asyncio.gather(*(hf.queries.answer(each, n) for n, each in enumerate(made)))
        assert [value(turn) for turn in turns] == list(range(64))


@scene
async def test_an_alarm_that_rings_late_makes_nobody_busy(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "lua")
        assert await evaluate(hf, here, "return 1") == 1
        for _ in range(5):
            hf._opened().submit(here, Wake(0))  # as the clock does, after the question was answered
            assert await evaluate(hf, here, "return 1") == 1


@scene
async def test_those_who_wait_hear_of_what_another_process_did(sqlite: str) -> None:
    soon = Settings(lease_ms=300)
    async with opened(sqlite, settings=soon) as one, opened(sqlite, settings=soon) as two:
        here = await session(one, "lua")
        await one.executions.run(here, ASK["lua"])
        waiting = [
            asyncio.ensure_future(one.executions.run(here, f"log = (log or '') .. {n} return log", wait=True)) for n in range(3)
        ]
        await asyncio.sleep(0.02)
        await two.queries.answer(here, "x")
        assert [value(await each) for each in waiting] == ["0", "01", "012"]


@both
@scene
async def test_closing_stops_also_those_who_wait(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=20_000, cpu_ms=0))
        calls = [asyncio.ensure_future(hf.executions.run(here, FOREVER[language], wait=True)) for _ in range(3)]
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        await hf.sessions.close(here)
        assert time.monotonic() - begun < 5
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {getattr(each, "code", None) or each.execution.status for each in outcomes} <= {"cancelled", "SESSION_NOT_READY"}
