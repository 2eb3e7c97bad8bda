"""Calls about the daemon itself."""

from datetime import datetime

from holdfast.client import models
from holdfast.client._calls import Call, Page, look, one, page_of, path, text
from holdfast.client._verbs import Group, Way, verb


class Ops(Group[Way]):
    """`client.ops`: how the daemon is, and what it offers."""

    @verb
    def health(self) -> Call[models.Health]:
        """Whether the daemon is there. Needs no token."""
        return look(path("health"), one(models.Health))

    @verb
    def live(self) -> Call[models.Health]:
        """Whether the daemon answers at all. Needs no token."""
        return look(path("health", "live"), one(models.Health))

    @verb
    def ready(self) -> Call[models.Readiness]:
        """Whether the daemon can be used yet, or still recovers. That it cannot is a result, not an error. Needs no token."""
        return look(path("health", "ready"), one(models.Readiness), fine=frozenset({503}))

    @verb
    def version(self) -> Call[models.Version]:
        """Which version the daemon is of. Needs no token."""
        return look(path("version"), one(models.Version))

    @verb
    def metrics(self) -> Call[str]:
        """The daemon's metrics, in the text format of Prometheus."""
        return look(path("metrics"), text)

    @verb
    def summary(self) -> Call[models.Summary]:
        """How many sessions there are in each state, and what they use."""
        return look(path("runtime", "summary"), one(models.Summary))

    @verb
    def quotas(self) -> Call[models.Quotas]:
        """The quotas of the tenant and of the token, and what is used of them."""
        return look(path("quotas"), one(models.Quotas))

    @verb
    def audit(
        self,
        *,
        token: str | None = None,
        action: str | None = None,
        object_id: str | None = None,
        outcome: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Call[Page[models.AuditEntry]]:
        """Return entries of the audit log, newest first. Needs the scope `admin`."""
        return look(
            path("audit"),
            page_of(models.AuditEntry),
            token=token,
            action=action,
            object_id=object_id,
            outcome=outcome,
            since=since.isoformat() if isinstance(since, datetime) else since,
            until=until.isoformat() if isinstance(until, datetime) else until,
            limit=limit,
            cursor=cursor,
        )

    @verb
    def languages(self, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[models.Language]]:
        """The languages that templates may have."""
        return look(path("catalogue", "languages"), page_of(models.Language), limit=limit, cursor=cursor)

    @verb
    def modules(self, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[models.Module]]:
        """The native modules that templates may expose."""
        return look(path("catalogue", "modules"), page_of(models.Module), limit=limit, cursor=cursor)

    @verb
    def libraries(self, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[models.Library]]:
        """The libraries that templates may load."""
        return look(path("catalogue", "libraries"), page_of(models.Library), limit=limit, cursor=cursor)
