"""One call: who asks, and what is known of the request before any route sees it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.types import Receive

from holdfast.http._errors import RequestForbidden, Unauthenticated

if TYPE_CHECKING:
    from holdfast.daemon import Token

ADMIN: Final = "admin"
RUN: Final = "run"
ANSWER: Final = "answer"
READ: Final = "read"
SCOPES: Final = (ADMIN, RUN, ANSWER, READ)
"""What a token may be good for, as `holdfast.daemon.Scope` has it."""


@dataclass(slots=True)
class Caller:
    """Whoever a token stands for, with all that it allows. Without tokens everybody is `anyone`, who may do everything."""

    id: str
    scopes: frozenset[str]
    token: "Token | None" = None


ANYONE: Final = Caller("anyone", frozenset(SCOPES))


@dataclass(slots=True)
class Call:
    """What the gate knows of a request; the routes find it as `scope["holdfast"]`."""

    request_id: str
    method: str
    caller: Caller | None = None
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    route: str = "unmatched"
    status: int = 0
    hot: bool = False
    """Whether it goes by a route that is called all the time: it is left out of the access log."""
    streams: bool = False
    """Whether the answer goes on until somebody leaves: how long it took tells nothing."""
    only_head: bool = False
    receive: Receive | None = None
    """For a hot route that waits: tells when whoever asked has left."""

    def require(self, scope: str | None) -> None:
        """Raises unless the caller may do what needs this scope. None is for everybody."""
        if scope is None:
            return
        if self.caller is None:
            raise Unauthenticated
        if scope not in self.caller.scopes:
            raise RequestForbidden(f"this needs a token with the scope {scope}")


def call_of(scope: Any) -> Call:
    """The call that an ASGI scope belongs to."""
    call: Call = scope["holdfast"]
    return call


async def left(receive: Receive) -> None:
    """Until whoever asked has left."""
    while (await receive())["type"] != "http.disconnect":
        continue
