"""Ends: cancel, close, delete, crash."""

import asyncio

from holdfast import Limits, StartupFile
from tests.acceptance.scenes import all_stores, both, evaluate, eventually, opened, refused, scene, session, template, value

LOOP = {"javascript": "count = 2; for (;;) {}", "lua": "count = 2; while true do end"}
ASK = {"javascript": "count = 2; try { await ask('?') } finally { count = 3 }", "lua": "count = 2; alc.ask('?'); count = 3"}
COUNT = {"javascript": "count", "lua": "return count"}


async def running(hf, session_id):
    async def look():
        return (await hf.executions.list(session_id, status="running")).items

    return (await eventually(look))[0]


@all_stores
@scene
async def test_a_running_execution_is_cancelled(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=30_000, cpu_ms=0))
        await evaluate(hf, here, "count = 1")
        call = asyncio.ensure_future(hf.executions.run(here, LOOP[language]))
        cancelled = await hf.executions.cancel((await running(hf, here)).id)
        assert cancelled.status == "cancelled"
        assert cancelled.ended_at is not None
        turn = await call
        assert (turn.execution.status, turn.session.state) == ("cancelled", "ready")
        assert await evaluate(hf, here, COUNT[language]) == 1
        assert (await hf.sessions.errors(here)).items == []


@both
@scene
async def test_a_background_execution_is_cancelled_at_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=30_000, cpu_ms=0))
        for _ in range(5):
            turn = await hf.executions.run(here, LOOP[language], background=True)
            async with asyncio.timeout(5):
                assert (await hf.executions.cancel(turn.execution.id)).status == "cancelled"


@all_stores
@scene
async def test_a_paused_execution_is_cancelled(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, ASK[language])
        cancelled = await hf.executions.cancel(turn.execution.id)
        assert cancelled.status == "cancelled"
        assert (await hf.queries.get(here, "q-1")).state == "cancelled"
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, "late", query="q-1")
        # None of its code ran any more; what it had done stays.
        assert await evaluate(hf, here, COUNT[language]) == 2
        # One that has ended stays as it is.
        assert await hf.executions.cancel(turn.execution.id) == cancelled
        done = await hf.executions.run(here, COUNT[language])
        assert (await hf.executions.cancel(done.execution.id)).status == "ok"
        with refused("EXECUTION_NOT_FOUND"):
            await hf.executions.cancel(here)


@both
@scene
async def test_cancelling_an_old_execution_leaves_the_new_one(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        old = await hf.executions.run(here, COUNT[language].replace("count", "1"))
        new = await hf.executions.run(here, ASK[language])
        assert (await hf.executions.cancel(old.execution.id)).status == "ok"
        assert (await hf.executions.get(new.execution.id)).status == "paused"


@all_stores
@scene
async def test_close_ends_what_runs_or_waits(address: str, language: str) -> None:
    async with opened(address) as hf:
        name = await template(hf, language, "t", limits=Limits(wall_ms=30_000, cpu_ms=0))
        idle, paused, busy = [(await hf.sessions.create(name)).id for _ in range(3)]
        waits = await hf.executions.run(paused, ASK[language])
        call = asyncio.ensure_future(hf.executions.run(busy, LOOP[language]))
        await running(hf, busy)
        for each in (idle, paused, busy):
            closed = await hf.sessions.close(each)
            assert closed.state == "closed"
            assert closed.closed_at is not None
            assert await hf.sessions.close(each) == closed  # twice is fine
            with refused("SESSION_NOT_READY"):
                await hf.executions.run(each, "1")
            with refused("SESSION_NOT_READY"):
                await hf.executions.run(each, "1", wait=True)
            with refused("INVALID_TRANSITION"):
                await hf.sessions.rewind(each, 0)
        assert (await call).execution.status == "cancelled"
        assert (await hf.executions.get(waits.execution.id)).status == "cancelled"
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(paused, "late", query="q-1")
        # Its history stays, and can be forked from.
        assert len(await hf.executions.events(waits.execution.id)) > 0
        fork = await hf.sessions.fork(paused, 1)
        assert fork.state == "paused"
        assert (await hf.queries.answer(fork.id, "x")).execution.status == "ok"
        assert (await hf.summary())["sessions"]["closed"] == 3


@all_stores
@scene
async def test_delete_removes_all_and_leaves_forks_whole(address: str, language: str) -> None:
    js = language == "javascript"
    async with opened(address) as hf:
        name = await template(hf, language)
        here = (await hf.sessions.create(name)).id
        for n in range(5):
            await evaluate(hf, here, f"n = {n}; text = '{'x' * 100}{n}'")
        turn = await hf.executions.run(here, f"const a = await ask('{n}'); a + n" if js else f"return alc.ask('{n}') + n")
        idle = await hf.sessions.fork(here, 3)  # never runs before its source is gone
        other = await hf.sessions.fork(here, 3)
        paused = await hf.sessions.fork(here)
        used = await hf.sessions.fork(here, 4)
        await evaluate(hf, used.id, "m = 7")
        below = await hf.sessions.fork(used.id)
        twin = await hf.sessions.fork(idle.id)  # of one that never ran

        await hf.sessions.delete(here)
        for gone in (
            lambda: hf.sessions.get(here),
            lambda: hf.executions.run(here, "1"),
            lambda: hf.queries.answer(here, 1, query="q-1"),
            lambda: hf.sessions.fork(here),
            lambda: hf.sessions.rewind(here, 1),
            lambda: hf.sessions.checkpoints(here),
            lambda: hf.sessions.tree(here),
            lambda: hf.sessions.delete(here),
            lambda: hf.sessions.close(here),
        ):
            with refused("SESSION_NOT_FOUND"):
                await gone()
        with refused("EXECUTION_NOT_FOUND"):
            await hf.executions.get(turn.execution.id)

        look = "n" if js else "return n"
        assert await evaluate(hf, idle.id, look) == 2
        assert await evaluate(hf, twin.id, look) == 2
        assert await evaluate(hf, used.id, look) == 3
        assert await evaluate(hf, below.id, "[n, m]" if js else "return {n, m}") == [3, 7]
        # Also one that never ran can be forked, rewound to its beginning, and deleted in its turn.
        late = await hf.sessions.fork(other.id)
        assert await evaluate(hf, late.id, look) == 2
        await evaluate(hf, other.id, "n = 99")
        assert (await hf.sessions.rewind(other.id, 0)).state == "ready"
        assert await evaluate(hf, other.id, look) == 2
        again = await hf.sessions.fork(other.id, 0)
        await hf.sessions.delete(other.id)
        assert await evaluate(hf, again.id, look) == 2
        assert await evaluate(hf, late.id, look) == 2
        assert (await hf.sessions.diff(again.id, 0))["changed"] == {}
        # One that began in the middle of an execution goes on; that middle is gone with the source, and says so.
        assert value(await hf.queries.answer(paused.id, 1)) == 5
        with refused("CHECKPOINT_NOT_FOUND"):
            await hf.sessions.rewind(paused.id, 0)
        assert await evaluate(hf, paused.id, look) == 4


@both
@scene
async def test_deleting_while_it_runs(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=30_000, cpu_ms=0))
        call = asyncio.ensure_future(hf.executions.run(here, LOOP[language]))
        await running(hf, here)
        await hf.sessions.delete(here)
        assert (await call).execution.status == "cancelled"
        with refused("SESSION_NOT_FOUND"):
            await hf.sessions.get(here)
        assert (await hf.executions.list()).items == []
        assert (await hf.queries.list(states=[])).items == []


