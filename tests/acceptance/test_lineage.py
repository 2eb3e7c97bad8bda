"""What sessions owe each other: forks made once, budgets that last no longer, images that others build on, ends of what is damaged."""

import asyncio
import sqlite3
from typing import Any

import pytest

from holdfast import Budget, Function, Holdfast, Limits, Retention, StartupFile
from holdfast.domain import Execution
from holdfast.runtime import diff
from tests.acceptance.scenes import (
    SAY,
    all_stores,
    both,
    durable_stores,
    elsewhere,
    evaluate,
    grants,
    opened,
    refused,
    scene,
    session,
    template,
    value,
)

ROUNDS = {
    "javascript": "globalThis.trail = []; for (;;) trail.push(await ask(trail.join()))",
    "lua": "trail = {} while true do table.insert(trail, alc.ask(table.concat(trail, ','))) end",
}
SET = {"javascript": "globalThis.x = {}", "lua": "x = {}"}
GET = {"javascript": "x", "lua": "return x"}


async def _count(hf: Holdfast) -> int:
    return len((await hf.sessions.list(limit=1000)).items)


# ---- forks with a key --------------------------------------------------------------------------------------------------------------


@durable_stores
@scene
async def test_two_processes_make_the_forks_of_one_request_once(address: str, language: str) -> None:
    async with opened(address) as one, opened(address) as two:
        here = await session(one, language)
        await one.executions.run(here, ROUNDS[language])
        for count in (1, 10, 200):
            before = await _count(one)
            made, same = await asyncio.gather(
                *(hf.sessions.fork_many(here, count, idempotency_key=f"{count}") for hf in (one, two))
            )
            assert {fork.id for fork in made} == {fork.id for fork in same}
            assert len(made) == count
            assert await _count(one) - before == count
        with refused("IDEMPOTENCY_CONFLICT"):
            await two.sessions.fork_many(here, 11, idempotency_key="10")


@durable_stores
@scene
async def test_forks_of_a_process_that_died_are_completed(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, ROUNDS[language])
    for written in (0, 4, 9):
        elsewhere(
            address,
            """
            here, written = given
            async with opened(address) as hf:
                committer = hf._runtime.core.committer
                write = committer.commit_all

                def write_some_and_die(commits):
                    if written:
                        write(commits[:written])
                    os._exit(9)

                committer.commit_all = write_some_and_die
                await hf.sessions.fork_many(here, 10, idempotency_key=f"key {written}")
            """,
            [here, written],
            dies=True,
        )
    async with opened(address) as hf:
        head = (await hf.sessions.get(here)).head
        await hf.queries.answer(here, "the source has gone on")
        for written in (0, 4, 9):
            forks = await hf.sessions.fork_many(here, 10, idempotency_key=f"key {written}")
            assert len({fork.id for fork in forks}) == 10
            assert {fork.origin for fork in forks} == {(here, head)}
            assert await hf.sessions.fork_many(here, 10, idempotency_key=f"key {written}") == forks
            for fork in forks:
                assert (await hf.queries.answer(fork.id, "a")).queries[0].payload["question"] == "a"
        assert await _count(hf) == 31


# ---- budgets -----------------------------------------------------------------------------------------------------------------------

MODELS = {
    "javascript": "const both = Promise.all([llm('one and a bit'), llm('two')]); const a = await both; await ask('?'); "
    "const c = await llm('three', {system: 'short'}); await llm(c); 'done'",
    "lua": "alc.llm('one and a bit') alc.llm('two') alc.ask('?') "
    "local c = alc.llm('three', {system = 'short'}) alc.llm(c) return 'done'",
}
ANSWERS: list[tuple[str, dict[str, int] | None]] = [
    ("a long answer, which nobody has counted", None),
    ("b", {"prompt_tokens": 70, "completion_tokens": 30}),
    ("an answer to a person", None),
    ("d", {"prompt_tokens": 5}),
    ("e", {"completion_tokens": 7}),
]


def _asked(execution: Execution) -> dict[str, Any]:
    metrics = execution.metrics
    names = ("queries", "llm_calls", "prompt_chars", "answer_chars", "prompt_tokens", "answer_tokens")
    return {name: getattr(metrics, name) for name in names}


async def _answer_all(hf: Holdfast, here: Any, skipped: int = 0) -> dict[int, dict[str, Any]]:
    """What was asked at each checkpoint on the way to the end."""
    found = {}
    for answer, usage in ANSWERS[skipped:]:
        query = (await hf.queries.list(here)).items[0]
        turn = await hf.queries.answer(here, answer, query=query.id, usage=usage)
        found[turn.session.head] = _asked(turn.execution)
    return found


