"""Health, version, summary."""

from typing import Literal

from pydantic import Field

from holdfast.http.models._base import Count, Moment, Ok, Told


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


class AuditEntry(Told):
    """Who did what to which object, from where, and with which outcome."""

    at: Moment
    action: str
    outcome: str = Field(description="`ok`, or the code of an error.")
    status: Count
    tenant: str
    token: str = Field(description="Id of the token; empty if none was used, or none was valid.")
    token_name: str
    object_type: str
    object_id: str
    surface: str
    address: str
    request_id: str
    count: Count = Field(description="How many equal refusals it stands for.")


class Summary(Told):
    active_sessions: Count
    active_session_ids: list[str]
    sessions: dict[str, int]
    resident: Count | None
    hibernated: Count | None
    waiting: Count | None
    recovered: Count | None
    memory_bytes: Count | None
