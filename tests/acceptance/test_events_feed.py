"""Whoever follows what happens hears of each event once, in order, and goes on wherever it stopped.

Each kind of store is met where the order of events is its own affair; what every store must do besides is in the contract of stores.
"""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast import Holdfast, HoldfastError
from holdfast.control import Feed, Told
from tests.acceptance.scenes import opened, refused, scene, session
from tests.chaos.node import Node

TALK = "for (const n of [1, 2, 3]) { console.log(n, 'a'); console.log(n, 'b'); await ask('go on?') } 'done'"
"""Four steps, with several events in each."""


async def take(feed: Feed, count: int) -> list[Told]:
    """So many events; they must come soon."""
    told: list[Told] = []
    async with asyncio.timeout(10):
        async for each in feed:
            assert each is not None
            told.append(each)
            if len(told) == count:
                break
    assert len(told) == count
    return told


async def rest(feed: Feed) -> list[Told]:
    """All until the feed ends."""
    async with asyncio.timeout(10):
        return [told async for told in feed if told is not None]


async def silence(feed: Feed, seconds: float = 0.05) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(feed), seconds)


async def talk(hf: Holdfast, here: UUID) -> UUID:
    """A whole conversation. Gives its execution."""
    turn = await hf.executions.run(here, TALK)
    for _ in range(3):
        turn = await hf.queries.answer(here, "yes")
    assert turn.execution.status == "ok"
    return turn.execution.id


async def events_of(hf: Holdfast, execution: UUID) -> list[Any]:
    return list(await hf.executions.events(execution))


@scene
async def test_an_execution_is_followed_to_its_end_while_it_is_answered(durable: str) -> None:
    async with opened(durable) as hf:
        here = await session(hf)
        turn = await hf.executions.run(here, TALK)
        following = asyncio.ensure_future(rest(hf.events.follow(execution=turn.execution.id)))
        for _ in range(3):
            await asyncio.sleep(0.02)
            assert not following.done()
            await hf.queries.answer(here, "yes")
        told = await following
        assert [each.event for each in told] == await events_of(hf, turn.execution.id)
        assert [each.cursor for each in told] == [str(seq) for seq in range(1, len(told) + 1)]
        assert {(each.session_id, each.execution_id) for each in told} == {(here, turn.execution.id)}


@scene
async def test_any_reader_goes_on_after_any_cursor(everywhere: str) -> None:
    async with opened(everywhere) as hf:
        here, other = await session(hf), await session(hf)
        executions = [await talk(hf, here), await talk(hf, other), await talk(hf, here)]
        all_events = {execution: await events_of(hf, execution) for execution in executions}
        here_count = len(all_events[executions[0]]) + len(all_events[executions[2]])
        whole: dict[str, tuple[dict[str, Any], list[Told]]] = {
            "execution": ({"execution": executions[0]}, await rest(hf.events.follow(execution=executions[0], after=""))),
            "session": ({"session": here}, await take(hf.events.follow(session=here, after=""), here_count)),
            "everything": ({}, await take(hf.events.follow(after=""), sum(map(len, all_events.values())))),
        }
        assert [t.event for t in whole["execution"][1]] == all_events[executions[0]]
        assert [t.event for t in whole["session"][1]] == all_events[executions[0]] + all_events[executions[2]]
        assert [t.event for t in whole["everything"][1]] == [e for execution in executions for e in all_events[execution]]
        for which, told in whole.values():
            for at in range(len(told) - 1):
                feed = hf.events.follow(**which, after=told[at].cursor)
                assert await take(feed, len(told) - at - 1) == told[at + 1 :]
            at_end = hf.events.follow(**which, after=told[-1].cursor)
            if "execution" in which:
                assert await rest(at_end) == []
            else:
                await silence(at_end)


