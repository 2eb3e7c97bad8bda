"""What algocline's hosts do, end to end, in Lua: lines 17 to 34 of its conformance list, restated where its review calls them weak."""

import asyncio
import itertools
from typing import Any
from uuid import UUID

from holdfast import Budget, EffectKind, Function, Holdfast, Settings
from holdfast.domain import PendingFilter, QueryKind, SourceFile, replies
from tests.acceptance.scenes import Clock, evaluate, grants, opened, refused, scene, session, template, value


def reply(turn: Any) -> dict[str, Any]:
    """A turn in the shape that algocline's hosts know."""
    execution = turn.execution
    if execution.status == "ok":
        return replies.completed(execution)
    if execution.status == "paused":
        return replies.needs_response(turn.session.id, turn.queries)
    return (replies.cancelled if execution.status == "cancelled" else replies.failed)(execution)


@scene
async def test_a_value_an_error_and_an_unknown_session(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "lua")
        said = reply(await hf.executions.run(here, "return 1 + 2"))
        assert (said["status"], said["result"], said["session_id"]) == ("completed", 3, str(here))
        assert said["stats"]["auto"]["llm_calls"] == 0
        said = reply(await hf.executions.run(here, "error('deliberately broken')"))
        assert said["status"] == "error"
        assert "deliberately broken" in said["error"]
        assert said["stats"]["auto"]["pauses"] == 0  # algocline leaves the stats of failures out
        said = reply(await hf.executions.run(here, "return print"))
        assert (said["status"], said["result"]) == ("completed", None)
        assert reply(await hf.executions.run(here, "return"))["result"] is None
        assert reply(await hf.executions.run(here, "return 1, 2"))["result"] in (1, [1, 2])
        with refused("SESSION_NOT_FOUND") as unknown:
            await hf.queries.answer(UUID(int=7), "x")
        assert "no such session" in str(unknown.error)


@scene
async def test_one_question(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "lua")
        asked = reply(await hf.executions.run(here, "return alc.llm('What is 2+2?', {system = 'Be brief', max_tokens = 9})"))
        assert asked == {
            "status": "needs_response",
            "session_id": str(here),
            "query_id": "q-1",
            "prompt": "What is 2+2?",
            "system": "Be brief",
            "max_tokens": 9,
        }
        said = reply(await hf.queries.answer(here, "four"))
        assert (said["status"], said["result"]) == ("completed", "four")
        auto = said["stats"]["auto"]
        assert (auto["llm_calls"], auto["pauses"], auto["rounds"]) == (1, 1, 1)
        assert (auto["total_prompt_chars"], auto["total_response_chars"]) == (20, 4)
        flagged = reply(await hf.executions.run(here, "return alc.llm('x', {grounded = true, underspecified = false})"))
        assert flagged["grounded"] is True
        assert "underspecified" not in flagged
        assert (flagged["system"], flagged["max_tokens"]) == (None, 1024)


@scene
async def test_a_batch_and_parallel(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "lua")
        asked = reply(
            await hf.executions.run(here, "return alc.llm_batch({{prompt = 'a', grounded = true}, {prompt = 'b'}, 'c'})")
        )
        assert [query["id"] for query in asked["queries"]] == ["q-1", "q-2", "q-3"]
        assert [query.get("grounded") for query in asked["queries"]] == [True, None, None]
        turn = await hf.queries.answer(here, "B", query="q-2")
        accepted = replies.accepted(turn.session.id, len(turn.queries))
        assert accepted == {"status": "accepted", "session_id": str(here), "remaining": 2}
        said = reply(await hf.queries.answer_many(here, {"q-3": "C", "q-1": "A"}))
        assert said["result"] == ["A", "B", "C"]
        queries = (await hf.queries.list(here, states=[])).items
        assert [entry["response"] for entry in replies.transcript(queries)] == ["A", "B", "C"]


@scene
async def test_print_breaks_nothing_and_is_in_the_log(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "lua")
        turn = await hf.executions.run(here, "for i = 1, 25 do print('line', i) end return 'done'")
        assert value(turn) == "done"
        events = await hf.executions.events(turn.execution.id)
        logs = replies.recent_logs(events)
        assert [line["message"] for line in logs] == [f"line\t{n}" for n in range(6, 26)]  # the newest twenty
        assert await evaluate(hf, here, "return 2") == 2


