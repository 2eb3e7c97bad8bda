"""The history of a session: fork, rewind, tree, diff, prune, retention."""

import asyncio
import sqlite3
from typing import Any

import pytest

from holdfast import Holdfast, Retention, Settings
from holdfast.runtime import Prune
from tests.acceptance.scenes import (
    Clock,
    all_stores,
    both,
    evaluate,
    eventually,
    opened,
    refused,
    scene,
    session,
    template,
    value,
)

# Every round asks, and notes the answer in a global; at the end all of them are the value.
SCRIPT = {
    "javascript": "globalThis.trail = []; for (let i = 0; i < 3; i++) trail.push(await ask('round ' + i)); trail.join()",
    "lua": "trail = {} for i = 1, 3 do table.insert(trail, alc.ask('round ' .. i - 1)) end return table.concat(trail, ',')",
}
TRAIL = {"javascript": "trail.join()", "lua": "return table.concat(trail, ',')"}
RANDOM = {"javascript": "Math.random()", "lua": "return math.random()"}


async def _played(hf: Holdfast, language: str, *answers: str) -> Any:
    here = await session(hf, language)
    await hf.executions.run(here, SCRIPT[language])
    for answer in answers:
        await hf.queries.answer(here, answer)
    return here


@all_stores
@scene
async def test_a_fork_begins_at_any_checkpoint(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await _played(hf, language, "a", "b", "c")
        before = await hf.sessions.get(here)
        assert [node.open for node in await hf.sessions.checkpoints(here)] == [(1,), (2,), (3,), ()]
        for number, expected in ((1, "x,y,z"), (2, "a,y,z"), (3, "a,b,z")):
            fork = await hf.sessions.fork(here, number, name="branch", meta={"at": number})
            assert (fork.state, fork.name, fork.meta) == ("paused", "branch", {"at": number})
            assert fork.origin == (here, number)
            waiting = (await hf.queries.list(fork.id)).items
            assert [(query.id, query.payload["question"]) for query in waiting] == [(f"q-{number}", f"round {number - 1}")]
            turn = None
            for answer in "xyz"[number - 1 :]:
                turn = await hf.queries.answer(fork.id, answer)
            assert turn is not None
            assert value(turn) == expected
            assert turn.execution.parent_id == (await hf.executions.list(here)).items[0].id
            assert await evaluate(hf, fork.id, TRAIL[language]) == expected
        idle = await hf.sessions.fork(here, 4)
        assert idle.state == "ready"
        assert await evaluate(hf, idle.id, TRAIL[language]) == "a,b,c"
        empty = await hf.sessions.fork(here, 0)
        assert empty.state == "ready"
        assert await evaluate(hf, empty.id, {"javascript": "typeof trail", "lua": "return type(trail)"}[language]) in (
            "undefined",
            "nil",
        )
        latest = await hf.sessions.fork(here)
        assert await evaluate(hf, latest.id, TRAIL[language]) == "a,b,c"
        assert await hf.sessions.get(here) == before  # the source does not change
        for wrong in (5, 999):
            with refused("CHECKPOINT_NOT_FOUND"):
                await hf.sessions.fork(here, wrong)
        for wrong in (0, 10_001, 1.5):
            with refused("VALIDATION_ERROR"):
                await hf.sessions.fork_many(here, wrong)


@both
@scene
async def test_forks_of_forks_and_their_random_numbers(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await _played(hf, language, "a")
        one = await hf.sessions.fork(here)
        two = await hf.sessions.fork(one.id)  # of one that never ran
        await hf.queries.answer(one.id, "b")
        three = await hf.sessions.fork(one.id)
        ends = []
        for each, rest in ((here, "xy"), (one.id, "y"), (two.id, "zz"), (three.id, "w")):
            for answer in rest:
                turn = await hf.queries.answer(each, answer)
            ends.append(value(turn))
        assert ends == ["a,x,y", "a,b,y", "a,z,z", "a,b,w"]
        drawn = [await evaluate(hf, each, RANDOM[language]) for each in (here, one.id, two.id, three.id)]
        twins = await hf.sessions.fork_many(here, 4)
        drawn += [await evaluate(hf, each.id, RANDOM[language]) for each in twins]
        assert len(set(drawn)) == len(drawn)
        await hf.sessions.rewind(here, (await hf.sessions.get(here)).head)
        assert await evaluate(hf, here, RANDOM[language]) not in drawn  # a rewound one too goes another way


@scene
async def test_two_hundred_forks_copy_no_image(sqlite: str) -> None:
    path = sqlite.removeprefix("sqlite:///")
    async with opened(sqlite) as hf:
        here = await session(hf, "lua")
        await evaluate(hf, here, "big = {} for i = 1, 20000 do big[i] = 'entry ' .. i * 7919 end")
        await hf.executions.run(here, "return alc.ask('?') .. #big")
        size = (await hf.sessions.checkpoints(here))[0].size
        assert size > 50_000

        def kept() -> int:
            with sqlite3.connect(path) as connection:
                total: int = connection.execute("SELECT sum(length(sealed)) FROM steps").fetchone()[0]
            connection.close()
            return total

        before = kept()
        forks = await hf.sessions.fork_many(here, 200)
        assert len({fork.id for fork in forks}) == 200
        assert kept() == before >= size
        for fork in (forks[0], forks[99], forks[199]):
            assert value(await hf.queries.answer(fork.id, "x")) == "x20000"
        assert len((await hf.sessions.tree(here))["nodes"][2]["forks"]) == 200


@all_stores
@scene
async def test_a_rewind_goes_another_way(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await _played(hf, language, "a", "b", "c")
        old = (await hf.executions.list(here)).items[0]
        rewound = await hf.sessions.rewind(here, 2)
        assert (rewound.state, rewound.head) == ("paused", 2)
        waiting = (await hf.queries.list(here)).items
        assert [(query.id, query.payload["question"]) for query in waiting] == [("q-4", "round 1")]
        # Ids are never used twice: answers for what was before do not reach what is now.
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, "x", query="q-2")
        again = await hf.queries.answer(here, "b", query="q-2")
        assert again.execution.id == old.id
        await hf.queries.answer(here, "B", query="q-4")
        turn = await hf.queries.answer(here, "C")
        assert value(turn) == "a,B,C"
        assert turn.execution.parent_id == old.id
        assert await hf.executions.get(old.id) == old  # what was, was
        # Back to what was left, which is still there.
        await hf.sessions.rewind(here, 4)
        assert await evaluate(hf, here, TRAIL[language]) == "a,b,c"
        await hf.sessions.rewind(here, 0)
        assert await evaluate(hf, here, {"javascript": "typeof trail", "lua": "return type(trail)"}[language]) in (
            "undefined",
            "nil",
        )
        with refused("CHECKPOINT_NOT_FOUND"):
            await hf.sessions.rewind(here, 99)
        for wrong in (-1, 1.5, "1", True):
            with refused("VALIDATION_ERROR"):
                await hf.sessions.rewind(here, wrong)


@both
@scene
async def test_rewinding_what_waits_and_what_runs(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await _played(hf, language, "a", "b")
        old = (await hf.executions.list(here)).items[0]
        for expected in ("q-4", "q-5"):  # to where it stands, twice: the same question under new ids
            await hf.sessions.rewind(here, 3)
            assert [query.id for query in (await hf.queries.list(here)).items] == [expected]
        assert (await hf.executions.get(old.id)).status == "cancelled"
        assert (await hf.queries.get(here, "q-3")).state == "cancelled"
        assert value(await hf.queries.answer(here, "c")) == "a,b,c"
        loop = {"javascript": "for (;;) {}", "lua": "while true do end"}[language]
        running = asyncio.ensure_future(hf.executions.run(here, loop))
        found = (await eventually(lambda: _running(hf, here)))[0]
        rewinding = asyncio.ensure_future(hf.sessions.rewind(here, 1))
        await hf.executions.cancel(found.id)
        assert (await running).execution.status == "cancelled"
        assert (await rewinding).state == "paused"


async def _running(hf: Holdfast, session_id: Any) -> Any:
    return (await hf.executions.list(session_id, status="running")).items


TIMED = {
    "javascript": "await Promise.race([hf.sleep(5000), ask('?')]).then(v => v === undefined ? 'rang' : v)",
    "lua": "alc.sleep(5000) return 'rang'",
}


@all_stores
@scene
async def test_timers_are_part_of_a_checkpoint(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, TIMED[language])
        fork = await hf.sessions.fork(here)
        assert fork.wake_at == clock.now + 5000
        await hf.executions.cancel(turn.execution.id)
        late = await hf.sessions.fork(here, 1)
        assert (late.state, late.wake_at) == ("paused", clock.now + 5000)
        assert (await hf.sessions.rewind(here, 1)).wake_at == clock.now + 5000
        clock.now += 5001

        async def all_ended() -> bool:
            return (await hf.executions.list(status="paused")).items == []

        await eventually(all_ended)
        for each in (here, fork.id, late.id):
            assert (await hf.executions.list(each)).items[0].result["json"] == "rang"


@both
@scene
async def test_the_tree(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await _played(hf, language, "a", "b", "c")
        fork = await hf.sessions.fork(here, 2)
        await hf.sessions.rewind(here, 2)
        await hf.queries.answer(here, "B")

        tree = await hf.sessions.tree(here)
        assert [(node["number"], node["parent"]) for node in tree["nodes"]] == [
            (0, None),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 3),
            (6, 2),
        ]
        two, six = tree["nodes"][2], tree["nodes"][-1]
        assert (two["forks"], two["open"], two["head"]) == ([str(fork.id)], ["q-2"], False)
        assert (six["head"], six["open"]) == (True, ["q-5"])
        assert tree["origin"] is None
        other = await hf.sessions.tree(fork.id)
        assert other["origin"] == {"session_id": str(here), "checkpoint": 2}
        assert [(node["number"], node["forks"], node["head"]) for node in other["nodes"]] == [(0, [], True)]
        below = await hf.sessions.fork(fork.id, 0)
        assert below.origin == (here, 2)


@both
@scene
async def test_the_difference_between_two_checkpoints(address: str, language: str) -> None:
    js = language == "javascript"
    async with opened(address) as hf:
        here = await session(hf, language)
        await evaluate(
            hf, here, "a = 1; b = {deep: [1, {x: 1}]}; c = 'same'" if js else "a = 1; b = {deep = {1, {x = 1}}}; c = 'same'"
        )
        await evaluate(
            hf, here, "b.deep[1].x = 2; d = 'new'; delete globalThis.a" if js else "b.deep[2].x = 2; d = 'new'; a = nil"
        )
        await hf.executions.run(here, "c = 'changed'; await ask('?')" if js else "c = 'changed'; alc.ask('?')")
        found = await hf.sessions.diff(here, 1, 2)
        assert list(found["added"]) == ["d"]
        assert found["added"]["d"]["preview"].strip("\"'") == "new"
        assert list(found["removed"]) == ["a"]
        assert list(found["changed"]) == ["b"]
        assert set(found["changed"]["b"]) == {"before", "after"}
        assert (await hf.sessions.diff(here, 2, 2)) == {"added": {}, "removed": {}, "changed": {}}
        latest = await hf.sessions.diff(here, 2)  # up to the present, which waits
        assert list(latest["changed"]) == ["c"]
        assert set((await hf.sessions.diff(here, 0))["added"]) == {"b", "c", "d"}
        back = await hf.sessions.diff(here, 2, 1)
        assert (list(back["added"]), list(back["removed"])) == (["a"], ["d"])
        with refused("CHECKPOINT_NOT_FOUND"):
            await hf.sessions.diff(here, 1, 77)
        with refused("SESSION_NOT_FOUND"):
            await hf.sessions.diff("3f2504e0-4f89-41d3-9a0c-0305e82c3301", 0)


GROW = {"javascript": "globalThis.log = (globalThis.log || '') + {n}; log", "lua": "log = (log or '') .. {n} return log"}
LOG = {"javascript": "globalThis.log || ''", "lua": "return log or ''"}


async def _states(hf: Holdfast, here: Any, language: str) -> dict[int, str]:
    """What each checkpoint holds, by looking into a fork of it."""
    found = {}
    for node in await hf.sessions.checkpoints(here):
        fork = await hf.sessions.fork(here, node.number)
        found[node.number] = await evaluate(hf, fork.id, LOG[language])
        await hf.sessions.delete(fork.id)
    return found


@all_stores
@scene
async def test_pruning_keeps_the_newest_and_fork_points_and_all_of_it_thaws(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        for n in range(1, 10):
            await evaluate(hf, here, GROW[language].replace("{n}", f"'{n}'"))
        await hf.sessions.rewind(here, 5)
        for n in "ab":
            await evaluate(hf, here, GROW[language].replace("{n}", f"'{n}'"))
        fork = await hf.sessions.fork(here, 6)
        await evaluate(hf, fork.id, GROW[language].replace("{n}", "'f'"))
        before = await _states(hf, here, language)
        assert before[9] == "123456789"
        head = (await hf.sessions.get(here)).head
        assert before[head] == "12345ab"
        events = [await hf.executions.events(e.id) for e in (await hf.executions.list(here)).items]
        with refused("VALIDATION_ERROR"):
            await hf.sessions.prune(here)
        gone = await hf.sessions.prune(here, keep=3)
        after = await _states(hf, here, language)
        assert gone == len(before) - len(after) > 0
        assert set(sorted(before)[-3:]) | {6, head} <= set(after)
        assert after == {number: before[number] for number in after}
        assert await evaluate(hf, fork.id, LOG[language]) == "123456f"
        assert [await hf.executions.events(e.id) for e in (await hf.executions.list(here)).items] == events
        with refused("CHECKPOINT_NOT_FOUND"):
            await hf.sessions.rewind(here, 3)
        with refused("CHECKPOINT_NOT_FOUND"):
            await hf.sessions.fork(here, 3)
        await hf.sessions.delete(fork.id)
        await hf.sessions.prune(here, keep=0)
        assert list(await _states(hf, here, language)) == [head]
        assert await evaluate(hf, here, GROW[language].replace("{n}", "'!'")) == "12345ab!"
        assert await hf.sessions.prune(here, keep=5) == 0


@both
@scene
async def test_pruning_by_time_and_while_it_waits(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language)
        for n in range(6):
            await evaluate(hf, here, GROW[language].replace("{n}", f"'{n}'"))
            clock.now += 1000
        await hf.executions.run(
            here, {"javascript": "log += await ask('?'); log", "lua": "log = log .. alc.ask('?') return log"}[language]
        )
        assert await hf.sessions.prune(here, before=clock.now - 3000) == 3
        assert [node.number for node in await hf.sessions.checkpoints(here)] == [4, 5, 6, 7]
        assert await hf.sessions.prune(here, keep=2, before=clock.now) == 2
        assert [node.number for node in await hf.sessions.checkpoints(here)] == [6, 7]
        assert value(await hf.queries.answer(here, "!")) == "012345!"


@scene
async def test_pruning_a_long_history_in_pieces(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        here = await session(hf, "lua")
        for n in range(1, 40):
            await evaluate(hf, here, GROW["lua"].replace("{n}", f"'{n},'"))
            if n % 7 == 0:
                before = await _states(hf, here, "lua") if n == 14 else {}
                await hf.sessions.prune(here, keep=5)
                if before:
                    after = await _states(hf, here, "lua")
                    assert after == {number: before[number] for number in after}
        states = await _states(hf, here, "lua")
        assert len(states) <= 9
        assert all(text == "".join(f"{n}," for n in range(1, number + 1)) for number, text in states.items())


@all_stores
@scene
async def test_retention(address: str, language: str) -> None:
    """Lines 23 of algocline's list, restated: by time without use, and never lost but closed first."""
    clock, hour = Clock(), 3600 * 1000
    retention = Retention(checkpoints=2, idle_ms=2 * hour, closed_ms=hour)
    async with opened(address, settings=Settings(clock=clock), retention=retention) as hf:
        name = await template(hf, language)
        used, idle, waiting = [(await hf.sessions.create(name)).id for _ in range(3)]
        turn = await hf.executions.run(waiting, {"javascript": "await ask('?')", "lua": "alc.ask('?')"}[language])
        for n in range(5):
            await evaluate(hf, used, GROW[language].replace("{n}", f"'{n}'"))
        assert await hf.sweep() == {"checkpoints": 3, "closed": 0, "deleted": 0, "replies": 0, "state": 0}
        assert [node.number for node in await hf.sessions.checkpoints(used)] == [4, 5]
        clock.now += 2 * hour - 1
        await evaluate(hf, used, LOG[language])
        assert (await hf.sweep())["closed"] == 0  # fresh, or idle for less than allowed
        clock.now += 1
        assert (await hf.sweep())["closed"] == 2
        assert (await hf.executions.get(turn.execution.id)).status == "cancelled"
        assert [(await hf.sessions.get(each)).state for each in (used, idle, waiting)] == ["ready", "closed", "closed"]
        clock.now += hour - 1
        assert (await hf.sweep())["deleted"] == 0
        clock.now += 1
        assert (await hf.sweep())["deleted"] == 2
        assert [each.id for each in (await hf.sessions.list()).items] == [used]
        hf.retention = Retention(idle_ms=0)  # at once
        assert (await hf.sweep())["closed"] == 1
        hf.retention = Retention()
        clock.now += 10_000 * hour
        assert await hf.sweep() == {
            "checkpoints": 0,
            "closed": 0,
            "deleted": 0,
            "replies": 0,
            "state": 0,
        }  # by default nothing goes


@scene
async def test_pruning_goes_in_batches_and_goes_on_after_a_crash(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prune.__init__, "__defaults__", (None, 3))
    async with opened(address) as hf:
        here = await session(hf)
        await hf.executions.run(here, "for (let n = 0;; n++) await ask(String(n))")
        for _ in range(20):
            await hf.queries.answer(here, "yes")
        before = (await hf.sessions.get(here)).usage.stored_bytes
        found = await hf.sessions.prune_in_background(here, keep=2, patience_s=0)
        assert (await hf.sessions.pruning(here)).remaining or not found.remaining
        turn = await hf.queries.answer(here, "yes")  # it can be used meanwhile
        assert turn.queries[0].payload["question"] == "21"
    async with opened(address) as hf:  # as whoever finds it after a crash
        while len(await hf.sessions.checkpoints(here)) > 2:
            await asyncio.sleep(0.01)
        assert await hf.sessions.pruning(here) == (0, 0)
        assert (await hf.sessions.get(here)).usage.stored_bytes < before
        turn = await hf.queries.answer(here, "yes")
        assert turn.queries[0].payload["question"] == "22"


@scene
async def test_old_versions_of_templates_go(address: str) -> None:
    async with opened(address, retention=Retention(versions=2)) as hf:
        await hf.templates.create("t")
        await hf.templates.set("t", limits={"wall_ms": 1001})
        used = await hf.sessions.create("t")
        for wall_ms in range(1002, 1006):
            await hf.templates.set("t", limits={"wall_ms": wall_ms})
        assert (await hf.sweep())["versions"] == 3
        template = (await hf.templates.get("t")).id
        assert [version.number for version in (await hf.templates.versions(template)).items] == [6, 5, 2]
        assert (await hf.executions.run(used.id, "1 + 1")).execution.result["json"] == 2
        assert (await hf.executions.run((await hf.sessions.create("t")).id, "1 + 1")).execution.status == "ok"
