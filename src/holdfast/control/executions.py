"""Executions: runs inside a session."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from holdfast.control import _given
from holdfast.control._once import Once
from holdfast.control._pages import bounded, size_of_execution
from holdfast.control._tenancy import TenantRuntime
from holdfast.domain import (
    Budget,
    Event,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    InvalidValue,
    budget_of,
    new_id,
    parse_id,
)
from holdfast.runtime import OutageWait, Start, StartPath, Turn, checked
from holdfast.store import Page, Reply, StoreError

_LARGEST_SOURCE: Final = 16 << 20
_LOOK_S: Final = 1.0
_LONGEST_S: Final = 10 * 365 * 86_400
_MOST_EVENTS: Final = 100_000


class Executions:
    """`hf.executions`: run, wait, cancel, look."""

    def __init__(self, runtime: TenantRuntime, once: Once) -> None:
        self._runtime, self._once = runtime, once

    async def run(
        self,
        session: UUID | str,
        source: str,
        *,
        budget: Budget | None = None,
        wait: bool = False,
        background: bool = False,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Runs a snippet as a REPL does. Returns when it has ended or waits for somebody, with where it stands.

        While another execution runs or waits this raises `SessionBusy`; with `wait` it waits for its turn. With `background` it returns as
        soon as it is sure to run, come what may.
        """
        start = Start(new_id(), ExecutionKind.REPL, source, budget=budget, wait=wait, durable=background)
        return await self._start(session, start, idempotency_key)

    async def run_file(
        self,
        session: UUID | str,
        source: str,
        path: str,
        args: Any = None,
        env: dict[str, Any] | None = None,
        *,
        budget: Budget | None = None,
        wait: bool = False,
        background: bool = False,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Runs a file's text. `path` is its name in stack traces and for relative imports.

        The script finds `args` and `env`, an object, in global variables of these names, and in `__ARGS__` and `__ENV__`.
        """
        if not isinstance(path, str) or not path.strip():
            raise InvalidValue("a file has a path")
        start = Start(new_id(), ExecutionKind.RUN_FILE, source, path, checked(args, "args"), budget, wait, background)
        start.env = _object(env, "env")
        return await self._start(session, start, idempotency_key)

    async def run_path(
        self,
        session: UUID | str,
        path: str,
        args: dict[str, Any] | None = None,
        env: dict[str, Any] | None = None,
        *,
        budget: Budget | None = None,
        wait: bool = False,
        background: bool = False,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Runs a file of the session's worktree, as `run_file`. It is read when its turn has come; `execution.path` is where it really is.

        Raises `FileNotFound`, `InvalidPath`, and `WorktreeNotFound` if the worktree is gone; nothing has run then.
        """
        if not isinstance(path, str):
            raise InvalidValue("a path is text")
        start = StartPath(new_id(), ExecutionKind.RUN_FILE, "", path, _object(args, "args"), budget, wait, background)
        start.env = _object(env, "env")
        return await self._start(session, start, idempotency_key)

    async def strategy(
        self,
        session: UUID | str,
        source: str,
        ctx: dict[str, Any] | None = None,
        *,
        name: str | None = None,
        budget: Budget | None = None,
        wait: bool = False,
        background: bool = False,
        settle: bool = True,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Runs a strategy: a file that finds its input in the global `ctx`, and whose budget may be `ctx.budget`.

        `name` is what it is called in transcripts and in messages. Without `settle` it returns when the strategy waits for anything, be it
        a tool of this process.
        """
        ctx = _given.mapping(ctx, "ctx")
        budget = budget or budget_of(ctx)
        path = _given.name(name) or "strategy"
        start = Start(new_id(), ExecutionKind.STRATEGY, source, path, ctx, budget, wait, background)
        return await self._start(session, start, idempotency_key, settle=settle)

    async def _start(self, session: UUID | str, start: Start, key: str | None, *, settle: bool = True) -> Turn:
        session_id = parse_id(session, "session")
        check_start(start.source, start.budget)

        async def do(reply: Reply | None) -> Turn:
            if reply is not None:
                start.reply = reply._replace(outcome={"execution_id": str(start.id)})
            if start.durable:
                return await self._in_background(session_id, start)
            turn: Turn = await self._runtime.submit(session_id, start)
            return await self.rest(turn) if settle else turn

        async def again(outcome: dict[str, Any]) -> Turn:
            execution_id = outcome["execution_id"]
            return await self.turn(execution_id) if start.durable or not settle else await self.stopped(execution_id)

        if key is None:
            return await do(None)
        request = {
            "session": str(session_id),
            "kind": start.kind,
            "job": type(start).__name__,
            "source": start.source,
            "path": start.path,
            "args": start.args,
            "env": start.env,
            "budget": None if start.budget is None else start.budget.as_dict(),
        }
        return await self._once(key, request, do, again)

    async def _in_background(self, session_id: UUID, start: Start) -> Turn:
        """Returns once the store knows of the execution."""
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()
        start.told = lambda: loop.call_soon_threadsafe(begun.set)
        ended = self._runtime.submit(session_id, start)
        told = loop.create_task(begun.wait())
        await asyncio.wait([told, ended], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if ended.done():  # perhaps it waits for a tool of this process: whoever asked for the background does not
            turn: Turn = ended.result()
            return turn
        ended.add_done_callback(lambda future: future.cancelled() or future.exception())
        return await self.turn(start.id)

    async def stopped(self, execution: UUID | str) -> Turn:
        """Where an execution stands when the step that it is at, here or in another process, has ended."""
        execution_id = parse_id(execution, "execution")
        return await self.rest(
            await self._until(execution_id, lambda turn: turn.execution.status is not ExecutionStatus.RUNNING)
        )

    async def rest(self, turn: Turn) -> Turn:
        """Where an execution stands when the tools of the host that it waited for have answered."""
        if self._runtime.waits_for_tools(turn):
            return await self._until(turn.execution.id, self._is_at_rest)
        return turn

    def _is_at_rest(self, turn: Turn) -> bool:
        return turn.execution.status is not ExecutionStatus.RUNNING and not self._runtime.waits_for_tools(turn)

    async def _until(self, execution_id: UUID, enough: Callable[[Turn], bool]) -> Turn:
        keys = [execution_id]
        outage = OutageWait(self._runtime.outages)
        while True:
            with contextlib.ExitStack() as stack:  # before looking, so that no move is missed
                moved = [stack.enter_context(self._runtime.moves(key)) for key in keys]
                try:
                    turn = await self._runtime.call(self._runtime.look, execution_id)
                except StoreError as error:
                    await outage.failed(error)
                    continue
                if enough(turn):
                    return turn
                outage.check(turn.session.id)
                if turn.forks and turn.session.id not in keys:  # of branches it is told to those who wait for the session
                    keys.append(turn.session.id)
                    continue
                # Another process may run it: nobody tells us then.
                await asyncio.wait(moved, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)

    async def turn(self, execution: UUID | str) -> Turn:
        """Where an execution stands now, and what it waits for."""
        return await self._runtime.call(self._runtime.turn, parse_id(execution, "execution"))

    async def wait(self, execution: UUID | str, timeout: float | None = None) -> Turn:
        """Waits until an execution has ended or waits for somebody outside; timers and tools of the host are waited for.

        Raises `TimeoutError` after so many seconds.
        """
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= _LONGEST_S
        ):
            raise InvalidValue(f"timeout must be a number of seconds, at most {_LONGEST_S}, or None")
        async with asyncio.timeout(timeout):
            return await self._until(parse_id(execution, "execution"), self._runtime.needs_others)

    async def cancel(self, execution: UUID | str, *, idempotency_key: str | None = None) -> Execution:
        """Stops an execution, running or paused. The session can be used afterwards. One that has ended stays as it is."""
        execution_id = parse_id(execution, "execution")

        async def do() -> None:
            await self._runtime.stop(execution_id)

        await self._once.simple(idempotency_key, {"cancel": str(execution_id)}, do)
        return await self.get(execution_id)

    async def get(self, execution: UUID | str) -> Execution:
        """Raises `ExecutionNotFound`."""
        return await self._runtime.call(self._runtime.store.get_execution, parse_id(execution, "execution"))

    async def list(
        self,
        session: UUID | str | None = None,
        *,
        status: ExecutionStatus | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Execution]:
        """Newest first. A page of large ones has fewer than `limit`."""
        statuses = [] if status is None else [_given.word(ExecutionStatus, status)]
        session_id = None if session is None else parse_id(session, "session")
        wanted = partial(self._runtime.store.list_executions, session_id, statuses=statuses)
        page = _given.page(limit, after)
        return await self._runtime.call(lambda: bounded(wanted, size_of_execution, **page))

    async def events(
        self, execution: UUID | str, *, after_seq: int = 0, limit: int = 1000, max_bytes: int | None = None
    ) -> Sequence[Event]:
        """In order, those after `after_seq`. With `max_bytes` there may be fewer than `limit`, and one at least if there is one."""
        listed = self._runtime.store.list_events
        return await self._runtime.call(
            listed,
            parse_id(execution, "execution"),
            after_seq=_given.number(after_seq, "after_seq"),
            limit=_given.number(limit, "limit", 1, _MOST_EVENTS),
            max_bytes=None if max_bytes is None else _given.number(max_bytes, "max_bytes", 1),
        )


def check_start(source: str, budget: Budget | None) -> None:
    """Refuses what cannot be run, whatever the session."""
    if not isinstance(source, str) or len(source) > _LARGEST_SOURCE:
        raise InvalidValue(f"a source is text of at most {_LARGEST_SOURCE} characters")
    _given.some(Budget, budget, "budget")


def _object(value: dict[str, Any] | None, what: str) -> dict[str, Any] | None:
    """A JSON object, or None where none was given."""
    return None if value is None else _given.mapping(value, what)
