"""What whoever sent a message may do: what their token allows. Over pipes it is the user, who may do everything."""

from mcp.server.auth.middleware.auth_context import get_access_token

from holdfast.domain import Forbidden


def caller_id() -> str:
    """Who it is. Nobody has a name over pipes, where there is only one."""
    token = get_access_token()
    return "" if token is None else token.client_id


def may(scope: str) -> bool:
    token = get_access_token()
    return token is None or scope in token.scopes


def require(scope: str) -> None:
    """Raises `Forbidden` unless they may do this."""
    if not may(scope):
        raise Forbidden(f"this needs a token with the scope {scope}")
