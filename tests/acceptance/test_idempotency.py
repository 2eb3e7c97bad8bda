"""Idempotency keys: the same request again happens once and gives the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast import Budget, Holdfast, Limits, Settings
from tests.acceptance.scenes import (
    Clock,
    all_stores,
    both,
    durable_stores,
    evaluate,
    opened,
    refused,
    scene,
    session,
    template,
    value,
)

COUNT = {"javascript": "globalThis.n = (globalThis.n || 0) + 1; n", "lua": "n = (n or 0) + 1 return n"}
LOOK = {"javascript": "n", "lua": "return n"}
ASK = {"javascript": "await ask('?')", "lua": "return alc.ask('?')"}


@all_stores
@scene
async def test_making_things_happens_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        made = await hf.templates.create("t", language=language, idempotency_key="a")
        assert await hf.templates.create("t", language=language, idempotency_key="a") == made
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.templates.create("other", language=language, idempotency_key="a")
        version = await hf.templates.update("t", limits=Limits(wall_ms=77), idempotency_key="b")
        assert await hf.templates.update("t", limits=Limits(wall_ms=77), idempotency_key="b") == version
        assert (await hf.templates.get("t")).latest == 2
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.templates.update("t", limits=Limits(wall_ms=78), idempotency_key="b")
        first = await hf.sessions.create("t", name="n", meta={"m": 1}, idempotency_key="c")
        assert await hf.sessions.create("t", name="n", meta={"m": 1}, idempotency_key="c") == first
        for other in ({"name": "x"}, {"name": "n", "meta": {"m": 2}}, {"name": "n", "meta": {"m": 1}, "version": 1}):
            with refused("IDEMPOTENCY_CONFLICT"):
                await hf.sessions.create("t", idempotency_key="c", **other)
        assert len((await hf.sessions.list()).items) == 1
        for bad in ("", "x" * 201, 5):
            with refused("VALIDATION_ERROR"):
                await hf.sessions.create("t", idempotency_key=bad)


@all_stores
@scene
async def test_running_and_answering_happen_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        first = await hf.executions.run(here, COUNT[language], idempotency_key="run")
        again = await hf.executions.run(here, COUNT[language], idempotency_key="run")
        assert again.execution == first.execution
        assert await evaluate(hf, here, LOOK[language]) == 1
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.executions.run(here, COUNT[language], budget=Budget(max_llm_calls=1), idempotency_key="run")
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.executions.run(here, LOOK[language], idempotency_key="run")
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.executions.run_file(here, COUNT[language], "x", idempotency_key="run")
        for kind in (hf.executions.run_file, hf.executions.strategy):
            given = ("main", {"a": 1}) if kind == hf.executions.run_file else ({"a": 1},)
            source = COUNT[language] if language == "lua" else "globalThis.n += 1; export default n"
            one = await kind(here, source, *given, idempotency_key=kind.__name__)
            two = await kind(here, source, *given, idempotency_key=kind.__name__)
            assert one.execution.id == two.execution.id
        assert await evaluate(hf, here, LOOK[language]) == 3
        asked = await hf.executions.run(here, ASK[language], background=True, idempotency_key="bg")
        assert (await hf.executions.run(here, ASK[language], idempotency_key="bg")).execution.id == asked.execution.id
        await hf.executions.wait(asked.execution.id)
        answered = await hf.queries.answer(here, "x", idempotency_key="answer")  # without naming the query
        later = await hf.executions.run(here, ASK[language])
        again = await hf.queries.answer(here, "x", idempotency_key="answer")
        assert again.execution.id == answered.execution.id == asked.execution.id
        assert value(again) == "x"
        assert [query.id for query in (await hf.queries.list(here)).items] == [later.queries[0].id]  # it was not for this one
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.queries.answer(here, "y", idempotency_key="answer")
        failed = await hf.queries.fail(here, "no", code="C", idempotency_key="fail")
        assert (await hf.queries.fail(here, "no", code="C", idempotency_key="fail")).execution.id == failed.execution.id
        await hf.executions.run(here, ASK[language])
        many = {(await hf.queries.list(here)).items[0].id: 5}
        one = await hf.queries.answer_many(here, many, idempotency_key="many")
        assert (await hf.queries.answer_many(here, many, idempotency_key="many")).execution.id == one.execution.id
        await hf.executions.run(here, ASK[language])
        withdrawn = (await hf.queries.list(here)).items[0].id
        one = await hf.queries.cancel(here, withdrawn, idempotency_key="cancel")
        assert (await hf.queries.cancel(here, withdrawn, idempotency_key="cancel")).execution.id == one.execution.id


@both
@scene
async def test_changing_history_and_ending_happen_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        for _ in range(4):
            await evaluate(hf, here, COUNT[language])
        fork = await hf.sessions.fork(here, 2, idempotency_key="fork")
        assert await hf.sessions.fork(here, 2, idempotency_key="fork") == fork
        forks = await hf.sessions.fork_many(here, 3, idempotency_key="forks")
        assert await hf.sessions.fork_many(here, 3, idempotency_key="forks") == forks
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.sessions.fork(here, 3, idempotency_key="fork")
        assert len((await hf.sessions.list()).items) == 5
        await hf.sessions.rewind(here, 1, idempotency_key="rewind")
        assert await evaluate(hf, here, COUNT[language]) == 2
        await hf.sessions.rewind(here, 1, idempotency_key="rewind")  # no second time
        assert await evaluate(hf, here, LOOK[language]) == 2
        pruned = await hf.sessions.prune(here, keep=1, idempotency_key="prune")
        assert pruned > 0
        assert await hf.sessions.prune(here, keep=1, idempotency_key="prune") == pruned
        waits = (await hf.executions.run(here, ASK[language])).execution.id
        assert (await hf.executions.cancel(waits, idempotency_key="stop")).status == "cancelled"
        assert (await hf.executions.cancel(waits, idempotency_key="stop")).status == "cancelled"
        closed = await hf.sessions.close(here, idempotency_key="close")
        assert await hf.sessions.close(here, idempotency_key="close") == closed
        await hf.sessions.delete(here, idempotency_key="delete")
        await hf.sessions.delete(here, idempotency_key="delete")
        await hf.templates.create("spare", language=language)
        await hf.templates.delete("spare", idempotency_key="spare")
        await hf.templates.delete("spare", idempotency_key="spare")


@all_stores
@scene
async def test_the_same_request_many_times_at_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turns = await asyncio.gather(*(hf.executions.run(here, COUNT[language], idempotency_key="one") for _ in range(8)))
        assert len({turn.execution.id for turn in turns}) == 1
        assert [value(turn) for turn in turns] == [1] * 8
        name = await template(hf, language)
        made = await asyncio.gather(*(hf.sessions.create(name, idempotency_key="two") for _ in range(8)))
        assert len({each.id for each in made}) == 1
        await hf.executions.run(here, ASK[language])
        turns = await asyncio.gather(*(hf.queries.answer(here, "x", idempotency_key="three") for _ in range(8)))
        assert [value(turn) for turn in turns] == ["x"] * 8
        forks = await asyncio.gather(*(hf.sessions.fork(here, idempotency_key="four") for _ in range(8)))
        assert len({each.id for each in forks}) == 1


@durable_stores
@scene
async def test_keys_are_remembered_after_reopening_and_for_as_long_as_wanted(address: str, language: str) -> None:
    clock = Clock()

    async def again(do: Callable[[Holdfast], Awaitable[Any]]) -> Any:
        async with opened(address, settings=Settings(clock=clock)) as hf:
            return await do(hf)

    here = await again(lambda hf: session(hf, language))
    run = lambda hf: hf.executions.run(here, COUNT[language], idempotency_key="one")  # noqa: E731
    first = await again(run)
    asks = lambda hf: hf.executions.run(here, ASK[language], idempotency_key="two")  # noqa: E731
    waits = await again(asks)
    assert (await again(run)).execution.id == first.execution.id
    assert [q.id for q in (await again(asks)).queries] == [q.id for q in waits.queries]
    answer = lambda hf: hf.queries.answer(here, "x", idempotency_key="three")  # noqa: E731
    assert value(await again(answer)) == value(await again(answer)) == "x"
    with refused("IDEMPOTENCY_CONFLICT"):
        await again(lambda hf: hf.queries.answer(here, "y", idempotency_key="three"))
    clock.now += 24 * 3600 * 1000 - 1
    assert (await again(lambda hf: hf.sweep()))["replies"] == 0
    clock.now += 2
    assert (await again(lambda hf: hf.sweep()))["replies"] == 3
    assert (await again(run)).execution.id != first.execution.id  # forgotten


@both
@scene
async def test_a_request_that_was_refused_may_be_made_again(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, ASK[language])
        with refused("SESSION_BUSY"):
            await hf.executions.run(here, COUNT[language], idempotency_key="k")
        await hf.queries.answer(here, "x")
        assert value(await hf.executions.run(here, COUNT[language], idempotency_key="k")) == 1
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.sessions.create("missing", idempotency_key="s")
        await hf.templates.create("missing", language=language)
        assert (await hf.sessions.create("missing", idempotency_key="s")).state == "ready"