@scene
async def test_now_is_when_it_was_asked_for(durable: str) -> None:
    async with opened(durable) as hf:
        here, other = await session(hf), await session(hf)
        await talk(hf, here)
        feeds = [await hf.events.follow(session=here).begin(), await hf.events.follow().begin()]
        starts = [feed.cursor for feed in feeds]
        ran = [await talk(hf, here), await talk(hf, other)]
        expected = [await events_of(hf, ran[0]), await events_of(hf, ran[0]) + await events_of(hf, ran[1])]
        for feed, start, which, events in zip(feeds, starts, ({"session": here}, {}), expected, strict=True):
            told = await take(feed, len(events))
            assert [each.event for each in told] == events
            assert feed.cursor == told[-1].cursor
            await silence(feed)
            # Who comes back without having heard of anything goes on there too.
            assert await take(hf.events.follow(**which, after=start), len(events)) == told


@scene
async def test_a_slow_reader_lags_and_misses_nothing(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf)
        feed = await hf.events.follow(session=here).begin()
        ran = [await talk(hf, here)]
        told = await take(feed, 3)
        ran += [await talk(hf, here) for _ in range(15)]  # more steps than a page has
        assert len(feed._page) <= 20  # what was read at once, and nothing of what came later
        events = [event for execution in ran for event in await events_of(hf, execution)]
        while len(told) < len(events):
            told += await take(feed, min(7, len(events) - len(told)))
            waiting = asyncio.ensure_future(anext(feed))
            await asyncio.sleep(0)
            waiting.cancel()  # giving up is no loss
            (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
            told += [outcome] if isinstance(outcome, Told) else []
        assert [each.event for each in told] == events
        await silence(feed)


@scene
async def test_a_heartbeat_comes_when_nothing_else_does(address: str) -> None:
    async with opened(address) as hf:
        here = await session(hf)
        feed = await hf.events.follow(session=here, heartbeat=0.05).begin()
        began = asyncio.get_running_loop().time()
        assert [await anext(feed) for _ in range(3)] == [None] * 3
        assert 0.14 < asyncio.get_running_loop().time() - began < 5
        execution = await talk(hf, here)
        events = await events_of(hf, execution)
        assert [told.event for told in await take(feed, len(events))] == events
        assert await anext(feed) is None


@scene
async def test_a_feed_ends_with_its_session(durable: str) -> None:
    async with opened(durable) as hf:
        here, other = await session(hf), await session(hf)
        turn = await hf.executions.run(here, TALK)
        of_all, of_session = await hf.events.follow().begin(), await hf.events.follow(session=here, after="").begin()
        before = await take(of_session, turn.execution.seq)
        of_execution = hf.events.follow(execution=turn.execution.id)
        await take(of_execution, turn.execution.seq)
        ends = [asyncio.ensure_future(rest(feed)) for feed in (of_session, of_execution)]
        await asyncio.sleep(0.02)
        await hf.sessions.delete(here)
        for end in ends:  # that it was closed may be told before it is gone
            assert {told.execution_id for told in await end} <= {turn.execution.id}
        execution = await talk(hf, other)
        events = await events_of(hf, execution)
        told = [each for each in await take(of_all, len(events)) if each.session_id == other]
        told += await take(of_all, len(events) - len(told)) if len(told) < len(events) else []
        assert [each.event for each in told] == events
        for which, code in (
            ({"session": here}, "SESSION_NOT_FOUND"),
            ({"execution": turn.execution.id}, "EXECUTION_NOT_FOUND"),
        ):
            with refused(code):
                await hf.events.follow(**which, after=before[0].cursor if "session" in which else "1").begin()
        assert [t.event for t in await take(hf.events.follow(after=told[0].cursor), len(events) - 1)] == events[1:]


@scene
async def test_a_rewind_is_told_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.control.events._LOOK_S", 60)  # or else it would be found by looking, a second later
    async with opened(address) as hf:
        here = await session(hf)
        turn = await hf.executions.run(here, TALK)
        await hf.queries.answer(here, "yes")
        following = asyncio.ensure_future(rest(hf.events.follow(execution=turn.execution.id)))
        await asyncio.sleep(0.03)
        await hf.sessions.rewind(here, 1)
        assert [told.event for told in await following] == await events_of(hf, turn.execution.id)


@scene
async def test_what_makes_no_sense_is_refused(everywhere: str) -> None:
    async with opened(everywhere) as hf:
        here = await session(hf)
        execution = await talk(hf, here)
        everything = (await take(hf.events.follow(after=""), 1))[0].cursor
        bad: list[dict[str, Any]] = [
            {"execution": execution, "session": here},
            {"heartbeat": 0},
            {"heartbeat": float("nan")},
            {"heartbeat": True},
            {"execution": "x"},
            {"session": 7},
            *(
                {"execution": execution, "after": after}
                for after in ("x", "-1", "01", "1.5", "\u0661", " 1", "9" * 30, "1000", everything)
            ),
            *(
                {"session": here, "after": after}
                for after in ("x", ".1", "1.", "1.x", "1.1.1", "01.1", "99", "99.1", everything, 5)
            ),
            *({"after": after} for after in ("x", "1", "1.1", everything.partition(".")[0][:-1] + ".1", "A" * 5000, "\0", b"")),
        ]
        for which in bad:
            with refused("VALIDATION_ERROR"):
                await hf.events.follow(**which).begin()
        for which, code in (({"session": uuid4()}, "SESSION_NOT_FOUND"), ({"execution": uuid4()}, "EXECUTION_NOT_FOUND")):
            for after in (None, "", "1"):
                with refused(code):
                    await anext(hf.events.follow(**which, after=after))


@scene
async def test_a_feed_says_that_holdfast_was_closed(durable: str) -> None:
    async with opened(durable) as hf:
        here = await session(hf)
        turn = await hf.executions.run(here, TALK)
        feeds = [hf.events.follow(execution=turn.execution.id), hf.events.follow(session=here), hf.events.follow()]
        following = [asyncio.ensure_future(rest(feed)) for feed in feeds]
        await asyncio.sleep(0.05)
    outcomes = await asyncio.gather(*following, return_exceptions=True)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, HoldfastError)] == ["CLOSED"] * 3
    with refused("CLOSED"):
        await hf.events.follow().begin()


