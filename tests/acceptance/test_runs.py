"""A run from its start to its end: results, events, metrics, files, strategies, templates, what a script may reach."""

import asyncio
import time

import pytest

from holdfast import Budget, Capability, EffectKind, Function, Limits, SourceFile, StartupFile, Tool
from holdfast.domain import Answer, ExecutionKind, Given, QueryKind
from tests.acceptance.scenes import all_stores, both, evaluate, grants, opened, refused, scene, session, template, value

TRIP = {
    "javascript": "const city = await ask('Where to?'); console.log('going to', city); const plan = await llm('Plan ' + city); ({city, plan})",
    "lua": "local city = alc.ask('Where to?'); print('going to', city); local plan = alc.llm('Plan ' .. city); return {city = city, plan = plan}",
}


@all_stores
@scene
async def test_a_script_runs_pauses_is_answered_and_ends(address: str, language: str) -> None:
    async with opened(address) as hf:
        trip = await session(hf, language)
        turn = await hf.executions.run(trip, TRIP[language])
        assert (turn.session.state, turn.execution.status) == ("paused", "paused")
        assert [(q.id, q.kind, q.payload) for q in turn.queries] == [("q-1", QueryKind.ASK, {"question": "Where to?"})]

        turn = await hf.queries.answer(trip, "Lima")
        assert [(q.id, q.kind, q.payload["prompt"]) for q in turn.queries] == [("q-2", QueryKind.LLM, "Plan Lima")]

        turn = await hf.queries.answer(trip, "Walk")
        assert value(turn) == {"city": "Lima", "plan": "Walk"}
        assert turn.queries == []
        assert (turn.session.state, turn.execution.kind) == ("ready", ExecutionKind.REPL)
        assert turn.execution == await hf.executions.get(turn.execution.id)
        assert turn.session == await hf.sessions.get(trip)
        assert [each.id for each in (await hf.executions.list(trip, status="ok")).items] == [turn.execution.id]
        assert (await hf.executions.list(trip, status="paused")).items == []


@both
@scene
async def test_events_are_contiguous_typed_timed_and_paged(address: str, language: str) -> None:
    async with opened(address) as hf:
        trip = await session(hf, language)
        begun = time.time() * 1000
        turn = await hf.executions.run(trip, TRIP[language])
        await hf.queries.answer(trip, "Lima")
        await hf.queries.answer(trip, "Walk")
        events = await hf.executions.events(turn.execution.id)
        ended = time.time() * 1000
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.type for event in events] == [
            *("input_echo", "query", "checkpoint"),
            *("answer", "console", "query", "checkpoint"),
            *("answer", "value", "checkpoint"),
        ]
        assert all(type(event.ts) is int and begun - 1 <= event.ts <= ended + 1 for event in events)
        assert [event.ts for event in events] == sorted(event.ts for event in events)
        assert events[0].payload == {"text": TRIP[language]}
        assert events[1].payload == {"query_id": "q-1", "kind": "ask"}
        assert events[3].payload == {"query_id": "q-1", "state": "answered"}
        assert "going to" in events[4].payload["text"]
        assert events[-2].payload["json"] == {"city": "Lima", "plan": "Walk"}
        assert (await hf.executions.events(turn.execution.id, after_seq=4, limit=3)) == events[4:7]
        assert list(await hf.executions.events(turn.execution.id, after_seq=len(events))) == []
        again = await hf.executions.run(trip, "1")
        assert [event.seq for event in await hf.executions.events(again.execution.id)] == [1, 2, 3]
        with refused("EXECUTION_NOT_FOUND"):
            await hf.executions.events("3f2504e0-4f89-41d3-9a0c-0305e82c3301")


