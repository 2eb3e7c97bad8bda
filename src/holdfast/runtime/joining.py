"""Sees to the forks of scripts: has their branches made and told to begin, waits for them, in whatever process they run, and joins them.

Nothing of this is durable but what `forking.py` commits. If this process dies, another one finds the fork's query open, and does the same.
A process that ends a branch whose fork it does not see to begins to see to it. If nobody waits for a fork any more, its branches are
stopped; those that nobody stopped, because a process died just then, are found later (`Runtime`).
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast.domain import Answer, ExecutionStatus, HoldfastError, Query, QueryNotFound, QueryState
from holdfast.runtime import branches
from holdfast.runtime.forking import Born, Branch, Join, Refuse, has_ended
from holdfast.runtime.resident import Resident

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

_log: Final = logging.getLogger("holdfast.runtime")
_LOOK_S: Final = 1.0
_LONGEST_LOOK_S: Final = 15.0
_AT_ONCE: Final = 16


@dataclass(slots=True, eq=False)
class _Fork:
    """A fork that is seen to here, and which of its branches have ended, as far as is known."""

    query: Query
    ended: set[int] = field(default_factory=set)
    failed: bool = False
    due: asyncio.Event = field(default_factory=asyncio.Event)
    """Set if it should be looked at, and not only because it was not for a while."""


class Joining:
    """The forks that a runtime sees to, on its loop."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._forks: dict[tuple[UUID, int], _Fork] = {}

    def tell(self, branch: Resident) -> bool:
        """A branch has moved. Gives whether its fork is seen to here."""
        family, execution = branch.session.family, branch.execution
        fork = None if family is None else self._forks.get((family.parent, family.query))
        if family is None or fork is None:
            return False
        if execution is not None and has_ended(execution):
            fork.ended.add(family.index)
            failed = execution.status is not ExecutionStatus.OK
            fork.failed = fork.failed or failed
            if len(fork.ended) == len(branches.names(fork.query)) or (failed and branches.aborts(fork.query)):
                fork.due.set()
        return True

    def wake(self, session_id: UUID, number: int) -> None:
        """Nobody waits for a fork any more, as far as is known."""
        fork = self._forks.get((session_id, number))
        if fork is not None:
            fork.due.set()

    async def join(self, query: Query) -> None:
        """Sees to a fork until it is joined, or nobody waits for it any more."""
        place = query.session_id, query.number
        fork = self._forks[place] = _Fork(query)
        try:
            made: Query | Answer | None = await self._runtime.submit(query.session_id, Branch(query.number))
            if isinstance(made, Answer):
                await self._runtime.submit(query.session_id, Refuse(query.number, made))
                return
            if made is not None:
                for child in branches.children(query):
                    self._runtime.submit(child, Born(query.number)).add_done_callback(_ignore)
                if await self._joined(fork):
                    return
        finally:
            del self._forks[place]
        await self.stop(branches.children(query))

    async def stop(self, children: Sequence[UUID]) -> None:
        """Cancels what runs or waits in branches that nobody waits for. Those that another process runs are left to it."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def end(child: UUID) -> None:
            try:
                async with places:
                    branch = await self._runtime.call(branches.latest, self._runtime.store, child)
                    if branch is not None and not has_ended(branch):
                        await self._runtime.stop(branch.id)
            except HoldfastError as error:
                _log.info("a branch could not be stopped yet: %s", error)

        await asyncio.gather(*map(end, children))

    async def _joined(self, fork: _Fork) -> bool:
        """Whether it came to that: else nobody waits for it any more."""
        query, pause = fork.query, _LOOK_S
        while True:
            fork.due.clear()
            awaited, left = await self._runtime.call(self._look, fork)
            if not awaited:
                return False
            if not left:
                if not await self._runtime.submit(query.session_id, Join(query.number)):
                    return True
                fork.ended.clear()  # somebody has rewound one of them
            elif fork.failed and branches.aborts(query):
                await self.stop(left)
            try:
                async with asyncio.timeout(pause):
                    await fork.due.wait()
                pause = _LOOK_S
            except TimeoutError:
                pause = min(pause * 2, _LONGEST_LOOK_S)

    def _look(self, fork: _Fork) -> tuple[bool, list[UUID]]:
        """Whether the fork is waited for, and which of its branches have not ended. On a thread."""
        query, store = fork.query, self._runtime.store
        try:
            if store.get_query(query.session_id, query.number).state is not QueryState.OPEN:
                return False, []
        except QueryNotFound:  # it went with its session
            return False, []
        left: list[UUID] = []
        for index, child in enumerate(branches.children(query)):
            if index in fork.ended:
                continue
            branch = branches.latest(store, child)
            if has_ended(branch):
                fork.ended.add(index)
                fork.failed = fork.failed or branch is None or branch.status is not ExecutionStatus.OK
            else:
                left.append(child)
        return True, left


def _ignore(future: "asyncio.Future[None]") -> None:
    """Whoever finds a branch that was not told which it is tells it: see `Tools`."""
    if not future.cancelled() and future.exception() is not None:
        _log.info("a branch could not begin yet: %s", future.exception())
