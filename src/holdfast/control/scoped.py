"""Holdfast as one principal sees it: what every surface that has more than one user calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.capabilities import Called
from holdfast.control._once import Once
from holdfast.control._policy import Policies
from holdfast.control._tenancy import TenantRuntime
from holdfast.control._versions import Versions
from holdfast.control.audit import Audit, AuditWriter
from holdfast.control.events import Events
from holdfast.control.executions import Executions
from holdfast.control.queries import Queries
from holdfast.control.sessions import Sessions
from holdfast.control.strategies import Strategies
from holdfast.control.templates import Templates
from holdfast.control.transcripts import Transcripts
from holdfast.domain import DEFAULT_TENANT, InvalidValue, Principal, SessionState
from holdfast.libraries import LibraryCache
from holdfast.strategies import Catalogue, PackagePath


@dataclass(frozen=True, slots=True)
class Shared:
    """What all principals have in common."""

    libraries: LibraryCache | None
    policies: Policies
    packages: PackagePath
    catalogue: Catalogue
    figures: Callable[[], dict[str, int]]
    called: Callable[[], list[Called]]
    auditor: AuditWriter
    tenant_modules: frozenset[str]
    """Native modules that templates of other tenants than the default may grant."""


class Scoped:
    """`hf.scoped(principal)`: the parts of Holdfast, confined to what belongs to the principal's tenant.

    What belongs to another tenant is answered exactly as what does not exist. An operator is an administrator of the default tenant, who
    may see figures of the whole process.
    """

    def __init__(self, runtime: TenantRuntime, once: Once, shared: Shared, principal: Principal, *, operator: bool) -> None:
        self.principal, self.tenant, self.is_operator = principal, runtime.tenant, operator
        self._runtime, self._shared = runtime, shared
        versions = Versions(runtime, once, shared.libraries)
        is_confined = not operator and principal.tenant != DEFAULT_TENANT
        policies = shared.policies.confined(shared.tenant_modules) if is_confined else shared.policies
        self.templates = Templates(runtime, once, versions, policies)
        self.sessions = Sessions(runtime, once, versions, principal.token)
        self.executions = Executions(runtime, once)
        self.queries = Queries(runtime, once, self.executions)
        self.events = Events(runtime)
        self.strategies = Strategies(
            runtime, once, self.templates, self.sessions, self.executions, shared.packages, shared.catalogue
        )
        self.transcripts = Transcripts(runtime, once)
        self.audit = Audit(runtime, shared.auditor)

    async def quotas(self) -> dict[str, Any]:
        """Return the quotas of the tenant and of the token, and what is used of them. 0 is no limit."""
        if self.tenant is None:
            raise InvalidValue("name one tenant: quotas are those of one")
        runtime, principal = self._runtime, Principal(self.tenant, self.principal.token)
        quotas = runtime.settings.quotas
        used = await runtime.call(runtime.core.quotas.used, principal, runtime.settings.clock())
        limits = {"tenant": quotas.of_tenant(principal.tenant), "token": quotas.of_token(principal.token)}
        names = {"tenant": principal.tenant, "token": principal.token}
        return {scope: {"name": names[scope], "limits": limits[scope].as_dict(), "used": used[scope]} for scope in limits}

    async def summary(self) -> dict[str, Any]:
        """Return how many sessions the tenant has in each state; for an operator also how many are in memory, how many jobs wait and
        how many sessions are to be recovered, in the whole process.
        """
        counts = await self._runtime.call(self._runtime.store.count_sessions)
        sessions = {"sessions": {state.value: counts.get(state, 0) for state in SessionState}}
        return sessions | self._shared.figures() if self.is_operator else sessions

    @property
    def module_calls(self) -> list[Called]:
        """How often sessions of this process have called native modules: for operators only."""
        return self._shared.called() if self.is_operator else []
