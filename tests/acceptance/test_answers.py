"""Answers: bound to one query, taken once, stored one by one, all or none."""

import asyncio
from typing import Any

import pytest

from tests.acceptance.scenes import all_stores, both, evaluate, opened, refused, scene, session, value

BATCH = {
    "javascript": "const all = await Promise.all([llm('a'), llm('b'), llm('c')]); all",
    "lua": "return alc.llm_batch({'a', 'b', 'c'})",
}
ONE = {"javascript": "await llm('hello')", "lua": "return alc.llm('hello')"}
TWO = {"javascript": "[await ask('first'), await ask('second')]", "lua": "return {alc.ask('first'), alc.ask('second')}"}
CAUGHT = {
    "javascript": "let r; try { r = await ask('?') } catch (e) { r = [e.message, e.code] } r",
    "lua": "local ok, e = pcall(alc.ask, '?') if ok then return e end return {e.message, e.code}",
}


@all_stores
@scene
async def test_a_batch_is_answered_one_by_one_in_any_order(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, BATCH[language])
        assert [query.id for query in turn.queries] == ["q-1", "q-2", "q-3"]
        turn = await hf.queries.answer(here, "C", query="q-3")
        assert [query.id for query in turn.queries] == ["q-1", "q-2"]
        stored = await hf.queries.get(here, "q-3")
        assert stored.state == "answered"
        assert stored.answer is not None
        assert stored.answer.value == "C"
        assert [query.id for query in (await hf.queries.list(here)).items] == ["q-1", "q-2"]
        await hf.queries.answer(here, "A", query="q-1")
        turn = await hf.queries.answer(here, "B")  # the only one left needs no name
        assert value(turn) == ["A", "B", "C"]


@both
@scene
async def test_several_in_one_call_are_taken_all_or_none(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, BATCH[language])
        before = await hf.sessions.get(here)
        for bad, code in (
            ({"q-1": "A", "q-9": "X"}, "QUERY_NOT_FOUND"),
            ({"q-1": "A", "q-2": float("nan")}, "VALIDATION_ERROR"),
            ({"q-1": "A", "nonsense": "X"}, "VALIDATION_ERROR"),
            ({}, "VALIDATION_ERROR"),
        ):
            with refused(code):
                await hf.queries.answer_many(here, bad)
        assert await hf.sessions.get(here) == before
        assert {query.state for query in (await hf.queries.list(here)).items} == {"open"}
        await hf.queries.answer(here, "B", query="q-2")
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer_many(here, {"q-1": "A", "q-2": "other"})
        assert (await hf.queries.get(here, "q-1")).state == "open"
        # What was answered before may be said again beside what is new.
        turn = await hf.queries.answer_many(here, {"q-1": "A", "q-2": "B", "q-3": "C"})
        assert value(turn) == ["A", "B", "C"]


