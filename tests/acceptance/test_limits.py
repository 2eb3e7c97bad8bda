"""Limits are rollbacks: the execution ends, the session is where it was, and can be used."""

import pytest

from holdfast import EffectKind, Function, Limits
from tests.acceptance.scenes import both, evaluate, grants, opened, refused, scene, session, template

LOOP = {"javascript": "for (;;) {}", "lua": "while true do end"}
COUNT = {"javascript": "count", "lua": "return count"}
BREACHES = [
    ("wall_ms", Limits(wall_ms=100, cpu_ms=0), LOOP, "timeout"),
    ("cpu_ms", Limits(cpu_ms=100), LOOP, "timeout"),
    ("mem_mb", Limits(mem_mb=16), {"javascript": "const a = []; for (;;) a.push('x'.repeat(1e5) + a.length)", "lua": "local a = {} while true do a[#a+1] = ('x'):rep(100000) .. #a end"}, "error"),
    ("max_events", Limits(max_events=10), {"javascript": "for (;;) console.log(1)", "lua": "while true do print(1) end"}, "error"),
    ("max_output_kb", Limits(max_output_kb=4), {"javascript": "for (;;) console.log('x'.repeat(100))", "lua": "while true do print(('x'):rep(100)) end"}, "error"),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "limits", "sources", "status"), BREACHES, ids=[name for name, *_ in BREACHES])
@both
@scene
async def test_a_breach_ends_the_execution_and_not_the_session(
    address: str, language: str, limit: str, limits: Limits, sources: dict[str, str], status: str
) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=limits)
        await evaluate(hf, here, "count = 1")
        head = (await hf.sessions.get(here)).head
        turn = await hf.executions.run(here, "count = 2; " + sources[language])
        assert turn.execution.status == status
        assert turn.execution.error is not None
        assert (turn.execution.error["code"], turn.execution.error["limit"]) == ("LIMIT_EXCEEDED", limit)
        assert (turn.session.state, turn.session.head) == ("ready", head)
        assert limit in (turn.session.last_error or "")
        assert await evaluate(hf, here, COUNT[language]) == 1


@both
@scene
async def test_a_breach_after_a_pause_drops_only_that_execution(address: str, language: str) -> None:
    source = {
        "javascript": "count = 2; console.log('before'); const a = await ask('?'); count = 3; console.log('after'); for (;;) {}",
        "lua": "count = 2; print('before'); local a = alc.ask('?'); count = 3; print('after'); while true do end",
    }[language]
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=150))
        await evaluate(hf, here, "count = 1")
        await hf.executions.run(here, source)
        turn = await hf.queries.answer(here, "go")
        assert turn.execution.status == "timeout"
        assert turn.session.state == "ready"
        # What it had done until its last checkpoint stays, what came after does not; its events all do.
        assert await evaluate(hf, here, COUNT[language]) == 2
        events = await hf.executions.events(turn.execution.id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.payload["text"] for event in events if event.type == "console"] == ["before", "after"]
        assert events[-1].type == "checkpoint"
        assert any(event.type == "system" and event.payload.get("code") == "LIMIT_EXCEEDED" for event in events)
        # The answer was given, and counts as such.
        assert (await hf.queries.get(here, "q-1")).state == "answered"
        again = await hf.queries.answer(here, "go", query="q-1")
        assert again.execution.id == turn.execution.id
        assert again.execution.status == "timeout"


@both
@scene
async def test_suspensions_are_limited(address: str, language: str) -> None:
    source = {"javascript": "for (;;) await ask('more?')", "lua": "while true do alc.ask('more?') end"}[language]
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(max_suspensions=3))
        turn = await hf.executions.run(here, source)
        answers = 0
        while turn.execution.status == "paused":
            turn = await hf.queries.answer(here, answers)
            answers += 1
        assert answers == 3
        assert turn.execution.error is not None
        assert turn.execution.error["limit"] == "max_suspensions"
        assert await evaluate(hf, here, {"javascript": "1 + 1", "lua": "return 1 + 1"}[language]) == 2


@both
@scene
async def test_a_host_function_that_breaks_rolls_back(address: str, language: str) -> None:
    def broken() -> None:
        raise RuntimeError("a secret path /etc/passwd")

    functions = [Function("world.broken", broken, EffectKind.READ), Function("world.once", broken)]
    call = {"javascript": "try {{ hf.call('{}') }} catch {{ count = 9 }}", "lua": "pcall(alc.call, '{}') count = 9"}[language]
    async with opened(address, functions=functions) as hf:
        here = await session(hf, language, capabilities=grants(functions))
        await evaluate(hf, here, "count = 1")
        for name in ("world.broken", "world.once"):
            turn = await hf.executions.run(here, call.format(name))
            assert turn.execution.status == "error"
            assert turn.execution.error is not None
            assert turn.execution.error["code"] == "HOST_FAILED"
            assert "secret" not in str(turn.execution.error)
            assert await evaluate(hf, here, COUNT[language]) == 1


@both
@scene
async def test_errors_are_remembered_until_they_are_resolved(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language, limits=Limits(wall_ms=100))
        bad = await hf.executions.run(here, {"javascript": "throw new RangeError('one')", "lua": "error('one')"}[language])
        slow = await hf.executions.run(here, LOOP[language])
        await hf.executions.run(here, {"javascript": "'fine'", "lua": "return 'fine'"}[language])
        entries = (await hf.sessions.errors(here)).items
        assert [entry.execution_id for entry in entries] == [bad.execution.id, slow.execution.id]
        assert [entry.phase for entry in entries] == ["running", "running"]
        assert "one" in entries[0].message
        assert entries[1].kind == "LIMIT_EXCEEDED"
        assert [entry.attempt for entry in entries] == [1, 1]
        assert all(entry.resolved_at is None and entry.timestamp > 0 and entry.task_id is None for entry in entries)
        await hf.sessions.resolve_error(here, entries[0].id)
        after = (await hf.sessions.errors(here)).items
        assert after[0].resolved_at is not None
        assert after[1].resolved_at is None
        page = await hf.sessions.errors(here, limit=1)
        assert [entry.id for entry in (await hf.sessions.errors(here, after=page.next)).items] == [entries[1].id]
        with refused("ERROR_ENTRY_NOT_FOUND"):
            await hf.sessions.resolve_error(here, here)
        with refused("SESSION_NOT_FOUND"):
            await hf.sessions.errors(entries[0].id)


@scene
async def test_limits_of_a_version_hold_for_its_sessions(address: str) -> None:
    async with opened(address) as hf:
        await template(hf, "lua", "t", limits=Limits(max_events=5))
        strict = (await hf.sessions.create("t")).id
        await hf.templates.update("t", limits=Limits(max_events=500))
        loose = (await hf.sessions.create("t")).id
        source = "for i = 1, 50 do print(i) end"
        assert (await hf.executions.run(strict, source)).execution.status == "error"
        assert (await hf.executions.run(loose, source)).execution.status == "ok"
