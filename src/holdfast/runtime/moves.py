"""Waiting until something happens in this process."""

import asyncio
import contextlib
from collections.abc import Iterator
from uuid import UUID


class Moves:
    """Who waits for jobs to end: those of an execution, of a session, or any. On the event loop only."""

    def __init__(self) -> None:
        self.waiters: dict[UUID | None, list[asyncio.Future[None]]] = {}
        """By what they wait for; None is anything. Empty while nobody waits: then there is nothing to tell."""

    @contextlib.contextmanager
    def wait(self, key: UUID | None) -> Iterator[asyncio.Future[None]]:
        """A future that is done when a job has ended in the execution or session with this id, or anywhere."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self.waiters.setdefault(key, [])
        waiters.append(waiter)
        try:
            yield waiter
        finally:
            waiter.cancel()
            waiters.remove(waiter)
            if not waiters and self.waiters.get(key) is waiters:
                del self.waiters[key]

    def tell(self, session_id: UUID, execution_id: UUID | None) -> None:
        """A job of this session has ended, and perhaps of this execution."""
        keys = (session_id, None) if execution_id is None else (execution_id, session_id, None)
        for key in keys:
            _wake(self.waiters.pop(key, ()))

    def tell_all(self) -> None:
        """Whoever waits shall look again."""
        for waiters in list(self.waiters.values()):
            _wake(waiters)


def _wake(waiters: "list[asyncio.Future[None]] | tuple[()]") -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