@both
@scene
async def test_which_query_is_meant(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        with refused("ANSWER_AMBIGUOUS") as none:
            await hf.queries.answer(here, "x")
        assert str(none.error) == "no pending queries"
        await hf.executions.run(here, BATCH[language])
        with refused("ANSWER_AMBIGUOUS") as many:
            await hf.queries.answer(here, "x")
        assert str(many.error) == "3 queries pending; specify query_id explicitly"
        with refused("QUERY_NOT_FOUND"):
            await hf.queries.answer(here, "x", query="q-4")
        with refused("VALIDATION_ERROR"):
            await hf.queries.answer(here, "x", query="q-0")
        with refused("SESSION_NOT_FOUND"):
            await hf.queries.answer("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "x", query="q-1")
        assert len((await hf.queries.list(here)).items) == 3


@all_stores
@scene
async def test_the_same_answer_again_changes_nothing(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, TWO[language])
        turn = await hf.queries.answer(here, {"n": [1, True, None]}, query="q-1")
        before = await hf.sessions.get(here)
        again = await hf.queries.answer(here, {"n": [1, True, None]}, query="q-1")
        assert [query.id for query in again.queries] == ["q-2"]
        assert again.execution == turn.execution
        assert await hf.sessions.get(here) == before
        for other in ({"n": [1, 1, None]}, {"n": [1, True]}, "x", None):
            with refused("ANSWER_CONFLICT"):
                await hf.queries.answer(here, other, query="q-1")
        with refused("ANSWER_CONFLICT"):
            await hf.queries.fail(here, "no", query="q-1")
        ended = await hf.queries.answer(here, "B", query="q-2")
        value(ended)
        before = await hf.sessions.get(here)
        for number in ("q-1", "q-2"):
            answer = {"q-1": {"n": [1, True, None]}, "q-2": "B"}[number]
            again = await hf.queries.answer(here, answer, query=number)
            assert again.execution.id == ended.execution.id
            assert again.execution.result == ended.execution.result
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, "C", query="q-2")
        assert await hf.sessions.get(here) == before
        # Also while another execution waits: the old one is told of.
        await hf.executions.run(here, TWO[language])
        again = await hf.queries.answer(here, "B", query="q-2")
        assert (again.execution.id, again.execution.status) == (ended.execution.id, "ok")
        assert [query.id for query in (await hf.queries.list(here)).items] == ["q-3"]


@both
@scene
async def test_a_tuple_is_a_list_also_the_second_time(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, TWO[language])
        given = {"list": (1, 2), "n": {3: "x"}}
        await hf.queries.answer(here, given, query="q-1")
        given["list"] = "changed by the caller"
        turn = await hf.queries.answer(here, {"list": (1, 2), "n": {3: "x"}}, query="q-1")
        assert [query.id for query in turn.queries] == ["q-2"]
        assert value(await hf.queries.answer(here, 0))[0] == {"list": [1, 2], "n": {"3": "x"}}


@both
@scene
async def test_a_late_answer_never_reaches_a_new_question(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        for round_ in range(1, 4):
            turn = await hf.executions.run(here, ONE[language])
            assert turn.queries[0].id == f"q-{round_}"
            for old in range(1, round_):
                with refused("ANSWER_CONFLICT"):
                    await hf.queries.answer(here, "late", query=f"q-{old}")
            assert value(await hf.queries.answer(here, f"answer {round_}", query=f"q-{round_}")) == f"answer {round_}"


@both
@scene
async def test_an_error_as_an_answer_is_raised_in_the_script(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, CAUGHT[language])
        turn = await hf.queries.fail(here, "the model is busy", code="OVERLOADED")
        assert value(turn) == ["the model is busy", "OVERLOADED"]
        assert value(await hf.queries.fail(here, "the model is busy", code="OVERLOADED", query="q-1")) == value(turn)
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, "fine", query="q-1")
        await hf.executions.run(here, ONE[language])
        turn = await hf.queries.fail(here, "no model")
        assert turn.execution.status == "error"
        assert turn.execution.error is not None
        assert "no model" in turn.execution.error["message"]


@both
@scene
async def test_cancelling_a_query_raises_in_the_script(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, CAUGHT[language])
        turn = await hf.queries.cancel(here, "q-1")
        assert value(turn)[1] == "QUERY_CANCELLED"
        assert value(await hf.queries.cancel(here, "q-1")) == value(turn)  # twice is fine
        assert (await hf.queries.get(here, "q-1")).state == "cancelled"
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, "late", query="q-1")
        with refused("QUERY_NOT_FOUND"):
            await hf.queries.cancel(here, "q-7")
        await hf.executions.run(here, ONE[language])
        await hf.queries.answer(here, "x")
        with refused("ANSWER_CONFLICT"):
            await hf.queries.cancel(here, "q-2")


@both
@scene
async def test_approve_wants_true_or_false(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {"javascript": "await approve('Pay?')", "lua": "return alc.approve('Pay?')"}[language]
        await hf.executions.run(here, source)
        for wrong in ("yes", 1, 0, None, [True]):
            with refused("VALIDATION_ERROR"):
                await hf.queries.answer(here, wrong)
        assert value(await hf.queries.answer(here, False)) is False
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, 0, query="q-1")


@both
@scene
async def test_nobody_answers_a_clock(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {
            "javascript": "await Promise.all([hf.sleep(3600000), ask('?')])",
            "lua": "alc.sleep(3600000)",
        }[language]
        turn = await hf.executions.run(here, source)
        timer = next(query for query in turn.queries if query.kind == "timer")
        with refused("VALIDATION_ERROR"):
            await hf.queries.answer(here, None, query=timer.id)
        with refused("VALIDATION_ERROR"):
            await hf.queries.cancel(here, timer.id)
        if language == "javascript":  # a timer does not make the only question ambiguous
            assert [query.kind for query in (await hf.queries.answer(here, "x")).queries] == ["timer"]
        else:
            with refused("ANSWER_AMBIGUOUS"):
                await hf.queries.answer(here, None)


@all_stores
@scene
async def test_two_callers_at_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, TWO[language])
        turns = await asyncio.gather(*(hf.queries.answer(here, "same", query="q-1") for _ in range(8)))
        assert {query.id for turn in turns for query in turn.queries} == {"q-2"}
        done = await asyncio.gather(*(hf.queries.answer(here, n, query="q-2") for n in range(8)), return_exceptions=True)
        won = [n for n, outcome in enumerate(done) if not isinstance(outcome, BaseException)]
        assert len(won) == 1
        assert {error.code for error in done if isinstance(error, BaseException)} == {"ANSWER_CONFLICT"}
        assert value(done[won[0]]) == ["same", won[0]]
        assert (await hf.executions.list(here)).items[0].metrics.rounds == 2


