"""Callers that give up and ask again, in this process or another; what is in use is left alone; nonsense is refused in words."""

import asyncio
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import Capability, Function, Holdfast, Limits, Retention, Settings, StartupFile
from holdfast.domain import Session, SessionNotFound
from holdfast.runtime import Runtime
from holdfast.store import open_store
from tests.acceptance.scenes import (
    Clock,
    all_stores,
    both,
    dies_before_it_replies,
    durable_stores,
    evaluate,
    eventually,
    grants,
    opened,
    refused,
    scene,
    session,
    template,
    value,
)

COUNT = {"javascript": "globalThis.n = (globalThis.n || 0) + 1; n", "lua": "n = (n or 0) + 1 return n"}
LOOK = {"javascript": "n", "lua": "return n"}
ASK = {"javascript": "await ask('?')", "lua": "return alc.ask('?')"}
SLOW = {
    "javascript": "globalThis.n = (globalThis.n || 0) + 1; for (let i = 0; i < 3e6; i++); n",
    "lua": "n = (n or 0) + 1 for i = 1, 20000000 do end return n",
}
ASK_THEN_SLOW = {"javascript": f"await ask('?'); {SLOW['javascript']}", "lua": f"alc.ask('?') {SLOW['lua']}"}


async def given_up(work: Any, after: float = 0.03) -> None:
    """A caller that waits for so long, and no longer."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work, after)


# ---- the first is under way ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [False, True])
@all_stores
@scene
async def test_a_run_that_was_given_up_is_found_again(address: str, language: str, wait: bool) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        run = lambda: hf.executions.run(here, SLOW[language], wait=wait, idempotency_key="k")  # noqa: E731
        await given_up(run())
        assert value(await run()) == 1
        assert value(await run()) == 1
        assert len((await hf.executions.list(here)).items) == 1
        assert await evaluate(hf, here, LOOK[language]) == 1


@both
@scene
async def test_one_that_waited_for_its_turn_is_found_again(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, ASK[language])
        run = lambda: hf.executions.run(here, COUNT[language], wait=True, idempotency_key="k")  # noqa: E731
        await given_up(run())
        second = asyncio.create_task(run())
        await asyncio.sleep(0.03)
        await hf.queries.answer(here, "x")
        assert value(await second) == 1
        assert await evaluate(hf, here, LOOK[language]) == 1


@both
@scene
async def test_an_answer_that_was_given_up_is_found_again(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        asked = await hf.executions.run(here, ASK_THEN_SLOW[language])
        answer = lambda: hf.queries.answer(here, "x", idempotency_key="k")  # noqa: E731
        await given_up(answer())
        again = await answer()
        assert again.execution.id == asked.execution.id
        assert value(again) == 1


@both
@scene
async def test_another_request_with_a_key_that_is_under_way_is_refused_at_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        first = asyncio.create_task(hf.executions.run(here, SLOW[language], idempotency_key="k"))
        await asyncio.sleep(0.03)
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.executions.run(here, COUNT[language], idempotency_key="k")
        assert not first.done()
        assert value(await first) == 1


@both
@scene
async def test_one_who_may_wait_does_so_although_the_first_was_refused(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        await hf.executions.run(here, ASK[language])
        run = lambda wait: hf.executions.run(here, COUNT[language], wait=wait, idempotency_key="k")  # noqa: E731
        one, two = asyncio.create_task(run(False)), asyncio.create_task(run(True))
        with refused("SESSION_BUSY"):
            await one
        await hf.queries.answer(here, "x")
        assert value(await two) == 1


@both
@scene
async def test_nothing_is_left_over_when_it_closes(address: str, language: str) -> None:
    problems: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    async with opened(address) as hf:
        here, busy = await session(hf, language), await session(hf, language)
        await hf.executions.run(busy, ASK[language])
        await given_up(hf.executions.run(here, SLOW[language], idempotency_key="runs"))
        await given_up(hf.executions.run(busy, COUNT[language], wait=True, idempotency_key="waits"))
        waits = asyncio.create_task(hf.executions.run(busy, COUNT[language], wait=True, idempotency_key="waits"))
        await asyncio.sleep(0)
    with refused("CLOSED"):
        await waits
    assert asyncio.all_tasks() == {asyncio.current_task()}
    del hf, waits
    assert problems == []


# ---- two processes -------------------------------------------------------------------------------------------------------------------


@durable_stores
@scene
async def test_two_processes_that_are_asked_the_same_agree(address: str, language: str) -> None:
    calls: list[int] = []

    def pay() -> int:
        calls.append(1)
        return len(calls)

    functions = [Function("shop.pay", pay)]
    source = "require('shop').pay()" if language == "javascript" else "return require('shop').pay()"
    async with opened(address, functions=functions) as one, opened(address, functions=functions) as two:

        async def each(do: Any) -> list[Any]:
            return await asyncio.gather(do(one), do(two))

        await template(one, language, "t", capabilities=grants(functions))
        for n in range(4):
            name, key = f"made {n}", f"key {n}"
            first, second = await each(
                lambda hf, name=name, key=key: hf.templates.create(name, language=language, idempotency_key=key)
            )
            assert first.id == second.id
            first, second = await each(lambda hf, key=key: hf.sessions.create("t", idempotency_key=f"session {key}"))
            assert first.id == second.id
            here = first.id
            turns = await each(
                lambda hf, here=here, key=key: hf.executions.run(here, source, wait=True, idempotency_key=f"run {key}")
            )
            assert turns[0].execution.id == turns[1].execution.id
            await one.executions.wait(turns[0].execution.id)
            assert len((await one.executions.list(here)).items) == 1
            assert len(calls) == n + 1


@both
@scene
async def test_a_template_whose_maker_died_before_it_replied_is_recognised(
    address: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        dies_before_it_replies(monkeypatch, hf._runtime.store)
        make = lambda: hf.templates.create("t", language=language, idempotency_key="k")  # noqa: E731
        with refused("STORE_UNAVAILABLE"):
            await make()
        monkeypatch.undo()
        assert (await make()).id == (await hf.templates.get("t")).id
        assert (await make()).id == (await hf.templates.get("t")).id
        with refused("NAME_TAKEN"):
            await hf.templates.create("t", language=language, idempotency_key="other")
        await hf.templates.delete("t")
        assert (await hf.templates.create("t", language=language, idempotency_key="other")).name == "t"


# ---- answers that change nothing -------------------------------------------------------------------------------------------------------


@all_stores
@scene
async def test_the_key_of_an_answer_that_changes_nothing_is_remembered(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        asked = await hf.executions.run(here, ASK[language])
        await hf.queries.answer(here, "x", query="q-1")
        await hf.queries.answer(here, "x", query="q-1", idempotency_key="now")  # in the execution that ended last
        await hf.executions.run(here, ASK[language])
        await hf.queries.answer(here, "x", query="q-1", idempotency_key="later")  # in one before it
        await hf.queries.cancel(here, "q-2")
        await hf.queries.cancel(here, "q-2", idempotency_key="cancelled")
        for key in ("now", "later", "cancelled"):
            with refused("IDEMPOTENCY_CONFLICT"):
                await hf.executions.run(here, COUNT[language], idempotency_key=key)
        again = await hf.queries.answer(here, "x", query="q-1", idempotency_key="later")
        assert again.execution.id == asked.execution.id


# ---- sessions whose makers went away ---------------------------------------------------------------------------------------------------

BOTH = [StartupFile("a.js", "var a = 1", "session"), StartupFile("b.js", "var b = 2", "session")]


def hold_inserts(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes commits take a while, so that callers can go away in the middle."""
    committer = hf._runtime.core.committer
    commit = committer.commit

    def slow(*args: Any) -> Any:
        done = commit(*args)
        time.sleep(0.1)
        return done

    monkeypatch.setattr(committer, "commit", slow)


