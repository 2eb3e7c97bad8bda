"""Budgets are hard: what would exceed one is refused before anybody is asked."""

from holdfast import Budget, Settings
from tests.acceptance.scenes import Clock, both, durable_stores, evaluate, opened, refused, scene, session, template, value

ONE = {
    "javascript": "let r; try { r = await llm(%s) } catch (e) { r = [e.message, e.code] } r",
    "lua": "local ok, e = pcall(alc.llm, %s) if ok then return e end return {e.message, e.code}",
}
BATCH = {
    "javascript": "let r; try { r = await Promise.all([llm('a'), llm('b'), llm('c')]) } catch (e) { r = [e.message, e.code] } r",
    "lua": "local ok, e = pcall(alc.llm_batch, {'a', 'b', 'c'}) if ok then return e end return {e.message, e.code}",
}
FOUR = {
    "javascript": "const r = []; for (let i = 0; i < 4; i++) try { r.push(await llm('p' + i)) } catch (e) { r.push(e.message) } r",
    "lua": "local r = {} for i = 0, 3 do local ok, e = pcall(alc.llm, 'p' .. i) table.insert(r, ok and e or e.message) end return r",
}
HELLO = {language: source % "'hello'" for language, source in ONE.items()}


@both
@scene
async def test_calls_of_an_execution(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, FOUR[language], budget=Budget(max_llm_calls=2))
        for answer in ("x", "y"):
            turn = await hf.queries.answer(here, answer)
        told = "budget_exceeded: max_llm_calls (2) reached (2 used)"
        assert value(turn) == ["x", "y", told, told]
        assert turn.execution.metrics.llm_calls == 2
        assert len((await hf.queries.list(here, states=[])).items) == 2
        warned = [e.payload for e in await hf.executions.events(turn.execution.id) if e.type == "system"]
        assert [each["code"] for each in warned] == ["BUDGET_EXCEEDED"] * 2
        assert turn.execution.metrics.stats(turn.execution.budget)["auto"]["budget"] == {"max_llm_calls": 2}
        # The next execution has its own.
        await hf.executions.run(here, HELLO[language], budget=Budget(max_llm_calls=1))
        assert value(await hf.queries.answer(here, "fine")) == "fine"
        turn = await hf.executions.run(here, HELLO[language], budget=Budget(max_llm_calls=0))
        assert value(turn) == ["budget_exceeded: max_llm_calls (0) reached (0 used)", "BUDGET_EXCEEDED"]


@both
@scene
async def test_a_batch_is_asked_whole_or_not_at_all(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, BATCH[language], budget=Budget(max_llm_calls=2))
        assert value(turn) == ["budget_exceeded: max_llm_calls (2) reached (0 used, 3 more asked for)", "BUDGET_EXCEEDED"]
        assert (await hf.queries.list(here, states=[])).items == []
        assert (turn.execution.metrics.llm_calls, turn.execution.metrics.queries, turn.session.llm_calls) == (0, 0, 0)
        turn = await hf.executions.run(here, BATCH[language], budget=Budget(max_llm_calls=3))
        assert len(turn.queries) == 3
        turn = await hf.queries.answer_many(here, {query.id: query.payload["prompt"] for query in turn.queries})
        assert value(turn) == ["a", "b", "c"]
        # Others that are asked at the same time are not models', and cost nothing.
        if language == "javascript":
            source = "(await Promise.allSettled([llm('a'), llm('b'), ask('?')])).map(each => each.status + (each.value || ''))"
            turn = await hf.executions.run(here, source, budget=Budget(max_llm_calls=1))
            assert [query.kind for query in turn.queries] == ["ask"]
            assert value(await hf.queries.answer(here, "!")) == ["rejected", "rejected", "fulfilled!"]


