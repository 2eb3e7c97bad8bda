"""The store as one tenant sees it: the one place where tenants are kept apart.

Control reads and writes through this and nothing else. What belongs to another tenant is not found, with the same error as what does not
exist, after the same reads. A verb of the store that is not here cannot be called.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast.control._cursors import Cursors
from holdfast.domain import (
    AuditEntry,
    CheckpointNotFound,
    ErrorEntry,
    ErrorEntryNotFound,
    Event,
    Execution,
    ExecutionNotFound,
    HoldfastError,
    Node,
    NotFound,
    Origin,
    Query,
    QueryNotFound,
    Session,
    SessionNotFound,
    SessionState,
    Template,
    TemplateNotFound,
    TemplateVersion,
)
from holdfast.store import Page, Reply, StateRow, Store, StrategyFigures, ToldStep

_MOST: Final = 1 << 17
_ROOT: Final = "session/"
_PREFIX: Final = "\x1e"
"""Before the tenant in names that the store keeps for all tenants: idempotency keys, documents."""

Item = TypeVar("Item")


class Owners:
    """Tenants of sessions, executions and templates by id. They never change, so that they are kept once they are known."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[UUID, str] = {}

    def known(self, some_id: UUID) -> str | None:
        """Return the tenant without asking the store; None if it is not known here."""
        return self._known.get(some_id)

    def keep(self, some_id: UUID, tenant: str) -> str:
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[some_id] = tenant
        return tenant

    def of_session(self, session_id: UUID) -> str:
        """Read the tenant of a session. `SessionNotFound`."""
        return self.keep(session_id, self._store.owner_of_session(session_id))

    def of_execution(self, execution_id: UUID) -> str:
        """Read the tenant of an execution. `ExecutionNotFound`."""
        return self.keep(execution_id, self._store.owner_of_execution(execution_id))

    def of_template(self, template_id: UUID) -> str:
        """Read the tenant of a template. `TemplateNotFound`."""
        return self.keep(template_id, self._store.get_template(template_id).tenant)


def scoped_name(tenant: str | None, name: str, default: str) -> str:
    """A name that the store keeps for all tenants, such as an idempotency key: no two tenants have one in common.

    Those of the default tenant are as they are.

    >>> scoped_name("default", "k", "default"), scoped_name("a", "k", "default")
    ('k', '\\x1ea\\x1ek')
    """
    if tenant is None or tenant == default:
        return _PREFIX + name if name.startswith(_PREFIX) else name
    return f"{_PREFIX}{tenant}{_PREFIX}{name}"


def unscoped_name(tenant: str, name: str, default: str) -> str | None:
    """The name that `scoped_name` was given for this tenant; None if it is another tenant's.

    >>> unscoped_name("a", "\\x1ea\\x1ek", "default"), unscoped_name("default", "\\x1ea\\x1ek", "default")
    ('k', None)
    """
    if tenant != default:
        prefix = scoped_name(tenant, "", default)
        return name.removeprefix(prefix) if name.startswith(prefix) else None
    if not name.startswith(_PREFIX):
        return name
    return name[1:] if name.startswith(_PREFIX * 2) else None