@both
@scene
async def test_errors_of_scripts_end_the_execution_and_leave_the_session(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {"javascript": "kept = 1; throw new TypeError('so wrong')", "lua": "kept = 1; error('so wrong')"}[language]
        turn = await hf.executions.run(here, source)
        assert turn.execution.status == "error"
        assert turn.execution.error is not None
        assert "so wrong" in turn.execution.error["message"]
        assert turn.session.state == "ready"
        events = await hf.executions.events(turn.execution.id)
        assert [event.type for event in events] == ["input_echo", "exception", "checkpoint"]
        assert "so wrong" in events[1].payload["message"]
        assert await evaluate(hf, here, {"javascript": "kept", "lua": "return kept"}[language]) == 1


@both
@scene
async def test_metrics_count_what_an_execution_used(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {
            "javascript": "const a = await Promise.all([llm('12345678', {system: 'abcd'}), llm('あいう')]); await ask('?'); a.length",
            "lua": "local a = alc.llm_batch({{prompt='12345678', system='abcd'}, {prompt='あいう'}}); alc.ask('?'); return #a",
        }[language]
        turn = await hf.executions.run(here, source)
        metrics = turn.execution.metrics
        assert (metrics.steps, metrics.pauses, metrics.rounds, metrics.queries, metrics.llm_calls) == (1, 1, 0, 2, 2)
        assert metrics.prompt_chars == 8 + 4 + 3
        assert metrics.prompt_tokens.as_dict() == {"tokens": 2 + 1 + 2, "source": "estimated"}
        assert metrics.answer_tokens.as_dict() == {"tokens": 0, "source": "definite"}

        await asyncio.sleep(0.02)
        await hf.queries.answer(here, "x" * 8, query="q-1", usage={"prompt_tokens": 30, "completion_tokens": 7})
        turn = await hf.queries.answer(here, "y" * 40, query="q-2")
        metrics = turn.execution.metrics
        assert metrics.prompt_tokens.as_dict() == {"tokens": 30 + 2, "source": "estimated"}
        assert metrics.answer_tokens.as_dict() == {"tokens": 7 + 10, "source": "estimated"}
        assert metrics.answer_chars == 48

        turn = await hf.queries.answer(here, "fine")
        metrics = turn.execution.metrics
        assert value(turn) == 2
        assert (metrics.steps, metrics.pauses, metrics.rounds, metrics.queries, metrics.llm_calls) == (4, 3, 3, 3, 2)
        assert metrics.elapsed_ms >= 20
        assert 0 < metrics.cpu_us < 10_000_000
        assert metrics.peak_memory > 1 << 20
        sizes = [node.size for node in await hf.sessions.checkpoints(here)]
        assert metrics.checkpoint_bytes == sum(sizes) > 0
        assert (turn.session.llm_calls, turn.session.tokens) == (2, 32 + 17)

        turn = await hf.executions.run(here, SOLE[language])
        turn = await hf.queries.answer(here, "hi", usage={"prompt_tokens": 5, "completion_tokens": 1})
        assert turn.execution.metrics.total_tokens.as_dict() == {"tokens": 6, "source": "provided"}
        assert turn.execution.metrics.stats(None)["auto"]["llm_calls"] == 1


SOLE = {"javascript": "await llm('hello')", "lua": "return alc.llm('hello')"}


@scene
async def test_usage_that_makes_no_sense_is_refused(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, "lua")
        await hf.executions.run(here, SOLE["lua"])
        many = {f"n{number}": 1 for number in range(21)}
        for usage in ({"prompt_tokens": -1}, {"prompt_tokens": 1.5}, {"": 1}, {"prompt_tokens": True}, {1: 1}, many, [1]):
            with refused("VALIDATION_ERROR"):
                await hf.queries.answer(here, "x", usage=usage)
        for about in ({"model": 7}, {"model": "x" * 1001}, {"finish_reason": ["stop"]}):
            with refused("VALIDATION_ERROR"):
                await hf.queries.answer(here, "x", **about)
        assert value(await hf.queries.answer(here, "x")) == "x"


@all_stores
@scene
async def test_an_answer_says_who_gave_it_and_at_what_cost(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, SOLE[language])
        about = {"usage": {"prompt_tokens": 3, "cached_tokens": 2}, "model": "small", "finish_reason": "length"}
        await hf.queries.answer(here, "x", **about)
        assert (await hf.queries.get(here, 1)).answer.as_dict() == {"value": "x"} | about
        await hf.queries.answer(here, "x", query="q-1", model="another")  # the same answer, whoever gives it
        await hf.executions.run(here, SOLE[language])
        given = [Given(None, Answer("y", model="large"))]
        assert value(await hf.queries.answer_all(here, given)) == "y"
        assert (await hf.queries.get(here, 2)).answer.model == "large"
        for wrong in ([], [Given(None, Answer(model=7))], [("q-1", "x")]):
            with refused("VALIDATION_ERROR"):
                await hf.queries.answer_all(here, wrong)


@both
@scene
async def test_background_returns_at_once_and_wait_waits(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        loop = {
            "javascript": "let n = 0; const end = Date.now; for (let i = 0; i < 4e6; i++) n += i; await ask('done?')",
            "lua": "local n = 0 for i = 1, 4000000 do n = n + i end return alc.ask('done?')",
        }[language]
        turn = await hf.executions.run(here, loop, background=True)
        assert turn.execution.status == "running"
        assert (await hf.executions.get(turn.execution.id)).status == "running"
        assert (await hf.sessions.get(here)).state == "running"
        turn = await hf.executions.wait(turn.execution.id, timeout=20)
        assert [query.payload["question"] for query in turn.queries] == ["done?"]
        await hf.queries.answer(here, "yes")
        turn = await hf.executions.wait(turn.execution.id)
        assert value(turn) == "yes"
        slept = await hf.executions.run(here, {"javascript": "await hf.sleep(1e6)", "lua": "alc.sleep(1000000)"}[language])
        with pytest.raises(TimeoutError):
            await hf.executions.wait(slept.execution.id, timeout=0.05)


@both
@scene
async def test_files_have_a_path_args_and_modules(address: str, language: str) -> None:
    modules = {
        "javascript": [SourceFile("lib/tax.js", "export const withTax = c => c * 2; export const where = import.meta.url")],
        "lua": [SourceFile("tax", "return {with_tax = function(c) return c * 2 end}")],
    }[language]
    source = {
        "javascript": "import { withTax } from './lib/tax.js';\nexport default [withTax(__ARGS__.cents), __ARGS__.list]",
        "lua": "local tax = require('tax')\nreturn {tax.with_tax(__ARGS__.cents), __ARGS__.list}",
    }[language]
    broken = {"javascript": "\n\nmissing()", "lua": "\n\nmissing()"}[language]
    path = {"javascript": "main.js", "lua": "main.lua"}[language]
    async with opened(address) as hf:
        here = await session(hf, language, modules=modules)
        turn = await hf.executions.run_file(here, source, path, {"cents": 21, "list": [1, None, "é"][:1]})
        assert value(turn) == [42, [1]]
        assert (turn.execution.kind, turn.execution.path) == ("run_file", path)
        assert turn.execution.args == {"cents": 21, "list": [1]}
        turn = await hf.executions.run_file(here, broken, path)
        assert turn.execution.error is not None
        assert f"{path}:3" in turn.execution.error["stack"] + turn.execution.error["message"]
        for bad in ("", "  ", None):
            with refused("VALIDATION_ERROR"):
                await hf.executions.run_file(here, "1", bad)
        with refused("VALIDATION_ERROR"):
            await hf.executions.run_file(here, "1", "x", {1, 2})
        with refused("VALIDATION_ERROR"):
            await hf.executions.run(here, b"1")


@both
@scene
async def test_a_strategy_finds_its_input_in_ctx(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {
            "javascript": "const answer = await llm('Solve ' + ctx.task); export default { answer, again: globalThis.ctx.task }",
            "lua": "local answer = alc.llm('Solve ' .. ctx.task); return {answer = answer, again = ctx.task}",
        }[language]
        turn = await hf.executions.strategy(here, source, {"task": "it", "budget": {"max_llm_calls": 3}})
        assert turn.execution.kind == "strategy"
        assert turn.execution.budget == Budget(max_llm_calls=3)
        assert value(await hf.queries.answer(here, "ok")) == {"answer": "ok", "again": "it"}
        # Lines of a strategy count as they are written.
        turn = await hf.executions.strategy(here, "\nmissing()")
        assert turn.execution.error is not None
        assert "strategy:2" in turn.execution.error["stack"] + turn.execution.error["message"]
        # Without one, ctx is an empty object: not null, not missing.
        empty = {"javascript": "export default ctx.nothing === undefined", "lua": "return ctx.nothing == nil"}[language]
        assert value(await hf.executions.strategy(here, empty)) is True
        for bad in ({"budget": 3}, {"budget": {"calls": 1}}, {"budget": {"max_tokens": -1}}):
            with refused("VALIDATION_ERROR"):
                await hf.executions.strategy(here, empty, bad)
        with refused("VALIDATION_ERROR"):
            await hf.executions.strategy(here, empty, [1])


@both
@scene
async def test_libraries_and_startup_files_run_when_they_say(address: str, language: str) -> None:
    js = language == "javascript"
    library = SourceFile(
        "greet", "function greet(n) { return 'Hello ' + n }" if js else "function greet(n) return 'Hello ' .. n end"
    )
    baked = StartupFile("baked", "var made = [1]; var chance = Math.random()" if js else "made = {1}; chance = math.random()")
    each = StartupFile("each", "made.push(Math.random())" if js else "table.insert(made, math.random())", "session")
    second = StartupFile("second", "var who = hf.call('world.name')" if js else "who = alc.call('world.name')", "session")
    functions = [Function("world.name", lambda: "Ada", EffectKind.READ)]
    look = "[greet(who), made, chance]" if js else "return {greet(who), made, chance}"
    async with opened(address, functions=functions) as hf:
        name = await template(
            hf, language, "t", libraries=[library], startup=[baked, each, second], capabilities=grants(functions)
        )
        seen = []
        for _ in range(2):
            made = await hf.sessions.create(name)
            assert made.state == "ready"
            startups = (await hf.executions.list(made.id)).items
            assert [(e.kind, e.path, e.status) for e in startups] == [("startup", "second", "ok"), ("startup", "each", "ok")]
            seen.append(await evaluate(hf, made.id, look))
        (hello, first, chance), (_, other, same) = seen
        assert hello == "Hello Ada"
        assert first[0] == other[0] == 1
        assert first[1] != other[1]  # each session draws its own
        assert chance == same  # but what the template drew is part of it


@both
@scene
async def test_a_startup_file_may_ask(address: str, language: str) -> None:
    js = language == "javascript"
    asks = StartupFile("asks", "var who = await ask('Who?')" if js else "who = alc.ask('Who?')", "session")
    after = StartupFile("after", "var hello = 'Hello ' + who" if js else "hello = 'Hello ' .. who", "session")
    async with opened(address) as hf:
        name = await template(hf, language, "t", startup=[asks, after])
        made = await hf.sessions.create(name)
        assert made.state == "paused"
        with refused("SESSION_BUSY"):
            await hf.executions.run(made.id, "1")
        waiting = asyncio.ensure_future(hf.executions.run(made.id, "hello" if js else "return hello", wait=True))
        turn = await hf.queries.answer(made.id, "Ada")
        assert turn.execution.status == "ok"
        assert value(await waiting) == "Hello Ada"


@scene
async def test_templates_that_do_not_run_are_refused(address: str) -> None:
    async with opened(address) as hf:
        with refused("LIBRARY_LOAD_FAILED") as failed:
            await hf.templates.create("bad", libraries=[SourceFile("lib.js", "oops(")])
        assert "lib.js" in str(failed.error)
        with refused("VALIDATION_ERROR"):
            await hf.templates.create("bad", language="cobol")
        with refused("VALIDATION_ERROR"):
            await hf.templates.create(" ")
        with refused("VALIDATION_ERROR"):
            await hf.templates.create("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
        assert (await hf.templates.list()).items == []
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.sessions.create("bad")
        made = await hf.templates.create(" good ")
        assert made.name == "good"
        with refused("NAME_TAKEN"):
            await hf.templates.create("good")
        assert (await hf.templates.get(made.id)) == (await hf.templates.get("good")) == made


@scene
async def test_sessions_keep_the_version_that_they_started_from(everywhere: str) -> None:
    async with opened(everywhere) as hf:
        made = await hf.templates.create("t", language="lua", libraries=[SourceFile("v", "version = 1")])
        old = await hf.sessions.create("t")
        assert (
            await hf.templates.update("t", libraries=[SourceFile("v", "version = 2")], limits=Limits(wall_ms=700))
        ).number == 2
        new = await hf.sessions.create("t")
        assert (old.template_version, new.template_version) == (1, 2)
        assert await evaluate(hf, old.id, "return version") == 1
        assert await evaluate(hf, new.id, "return version") == 2
        pinned = await hf.sessions.create("t", version=1)
        assert await evaluate(hf, pinned.id, "return version") == 1
        fork = await hf.sessions.fork(old.id)
        assert await evaluate(hf, fork.id, "return version") == 1
        assert [v.number for v in (await hf.templates.versions("t")).items] == [2, 1]
        assert (await hf.templates.version("t")).spec.limits.wall_ms == 700
        assert (await hf.templates.version("t", 1)).spec.libraries[0].text == "version = 1"
        assert (await hf.templates.get("t")).latest == 2
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.sessions.create("t", version=3)
        with refused("VALIDATION_ERROR"):
            await hf.templates.update("t", language="javascript")
        with refused("TEMPLATE_IN_USE"):
            await hf.templates.delete("t")
        for each in (old, new, pinned, fork):
            await hf.sessions.delete(each.id)
        await hf.templates.delete(made.id)
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.templates.get("t")


@both
@scene
async def test_nothing_is_granted_by_default(address: str, language: str) -> None:
    called = []
    functions = [
        Function("world.act", lambda: called.append(1), EffectKind.READ),
        Function("world.see", lambda: 7, EffectKind.READ),
    ]
    js = language == "javascript"
    act = (
        "try { hf.call('world.act') } catch (e) { e.code }"
        if js
        else "local ok, e = pcall(alc.call, 'world.act') return ok or e.code"
    )
    async with opened(address, functions=functions, tools=[Tool("world.act", called.append)]) as hf:
        bare = await session(hf, language)
        assert await evaluate(hf, bare, act) == "HOST_FUNCTION_NOT_FOUND"
        assert called == []
        some = [
            Capability("function", "world.see"),
            Capability("function", "world.act", enabled=False),
            Capability("tool", "world.act"),
        ]
        one = await session(hf, language, capabilities=some)
        assert await evaluate(hf, one, act) == "HOST_FUNCTION_NOT_FOUND"
        assert await evaluate(hf, one, "hf.call('world.see')" if js else "return alc.call('world.see')") == 7
        module = (
            "const m = require('world'); [m.see(), typeof m.act]"
            if js
            else "local m = require('world') return {m.see(), type(m.act)}"
        )
        assert await evaluate(hf, one, module) == [7, "undefined" if js else "nil"]
        assert called == []


@both
@scene
async def test_queries_nobody_waits_for_are_cancelled_at_the_end(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {
            "javascript": "const p = ask('left?'); await ask('right?')",
            "lua": "local c = coroutine.create(function() return alc.ask('left?') end); return alc.ask('right?')",
        }[language]
        turn = await hf.executions.run(here, source)
        right = next(query for query in turn.queries if query.payload["question"] == "right?")
        turn = await hf.queries.answer(here, 5, query=right.id)
        assert value(turn) == 5
        if language == "javascript":
            left = await hf.queries.get(here, "q-1")
            assert left.state == "cancelled"
            events = await hf.executions.events(turn.execution.id)
            assert any(event.type == "system" and event.payload.get("query_id") == "q-1" for event in events)
        assert (await hf.queries.list(here)).items == []


@scene
async def test_a_promise_that_nothing_can_settle_is_an_error_and_no_hang(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf)
        turn = await hf.executions.run(here, "await new Promise(() => {})")
        assert turn.execution.status == "error"
        assert await evaluate(hf, here, "1 + 1") == 2


@scene
async def test_lists_of_sessions_and_unknown_words(address: str) -> None:
    async with opened(address) as hf:
        await template(hf, "lua")
        made = [await hf.sessions.create("lua", name=f"n{n}", meta={"n": n}) for n in range(5)]
        page = await hf.sessions.list(limit=2)
        assert [s.id for s in page.items] == [made[4].id, made[3].id]
        page = await hf.sessions.list(limit=3, after=page.next)
        assert [s.meta["n"] for s in page.items] == [2, 1, 0]
        assert page.next is None
        assert [s.id for s in (await hf.sessions.list(name="n3", states=["ready"], template="lua")).items] == [made[3].id]
        for call in (
            lambda: hf.sessions.list(states=["asleep"]),
            lambda: hf.executions.list(status="asleep"),
            lambda: hf.queries.list(states=["asleep"]),
            lambda: hf.queries.list(kinds=["asleep"]),
            lambda: hf.sessions.create("lua", meta={"n": float("nan")}),
            lambda: hf.sessions.get("nonsense"),
        ):
            with refused("VALIDATION_ERROR"):
                await call()
        with refused("SESSION_NOT_FOUND"):
            await hf.sessions.get("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
        with refused("SESSION_NOT_FOUND"):
            await hf.executions.run("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "1")
        assert (await hf.summary())["sessions"]["ready"] == 5


@scene
async def test_what_is_closed_says_so(address: str) -> None:
    hf = opened(address)
    async with hf:
        here = await session(hf, "lua")
        await hf.executions.run(here, "alc.sleep(100000)")
        waiting = asyncio.ensure_future(hf.executions.run(here, "return 1", wait=True))
        await asyncio.sleep(0.02)
    with refused("CLOSED"):
        await waiting
    with refused("CLOSED"):
        await hf.executions.run(here, "1")
    with refused("CLOSED"):
        await hf.sessions.get(here)