@both
@scene
async def test_a_startup_file_that_fails_crashes_the_session(address: str, language: str) -> None:
    js = language == "javascript"
    startup = [
        StartupFile("first", "var a = 1" if js else "a = 1", "session"),
        StartupFile("second", "throw new Error('no start')" if js else "error('no start')", "session"),
        StartupFile("third", "var c = 1" if js else "c = 1", "session"),
    ]
    async with opened(address) as hf:
        await template(hf, language, "t", startup=startup)
        made = await hf.sessions.create("t")
        assert made.state == "crashed"
        assert "no start" in (made.last_error or "")
        with refused("SESSION_NOT_READY"):
            await hf.executions.run(made.id, "1")
        entries = (await hf.sessions.errors(made.id)).items
        assert [entry.phase for entry in entries] == ["starting"]
        assert [e.path for e in (await hf.executions.list(made.id)).items] == ["second", "first"]
        # What the first left can be gone back to; closing works.
        assert (await hf.sessions.rewind(made.id, 1)).state == "ready"
        assert await evaluate(hf, made.id, "a" if js else "return a") == 1
        assert (await hf.sessions.close(made.id)).state == "closed"


@both
@scene
async def test_a_startup_file_that_is_cancelled_or_loops(address: str, language: str) -> None:
    js = language == "javascript"
    async with opened(address) as hf:
        await template(hf, language, "loops", startup=[StartupFile("x", LOOP[language], "session")], limits=Limits(wall_ms=100))
        assert (await hf.sessions.create("loops")).state == "crashed"
        asks = StartupFile("x", "await ask('?')" if js else "alc.ask('?')", "session")
        await template(hf, language, "asks", startup=[asks])
        made = await hf.sessions.create("asks")
        await hf.executions.cancel((await hf.executions.list(made.id)).items[0].id)
        assert (await hf.sessions.get(made.id)).state == "crashed"
        assert (await hf.sessions.close((await hf.sessions.create("asks")).id)).state == "closed"


@both
@scene
async def test_the_beginning_has_startup_files_to_run(address: str, language: str) -> None:
    js = language == "javascript"
    startup = [
        StartupFile("first", "globalThis.log = ['first']" if js else "log = {'first'}", "session"),
        StartupFile("second", "log.push(await ask('?'))" if js else "table.insert(log, alc.ask('?'))", "session"),
        StartupFile("third", "log.push('third')" if js else "table.insert(log, 'third')", "session"),
    ]
    look = "log.join()" if js else "return table.concat(log, ',')"

    async def answered(hf, session_id, answer):
        await hf.queries.answer(session_id, answer)

        async def ready():
            return (await hf.sessions.get(session_id)).state == "ready"

        await eventually(ready)
        return await evaluate(hf, session_id, look)

    async with opened(address) as hf:
        await template(hf, language, "t", startup=startup)
        made = (await hf.sessions.create("t")).id
        assert await answered(hf, made, "one") == "first,one,third"
        assert (await hf.sessions.rewind(made, 0)).state == "paused"
        assert await answered(hf, made, "two") == "first,two,third"
        assert (await hf.sessions.rewind(made, 2)).state == "paused"  # in the middle of the second file
        assert await answered(hf, made, "three") == "first,three,third"
        fork = await hf.sessions.fork(made, 0)
        assert fork.state == "paused"
        assert await answered(hf, fork.id, "four") == "first,four,third"
        fork = await hf.sessions.fork(made, 2)
        assert await answered(hf, fork.id, "five") == "first,five,third"
