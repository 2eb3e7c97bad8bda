"""The audit log, for administrators."""

from calendar import monthrange
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Query

from holdfast.control import plain
from holdfast.http import _examples
from holdfast.http._answers import Json
from holdfast.http._call import ADMIN
from holdfast.http._params import Listed
from holdfast.http._routes import Hf, Routes
from holdfast.http.models import _ops as models

routes: Final = Routes("operations")

_TIME: Final = (
    r"^(19|20|21)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?)?$"
)


@routes.add("GET", "/audit", ADMIN, list[models.AuditEntry], example=[_examples.AUDIT_ENTRY])
async def list_audit(
    hf: Hf,
    listed: Listed,
    token: Annotated[
        str | None, Query(description="Only what the token with this id did.", min_length=1, max_length=200)
    ] = None,
    action: Annotated[
        str | None, Query(description="Only this action, such as `POST /sessions`.", min_length=1, max_length=200)
    ] = None,
    object_id: Annotated[
        str | None, Query(description="Only what was done to the object with this id.", min_length=1, max_length=200)
    ] = None,
    outcome: Annotated[
        str | None, Query(description="Only this outcome: `ok`, or the code of an error.", min_length=1, max_length=200)
    ] = None,
    since: Annotated[
        str | None, Query(description="Only entries from this time on, in UTC if it does not say.", pattern=_TIME)
    ] = None,
    until: Annotated[str | None, Query(description="Only entries before this time.", pattern=_TIME)] = None,
) -> Json:
    """The audit log of the tenant, newest first: who did what to which object, from where, and with which outcome."""
    page = await hf.audit.list(
        token=token,
        action=action,
        object_id=object_id,
        outcome=outcome,
        since=_milliseconds(since),
        until=_milliseconds(until),
        limit=listed.limit,
        after=listed.cursor,
    )
    return listed.answer(page, plain.audit_entry)


def _milliseconds(moment: str | None) -> int | None:
    """A time that fits the pattern. The 31st of a month that has none is its last day."""
    if moment is None:
        return None
    year, month, day = int(moment[:4]), int(moment[5:7]), int(moment[8:10])
    last = min(day, monthrange(year, month)[1])
    found = datetime.fromisoformat(f"{moment[:8]}{last:02}{moment[10:]}")
    return max(0, int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000))
