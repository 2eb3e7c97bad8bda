"""The library: one object that holds a store's sessions."""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from holdfast.capabilities import Called, protect
from holdfast.control import _given
from holdfast.control._once import Once
from holdfast.control._policy import Policies
from holdfast.control._tenancy import CURSORS, TenantRuntime
from holdfast.control._tenant_store import Owners
from holdfast.control._workflows import workflows_of
from holdfast.control.audit import Audit, AuditWriter
from holdfast.control.events import Events
from holdfast.control.executions import Executions
from holdfast.control.queries import Queries
from holdfast.control.scoped import Scoped, Shared
from holdfast.control.sessions import Sessions
from holdfast.control.strategies import Strategies
from holdfast.control.templates import Templates
from holdfast.control.transcripts import Transcripts
from holdfast.domain import (
    ALL_TENANTS,
    DEFAULT_TENANT,
    HoldfastError,
    Principal,
    Retention,
    Session,
    SessionBusy,
    SessionNotFound,
    SessionState,
    check_tenant,
    hour_of,
)
from holdfast.libraries import LibraryCache
from holdfast.runtime import (
    PRUNINGS,
    Close,
    Function,
    Observer,
    Runtime,
    RuntimeClosed,
    Settings,
    Tool,
    branches,
    pruning_of,
)
from holdfast.runtime.core import Core
from holdfast.runtime.keys import keep_secret
from holdfast.runtime.resident import Resident
from holdfast.sandbox import cache_directory
from holdfast.store import Store, StoreUnknown, open_store
from holdfast.store.workflows import SessionStore
from holdfast.strategies import Catalogue, PackagePath, find_project

_log: Final = logging.getLogger("holdfast")
_SWEEP_S: Final = 60.0
TENANT_MODULES: Final = ("card", "clock", "crypto", "fs", "random", "state")
"""Native modules that reach nothing of the host but the session's own worktree and the tenant's own state."""
_MOST_VIEWS: Final = 1_000
_AUDIT_BATCH: Final = 1_000


async def _opened_store(address: str) -> Store:
    """Opens a store off the loop, and not on its own threads, which the application may have taken."""
    opening: Future[Store] = Future()
    opening.set_running_or_notify_cancel()

    def work() -> None:
        try:
            opening.set_result(open_store(address))
        except BaseException as error:  # noqa: BLE001 - whoever waits hears of it
            opening.set_exception(error)

    # A daemon thread: a server that does not answer must not keep the process from its end.
    threading.Thread(target=work, name="holdfast-open", daemon=True).start()
    try:
        return await asyncio.wrap_future(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_give_back)
        raise


