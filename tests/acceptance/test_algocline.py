"""What algocline's hosts do, end to end, by `hf.strategies`: lines 17 to 44 of its conformance list as far as a host sees them, restated where
its review calls them weak, in Lua and in JavaScript.
"""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import Budget, Holdfast, PackagePath, Response, Settings
from tests.acceptance.scenes import Clock, opened, refused, scene

both = pytest.mark.parametrize("language", ["lua", "javascript"])


async def run(hf: Holdfast, language: str, lua: str, javascript: str, **options: Any) -> dict[str, Any]:
    """The same program in one of the two languages."""
    return await hf.strategies.run(lua if language == "lua" else javascript, language=language, **options)


async def answer(hf: Holdfast, asked: dict[str, Any], *said: Any) -> dict[str, Any]:
    """Answers what was asked, in the order of asking."""
    ids = [query["id"] for query in asked["queries"]] if "queries" in asked else [asked["query_id"]]
    return await hf.strategies.resume(
        asked["session_id"], [Response(value, query) for query, value in zip(ids, said, strict=True)]
    )


# ---- 6.2: what a host is told ------------------------------------------------------------------------------------------------------


@both
@scene
async def test_line_28_a_value_an_error_and_an_unknown_session(address: str, language: str) -> None:
    async with opened(address) as hf:
        said = await run(hf, language, "return 1 + 2", "1 + 2")
        assert (said["status"], said["result"]) == ("completed", 3)
        assert said["stats"]["auto"]["llm_calls"] == 0
        said = await run(hf, language, "error('deliberately broken')", "throw new Error('deliberately broken')")
        assert said["status"] == "error"
        assert "deliberately broken" in said["error"]
        assert said["session_id"]
        assert said["stats"]["auto"]["pauses"] == 0  # algocline leaves both out
        said = await run(hf, language, "return", "undefined")
        assert (said["status"], said["result"]) == ("completed", None)
        said = await run(hf, language, "return ctx.x", "ctx.x")
        assert (said["status"], said["result"]) == ("completed", None)  # restated: without a ctx it is empty
        for call in (hf.strategies.outcome, hf.strategies.status, hf.strategies.cancel):
            with refused("SESSION_NOT_FOUND"):
                await call(UUID(int=7))
        with refused("SESSION_NOT_FOUND"):
            await hf.strategies.resume(UUID(int=7), [Response("x")])


@both
@scene
async def test_line_29_one_question_and_its_answer_without_an_id(address: str, language: str) -> None:
    async with opened(address) as hf:
        asked = await run(
            hf,
            language,
            "return alc.llm('What is 2+2?', {system = 'Be brief', max_tokens = 9})",
            "await hf.llm('What is 2+2?', {system: 'Be brief', max_tokens: 9})",
        )
        assert asked == {
            "status": "needs_response",
            "session_id": asked["session_id"],
            "query_id": "q-1",
            "prompt": "What is 2+2?",
            "system": "Be brief",
            "max_tokens": 9,
        }
        said = await hf.strategies.resume(asked["session_id"], [Response("four")])
        assert (said["status"], said["result"], said["session_id"]) == ("completed", "four", asked["session_id"])
        auto = said["stats"]["auto"]
        assert (auto["llm_calls"], auto["pauses"], auto["rounds"]) == (1, 1, 1)
        assert (auto["total_prompt_chars"], auto["total_response_chars"]) == (20, 4)
        flagged = await run(
            hf,
            language,
            "return alc.llm('x', {grounded = true, underspecified = false})",
            "await hf.llm('x', {grounded: true, underspecified: false})",
        )
        assert flagged["grounded"] is True
        assert "underspecified" not in flagged
        assert (flagged["system"], flagged["max_tokens"]) == (None, 1024)


