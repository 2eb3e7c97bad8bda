"""What routes share: ids in paths, paging, idempotency keys, preferences."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Depends, Header, Path, Query
from starlette.requests import Request

from holdfast.domain import InvalidValue
from holdfast.http._answers import Json
from holdfast.http._call import Call, call_of
from holdfast.http.models import _base
from holdfast.store import Page

_KEY: Final = re.compile(rb"[ -~]{1,200}")
_DOCUMENTED: Final = r"^[ -~]{1,200}$"

Item = TypeVar("Item")

TemplateId = Annotated[_base.TemplateId, Path(description="The id of a template.")]
SessionId = Annotated[_base.SessionId, Path(description="The id of a session.")]
ExecutionId = Annotated[_base.ExecutionId, Path(description="The id of an execution.")]
CapabilityId = Annotated[_base.CapabilityId, Path(description="The id of a capability.")]
StartupId = Annotated[_base.StartupId, Path(description="The id of a startup file.")]
QueryId = Annotated[_base.QueryId, Path(description="The id of a query, such as q-1.")]


def key_of(call: Call) -> str | None:
    """The idempotency key of a request, as control takes it: each token has keys of its own, so none sees the replies of another."""
    given = call.headers.get(b"idempotency-key")
    if given is None:
        return None
    if not _KEY.fullmatch(given):
        raise InvalidValue("an Idempotency-Key has 1 to 200 printable characters")
    who = "" if call.caller is None else call.caller.id
    return f"{who} {hashlib.sha256(given).hexdigest()}"


async def _key(
    request: Request,
    _given: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="The same request with the same key is done once, and answered alike.",
            json_schema_extra={"minLength": 1, "maxLength": 200, "pattern": _DOCUMENTED},
        ),
    ] = None,
) -> str | None:
    return key_of(call_of(request.scope))


Key = Annotated[str | None, Depends(_key)]


def is_async(call: Call) -> bool:
    """Whether the client wants an answer as soon as it is sure that the execution runs."""
    prefer = call.headers.get(b"prefer")
    return prefer is not None and b"respond-async" in [part.strip().lower() for part in re.split(rb"[,;]", prefer)]


async def _hot_headers(
    request: Request,
    _given: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="The same request with the same key is done once, and answered alike.",
            json_schema_extra={"minLength": 1, "maxLength": 200, "pattern": _DOCUMENTED},
        ),
    ] = None,
) -> Call:
    return call_of(request.scope)


async def _start_headers(
    call: Annotated[Call, Depends(_hot_headers)],
    _prefer: Annotated[
        str | None,
        Header(alias="Prefer", description="`respond-async`: answer with 202 as soon as it is durable that it runs."),
    ] = None,
) -> Call:
    return call


HotCall = Annotated[Call, Depends(_hot_headers)]
StartCall = Annotated[Call, Depends(_start_headers)]


# ---- lists -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paging:
    """Which part of a list is wanted."""

    request: Request
    limit: int
    cursor: str | None

    def answer(self, page: Page[Item], shown: Callable[[Item], Any]) -> Json:
        """A part of a list. Where the next one begins is in the headers."""
        return self.headed([shown(item) for item in page.items], page.next)

    def headed(self, items: list[Any], following: str | None) -> Json:
        headers = {}
        if following is not None:
            asked = dict(self.request.query_params) | {"cursor": following}
            link = f"{quote(self.request.url.path)}?{urlencode(asked)}"
            headers = {"X-Next-Cursor": following, "Link": f'<{link}>; rel="next"'}
        return Json(items, 200, headers)

    def part(self, items: list[Any]) -> Json:
        """A part of a list that is here as a whole: its cursors are positions."""
        begin = 0
        if self.cursor is not None:
            if not (self.cursor.isascii() and self.cursor.isdigit() and len(self.cursor) < 16):
                raise InvalidValue("the cursor is not one of this list")
            begin = int(self.cursor)
        end = begin + self.limit
        return self.headed(items[begin:end], str(end) if end < len(items) else None)


async def _paging(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, Query(description="The `X-Next-Cursor` of the page before.", min_length=1, max_length=1000)
    ] = None,
) -> Paging:
    return Paging(request, limit, cursor)


Listed = Annotated[Paging, Depends(_paging)]
