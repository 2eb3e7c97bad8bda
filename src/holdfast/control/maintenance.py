"""`holdfast store check`: what in a store is damaged, and how much of it can be mended.

A check reads everything: all rows, secrets, guests, baked memories and images. It writes nothing. A repair mends rows first, then guests
and baked memories, and rewinds sessions whose present cannot be loaded to their last checkpoint that can be, with a note in the session.
Whatever is dropped is in the report. For a repair nobody else may use the store.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from holdfast.control.holdfast import Holdfast
from holdfast.domain import HoldfastError, SessionState, SourceFile, TemplateSpec
from holdfast.libraries import LibraryCache
from holdfast.runtime import checking
from holdfast.runtime.nodes import is_dead
from holdfast.runtime.notes import AddNote
from holdfast.runtime.shelf import Shelf
from holdfast.store import Store, StoreInUse, open_store
from holdfast.store.repair import Finding, Rows, Tables


@dataclass(slots=True)
class Report:
    """What a check has found. `repaired` are those that are whole now, `left` those that are not."""

    findings: list[Finding] = field(default_factory=list)
    repaired: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    repair: bool = False
    in_use: int = 0
    """How many other processes use the store: what they are in the middle of may look damaged."""

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged now."""
        return not (self.left if self.repair else self.findings)

    def as_dict(self) -> dict[str, Any]:
        return {
            "whole": self.whole,
            "repair": self.repair,
            "in_use": self.in_use,
            "findings": [finding.as_dict() for finding in self.findings],
            "repaired": [finding.as_dict() for finding in self.repaired],
            "left": [finding.as_dict() for finding in self.left],
        }


async def check_store(
    address: str, *, repair: bool = False, key: bytes | None = None, libraries: LibraryCache | None = None
) -> Report:
    """Read everything in a store and report what is damaged; with `repair` mend what can be. `StoreInUse` if others use it then."""
    store = await asyncio.to_thread(open_store, address)
    checker = _Checker(store, key, libraries)
    try:
        report = await asyncio.to_thread(checker.check)
        report.repair = repair
        if not repair:
            return report
        if report.in_use:
            raise StoreInUse(f"{report.in_use} other processes use this store. Stop them, and repair it then.")
        if report.findings:
            await asyncio.to_thread(checker.mend, report)
            if not _lacks_key(report):  # else every image looks damaged, and nothing may be rewound because of that
                async with Holdfast.open(address, key=key, libraries=libraries) as hf:
                    await _rewind(hf, checker, report)
            report.left = (await asyncio.to_thread(checker.check)).findings
            left = {(finding.kind, finding.id) for finding in report.left}
            report.repaired = [finding for finding in report.findings if (finding.kind, finding.id) not in left]
        return report
    finally:
        checker.close()
        await asyncio.to_thread(store.close)


