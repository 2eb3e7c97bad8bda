"""Health, version, summary, metrics."""

import os
import platform
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from holdfast._version import VERSION
from holdfast.domain import HoldfastError, SessionState
from holdfast.http import _examples, _metrics
from holdfast.http._answers import Json
from holdfast.http._call import ADMIN, READ
from holdfast.http._metrics import gauge, module_calls
from holdfast.http._routes import Asked, Counted, Hf, NoBody, Process, Routes
from holdfast.http.models import _ops as models
from holdfast.runtime import RuntimeClosed

routes: Final = Routes("operations")

_ACTIVE: Final = (SessionState.STARTING, SessionState.READY, SessionState.RUNNING, SessionState.PAUSED)
_MOST_IDS: Final = 1000
_OK: Final = {"status": "ok"}


@routes.add("GET", "/health", None, models.Health, example=_OK)
async def health(hf: Hf) -> Json:
    """Whether the daemon answers."""
    return Json(_OK)


@routes.add("GET", "/health/live", None, models.Health, example=_OK, hot=NoBody)
async def health_live(hf: Hf, call: Asked) -> Json:
    """Whether the daemon answers. Nothing else is looked at."""
    return Json(_OK)


@routes.add("GET", "/health/ready", None, models.Readiness, example=_examples.READINESS, extra={"unready": models.Readiness})
async def health_ready(hf: Process) -> Json:
    """Whether the store can be read and written, and how far the recovery of what was interrupted has come."""
    try:
        found = await hf.summary()
    except RuntimeClosed:
        return _readiness("unavailable", "ok", {}, "stopping")
    except HoldfastError as error:
        return _readiness("unavailable", "unavailable", {}, error.code.lower())
    problem = hf.store_problem
    if problem is not None:
        return _readiness("unavailable", "unavailable", found, problem.lower())
    return _readiness("recovering" if found["interrupted"] else "ok", "ok", found)


def _readiness(status: str, store: str, found: dict[str, Any], reason: str | None = None) -> Json:
    recovery = {name: found.get(name, 0) for name in ("interrupted", "recovered")}
    plain = {"status": status, "store": store, "reason": reason, "recovery": recovery}
    return Json(plain, 503 if status == "unavailable" else 200)


@routes.add(
    "GET",
    "/version",
    None,
    models.VersionInfo,
    example={"version": VERSION, "api": "v1", "python": "3.11.9"},
)
async def version() -> Json:
    """Which version of Holdfast this is."""
    return Json({"version": VERSION, "api": "v1", "python": platform.python_version()})


@routes.add("GET", "/runtime/summary", READ, models.Summary, example=_examples.SUMMARY)
async def runtime_summary(hf: Hf) -> Json:
    """How many sessions the tenant has in each state. For administrators of the default tenant also how many are in memory, and how many
    jobs wait, in the whole process; others see null there.
    """
    found = await hf.summary()
    active = sum(found["sessions"][state.value] for state in _ACTIVE)
    page = await hf.sessions.list(states=_ACTIVE, limit=_MOST_IDS)
    return Json(
        {
            "active_sessions": active,
            "active_session_ids": sorted(str(session.id) for session in page.items),
            "sessions": found["sessions"],
            "resident": found.get("resident"),
            "hibernated": max(0, active - found["resident"]) if hf.is_operator else None,
            "waiting": found.get("waiting"),
            "recovered": found.get("recovered"),
            "memory_bytes": memory_bytes() if hf.is_operator else None,
        }
    )


@routes.add("GET", "/quotas", READ, models.Quotas, example=_examples.QUOTAS)
async def quotas(hf: Hf) -> Json:
    """The quotas of the tenant and of the token, and what is used of them. 0 is no limit."""
    return Json(await hf.quotas())


@routes.add("GET", "/metrics", ADMIN, str, example="session_creates_total 3\n", extra={"text": _metrics.TYPE})
async def metrics(hf: Hf, call: Asked, counted: Counted) -> Response:
    """Figures for Prometheus, of all tenants: for administrators of the default tenant."""
    call.require_operator()
    found = await hf.summary()
    by_state: dict[tuple[str, ...], float] = {(state,): count for state, count in found["sessions"].items()}
    text = counted.text(
        gauge("sessions", "Sessions by state.", by_state, ("state",)),
        gauge("sessions_resident", "Sessions in memory.", {(): found["resident"]}),
        gauge("jobs_waiting", "Jobs that wait for their turn.", {(): found["waiting"]}),
        gauge("steps_recovered", "Interrupted steps that have gone on.", {(): found["recovered"]}),
        *module_calls(hf.module_calls),
        gauge("process_resident_memory_bytes", "Memory of the daemon.", {(): memory_bytes()}),
    )
    return Response(text, media_type=_metrics.TYPE)


def memory_bytes() -> int:
    """How much memory this process has; 0 where nobody tells."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return 0
