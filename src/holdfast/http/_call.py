"""One call: who asks, and what is known of the request before any route sees it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.types import Receive

from holdfast.control import Holdfast, Scoped
from holdfast.domain import ALL_TENANTS, DEFAULT_TENANT, HoldfastError, InvalidValue, Principal, check_tenant
from holdfast.http._answers import Json
from holdfast.http._errors import RequestForbidden, Unauthenticated, answer_to
from holdfast.http._statuses import INTERNAL

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
    tenant: str = DEFAULT_TENANT
    is_operator: bool = False
    """Whether it administers all tenants: an administrator of the default tenant."""


ANYONE: Final = Caller("anyone", frozenset(SCOPES), is_operator=True)


@dataclass(slots=True)
class Call:
    """What the gate knows of a request; the routes find it as `scope["holdfast"]`."""

    request_id: str
    method: str
    caller: Caller | None = None
    tenant: str = DEFAULT_TENANT
    """Whose objects the request is about: the caller's tenant, or the one that an operator names."""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    route: str = "unmatched"
    tag: str = ""
    """The group that the route belongs to."""
    code: str = ""
    """Code of the error that is the answer, if it is one."""
    subject: str | None = None
    """Id of what the answer is about."""
    mounted: bool = False
    """Whether another application answers, which is beside the API."""
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

    def refused(self, error: Exception) -> Json:
        """Return the answer to an error, and remember its code."""
        self.code = error.code if isinstance(error, HoldfastError) else INTERNAL
        return answer_to(error, self.request_id)

    def require_operator(self) -> None:
        """Raise unless the caller administers all tenants."""
        if self.caller is None or not self.caller.is_operator:
            raise RequestForbidden("this needs an administrator of the default tenant")

    def view(self, hf: Holdfast) -> Scoped:
        """Return Holdfast as the caller sees it. Routes that are open to everybody see nothing that belongs to a tenant."""
        if self.caller is None:
            return hf.own
        return hf.scoped(Principal(self.tenant, self.caller.id), operator=self.caller.is_operator)

    def name_tenant(self, name: str | None) -> None:
        """Take the tenant from the caller, or from the header by which an operator names one."""
        if self.caller is None:
            return
        self.tenant = self.caller.tenant
        if name is None or name == self.tenant:
            return
        if not self.caller.is_operator:
            raise RequestForbidden("only an administrator of the default tenant may name another tenant")
        if name == ALL_TENANTS and self.method not in ("GET", "HEAD"):
            raise InvalidValue("name one tenant: only lists and reads are about all of them")
        self.tenant = name if name == ALL_TENANTS else check_tenant(name)


def call_of(scope: Any) -> Call:
    """The call that an ASGI scope belongs to."""
    call: Call = scope["holdfast"]
    return call


async def left(receive: Receive) -> None:
    """Until whoever asked has left."""
    while (await receive())["type"] != "http.disconnect":
        continue
