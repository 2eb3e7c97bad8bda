"""Health, version, summary."""

from typing import Literal

from pydantic import Field

from holdfast.http.models._base import Count, Ok, Told


class Health(Told):
    status: Ok


class Recovery(Told):
    """What was interrupted when the daemon began, and how much of it has gone on."""

    interrupted: Count
    recovered: Count


class Readiness(Told):
    status: Literal["ok", "recovering", "unavailable"]
    store: Literal["ok", "unavailable"]
    reason: str | None
    """Why it is not ready: the code of the store's error in lower case, such as store_full, or stopping."""
    recovery: Recovery


class VersionInfo(Told):
    version: str
    api: Literal["v1"]
    python: str


class Quota(Told):
    """What may be used; 0 is no limit."""

    executions: Count
    cpu_s_per_hour: float
    sessions: Count
    events: Count
    mb: float
    requests_per_s: float


class QuotaUsed(Told):
    """What is used now, and in this hour."""

    executions: Count
    cpu_s_per_hour: float
    sessions: int
    events: int
    mb: float


class QuotaOf(Told):
    name: str = Field(description="Of the tenant, or the id of the token.")
    limits: Quota
    used: QuotaUsed


class Quotas(Told):
    tenant: QuotaOf
    token: QuotaOf


class Summary(Told):
    active_sessions: Count
    active_session_ids: list[str]
    sessions: dict[str, int]
    resident: Count | None
    hibernated: Count | None
    waiting: Count | None
    recovered: Count | None
    memory_bytes: Count | None