CACHE = """
local kept, hits, misses = {}, 0, 0
return {
  llm = function(prompt)
    if kept[prompt] then hits = hits + 1 return kept[prompt] end
    misses, kept[prompt] = misses + 1, alc.llm(prompt)
    return kept[prompt]
  end,
  info = function() local entries = 0 for _ in pairs(kept) do entries = entries + 1 end return {hits, misses, entries} end,
}
"""


@scene
async def test_a_cache_is_kept_over_pauses_and_processes(address: str) -> None:
    """Line 31, with a cache of the script's own: `alc.cache` is part of the standard library."""

    async def finish(hf: Holdfast, here: UUID) -> None:
        turn = await hf.queries.answer(here, "A")
        assert value(turn) == ["A", "A", [1, 1, 1]]
        assert turn.execution.metrics.pauses == 1

    async with opened(address) as hf:
        name = await template(hf, "lua", "cached", modules=[SourceFile("cache.lua", CACHE)])
        here = (await hf.sessions.create(name)).id
        source = "local cache = require('cache') local a = cache.llm('p') local b = cache.llm('p') return {a, b, cache.info()}"
        await hf.executions.run(here, source)
        if address.startswith("memory:"):
            await finish(hf, here)
    if not address.startswith("memory:"):
        async with opened(address) as hf:
            await finish(hf, here)


@scene
async def test_two_strategies_on_forks_of_one_session(address: str) -> None:
    """Line 32, by the host: forks in the store, each runs one strategy, results in order. `alc.fork` is part of the standard library."""
    strategies = {
        "single": "return {run = function(ctx) return alc.llm(ctx.task .. ' one') end}",
        "batched": "return {run = function(ctx) return alc.llm_batch({ctx.task .. ' a', ctx.task .. ' b'}) end}",
    }
    async with opened(address) as hf:
        files = [SourceFile(f"{name}.lua", text) for name, text in strategies.items()]
        name = await template(hf, "lua", "forks", modules=files)
        parent = await hf.sessions.create(name)
        await evaluate(hf, parent.id, "seen = 'by all'")
        forks = await hf.sessions.fork_many(parent.id, 2)

        async def run(fork: UUID, strategy: str) -> dict[str, Any]:
            source = f"return {{require('{strategy}').run(ctx), seen}}"
            turn = await hf.executions.strategy(fork, source, {"task": "t"})
            while turn.execution.status == "paused":
                answers = {query.id: query.payload["prompt"].upper() for query in turn.queries}
                turn = await hf.queries.answer_many(fork, answers)
            return {"strategy": strategy, "ok": turn.execution.status == "ok", "result": value(turn)}

        found = await asyncio.gather(*(run(fork.id, strategy) for fork, strategy in zip(forks, strategies, strict=True)))
        assert found == [
            {"strategy": "single", "ok": True, "result": ["T ONE", "by all"]},
            {"strategy": "batched", "ok": True, "result": [["T A", "T B"], "by all"]},
        ]


@scene
async def test_what_was_said_is_kept_as_it_goes(address: str) -> None:
    """Line 34 restated: prompts and answers are part of each commit. There is no file that could fail to be written at the end."""
    async with opened(address) as hf:
        here = await session(hf, "lua")
        turn = await hf.executions.run(here, "return alc.llm('one') .. alc.llm('two')")
        await hf.queries.answer(here, "A")
        queries = (await hf.queries.list(here, states=[])).items
        said = [(query.id, query.payload["prompt"], query.answer and query.answer.value) for query in queries]
        assert said == [("q-1", "one", "A"), ("q-2", "two", None)]  # while it waits
        done = reply(await hf.queries.answer(here, "B"))
        assert (done["status"], "transcript_warning" in done) == ("completed", False)
        kinds = [event.type for event in await hf.executions.events(turn.execution.id)]
        assert (kinds.count("query"), kinds.count("answer")) == (2, 2)


@scene
async def test_counters_of_a_host_are_counted_once_each(address: str) -> None:
    counter = itertools.count(1)
    functions = [Function("state.incr", lambda: next(counter), EffectKind.ONCE)]
    async with opened(address, functions=functions) as hf:
        name = await template(hf, "lua", "t", capabilities=grants(functions))
        made = [(await hf.sessions.create(name)).id for _ in range(2)]
        turns = await asyncio.gather(*(hf.executions.run(each, "return require('state').incr()") for each in made))
        assert {value(turn) for turn in turns} == {1, 2}