@scene
async def test_many_follow_while_many_talk(durable: str) -> None:
    async with opened(durable) as hf:
        sessions = [await session(hf) for _ in range(6)]
        begun = [await hf.events.follow().begin() for _ in range(3)]
        ran = await asyncio.gather(*(talk(hf, here) for here in sessions))
        events = {execution: await events_of(hf, execution) for execution in ran}
        for told in await asyncio.gather(*(take(feed, sum(map(len, events.values()))) for feed in begun)):
            for execution in ran:
                assert [each.event for each in told if each.execution_id == execution] == events[execution]


@scene
async def test_what_happens_in_another_process_is_told(durable: str, tmp_path: Path) -> None:
    async with opened(durable) as hf:
        here, there = await session(hf), await session(hf)
        async with Node.start(durable, tmp_path / "world") as other:
            feeds = [await hf.events.follow().begin(), await hf.events.follow(session=there).begin()]
            turn = await other("executions.run", str(there), TALK)
            execution = UUID(turn["execution"])
            following = asyncio.ensure_future(rest(hf.events.follow(execution=execution)))
            for _ in range(3):
                await other("queries.answer", str(there), "yes")
            local = await talk(hf, here)
            theirs, ours = await events_of(hf, execution), await events_of(hf, local)
            assert [told.event for told in await following] == theirs
            assert [told.event for told in await take(feeds[1], len(theirs))] == theirs
            told = await take(feeds[0], len(theirs) + len(ours))
            assert [each.event for each in told if each.session_id == there] == theirs
            assert [each.event for each in told if each.session_id == here] == ours
            await silence(feeds[0])