async def all_ready(hf: Holdfast, count: int) -> bool:
    sessions = (await hf.sessions.list()).items
    return len(sessions) == count and all(each.state == "ready" for each in sessions)


@pytest.mark.parametrize("key", [None, "k"])
@scene
async def test_a_session_whose_maker_went_away_starts(key: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("memory:") as hf:
        await hf.templates.create("t", startup=BOTH)
        hold_inserts(hf, monkeypatch)
        await given_up(hf.sessions.create("t", idempotency_key=key))
        monkeypatch.undo()
        await eventually(lambda: all_ready(hf, 1), 5)
        made = (await hf.sessions.list()).items[0]
        assert value(await hf.executions.run(made.id, "a + b", wait=True)) == 3
        if key is not None:
            assert (await hf.sessions.create("t", idempotency_key=key)).id == made.id


@scene
async def test_forks_whose_maker_went_away_start() -> None:
    async with opened("memory:") as hf:
        await hf.templates.create("t", startup=BOTH)
        here = (await hf.sessions.create("t")).id
        for fork in (hf.sessions.fork_many(here, 3, 0), hf.sessions.fork_many(here, 3, 0, idempotency_key="k")):
            before = len((await hf.sessions.list()).items)
            task = asyncio.create_task(fork)
            await asyncio.sleep(0)
            while len((await hf.sessions.list()).items) == before and not task.done():
                await asyncio.sleep(0)
            task.cancel()
            await eventually(lambda before=before: all_ready(hf, before + 3), 5)


@scene
async def test_a_start_that_nobody_saw_to_goes_on_when_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("memory:") as hf:
        await hf.templates.create("t", startup=BOTH)

        async def forgotten(session_id: UUID) -> Session:
            return await hf.sessions.get(session_id)

        monkeypatch.setattr(hf.sessions, "_started", forgotten)
        made = await hf.sessions.create("t", idempotency_key="k")
        assert made.state == "starting"
        monkeypatch.undo()
        again = await hf.sessions.create("t", idempotency_key="k")
        assert (again.id, again.state) == (made.id, "ready")


@durable_stores
@scene
async def test_whoever_repeats_it_elsewhere_waits_for_the_start(address: str, language: str) -> None:
    ran: list[str] = []

    def slow(name: str) -> None:
        ran.append(name)
        time.sleep(0.5)

    functions = [Function("note.slow", slow)]
    files = [StartupFile(name, f"require('note').slow('{name}')", "session") for name in ("first", "second")]
    async with opened(address, functions=functions) as one, opened(address, functions=functions) as two:
        await template(one, language, "t", startup=files, capabilities=grants(functions), limits=Limits(wall_ms=20_000))
        here = (await one.sessions.create("t")).id
        requests: list[tuple[Any, list[str]]] = [
            (lambda hf: hf.sessions.create("t", idempotency_key="create"), ["first", "second"]),
            (lambda hf: hf.sessions.fork(here, 1, idempotency_key="fork"), ["second"]),
            (lambda hf: hf.sessions.rewind(here, 1, idempotency_key="rewind"), ["second"]),
        ]
        for request, files_of_it in requests:
            ran.clear()
            first = asyncio.ensure_future(request(one))
            while not ran:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            assert not first.done()
            same = await request(two)
            assert same.state == "ready"
            assert same.id == (await first).id
            assert ran == files_of_it


# ---- the sweep -------------------------------------------------------------------------------------------------------------------------


@both
@scene
async def test_the_sweep_leaves_what_is_in_use_again(address: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock), retention=Retention(idle_ms=1000)) as hf:
        answered, idle, runs = [await session(hf, language, limits=Limits(wall_ms=5_000)) for _ in range(3)]
        for each in (answered, idle):
            await hf.executions.run(each, ASK[language])
        clock.now += 2000
        swept = hf._everything.sessions  # of all tenants
        listed = swept.list
        turns: list[Any] = []

        async def then_used(**options: Any) -> Any:
            page = await listed(**options)
            clock.now += 10
            await hf.queries.answer(answered, "x")
            turns.append(asyncio.create_task(hf.executions.run(runs, SLOW[language])))
            await asyncio.sleep(0.1)
            return page

        monkeypatch.setattr(swept, "list", then_used)
        assert (await hf.sweep())["closed"] == 1
        assert value(await turns[0]) == 1
        assert [(await hf.sessions.get(each)).state for each in (answered, idle, runs)] == ["ready", "closed", "ready"]


