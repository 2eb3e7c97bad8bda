"""Tools: what paused scripts wait for, and this process can do. Its own, and the functions of native modules that scripts wait for.

A tool that must not run twice is noted as started before it runs. Whoever finds it so, and nobody runs it, tells the script that nobody
knows. What comes of a tool is an answer like any other. If nobody wants it any more, because the execution was cancelled or somebody
else answered, a native one is told to stop. Forks are waited for in the same way, in every process (`joining.py`).
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from holdfast.capabilities import modules
from holdfast.domain import Answer, HoldfastError, Query, QueryKind, Session, StateConflict
from holdfast.runtime._errors import HostFailed
from holdfast.runtime._plain import checked
from holdfast.runtime.branches import FORK, is_birth
from holdfast.runtime.effects import Tool
from holdfast.runtime.fair import Owner
from holdfast.runtime.forking import Born
from holdfast.runtime.jobs import Answers, StartTool
from holdfast.runtime.joining import Joining
from holdfast.runtime.resident import Resident
from holdfast.runtime.threads import Threads
from holdfast.sandbox import HostError, values
from holdfast.store import StoreError

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

_log: Final = logging.getLogger("holdfast.runtime")
_AGAIN_S: Final = 1.0
_MOST_AT_ONCE: Final = 128
"""Native calls that run at the same time. Others wait for their turn; one owner alone has half of them (`threads.py`)."""
_MOST_OF_ONE: Final = 16
"""How many of them are one session's: it must not keep all others from theirs."""


class ToolAnswers(Answers):
    """What a tool gave. It is taken in any case: the tool has run."""

    is_limited = False


