"""Scripts that fork: what branches are, how they end, what they may ask, and what becomes of them when nobody waits for them any more."""

import asyncio
from typing import Any

import pytest

from holdfast import Budget, Function, Limits, Response, Retention, Settings, StartupFile, Tool
from holdfast.domain import Family
from holdfast.runtime import branches
from tests.acceptance.forks import ASK, DEEP, answer_all, branch_asks, ended, forking, latest, the_fork, told
from tests.acceptance.scenes import (
    Clock,
    all_stores,
    both,
    durable_stores,
    evaluate,
    eventually,
    grants,
    opened,
    refused,
    scene,
    template,
    value,
)


@all_stores
@scene
async def test_branches_are_sessions_that_ask_and_are_joined_in_order(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        turn = await hf.executions.run(here, ASK[language])
        fork = the_fork(turn)
        assert (turn.execution.status, fork.id) == ("paused", "q-1")
        for index, child in enumerate(branches.children(fork)):
            branch, execution = await hf.sessions.get(child), await latest(hf, child)
            assert (branch.state, branch.family) == ("paused", Family(here, here, 1, index, 1))
            assert (execution.kind, execution.path, execution.parent_id) == ("strategy", "abc"[index], turn.execution.id)
            assert (await branch_asks(hf, child)).payload["prompt"] == "abc"[index] + "?"
        children = await answer_all(hf, turn)
        done = await hf.executions.wait(turn.execution.id)
        assert value(done) == told("A?", "B?", "C?")
        metrics = done.execution.metrics
        assert (metrics.llm_calls, metrics.rounds, metrics.prompt_chars, metrics.answer_chars) == (3, 3, 6, 6)
        assert metrics.total_tokens.tokens == sum([(await latest(hf, child)).metrics.total_tokens.tokens for child in children])
        assert done.session.llm_calls == 3
        assert {(await hf.sessions.get(child)).state for child in children} == {"ready"}
        assert (
            (await hf.executions.events((await latest(hf, children[1])).id))[0].payload["message"].startswith("branch 2 of 3")
        )
        assert len((await hf.sessions.list(limit=100)).items) == 4


@both
@scene
async def test_forks_in_forks(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        turn = await hf.executions.run(here, DEEP[language])
        for index, child in enumerate(branches.children(the_fork(turn))):
            inner = await hf.executions.turn((await latest(hf, child)).id)
            below = await answer_all(hf, inner)
            families = [(await hf.sessions.get(session_id)).family for session_id in below]
            assert families == [Family(here, child, the_fork(inner).number, place, 2) for place in range(2)]
            assert (await hf.sessions.get(child)).family == Family(here, here, 1, index, 1)
        done = await hf.executions.wait(turn.execution.id)
        inner_results = {name: [{"strategy": x, "ok": True, "result": (name + x).upper()} for x in "xy"] for name in "ab"}
        assert value(done) == told(["a", inner_results["a"]], ["b", inner_results["b"]])
        assert done.execution.metrics.llm_calls == 4


ENDS = """return fork({'a', 'b', 'c', 'd', 'e'}, function(name)
        if name == 'a' then error('no', 0) end
        if name == 'b' then while true do end end
        if name == 'c' then return nil end
        alc.ask(name)
    end)"""


@scene
async def test_a_branch_may_fail_be_stopped_or_deleted(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "lua", limits=Limits(cpu_ms=200, wall_ms=2000))
        turn = await hf.executions.run(here, ENDS)
        children = branches.children(the_fork(turn))
        assert [(await latest(hf, child)).status for child in children] == ["error", "timeout", "ok", "paused", "paused"]
        await hf.sessions.delete(children[4])
        await hf.executions.cancel((await latest(hf, children[3])).id)
        errors = ["no", "cpu_ms exceeded", "", "the execution was cancelled", "the session of this branch was deleted"]
        found = value(await hf.executions.wait(turn.execution.id))
        assert [(each["strategy"], each["ok"]) for each in found] == [(name, name == "c") for name in "abcde"]
        assert all(error in each.get("error", "") for error, each in zip(errors, found, strict=True))


ABORT = """local ok, error = pcall(fork, {'a', 'b', 'c'}, function(name) alc.ask(name) error('no ' .. name, 0) end, {on_error = 'fail'})
        return {error.message or tostring(error), error.code}"""


@scene
async def test_one_failure_ends_all_if_the_script_wants_that(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "lua")
        turn = await hf.executions.run(here, ABORT)
        children = branches.children(the_fork(turn))
        await hf.queries.answer(children[1], "go")
        done = await hf.executions.wait(turn.execution.id)
        assert value(done) == ["alc.fork: strategy 'b' failed: no b", "BRANCH_FAILED"]
        assert [(await latest(hf, child)).status for child in children] == ["cancelled", "error", "cancelled"]


# ---- nobody waits any more ---------------------------------------------------------------------------------------------------------


@durable_stores
@scene
async def test_branches_are_cancelled_with_what_waits_for_them(address: str, language: str) -> None:
    async with opened(address) as hf:
        for end in (hf.executions.cancel, hf.sessions.close):
            here = await forking(hf, language)
            turn = await hf.executions.run(here, DEEP[language])
            children = branches.children(the_fork(turn))
            below = [await hf.executions.turn((await latest(hf, child)).id) for child in children]
            children += [grandchild for each in below for grandchild in branches.children(the_fork(each))]
            await end(turn.execution.id if end == hf.executions.cancel else here)
            assert {(await ended(hf, child)).status for child in children} == {"cancelled"}
            states = {(await hf.sessions.get(child)).state.value for child in children}
            assert states == ({"ready"} if end == hf.executions.cancel else {"closed"})


CATCH = {
    "javascript": "let why; try { await fork(['a', 'b'], name => ask(name)) } catch (error) { why = error.code } [why, await ask('and now?')]",
    "lua": """local ok, error = pcall(fork, {'a', 'b'}, function(name) return alc.ask(name) end)
        return {error.code, alc.ask('and now?')}""",
}


@both
@scene
async def test_a_script_goes_on_when_its_fork_is_withdrawn(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        turn = await hf.executions.run(here, CATCH[language])
        children = branches.children(the_fork(turn))
        turn = await hf.queries.cancel(here, the_fork(turn).id)
        assert [query.payload["question"] for query in turn.queries] == ["and now?"]
        assert {(await ended(hf, child)).status for child in children} == {"cancelled"}
        assert value(await hf.queries.answer(here, "fine")) == ["QUERY_CANCELLED", "fine"]


LATE = """local ok, told = pcall(alc.query, 'tool', {name = 'holdfast.fork', args = {strategies = {'a', 'b'}}, timeout_ms = 1000})
        if not ok then return told.code end
        return alc.ask(tostring(told.child))"""


@scene
async def test_a_fork_may_have_a_deadline(sqlite: str) -> None:
    clock = Clock()
    async with opened(sqlite, settings=Settings(clock=clock)) as hf:
        here = await forking(hf, "lua")
        turn = await hf.executions.run(here, LATE)
        children = branches.children(the_fork(turn))
        assert (await branch_asks(hf, children[0])).deadline is None
        clock.now += 2000
        assert (await ended(hf, here)).result["json"] == "QUERY_EXPIRED"
        assert {(await ended(hf, child)).status for child in children} == {"cancelled"}


@durable_stores
@scene
async def test_branches_go_with_the_session_that_forked_them(address: str, language: str) -> None:
    async with opened(address) as hf:
        gone, stays = await forking(hf, language), await forking(hf, language)
        for here in (gone, stays):
            turn = await hf.executions.run(here, DEEP[language])
            outer = branches.children(the_fork(turn))
            for child in outer:
                await answer_all(hf, await hf.executions.turn((await latest(hf, child)).id))
            await hf.executions.wait(turn.execution.id)
        other = await hf.sessions.fork(outer[0])
        assert other.family is None
        assert len((await hf.sessions.list(limit=100)).items) == 15
        await hf.sessions.delete(gone)
        assert len((await hf.sessions.list(limit=100)).items) == 8
        await hf.sessions.delete(stays)
        assert [session.id for session in (await hf.sessions.list()).items] == [other.id]
        assert value(await hf.executions.run(other.id, {"javascript": "1", "lua": "return 1"}[language])) == 1


@scene
async def test_retention_takes_a_family_as_one() -> None:
    clock = Clock()
    async with opened("memory:", settings=Settings(clock=clock), retention=Retention(idle_ms=1000, closed_ms=1000)) as hf:
        here = await forking(hf, "lua")
        turn = await hf.executions.run(here, ASK["lua"])
        children = branches.children(the_fork(turn))
        clock.now += 600
        await hf.queries.answer(children[2], "C")
        clock.now += 600
        assert (await hf.sweep())["closed"] == 0  # one of the branches is in use
        clock.now += 600
        assert (await hf.sweep())["closed"] == 1
        assert {session.state for session in (await hf.sessions.list()).items} == {"closed"}
        clock.now += 1200
        assert (await hf.sweep())["deleted"] == 1
        assert (await hf.sessions.list()).items == []


# ---- who may answer ----------------------------------------------------------------------------------------------------------------


BESIDE = {
    "javascript": "await Promise.all([fork(['a'], () => ask('inside')), ask('outside')])",
    "lua": "return fork({'a'}, function() return alc.ask('inside') end)",
}


@both
@scene
async def test_only_branches_answer_a_fork(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        turn = await hf.executions.run(here, BESIDE[language])
        fork = the_fork(turn)
        (child,) = branches.children(fork)
        for value_given in ({"results": []}, {"child": 1}):
            with refused("VALIDATION_ERROR"):
                await hf.queries.answer(here, value_given, query=fork.id)
        with refused("VALIDATION_ERROR"):
            await hf.queries.fail(here, "no", query=fork.id)
        if language == "javascript":
            assert [query.payload["question"] for query in (await hf.queries.list(child)).items] == ["inside"]
            await hf.queries.answer(here, "o")  # the only one that somebody outside can answer
        else:
            with refused("ANSWER_AMBIGUOUS"):
                await hf.queries.answer(here, "o")
        await hf.queries.answer(child, "i")
        found = value(await hf.executions.wait(turn.execution.id))
        assert found == ([told("i"), "o"] if language == "javascript" else told("i"))
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, {"results": []}, query=fork.id)


TOOLS = """await fork(['a', 'b', 'c'], name => name == 'a' ? hf.tool('slow', 1) : name == 'b' ? %s : name)"""


@scene
async def test_what_branches_wait_for_here_is_waited_for(sqlite: str) -> None:
    """As for any script: whoever runs it hears of it when somebody outside is needed, or all has ended."""
    go = asyncio.Event()

    async def slow(args: Any) -> Any:
        await go.wait()
        return args

    tools = [Tool("slow", slow)]
    async with opened(sqlite, tools=tools) as hf:
        here = await forking(hf, "javascript", capabilities=grants(tools=tools))
        turn = await hf.executions.run(here, TOOLS % "ask(name)")  # b needs somebody, whatever a does
        (query,) = (await hf.queries.list(kinds=["ask"])).items
        assert value(await hf.queries.answer(query.session_id, "b!")) == "b!"
        rest = asyncio.ensure_future(hf.executions.wait(turn.execution.id))
        await asyncio.sleep(0)
        go.set()
        assert value(await rest) == told(1, "b!", "c")
        go.clear()
        running = asyncio.ensure_future(hf.executions.run(here, TOOLS % "name"))
        await eventually(lambda: _asked_tools(hf))
        assert not running.done()
        go.set()
        assert value(await running) == told(1, "b", "c")


async def _asked_tools(hf: Any) -> bool:
    return any(query.payload["name"] == "slow" for query in (await hf.queries.list(kinds=["tool"])).items)


@scene
async def test_a_session_may_fork_as_it_starts() -> None:
    async with opened("memory:") as hf:
        texts = ["globalThis.found = await hf.fork([() => ask('who?'), () => 2], {})", "globalThis.found.push('more')"]
        files = [StartupFile(f"{place}.js", text, "session") for place, text in enumerate(texts)]
        await template(hf, name="starts", startup=files)
        here = await hf.sessions.create("starts")
        assert here.state == "paused"
        (query,) = (await hf.queries.list(kinds=["ask"])).items
        await hf.queries.answer(query.session_id, 1)

        async def is_ready() -> bool:
            return (await hf.sessions.get(here.id)).state == "ready"

        await eventually(is_ready)
        assert await evaluate(hf, here.id, "found.map(each => each.result ?? each)") == [1, 2, "more"]


# ---- limits and budgets ------------------------------------------------------------------------------------------------------------


WIDE = {
    "javascript": "const names = Array.from({length: %d}, (_, i) => 's' + i); try { await fork(names, () => 1) } catch (e) { [e.code] }",
    "lua": """local names = {} for i = 1, %d do names[i] = 's' .. i end
        local ok, found = pcall(fork, names, function() return 1 end)
        if ok then return found end
        return {found.code}""",
}
DIG = {
    "javascript": """globalThis.dig = async n => { try { return (await fork(['s'], () => dig(n + 1)))[0].result } catch (e) { return [n, e.code] } }
        await dig(0)""",
    "lua": """function dig(n)
            local ok, found = pcall(fork, {'s'}, function() return dig(n + 1) end)
            if ok then return found[1].result end
            return {n, found.code}
        end
        return dig(0)""",
}


@both
@scene
async def test_forks_have_limits(address: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        assert value(await hf.executions.run(here, WIDE[language] % 257)) == ["FORK_LIMIT"]
        assert value(await hf.executions.run(here, DIG[language])) == [8, "FORK_LIMIT"]
        monkeypatch.setattr("holdfast.runtime.branches.MOST_IN_FAMILY", 20)
        assert len(value(await hf.executions.run(here, WIDE[language] % 12))) == 12  # with the eight before, all there may be
        assert value(await hf.executions.run(here, WIDE[language] % 1)) == ["FORK_LIMIT"]
        other = await forking(hf, language)
        assert len(value(await hf.executions.run(other, WIDE[language] % 1))) == 1


NONSENSE = {
    "javascript": """const found = []
        for (const args of [undefined, {}, {strategies: []}, {strategies: ['a', 1]}, {strategies: 'a'}, {strategies: ['a'], on_error: 'x'}])
            try { await hf.tool('holdfast.fork', args) } catch (error) { found.push(error.name) }
        for (const name of ['holdfast.exit', 'holdfast.other'])
            try { await hf.tool(name, {ok: 'maybe'}) } catch (error) { found.push(error.name) }
        found""",
    "lua": """local found = {}
        for _, args in ipairs({1, {}, {strategies = {}}, {strategies = {'a', 1}}, {strategies = 'a'}, {strategies = {'a'}, on_error = 'x'}}) do
            local ok, error = pcall(alc.query, 'tool', {name = 'holdfast.fork', args = args})
            table.insert(found, error.name)
        end
        for _, name in ipairs({'holdfast.exit', 'holdfast.other'}) do
            local ok, error = pcall(alc.query, 'tool', {name = name, args = {ok = 'maybe'}})
            table.insert(found, error.name)
        end
        return found""",
}


@both
@scene
async def test_forks_that_make_no_sense_raise_where_they_are_asked_for(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        assert value(await hf.executions.run(here, NONSENSE[language])) == ["TypeError"] * 8
        for part, name in (("tools", "holdfast.fork"), ("tools", "holdfast.mine"), ("functions", "holdfast.budget")):
            offered = Tool(name, asyncio.sleep) if part == "tools" else Function(name, print)
            with refused("VALIDATION_ERROR"):
                async with opened("memory:", **{part: [offered]}):
                    pass
        with refused("CAPABILITY_INVALID"):
            await template(hf, language, "x", capabilities=grants(tools=[Tool("holdfast.fork", asyncio.sleep)]))


SPEND = {
    "javascript": """const left = async () => hf.call('holdfast.budget')
        const before = await left()
        const asks = async (name, n) => { const own = await left(); for (let i = 0; i < n; i++) await llm('?'); return [own, await left()] }
        const all = await fork(['a', 'b', 'c'], asks);
        [before, all.map(each => each.result ?? each.error), await left()]""",
    "lua": """local function left() return alc.call('holdfast.budget') end
        local before = left()
        local function asks(name, n) local own = left() for i = 1, n do alc.llm('?') end return {own, left()} end
        local found = {}
        for _, each in ipairs(fork({'a', 'b', 'c'}, asks)) do table.insert(found, each.result or each.error) end
        return {before, found, left()}""",
}
"""Branch n asks n times."""


@both
@scene
async def test_what_is_left_of_a_budget_is_divided(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        turn = await hf.executions.run(here, SPEND[language], budget=Budget(max_llm_calls=7, max_tokens=1000))
        for child in branches.children(the_fork(turn)):
            while (await latest(hf, child)).status == "paused":
                await hf.queries.answer(child, "!", usage={"prompt_tokens": 10, "completion_tokens": 10})
        before, found, after = value(await hf.executions.wait(turn.execution.id))
        assert (before["llm_calls"], before["tokens"]) == (7, 1000)
        shares = [each[0] if isinstance(each, list) else None for each in found]
        assert [share and (share["llm_calls"], share["tokens"]) for share in shares] == [(3, 334), (2, 333), None]
        assert found[0][1]["llm_calls"] == 2
        assert "budget_exceeded: max_llm_calls (2) reached (2 used)" in found[2]
        assert (after["llm_calls"], after["tokens"]) == (2, 900)
        execution = await hf.executions.get(turn.execution.id)
        assert (execution.metrics.llm_calls, execution.metrics.total_tokens.tokens) == (5, 100)


HELD = """const beside = async () => { await ask('now?'); const left = hf.call('holdfast.budget').llm_calls;
            try { await llm('?') } catch (error) { return [left, error.code, error.message] } }
        await Promise.all([fork(['a'], () => ask('inside')), fork(['b'], async () => hf.call('holdfast.budget')), beside()])"""


@scene
async def test_while_a_fork_is_waited_for_nothing_is_left_beside_it(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "javascript")
        turn = await hf.executions.run(here, HELD, budget=Budget(max_llm_calls=4))
        question = next(query for query in turn.queries if query.kind == "ask")
        turn = await hf.queries.answer(here, "yes", query=question.id)
        await hf.queries.answer(branches.children(turn.queries[0])[0], "done")
        first, second, (left, code, message) = value(await hf.executions.wait(turn.execution.id))
        assert first == told("done")
        assert second[0]["result"]["llm_calls"] == 2  # forks that are asked for together share
        assert (left, code) == (0, "BUDGET_EXCEEDED")
        assert "the rest is with branches of a fork" in message


@scene
async def test_what_branches_spent_is_spent_however_they_ended(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "lua")
        turn = await hf.executions.run(here, DEEP["lua"], budget=Budget(max_llm_calls=100))
        await hf.executions.cancel(turn.execution.id)
        ended_branches = branches.children(the_fork(turn))
        assert [(await ended(hf, child)).status for child in ended_branches] == ["cancelled"] * 2
        assert (await hf.executions.get(turn.execution.id)).metrics.llm_calls == 4  # by branches of branches
        caught = "pcall(fork, {'a', 'b'}, function() return alc.llm('?') end) return alc.call('holdfast.budget')"
        turn = await hf.executions.run(here, caught, budget=Budget(max_llm_calls=10))
        done = await hf.queries.cancel(here, the_fork(turn).id)
        assert value(done)["llm_calls"] == 8
        assert (done.execution.metrics.llm_calls, done.session.llm_calls) == (2, 6)


# ---- leaving -----------------------------------------------------------------------------------------------------------------------


LEAVE = {
    "javascript": [
        "const f = async () => { await leave({value: {a: [1, null]}}) }; await f(); 7",
        "await leave({ok: false, error: 'enough'}); 7",
        "await leave()",
    ],
    "lua": [
        "local f = function() leave({value = {a = {1, 2}}}) end f() return 7",
        "leave({ok = false, error = 'enough'}) return 7",
        "leave()",
    ],
}


@both
@scene
async def test_a_script_may_leave_from_anywhere(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await forking(hf, language)
        first, second, third = LEAVE[language]
        found = await hf.executions.run(here, first)
        assert value(found) == {"a": [1, None] if language == "javascript" else [1, 2]}
        assert found.execution.result["type"] == {"javascript": "Object", "lua": "table"}[language]
        failed = (await hf.executions.run(here, second)).execution
        assert (failed.status, failed.error["code"], failed.error["message"]) == ("error", "BRANCH_FAILED", "enough")
        assert value(await hf.executions.run(here, third)) is None
        assert (await hf.queries.list(here)).items == []
        checkpoints = await hf.sessions.checkpoints(here)
        assert [node.open for node in checkpoints[-3:]] == [()] * 3


@scene
async def test_who_leaves_waits_for_nothing_any_more(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "javascript")
        await hf.executions.run(
            here,
            "globalThis.n = 0; await Promise.all([ask('a'), ask('b').then(() => leave({value: ++n})), ask('c'), fork(['x'], () => ask('d'))])",
        )
        waiting = (await hf.queries.list(here)).items
        done = await hf.queries.answer(here, "b!", query=waiting[1].id)
        assert value(done) == 1
        assert (await hf.queries.list(here)).items == []
        (child,) = branches.children(waiting[3])
        assert (await ended(hf, child)).status == "cancelled"
        assert value(await hf.executions.run(here, "n")) == 1


# ---- history -----------------------------------------------------------------------------------------------------------------------


THEN = {
    "javascript": "const first = await ask('first?'); const all = await fork(['a', 'b'], name => ask(first + name)); [first, all]",
    "lua": "local first = alc.ask('first?') return {first, fork({'a', 'b'}, function(name) return alc.ask(first .. name) end)}",
}


async def _answer_branches(hf: Any, turn: Any) -> Any:
    for child in branches.children(the_fork(turn)):
        query = await branch_asks(hf, child)
        await hf.queries.answer(child, query.payload["question"].upper())
    return value(await hf.executions.wait(turn.execution.id))


async def _turn(hf: Any, session_id: Any) -> Any:
    """Where a session stands when its branches ask."""
    execution_id = (await hf.sessions.get(session_id)).execution_id
    return await hf.executions.wait(execution_id)


@scene
async def test_a_session_is_rewound_to_its_fork_and_to_before_it(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "javascript")
        await hf.executions.run(here, THEN["javascript"])
        turn = await hf.queries.answer(here, "x")
        first, at_fork = branches.children(the_fork(turn)), (await hf.sessions.get(here)).head
        await hf.sessions.rewind(here, at_fork)  # while they wait: others take their places
        assert {(await ended(hf, child)).status for child in first} == {"cancelled"}
        turn = await _turn(hf, here)
        second = branches.children(the_fork(turn))
        assert not set(first) & set(second)
        assert await _answer_branches(hf, turn) == ["x", told("XA", "XB")]
        await hf.sessions.rewind(here, at_fork)  # and after they were joined
        assert await _answer_branches(hf, await _turn(hf, here)) == ["x", told("XA", "XB")]
        await hf.sessions.rewind(here, at_fork - 1)
        await _turn(hf, here)
        turn = await hf.queries.answer(here, "y")
        assert await _answer_branches(hf, turn) == ["y", told("YA", "YB")]


@scene
async def test_a_session_that_waits_for_branches_can_itself_be_forked(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "lua")
        await hf.executions.run(here, THEN["lua"])
        turn = await hf.queries.answer(here, "x")
        twin = await hf.sessions.fork(here)
        assert twin.family is None
        twin_turn = await _turn(hf, twin.id)
        ours, theirs = branches.children(the_fork(turn)), branches.children(the_fork(twin_turn))
        assert not set(ours) & set(theirs)
        assert {(await hf.sessions.get(child)).family.root for child in theirs} == {twin.id}
        assert await _answer_branches(hf, twin_turn) == ["x", told("XA", "XB")]
        assert [(await latest(hf, child)).status for child in ours] == ["paused", "paused"]
        await hf.sessions.delete(twin.id)
        assert await _answer_branches(hf, turn) == ["x", told("XA", "XB")]
        second = await hf.sessions.fork(ours[0])
        assert second.state == "ready"
        with refused("CHECKPOINT_NOT_FOUND"):
            await hf.sessions.rewind(ours[0], 0)


@scene
async def test_a_branch_that_was_rewound_is_waited_for(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await forking(hf, "javascript")
        await hf.executions.run(here, THEN["javascript"])
        turn = await hf.queries.answer(here, "x")
        child, other = branches.children(the_fork(turn))
        await hf.queries.answer(child, "no")
        assert (await latest(hf, child)).status == "ok"
        await hf.sessions.rewind(child, 2)
        await hf.queries.answer(other, "b!")
        await hf.queries.answer(child, "a!")
        assert value(await hf.executions.wait(turn.execution.id)) == ["x", told("a!", "b!")]
        await hf.sessions.rewind(child, 2)  # it can still be looked into, and nobody stops that
        assert (await hf.queries.answer(child, "late")).execution.status == "ok"


@scene
async def test_what_a_line_asked_can_be_read_when_it_has_just_ended(address: str) -> None:
    async with opened(address) as hf:
        await hf.templates.create("t", language="lua")
        here = (await hf.sessions.create("t")).id
        await hf.executions.run(here, "return alc.fork({function() return alc.ask('a') end}, {})[1].result")
        [query] = await hf.strategies.asked(here)
        assert (await hf.strategies.resume(here, [Response("yes", query.id)]))["status"] == "completed"
        assert await hf.strategies.asked(here) == []
