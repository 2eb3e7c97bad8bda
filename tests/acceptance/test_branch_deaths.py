"""Forks survive: the death of a process at any point, and several processes that see to the same fork."""

import asyncio
import contextlib
from typing import Any

import pytest

from holdfast import Holdfast, Settings
from holdfast.domain import EXECUTION, Query
from holdfast.runtime import branches
from holdfast.store import StoreUnavailable
from tests.acceptance.forks import ASK, DEEP, branch_asks, ended, forking, latest, the_fork, told
from tests.acceptance.scenes import durable_stores, elsewhere, eventually, opened, scene, value
from tests.acceptance.test_deaths import LEASE_MS, Mortal

MOST = 60


async def _drive(hf: Holdfast, execution_id: Any) -> Any:
    """Answers whatever anybody asks, until an execution has ended. Gives it."""
    while not EXECUTION.is_final((found := await hf.executions.get(execution_id)).status):
        for query in (await hf.queries.list(kinds=["llm"])).items:
            await hf.queries.answer(query.session_id, query.payload["prompt"].upper(), query=query.id)
        await asyncio.sleep(0.005)
    return found


@scene
async def test_a_fork_is_joined_once_wherever_its_process_dies() -> None:
    for left in range(1, MOST):
        async with opened("memory:", settings=Settings(lease_ms=LEASE_MS)) as hf:  # it looks around often
            here = await forking(hf, "lua")
            mortal = Mortal(hf._address)
            async with Holdfast.open(mortal, settings=Settings(lease_ms=LEASE_MS, grace_ms=0, outage_wait_ms=0)) as other:
                mortal.left = left
                with contextlib.suppress(StoreUnavailable):
                    turn = await other.executions.run(here, ASK["lua"])
                    await _drive(other, turn.execution.id)
            if not mortal.dead:
                assert left > 8
                return
            run = await latest(hf, here)
            if run.input != ASK["lua"]:  # it died before anybody knew of it
                continue
            done = await _drive(hf, run.id)
            assert done.result["json"] == told("A?", "B?", "C?"), f"dead after write {left}"
            assert done.metrics.llm_calls == 3
            children = branches.children(await hf.queries.get(here, 1))
            assert len((await hf.sessions.list(limit=100)).items) == 4
            for child in children:
                (execution,) = (await hf.executions.list(child)).items
                assert (execution.status, execution.metrics.llm_calls) == ("ok", 1)
                assert len((await hf.queries.list(child, states=["answered"])).items) == 2
    pytest.fail("it never comes to its end")


DYING = """
    import holdfast.runtime.forking as forking_jobs
    from holdfast.runtime.committer import Committer
    from tests.acceptance.forks import ASK, forking

    def die(*_):
        os.kill(os.getpid(), 9)

    if given["at"] == "made":
        Committer.commit_all, commit_all = lambda self, commits: die() if len(commits) == 2 else commit_all(self, commits), Committer.commit_all
    elif given["at"] == "told":
        forking_jobs.Born.result = die
    else:
        forking_jobs.Join.run = die
    async with opened(address, settings=Settings(lease_ms=200)) as hf:
        here = await forking(hf, "lua")
        turn = await hf.executions.run(here, ASK["lua"])
        while True:
            for query in (await hf.queries.list(kinds=["llm"])).items:
                await hf.queries.answer(query.session_id, query.payload["prompt"].upper(), query=query.id)
            await asyncio.sleep(0.005)
"""


@pytest.mark.parametrize(("at", "there"), [("made", 1), ("told", 3), ("joined", 3)])
@scene
async def test_a_process_is_killed_in_the_middle_of_a_fork(at: str, there: int, sqlite: str) -> None:
    """After the first branch was made; when one was told to begin; when all have ended, and nobody knows yet."""
    await asyncio.to_thread(elsewhere, sqlite, DYING, {"at": at}, dies=True)
    async with opened(sqlite) as hf:
        here = (await hf.sessions.list(limit=100)).items[-1].id
        assert there <= len((await hf.sessions.list(limit=100)).items) - 1
        done = await _drive(hf, (await latest(hf, here)).id)
        assert done.result["json"] == told("A?", "B?", "C?")
        assert done.metrics.llm_calls == 3
        assert len((await hf.sessions.list(limit=100)).items) == 4


