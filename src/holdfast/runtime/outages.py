"""Store outages: a store that is away or full is never the script's error, and nothing that is known is forgotten because of it.

Theory of operation
-------------------
A job meets an outage in one of two places. If the step has ended and its commit cannot be written, the commit is kept in memory and
submitted again, unchanged, until the store takes it: its token tells whether an attempt whose acknowledgement was lost was written. If
the step itself could not go on, because an intent could not be written or the state not be read, the step is rolled back and run again.
Results of effects that it had by then are kept (`keep`), so that no effect becomes uncertain in a process that knows what came of it.

The caller waits for a bounded time, and then hears of the outage. The commit is still kept, and the session does nothing else meanwhile.
"""

import asyncio
import logging
import math
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from holdfast.domain import HoldfastError
from holdfast.runtime.journal import settled
from holdfast.runtime.resident import Resident
from holdfast.store import Begun, Effect, Loaded, StoreFull, StoreReadOnly, StoreUnavailable

_log: Final = logging.getLogger("holdfast.runtime")

_TRANSIENT: Final = (StoreUnavailable, StoreFull, StoreReadOnly)
_FULL_WAIT_S: Final = 5.0
"""Longest wait of a caller for a store that somebody has to make room in. Waiting longer rarely helps, and the caller can retry."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_LOG_EVERY_S: Final = 5.0
_LOOK_S: Final = 0.2
_CLEAR_S: Final = 3.0
"""An outage that is not noticed for so long is over. Attempts of the same work may be a second apart."""


def is_transient(error: object) -> bool:
    """Whether an error says that the store cannot be used now, and may be later."""
    return isinstance(error, _TRANSIENT)


@dataclass(slots=True)
class Outage:
    """The outage that one job met: since when, how often it was tried again, and what the store said last."""

    since: float
    error: HoldfastError
    attempts: int = 0

    @property
    def pause_s(self) -> float:
        """How long to wait before the next attempt."""
        return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * float(2 ** min(self.attempts, 10)))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Effects of an interrupted step, with their replies, and the fencing numbers that their session may have in the store."""

    execution_id: UUID
    fences: tuple[int, ...]
    effects: list[Effect]


class Outages:
    """The outages that jobs of this process wait for, by session. On the loop's thread, but for `keep`, `known` and `forget`."""

    def __init__(self, node: UUID, wait_ms: float) -> None:
        self._node, self._wait_s = node, wait_ms / 1000
        self._waiting: dict[UUID, Outage] = {}
        self._noted: HoldfastError | None = None
        self._kept: dict[UUID, _Kept] = {}
        self._logged_at = 0.0

    # ---- jobs that wait ------------------------------------------------------------------------------------------------------------

    def met(self, session_id: UUID, outage: Outage | None, error: HoldfastError) -> Outage:
        """Count one more failed attempt of a session's job."""
        now = asyncio.get_running_loop().time()
        outage = outage or Outage(now, error)
        outage.error, outage.attempts = error, outage.attempts + 1
        self._waiting[session_id] = outage
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            fields = {"code": error.code, "sessions": len(self._waiting), "attempt": outage.attempts}
            _log.warning("store.outage", extra={"fields": fields})
        return outage

    def over(self, session_id: UUID) -> None:
        """The session's job does not wait for the store any more."""
        if self._waiting.pop(session_id, None) is not None and not self._waiting:
            self._logged_at = 0.0
            _log.warning("store.recovered")

    def wait_s(self, error: HoldfastError) -> float:
        """How long a caller waits for the end of an outage."""
        return self._wait_s if isinstance(error, StoreUnavailable) else min(self._wait_s, _FULL_WAIT_S)

    def is_over_due(self, since: float, error: HoldfastError) -> bool:
        """Whether somebody who waits since then has waited long enough."""
        return asyncio.get_running_loop().time() - since >= self.wait_s(error)

    # ---- what the operator is told -------------------------------------------------------------------------------------------------

    def note(self, error: HoldfastError | None) -> None:
        """Remember how the latest write beside the jobs ended, such as the heartbeat."""
        self._noted = error if is_transient(error) else None

    @property
    def error(self) -> HoldfastError | None:
        """Why the store cannot be used now, as far as this process knows."""
        return next((outage.error for outage in list(self._waiting.values())), self._noted)

    def error_of(self, session_id: UUID) -> HoldfastError | None:
        """Why a session's job waits for the store, or why the store cannot be written at all."""
        outage = self._waiting.get(session_id)
        return self._noted if outage is None else outage.error

    # ---- effects of interrupted steps ----------------------------------------------------------------------------------------------

    def keep(self, resident: Resident) -> None:
        """Keep the results of effects that a step had when an outage interrupted it."""
        journal, begun, session, execution = resident.journal, resident.begun, resident.session, resident.execution
        execution_id = session.execution_id or (None if execution is None else execution.id)
        effects = journal.effects[: min(journal.certain, settled(journal.effects))]
        before = [] if begun is None else begun.effects[: settled(begun.effects)]
        if execution_id is not None:
            fences = (session.fence,) if session.owner == self._node else (session.fence, session.fence + 1)
            self._kept[resident.id] = _Kept(execution_id, fences, max(effects, before, key=len))

    def known(self, loaded: Loaded) -> None:
        """Complete the interrupted step of a session that was loaded with what this process knows of its effects.

        An intent without a reply in the store is one whose effect this process has never begun: else it would have the reply.
        """
        begun, session = loaded.begun, loaded.session
        kept = self._kept.get(session.id)
        if kept is None:
            return
        ours = session.owner == self._node and session.fence in kept.fences
        if begun is None or not ours or begun.execution_id != kept.execution_id:
            del self._kept[session.id]
        else:
            loaded.begun = _completed(begun, kept.effects)

    def forget(self, resident: Resident) -> None:
        """The session's step has come to its end."""
        self._kept.pop(resident.id, None)


def _completed(begun: Begun, effects: list[Effect]) -> Begun:
    stored = begun.effects[: settled(begun.effects)]
    if any((one.name, one.arguments) != (two.name, two.arguments) for one, two in zip(stored, effects, strict=False)):
        return begun  # another step than the one that was interrupted here
    return replace(begun, effects=stored if len(stored) > len(effects) else effects)


class OutageWait:
    """The wait of one caller for something that an outage of the store may hold up: it ends, if the outage does not."""

    def __init__(self, outages: Outages) -> None:
        self._outages = outages
        self._since = self._seen = -math.inf

    async def failed(self, error: HoldfastError) -> None:
        """Wait a moment after a read that failed. Raises the error if it is no outage, or that has taken too long."""
        if not is_transient(error):
            raise error
        self._count(error)
        await asyncio.sleep(_LOOK_S)

    def check(self, session_id: UUID) -> None:
        """Raise if what the session has to write could not be written for too long."""
        error = self._outages.error_of(session_id)
        if error is not None:
            self._count(error)

    def _count(self, error: HoldfastError) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._seen > _CLEAR_S:
            self._since = now
        self._seen = now
        if self._outages.is_over_due(self._since, error):
            raise error
