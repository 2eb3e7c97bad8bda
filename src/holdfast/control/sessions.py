"""Sessions: long-lived program states, and their history."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from holdfast.control import _given
from holdfast.control._creation import SessionCreation
from holdfast.control._edits import which
from holdfast.domain import (
    ErrorEntry,
    InvalidValue,
    Node,
    NotFound,
    Origin,
    Session,
    SessionNotFound,
    SessionState,
    parse_id,
    query_id,
)
from holdfast.runtime import (
    Close,
    Delete,
    Fork,
    Prune,
    Pruning,
    Rewind,
    branches,
    difference,
    globals_at,
    pruning_of,
)
from holdfast.runtime.pruning import delete_damaged
from holdfast.store import Page, Reply, StoreDamaged

_LOOK_S: Final = 0.1
_AT_ONCE: Final = 16
_UNUSABLE: Final = (StoreDamaged, NotFound, InvalidValue)
"""Errors of closing and deleting a session that is there: something in its records is damaged, whatever it is."""


class Sessions(SessionCreation):
    """`hf.sessions`: create, get, list, close, delete; fork, rewind, tree, diff, prune; errors."""

    async def get(self, session: UUID | str) -> Session:
        """Raises `SessionNotFound`."""
        return await self._runtime.call(self._runtime.store.get_session, parse_id(session, "session"))

    async def list(
        self,
        *,
        states: Sequence[SessionState | str] = (),
        template: UUID | str | None = None,
        name: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Session]:
        """Newest first."""
        template_id = None
        if template is not None:
            template_id = (await self._runtime.call(self._runtime.store.get_template, which(template))).id
        return await self._runtime.call(
            self._runtime.store.list_sessions,
            states=_given.words(SessionState, states, "states"),
            template_id=template_id,
            name=_given.name(name),
            **_given.page(limit, after),
        )

    async def close(self, session: UUID | str, *, idempotency_key: str | None = None) -> Session:
        """Ends a session, what runs or waits in it, and the branches of its forks. Its history stays. Closing it twice is fine."""
        session_id = parse_id(session, "session")

        async def do() -> None:
            await self._close(session_id)
            await self.close_branches(session_id)

        await self._once.simple(idempotency_key, {"close": str(session_id)}, do)
        return await self._runtime.call(self._runtime.store.show_session, session_id)

    async def _close(self, session_id: UUID) -> None:
        closing = self._runtime.submit(session_id, Close())
        while not closing.done():  # whatever runs before it is stopped, also what only waited for its turn
            running = self._runtime.cancel(session_id)
            ends = [closing] if running is None else [closing, running]
            await asyncio.wait(ends, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)  # it may begin only now
        try:
            await closing
        except _UNUSABLE as error:  # nothing of it can be loaded, or its records contradict each other, but it can end
            if isinstance(error, SessionNotFound):
                raise
            now = int(self._runtime.settings.clock())
            await self._runtime.call(self._runtime.store.close_damaged, session_id, now)

    async def close_branches(self, session_id: UUID, places: asyncio.Semaphore | None = None) -> None:
        """Closes the sessions that are branches of a session's forks, and those below them."""
        places = places or asyncio.Semaphore(_AT_ONCE)

        async def close(branch: UUID) -> None:
            with contextlib.suppress(SessionNotFound):
                async with places:
                    await self._close(branch)
                await self.close_branches(branch, places)

        await asyncio.gather(*map(close, await self._below(session_id)))

    async def _below(self, session_id: UUID) -> Sequence[UUID]:
        return await self._runtime.call(branches.below, self._runtime.store, session_id)

    async def delete(self, session: UUID | str, *, idempotency_key: str | None = None) -> None:
        """Removes a session and all that belongs to it, with the branches of its forks. Others that were forked from it stay whole."""
        session_id = parse_id(session, "session")

        async def find() -> UUID:
            return (await self._runtime.call(self._runtime.store.show_session, session_id)).id

        async def remove(found: UUID) -> None:
            await self.close(found)
            await self._delete(found, asyncio.Semaphore(_AT_ONCE))

        await self._once.removal(idempotency_key, {"delete": str(session_id)}, find, remove, SessionNotFound)

    async def _delete(self, session_id: UUID, places: asyncio.Semaphore) -> None:
        """Branches first, so that none is left if this ends half way."""

        async def delete(branch: UUID) -> None:
            with contextlib.suppress(SessionNotFound):
                await self._delete(branch, places)

        await asyncio.gather(*map(delete, await self._below(session_id)))
        async with places:
            try:
                await self._runtime.submit(session_id, Delete())
            except _UNUSABLE as error:
                if isinstance(error, SessionNotFound):
                    raise
                core = self._runtime.core
                await self._runtime.call(delete_damaged, core.store, session_id, core.key)

    # ---- history -------------------------------------------------------------------------------------------------------------------

    async def fork(
        self,
        session: UUID | str,
        checkpoint: int | None = None,
        *,
        name: str | None = None,
        meta: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Session:
        """A new session that goes on from a checkpoint of this one, by default from its present state. No image is copied."""
        return (await self.fork_many(session, 1, checkpoint, name=name, meta=meta, idempotency_key=idempotency_key))[0]

    async def fork_many(
        self,
        session: UUID | str,
        count: int,
        checkpoint: int | None = None,
        *,
        name: str | None = None,
        meta: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Sequence[Session]:
        """Several forks at once, each with random numbers of its own."""
        session_id = parse_id(session, "session")
        if type(count) is not int or not 0 < count <= 10_000:
            raise InvalidValue("between 1 and 10000 forks can be made at once")
        _given.some_number(checkpoint, "checkpoint")
        _given.name(name)
        meta = _given.mapping(meta, "meta")

        async def do(reply: Reply | None) -> Sequence[Session]:
            return await self._once.whole(self._fork(session_id, Fork(checkpoint, count, name, meta, reply, self._token)))

        async def again(outcome: dict[str, Any]) -> Sequence[Session]:
            return [await self._made(fork) for fork in outcome["session_ids"]]

        request = {"fork": str(session_id), "count": count, "checkpoint": checkpoint, "name": name, "meta": meta}
        return await self._once(idempotency_key, request, do, again)

    async def _fork(self, session_id: UUID, job: Fork) -> Sequence[Session]:
        forks: list[Session] = await self._runtime.submit(session_id, job)
        if job.wait_for_tools:
            for fork in forks:
                self._runtime.attend(fork.id)
        unready = (SessionState.STARTING, SessionState.RUNNING)  # the latter if another process was faster, with the same key
        starting = [fork.id for fork in forks if fork.state in unready]
        started = {fork.id: fork for fork in await asyncio.gather(*map(self._made, starting))}  # none waits for another's end
        return [started.get(fork.id, fork) for fork in forks]

    async def rewind(self, session: UUID | str, checkpoint: int, *, idempotency_key: str | None = None) -> Session:
        """Makes an earlier checkpoint the present state. What came after it stays in the history, and can be rewound to.

        If an execution waited there, a new one waits there now, with the same queries under new ids. 0 is the session's beginning.
        """
        session_id = parse_id(session, "session")
        _given.number(checkpoint, "checkpoint")

        async def do(reply: Reply | None) -> Session:
            rewound: Session = await self._runtime.submit(session_id, Rewind(checkpoint, reply))
            return await self._started(session_id) if rewound.state is SessionState.STARTING else rewound

        async def again(outcome: dict[str, Any]) -> Session:
            return await self._made(session_id)

        return await self._once(idempotency_key, {"rewind": str(session_id), "checkpoint": checkpoint}, do, again)

    async def checkpoints(self, session: UUID | str) -> Sequence[Node]:
        """All checkpoints, in the order in which they were made."""
        session_id = (await self.get(session)).id
        return await self._runtime.call(self._runtime.store.list_nodes, session_id)

    async def tree(self, session: UUID | str) -> dict[str, Any]:
        """The history of a session: each checkpoint with the one that it follows, and the sessions that were forked there.

        A list, by number, since a history may be deeper than anybody's stack. The first is 0, the beginning, which follows none.
        """
        return await self._runtime.call(self._tree, parse_id(session, "session"))

    def _tree(self, session_id: UUID) -> dict[str, Any]:
        store = self._runtime.store
        session = store.get_session(session_id)
        forks: dict[int, list[str]] = {}
        for fork in store.list_forks(session_id):
            if fork.origin is not None:
                forks.setdefault(fork.origin.number, []).append(str(fork.id))
        nodes: list[dict[str, Any]] = [
            {"number": 0, "parent": None, "execution_id": None, "created_at": None, "bytes": 0, "open": []}
        ]
        nodes += [
            {
                "number": node.number,
                "parent": node.parent,
                "execution_id": str(node.execution_id),
                "created_at": node.created_at,
                "bytes": node.size,
                "open": [query_id(number) for number in node.open],
            }
            for node in store.list_nodes(session_id)
        ]
        for node in nodes:
            node |= {"head": node["number"] == session.head, "forks": forks.get(node["number"], [])}
        origin = session.origin
        return {
            "session_id": str(session_id),
            "origin": None if origin is None else {"session_id": str(origin.session_id), "checkpoint": origin.number},
            "nodes": nodes,
        }

    async def diff(self, session: UUID | str, before: int, after: int | None = None) -> dict[str, Any]:
        """The global variables that differ between two checkpoints, by default between one and the present: added, removed, changed.

        Raises `DifferenceTooLarge` if they cannot be looked at in five seconds, or are too many to be told.
        """
        session_id = parse_id(session, "session")
        _given.number(before, "before")
        _given.some_number(after, "after")
        async with self._runtime.core.looks:
            return await self._runtime.call(self._diff, session_id, before, after)

    def _diff(self, session_id: UUID, before: int, after: int | None) -> dict[str, Any]:
        core = self._runtime.core
        session = self._runtime.store.get_session(session_id)
        shelved = core.shelf.get(session.template_id, session.template_version)
        later = session.head if after is None else after
        found = [globals_at(core, shelved, Origin(session_id, number)) for number in (before, later)]
        return difference(*found)

    async def prune(
        self,
        session: UUID | str,
        *,
        keep: int | None = None,
        before: int | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """Drops checkpoints: all but the newest `keep`, of those made before a time in milliseconds. Tells how many went.

        The present state and those that forks began at always stay. Events stay.
        """
        session_id = parse_id(session, "session")
        _given.some_number(keep, "keep")
        _given.some_number(before, "before")

        async def do() -> int:
            batch = Prune(keep, before)
            while (await self._runtime.submit(session_id, batch)).remaining:
                batch = Prune(keep, before, batch)  # between two batches other jobs of the session have their turn
            return batch.so_far.pruned

        request = {"prune": str(session_id), "keep": keep, "before": before}
        pruned: int = await self._once.simple(idempotency_key, request, do)
        return pruned

    async def prune_in_background(
        self,
        session: UUID | str,
        *,
        keep: int | None = None,
        before: int | None = None,
        patience_s: float = 1.0,
        idempotency_key: str | None = None,
    ) -> Pruning:
        """Drop checkpoints as `prune` does, and return how far that has come when it has ended, or after so many seconds.

        It goes on, also in another process if this one dies. `pruning` tells how far it has come.
        """
        session_id = parse_id(session, "session")
        work = self.prune(session_id, keep=keep, before=before, idempotency_key=idempotency_key)
        task = self._once.spawn(work)
        done, _ = await asyncio.wait([task], timeout=patience_s)
        return Pruning(task.result()) if done else await self.pruning(session_id)

    async def pruning(self, session: UUID | str) -> Pruning:
        """Return how far the pruning of a session that is under way has come; nothing remains if none is."""
        session_id = parse_id(session, "session")
        await self.get(session_id)
        found = await self._runtime.call(pruning_of, self._runtime.core.store, session_id, int(self._runtime.settings.clock()))
        return Pruning() if found is None else found[0]

    # ---- errors --------------------------------------------------------------------------------------------------------------------

    async def errors(self, session: UUID | str, *, limit: int = 50, after: str | None = None) -> Page[ErrorEntry]:
        """What went wrong in a session, oldest first."""
        session_id = (await self.get(session)).id
        return await self._runtime.call(self._runtime.store.list_errors, session_id, **_given.page(limit, after))

    async def resolve_error(self, session: UUID | str, error: UUID | str, *, idempotency_key: str | None = None) -> None:
        """Notes that an error was dealt with."""
        now = int(self._runtime.settings.clock())
        session_id, error_id = parse_id(session, "session"), parse_id(error, "error entry")

        async def do() -> None:
            await self._runtime.call(self._runtime.store.resolve_error, session_id, error_id, now)

        await self._once.simple(idempotency_key, {"resolve": str(error_id), "session": str(session_id)}, do)
