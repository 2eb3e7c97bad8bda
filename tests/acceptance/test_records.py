"""What is kept of a run besides its result: what the script logged and counted itself, and what people noted about it."""

import json
from typing import Any

import pytest

from holdfast import Capability
from holdfast.domain import hidden_root, replies, session_root
from holdfast.runtime import AddNote, count_notes, notes_of
from tests.acceptance.scenes import all_stores, both, opened, refused, scene, session, value

COUNT = {
    "javascript": """hf.log('warn', 'careful'); hf.progress(1, 2, 'half'); hf.stats.record('n', 1);
        await ask('first?'); hf.stats.record('n', 2); hf.stats.record('of', {all: [1]});
        await ask('second?'); hf.stats.record('n', 3); if (await ask('fail?')) throw new Error('no'); hf.stats.get('n')""",
    "lua": """alc.log('warn', 'careful') alc.progress(1, 2, 'half') alc.stats.record('n', 1)
        alc.ask('first?') alc.stats.record('n', 2) alc.stats.record('of', {all = {1}})
        alc.ask('second?') alc.stats.record('n', 3) if alc.ask('fail?') then error('no') end return alc.stats.get('n')""",
}
AFTER = {"n": 3, "of": {"all": [1]}}


@all_stores
@scene
async def test_a_script_counts_logs_and_shows_progress(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, COUNT[language])
        assert turn.execution.custom == {"n": 1}
        events = await hf.executions.events(turn.execution.id)
        assert [(event.type, event.payload) for event in events if event.type in ("log", "progress")] == [
            ("log", {"level": "warn", "message": "careful"}),
            ("progress", {"step": 1, "total": 2, "message": "half"}),
        ]
        shown = replies.snapshot(turn.session, turn.execution, turn.queries, logs=events, now=turn.session.updated_at)[
            "metrics"
        ]
        assert shown["progress"] == {"step": 1, "total": 2, "message": "half"}
        assert [line["message"] for line in shown["recent_logs"]] == ["careful"]
        for _ in range(2):
            await hf.queries.answer(here, True)
        second = (await hf.sessions.get(here)).head - 1
        done = await hf.queries.answer(here, False)
        assert value(done) == 3
        assert replies.completed(done.execution)["stats"]["custom"] == AFTER
        fork = await hf.sessions.fork(here, second)
        await hf.sessions.rewind(here, second)
        for again in (fork.id, here):
            execution = (await hf.executions.list(again)).items[0]
            assert execution.custom == {"n": 2, "of": {"all": [1]}}
            await hf.queries.answer(again, True)
            failed = await hf.queries.answer(again, True)
            assert replies.failed(failed.execution)["stats"]["custom"] == AFTER
            fresh = await hf.executions.run(
                again, {"javascript": "hf.stats.get('n')", "lua": "return alc.stats.get('n')"}[language]
            )
            assert (fresh.execution.custom, value(fresh)) == ({}, None)


@both
@scene
async def test_what_a_step_counted_that_was_rolled_back_does_not_count(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        loop = {
            "javascript": "hf.stats.record('n', 1); await ask('?'); hf.stats.record('n', 2); hf.log('info', 'x'.repeat(3e6))"
        }
        loop["lua"] = "alc.stats.record('n', 1) alc.ask('?') alc.stats.record('n', 2) alc.log('info', ('x'):rep(3000000))"
        await hf.executions.run(here, loop[language])
        over = await hf.queries.answer(here, True)
        assert (over.execution.status, over.execution.error["code"]) == ("error", "LIMIT_EXCEEDED")
        assert over.execution.custom == {"n": 1}


LOOK = {
    "javascript": """await ask('?'); const state = require('state'); let found = 'yes'
        try { state.namespace('/notes').keys() } catch { found = 'no' }
        [state.keys(), state.namespace('notes').keys(), found]""",
    "lua": """alc.ask('?') local state = require('state')
        local found = pcall(function() state.namespace('/notes').keys() end)
        return {state.keys(), state.namespace('notes').keys(), found and 'yes' or 'no'}""",
}


@all_stores
@scene
async def test_notes_are_kept_apart_from_what_scripts_can_reach(address: str, language: str) -> None:
    async with opened(address) as hf:
        grant = Capability("module", "state", config={"session": True, "spaces": True})
        here = await session(hf, language, capabilities=[grant])
        await hf.executions.run(here, LOOK[language])
        store, submit = hf._runtime.store, hf._runtime.submit
        assert await submit(here, AddNote("first", "title")) == 1
        assert value(await hf.queries.answer(here, True)) == [[], [], "no"]
        await hf.sessions.close(here)
        assert await submit(here, AddNote("second \U0001f980 \0")) == 2
        found = notes_of(store, here)
        assert [(note["title"], note["content"]) for note in found] == [("title", "first"), (None, "second \U0001f980 \0")]
        assert count_notes(store, here) == 2
        for wrong in (("", None), ("x" * 65_537, None), (7, None), ("x", "t" * 201), ("x", 7)):
            with refused("VALIDATION_ERROR"):
                AddNote(*wrong)
        await hf.sessions.delete(here)
        assert count_notes(store, here) == 0


@scene
async def test_a_session_has_no_more_notes_than_that(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.notes.MOST_NOTES", 3)
    async with opened(sqlite) as hf:
        here = await session(hf, "lua")
        counts: list[Any] = [await hf._runtime.submit(here, AddNote(str(number))) for number in range(3)]
        assert counts == [1, 2, 3]
        with refused("NOTES_FULL"):
            await hf._runtime.submit(here, AddNote("one more"))
        keys = hf._runtime.store.list_state(hidden_root(session_root(here), "notes"), now=0).items
        assert [
            json.loads(hf._runtime.store.get_state(hidden_root(session_root(here), "notes"), key).value)["content"]
            for key in keys
        ] == ["0", "1", "2"]
