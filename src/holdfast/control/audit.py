"""Audit log: written in the background, read by administrators.

Entries wait in memory until a batch is written, at most `FLUSH_S`; whoever needs an entry to be durable waits for `flush`. Refusals are
counted together: a flood of them is a few rows a minute, whoever sends it. Each token has its own share of rows, and so have all callers
without one together: nobody keeps the refusals of somebody else out of the log, nor gets into their rows.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from holdfast.control import _given
from holdfast.control._tenancy import TenantRuntime
from holdfast.domain import AuditEntry, HoldfastError
from holdfast.runtime import Runtime
from holdfast.store import Page

_log: Final = logging.getLogger("holdfast.audit")
FLUSH_S: Final = 0.25
"""How long an entry waits in memory at most. What a process that is killed may lose."""
_WINDOW_S: Final = 60.0
_PATIENCE_S: Final = 2.0
_MOST_WAITING: Final = 10_000
_MOST_KINDS: Final = 50
"""Kinds of refusals of a token, in a tenant, that have rows of their own within a window."""
_MOST_ANONYMOUS: Final = 20
"""The same for all callers without a token."""
_LONGEST: Final = 200

_REST: Final = "*"

_Kind = tuple[str, str, str, str, str]
"""Action, outcome, tenant, token, address."""


class AuditWriter:
    """Appends entries to the audit log of a store, in batches. For one event loop."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime, self._clock = runtime, clock
        self._waiting: list[AuditEntry] = []
        self._refused: dict[_Kind, AuditEntry] = {}
        self._written: dict[_Kind, float] = {}
        self._kinds: Counter[tuple[str, str]] = Counter()
        """How many kinds there are of each tenant and token."""
        self._lost = 0
        self._failed: str | None = None
        self._then: list[Callable[[], None]] = []
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write in the background."""
        self._task = asyncio.get_running_loop().create_task(self._write_now_and_then())

    async def close(self) -> None:
        """Write what is left. The store must still be open."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(TimeoutError):  # a store that is away shall not hold up the end
            async with asyncio.timeout(_PATIENCE_S):
                await self.flush(final=True)

    def now(self) -> int:
        """The time of an entry."""
        return int(self._runtime.settings.clock())

    def add(self, entry: AuditEntry) -> None:
        """Append an entry, soon."""
        if len(self._waiting) >= _MOST_WAITING:  # the store has been away for long
            self._lost += 1
            return
        self._waiting.append(entry)

    def when_written(self, then: Callable[[], None]) -> None:
        """Call something after what was added before is in the store. Called once, on a thread."""
        self._then.append(then)

    def refuse(self, entry: AuditEntry) -> None:
        """Append an entry for a call that was refused. Those that are alike become one a minute, with their number.

        There are at most so many kinds a minute of each token; what is beyond that is one kind, of this token and tenant.
        """
        caller = entry.tenant, entry.token
        kind: _Kind = (entry.action, entry.outcome, *caller, entry.address)
        if kind not in self._refused and kind not in self._written:
            if self._kinds[caller] < (_MOST_KINDS if entry.token else _MOST_ANONYMOUS):
                self._kinds[caller] += 1
            else:
                kind = (_REST, _REST, *caller, "")
                entry = AuditEntry(
                    entry.at,
                    _REST,
                    _REST,
                    tenant=entry.tenant,
                    token=entry.token,
                    token_name=entry.token_name,
                    surface=entry.surface,
                    count=entry.count,
                )
        known = self._refused.get(kind)
        self._refused[kind] = entry if known is None else replace(entry, count=known.count + entry.count)

    async def flush(self, *, final: bool = False) -> None:
        """Return when what was added before is in the store. If the store is away, it is tried again later."""
        async with self._writing:
            batch, then = self._batch(final), self._then
            self._then = []
            if not batch:
                return
            try:
                await self._runtime.call(self._write, batch, then)
                self._failed = None
            except HoldfastError as error:
                if self._failed != error.code:  # once in an outage, in which it is tried several times a second
                    _log.warning("audit.write_failed entries=%d error=%s", len(batch), error.code)
                self._failed = error.code
                self._waiting, self._then = (batch + self._waiting)[:_MOST_WAITING], then + self._then

    def _write(self, batch: list[AuditEntry], then: list[Callable[[], None]]) -> None:
        self._runtime.store.append_audit(batch)
        for done in then:
            try:
                done()
            except OSError as error:
                _log.error("audit.spool_failed error=%s", error.strerror)

    def _batch(self, final: bool) -> list[AuditEntry]:
        now = self._clock()
        self._written = {kind: at for kind, at in self._written.items() if now - at < _WINDOW_S}
        due = [kind for kind in self._refused if final or kind not in self._written]
        batch = sorted(self._waiting + [self._refused.pop(kind) for kind in due], key=lambda entry: entry.at)
        self._waiting = []
        self._written |= dict.fromkeys(due, now)
        present = self._refused.keys() | self._written.keys()
        self._kinds = Counter((tenant, token) for action, _, tenant, token, _ in present if action != _REST)
        if self._lost:
            lost, self._lost = self._lost, 0
            at = int(self._runtime.settings.clock())
            batch.append(AuditEntry(at, "audit", "ENTRIES_LOST", surface="daemon", count=lost))
        return batch

    async def _write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await self.flush()
            except Exception:  # noqa: BLE001 - whatever it is, the next entries must be written
                _log.exception("audit.write_failed")


class Audit:
    """`hf.audit`: entries of the audit log, of one tenant."""

    def __init__(self, runtime: TenantRuntime, writer: AuditWriter) -> None:
        self._runtime, self._writer = runtime, writer

    async def list(
        self,
        *,
        token: str | None = None,
        action: str | None = None,
        object_id: str | None = None,
        outcome: str | None = None,
        since: int | None = None,
        until: int | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[AuditEntry]:
        """Return entries, newest first: with filters only those with these values, from `since` to before `until`, in milliseconds."""
        await self._writer.flush()
        return await self._runtime.call(
            self._runtime.store.list_audit,
            token=_given.name(token, "token"),
            action=_given.name(action, "action"),
            object_id=_given.name(object_id, "object_id"),
            outcome=_given.name(outcome, "outcome"),
            since=_given.some_number(since, "since"),
            until=_given.some_number(until, "until"),
            **_given.page(limit, after),
        )
