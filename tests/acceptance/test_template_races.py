"""Templates, while other processes make and delete templates too, stop in the middle, or die before they reply."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from holdfast import Limits, Settings, StartupFile
from holdfast.domain import Template, TemplateNotFound, TemplateSpec, TemplateVersion, VersionConflict
from holdfast.store import open_store
from holdfast.store._sql import load_queries
from tests.acceptance.scenes import (
    all_stores,
    both,
    dies_before_it_replies,
    evaluate,
    opened,
    refused,
    scene,
    session,
    template,
)
from tests.postgres import fresh_schema

STARTUP = {"javascript": [StartupFile("a.js", "var q = 1")], "lua": [StartupFile("a.lua", "q = 1")]}


@contextlib.contextmanager
def stopped(address: str, *more: str) -> Iterator[psycopg.Connection]:
    """Another process that was stopped in the middle of writing a template."""
    with contextlib.closing(psycopg.connect(address)) as other:
        other.execute(load_queries("postgresql")["lock_versions"])
        for statement in more:
            other.execute(statement)
        yield other


# ---- a lock that another process holds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more", [(), ("LOCK TABLE versions",), ("INSERT INTO templates VALUES (DEFAULT, gen_random_uuid(), 'new', 1, 1, 1)",)]
)
@scene
async def test_a_lock_of_another_process_stops_no_run_and_no_heartbeat(more: tuple[str, ...]) -> None:
    address = fresh_schema()
    async with opened(address, settings=Settings(lease_ms=3000)) as hf:
        here = await session(hf)
        await evaluate(hf, here, "1")
        with stopped(address, *more) as other:
            making = asyncio.create_task(hf.templates.create("new"))
            began = time.monotonic()
            while time.monotonic() < began + 4:
                run = time.monotonic()
                await evaluate(hf, here, "2")
                assert time.monotonic() - run < 2
                await asyncio.sleep(0.1)
            assert not making.done()
            assert await asyncio.to_thread(hf._runtime.store.is_alive, hf._runtime.core.node)
            other.rollback()
        assert (await making).name == "new"


def test_a_lock_is_waited_for_until_postgresql_takes_it_from_whoever_was_stopped() -> None:
    address = fresh_schema()
    with contextlib.closing(open_store(address)) as store:
        impatient: Any = store
        impatient._connections._patience = 0
        one = Template(uuid4(), "one", 1, 1, 1)
        version = TemplateVersion(one.id, 1, TemplateSpec(), b"g", b"b", 1)
        with stopped(address) as other:
            other.execute("SET idle_in_transaction_session_timeout = '1s'")
            store.create_template(one, version)
        assert store.get_template("one") == one


def test_an_attempt_that_did_not_get_the_lock_has_done_nothing() -> None:
    address = fresh_schema()
    with contextlib.closing(open_store(address)) as store:
        one = Template(uuid4(), "one", 1, 1, 1)
        version = TemplateVersion(one.id, 1, TemplateSpec(), b"g", b"b", 1)
        store.create_template(one, version)
        second = TemplateVersion(one.id, 2, TemplateSpec(), b"g", b"b", 1)
        store.add_version(second, 1)

        async def after_a_wait(error: type[Exception], work: Callable[[], None]) -> None:
            with stopped(address):
                waiting = asyncio.create_task(asyncio.to_thread(work))
                await asyncio.sleep(0.3)
                assert not waiting.done()
            with pytest.raises(error):
                await waiting

        asyncio.run(after_a_wait(TemplateNotFound, lambda: store.delete_template(uuid4())))
        asyncio.run(after_a_wait(VersionConflict, lambda: store.add_version(second, 1)))


# ---- an update happens once ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 2])
@all_stores
@scene
async def test_an_update_whose_maker_died_before_it_replied_is_recognised(
    address: str, language: str, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        await template(hf, language, "t")
        dies_before_it_replies(monkeypatch, hf._runtime.store)
        update = lambda: hf.templates.update("t", limits=Limits(wall_ms=3000), idempotency_key="k")  # noqa: E731
        with refused("STORE_UNAVAILABLE"):
            await update()
        monkeypatch.undo()
        for _ in range(others):
            await hf.templates.update("t", startup=STARTUP[language], limits=Limits())
        for _ in range(2):
            assert (await update()).number == 2
        assert (await hf.templates.get("t")).latest == 2 + others
        assert (await hf.templates.update("t", limits=Limits(wall_ms=3000), idempotency_key="other")).number == 3 + others


@both
@scene
async def test_an_update_that_was_refused_can_be_asked_for_again(
    address: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        await template(hf, language, "t")
        store: Any = hf._runtime.store
        update = lambda: hf.templates.update("t", limits=Limits(wall_ms=3000), idempotency_key="k")  # noqa: E731
        add = store.add_version
        for wall_ms in (1000, 2000):  # each time, somebody else is faster

            def late(version: TemplateVersion, now: int, wall_ms: int = wall_ms) -> None:
                faster = TemplateVersion(
                    version.template_id,
                    version.number,
                    TemplateSpec(language, limits=Limits(wall_ms=wall_ms)),
                    version.guest,
                    version.baked,
                    now,
                )
                add(faster, now)
                add(version, now)

            monkeypatch.setattr(store, "add_version", late)
            with refused("VERSION_CONFLICT"):
                await update()
            monkeypatch.undo()
        dies_before_it_replies(monkeypatch, store)
        with refused("STORE_UNAVAILABLE"):
            await update()
        monkeypatch.undo()
        assert (await update()).number == 4
        assert (await hf.templates.get("t")).latest == 4


@both
@scene
async def test_an_update_planned_for_a_template_that_is_gone_is_done_to_its_namesake(
    address: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        await template(hf, language, "t")
        await hf.templates.update("t")
        dies_before_it_replies(monkeypatch, hf._runtime.store)
        update = lambda: hf.templates.update("t", limits=Limits(wall_ms=3000), idempotency_key="k")  # noqa: E731
        with refused("STORE_UNAVAILABLE"):
            await update()
        monkeypatch.undo()
        await hf.templates.delete("t")
        await template(hf, language, "t")
        for _ in range(2):
            made = await update()
            assert (made.number, made.spec.limits.wall_ms) == (2, 3000)


# ---- what others delete in between ---------------------------------------------------------------------------------------------------


@both
@scene
async def test_what_was_baked_may_go_and_come_back_in_between(
    address: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        store: Any = hf._runtime.store
        spec: dict[str, Any] = {"startup": STARTUP[language]}

        def dropped_once(name: str) -> None:
            """Another process deletes the last template with this memory, and a third one bakes it again."""
            real = getattr(store, name)

            def do(*given: Any) -> None:
                monkeypatch.undo()
                version = next(value for value in given if isinstance(value, TemplateVersion))
                data = store.get_blob(version.baked)
                store.delete_template(store.get_template("one").id)
                try:
                    real(*given)
                finally:
                    store.put_blob(version.baked, data)

            monkeypatch.setattr(store, name, do)

        await template(hf, language, "one", **spec)
        dropped_once("create_template")
        assert (await hf.templates.create("two", language=language, **spec)).name == "two"
        await hf.templates.delete("two")

        await template(hf, language, "one", **spec)
        await template(hf, language, "plain")
        dropped_once("add_version")
        assert (await hf.templates.update("plain", **spec)).number == 2
        here = (await hf.sessions.create("plain")).id
        assert await evaluate(hf, here, "q" if language == "javascript" else "return q") == 1


@both
@scene
async def test_what_is_always_dropped_is_not_baked_for_ever(
    address: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        tries: list[int] = []

        def never(*_: Any) -> None:
            tries.append(1)
            raise VersionConflict

        await template(hf, language, "t")
        monkeypatch.setattr(hf._runtime.store, "create_template", never)
        monkeypatch.setattr(hf._runtime.store, "add_version", never)
        asks = (
            hf.templates.create("new", language=language),
            hf.templates.update("t"),
            hf.templates.add_module("t", "fs"),
            hf.templates.add_module("t", "fs", idempotency_key="k"),
        )
        for ask in asks:
            tries.clear()
            with refused("VERSION_CONFLICT"):
                await ask
            assert 1 < len(tries) < 10


@pytest.mark.parametrize("late", [False, True])
@both
@scene
async def test_a_name_that_becomes_free_while_it_is_looked_at_is_given(
    address: str, language: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder goes after the name was found taken, be it before anything was baked or afterwards."""
    async with opened(address) as hf:
        store: Any = hf._runtime.store
        holder = await hf.templates.create("t", language=language)
        get = store.get_template
        looks: list[int] = []

        def look(which: Any, **_: Any) -> Template:
            looks.append(1)
            if late and len(looks) == 1:
                raise TemplateNotFound
            if len(looks) == (2 if late else 1):
                found: Template = get(which)
                store.delete_template(found.id)
                if not late:
                    return found
            return get(which)  # type: ignore[no-any-return]

        monkeypatch.setattr(store, "get_template", look)
        made = await hf.templates.create("t", language=language)
        monkeypatch.undo()
        assert made.id != holder.id
        assert (await hf.templates.get("t")).id == made.id