class Tools:
    """Runs tools for the sessions of a runtime, on its loop; native ones on threads."""

    def __init__(self, runtime: "Runtime", own: Mapping[str, Tool]) -> None:
        self._runtime, self._own = runtime, own
        self._running: dict[UUID, dict[int, threading.Event]] = {}
        self._threads = Threads(_MOST_AT_ONCE, "holdfast-native")
        self._noted: dict[tuple[UUID, int], int] = {}
        """When tools were to start that have not, since an outage of the store came between."""
        self.joining = Joining(runtime)

    def is_own(self, session: Session, query: Query) -> bool:
        """Whether a query waits for a tool that runs here."""
        if query.kind is not QueryKind.TOOL:
            return False
        shelved = self._runtime.core.shelf.peek(session.template_id, session.template_version)
        name = query.payload["name"]
        return shelved is not None and (name in shelved.tools or name in shelved.waiting)

    def is_free(self, query: Query) -> bool:
        """Whether a query may be for a tool of this process, which does not run it."""
        name = query.payload["name"]
        module, _, function = name.partition(".")
        known = name in self._own or name == FORK or (module in modules() and function in modules()[module].waiting())
        return known and query.number not in self._running.get(query.session_id, ())

    def settle(self, resident: Resident) -> None:
        """After each job of a session: begins what its script waits for, and stops what it does not wait for any more."""
        for number, stop in self._running.get(resident.id, {}).items():
            if number not in resident.open:
                stop.set()
                self.joining.wake(resident.id, number)
        if resident.held_until is not None and resident.held_until > self._runtime.core.clock():
            return  # the session is woken when it may go on by itself
        shelved = resident.shelved
        running = self._running.get(resident.id, {})
        room = _MOST_OF_ONE - sum(number in running for number in resident.open)
        for query in resident.open.values():
            if query.kind is QueryKind.TOOL and query.number not in running:
                native = query.payload["name"] in shelved.waiting
                if not native or room > 0:  # as one ends, this is called again
                    room -= native
                    self._begin(resident, query.copy())

    def _begin(self, resident: Resident, query: Query) -> None:
        name = query.payload["name"]
        native, tool = resident.waiting.get(name), resident.shelved.tools.get(name)
        stop = threading.Event()
        if name == FORK:
            awaited = self._born(query) if is_birth(resident.session, query) else self._join(query)
            self._running.setdefault(query.session_id, {})[query.number] = stop
            self._runtime.spawn(awaited)
            return
        run: Callable[[], Awaitable[Answer]]
        if native is not None:
            once = native.once
            owner = Owner(resident.session.principal, resident.id)
            work = partial(_done, name, partial(native.call, query.payload.get("args"), stop), stop)
            run = partial(self._threads.call, partial(self._charged, work, resident, owner), owner)
        elif tool is not None:
            once = tool.once
            run = partial(_awaited, name, tool, query.payload.get("args"))
        else:
            return
        self._running.setdefault(query.session_id, {})[query.number] = stop
        self._runtime.spawn(self._run(query, run, once, stop))

    def _charged(self, work: Callable[[], Answer], resident: Resident, owner: Owner) -> Answer:
        """Does a call, and charges the session with what its thread has computed: no step runs that would."""
        began = time.thread_time()
        try:
            return work()
        finally:
            used = time.thread_time() - began
            resident.owed.append(used)
            self._runtime.core.watch.usage.charge(owner, used)

    async def _run(self, query: Query, run: Callable[[], Awaitable[Answer]], once: bool, stop: threading.Event) -> None:
        try:
            if once:
                started = await self._started(query)
                if started is None:
                    return
                answer = started if isinstance(started, Answer) else await run()
            else:
                answer = await run()
            if stop.is_set():  # what it says then is not what came of it
                return
            while not await self._is_taken(query, answer):
                await asyncio.sleep(_AGAIN_S)
        except HoldfastError as error:
            _log.info("the answer of a tool was not needed: %s", error)
        finally:
            self._over(query)

    async def _started(self, query: Query) -> Query | Answer | None:
        """Note that a tool is about to run. If the store does not say that it has the note, the next attempt knows of this one."""
        place = query.session_id, query.number
        job = StartTool(query.number, self._noted.get(place))
        try:
            started: Query | Answer | None = await self._runtime.submit(query.session_id, job)
        except StoreError:
            if job.started_at is not None:
                self._noted[place] = job.started_at
            raise
        self._noted.pop(place, None)
        return started

    async def _join(self, query: Query) -> None:
        try:
            await self.joining.join(query)
        except HoldfastError as error:
            _log.info("a fork has to be looked at again: %s", error)
        finally:
            self._over(query)

    async def _born(self, query: Query) -> None:
        """A branch that was not told yet which one it is: whoever made it has died, or is about to."""
        try:
            await self._runtime.submit(query.session_id, Born(query.number))
        except HoldfastError as error:
            _log.info("a branch could not begin yet: %s", error)
        finally:
            self._over(query)

    def _over(self, query: Query) -> None:
        running = self._running[query.session_id]
        running.pop(query.number).set()  # if this was cancelled, its thread may still run
        if not running:
            del self._running[query.session_id]

    async def _is_taken(self, query: Query, answer: Answer) -> bool:
        """Whether the store has the answer of a tool. If it cannot be reached now, the answer is worth another try."""
        try:
            await self._runtime.submit(query.session_id, ToolAnswers([(query.number, answer)]))
        except (StoreError, StateConflict) as error:
            _log.warning("the answer of a tool cannot be kept now: %s", error)
            return False
        return True

    def forget(self, session_id: UUID) -> None:
        """A session is gone: nobody waits for its tools."""
        for number, stop in self._running.get(session_id, {}).items():
            stop.set()
            self.joining.wake(session_id, number)

    def close(self) -> None:
        """Tells all that run to stop. What must not run twice is uncertain then."""
        for session_id in self._running:
            self.forget(session_id)
        self._threads.close()


def _done(name: str, work: Callable[[], Any], stop: threading.Event) -> Answer:
    """Calls a native function, on its thread. Whatever it raises must not reach the loop: some exceptions would end that."""
    if stop.is_set():
        return Answer()
    try:
        return _given(name, work())
    except BaseException as error:  # noqa: BLE001
        return _raised(name, error)


async def _awaited(name: str, tool: Tool, args: Any) -> Answer:
    """Calls a tool of the application, on the loop, which may end itself."""
    try:
        return _given(name, await tool.call(args))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return _raised(name, error)


def _given(name: str, value: Any) -> Answer:
    """What a tool gave, if a script can take it."""
    answer = Answer(checked(value, f"the answer of tool {name}"))
    values.encode(answer.value)
    return answer


def _raised(name: str, error: BaseException) -> Answer:
    if isinstance(error, HostError):
        return Answer(error={"message": str(error), "code": error.script_code})
    _log.error("tool %s failed", name, exc_info=error)
    return Answer(error={"message": f"tool {name} failed", "code": HostFailed.code})
