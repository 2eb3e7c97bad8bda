"""The runtime: sessions of a store, kept going.

What a process may leave behind when it dies is in the store: a lease that is not renewed, a step that was begun, a timer, a tool that was
started. Whoever lives looks for that when it starts, and from time to time. Sessions that are due soon are on a heap; all the others stay
where they are, however many there are.
"""

import asyncio
import contextlib
import contextvars
import logging
import warnings
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from uuid import UUID

from holdfast.capabilities import Called
from holdfast.domain import (
    EXECUTION,
    Event,
    Execution,
    ExecutionStatus,
    Family,
    HoldfastError,
    InvalidValue,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionState,
)
from holdfast.runtime import branches
from holdfast.runtime._errors import RuntimeClosed
from holdfast.runtime.alarms import HORIZON_MS, Alarms
from holdfast.runtime.branches import Standing
from holdfast.runtime.committer import Committer
from holdfast.runtime.core import Core
from holdfast.runtime.dispatch import Dispatcher
from holdfast.runtime.effects import Function, Tool
from holdfast.runtime.forking import has_ended
from holdfast.runtime.jobs import Cancel, Job, Recover, Turn, Wake
from holdfast.runtime.keys import settle_key
from holdfast.runtime.moves import Moves
from holdfast.runtime.nodes import NodeFile, new_node
from holdfast.runtime.outages import Outages
from holdfast.runtime.quotas import QuotaLedger
from holdfast.runtime.resident import Resident
from holdfast.runtime.settings import Settings
from holdfast.runtime.shelf import Shelf
from holdfast.runtime.standing import Standings
from holdfast.runtime.starting import StartUp
from holdfast.runtime.tools import Tools
from holdfast.runtime.usage import Allowances
from holdfast.store import Commit, Store, StoreError
from holdfast.strategies import PackagePath

_log: Final = logging.getLogger("holdfast.runtime")
_MOST_RECOVERING: Final = 4
_MOST_INTERRUPTED: Final = 10_000
_MOST_CALLS: Final = 16
_LOOK_S: Final = 1.0