@both
@scene
async def test_line_30_a_batch_is_one_round_whatever_the_order_of_answers(address: str, language: str) -> None:
    async with opened(address) as hf:
        asked = await run(
            hf,
            language,
            "return alc.llm_batch({{prompt = 'a', grounded = true}, {prompt = 'b'}, {prompt = 'c'}})",
            "await hf.llmBatch([{prompt: 'a', grounded: true}, {prompt: 'b'}, {prompt: 'c'}])",
        )
        session = asked["session_id"]
        assert [query["id"] for query in asked["queries"]] == ["q-1", "q-2", "q-3"]
        assert [query.get("grounded") for query in asked["queries"]] == [True, None, None]
        said = await hf.strategies.resume(session, [Response("B", "q-2")])
        assert said == {"status": "accepted", "session_id": session, "remaining": 2}
        again = await hf.strategies.resume(session, [Response("B", "q-2")])  # the host had not heard of it
        assert (again["status"], [query["id"] for query in again["queries"]]) == ("needs_response", ["q-1", "q-3"])
        said = await hf.strategies.resume(session, [Response("C", "q-3"), Response("A", "q-1")])
        assert said["result"] == ["A", "B", "C"]
        asked = await run(
            hf,
            language,
            "return alc.parallel({'x', 'y'}, function(item, i) return item .. i end)",
            "await hf.parallel(['x', 'y'], (item, i) => item + (i + 1))",
        )
        assert [query["prompt"] for query in asked["queries"]] == ["x1", "y2"]
        assert (await answer(hf, asked, "X", "Y"))["result"] == ["X", "Y"]


@both
@scene
async def test_line_31_the_cache_asks_once_and_lasts_over_processes(sqlite: str, language: str) -> None:
    async with opened(sqlite) as hf:
        asked = await run(
            hf,
            language,
            "local a = alc.cache('p') local b = alc.cache('p') local i = alc.cache_info() return {a, b, i.hits, i.misses, i.entries}",
            "const a = await hf.cache('p'), b = await hf.cache('p'), i = hf.cacheInfo(); [a, b, i.hits, i.misses, i.entries]",
        )
    async with opened(sqlite) as hf:
        said = await answer(hf, asked, "A")
        assert said["result"] == ["A", "A", 1, 1, 1]
        assert said["stats"]["auto"]["pauses"] == 1


PACKAGES = {
    "one/init.lua": "return {meta = {name = 'one'}, run = function(ctx) return alc.llm(ctx.task .. ' one') end}",
    "two/init.lua": "return {meta = {name = 'two'}, run = function(ctx) return alc.llm_batch({ctx.task .. ' a', ctx.task .. ' b'}) end}",
    "bad/init.lua": "return {meta = {name = 'bad'}, run = function(ctx) error('out of luck') end}",
    "one/init.js": "exports.meta = {name: 'one'}; exports.run = (ctx) => hf.llm(ctx.task + ' one');",
    "two/init.js": "export const meta = {name: 'two'}; export const run = (ctx) => hf.llmBatch([ctx.task + ' a', ctx.task + ' b']);",
    "bad/init.js": "exports.meta = {name: 'bad'}; exports.run = () => { throw new Error('out of luck'); };",
}


