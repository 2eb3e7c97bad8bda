"""Idempotency keys: the same request again gives the same result, and happens once."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from holdfast.domain import IdempotencyConflict, InvalidValue
from holdfast.runtime import Runtime
from holdfast.store import Reply

_LONGEST: Final = 200

Result = TypeVar("Result")


class Once:
    """Remembers requests by their keys: those under way here, and those that the store has."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._under_way: dict[str, asyncio.Future[None]] = {}

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
        if not isinstance(key, str) or not 0 < len(key) <= _LONGEST:
            raise InvalidValue(f"an idempotency key has 1 to {_LONGEST} characters")
        digest = hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()
        while key in self._under_way:
            await asyncio.wait([self._under_way[key]])
        mine = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            known = await self._runtime.call(self._runtime.store.get_reply, key)
            if known is None:
                return await do(Reply(key, digest, {}, int(self._runtime.settings.clock())))
            if known.request != digest:
                raise IdempotencyConflict
            return await again(known.outcome)
        finally:
            del self._under_way[key]
            mine.set_result(None)

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
