"""Idempotency keys: the same request again gives the same result, and happens once."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast.control._tenancy import TenantRuntime
from holdfast.domain import Conflict, IdempotencyConflict, InvalidValue, NotFound
from holdfast.runtime.plans import plan, planned
from holdfast.sandbox import jsontext
from holdfast.store import Reply

_LONGEST: Final = 200

Result = TypeVar("Result")


def check_key(key: str) -> None:
    """Refuses what is no idempotency key."""
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST:
        raise InvalidValue(f"an idempotency key has 1 to {_LONGEST} characters")


_encode: Final = json.JSONEncoder(sort_keys=True, default=str).encode


class Once:
    """Remembers requests by their keys: those under way here, and those that the store has.

    A request with a key is a task of its own. It comes to its end whether or not its caller still waits: one that gave up and asks again
    finds it under way, and nothing is done twice.
    """

    def __init__(self, runtime: TenantRuntime) -> None:
        self._runtime = runtime
        self._under_way: dict[str, tuple[str, asyncio.Task[Any]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(
        self,
        key: str | None,
        request: dict[str, Any],
        do: Callable[[Reply | None], Awaitable[Result]],
        again: Callable[[dict[str, Any]], Awaitable[Result]],
    ) -> Result:
        """`do`, with the reply that it must make durable together with what it does; or `again`, if that was done before."""
        if key is None:
            return await do(None)
        check_key(key)
        key = self._runtime.scoped_key(key)
        digest = hashlib.sha256(jsontext.dumps(request, _encode, sort=True).encode()).hexdigest()
        while key in self._under_way:
            theirs, task = self._under_way[key]
            if theirs != digest:
                raise IdempotencyConflict
            await asyncio.wait([task])
        task = self.spawn(self._first_or_again(key, digest, do, again))
        self._under_way[key] = digest, task
        task.add_done_callback(lambda _: self._under_way.pop(key))
        return await _end_of(task)

    async def _first_or_again(
        self,
        key: str,
        digest: str,
        do: Callable[[Reply | None], Awaitable[Result]],
        again: Callable[[dict[str, Any]], Awaitable[Result]],
    ) -> Result:
        outcome = await self._outcome(key, digest)
        if outcome is None:
            try:
                return await do(Reply(key, digest, {}, int(self._runtime.settings.clock())))
            except (Conflict, NotFound):  # perhaps with the very same request, which another process was faster to do
                outcome = await self._outcome(key, digest)
                if outcome is None:
                    raise
        return await again(outcome)

    async def _outcome(self, key: str, digest: str) -> dict[str, Any] | None:
        known = await self._runtime.call(self._runtime.store.get_reply, key)
        if known is not None and known.request != digest:
            raise IdempotencyConflict
        return None if known is None else known.outcome

    async def simple(self, key: str | None, request: dict[str, Any], do: Callable[[], Awaitable[Any]]) -> Any:
        """For what does no harm when it is done twice, as may happen if the process ends in between. Gives JSON."""

        async def first(reply: Reply | None) -> Any:
            result = await do()
            if reply is not None:
                await self._runtime.call(self._runtime.store.put_reply, reply._replace(outcome={"result": result}))
            return result

        async def again(outcome: dict[str, Any]) -> Any:
            return outcome["result"]

        return await self(key, request, first, again)

    async def removal(
        self,
        key: str | None,
        request: dict[str, Any],
        find: Callable[[], Awaitable[UUID]],
        remove: Callable[[UUID], Awaitable[None]],
        gone: type[NotFound],
    ) -> None:
        """For what is not there any more when it is done again. It is found and planned first: then that it is `gone` is no error."""

        async def first(reply: Reply | None) -> None:
            if reply is None:
                await remove(await find())
                return
            known = await self._runtime.call(self.planned, reply)
            if known is None:
                known = await self._runtime.call(self.plan, reply, {"removes": str(await find())})
            with contextlib.suppress(gone):
                await remove(UUID(known["removes"]))
            await self._runtime.call(self._runtime.store.put_reply, reply)

        async def again(outcome: dict[str, Any]) -> None:
            return None

        await self(key, request, first, again)

    def plan(self, reply: Reply, wanted: dict[str, Any]) -> dict[str, Any]:
        """What the first who was asked this is about to do. Called on a thread.

        For what cannot be made durable together with its reply: whoever is asked the same, elsewhere or after a crash, recognises it.
        """
        known = plan(self._runtime.store, reply, wanted, reply.request)
        return wanted if known is None else known.outcome

    def planned(self, reply: Reply) -> dict[str, Any] | None:
        """What `plan` was told when this was asked before. Called on a thread."""
        known = planned(self._runtime.store, reply, reply.request)
        return None if known is None else known.outcome

    async def whole(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Does something to its end, whether or not the caller still waits."""
        return await _end_of(self.spawn(work))

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Do something to its end; closing waits for that."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # perhaps nobody else hears of it: who asks again hears the same

    async def close(self) -> None:
        """Waits for what is under way. The runtime is closed by now, and refuses whatever it would do next."""
        while self._tasks:
            await asyncio.wait(self._tasks)


async def _end_of(task: asyncio.Task[Result]) -> Result:
    """What comes of a task, which goes on if the one who waits here is cancelled."""
    await asyncio.wait([task])
    return task.result()