@all_stores
@scene
async def test_an_execution_that_goes_on_has_asked_what_it_had(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, MODELS[language])
        then = {turn.session.head: _asked(turn.execution)} | await _answer_all(hf, here)
        assert then[6]["llm_calls"] == 4
        for number in range(1, 6):
            fork = await hf.sessions.fork(here, number)
            assert _asked((await hf.executions.list(fork.id)).items[0]) == then[number]
            later = await _answer_all(hf, fork.id, number - 1)
            assert list(later.values()) == [then[n] for n in range(number + 1, 7)]
            # One that went on from elsewhere itself.
            at = max(later) - 1
            if number < 5:
                await hf.sessions.rewind(fork.id, at)
                assert _asked((await hf.executions.list(fork.id)).items[0]) == then[5]
                waits = await hf.sessions.fork(fork.id)
                assert _asked((await hf.executions.list(waits.id)).items[0]) == then[5]


@both
@scene
async def test_tokens_are_never_negative(address: str, language: str) -> None:
    asks = {"javascript": "await llm('x'.repeat(800)); 1", "lua": "alc.llm(string.rep('x', 800)) return 1"}[language]
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, asks)
        fork = await hf.sessions.fork(here)
        assert (fork.llm_calls, fork.tokens) == (1, 200)
        turn = await hf.queries.answer(fork.id, "a", usage={"prompt_tokens": 3, "completion_tokens": 1})
        assert (turn.execution.metrics.prompt_tokens.tokens, turn.session.tokens) == (3, 4)
        used = 200
        for rounds in range(1, 4):
            rewound = await hf.sessions.rewind(here, 1)
            assert (rewound.llm_calls, rewound.tokens) == (rounds + 1, used + 200)
            turn = await hf.queries.answer(here, "a", usage={"prompt_tokens": 3, "completion_tokens": 1})
            used += 4
            assert (turn.session.llm_calls, turn.session.tokens) == (rounds + 1, used)
            assert turn.execution.metrics.llm_calls == 1


@both
@scene
async def test_a_rewind_is_no_way_around_a_budget(address: str, language: str) -> None:
    js = language == "javascript"
    async with opened(address) as hf:
        name = await template(hf, language)
        here = (await hf.sessions.create(name, budget=Budget(max_llm_calls=3))).id
        await hf.executions.run(here, "x = 0; await llm('a'); x = 1" if js else "x = 0 alc.llm('a') x = 1")
        for _ in range(2):
            await hf.sessions.rewind(here, 1)
        before = await hf.sessions.get(here)
        with refused("BUDGET_EXCEEDED"):
            await hf.sessions.rewind(here, 1)
        assert await hf.sessions.get(here) == before
        await hf.queries.answer(here, "a")
        assert (await hf.sessions.rewind(here, 0)).state == "ready"  # nothing is asked there
        # An execution's own budget does not begin anew.
        other = (await hf.sessions.create(name)).id
        asks = "await llm('a'); await llm('b'); 1" if js else "alc.llm('a') alc.llm('b') return 1"
        await hf.executions.run(other, asks, budget=Budget(max_llm_calls=1))
        for _ in range(3):
            await hf.sessions.rewind(other, 1)
            turn = await hf.queries.answer(other, "a")
            assert turn.execution.error is not None
            assert "max_llm_calls (1) reached" in turn.execution.error["message"]


# ---- what others build on ----------------------------------------------------------------------------------------------------------


@all_stores
@scene
async def test_pruning_spares_what_forks_of_deleted_forks_build_on(address: str, language: str) -> None:
    async with opened(address) as hf:
        first = await session(hf, language)
        await hf.executions.run(first, ROUNDS[language])
        await hf.queries.answer(first, "1")
        between = (await hf.sessions.fork(first, 2)).id
        await hf.queries.answer(between, "2")
        last = (await hf.sessions.fork(between)).id
        for answer in "3456":
            await hf.queries.answer(last, answer)
        bases = {node.base.number for node in await hf.sessions.checkpoints(last) if node.base and node.base[0] == first}
        assert bases
        await hf.sessions.delete(between)
        for answer in "abcd":
            await hf.queries.answer(first, answer)
        assert await hf.sessions.prune(first, keep=1) > 0
        assert {node.number for node in await hf.sessions.checkpoints(first)} == {6} | bases
        for answer in "78":
            turn = await hf.queries.answer(last, answer)
        assert turn.queries[0].payload["question"] == "1,2,3,4,5,6,7,8"
        await hf.sessions.delete(last)
        assert await hf.sessions.prune(first, keep=1) == len(bases)


