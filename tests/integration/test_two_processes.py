"""Two processes on one store: what one leaves behind the other goes on with, and nothing is done twice."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Function, Holdfast, Limits, Tool
from tests.chaos.killing import read_notes
from tests.chaos.node import GRANTS, Node, Refused
from tests.postgres import fresh_schema

LEASE_S = 1.0
# A process looks for others' sessions every third of a lease; how long that takes and what follows depends on the machine.
SOON_S = LEASE_S + 20
COMPUTE = "let until = 0; for (let i = 0; i < @; i++) until += i;"


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/two.db" if request.param == "sqlite" else fresh_schema()


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return tmp_path / "world"


@contextlib.asynccontextmanager
async def pair(address: str, world: Path, **options: Any) -> AsyncIterator[tuple[Node, Node]]:
    functions = [Function(one.name, print) for one in GRANTS if one.kind == "function"]
    tools = [Tool(one.name, print) for one in GRANTS if one.kind == "tool"]
    async with Holdfast.open(address, functions=functions, tools=tools) as hf:  # it must know what it grants
        await hf.templates.create("js", capabilities=GRANTS, limits=Limits(wall_ms=60_000, cpu_ms=60_000))
    async with Node.start(address, world, **options) as one, Node.start(address, world, **options) as other:
        yield one, other


def happened(world: Path) -> Counter[str]:
    return Counter(" ".join(map(str, note)) for note in read_notes(world))


async def until_happened(world: Path, what: str) -> None:
    async with asyncio.timeout(20):
        while what not in happened(world):
            await asyncio.sleep(0.005)


async def session(node: Node) -> str:
    made: str = (await node("sessions.create", "js"))["id"]
    return made


async def outcome(work: Any) -> Any:
    """What came of a call, or the code with which it was refused."""
    try:
        return await work
    except Refused as error:
        return error.code


# ---- one is killed -----------------------------------------------------------------------------------------------------------------


def test_what_a_killed_process_leaves_is_taken_over_within_the_lease(address: str, world: Path) -> None:
    scripts = {
        "slow step": f"const read = hf.call('world.read', 4); {COMPUTE.replace('@', '1e7')} read",
        "in an effect": "let was = 'done'; try { hf.call('world.slow', 'a', 30) } catch (e) { was = e.code }; was",
        "timer": "await hf.sleep(600); 'woke'",
        "tool": "let got; try { got = await hf.tool('ship', {name: 'b', seconds: 30}) } catch (e) { got = e.code }; got",
        "tool that may run again": "await hf.tool('look', {name: 'c', seconds: 0.3})",
        "waits": "const who = await ask('Who?'); who + '!'",
    }
    expected = {
        "slow step": 8,
        "in an effect": "EFFECT_UNCERTAIN",
        "timer": "woke",
        "tool": "EFFECT_UNCERTAIN",
        "tool that may run again": "seen c",
    }

    async def main() -> None:
        async with pair(address, world) as (one, other):
            turns = {}
            for name, script in scripts.items():
                turns[name] = await one("executions.run", await session(one), script, background=True)
            await asyncio.gather(*(until_happened(world, what) for what in ("slow begins a", "ship begins b", "look begins c")))
            before = {name: (await one("sessions.get", turns[name]["session"]))["owner"] for name in expected}
            one.kill()
            taken = set()
            async with asyncio.timeout(SOON_S):  # to be taken over; what they compute then takes the time that it takes
                for name, owner in before.items():
                    while (found := await other("sessions.get", turns[name]["session"]))["owner"] == owner:
                        if (
                            found["state"] == "ready"
                        ):  # on a slow machine it has ended before, and there is nothing to take over
                            break
                        await asyncio.sleep(0.02)
                    else:
                        taken.add(name)
            assert taken >= {"in an effect", "tool"}  # which take half a minute
            async with asyncio.timeout(20):
                ends = await asyncio.gather(*(other("executions.wait", turns[name]["execution"]) for name in expected))
            assert {name: end["result"] for name, end in zip(expected, ends, strict=True)} == expected
            answered = await other("queries.answer", turns["waits"]["session"], "Ada")
            assert answered["result"] == "Ada!"
        seen = happened(world)
        assert seen["slow begins a"] == seen["ship begins b"] == 1
        assert seen["look begins c"] == 1 + ("tool that may run again" in taken)

    asyncio.run(main())


# ---- one stands still for a while --------------------------------------------------------------------------------------------------


def test_a_revived_process_cannot_commit_what_another_went_on_with(address: str, world: Path) -> None:
    script = (
        "let was = 'done'; try { hf.call('world.slow', 'a', 0.3) } catch (e) { was = e.code }; hf.call('world.pay', 'b'); was"
    )

    async def main() -> None:
        async with pair(address, world) as (one, other):
            where = await session(one)
            pending = asyncio.ensure_future(outcome(one("executions.run", where, script)))
            await until_happened(world, "slow begins a")
            one.stop()
            await asyncio.sleep(LEASE_S)
            async with asyncio.timeout(SOON_S):
                while (await other("sessions.get", where))["state"] != "ready":
                    await asyncio.sleep(0.02)
            one.revive()
            assert await pending == "LEASE_LOST"
            # Both can go on with it, from the state that the other one left.
            assert (await one("executions.run", where, "was"))["result"] == "EFFECT_UNCERTAIN"
            assert (await other("executions.run", where, "was + 1"))["result"] == "EFFECT_UNCERTAIN1"
        assert happened(world) == {"slow begins a": 1, "slow a": 1, "pay b": 1}

    asyncio.run(main())


def test_what_was_not_durable_in_a_stopped_process_is_done_on_the_new_state(address: str, world: Path) -> None:
    async def main() -> None:
        async with pair(address, world, begin_after_ms=60_000) as (one, other):
            where = await session(one)
            await one("executions.run", where, "let count = 0; let answers = []")
            add = f"{COMPUTE.replace('let until', 'var until').replace('@', '4e6')} count += 1"
            pending = asyncio.ensure_future(one("executions.run", where, add))
            await asyncio.sleep(0.1)
            one.stop()
            assert (await other("executions.run", where, add))["result"] == 1
            one.revive()
            assert (await pending)["result"] == 2

            await other("executions.run", where, f"answers.push(await ask('?')); {add}; answers.join()")
            pending = asyncio.ensure_future(outcome(one("queries.answer", where, "from one")))
            await asyncio.sleep(0.1)
            one.stop()
            assert (await other("queries.answer", where, "from other"))["result"] == "from other"
            one.revive()
            assert await pending in ("ANSWER_CONFLICT", "ANSWER_AMBIGUOUS")
            assert (await one("executions.run", where, "[count, answers]"))["result"] == [3, ["from other"]]

    asyncio.run(main())


# ---- both are there ----------------------------------------------------------------------------------------------------------------


def test_two_processes_share_a_session(address: str, world: Path) -> None:
    async def main() -> None:
        async with pair(address, world) as (one, other):
            await alternately(one, other)
            await at_once(one, other)
            await what_is_in_memory_is_not_believed(one, other)
            await in_line(one, other)
            await beside_a_tool(one, other)
        assert happened(world)["ship begins a"] == 1

    asyncio.run(main())


async def alternately(one: Node, other: Node) -> None:
    where = await session(one)
    turn = await one("executions.run", where, "const got = []; for (let i = 0; i < 20; i++) got.push(await ask('?')); got")
    for i in range(20):
        turn = await (one, other)[i % 2]("queries.answer", where, i, query=f"q-{i + 1}")
    assert turn["result"] == list(range(20))
    assert (await one("executions.run", where, "got.length"))["result"] == 20


async def at_once(one: Node, other: Node) -> None:
    """Both answer: the same is fine, of two different answers one counts."""
    where = await session(one)
    await one("executions.run", where, "const all = []; for (let i = 0; i < 20; i++) all.push(await ask('?')); all")
    winners: list[Any] = []
    for i in range(20):
        given = [f"{i} one", f"{i} other"] if i % 2 else [f"{i} both"] * 2
        outcomes = await asyncio.gather(
            *(
                outcome(node("queries.answer", where, value, query=f"q-{i + 1}"))
                for node, value in zip((one, other), given, strict=True)
            )
        )
        refused = [code for code in outcomes if isinstance(code, str)]
        if i % 2:
            assert refused == ["ANSWER_CONFLICT"], outcomes
            winners.append(given[0] if isinstance(outcomes[0], dict) else given[1])
        else:
            assert not refused, outcomes
            winners.append(given[0])
    execution = (outcomes[0] if isinstance(outcomes[0], dict) else outcomes[1])["execution"]
    assert (await one("executions.turn", execution))["result"] == winners


async def what_is_in_memory_is_not_believed(one: Node, other: Node) -> None:
    """One has the session in memory as the other one left it long ago: what it refuses, forks and repeats goes by the store."""
    where = await session(one)
    await one("executions.run", where, "let x = 1; x = await ask('?')")
    assert (await other("queries.answer", where, 2))["result"] == 2
    fork = await one("sessions.fork", where)
    assert (await one("executions.run", fork["id"], "x"))["result"] == 2
    assert (await one("executions.run", where, "x + 1"))["result"] == 3
    await one("executions.run", where, "x = await ask('?')")
    await other("sessions.close", where)
    assert await outcome(one("queries.answer", where, 4, query="q-2")) == "ANSWER_CONFLICT"
    assert await outcome(one("executions.run", where, "x")) == "SESSION_NOT_READY"
    await other("sessions.delete", fork["id"])
    assert await outcome(one("executions.run", fork["id"], "x")) == "SESSION_NOT_FOUND"


async def in_line(one: Node, other: Node) -> None:
    """Whoever waits for its turn in one process has it when the other one has brought the session to rest."""
    where = await session(one)
    await one("executions.run", where, "let y = await ask('?')")
    waiting = asyncio.ensure_future(one("executions.run", where, "y + 1", wait=True))
    await asyncio.sleep(0.1)
    await other("queries.answer", where, 41)
    assert (await waiting)["result"] == 42


async def beside_a_tool(one: Node, other: Node) -> None:
    """A tool runs in one process; the other one answers a query beside it, and does not take the tool for lost."""
    where = await session(one)
    script = "await Promise.all([hf.tool('ship', {name: 'a', seconds: 1.5}), ask('first'), ask('second')])"
    turn = await one("executions.run", where, script)
    assert sorted(turn["queries"].values()) == ["ask", "ask", "tool"]
    await other("queries.answer", where, 1, query="q-2")
    await asyncio.sleep(0.5)
    await other("queries.answer", where, 2, query="q-3")
    end = await other("executions.wait", turn["execution"])
    assert end["result"] == ["shipped a", 1, 2]
