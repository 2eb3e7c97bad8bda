"""A run as one: the execution of a strategy, and those of the branches that it has forked, however deep.

A branch is a session of its own. What it asks is shown under an id that begins with the fork's, such as `f-3-0-7`, and whoever answers
that answers the branch. A run is at rest when nothing of it moves: each of its executions has ended, or waits for somebody outside, for the
clock, for a tool, or for its own branches.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from holdfast.control._tenancy import TenantRuntime
from holdfast.domain import (
    EXECUTION,
    Execution,
    ExecutionNotFound,
    ExecutionStatus,
    Query,
    QueryKind,
    SessionNotFound,
    branch_query_id,
)
from holdfast.runtime import Turn, branches

_LOOK_S: Final = 1.0
"""Other processes commit too, and nobody tells us."""

Path = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """An open query of a run, also of its branches. `id` is what answers name."""

    id: str
    query: Query


@dataclass(slots=True, eq=False)
class Member:
    """One execution of a run, at its place: which branch of which fork, from the root on. `branches` are those of its open forks."""

    path: Path
    turn: Turn
    branches: dict[UUID, "Member"] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return EXECUTION.is_final(self.turn.execution.status)

    @property
    def has_failed(self) -> bool:
        return self.has_ended and self.turn.execution.status is not ExecutionStatus.OK

    @property
    def moves(self) -> bool:
        """Whether it goes on by itself, and soon: it runs, or one of its forks is about to be made, told or joined."""
        if self.turn.execution.status is ExecutionStatus.RUNNING:
            return True
        return any(self._is_in_hand(query) for query in self.turn.queries if branches.is_fork(query))

    def _is_in_hand(self, fork: Query) -> bool:
        if branches.is_birth(self.turn.session, fork) or fork.started_at is None:
            return True
        ended = [branch is None or branch.has_ended for branch in map(self.branches.get, branches.children(fork))]
        if branches.aborts(fork) and any(branch.has_failed for branch in self.branches.values()):
            return True  # the others are about to be stopped
        return all(ended)  # one that is missing by now was deleted

    def walk(self) -> Iterator["Member"]:
        """Itself and all below it, in the order of the forks."""
        yield self
        for branch in self.branches.values():
            yield from branch.walk()


class Family:
    """A run, as it was when it was read."""

    def __init__(self, runtime: TenantRuntime, root: Member) -> None:
        self._runtime, self.root = runtime, root

    @property
    def execution(self) -> Execution:
        return self.root.turn.execution

    def whole(self) -> Execution:
        """The same with what branches of open forks have taken so far: that is counted as the run's own when they are joined."""
        whole = self.execution.copy()
        for member in list(self.root.walk())[1:]:
            whole.metrics.include(member.turn.execution.metrics)
        return whole

    @property
    def moves(self) -> bool:
        """Whether something of it goes on by itself, and soon."""
        return any(member.moves for member in self.root.walk())

    @property
    def queries(self) -> list[Query]:
        """All that is open in it, but for forks."""
        return [query for member in self.root.walk() for query in member.turn.queries if not branches.is_fork(query)]

    def asked(self) -> list[Asked]:
        """What it waits for from outside."""
        return [
            Asked(branch_query_id(member.path, query.number), query)
            for member in self.root.walk()
            if member.turn.execution.status is ExecutionStatus.PAUSED
            for query in member.turn.queries
            if query.kind is not QueryKind.TIMER and not branches.is_fork(query) and not self._runtime.runs(member.turn, query)
        ]

    def rests(self) -> bool:
        """Whether it needs somebody outside, or has ended."""
        return self.root.has_ended or (not self.moves and bool(self.asked()))

    def sessions(self) -> set[UUID]:
        """Those of which more is to come."""
        return {member.turn.session.id for member in self.root.walk() if not member.has_ended}


