"""Whoever observes a process hears of each of its steps once, after it is durable, and can do no harm."""

import asyncio
from typing import Any
from uuid import UUID

from holdfast import Holdfast, Settings, StartupFile
from holdfast.domain import Event, Execution
from holdfast.store import Commit, StoreUnavailable
from tests.acceptance.scenes import opened, refused, scene, session, template, value

TALK = "for (const n of [1, 2]) { console.log(n); await ask('go on?') } 'done'"


class Heard:
    """What an observer was told: the events of each execution, and how it stood each time."""

    def __init__(self, hf: Holdfast) -> None:
        self.events: dict[UUID, list[Event]] = {}
        self.statuses: dict[UUID, list[str]] = {}
        hf.observe(self)

    def __call__(self, execution: Execution, events: list[Event]) -> None:
        self.events.setdefault(execution.id, []).extend(events)
        self.statuses.setdefault(execution.id, []).append(execution.status.value)


@scene
async def test_every_step_is_told_once_with_its_own_events() -> None:
    async with opened("memory:") as hf:
        heard = Heard(hf)
        await template(hf, name="starts", startup=[StartupFile(name, "var ready = 1", "session") for name in ("a.js", "b.js")])
        here = (await hf.sessions.create("starts")).id
        await hf.executions.run(here, TALK)
        await hf.queries.answer(here, "yes")
        forks = await hf.sessions.fork_many(here, 2)
        await hf.sessions.rewind(here, 3)  # ends one execution, and another one waits where it was
        await hf.queries.answer(here, "yes")
        await hf.queries.answer(here, "yes")
        await hf.queries.answer(forks[0].id, "yes")
        await hf.sessions.close(forks[1].id)
        await hf.executions.run(here, "nonsense(")
        executions = (await hf.executions.list(limit=100)).items
        assert heard.events == {each.id: list(await hf.executions.events(each.id)) for each in executions}
        assert {each.id: heard.statuses[each.id][-1] for each in executions} == {each.id: each.status for each in executions}
        assert sorted(map(len, heard.statuses.values())) == [1, 1, 1, 2, 2, 3, 3]


@scene
async def test_an_observer_that_fails_harms_nobody() -> None:
    def fails(execution: Execution, events: list[Event]) -> None:
        raise ValueError("of its own")

    async with opened("memory:") as hf:
        hf.observe(fails)
        async with asyncio.timeout(5):
            sessions = [await session(hf) for _ in range(3)]
            turns = await asyncio.gather(*(hf.executions.run(here, TALK) for here in sessions))
            assert [turn.execution.status for turn in turns] == ["paused"] * 3
            fork = await hf.sessions.fork(sessions[0])
            await hf.queries.answer(fork.id, "yes")
            assert value(await hf.queries.answer(fork.id, "yes")) == "done"


class Dying:
    """A store whose process dies as soon as it is durable that a step runs."""

    def __init__(self, store: Any) -> None:
        self._store, self.dead = store, False

    def close(self) -> None:
        pass

    def commit(self, commits: list[Commit]) -> Any:
        if self.dead:
            raise StoreUnavailable
        written = self._store.commit(commits)
        self.dead = any(commit.begun is not None for commit in commits)
        return written

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise StoreUnavailable
        return getattr(self._store, name)


@scene
async def test_a_step_that_is_run_again_is_told_as_it_ended_and_not_as_its_execution_went_on() -> None:
    async with opened("memory:", settings=Settings(lease_ms=60_000)) as hf:
        here, heard = await session(hf), Heard(hf)
        async with Holdfast.open(Dying(hf._address), settings=Settings(lease_ms=20, grace_ms=0, outage_wait_ms=0)) as other:
            with refused("STORE_UNAVAILABLE"):
                await other.executions.run(here, "console.log('once'); await ask('?')", background=True)
        await asyncio.sleep(0.05)
        turn = await hf.queries.answer(here, "yes", query="q-1")  # which runs the step again first
        assert value(turn) == "yes"
        assert heard.statuses == {turn.execution.id: ["paused", "ok"]}
        assert heard.events == {turn.execution.id: list(await hf.executions.events(turn.execution.id))}