Observer = Callable[[Execution, list[Event]], None]
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class Runtime:
    """Runs the sessions of a store. Use it from one event loop: `start`, then anything, then `close`."""

    def __init__(
        self,
        store: Store,
        *,
        key: bytes | None = None,
        functions: Iterable[Function] = (),
        tools: Iterable[Tool] = (),
        settings: Settings | None = None,
        packages: PackagePath | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.store = store
        self._packages = packages
        self._key = key
        self._functions = {function.name: function for function in functions}
        self._own_tools = {tool.name: tool for tool in tools}
        for name in (*self._functions, *self._own_tools):
            if name.startswith(branches.PREFIX):
                raise InvalidValue(f"names that begin with {branches.PREFIX} are ours: {name[:40]!r} cannot be offered")
        self._tools = Tools(self, self._own_tools)
        self._moves = Moves()
        self.observer: Observer | None = None
        """Hears of every step of this process, on the loop, after it is durable: its execution and its events. If it raises, that is
        logged.
        """
        self._alarms = Alarms(self.settings.clock, self._wake)
        self._background: set[asyncio.Task[None]] = set()
        self._beating: asyncio.Task[None] | None = None
        self._interrupted: list[UUID] = []
        self._recovering = 0
        # Not the loop's own threads: the application may have taken all of them, for as long as it likes.
        self._calls = ThreadPoolExecutor(_MOST_CALLS, "holdfast-call")
        self._heart = ThreadPoolExecutor(1, "holdfast-beat")  # a thread that slow calls cannot take either
        self._opening: asyncio.Future[Core] | None = None
        self._opened: Core | None = None
        """What has to be given back, also if whoever opened it was cancelled before it had it."""
        self._dispatches = False
        self._guard: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # ---- life ----------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens for business: says that this process lives, and goes on with what others left behind."""
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._opening = loop.run_in_executor(self._calls, self._open)
        self.core = await asyncio.shield(self._opening)  # the thread comes to its end, also if nobody waits for it any more
        self.core.committer = Committer(self.store, lambda: self._dispatcher.flushed())
        self.outages = Outages(self.core.node, self.settings.outage_wait_ms)
        busy_wait_s = self.settings.busy_wait_ms / 1000
        self._dispatcher = Dispatcher(
            self.core,
            (self.settings.resident, self.settings.resident_mb << 20),
            self._settled,
            self._written,
            busy_wait_s,
            self.outages,
        )
        self._dispatches = True
        self.core.watch = self._dispatcher.workers
        self._standings = Standings(self.store, self._dispatcher.knows, self._tools.is_own)
        await self._look_around()
        self._beating = loop.create_task(self._beat())
        self.spawn(self._tend())
        self.spawn(self._alarms.ring())
        self._over = loop.create_future()
        self._guard = loop.create_task(self._close_at_last(self._over))

    def _open(self) -> Core:
        store, settings = self.store, self.settings
        key = settle_key(store, self._key)
        shelf = Shelf(store, self._functions, self._own_tools, self._packages, settings.limits_ceiling)
        allowances = Allowances(store, settings.usage_limits)
        node = new_node()
        quotas = QuotaLedger(store, settings.quotas, node)
        core = Core(store, shelf, key, node, settings.clock, allowances, quotas, settings.begin_after_ms)
        self._opened = core
        if settings.node_file is not None:
            self._retire_predecessors(NodeFile(settings.node_file), core.node)
        store.beat(core.node, settings.lease_ms)
        return core

    def _retire_predecessors(self, file: NodeFile, node: UUID) -> None:
        try:
            before = file.take_over(node)
        except OSError as error:
            _log.warning("node.file_unusable error=%s: what a killed predecessor ran has to wait for its lease", error.strerror)
            return
        for dead in before:
            self.store.retire(dead)

    async def close(self) -> None:
        """Lets what runs come to its end, and gives everything back. Sessions stay as they are.

        However often this is called, it happens once. Whoever is cancelled while waiting for it does not stop it.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._stop(self.settings.grace_ms)
        except asyncio.CancelledError:  # the loop is about to end: it waits for this, but there is no time for grace
            await self._stop(0)
        finally:
            self._moves.tell_all()  # who looks again is told that this is closed
            await asyncio.get_running_loop().run_in_executor(self._heart, self._leave)  # after the last beat, in any case
            self._heart.shutdown(wait=False)
            if self._over is not None and not self._over.done():
                self._over.set_result(None)

    async def _stop(self, grace_ms: float) -> None:
        self._tools.close()
        if self._opening is not None:
            await asyncio.wait([self._opening])
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._dispatches:
            if self.outages.error is not None:
                with contextlib.suppress(HoldfastError):
                    self.store.stop_waiting()  # it is away: nobody shall wait for it in vain
            await self._dispatcher.close(grace_ms)
        if self._beating is not None:  # not before: what still runs here is ours
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    def _leave(self) -> None:
        core = self._opened
        try:
            if core is not None:
                self.store.retire(core.node)
        except HoldfastError as error:
            _log.warning("the lease stays until it runs out: %s", error)
        finally:
            if core is not None:
                core.shelf.close()
            self.store.close()
            self._calls.shutdown()  # those under way find the store closed

    async def _close_at_last(self, over: "asyncio.Future[None]") -> None:
        """Closes when the loop ends and nobody has closed: asyncio cancels what is left then, and waits for it."""
        try:
            await over
        except asyncio.CancelledError:
            forgotten = self._closing is None
            await self.close()
            if forgotten:
                warnings.warn("Holdfast was not closed before its event loop ended", ResourceWarning, source=self, stacklevel=1)
            raise

    @property
    def closes(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing is not None

    async def call(
        self, function: Callable[Parameters, Returned], /, *args: Parameters.args, **options: Parameters.kwargs
    ) -> Returned:
        """Calls something that may wait for the store, off the loop."""
        if self._closing is not None:
            raise RuntimeClosed
        work = partial(contextvars.copy_context().run, function, *args, **options)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._calls, work)
        except StoreError as error:
            self.outages.note(error)
            raise

    @property
    def called(self) -> list[Called]:
        """How often native modules were called in this process."""
        return self.core.shelf.meter.rows()

    def submit(self, session_id: UUID, job: Job) -> "asyncio.Future[Any]":
        """Does a job when the session's turn has come. The future has its result after it is durable."""
        return self._dispatcher.submit(session_id, job)

    def is_under_way(self, session_id: UUID) -> bool:
        """Whether a job of this session is on its way here, behind which another one has to wait."""
        return self._dispatcher.knows(session_id)

    def attend(self, session_id: UUID) -> None:
        """Begins what a session waits for, if this process can do that. Nobody waits for it."""
        self.submit(session_id, Recover()).add_done_callback(_ignore)

    def cancel(self, session_id: UUID, execution_id: UUID | None = None) -> "asyncio.Future[Any] | None":
        """Stops the script that runs in a session, if it is this execution's. Gives what is done at its end; None if nothing runs."""
        return self._dispatcher.cancel(session_id, execution_id)

    @property
    def figures(self) -> dict[str, int]:
        """How many sessions are in memory, how many jobs wait, how many interrupted steps were gone on with, how many are left."""
        dispatcher = self._dispatcher
        return {
            "resident": dispatcher.resident,
            "waiting": dispatcher.waiting,
            "recovered": dispatcher.recovered,
            "interrupted": len(self._interrupted) + self._recovering,
        }

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ---- after each job ------------------------------------------------------------------------------------------------------------

    def _written(self, commit: Commit) -> None:
        self.core.quotas.written(commit)
        observer = self.observer
        if observer is None:
            return
        for execution in (*commit.executions, *commit.new_executions):  # a rewind ends one, and begins another
            events = [event for step in commit.steps if step.execution_id == execution.id for event in step.events]
            try:
                observer(execution, events)
            except Exception:  # noqa: BLE001 - it may raise anything, and whoever waits for the step must hear of it
                _log.exception("the observer failed")

    def _settled(self, resident: Resident) -> None:
        session, execution = resident.session, resident.execution
        if session.state is SessionState.PAUSED:
            if session.wake_at is not None:
                self._alarms.set(session.wake_at, session.id, session.updated_at)
            self._tools.settle(resident)
        else:
            self._tools.forget(session.id)
            if session.state is SessionState.STARTING:
                self.submit(session.id, StartUp()).add_done_callback(_ignore)
        if session.family is not None:
            self._branched(resident, session.family)
        if self._moves.waiters:
            self._moves.tell(session.id, None if execution is None else execution.id)

    def _branched(self, branch: Resident, family: Family) -> None:
        """A branch has moved, so those who wait for what forked it look again. If it has ended, its fork is seen to here, if it was not."""
        if not self._tools.joining.tell(branch) and branch.execution is not None and has_ended(branch.execution):
            self.attend(family.parent)
        for session_id in {family.parent, family.root}:
            self._moves.tell(session_id, None)

    def _wake(self, session_id: UUID, at: int) -> None:
        self.submit(session_id, Wake(at)).add_done_callback(_ignore)

    def moves(self, key: UUID | None) -> contextlib.AbstractContextManager[asyncio.Future[None]]:
        """A future that is done when a job has ended in this process: in this execution, in this session, or anywhere for None."""
        return self._moves.wait(key)

    def turn(self, execution_id: UUID, found: Execution | None = None) -> Turn:
        """Where an execution stands now, and what it waits for; `found` is it as it was read just before. Called on a thread."""
        store = self.store
        found = found or store.get_execution(execution_id)
        while True:  # until nothing has moved between the first look and the last
            queries = store.list_queries(found.session_id, execution_id=found.id, states=[QueryState.OPEN], limit=10_000)
            session = store.get_session(found.session_id)
            before, found = found, store.get_execution(execution_id)
            if (before.status, before.last_step, before.seq) == (found.status, found.last_step, found.seq):
                break
        if any(query.kind is QueryKind.TOOL for query in queries.items):
            with contextlib.suppress(HoldfastError):  # so that it is known at once whether its tools are ours
                self.core.shelf.get(session.template_id, session.template_version)
        return Turn(session, found, queries.items)

    def look(self, execution_id: UUID) -> Turn:
        """Where an execution stands now, its forks included. Called on a thread."""
        turn = self.turn(execution_id)
        turn.forks = {
            query.number: self._standings.of(turn.session, query) for query in turn.queries if branches.is_fork(query)
        }
        return turn

    def runs(self, turn: Turn, query: Query) -> bool:
        """Whether a query waits for a tool that runs here."""
        return self._tools.is_own(turn.session, query)

    def waits_for_tools(self, turn: Turn) -> bool:
        """Whether an execution waits only for tools that run here, and for branches that go on without anybody outside."""
        return bool(turn.queries) and all(self._goes_on(turn, query) for query in turn.queries)

    def _goes_on(self, turn: Turn, query: Query) -> bool:
        if branches.is_fork(query):
            return turn.forks.get(query.number, Standing.MOVES) in (Standing.MOVES, Standing.WORKS)
        return self.runs(turn, query)

    def needs_others(self, turn: Turn) -> bool:
        """Whether an execution has ended, or goes on only when somebody outside does something."""
        if EXECUTION.is_final(turn.execution.status):
            return True
        outside = any(self._is_outside(turn, query) for query in turn.queries)
        return turn.execution.status is ExecutionStatus.PAUSED and outside

    def _is_outside(self, turn: Turn, query: Query) -> bool:
        if branches.is_fork(query):
            return turn.forks.get(query.number) is Standing.ASKS
        return query.kind is not QueryKind.TIMER and not self.runs(turn, query)

    async def stop(self, execution_id: UUID) -> None:
        """Ends an execution, running or paused. One that has ended stays as it is."""
        found = await self.call(self.store.get_execution, execution_id)
        if EXECUTION.is_final(found.status):
            return
        running = self.cancel(found.session_id, execution_id)
        if running is not None:
            await asyncio.wait([running])
        cancelling = self.submit(found.session_id, Cancel(execution_id))
        while not (await asyncio.wait([cancelling], timeout=_LOOK_S))[0]:
            found = await self.call(self.store.get_execution, execution_id)
            if EXECUTION.is_final(found.status):  # and the next one runs, perhaps for long
                cancelling.cancel()
                return
            self.cancel(found.session_id, execution_id)
        await cancelling

    # ---- what others left behind ---------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Says that this process lives. Apart from all other calls, which may take longer than a lease if the store is slow."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.lease_ms / 3000)
            try:
                await loop.run_in_executor(self._heart, self.store.beat, self.core.node, self.settings.lease_ms)
                self.outages.note(None)
            except HoldfastError as error:
                self.outages.note(error)
                _log.warning("the lease cannot be renewed now: %s", error)

    async def _tend(self) -> None:
        """Looks for what processes that do not live have left."""
        pause = min(self.settings.lease_ms, HORIZON_MS) / 3000
        while True:
            await asyncio.sleep(pause)
            try:
                await self._look_around()
                self._dispatcher.try_parked()
            except HoldfastError as error:
                _log.warning("the store cannot be looked at: %s", error)

    async def _look_around(self) -> None:
        interrupted, due, tools, orphans = await self.call(self._left_behind)
        self._interrupted = interrupted
        if orphans:
            self.spawn(self._tools.joining.stop(orphans))
        self._recover()
        known = self._alarms.sessions
        for at, session_id in due:
            if session_id not in known and not self._dispatcher.knows(session_id):
                self._alarms.set(at, session_id)
        troubled, self._dispatcher.troubled = self._dispatcher.troubled, set()
        for session_id in tools | troubled | self._dispatcher.parked:
            if not self._dispatcher.knows(session_id):
                self.attend(session_id)

    def _recover(self) -> None:
        """Goes on with interrupted sessions, a few at a time: if this process lives for a short time only, some come to their end."""
        while self._interrupted and self._recovering < _MOST_RECOVERING and self._closing is None:
            session_id = self._interrupted.pop(0)
            if not self._dispatcher.knows(session_id):
                self._recovering += 1
                self.submit(session_id, Recover()).add_done_callback(self._recovered)

    def _recovered(self, future: "asyncio.Future[Any]") -> None:
        _ignore(future)
        self._recovering -= 1
        self._recover()

    def _left_behind(self) -> tuple[list[UUID], list[tuple[int, UUID]], set[UUID], list[UUID]]:
        store = self.store
        self.core.retire_dead()
        interrupted = store.list_interrupted(limit=_MOST_INTERRUPTED)
        due = [(at, found) for at, found in store.list_due(int(self.core.clock()) + HORIZON_MS) if self._may_take(found)]
        waiting: set[UUID] = set()
        after: str | None = None
        while True:
            page = store.list_queries(states=[QueryState.OPEN], kinds=[QueryKind.TOOL], limit=500, after=after)
            for query in page.items:
                if self._tools.is_free(query):
                    waiting.add(query.session_id)
            after = page.next
            if after is None:
                break
        tools = {session_id for session_id in waiting if self._may_take(session_id)}
        return interrupted, due, tools, [branch.id for branch in store.list_orphans() if self._may_stop(branch)]

    def _may_stop(self, branch: Session) -> bool:
        """Whether what an orphan runs is what it was made for, and not what somebody does with it since, and nobody else runs it."""
        ours = branch.execution_id == branches.execution_of(branch.id)
        return ours and (branch.state is SessionState.PAUSED or self._may_take(branch.id))

    def _may_take(self, session_id: UUID) -> bool:
        """Whether no other living process looks after this session."""
        try:
            owner = self.store.get_session(session_id).owner
        except HoldfastError:
            return False
        return owner is None or owner == self.core.node or not self.core.is_alive(owner)


def _ignore(future: "asyncio.Future[Any]") -> None:
    """For what nobody waits for: errors are in the session's own records, or come again."""
    if not future.cancelled() and future.exception() is not None:
        _log.info("a session could not go on: %s", future.exception())