class Families:
    """Reads runs."""

    def __init__(self, runtime: TenantRuntime) -> None:
        self._runtime = runtime

    async def read(self, session_id: UUID) -> Family:
        """A run as it stands, whatever else is done in its session by now.

        `SessionNotFound`; `ExecutionNotFound` if no strategy ever ran in this session.
        """
        return await self._runtime.call(self.read_now, session_id)

    def read_now(self, session_id: UUID) -> Family:
        """The same, on a thread."""
        self._runtime.store.get_session(session_id)
        return Family(self._runtime, self._member(session_id, ()))

    async def present(self, session_id: UUID) -> Family:
        """What runs or waits in a session now, be it a strategy or a line of a REPL; else its last run, or its last execution."""
        return await self._runtime.call(self._present, session_id)

    def _present(self, session_id: UUID) -> Family:
        store = self._runtime.store
        execution_id = store.get_session(session_id).execution_id
        if execution_id is None and branches.latest(store, session_id) is None:  # a line of a REPL that has ended just now
            execution_id = next((execution.id for execution in store.list_executions(session_id, limit=1).items), None)
        return Family(self._runtime, self._member(session_id, (), execution_id))

    async def again(self, family: Family, sessions: Iterable[UUID]) -> Family:
        """A run with these of its sessions as they stand now: a run may have hundreds of branches, and the others have not moved."""
        await self._runtime.call(self._refresh, family, sessions)
        return family

    def of(self, turn: Turn) -> Family | None:
        """A run of which nothing but this is known, if that is all there is to know."""
        if any(branches.is_fork(query) for query in turn.queries):
            return None
        return Family(self._runtime, Member((), turn))

    async def rest(self, family: Family, seconds: float) -> Family:
        """A run when it rests, or after so many seconds as it stands then.

        Only what has moved is read again: a run may have hundreds of branches.
        """
        if family.rests():
            return family
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with _Watch(self._runtime) as watch:
            while True:
                unseen = watch.add(family.sessions())
                if not unseen and not family.rests() and (left := until - loop.time()) > 0:
                    unseen = await watch.moved(min(left, _LOOK_S)) or family.sessions()
                if not unseen:
                    return family
                await self._runtime.call(self._refresh, family, unseen)

    def _refresh(self, family: Family, sessions: Iterable[UUID]) -> None:
        wanted = set(sessions)
        for member in list(family.root.walk()):
            if member.turn.session.id in wanted:
                self._read(member)

    def _member(self, session_id: UUID, path: Path, execution_id: UUID | None = None) -> Member:
        store = self._runtime.store
        found = branches.latest(store, session_id) if execution_id is None else store.get_execution(execution_id)
        if found is None:
            raise ExecutionNotFound("no strategy ran in this session")
        member = Member(path, self._runtime.turn(found.id, found))
        self._join(member)
        return member

    def _read(self, member: Member) -> None:
        try:
            member.turn = self._runtime.turn(member.turn.execution.id)
        except (SessionNotFound, ExecutionNotFound):  # a branch that was deleted stays as it was
            if not member.path:
                raise
        self._join(member)

    def _join(self, member: Member) -> None:
        """Finds the branches that it waits for. Those that are known stay."""
        known, member.branches = member.branches, {}
        for query in member.turn.queries:
            if not branches.is_fork(query) or branches.is_birth(member.turn.session, query):
                continue
            for index, child in enumerate(branches.children(query)):
                with contextlib.suppress(SessionNotFound, ExecutionNotFound):  # it is not made yet, or was deleted
                    member.branches[child] = known.get(child) or self._member(child, (*member.path, (query.number, index)))


class _Watch:
    """Hears of sessions that move in this process, from when they are added on."""

    def __init__(self, runtime: TenantRuntime) -> None:
        self._runtime = runtime
        self._waits: dict[UUID, contextlib.ExitStack] = {}
        self._moved: set[UUID] = set()
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for wait in self._waits.values():
            wait.close()

    def add(self, sessions: Iterable[UUID]) -> set[UUID]:
        """Gives those that it has not heard of until now: they may have moved before."""
        fresh = {session_id for session_id in sessions if session_id not in self._waits}
        for session_id in fresh:
            self._wait(session_id)
        return fresh

    async def moved(self, seconds: float) -> set[UUID]:
        """Those that have moved, as soon as one has; none if it takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        moved, self._moved = self._moved, set()
        self._event.clear()
        for session_id in moved:
            self._wait(session_id)  # before it is looked at, so that no move is missed
        return moved

    def _wait(self, session_id: UUID) -> None:
        before = self._waits.pop(session_id, None)
        if before is not None:
            before.close()
        stack = self._waits[session_id] = contextlib.ExitStack()
        future = stack.enter_context(self._runtime.moves(session_id))
        future.add_done_callback(lambda done: None if done.cancelled() else self._tell(session_id))

    def _tell(self, session_id: UUID) -> None:
        self._moved.add(session_id)
        self._event.set()