def _give_back(opening: Future[Store]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class _CloseIdle(Close):
    """Closes a session if it is idle still when its turn has come: it may have been used since it was listed."""

    patient = False

    def __init__(self, retention: Retention, now: int) -> None:
        self._retention, self._now = retention, now

    def check(self, core: Core, resident: Resident) -> None:
        if not self._retention.closes(resident.session, self._now):
            raise SessionBusy("the session is in use again")
        super().check(core, resident)


class Holdfast:
    """Script sessions in a store. An asynchronous context manager:

    async with Holdfast.open("sqlite:///work.db") as hf:
        template = await hf.templates.create("first")
        session = await hf.sessions.create("first")
        turn = await hf.executions.run(session.id, "await ask('Who?')")

    Its parts are those of one tenant, by default of `default`; `scoped` gives those of another.
    """

    templates: Templates
    sessions: Sessions
    executions: Executions
    queries: Queries
    events: Events
    strategies: Strategies
    transcripts: Transcripts
    workflows: SessionStore
    audit: Audit
    auditor: AuditWriter
    """Appends entries to the audit log: for surfaces that know who calls."""
    own: Scoped
    """The same parts, as `scoped` gives them for the tenant that this was opened with."""

    def __init__(
        self,
        address: str | Store,
        *,
        key: bytes | None = None,
        functions: Iterable[Function] = (),
        tools: Iterable[Tool] = (),
        settings: Settings | None = None,
        retention: Retention | None = None,
        libraries: LibraryCache | None = None,
        packages: PackagePath | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        protected: Iterable[str | os.PathLike[str]] = (),
        tenant: str = DEFAULT_TENANT,
        tenant_modules: Iterable[str] = TENANT_MODULES,
    ) -> None:
        if not isinstance(address, str) and not hasattr(address, "commit"):
            raise StoreUnknown
        self._address, self._key = address, key
        self._settings = _given.some(Settings, settings, "settings")
        self._functions = _given.parts(Function, functions, "functions")
        self._tools = _given.parts(Tool, tools, "tools")
        self.retention = _given.some(Retention, retention, "retention") or Retention()
        self._libraries = _given.some(LibraryCache, libraries, "libraries")
        self._packages = _given.some(PackagePath, packages, "packages")
        self._data_dir, self._protected = data_dir, _given.paths(protected, "protected")
        self._unprotect: Callable[[], None] = lambda: None
        self._tenant = check_tenant(tenant)
        self._tenant_modules = frozenset(_given.parts(str, tenant_modules, "tenant_modules"))
        self._runtime: Runtime | None = None
        self._tenants: dict[str | None, tuple[TenantRuntime, Once]] = {}
        self._views: dict[tuple[str, str, bool], Scoped] = {}
        self._sweeper: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls,
        address: str | Store = "memory:",
        *,
        key: bytes | None = None,
        functions: Iterable[Function] = (),
        tools: Iterable[Tool] = (),
        settings: Settings | None = None,
        retention: Retention | None = None,
        libraries: LibraryCache | None = None,
        packages: PackagePath | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        protected: Iterable[str | os.PathLike[str]] = (),
        tenant: str = DEFAULT_TENANT,
        tenant_modules: Iterable[str] = TENANT_MODULES,
    ) -> Self:
        """Holdfast on a store: `memory:`, `sqlite:///file`, `postgresql://...`, or one of your own.

        `key` (16 to 64 bytes) seals the images; without one the store keeps its own. `functions` and `tools` are what templates may grant
        to scripts. `libraries` is where those are found that templates name. `packages` is where strategies are found; by default those of
        the project that the working directory is in, of HOLDFAST_PACKAGES_PATH, of the user, and ours.

        No script reaches the file of an SQLite store, whatever a template grants. The same holds for a `data_dir`, but for worktrees below
        its folder `worktrees`, and for other folders and files that are `protected`, such as keys of yours.

        `tenant` is whose templates and sessions these are. `tenant_modules` are the native modules that administrators of other tenants
        may grant.
        """
        return cls(
            address,
            key=key,
            functions=functions,
            tools=tools,
            settings=settings,
            retention=retention,
            libraries=libraries,
            packages=packages,
            data_dir=data_dir,
            protected=protected,
            tenant=tenant,
            tenant_modules=tenant_modules,
        )

    async def __aenter__(self) -> Self:
        address = self._address
        store = await _opened_store(address) if isinstance(address, str) else address
        packages = self._packages or PackagePath.default(find_project())
        # Compiled guests in the cache are run as native code, so nobody else writes there.
        found = (getattr(store, "path", None), cache_directory())  # a store of somebody else may have anything by that name
        others = [os.fspath(path) for path in found if isinstance(path, str | os.PathLike)]
        self._unprotect = protect(data_dir=self._data_dir, paths=[*self._protected, *others])
        runtime = Runtime(
            store,
            key=self._key,
            functions=self._functions,
            tools=self._tools,
            settings=self._settings,
            packages=packages,
        )
        try:
            await runtime.start()  # which gives the store back if it fails
        except BaseException:
            self._unprotect()
            raise
        self._runtime, self._tenants, self._views = runtime, {}, {}
        try:
            self._owners, self._secret = Owners(store), await self.secret(CURSORS)
        except BaseException:
            await runtime.close()
            self._unprotect()
            raise
        policies = Policies([function.name for function in self._functions], [tool.name for tool in self._tools])
        catalogue = Catalogue(packages, runtime.core.shelf.engine)
        self.auditor = AuditWriter(runtime)
        self.auditor.start()
        self._shared = Shared(
            self._libraries,
            policies,
            packages,
            catalogue,
            lambda: runtime.figures,
            lambda: runtime.called,
            self.auditor,
            self._tenant_modules,
        )
        self._everything = self.scoped(Principal(ALL_TENANTS), operator=True)
        own = self.own = self.scoped(Principal(self._tenant), operator=True)
        for part in ("templates", "sessions", "executions", "queries", "events", "strategies", "transcripts", "audit"):
            setattr(self, part, getattr(own, part))
        self.workflows = workflows_of(store, self._tenant)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_now_and_then())
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        if self._runtime is not None:
            if not self._runtime.closes:
                await self.auditor.close()
            await self._runtime.close()
        for _, once in self._tenants.values():
            await once.close()
        self._unprotect()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Called for what is not there: the parts come with opening."""
            if name in Holdfast.__annotations__:
                self._opened()
            raise AttributeError(name)

    def scoped(self, principal: Principal, *, operator: bool = False) -> Scoped:
        """Return the parts of Holdfast as a principal sees them: confined to its tenant, and sessions bear its token.

        With the tenant `*` they are confined to none, for operators. `operator` says whether figures of the whole process may be seen.
        """
        runtime = self._opened()
        name = (*principal, operator)
        found = self._views.get(name)
        if found is not None:
            return found
        tenant = None if principal.tenant == ALL_TENANTS else check_tenant(principal.tenant)
        if tenant not in self._tenants:
            confined = TenantRuntime(runtime, tenant, self._owners, self._secret)
            self._tenants[tenant] = confined, Once(confined)
        if len(self._views) >= _MOST_VIEWS:
            self._views.clear()
        found = self._views[name] = Scoped(*self._tenants[tenant], self._shared, principal, operator=operator)
        return found

    async def summary(self) -> dict[str, Any]:
        """How many sessions there are in each state, of all tenants; how many are in memory, how many jobs wait, how many are to be
        recovered.
        """
        self._opened()
        return await self._everything.summary()

    @property
    def store_problem(self) -> str | None:
        """Code of the error with which the store refuses to be used now, as far as this process knows; None: it can be used."""
        error = self._opened().outages.error
        return None if error is None else error.code

    @property
    def module_calls(self) -> list[Called]:
        """How often sessions of this process have called native modules, by function and outcome, and how long that took."""
        return self._opened().called

    async def secret(self, name: str) -> bytes:
        """32 random bytes that the store keeps under this name: the same in every process, and after a restart."""
        runtime = self._opened()
        return await runtime.call(keep_secret, runtime.store, f"shared {name}", os.urandom(32))

    def observe(self, observer: Observer) -> None:
        """Has every step of this process told to `observer`, on the event loop, after it is durable: its execution and its events. It must
        be quick, and must change nothing. If it raises, that is logged, and nobody else hears of it.
        """
        self._opened().observer = observer

    # ---- retention -----------------------------------------------------------------------------------------------------------------

    async def sweep(self) -> dict[str, int]:
        """Does at once what retention asks for, and is otherwise done every minute. Tells what went."""
        runtime, retention = self._opened(), self.retention
        now = int(runtime.settings.clock())
        gone = {"checkpoints": 0, "closed": 0, "deleted": 0}
        gone["replies"] = await runtime.call(runtime.store.drop_replies, now - retention.replies_ms)
        gone["state"] = await runtime.call(runtime.store.drop_state, now)
        await runtime.call(runtime.store.drop_usage, hour_of(now) - 1)
        await self._resume_prunings(now)
        if retention.drops_versions:
            before = None if retention.versions_ms is None else now - retention.versions_ms
            gone["versions"] = await runtime.call(runtime.store.drop_versions, retention.versions, before)
        if dropped := await self._drop_audit(now):
            gone["audit"] = dropped
        if not retention.prunes and retention.idle_ms is None and retention.closed_ms is None:
            return gone
        after: str | None = None
        while True:
            page = await self._everything.sessions.list(limit=200, after=after)
            for session in page.items:
                with contextlib.suppress(HoldfastError):  # one that is busy, or gone, is looked at next time
                    goes = not await self._is_branch(session)
                    if goes and retention.deletes(session, now):
                        await self._everything.sessions.delete(session.id)
                        gone["deleted"] += 1
                    elif goes and retention.closes(session, now):
                        gone["closed"] += await self._close_idle(session.id, now)
                    elif retention.prunes and session.steps > (retention.checkpoints or 0):
                        gone["checkpoints"] += await self._prune(session.id, now)
            after = page.next
            if after is None:
                return gone

    async def _drop_audit(self, now: int) -> int:
        """Delete entries of the audit log whose retention is over, in batches that hold up nobody."""
        runtime, kept_ms, gone = self._opened(), self.retention.audit_ms, 0
        while kept_ms is not None:
            batch = await runtime.call(runtime.store.drop_audit, now - kept_ms, limit=_AUDIT_BATCH)
            gone += batch
            if batch < _AUDIT_BATCH:
                break
        return gone

    async def _close_idle(self, session_id: UUID, now: int) -> int:
        runtime, retention = self._opened(), self.retention
        if not retention.closes(await self._everything.sessions.get(session_id), now):
            return 0  # it runs, perhaps for long: the sweep shall not wait for that
        if await runtime.call(self._is_forked, session_id, now):
            return 0
        await runtime.submit(session_id, _CloseIdle(retention, now))
        await self._everything.sessions.close_branches(session_id)
        return 1

    async def _is_branch(self, session: Session) -> bool:
        """Whether it goes with the session that forked it."""
        if session.family is None:
            return False
        try:
            await self._everything.sessions.get(session.family.parent)
        except SessionNotFound:
            return False
        return True

    def _is_forked(self, session_id: UUID, now: int) -> bool:
        """Whether a session waits for branches that are in use. Called on a thread."""
        store = self._opened().store
        for branch in branches.below(store, session_id):
            rests = self.retention.closes(store.get_session(branch), now) and not self._is_forked(branch, now)
            if not rests and store.get_session(branch).state is not SessionState.CLOSED:
                return True
        return False

    async def _resume_prunings(self, now: int) -> None:
        """Goes on with prunings whose process has died: those that are under way here are not listed."""
        runtime = self._opened()
        page = await runtime.call(runtime.store.list_state, PRUNINGS, now=now, limit=100)
        for key in page.items:
            found = await runtime.call(pruning_of, runtime.store, UUID(key), now)
            if found is not None and not runtime.is_under_way(UUID(key)):
                with contextlib.suppress(HoldfastError):  # the session is gone, or runs elsewhere
                    await self._everything.sessions.prune(UUID(key), **found[1])

    async def _prune(self, session_id: UUID, now: int) -> int:
        retention = self.retention
        before = None if retention.checkpoints_ms is None else now - retention.checkpoints_ms
        return await self._everything.sessions.prune(session_id, keep=retention.checkpoints, before=before)

    async def _sweep_now_and_then(self) -> None:
        with contextlib.suppress(HoldfastError):
            await self._resume_prunings(int(self._opened().settings.clock()))
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                await self.sweep()
            except HoldfastError as error:
                _log.warning("what is old could not be removed: %s", error)

    def _opened(self) -> Runtime:
        if self._runtime is None:
            raise RuntimeClosed("use it as a context manager: async with Holdfast.open(...) as hf")
        return self._runtime