BAD_PAYLOADS = {
    "javascript": [
        "llm('x', {max_tokens: -1})",
        "llm('x', {temperature: 'hot'})",
        "ask(5)",
        "hf.query('phone', {})",
        "llm({})",
        "llm('x', {timeout_ms: -5})",
    ],
    "lua": [
        "alc.llm('x', {max_tokens = -1})",
        "alc.llm('x', {temperature = 'hot'})",
        "alc.ask(5)",
        "alc.query('phone', {})",
        "alc.query('llm', {})",
        "alc.llm('x', {timeout_ms = -5})",
    ],
}


@both
@scene
async def test_a_wrong_payload_raises_at_the_call(address: str, language: str) -> None:
    wrap = {
        "javascript": "let r; try {{ r = await {} }} catch (e) {{ r = [e.name, e.code || e.name] }} r",
        "lua": "local ok, e = pcall(function() return {} end) return {{'TypeError', type(e) == 'table' and e.code or 'TypeError'}}",
    }[language]
    async with opened(address) as hf:
        here = await session(hf, language)
        for bad in BAD_PAYLOADS[language]:
            turn = await hf.executions.run(here, wrap.format(bad))
            assert value(turn)[0] == "TypeError", bad
            assert value(turn)[1] in ("VALIDATION_ERROR", "TypeError"), bad
            assert turn.execution.metrics.queries == 0
        assert (await hf.queries.list(here, states=[])).items == []
        # One that is wrong does not spoil the others that are asked with it.
        if language == "javascript":
            turn = await hf.executions.run(
                here, "(await Promise.allSettled([llm('x', {stop: 5}), ask('right')])).map(each => each.status)"
            )
            assert [query.payload for query in turn.queries] == [{"question": "right"}]
            settled = value(await hf.queries.answer(here, "yes"))
            assert settled == ["rejected", "fulfilled"]


@both
@scene
async def test_all_options_of_a_model_reach_whoever_answers(address: str, language: str) -> None:
    options = {
        "system": "s",
        "max_tokens": 5,
        "temperature": 0.5,
        "model": "m",
        "stop": ["a"],
        "schema": {"type": "object"},
        "grounded": True,
    }
    source = {
        "javascript": "await llm('p', {system: 's', max_tokens: 5, temperature: 0.5, model: 'm', stop: ['a'], schema: {type: 'object'}, grounded: true, mine: 1})",
        "lua": "return alc.llm('p', {system='s', max_tokens=5, temperature=0.5, model='m', stop={'a'}, schema={type='object'}, grounded=true, mine=1})",
    }[language]
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, source)
        assert turn.queries[0].payload == {"prompt": "p", **options, "mine": 1}
        assert turn.queries[0] == await hf.queries.get(here, "q-1")
        assert value(await hf.queries.answer(here, {"parsed": [1]})) == {"parsed": [1]}


class _Odd:
    pass


@pytest.mark.parametrize(
    "bad",
    [float("nan"), float("inf"), {1, 2}, b"bytes", _Odd(), [[float("-inf")]], "x" * (17 << 20)],
    ids=["nan", "inf", "set", "bytes", "object", "nested", "huge"],
)
@scene
async def test_what_is_not_json_is_refused(sqlite: str, bad: Any) -> None:
    async with opened(sqlite) as hf:
        here = await session(hf, "lua")
        await hf.executions.run(here, ONE["lua"])
        with refused("VALIDATION_ERROR"):
            await hf.queries.answer(here, bad)
        loop: list[Any] = []
        loop.append(loop)
        with refused("VALIDATION_ERROR"):
            await hf.queries.answer(here, loop)
        assert value(await hf.queries.answer(here, "fine")) == "fine"


@all_stores
@scene
async def test_odd_texts_are_kept_as_they_are(address: str, language: str) -> None:
    odd = {"nul": "a\0b", "emoji": "🦀", "quote": "'\"\\", "line": "\u2028", "": "no name", "big": 2**53 - 1, "float": 1e-300}
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, ONE[language])
        turn = await hf.queries.answer(here, odd)
        assert value(turn) == odd
        again = await hf.queries.answer(here, odd, query="q-1")
        assert value(again) == odd
        quoted = {"javascript": "'a\\u0000b'", "lua": "return 'a\\0b'"}[language]
        assert await evaluate(hf, here, quoted) == "a\0b"
        await hf.executions.run(here, {"javascript": "await ask('a\\0b')", "lua": "return alc.ask('a\\0b')"}[language])
        assert (await hf.queries.list(here)).items[0].payload == {"question": "a\0b"}


@both
@scene
async def test_a_large_answer_goes_through(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {"javascript": "(await llm('hello')).length", "lua": "return #alc.llm('hello')"}[language]
        await hf.executions.run(here, source)
        assert value(await hf.queries.answer(here, "x" * (4 << 20))) == 4 << 20
