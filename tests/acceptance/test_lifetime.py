"""What is given back: templates, descriptors, threads, leases; and what is said while a process lives."""

import asyncio
import contextlib
import gc
import os
import sqlite3
import threading
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from holdfast import EffectKind, Function, Holdfast, HoldfastError, Limits, Settings, SourceFile, StartupFile, Tool
from holdfast.domain import Session, SessionState, Template, TemplateSpec, TemplateVersion, VersionConflict
from holdfast.runtime import shelf
from holdfast.store import Commit, Store, StoreUnavailable, open_store
from holdfast.store.memory import MemoryStore
from tests.acceptance.scenes import both, evaluate, grants, opened, refused, scene, session, template, until


def held() -> tuple[int, int]:
    """How many descriptors this process has, and how many threads are ours."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), sum(thread.name.startswith("holdfast") for thread in threading.enumerate())


async def back_to(before: tuple[int, int]) -> None:
    """Threads end a moment after they were told to."""
    await until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))


def library(number: int) -> list[SourceFile]:
    """In Lua, which is baked much sooner."""
    return [SourceFile("own.lua", f"own = {number} text = '{os.urandom(500).hex()}'")]


# ---- templates ---------------------------------------------------------------------------------------------------------------------


@scene
async def test_templates_that_are_deleted_leave_nothing(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        await evaluate(hf, await session(hf, "lua"), "1")
        (before, _), blobs = held(), count_blobs(sqlite)
        for number in range(8):
            await hf.templates.create("short", language="lua", libraries=library(number))
            here = (await hf.sessions.create("short")).id
            assert await evaluate(hf, here, "own") == number
            await hf.templates.update("short", libraries=library(-number))
            await hf.sessions.delete(here)
            await hf.templates.delete("short")
        assert held()[0] <= before + 8  # a few are kept for the sessions that usually follow, and the store has readers
        assert count_blobs(sqlite) == blobs
        assert await evaluate(hf, await session(hf, "lua"), "1") == 1


def count_blobs(address: str) -> int:
    with contextlib.closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as connection:
        return int(connection.execute("SELECT count(*) FROM blobs").fetchone()[0])


@scene
async def test_many_templates_in_use_take_few_descriptors(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "_KEPT", 2)
    async with opened(sqlite, settings=Settings(resident=4)) as hf:
        await evaluate(hf, await session(hf, "lua"), "1")
        before, _ = held()
        sessions = []
        for number in range(15):
            await hf.templates.create(f"t{number}", language="lua", libraries=library(number))
            sessions.append((await hf.sessions.create(f"t{number}")).id)
            await hf.executions.run(sessions[-1], "own = own + alc.ask('how many?')")
        assert held()[0] < before + 12
        for number, here in enumerate(sessions):  # those that were put away come back
            await hf.queries.answer(here, 100)
            assert await evaluate(hf, here, "own") == 100 + number
        assert held()[0] < before + 12


@scene
async def test_a_template_that_is_made_again_works(sqlite: str) -> None:
    async with opened(sqlite) as one, opened(sqlite) as two:
        for number in range(3):
            for hf in (one, two):
                await hf.templates.create("same", libraries=[SourceFile("own.js", "var own = 7")])
                here = (await hf.sessions.create("same")).id
                assert await evaluate(one, here, f"own + {number}") == 7 + number
                await one.sessions.delete(here)
                await two.templates.delete("same")


@scene
async def test_two_processes_never_leave_a_version_without_what_was_baked(durable: str) -> None:
    together = threading.Barrier(4)

    def make_and_delete(store: Store, name: str) -> list[bytes | None]:
        found: list[bytes | None] = []
        together.wait()
        while len(found) < 20:
            made = Template(uuid4(), name, 1, 1, 1)
            if store.get_blob(b"baked") is None:
                store.put_blob(b"baked", b"data")
            with contextlib.suppress(VersionConflict):  # another one has deleted it in between
                store.create_template(made, TemplateVersion(made.id, 1, TemplateSpec(), b"guest", b"baked", 1))
                found.append(store.get_blob(b"baked"))
                store.delete_template(made.id)
        return found

    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(contextlib.closing(open_store(durable))) for _ in range(4)]
        stores[0].put_blob(b"guest", b"data")
        with ThreadPoolExecutor(4) as pool:
            found = list(await asyncio.to_thread(pool.map, make_and_delete, stores, "abcd"))
        assert found == [[b"data"] * 20] * 4
        assert stores[0].get_blob(b"baked") is None


# ---- opening and closing -----------------------------------------------------------------------------------------------------------


class Watched(MemoryStore):
    """Says who lives in it, and whether it was closed. It may be slow to open, or refuse to."""

    def __init__(self) -> None:
        super().__init__()
        self.living: set[UUID] = set()
        self.is_closed = self.fails = False
        self.beating, self.may_beat = threading.Event(), threading.Event()
        self.may_beat.set()

    def beat(self, node: UUID, lease_ms: int) -> None:
        self.beating.set()
        self.may_beat.wait(10)
        super().beat(node, lease_ms)
        self.living.add(node)

    def retire(self, node: UUID) -> None:
        super().retire(node)
        self.living.discard(node)

    def list_interrupted(self, *, limit: int = 100) -> list[UUID]:
        if self.fails:
            raise StoreUnavailable
        return super().list_interrupted(limit=limit)

    def close(self) -> None:
        super().close()
        self.is_closed = True


@scene
async def test_opening_that_fails_leaves_nothing() -> None:
    before = held()
    for _ in range(5):
        store = Watched()
        store.fails = True
        with refused("STORE_UNAVAILABLE"):
            await Holdfast.open(store).__aenter__()
        assert store.is_closed
        assert not store.living
    await back_to(before)


@scene
async def test_opening_that_is_cancelled_leaves_nothing(sqlite: str) -> None:
    before = held()
    store = Watched()
    store.may_beat.clear()
    opening = asyncio.ensure_future(Holdfast.open(store).__aenter__())
    await until(store.beating.is_set)
    opening.cancel()
    await asyncio.sleep(0.05)
    store.may_beat.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert store.is_closed
    assert not store.living
    for delay in range(12):  # wherever it is by then
        opening = asyncio.ensure_future(opened(sqlite).__aenter__())
        await asyncio.sleep(delay / 500)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await opening).__aexit__(None, None, None)
    await back_to((before[0] + 1, before[1]))


@scene
async def test_closing_that_is_cancelled_goes_on() -> None:
    before = held()
    store = Watched()
    hf = await Holdfast.open(store, settings=Settings(grace_ms=300)).__aenter__()
    here = await session(hf, limits=Limits(wall_ms=30_000, cpu_ms=0))
    call = asyncio.ensure_future(hf.executions.run(here, "for (;;) {}"))
    await asyncio.sleep(0.1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hf.__aexit__(None, None, None), 0.05)
    assert not store.is_closed
    await asyncio.gather(*(hf.__aexit__(None, None, None) for _ in range(3)))
    assert store.is_closed
    assert not store.living
    with pytest.raises(HoldfastError):
        await call
    await hf.__aexit__(None, None, None)
    with refused("CLOSED"):
        await hf.sessions.list()
    del hf, call
    await back_to(before)


@pytest.mark.parametrize("close", ["never", "cut short"])
def test_a_loop_that_ends_closes_what_is_open(close: str) -> None:
    async def main(store: Store) -> Holdfast:
        hf = await Holdfast.open(store).__aenter__()
        here = await session(hf, limits=Limits(wall_ms=30_000, cpu_ms=0))
        await hf.executions.run(here, "for (;;) {}", background=True)
        if close == "cut short":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hf.__aexit__(None, None, None), 0.05)
        return hf

    async def look() -> tuple[int, int]:
        return held()

    before = asyncio.run(look())  # with what a loop has itself
    for _ in range(2):
        store = Watched()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            hf = asyncio.run(main(store))
        assert store.is_closed
        assert not store.living
        assert [warning.category for warning in said] == ([ResourceWarning] if close == "never" else [])
        asyncio.run(closed_elsewhere(hf))
        del hf, said
    asyncio.run(back_to(before))


async def closed_elsewhere(hf: Holdfast) -> None:
    """Another loop may ask, and hears that it is closed."""
    with refused("CLOSED"):
        await hf.sessions.list()
    await hf.__aexit__(None, None, None)


# ---- the heartbeat -----------------------------------------------------------------------------------------------------------------


class Slow(MemoryStore):
    """Some of its calls take long."""

    def get_template(self, which: UUID | str) -> Template:
        time.sleep(0.4)
        return super().get_template(which)


@pytest.mark.parametrize("busy", ["threads of the application", "calls of the store"])
@scene
async def test_a_busy_process_lives(busy: str) -> None:
    store = Slow()
    async with Holdfast.open(store, settings=Settings(lease_ms=600)) as hf:
        (node,) = store._kept.nodes
        if busy == "calls of the store":
            work = [asyncio.ensure_future(hf.templates.get("nobody")) for _ in range(100)]
        else:
            work = [asyncio.ensure_future(asyncio.to_thread(time.sleep, 0.4)) for _ in range(40)]
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            await asyncio.sleep(0.02)
            assert store.is_alive(node)
        if busy != "calls of the store":
            async with asyncio.timeout(0.3):  # calls are not behind the application's either
                await hf.sessions.list()
        await asyncio.gather(*work, return_exceptions=True)


# ---- tools that take long ----------------------------------------------------------------------------------------------------------

CALLS = {
    "javascript": """
        let code; try { await hf.tool('slow', {}, {timeout_ms: 50}) } catch (e) { code = e.code }
        [code, await hf.tool('slow', 1, {timeout_ms: 50, default: 'none', name: 'other', args: 2}), await hf.tool('quick', 3, {timeout_ms: 9e5})]
    """,
    "lua": """
        local ok, e = pcall(alc.tool, 'slow', {}, {timeout_ms = 50})
        return {e.code, alc.tool('slow', 1, {timeout_ms = 50, default = 'none', name = 'other', args = 2}), alc.tool('quick', 3, {timeout_ms = 9e5})}
    """,
}


@both
@scene
async def test_a_tool_may_be_waited_for_only_so_long(address: str, language: str) -> None:
    async def slow(args: object) -> object:
        await asyncio.sleep(30)
        return args

    async def quick(args: object) -> object:
        return args

    tools = [Tool("slow", slow), Tool("quick", quick)]
    async with opened(address, tools=tools) as hf:
        name = await template(hf, language, "tools", capabilities=grants(tools=tools))
        here = (await hf.sessions.create(name)).id
        assert await evaluate(hf, here, CALLS[language]) == ["QUERY_EXPIRED", "none", 3]
        queries = (await hf.queries.list(here, states=())).items
        assert [(query.payload["name"], query.payload["args"]) for query in queries] == [
            ("slow", {}),
            ("slow", 1),
            ("quick", 3),
        ]
        assert queries[1].payload["timeout_ms"] == 50


@scene
async def test_what_is_not_resident_any_more_takes_no_memory(address: str) -> None:
    """At once, not when Python comes to collect what refers to itself."""
    async with opened(address, settings=Settings(resident=2)) as hf:
        first, *others = [await session(hf) for _ in range(4)]
        await hf.executions.run(first, "await ask('?')")
        resident = hf._runtime._dispatcher._slots[first].resident
        assert resident is not None
        image, sandbox = weakref.ref(resident.ladder[-1].image), resident.sandbox
        gc.collect()
        gc.disable()
        try:
            for other in others:
                await hf.executions.run(other, "1")
            assert image() is None
            assert sandbox is not None
            assert sandbox.closed
        finally:
            gc.enable()
        assert (await hf.queries.answer(first, "x")).execution.status == "ok"


# ---- what is to be recovered -------------------------------------------------------------------------------------------------------


@scene
async def test_the_summary_says_how_many_sessions_are_still_to_be_recovered(sqlite: str) -> None:
    go = threading.Event()
    wait = Function("world.wait", lambda: go.wait(30), EffectKind.READ)
    async with opened(sqlite, functions=[wait]) as hf:
        startup = [StartupFile("start.js", "require('world').wait()", "session")]
        found = await hf.templates.create("t", startup=startup, capabilities=grants([wait]))
        assert (await hf.summary())["interrupted"] == 0
        for number in range(6):  # as a process leaves them that dies after it has made them
            lost = Session(uuid4(), found.id, 1, SessionState.STARTING, 1, 1, owner=uuid4())
            assert hf._runtime.store.commit([Commit(lost, None, 0, number)]) == [None]
    async with opened(sqlite, functions=[wait]) as hf:
        assert (await hf.summary())["interrupted"] == 6
        go.set()
        for _ in range(1_000):
            summary = await hf.summary()
            if summary["sessions"]["ready"] == 6 and summary["interrupted"] == 0:
                return
            await asyncio.sleep(0.01)
        pytest.fail(str(summary))
