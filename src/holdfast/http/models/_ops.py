"""Health, version, summary."""

from typing import Literal

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


class Summary(Told):
    active_sessions: Count
    active_session_ids: list[str]
    sessions: dict[str, int]
    resident: Count | None
    hibernated: Count | None
    waiting: Count | None
    recovered: Count | None
    memory_bytes: Count | None
