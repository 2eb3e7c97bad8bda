"""What whoever sent a message may do and see: what their token allows, of their tenant. Over pipes the user may do everything."""

from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from holdfast.control import Holdfast, Scoped
from holdfast.daemon import REQUEST_ID
from holdfast.domain import DEFAULT_TENANT, AuditEntry, Forbidden, HoldfastError, Principal

if TYPE_CHECKING:
    from holdfast.mcp._endpoint import Caller


class CallerToken(AccessToken):
    """A token of the daemon, as the SDK carries it along."""

    tenant: str
    token_id: str
    token_name: str
    is_operator: bool


def token_of(caller: "Caller") -> CallerToken:
    """Return what the SDK keeps of a caller. It binds connections to the client id, which therefore has the tenant in it."""
    client = caller.id if caller.tenant == DEFAULT_TENANT else f"{caller.tenant}/{caller.id}"
    return CallerToken(
        token="",
        client_id=client,
        scopes=sorted(caller.scopes),
        tenant=caller.tenant,
        token_id=caller.id,
        token_name=caller.name,
        is_operator=caller.is_operator,
    )


def audit_entry(action: str, session_id: str | None, error: Exception | None, request: Any, now: int) -> AuditEntry:
    """Return the audit entry of a call. Over pipes there is neither token nor address."""
    token = get_access_token()
    caller = token if isinstance(token, CallerToken) else None
    outcome = "ok" if error is None else error.code if isinstance(error, HoldfastError) else "INTERNAL"
    client = getattr(request, "client", None)
    return AuditEntry(
        now,
        action,
        outcome,
        tenant=DEFAULT_TENANT if caller is None else caller.tenant,
        token="" if caller is None else caller.token_id,
        token_name="" if caller is None else caller.token_name,
        object_type="session" if session_id else "",
        object_id=session_id or "",
        surface="mcp",
        address="" if client is None else str(client.host),
        request_id=REQUEST_ID.get() or "",
    )


def caller_id() -> str:
    """Who it is. Nobody has a name over pipes, where there is only one."""
    token = get_access_token()
    return "" if token is None else token.client_id


def view(hf: Holdfast) -> Scoped:
    """Return Holdfast as whoever sent the message sees it."""
    token = get_access_token()
    if token is None:
        return hf.own
    if not isinstance(token, CallerToken):
        raise Forbidden("this needs a token of the daemon")
    return hf.scoped(Principal(token.tenant, token.token_id), operator=token.is_operator)


def may(scope: str) -> bool:
    token = get_access_token()
    return token is None or scope in token.scopes


def require(scope: str) -> None:
    """Raises `Forbidden` unless they may do this."""
    if not may(scope):
        raise Forbidden(f"this needs a token with the scope {scope}")