class TenantStore:
    """A store, confined to a tenant. With `tenant` None it is that of the operator, who sees all tenants."""

    def __init__(self, store: Store, tenant: str | None, owners: Owners, cursors: Cursors | None) -> None:
        self._store, self.tenant, self._owners, self._cursors = store, tenant, owners, cursors

    # ---- what may be seen ----------------------------------------------------------------------------------------------------------

    def check_session(self, session_id: UUID, missing: type[HoldfastError] = SessionNotFound) -> None:
        """Raise unless the session is one of the tenant's."""
        self._check(self._owners.of_session, session_id, missing)

    def check_execution(self, execution_id: UUID) -> None:
        """Raise unless the execution is one of the tenant's."""
        self._check(self._owners.of_execution, execution_id, ExecutionNotFound)

    def _check_template(self, template_id: UUID) -> None:
        self._check(self._owners.of_template, template_id, TemplateNotFound)

    def _check(self, owner: Callable[[UUID], str], some_id: UUID, missing: type[HoldfastError]) -> None:
        if self.tenant is None or self._owners.known(some_id) == self.tenant:
            return
        try:  # also if it is known to be another's, so that it takes as long as looking for what is not there
            if owner(some_id) == self.tenant:
                return
        except NotFound:
            pass
        raise missing

    def _page(self, fetch: Callable[..., Page[Item]], *args: Any, after: str | None, **filters: Any) -> Page[Item]:
        """A page of a list, with sealed cursors."""
        if self._cursors is None:
            return fetch(*args, after=after, **filters)
        page = fetch(*args, after=None if after is None else self._cursors.open(after), **filters)
        return page if page.next is None else Page(page.items, self._cursors.seal(page.next, fresh=True))

    # ---- templates -----------------------------------------------------------------------------------------------------------------

    def create_template(self, template: Template, version: TemplateVersion) -> None:
        if template.tenant != self.tenant:
            raise TemplateNotFound
        self._store.create_template(template, version)

    def add_version(self, version: TemplateVersion, updated_at: int) -> None:
        self._check_template(version.template_id)
        self._store.add_version(version, updated_at)

    def rename_template(self, template_id: UUID, name: str, updated_at: int) -> None:
        self._check_template(template_id)
        self._store.rename_template(template_id, name, updated_at)

    def get_template(self, which: UUID | str) -> Template:
        return self._store.get_template(which, tenant=self.tenant)

    def get_version(self, template_id: UUID, number: int) -> TemplateVersion:
        self._check_template(template_id)
        return self._store.get_version(template_id, number)

    def list_templates(self, *, limit: int = 50, after: str | None = None) -> Page[Template]:
        return self._page(self._store.list_templates, tenant=self.tenant, limit=limit, after=after)

    def list_versions(self, template_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[TemplateVersion]:
        self._check_template(template_id)
        return self._page(self._store.list_versions, template_id, limit=limit, after=after)

    def delete_template(self, template_id: UUID) -> None:
        self._check_template(template_id)
        self._store.delete_template(template_id)

    # ---- sessions ------------------------------------------------------------------------------------------------------------------

    def show_session(self, session_id: UUID) -> Session:
        self.check_session(session_id)
        return self._store.show_session(session_id)

    def close_damaged(self, session_id: UUID, at: int) -> None:
        self.check_session(session_id)
        self._store.close_damaged(session_id, at)

    def get_session(self, session_id: UUID) -> Session:
        self.check_session(session_id)
        return self._store.get_session(session_id)

    def list_sessions(self, *, limit: int = 50, after: str | None = None, **filters: Any) -> Page[Session]:
        return self._page(self._store.list_sessions, tenant=self.tenant, limit=limit, after=after, **filters)

    def count_sessions(self) -> dict[SessionState, int]:
        return self._store.count_sessions(tenant=self.tenant)

    def list_forks(self, session_id: UUID) -> list[Session]:
        self.check_session(session_id)
        return [fork for fork in self._store.list_forks(session_id) if self.tenant in (None, fork.tenant)]

    # ---- what sessions have --------------------------------------------------------------------------------------------------------

    def get_execution(self, execution_id: UUID) -> Execution:
        self.check_execution(execution_id)  # first, so that how much another's has to be read does not tell that it is there
        return self._store.get_execution(execution_id)

    def list_executions(
        self, session_id: UUID | None = None, *, limit: int = 50, after: str | None = None, **filters: Any
    ) -> Page[Execution]:
        return self._page(self._store.list_executions, session_id, tenant=self.tenant, limit=limit, after=after, **filters)

    def strategy_figures(self, since: int = 0) -> list[StrategyFigures]:
        return self._store.strategy_figures(since, tenant=self.tenant)

    def list_events(
        self, execution_id: UUID, *, after_seq: int = 0, limit: int = 1000, max_bytes: int | None = None
    ) -> list[Event]:
        self.check_execution(execution_id)
        return self._store.list_events(execution_id, after_seq=after_seq, limit=limit, max_bytes=max_bytes)

    def step_events(self, at: Origin) -> list[Event]:
        self.check_session(at.session_id)
        return self._store.step_events(at)

    def list_steps(
        self,
        *,
        session_id: UUID | None = None,
        after: str | None = None,
        including: bool = False,
        after_seq: int = 0,
        limit: int = 500,
        max_bytes: int | None = None,
    ) -> list[ToldStep]:
        listed = partial(self._store.list_steps, including=including, after_seq=after_seq, limit=limit, max_bytes=max_bytes)
        if session_id is not None:  # its cursors are numbers of its own steps
            self.check_session(session_id)
            return listed(session_id=session_id, after=after)
        if self._cursors is None:
            return listed(tenant=self.tenant, after=after)
        place = None if after is None else self._cursors.open(after)
        told = listed(tenant=self.tenant, after=place)
        return [step._replace(cursor=self._cursors.seal(step.cursor)) for step in told]

    def last_cursor(self, session_id: UUID | None = None) -> str:
        if session_id is not None:
            self.check_session(session_id)
            return self._store.last_cursor(session_id)
        cursor = self._store.last_cursor()
        return cursor if self._cursors is None else self._cursors.seal(cursor, fresh=True)

    def get_query(self, session_id: UUID, number: int) -> Query:
        self.check_session(session_id, QueryNotFound)
        return self._store.get_query(session_id, number)

    def list_queries(
        self, session_id: UUID | None = None, *, limit: int = 50, after: str | None = None, **filters: Any
    ) -> Page[Query]:
        return self._page(self._store.list_queries, session_id, tenant=self.tenant, limit=limit, after=after, **filters)

    def get_node(self, at: Origin) -> Node:
        self.check_session(at.session_id, CheckpointNotFound)
        return self._store.get_node(at)

    def list_nodes(self, session_id: UUID) -> list[Node]:
        self.check_session(session_id)
        return self._store.list_nodes(session_id)

    def list_errors(self, session_id: UUID, *, limit: int = 50, after: str | None = None) -> Page[ErrorEntry]:
        self.check_session(session_id)
        return self._page(self._store.list_errors, session_id, limit=limit, after=after)

    def resolve_error(self, session_id: UUID, error_id: UUID, at: int) -> None:
        self.check_session(session_id, ErrorEntryNotFound)
        self._store.resolve_error(session_id, error_id, at)

    # ---- state: only what lies below a session of the tenant, such as notes ----------------------------------------------------------

    def get_state(self, namespace: str, key: str) -> StateRow | None:
        self._check_namespace(namespace)
        return self._store.get_state(namespace, key)

    def list_state(
        self, namespace: str, *, now: int, prefix: str = "", limit: int = 1000, after: str | None = None
    ) -> Page[str]:
        self._check_namespace(namespace)
        return self._store.list_state(namespace, now=now, prefix=prefix, limit=limit, after=after)

    def _check_namespace(self, namespace: str) -> None:
        if self.tenant is None:
            return
        if not namespace.startswith(_ROOT):
            raise SessionNotFound
        self.check_session(UUID(namespace.removeprefix(_ROOT).partition("/")[0]))

    # ---- the audit log -------------------------------------------------------------------------------------------------------------

    def list_audit(self, *, limit: int = 50, after: str | None = None, **filters: Any) -> Page[AuditEntry]:
        return self._page(self._store.list_audit, tenant=self.tenant, limit=limit, after=after, **filters)

    # ---- requests: keys are scoped by whoever makes the reply, since it is committed with what it is a reply to ------------------------

    def get_reply(self, key: str) -> Reply | None:
        return self._store.get_reply(key)

    def put_reply(self, reply: Reply) -> None:
        self._store.put_reply(reply)