@all_stores
@scene
async def test_the_beginning_of_a_fork_of_a_fork_whose_origin_is_gone(address: str, language: str) -> None:
    async with opened(address) as hf:
        first = await session(hf, language)
        await evaluate(hf, first, SET[language].format(1))
        second = (await hf.sessions.fork(first)).id
        await hf.sessions.delete(first)
        third = await hf.sessions.fork(second)
        assert third.origin == (second, 0)
        await evaluate(hf, third.id, SET[language].format(2))
        fork = await hf.sessions.fork(third.id, 0)
        assert await evaluate(hf, fork.id, GET[language]) == 1
        assert (await hf.sessions.rewind(third.id, 0)).state == "ready"
        assert await evaluate(hf, third.id, GET[language]) == 1
        # What was waited for at a beginning is gone with the session that it was waited for in.
        first = await session(hf, language)
        await hf.executions.run(first, ROUNDS[language])
        second = (await hf.sessions.fork(first)).id
        await hf.sessions.delete(first)
        waits = (await hf.sessions.fork(second)).id
        for each in (second, waits):
            assert (await hf.queries.answer(each, "a")).queries[0].payload["question"] == "a"
            with refused("CHECKPOINT_NOT_FOUND"):
                await hf.sessions.rewind(each, 0)


# ---- what is damaged ---------------------------------------------------------------------------------------------------------------


@scene
async def test_what_is_damaged_can_be_closed_and_deleted(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        made = {}
        for name in ("closed", "deleted", "swept", "forked"):
            made[name] = await session(hf)
            for source in ("var x = 1", SAY["javascript"].format("?")):
                await hf.executions.run(made[name], source)
        fork = (await hf.sessions.fork(made["forked"])).id
    connection = sqlite3.connect(sqlite.removeprefix("sqlite:///"))
    with connection:
        connection.execute("UPDATE steps SET sealed = zeroblob(length(sealed)) WHERE number = 1")
    connection.close()
    async with opened(sqlite, retention=Retention()) as hf:
        for each in (*made.values(), fork):
            with refused("STORE_DAMAGED"):
                await hf.queries.answer(each, "a")
        assert (await hf.sessions.close(made["closed"])).state == "closed"
        assert [query.state for query in (await hf.queries.list(made["closed"], states=[])).items] == ["cancelled"]
        assert (await hf.executions.list(made["closed"])).items[0].status == "cancelled"
        assert [node.number for node in await hf.sessions.checkpoints(made["closed"])] == [1, 2]
        await hf.sessions.delete(made["deleted"])
        await hf.sessions.delete(made["forked"])
        with refused("STORE_DAMAGED"):  # nothing was made of it, as nothing could be before
            await hf.queries.answer(fork, "a")
        await hf.sessions.delete(fork)
        hf.retention = Retention(idle_ms=0, closed_ms=0)
        for _ in range(2):
            await hf.sweep()
        assert await _count(hf) == 0


# ---- looking -----------------------------------------------------------------------------------------------------------------------


@both
@scene
async def test_a_look_has_limits_of_its_own(address: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grow = {
        "javascript": "for (let i = 0; i < 3000; i++) globalThis['v{n}_' + i] = {a: [i, i, i]}",
        "lua": "for i = 1, 3000 do _G['v{n}_' .. i] = {i, i, i} end",
    }[language]
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=400, cpu_ms=50, mem_mb=64))
        grown = 0
        for n in range(24):
            turn = await hf.executions.run(here, grow.replace("{n}", str(n)))
            grown += turn.execution.status == "ok"
        assert grown
        assert (await hf.sessions.diff(here, 0))["added"]
        monkeypatch.setattr(diff, "_LOOK_MS", 1)
        with refused("DIFF_TOO_LARGE"):
            await hf.sessions.diff(here, 0)
        assert value(await hf.executions.run(here, {"javascript": "1", "lua": "return 1"}[language])) == 1


# ---- startup files -----------------------------------------------------------------------------------------------------------------