@scene
async def test_ids_are_distinct_and_cancelled_has_stats(address: str) -> None:
    async with opened(address) as hf:
        name = await template(hf, "lua")
        assert len({(await hf.sessions.create(name)).id for _ in range(10)}) == 10
        here = (await hf.sessions.create(name)).id
        turn = await hf.executions.run(here, "return alc.llm('x')")
        await hf.executions.cancel(turn.execution.id)
        said = reply(await hf.executions.turn(turn.execution.id))
        assert said["status"] == "cancelled"
        assert said["stats"]["auto"]["llm_calls"] == 1


async def _status(hf: Holdfast, session_id: Any, now: int, **options: Any) -> dict[str, Any]:
    execution = (await hf.executions.list(session_id, limit=1)).items
    history = (await hf.queries.list(session_id, states=[])).items
    logs = list(await hf.executions.events(execution[0].id)) if execution else []
    waiting = [query for query in history if query.state == "open"]
    return replies.snapshot(
        await hf.sessions.get(session_id), execution[0] if execution else None, waiting, history, logs, now=now, **options
    )


@scene
async def test_status_of_what_waits_runs_and_has_ended(address: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        assert replies.status([]) == {"active_sessions": 0, "sessions": []}
        here = await session(hf, "lua")
        fresh = await _status(hf, here, clock.now)
        assert (fresh["state"], fresh["started_at"], fresh["last_activity_at"]) == ("ready", clock.now, clock.now)
        source = "print('hi') local a = alc.llm('あいうえお', {system = 's'}) return alc.llm('second ' .. a)"
        await hf.executions.run(here, source, budget=Budget(max_llm_calls=5, max_tokens=100))
        clock.now += 500
        seen = await _status(hf, here, clock.now, pending_filter=PendingFilter.parse("meta"))
        assert (seen["state"], seen["phase"], seen["pending_queries"]) == ("paused", "paused", 1)
        assert seen["pending"] == [{"query_id": "q-1", "max_tokens": 1024}]
        assert seen["metrics"]["elapsed_ms"] == 500
        assert seen["metrics"]["tokens"]["current_query"]["query_id"] == "q-1"
        assert seen["metrics"]["budget_remaining"]["llm_calls"] == 4
        assert [line["message"] for line in seen["metrics"]["recent_logs"]] == ["hi"]
        assert "conversation_history" not in seen["metrics"]
        short = PendingFilter.parse({"prompt": {"mode": "preview", "chars": 3}})
        assert (await _status(hf, here, clock.now, pending_filter=short))["pending"] == [{"prompt_preview": "あいう"}]
        full = (await _status(hf, here, clock.now, pending_filter=PendingFilter.parse("full")))["pending"][0]
        assert (full["prompt"], full["system"], "prompt_preview" in full) == ("あいうえお", "s", False)
        await hf.queries.answer(here, "A")
        await hf.queries.answer(here, "B")
        ended = await _status(hf, here, clock.now, include_history=True)
        assert (ended["state"], ended["phase"]) == ("terminal", "completed")
        assert ended["metrics"]["tokens"]["current_query"] is None
        history = ended["metrics"]["conversation_history"]
        assert [(h["query_id"], h["response"]) for h in history] == [("q-1", "A"), ("q-2", "B")]
        assert all(h["started_at"] <= h["completed_at"] for h in history)
        # What runs can be seen too.
        turn = await hf.executions.run(here, "while true do end", background=True)
        running = await _status(hf, here, clock.now)
        assert (running["state"], running["phase"]) == ("running", "running")
        await hf.executions.cancel(turn.execution.id)
        assert (await _status(hf, here, clock.now))["phase"] == "cancelled"
        assert replies.status([running])["active_sessions"] == 1
        # Only a timer: nobody is asked.
        turn = await hf.executions.run(here, "alc.sleep(1000000)")
        said = reply(turn)
        assert (said["status"], said["wake_at"]) == ("waiting", turn.queries[0].payload["wake_at"])
        assert turn.queries[0].kind is QueryKind.TIMER