@pytest.fixture
def packages(tmp_path: Path) -> PackagePath:
    for name, text in PACKAGES.items():
        (tmp_path / "packages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "packages" / name).write_text(text)
    return PackagePath.of(tmp_path / "packages")


@both
@scene
async def test_line_32_a_fork_of_packages_asks_in_one_round_and_joins_in_order(
    address: str, language: str, packages: PackagePath
) -> None:
    async with opened(address, packages=packages) as hf:
        asked = await run(
            hf,
            language,
            "return alc.fork({'one', 'two', 'bad'}, ctx)",
            "await hf.fork(['one', 'two', 'bad'], ctx)",
            ctx={"task": "t"},
        )
        assert [query["id"] for query in asked["queries"]] == ["f-1-0-2", "f-1-1-2", "f-1-1-3"]
        said = await hf.strategies.resume(asked["session_id"], [Response("T B", "f-1-1-3")])
        assert (said["status"], said["remaining"]) == ("accepted", 2)
        said = await hf.strategies.resume(asked["session_id"], [Response("T ONE", "f-1-0-2"), Response("T A", "f-1-1-2")])
        assert said["status"] == "completed", said
        one, two, bad = said["result"]
        assert one == {"strategy": "one", "ok": True, "result": "T ONE"}
        assert two == {"strategy": "two", "ok": True, "result": ["T A", "T B"]}
        assert (bad["strategy"], bad["ok"]) == ("bad", False)
        assert "out of luck" in bad["error"]
        assert said["stats"]["auto"]["llm_calls"] == 3
        whole = await hf.transcripts.get(said["session_id"])
        assert {entry["query_id"]: entry["response"] for entry in whole["transcript"]} == {
            "f-1-0-2": "T ONE",
            "f-1-1-2": "T A",
            "f-1-1-3": "T B",
        }
        children = [found for found in (await hf.sessions.list()).items if found.family is not None]
        assert len(children) == 3


@both
@scene
async def test_line_33_counters_of_two_runs_and_print(address: str, language: str) -> None:
    async with opened(address) as hf:
        work = [run(hf, language, "return alc.state.incr('n')", "hf.state.incr('n')") for _ in range(2)]
        assert {said["result"] for said in await asyncio.gather(*work)} == {1, 2}
        said = await run(hf, language, "print('a', 1) return 2", "console.log('a', 1); 2")
        assert said["result"] == 2


@both
@scene
async def test_line_34_restated_what_was_said_is_kept_as_it_goes(address: str, language: str) -> None:
    """There is no file that could fail to be written at the end."""
    async with opened(address) as hf:
        asked = await run(
            hf,
            language,
            "return alc.llm('one') .. alc.llm('two')",
            "(await hf.llm('one')) + (await hf.llm('two'))",
            name="both",
        )
        about = Response("A", usage={"prompt_tokens": 3, "completion_tokens": 1}, model="m-1", finish_reason="stop")
        await hf.strategies.resume(asked["session_id"], [about])
        whole = await hf.transcripts.get(asked["session_id"])
        assert (whole["strategy"], whole["status"], whole["result"]) == ("both", "paused", None)
        first, second = whole["transcript"]
        assert (first["query_id"], first["prompt"], first["response"], first["state"]) == ("q-1", "one", "A", "answered")
        assert (first["model"], first["finish_reason"], first["usage"]["prompt_tokens"]) == ("m-1", "stop", 3)
        assert (second["response"], second["state"]) == (None, "open")
        done = await hf.strategies.resume(asked["session_id"], [Response("B")])
        assert (done["status"], done["result"], "transcript_warning" in done) == ("completed", "AB", False)
        assert (await hf.transcripts.get(asked["session_id"]))["result"] == "AB"


# ---- status ------------------------------------------------------------------------------------------------------------------------


@both
@scene
async def test_lines_25_to_27_status_of_what_waits_runs_and_has_ended(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        status = hf.strategies.status
        assert await status() == {"active_sessions": 0, "sessions": []}
        asked = await run(
            hf,
            language,
            "alc.log('odd', 'hi') alc.progress(1, 3, 'now') local a = alc.llm('あいうえお', {system = 's'}) return alc.llm('second ' .. a)",
            "hf.log('odd', 'hi'); hf.progress(1, 3, 'now'); const a = await hf.llm('あいうえお', {system: 's'}); await hf.llm('second ' + a)",
            name="looked at",
            budget=Budget(max_llm_calls=5, max_tokens=100),
        )
        session = asked["session_id"]
        clock.now += 500
        seen = (await status(pending_filter="meta"))["sessions"]
        assert len(seen) == 1
        assert (seen[0]["session_id"], seen[0]["strategy"]) == (session, "looked at")
        assert (seen[0]["state"], seen[0]["phase"], seen[0]["pending_queries"]) == ("paused", "paused", 1)
        assert seen[0]["pending"] == [{"query_id": "q-1", "max_tokens": 1024}]
        metrics = seen[0]["metrics"]
        assert metrics["elapsed_ms"] == 500
        assert metrics["tokens"]["current_query"]["query_id"] == "q-1"
        assert metrics["budget_remaining"]["llm_calls"] == 4
        assert metrics["progress"] == {"step": 1, "total": 3, "message": "now"}
        assert [(line["level"], line["source"], line["message"]) for line in metrics["recent_logs"]] == [
            ("odd", "alc.log", "hi")
        ]
        assert "conversation_history" not in metrics
        short = {"prompt": {"mode": "preview", "chars": 3}}
        assert (await status(session, pending_filter=short))["pending"] == [{"prompt_preview": "あいう"}]
        full = (await status(session, pending_filter="full"))["pending"][0]
        assert (full["prompt"], full["system"], "prompt_preview" in full) == ("あいうえお", "s", False)
        for wrong, text in (("META", "unknown pending_filter preset 'META'"), (True, "got bool"), ([], "got array")):
            with refused("VALIDATION_ERROR") as error:
                await status(pending_filter=wrong)
            assert text in str(error.error)
        await hf.strategies.resume(session, [Response("A")])
        await hf.strategies.resume(session, [Response("B")])
        ended = await status(session, include_history=True)
        assert (ended["state"], ended["phase"]) == ("terminal", "completed")
        assert ended["metrics"]["tokens"]["current_query"] is None
        history = ended["metrics"]["conversation_history"]
        assert [(said["query_id"], said["response"]) for said in history] == [("q-1", "A"), ("q-2", "B")]
        assert all(said["started_at"] <= said["completed_at"] for said in history)
        assert (await status())["active_sessions"] == 0


@both
@scene
async def test_lines_21_and_23_restated_a_run_is_cancelled_by_somebody_and_never_by_its_age(
    address: str, language: str
) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        asked = await run(hf, language, "return alc.llm('x')", "await hf.llm('x')")
        clock.now += 1000 * 3600 * 24 * 365
        await hf.sweep()
        assert (await hf.strategies.outcome(asked["session_id"]))["status"] == "needs_response"
        said = await hf.strategies.cancel(asked["session_id"])
        assert (said["status"], said["stats"]["auto"]["llm_calls"]) == ("cancelled", 1)
        assert (await hf.strategies.cancel(asked["session_id"]))["status"] == "cancelled"
        with refused("ANSWER_CONFLICT"):
            await hf.strategies.resume(asked["session_id"], [Response("late", "q-1")])


@both
@scene
async def test_lines_36_to_38_a_budget_is_hard_and_can_be_seen(address: str, language: str) -> None:
    async with opened(address) as hf:
        asked = await run(
            hf,
            language,
            """
            local before = alc.budget_remaining()
            alc.llm('one')
            local ok, why = pcall(alc.llm_batch, {'two', 'three'})
            return {before.llm_calls, alc.budget_remaining().llm_calls, before.tokens == nil, ok, tostring(why), alc.budget_check()}
            """,
            """
            const before = hf.budgetRemaining();
            await hf.llm('one');
            const why = await hf.llmBatch(['two', 'three']).then(() => 'asked', (error) => error.message);
            [before.llm_calls, hf.budgetRemaining().llm_calls, before.tokens === null, why === 'asked', why, hf.budgetCheck()]
            """,
            ctx={"budget": {"max_llm_calls": 2}},
        )
        said = await answer(hf, asked, "1")
        assert said["status"] == "completed", said
        assert said["result"][:4] == [2, 1, True, False]
        assert "budget_exceeded: max_llm_calls (2) reached (1 used" in said["result"][4]
        assert said["result"][5] is True
        assert said["stats"]["auto"]["budget"] == {"max_llm_calls": 2}
        said = await run(hf, language, "return alc.llm('x')", "await hf.llm('x')", ctx={"budget": {"max_llm_calls": 0}})
        assert said["status"] == "error"
        assert "budget_exceeded: max_llm_calls (0) reached" in said["error"]
        said = await run(
            hf,
            language,
            "return {alc.budget_remaining() == nil, alc.budget_check()}",
            "[hf.budgetRemaining() === null, hf.budgetCheck()]",
        )
        assert said["result"] == [True, True]  # restated: without a budget algocline raises
        with refused("VALIDATION_ERROR"):
            await run(hf, language, "return 1", "1", ctx={"budget": {"max_llm_calls": -1}})


@both
@scene
async def test_line_44_custom_stats_are_in_the_reply_also_of_failures(address: str, language: str) -> None:
    async with opened(address) as hf:
        said = await run(
            hf,
            language,
            "alc.stats.record('a', 1) alc.stats.record('a', {2}) return {alc.stats.get('a'), alc.stats.get('b') == nil}",
            "hf.stats.record('a', 1); hf.stats.record('a', [2]); [hf.stats.get('a'), hf.stats.get('b') == null]",
        )
        assert (said["result"], said["stats"]["custom"]) == ([[2], True], {"a": [2]})
        said = await run(hf, language, "alc.stats.record('a', 1) error('x')", "hf.stats.record('a', 1); throw new Error('x')")
        assert (said["status"], said["stats"]["custom"]) == ("error", {"a": 1})
