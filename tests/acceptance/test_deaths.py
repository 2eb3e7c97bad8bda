"""A process dies after any of its writes. Whoever asks another one the same, with the same key, gets what was asked for, once."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Settings, Worktree
from holdfast.store import StoreUnavailable
from tests.acceptance.scenes import opened, refused, scene, session, template

WRITES = frozenset(["commit", "delete_session", "delete_template", "put_reply"])
LEASE_MS = 30
MOST = 20


class Mortal:
    """The store of a process that dies when one of its writes is done, and nobody has heard of that."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.left = 0
        """Writes until then; 0: it lives on."""
        self.dead = False

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self._call(name, args, options)

    def _call(self, name: str, args: Any, options: Any) -> Any:
        if self.dead:
            raise StoreUnavailable
        result = getattr(self._store, name)(*args, **options)
        if name in WRITES and self.left:
            self.left -= 1
            self.dead = self.left == 0
            if self.dead:
                raise StoreUnavailable
        return result


async def census(hf: Holdfast) -> list[Any]:
    """All there is, and how it stands."""
    templates = [(each.name, each.latest) for each in (await hf.templates.list()).items]
    sessions = sorted((each.template_version, each.state.value) for each in (await hf.sessions.list()).items)
    executions = sorted((each.kind.value, each.status.value) for each in (await hf.executions.list()).items)
    return [templates, sessions, executions]


VERBS: dict[str, Callable[[Holdfast, Any, Worktree], Awaitable[Any]]] = {
    "a template is deleted": lambda hf, here, tree: hf.templates.delete("spare", idempotency_key="k"),
    "a session is deleted": lambda hf, here, tree: hf.sessions.delete(here, idempotency_key="k"),
    "a session is made": lambda hf, here, tree: hf.sessions.create("starts", worktree=tree, idempotency_key="k"),
}


@pytest.mark.parametrize("verb", VERBS)
@scene
async def test_it_is_done_once_wherever_its_process_dies(verb: str, tmp_path: Path) -> None:
    (tmp_path / "one.js").write_text("var n = 1")
    (tmp_path / "two.js").write_text("n += 1")
    tree, do = Worktree("w", "c", str(tmp_path)), VERBS[verb]
    expected: list[Any] = []
    for left in range(MOST):
        async with opened("memory:") as hf:
            await template(hf, name="spare")
            await template(hf, name="starts")
            await hf.templates.add_startup("starts", "one.js")
            await hf.templates.add_startup("starts", "two.js", order_index=1)
            here = await session(hf)
            await hf.executions.run(here, "await ask('?')")
            if not left:
                await do(hf, here, tree)
                expected = await census(hf)
                continue
            mortal = Mortal(hf._address)
            async with Holdfast.open(mortal, settings=Settings(lease_ms=LEASE_MS, grace_ms=0, outage_wait_ms=0)) as other:
                mortal.left = left
                with contextlib.suppress(StoreUnavailable):
                    await do(other, here, tree)
            if not mortal.dead:
                assert left > 2
                return
            await asyncio.sleep(LEASE_MS / 1000)
            await do(hf, here, tree)
            await do(hf, here, tree)
            assert await census(hf) == expected, f"dead after write {left}"
    pytest.fail("it never comes to its end")


@scene
async def test_a_session_is_deleted_although_its_forks_go_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was looked at what they need of it: that is not needed any more then."""
    async with opened("memory:") as hf:
        here = await session(hf)
        await hf.executions.run(here, "var x = 1")
        fork = await hf.sessions.fork(here)
        await hf.sessions.close(fork.id)
        store = hf._address
        delete, looked = store.delete_session, []

        def first_the_fork(session_id: Any, rebased: Any = ()) -> None:
            looked.append(len(rebased))
            if len(looked) == 1:
                delete(fork.id)
            delete(session_id, rebased)

        monkeypatch.setattr(store, "delete_session", first_the_fork)
        await hf.sessions.delete(here)
        assert looked == [1, 0]
        with refused("SESSION_NOT_FOUND"):
            await hf.sessions.get(here)


@scene
async def test_a_feed_whose_beginning_the_store_had_no_ear_for_begins_when_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened("memory:") as hf:
        here = await session(hf)
        turn = await hf.executions.run(here, "1")
        store = hf._address

        def deaf(*args: Any, **options: Any) -> None:
            raise StoreUnavailable

        with monkeypatch.context() as patched:
            for verb in ("get_execution", "last_cursor", "list_steps"):
                patched.setattr(store, verb, deaf)
            feeds = [
                hf.events.follow(execution=turn.execution.id),
                hf.events.follow(session=here, after=""),
                hf.events.follow(),
            ]
            for feed in feeds:
                with refused("STORE_UNAVAILABLE"):
                    await feed.begin()
        assert [told.event.seq for told in [await anext(feeds[0]), await anext(feeds[1])] if told] == [1, 1]
        await feeds[2].begin()
        await hf.executions.run(here, "2")
        told = await anext(feeds[2])
        assert told is not None
        assert told.event.payload == {"text": "2"}