@both
@scene
async def test_startup_files_that_follow_a_checkpoint_run(address: str, language: str) -> None:
    ran: list[str] = []
    functions = [Function("note.ran", ran.append)]
    note = {"javascript": "require('note').ran({!r})", "lua": "require('note').ran({!r})"}[language]
    files = [StartupFile(name, note.format(name), "session") for name in ("first", "second", "third")]
    async with opened(address, functions=functions) as hf:
        await template(hf, language, "t", startup=files, capabilities=grants(functions))
        here = (await hf.sessions.create("t")).id
        assert ran == ["first", "second", "third"]
        for number, rest in ((1, ["second", "third"]), (2, ["third"]), (3, [])):
            ran.clear()
            assert (await hf.sessions.rewind(here, number)).state == "ready"
            assert ran == rest
        for number, rest in ((1, ["second", "third"]), (2, ["third"])):
            ran.clear()
            assert (await hf.sessions.fork(here, number)).state == "ready"
            assert ran == rest
        ran.clear()
        assert (await hf.sessions.fork(here)).state == "ready"
        assert ran == []


@all_stores
@scene
async def test_startup_files_that_follow_a_beginning_run_after_its_origin_is_gone(address: str, language: str) -> None:
    ran: list[str] = []
    functions = [Function("note.ran", ran.append)]
    files = [StartupFile(name, f"require('note').ran('{name}')", "session") for name in ("first", "second", "third")]
    async with opened(address, functions=functions) as hf:
        await template(hf, language, "t", startup=files, capabilities=grants(functions))
        here = (await hf.sessions.create("t")).id
        forks = {number: (await hf.sessions.fork(here, number)).id for number in (1, 2, 3)}
        await hf.sessions.delete(here)
        rest = {1: ["second", "third"], 2: ["third"], 3: []}
        for number, fork in forks.items():
            ran.clear()
            assert (await hf.sessions.rewind(fork, 0)).state == "ready"
            assert ran == rest[number]
        # One that began where that one did, and is left alone in turn.
        again = (await hf.sessions.fork(forks[1], 0)).id
        await hf.sessions.delete(forks[1])
        ran.clear()
        assert (await hf.sessions.rewind(again, 0)).state == "ready"
        assert ran == rest[1]


@all_stores
@scene
async def test_no_startup_file_runs_twice_where_nobody_knows_which_have_run(
    address: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    functions = [Function("note.ran", ran.append)]
    files = [StartupFile(name, f"require('note').ran('{name}')", "session") for name in ("first", "second")]
    async with opened(address, functions=functions) as hf:
        await template(hf, language, "t", startup=files, capabilities=grants(functions))
        here = (await hf.sessions.create("t")).id

        async def forgotten(session_id: Any) -> Any:
            return await hf.sessions.get(session_id)

        with monkeypatch.context() as patched:
            patched.setattr(hf.sessions, "_made", forgotten)
            patched.setattr(hf.sessions, "_started", forgotten)
            fork = await hf.sessions.fork(here, 1, idempotency_key="k")
        assert fork.state == "starting"
        await hf.sessions.delete(here)
        ran.clear()
        assert (await hf.sessions._made(fork.id)).state == "ready"
        assert ran == []


# ---- long executions ---------------------------------------------------------------------------------------------------------------


@all_stores
@scene
async def test_going_back_reads_only_what_came_later(address: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    talks = {
        "javascript": "for (;;) { for (let i = 0; i < 50; i++) console.log(i); await llm('more?') }",
        "lua": "while true do for i = 1, 50 do print(i) end alc.llm('more?') end",
    }[language]
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, talks)
        for _ in range(30):
            turn = await hf.queries.answer(here, "yes")
        asked, head = turn.execution.metrics, turn.session.head
        read: list[Any] = []
        store = hf._runtime.core.store

        def counted(name: str, some: Any) -> None:
            really = getattr(store, name)

            def wrapped(*args: Any, **options: Any) -> Any:
                found = really(*args, **options)
                read.extend(some(found))
                return found

            monkeypatch.setattr(store, name, wrapped)

        counted("list_events", list)
        counted("list_queries", lambda page: page.items)
        counted("get_query", lambda query: [query])
        counted("step_events", list)
        fork = await hf.sessions.fork(here, head - 1)
        assert len(read) < 60  # those of one step
        monkeypatch.undo()
        metrics = (await hf.executions.list(fork.id)).items[0].metrics
        assert (metrics.queries, metrics.llm_calls) == (asked.queries - 1, asked.llm_calls - 1) == (30, 30)
        assert (metrics.prompt_chars, metrics.answer_chars) == (30 * 5, 29 * 3)