ANSWERING = """
    async with opened(address) as hf:
        for child in given:
            (query,) = (await hf.queries.list(child)).items
            turn = await hf.queries.answer(child, query.payload["prompt"].upper())
            assert turn.execution.status == "ok"
        return (await hf.sessions.get(given[0])).family.parent.hex
"""


@durable_stores
@scene
async def test_branches_are_run_by_another_process(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        turn = await hf.executions.run(here, ASK[language])
        children = [str(child) for child in branches.children(the_fork(turn))]
        waiting = asyncio.ensure_future(ended(hf, here))
        assert await asyncio.to_thread(elsewhere, address, ANSWERING, children) == here.hex
        assert (await waiting).result["json"] == told("A?", "B?", "C?")
        assert (await waiting).metrics.llm_calls == 3


@durable_stores
@scene
async def test_two_processes_see_to_the_same_fork(address: str, language: str) -> None:
    async with opened(address) as one, opened(address) as two:
        here = await forking(one, language)
        turn = await one.executions.run(here, DEEP[language])
        two._runtime.attend(here)  # as if it had found it left behind
        done, same = await asyncio.gather(_drive(one, turn.execution.id), _drive(two, turn.execution.id))
        assert done.result == same.result
        assert [each["ok"] for each in done.result["json"]] == [True, True]
        assert done.metrics.llm_calls == 4
        assert len((await one.sessions.list(limit=100)).items) == 7
        turn = await one.executions.run(here, ASK[language])
        children = branches.children(the_fork(turn))
        await two.executions.cancel(turn.execution.id)
        assert {(await ended(one, child)).status for child in children} == {"cancelled"}


@scene
async def test_branches_that_nobody_stopped_are_found() -> None:
    """The process that cancelled a run has died before it came to the branches."""
    async with opened("memory:", settings=Settings(lease_ms=LEASE_MS)) as hf:
        here = await forking(hf, "lua")
        mortal = Mortal(hf._address)
        async with Holdfast.open(mortal, settings=Settings(lease_ms=LEASE_MS, grace_ms=0, outage_wait_ms=0)) as other:
            turn = await other.executions.run(here, DEEP["lua"])
            mortal.left = 1
            with contextlib.suppress(StoreUnavailable):
                await other.executions.cancel(turn.execution.id)
        assert mortal.dead
        children = branches.children(the_fork(turn))
        inner: list[Query] = []
        for child in children:
            inner += [
                query for query in (await hf.queries.list(child, states=["open", "cancelled"])).items if query.number == 2
            ]
        for child in [*children, *(grandchild for fork in inner for grandchild in branches.children(fork))]:
            assert (await ended(hf, child)).status == "cancelled"
        assert len(inner) == 2


@scene
async def test_a_branch_that_somebody_uses_afterwards_is_left_alone() -> None:
    async with opened("memory:") as hf:
        here = await forking(hf, "lua")
        turn = await hf.executions.run(here, ASK["lua"])
        child, *_ = branches.children(the_fork(turn))
        await _drive(hf, turn.execution.id)
        await hf.sessions.rewind(child, 2)
        assert [branch.id for branch in await hf._runtime.call(hf._address.list_orphans)] == [child]
        await hf._runtime._look_around()
        await eventually(lambda: asyncio.sleep(0, not hf._runtime._dispatcher.knows(child)))
        assert (await latest(hf, child)).status == "paused"
        assert value(await hf.queries.answer(child, "other", query=(await branch_asks(hf, child)).id)) == "other"
