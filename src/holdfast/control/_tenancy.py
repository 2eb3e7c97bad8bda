"""The runtime as one tenant sees it, for all that control does."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast
from uuid import UUID

from holdfast.control._cursors import Cursors
from holdfast.control._tenant_store import Owners, TenantStore, scoped_name
from holdfast.domain import DEFAULT_TENANT, Execution, InvalidValue, Query, Session
from holdfast.runtime import Job, Runtime, Turn
from holdfast.store import Store

CURSORS: Final = "cursors"
"""Name of the secret of the store that cursors are sealed with."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class TenantRuntime:
    """A runtime, confined to the sessions of a tenant. With `tenant` None it is that of the operator, who sees all tenants.

    It has what control needs of a runtime and nothing else, so that nothing goes past the checks of `TenantStore`.
    """

    def __init__(self, runtime: Runtime, tenant: str | None, owners: Owners, secret: bytes) -> None:
        self._runtime, self._owners, self.tenant = runtime, owners, tenant
        self._checked = TenantStore(runtime.store, tenant, owners, None if tenant is None else Cursors(secret, tenant))
        self.store = cast(Store, self._checked)
        self.settings, self.core, self.outages = runtime.settings, runtime.core, runtime.outages

    @property
    def closes(self) -> bool:
        """Whether the runtime is closed, or about to be."""
        return self._runtime.closes

    def scoped_key(self, key: str) -> str:
        """Return an idempotency key as the store keeps it: no two tenants have one in common."""
        return scoped_name(self.tenant, key, DEFAULT_TENANT)

    async def call(
        self, function: Callable[Parameters, Returned], /, *args: Parameters.args, **options: Parameters.kwargs
    ) -> Returned:
        """Call something that may wait for the store, off the loop."""
        return await self._runtime.call(function, *args, **options)

    # ---- sessions ------------------------------------------------------------------------------------------------------------------

    def submit(self, session_id: UUID, job: Job) -> "asyncio.Future[Any]":
        """Do a job when the session's turn has come. The future has its result after it is durable, or `SessionNotFound`."""
        known = self._owners.known(session_id)
        if self.tenant is None or known == self.tenant:
            return self._runtime.submit(session_id, job)
        return asyncio.get_running_loop().create_task(self._submit(session_id, job))

    async def _submit(self, session_id: UUID, job: Job) -> Any:
        await self.call(self._checked.check_session, session_id)
        return await self._runtime.submit(session_id, job)

    def keep(self, session: Session) -> None:
        """Note whose session this is, which has just been made."""
        self._owners.keep(session.id, session.tenant)

    def _is_own(self, session_id: UUID) -> bool:
        return self.tenant is None or self._owners.known(session_id) == self.tenant

    def is_under_way(self, session_id: UUID) -> bool:
        """Whether a job of this session is on its way here."""
        return self._is_own(session_id) and self._runtime.is_under_way(session_id)

    def attend(self, session_id: UUID) -> None:
        """Begin what a session of the tenant waits for, if this process can do that."""
        if self._is_own(session_id):
            self._runtime.attend(session_id)

    def cancel(self, session_id: UUID, execution_id: UUID | None = None) -> "asyncio.Future[Any] | None":
        """Stop the script that runs in a session of the tenant. None if nothing runs, or it is not known yet whose session it is."""
        return self._runtime.cancel(session_id, execution_id) if self._is_own(session_id) else None

    async def stop(self, execution_id: UUID) -> None:
        """End an execution, running or paused. `ExecutionNotFound`."""
        await self.call(self._checked.check_execution, execution_id)
        await self._runtime.stop(execution_id)

    # ---- where executions stand ----------------------------------------------------------------------------------------------------

    def moves(self, key: UUID | None) -> contextlib.AbstractContextManager[asyncio.Future[None]]:
        """A future that is done when a job has ended in this process: in this execution or session, or anywhere for None."""
        return self._runtime.moves(key)

    def turn(self, execution_id: UUID, found: Execution | None = None) -> Turn:
        """Where an execution stands now, and what it waits for. Called on a thread."""
        return self._runtime.turn(execution_id, found or self._checked.get_execution(execution_id))

    def look(self, execution_id: UUID) -> Turn:
        """Where an execution stands now, its forks included. Called on a thread."""
        self._checked.check_execution(execution_id)
        return self._runtime.look(execution_id)

    def runs(self, turn: Turn, query: Query) -> bool:
        """Whether a query waits for a tool that runs here."""
        return self._runtime.runs(turn, query)

    def waits_for_tools(self, turn: Turn) -> bool:
        """Whether an execution waits only for tools that run here, and for branches that go on without anybody outside."""
        return self._runtime.waits_for_tools(turn)

    def needs_others(self, turn: Turn) -> bool:
        """Whether an execution has ended, or goes on only when somebody outside does something."""
        return self._runtime.needs_others(turn)


def require_one(tenant: str | None) -> str:
    """Return the tenant that something new belongs to; whoever sees all of them has to name one."""
    if tenant is None:
        raise InvalidValue("name one tenant: what is made belongs to it")
    return tenant