@both
@scene
async def test_tokens(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        ten = ONE[language] % f"'{'x' * 40}'"
        turn = await hf.executions.run(here, ten, budget=Budget(max_tokens=10))
        assert value(turn) == ["budget_exceeded: max_tokens (10) reached (0 used, 10 more in the prompt)", "BUDGET_EXCEEDED"]
        turn = await hf.executions.run(here, ten, budget=Budget(max_tokens=11))
        assert value(await hf.queries.answer(here, "ok")) == "ok"
        # What a model counted takes the place of what was estimated.
        turn = await hf.executions.run(here, FOUR[language], budget=Budget(max_tokens=100))
        turn = await hf.queries.answer(here, "x", usage={"prompt_tokens": 50, "completion_tokens": 60})
        assert value(turn)[1:] == ["budget_exceeded: max_tokens (100) reached (110 used)"] * 3


@both
@scene
async def test_elapsed_time_includes_waiting(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, FOUR[language], budget=Budget(max_elapsed_ms=1000))
        clock.now += 999
        turn = await hf.queries.answer(here, "x")
        assert len(turn.queries) == 1
        clock.now += 1
        turn = await hf.queries.answer(here, "y")
        assert value(turn)[2:] == ["budget_exceeded: max_elapsed_ms (1000ms) reached (1000ms elapsed)"] * 2


@durable_stores
@scene
async def test_a_session_has_a_budget_for_all_that_runs_in_it(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        name = await template(hf, language)
        here = (await hf.sessions.create(name, budget=Budget(max_llm_calls=3, max_elapsed_ms=60_000))).id
        await hf.executions.run(here, HELLO[language])
        await hf.queries.answer(here, "one")
    async with opened(address, settings=Settings(clock=clock)) as hf:
        turn = await hf.executions.run(here, BATCH[language])
        assert value(turn) == ["budget_exceeded: max_llm_calls (3) reached (1 used, 3 more asked for)", "BUDGET_EXCEEDED"]
        await hf.executions.run(here, HELLO[language])
        await hf.queries.answer(here, "two")
        # The stricter of both holds; going back does not give anything back.
        turn = await hf.executions.run(here, HELLO[language], budget=Budget(max_llm_calls=0))
        assert value(turn)[1] == "BUDGET_EXCEEDED"
        await hf.sessions.rewind(here, 0)
        turn = await hf.executions.run(here, FOUR[language], budget=Budget(max_llm_calls=10))
        turn = await hf.queries.answer(here, "three")
        assert value(turn)[1] == "budget_exceeded: max_llm_calls (3) reached (3 used)"
        assert turn.session.llm_calls == 3
        late = (await hf.sessions.create(name, budget=Budget(max_elapsed_ms=1000))).id
        clock.now += 1000
        assert value(await hf.executions.run(late, HELLO[language]))[0] == (
            "budget_exceeded: max_elapsed_ms (1000ms) reached (1000ms elapsed)"
        )
        tokens = (await hf.sessions.create(name, budget=Budget(max_tokens=5))).id
        await hf.executions.run(tokens, HELLO[language])
        await hf.queries.answer(tokens, "abcdefghij")
        assert value(await hf.executions.run(tokens, HELLO[language]))[1] == "BUDGET_EXCEEDED"


@both
@scene
async def test_a_script_that_insists_is_stopped(address: str, language: str) -> None:
    source = {
        "javascript": "count = 2; for (;;) { try { await llm('again') } catch {} }",
        "lua": "count = 2; while true do pcall(alc.llm, 'again') end",
    }[language]
    async with opened(address) as hf:
        here = await session(hf, language)
        await evaluate(hf, here, "count = 1")
        turn = await hf.executions.run(here, source, budget=Budget(max_llm_calls=0))
        assert turn.execution.status == "error"
        assert turn.execution.error is not None
        assert turn.execution.error["code"] == "LIMIT_EXCEEDED"
        assert await evaluate(hf, here, {"javascript": "count", "lua": "return count"}[language]) == 1
        assert (await hf.queries.list(here, states=[])).items == []


@both
@scene
async def test_a_strategy_brings_its_own(address: str, language: str) -> None:
    source = {
        "javascript": "let r; try { r = await llm(ctx.task) } catch (e) { r = e.code } export default r",
        "lua": "local ok, e = pcall(alc.llm, ctx.task) return ok and e or e.code",
    }[language]
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.strategy(here, source, {"task": "t", "budget": {"max_llm_calls": 0}})
        assert value(turn) == "BUDGET_EXCEEDED"
        turn = await hf.executions.strategy(here, source, {"task": "t", "budget": {}})
        assert turn.execution.budget is None
        assert value(await hf.queries.answer(here, "fine")) == "fine"
        with refused("VALIDATION_ERROR"):
            Budget(max_llm_calls=-1)
