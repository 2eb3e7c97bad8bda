"""Tools: what paused scripts wait for, and this process can do. Its own, and the functions of native modules that scripts wait for.

A tool that must not run twice is noted as started before it runs. Whoever finds it so, and nobody runs it, tells the script that nobody
knows. What comes of a tool is an answer like any other. If nobody wants it any more, because the execution was cancelled or somebody
else answered, a native one is told to stop.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from holdfast.capabilities import modules
from holdfast.domain import Answer, HoldfastError, Query, QueryKind, StateConflict
from holdfast.runtime._errors import HostFailed
from holdfast.runtime._plain import checked
from holdfast.runtime.effects import Tool
from holdfast.runtime.jobs import Answers, StartTool, Turn
from holdfast.runtime.resident import Resident
from holdfast.sandbox import HostError
from holdfast.store import StoreError

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

_log: Final = logging.getLogger("holdfast.runtime")
_AGAIN_S: Final = 1.0
_MOST_AT_ONCE: Final = 64
"""Native calls that run at the same time. Others wait for their turn."""


class Tools:
    """Runs tools for the sessions of a runtime, on its loop; native ones on threads."""

    def __init__(self, runtime: "Runtime", own: Mapping[str, Tool]) -> None:
        self._runtime, self._own = runtime, own
        self._running: dict[UUID, dict[int, threading.Event]] = {}
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, "holdfast-native")

    def is_own(self, turn: Turn, query: Query) -> bool:
        """Whether a query waits for a tool that runs here."""
        if query.kind is not QueryKind.TOOL:
            return False
        session = turn.session
        shelved = self._runtime.core.shelf.peek(session.template_id, session.template_version)
        name = query.payload["name"]
        return shelved is not None and (name in shelved.tools or name in shelved.waiting)

    def is_free(self, query: Query) -> bool:
        """Whether a query may be for a tool of this process, which does not run it."""
        name = query.payload["name"]
        known = name in self._own or name.partition(".")[0] in modules()
        return known and query.number not in self._running.get(query.session_id, ())

    def settle(self, resident: Resident) -> None:
        """After each job of a session: begins what its script waits for, and stops what it does not wait for any more."""
        for number, stop in self._running.get(resident.id, {}).items():
            if number not in resident.open:
                stop.set()
        shelved = resident.shelved
        if not shelved.tools and not shelved.waiting:
            return
        for query in resident.open.values():
            if query.kind is QueryKind.TOOL and query.number not in self._running.get(resident.id, ()):
                self._begin(resident, query.copy())

    def _begin(self, resident: Resident, query: Query) -> None:
        name = query.payload["name"]
        call, once = resident.waiting.get(name, (None, False))
        tool = resident.shelved.tools.get(name)
        stop = threading.Event()
        run: Callable[[], Awaitable[Any]]
        if call is not None:
            work = call

            def run() -> Awaitable[Any]:
                loop = asyncio.get_running_loop()
                return loop.run_in_executor(self._threads, work, query.payload.get("args"), stop)
        elif tool is not None:
            known, once = tool, tool.once

            def run() -> Awaitable[Any]:
                return known.call(query.payload.get("args"))
        else:
            return
        self._running.setdefault(query.session_id, {})[query.number] = stop
        self._runtime.spawn(self._run(query, run, once))

    async def _run(self, query: Query, run: Callable[[], Awaitable[Any]], once: bool) -> None:
        try:
            if once:
                started = await self._runtime.submit(query.session_id, StartTool(query.number))
                if started is None:
                    return
                answer = started if isinstance(started, Answer) else await _answer_of(query, run)
            else:
                answer = await _answer_of(query, run)
            while not await self._is_taken(query, answer):
                await asyncio.sleep(_AGAIN_S)
        except HoldfastError as error:
            _log.info("the answer of a tool was not needed: %s", error)
        finally:
            running = self._running[query.session_id]
            running.pop(query.number).set()  # if this was cancelled, its thread may still run
            if not running:
                del self._running[query.session_id]

    async def _is_taken(self, query: Query, answer: Answer) -> bool:
        """Whether the store has the answer of a tool. If it cannot be reached now, the answer is worth another try."""
        try:
            await self._runtime.submit(query.session_id, Answers([(query.number, answer)]))
        except (StoreError, StateConflict) as error:
            _log.warning("the answer of a tool cannot be kept now: %s", error)
            return False
        return True

    def forget(self, session_id: UUID) -> None:
        """A session is gone: nobody waits for its tools."""
        for stop in self._running.get(session_id, {}).values():
            stop.set()

    def close(self) -> None:
        """Tells all that run to stop. What must not run twice is uncertain then."""
        for session_id in self._running:
            self.forget(session_id)
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _answer_of(query: Query, run: Callable[[], Awaitable[Any]]) -> Answer:
    name = query.payload["name"]
    try:
        return Answer(checked(await run(), f"the answer of tool {name}"))
    except HostError as error:
        return Answer(error={"message": str(error), "code": error.script_code})
    except Exception:  # noqa: BLE001 - a tool may raise anything, and the script must go on
        _log.exception("tool %s failed", name)
        return Answer(error={"message": f"tool {name} failed", "code": HostFailed.code})
