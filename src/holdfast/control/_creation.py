"""How sessions come to be: from a template to one that is ready, waits, or has crashed as it started."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from holdfast.capabilities import resolve_root
from holdfast.control import _given
from holdfast.control._edits import which
from holdfast.control._once import Once
from holdfast.control._tenancy import TenantRuntime, require_one
from holdfast.control._versions import Versions
from holdfast.control._worktree_roots import resolve_below
from holdfast.domain import (
    Budget,
    ErrorEntry,
    ExecutionKind,
    ExecutionStatus,
    FileNotFound,
    HoldfastError,
    InvalidPath,
    InvalidValue,
    LibraryNotCached,
    Session,
    SessionBusy,
    SessionState,
    StartupFailed,
    TemplateVersion,
    VersionConflict,
    Worktree,
    WorktreeNotAllowed,
    WorktreeNotFound,
    new_id,
    parse_id,
)
from holdfast.runtime import StartUp, fresh_seed
from holdfast.sandbox import LibraryLoadFailed, TemplateFailed
from holdfast.store import Commit, LeaseLost, Reply

_LOOK_S: Final = 0.1
_LONGEST: Final = 1_000
_MOST_ERRORS: Final = 1_000
_TOLD: Final[dict[str, type[HoldfastError]]] = {
    kind.code: kind
    for kind in (
        FileNotFound,
        InvalidPath,
        LibraryLoadFailed,
        LibraryNotCached,
        StartupFailed,
        TemplateFailed,
        WorktreeNotFound,
    )
}
"""What whoever makes a session is told as an error. If a startup file raises, they get the session that has crashed by it."""


class _Wanted(NamedTuple):
    """A session as it was asked for."""

    template: UUID | str
    version: int | None
    name: str | None
    meta: dict[str, Any]
    budget: Budget | None
    worktree: Worktree | None
    roots: tuple[str, ...] | None


class SessionCreation:
    """The part of `hf.sessions` that makes them."""

    def __init__(self, runtime: TenantRuntime, once: Once, versions: Versions, token: str = "") -> None:
        self._runtime, self._once, self._versions, self._token = runtime, once, versions, token

    async def create(
        self,
        template: UUID | str,
        *,
        version: int | None = None,
        name: str | None = None,
        meta: dict[str, Any] | None = None,
        budget: Budget | None = None,
        worktree: Worktree | None = None,
        worktree_roots: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Session:
        """A new session of a template, by default of its latest version. `meta` is yours: Holdfast keeps it and never reads it.

        Startup files that run in each session run now; the session is `crashed` if one fails. If one cannot be read, or a library of the
        template is missing, the session is there as well, crashed, and this raises: `error.details` has its id. No session is left by
        `TemplateInactive`, `WorktreeNotFound`, and `StartupFailed` where the template runs files of a worktree and none is given.

        With `worktree_roots` the worktree must be a folder below one of these, after all links: otherwise `WorktreeNotAllowed`. A root
        with `{tenant}` in it is each tenant's own; others are the default tenant's.
        """
        meta = _given.mapping(meta, "meta")
        _given.name(name)
        _given.some_number(version, "version", 1)
        _given.some(Budget, budget, "budget")
        _check_worktree(_given.some(Worktree, worktree, "worktree"))
        roots = None if worktree_roots is None else _given.parts(str, worktree_roots, "worktree_roots")
        wanted = _Wanted(which(template), version, name, meta, budget, worktree, roots)

        async def do(reply: Reply | None) -> Session:
            return await self._once.whole(self._create(wanted, reply))

        async def again(outcome: dict[str, Any]) -> Session:
            return await self._told(await self._made(outcome["session_id"]))

        request = {"template": str(template), "version": version, "name": name, "meta": meta, "budget": budget}
        return await self._once(idempotency_key, request | {"worktree": worktree}, do, again)

    async def _create(self, wanted: _Wanted, reply: Reply | None) -> Session:
        session = await self._runtime.call(self._insert, wanted, reply)
        if session.state is SessionState.STARTING:
            session = await self._started(session.id)
        return await self._told(session)

    async def _started(self, session_id: UUID) -> Session:
        """A session after its startup files have run, or when one of them has failed or waits for somebody else."""
        while True:
            with self._runtime.moves(session_id) as moved:  # before looking, so that no move is missed
                session: Session = await self._runtime.submit(session_id, StartUp())
                if session.state is SessionState.STARTING:
                    continue
                if not await self._waits_for_us(session):
                    return session
                await asyncio.wait([moved], timeout=_LOOK_S)

    async def _waits_for_us(self, session: Session) -> bool:
        """Whether a startup file waits only for what this process does itself."""
        if session.state is not SessionState.PAUSED or session.execution_id is None:
            return False
        turn = await self._runtime.call(self._runtime.look, session.execution_id)
        if turn.execution.kind is not ExecutionKind.STARTUP:
            return False
        # If it is not paused any more it has just been answered: the session is to be looked at again.
        return turn.execution.status is not ExecutionStatus.PAUSED or self._runtime.waits_for_tools(turn)

    async def _made(self, session_id: UUID | str) -> Session:
        """A session that was made before, after its start, which goes on if whoever made it did not see to that."""
        found = parse_id(session_id, "session")
        while True:
            session = await self._runtime.call(self._runtime.store.get_session, found)
            if not await self._starts(session):
                return session
            with contextlib.suppress(SessionBusy, VersionConflict, LeaseLost):  # another process runs its files
                session = await self._started(session.id)
                if not await self._starts(session):
                    return session
            await asyncio.sleep(_LOOK_S)

    async def _starts(self, session: Session) -> bool:
        """Whether startup files run in a session, or have yet to: one that takes a while is an execution like any other."""
        if session.state is not SessionState.RUNNING or session.execution_id is None:
            return session.state is SessionState.STARTING
        execution = await self._runtime.call(self._runtime.store.get_execution, session.execution_id)
        return execution.kind is ExecutionKind.STARTUP

    async def _told(self, session: Session) -> Session:
        """A session that was just made. Raises what has crashed it, unless that was a script, whose execution tells."""
        if session.state is not SessionState.CRASHED:
            return session
        entries = await self._runtime.call(self._runtime.store.list_errors, session.id, limit=_MOST_ERRORS)
        starting = [entry for entry in entries.items if entry.phase == SessionState.STARTING.value]
        last = starting[-1] if starting else None
        if last is not None and last.execution_id is None and last.kind in _TOLD:
            error = _TOLD[last.kind](last.message)
            raise error.with_details(template_id=str(session.template_id), session_id=str(session.id))
        return session

    def _insert(self, wanted: _Wanted, reply: Reply | None) -> Session:
        runtime = self._runtime
        version = self._versions.pick(wanted.template, wanted.version)
        if wanted.worktree is not None:
            try:
                wanted = wanted._replace(worktree=wanted.worktree._replace(path=self._root(wanted.worktree.path, wanted.roots)))
            except (WorktreeNotAllowed, WorktreeNotFound) as error:
                raise error.with_details(template_id=str(version.template_id)) from None
        elif version.spec.files:
            message = "the template runs files of a worktree as a session starts, and the session has none"
            raise StartupFailed(message).with_details(template_id=str(version.template_id))
        problem: HoldfastError | None = None
        while not version.baked and problem is None:
            try:
                version = self._versions.bake(version) or self._versions.pick(wanted.template, wanted.version)
            except (LibraryNotCached, TemplateFailed) as error:
                problem = error
        commit = self._commit(wanted, version, problem)
        if reply is not None:
            commit.reply = reply._replace(outcome={"session_id": str(commit.session.id)})
        with runtime.core.quotas.sessions(commit.session.principal, commit.session.created_at):
            runtime.core.committer.commit(commit)
        runtime.keep(commit.session)
        return commit.session

    def _root(self, path: str, roots: tuple[str, ...] | None) -> str:
        """A worktree that is below one of some folders. Whether there is one elsewhere is not told."""
        if roots is None:
            return resolve_root(path)
        return resolve_below(path, roots, require_one(self._runtime.tenant))

    def _commit(self, wanted: _Wanted, version: TemplateVersion, problem: HoldfastError | None) -> Commit:
        """The new session: ready, about to start, or crashed by something that went wrong before."""
        core, now = self._runtime.core, int(self._runtime.settings.clock())
        session = Session(
            new_id(),
            version.template_id,
            version.number,
            SessionState.READY,
            now,
            now,
            wanted.name,
            wanted.meta,
            seed=fresh_seed(),
            budget=wanted.budget,
            worktree=wanted.worktree,
            tenant=require_one(self._runtime.tenant),
            token=self._token,
        )
        commit = Commit(session, None, 0, core.token())
        if problem is not None:
            starting = SessionState.STARTING.value
            session.state, session.last_error = SessionState.CRASHED, str(problem)
            commit.errors = [ErrorEntry(new_id(), now, starting, None, None, problem.code, str(problem))]
        elif core.shelf.get(version.template_id, version.number).startup:
            session.state = SessionState.STARTING
            core.own(session)
            session.version = 1
        return commit


def _check_worktree(worktree: Worktree | None) -> None:
    for name, value in {} if worktree is None else worktree._asdict().items():
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST * (4 if name == "path" else 1):
            raise InvalidValue(f"{name} of a worktree must be text, which is not blank and not too long")