@scene
async def test_the_sweep_judges_at_the_last_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    async with opened("memory:", settings=Settings(clock=clock), retention=Retention(idle_ms=1000)) as hf:
        here = await session(hf)
        await hf.executions.run(here, ASK["javascript"])
        clock.now += 2000
        submit = Runtime.submit

        def after_an_answer(runtime: Runtime, session_id: UUID, job: Any) -> Any:
            if type(job).__name__ == "_CloseIdle":
                clock.now += 10
                turns.append(asyncio.ensure_future(hf.queries.answer(here, "x")))
                return asyncio.ensure_future(behind(session_id, job))
            return submit(runtime, session_id, job)

        async def behind(session_id: UUID, job: Any) -> Any:
            await asyncio.sleep(0)
            return await submit(hf._runtime, session_id, job)

        turns: list[Any] = []
        monkeypatch.setattr(Runtime, "submit", after_an_answer)
        assert (await hf.sweep())["closed"] == 0
        assert value(await turns[0]) == "x"
        assert (await hf.sessions.get(here)).state == "ready"


# ---- nonsense --------------------------------------------------------------------------------------------------------------------------


class Mute:
    """Something that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@scene
async def test_what_cannot_be_shown_is_refused_like_anything_else() -> None:
    async with opened("memory:") as hf:
        await template(hf)
        for odd in (deep(), Mute()):
            for call in (
                lambda odd=odd: hf.templates.create("x", language=odd),
                lambda odd=odd: hf.templates.get(odd),
                lambda odd=odd: hf.templates.update(odd, limits=None),
                lambda odd=odd: hf.templates.delete(odd),
                lambda odd=odd: hf.sessions.create(odd),
                lambda odd=odd: hf.sessions.list(states=[odd]),
                lambda odd=odd: hf.sessions.list(template=odd),
                lambda odd=odd: hf.executions.list(status=odd),
                lambda odd=odd: hf.queries.list(kinds=[odd]),
                lambda odd=odd: hf.queries.list(states=[odd]),
            ):
                with refused("VALIDATION_ERROR"):
                    await call()


@pytest.mark.parametrize(
    ("enabled", "config"), [(True, None), (True, 5), (True, {1: 2}), (True, {"a": {1}}), ("no", {}), (None, {})]
)
@scene
async def test_a_capability_that_makes_no_sense_is_refused(enabled: Any, config: Any) -> None:
    async with opened("memory:") as hf:
        with refused("VALIDATION_ERROR"):
            await hf.templates.create("t", capabilities=[Capability("tool", "x", enabled, config)])
        await template(hf)
        with refused("VALIDATION_ERROR"):
            await hf.templates.update("javascript", capabilities=[Capability("tool", "x", enabled, config)])


@pytest.mark.parametrize(
    "options",
    [
        *({"resident": bad} for bad in (-1, 1.5, "x", None, True)),
        *({"lease_ms": bad} for bad in (0, -5, "x", float("nan"), float("inf"), 10**400, True)),
        *({"begin_after_ms": bad} for bad in (-1, "x", float("nan"), float("inf"), 10**400, None)),
        *({"grace_ms": bad} for bad in (-1, "x", float("nan"), float("inf"), 10**400)),
        *({"clock": bad} for bad in (5, None, lambda: "x", lambda: float("nan"), lambda: None, lambda: -1)),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with refused("VALIDATION_ERROR") as refusal:
        Settings(**options)
    assert next(iter(options)) in str(refusal.error)


def test_settings_at_their_limits_are_taken() -> None:
    Settings(resident=0, lease_ms=1, begin_after_ms=0, grace_ms=0.5, clock=lambda: 0.0)


def test_before_it_is_opened_it_says_so() -> None:
    hf = Holdfast.open("memory:")
    for part in ("templates", "sessions", "executions", "queries", "workflows"):
        with refused("CLOSED") as refusal:
            getattr(hf, part)
        assert "async with" in str(refusal.error)
    assert not hasattr(hf, "something")


@pytest.mark.parametrize(
    ("name", "code", "word"),
    [
        ("a\0b.db", "VALIDATION_ERROR", "characters"),
        ("\ud800.db", "VALIDATION_ERROR", "characters"),
        ("missing/x.db", "STORE_UNAVAILABLE", "is not there"),
        ("file/x.db", "STORE_UNAVAILABLE", "is not there"),
        ("folder", "STORE_UNAVAILABLE", "no file"),
    ],
)
def test_a_path_that_cannot_be_used_is_told_apart_from_a_damaged_store(tmp_path: Path, name: str, code: str, word: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with refused(code) as refusal:
        open_store(f"sqlite:///{tmp_path / name}")
    said = str(refusal.error)
    assert word in said
    assert str(tmp_path) not in said
    assert "backup" not in said
    assert "try again" not in said


@scene
async def test_what_is_gone_stays_gone_for_a_key_that_deleted_it() -> None:
    async with opened("memory:") as hf:
        here = await session(hf)
        await hf.sessions.delete(here, idempotency_key="k")
        await hf.sessions.delete(here, idempotency_key="k")
        with pytest.raises(SessionNotFound):
            await hf.sessions.delete(here, idempotency_key="other")
