"""`holdfast serve`: the daemon in this process."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.cli._exits import Exit
from holdfast.cli._terminal import print_json

if TYPE_CHECKING:
    from holdfast.control import Holdfast
    from holdfast.daemon import Config, Tokens
    from holdfast.http import App


def serve(flags: Mapping[str, Any], json: bool) -> int:
    """Runs the daemon until it is told to stop."""
    from holdfast import daemon

    given = dict(flags)
    if json and given.get("log_format") is None:
        given["log_format"] = "json"
    daemon.serve(daemon.load_config(given), make_app, ready=_tell_as_json if json else _tell)
    return Exit.FINE


def make_app(hf: "Holdfast", config: "Config", tokens: "Tokens | None") -> "App":
    """All that a daemon serves: the API, and MCP beside it."""
    from holdfast.domain import ALL_TENANTS, InvalidValue
    from holdfast.http import create_app
    from holdfast.mcp import Caller, Endpoint

    def caller(scope: Any) -> Caller:
        call = scope["holdfast"]
        if call.tenant == ALL_TENANTS:
            raise InvalidValue("name one tenant: a tool is about the runs of one")
        found, token = call.caller, call.caller.token
        return Caller(found.id, found.scopes, call.tenant, found.is_operator, "" if token is None else token.name)

    mcp = Endpoint(hf, caller, state_s=config.mcp_state_s, body_limit=config.body_limit_kb * 1024, sessions=config.mcp_sessions)
    return create_app(hf, config, tokens, {"/mcp": mcp})


def _tell(url: str) -> None:
    """Where it is, for whoever started it with port 0."""
    print(f"Listening on {url}", flush=True)


def _tell_as_json(url: str) -> None:
    print_json({"url": url})