class _Checker:
    """One look at a store."""

    def __init__(self, store: Store, key: bytes | None, libraries: LibraryCache | None) -> None:
        self._store, self._given, self._libraries = store, key, libraries
        self.tables = cast("Tables", store) if hasattr(store, "maintain") else None
        self._shelf = Shelf(store, {}, {})

    def close(self) -> None:
        self._shelf.close()

    def check(self) -> Report:
        store, tables = self._store, self.tables
        in_use = sum(not is_dead(node) for node in store.list_leases())
        found: list[Finding] = []
        if tables is not None:
            found += checking.secret_findings(tables)
            found += Rows(tables).damages()
        key, wrong = checking.key_of(store, self._given) if not found or found[0].kind != "secret" else (None, [])
        found += wrong
        found += checking.blob_findings(store, tables, self._shelf, self._packages)
        if key is not None:
            opened, of_sessions = checking.Opened(), []
            for session in checking.sessions(store):
                if not session.damaged:
                    of_sessions += checking.session_findings(store, self._shelf, key, session, opened)
            found += opened.key_findings() or of_sessions
        return Report(found, in_use=in_use)

    def mend(self, report: Report) -> None:
        """Mend rows, secrets, guests and baked memories. What they were in the way of may show only then."""
        for finding in report.findings:
            if finding.mend is not None:
                finding.mend()
        known = {(finding.kind, finding.id) for finding in report.findings}
        again = [finding for finding in self.check().findings if (finding.kind, finding.id) not in known]
        for finding in again:
            if finding.mend is not None:
                finding.mend()
        report.findings += again

    def check_session(self, session_id: UUID) -> list[Finding]:
        """What is wrong with the checkpoints and the present of one session."""
        key, _ = checking.key_of(self._store, self._given)
        return checking.session_findings(self._store, self._shelf, key or b"", self._store.get_session(session_id))

    def has_template(self, session_id: UUID) -> bool:
        """Whether the template of a session can be used, without which none of its checkpoints can be."""
        return checking.has_template(self._shelf, self._store.get_session(session_id))

    def go_back(self, session_id: UUID) -> None:
        """Make its beginning the present of a session, which may be rewound to another checkpoint then."""
        if self.tables is not None:
            Rows(self.tables).go_back(session_id)

    def present(self, session_id: UUID, stays: bool) -> list[int]:
        """The checkpoints that a session may be rewound to: its present if it stays, others newest first, and then its beginning."""
        key, _ = checking.key_of(self._store, self._given)
        session = self._store.get_session(session_id)
        whole = checking.whole_checkpoints(self._store, self._shelf, key or b"", session)
        usable = [number for number in whole if checking.asks_whole(self._store, session_id, number)]
        return [*sorted(usable, key=lambda number: (stays and number == session.head, number), reverse=True), 0]

    def _packages(self, spec: TemplateSpec) -> Sequence[SourceFile]:
        libraries = self._libraries or LibraryCache(os.devnull)
        return libraries.load(spec.packages, spec.language)


async def _rewind(hf: Holdfast, checker: _Checker, report: Report) -> None:
    """Bring sessions whose present cannot be loaded to their last checkpoint that can be."""
    runtime = hf._opened()
    now = int(runtime.settings.clock())
    broken = {finding.session_id for finding in report.findings if finding.kind in ("session", "query", "step under way")}
    forced = {finding.session_id for finding in report.findings if _changes_present(finding)}
    for session_id in broken - {None}:
        assert session_id is not None
        try:
            state = (await runtime.call(runtime.store.get_session, session_id)).state
            if state is SessionState.CLOSED:
                continue
            is_forced = session_id in forced and state in (SessionState.PAUSED, SessionState.CRASHED, SessionState.RUNNING)
            if not await asyncio.to_thread(checker.has_template, session_id):
                continue
            if not is_forced and not await asyncio.to_thread(_is_broken, checker, session_id):
                continue
            goals = await asyncio.to_thread(checker.present, session_id, is_forced)
            await runtime.call(runtime.store.close_damaged, session_id, now, SessionState.CRASHED)
            await asyncio.to_thread(checker.go_back, session_id)
            for number in goals:
                try:
                    await hf.sessions.rewind(session_id, number)
                    break
                except HoldfastError:
                    continue
            lost = "; ".join(
                f"{finding.kind} {finding.id}: {finding.repair}"
                for finding in report.findings
                if finding.session_id == session_id
            )
            await runtime.submit(session_id, AddNote(f"holdfast store check --repair: {lost}"[:4000], "Repaired"))
        except HoldfastError:
            continue  # it is in the report as left


def _lacks_key(report: Report) -> bool:
    """Whether the key of a store is damaged, lost or wrong, and could not be found again."""
    return any(finding.kind == "secret" and finding.mend is None for finding in report.findings)


def _changes_present(finding: Finding) -> bool:
    """Whether what was mended says where a session stands, so that it cannot stay there."""
    if finding.kind == "session":
        return any(column in finding.repair for column in ("state", "head", "steps", "execution_id", "wake_at"))
    return finding.kind in ("query", "step under way")


def _is_broken(checker: _Checker, session_id: UUID) -> bool:
    """Whether a session cannot go on as it is, after its rows were mended."""
    again = checker.check_session(session_id)
    return any(finding.kind == "session" for finding in again)
