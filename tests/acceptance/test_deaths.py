"""A process dies before or after any of its writes. Whoever asks another one the same, with the same key, gets what was asked for, once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, HoldfastError, Settings, Worktree
from holdfast.store import StoreUnavailable, open_store
from tests.acceptance.scenes import opened, refused, scene, session, template

WRITES = frozenset(
    ["add_version", "commit", "create_template", "delete_session", "delete_template", "put_reply", "rename_template"]
)
LEASE_MS = 30
MOST = 20


class Mortal:
    """The store of a process that dies at one of its writes: before it, or when it is done."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.left = -1
        """Writes until then; negative: it lives on."""
        self.after = False
        self.dead = False

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self._call(name, args, options)

    def _call(self, name: str, args: Any, options: Any) -> Any:
        if name in WRITES and not self.dead:
            self.left -= 1
            last = self.left == 0
            self.dead = last and not self.after
        else:
            last = False
        if self.dead:
            raise StoreUnavailable
        result = getattr(self._store, name)(*args, **options)
        self.dead = self.dead or last
        if last:
            raise StoreUnavailable
        return result


def process(store: Any) -> Holdfast:
    return Holdfast.open(store, settings=Settings(lease_ms=LEASE_MS, grace_ms=0))


async def census(hf: Holdfast) -> list[Any]:
    """All there is, and how it stands."""
    templates = [(each.name, each.latest) for each in (await hf.templates.list()).items]
    sessions = sorted((each.template_version, each.state.value) for each in (await hf.sessions.list()).items)
    executions = sorted((each.kind.value, each.status.value) for each in (await hf.executions.list()).items)
    return [templates, sessions, executions]


VERBS: dict[str, Callable[[Holdfast, Any, Worktree], Awaitable[Any]]] = {
    "a template is deleted": lambda hf, here, tree: hf.templates.delete("spare", idempotency_key="k"),
    "a template is renamed": lambda hf, here, tree: hf.templates.set("spare", name="new", active=False, idempotency_key="k"),
    "a session is deleted": lambda hf, here, tree: hf.sessions.delete(here, idempotency_key="k"),
    "a session is made": lambda hf, here, tree: hf.sessions.create("starts", worktree=tree, idempotency_key="k"),
}


@pytest.mark.parametrize("verb", VERBS)
@scene
async def test_it_is_done_once_wherever_its_process_dies(verb: str, tmp_path: Path) -> None:
    (tmp_path / "one.js").write_text("var n = 1")
    (tmp_path / "two.js").write_text("n += 1")
    tree, do = Worktree("w", "c", str(tmp_path)), VERBS[verb]
    expected: list[Any] | None = None
    for left, after in [(-1, False), *((left, after) for left in range(1, MOST) for after in (False, True))]:
        store = open_store("memory:")
        async with opened("memory:") as known:  # for the guests that every store needs
            store = known._address
            mortal = Mortal(store)
            async with process(mortal) as hf:
                for name in ("spare", "starts"):
                    await template(hf, name=name)
                await hf.templates.add_startup("starts", "one.js")
                await hf.templates.add_startup("starts", "two.js", order_index=1)
                here = await session(hf)
                await hf.executions.run(here, "await ask('?')")
                mortal.left, mortal.after = left, after
                if left < 0:
                    await do(hf, here, tree)
                    expected = await census(hf)
                    continue
                died = False
                try:
                    await do(hf, here, tree)
                except HoldfastError:
                    died = True
                died, mortal.left = died or mortal.dead, -1
            if not died:
                assert left > 1
                return
            await asyncio.sleep(LEASE_MS / 1000)
            async with process(Mortal(store)) as hf:
                await do(hf, here, tree)
                await do(hf, here, tree)
                assert await census(hf) == expected, f"dead {'after' if after else 'before'} write {left}"
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
            feeds = [hf.events.follow(execution=turn.execution.id), hf.events.follow(session=here, after=""), hf.events.follow()]
            for feed in feeds:
                with refused("STORE_UNAVAILABLE"):
                    await feed.begin()
        assert [told.event.seq for told in [await anext(feeds[0]), await anext(feeds[1])] if told] == [1, 1]
        await feeds[2].begin()
        await hf.executions.run(here, "2")
        told = await anext(feeds[2])
        assert told is not None
        assert told.event.payload == {"text": "2"}
