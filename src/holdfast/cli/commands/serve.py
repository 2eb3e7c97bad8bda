"""`holdfast serve`, `holdfast config` and `holdfast token`: the daemon of this machine."""

import inspect
from typing import Annotated, Any

import typer

from holdfast.cli._exits import Exit
from holdfast.cli._places import config_file
from holdfast.cli._tables import Columns, listing, pairs, table
from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, command, group, said
from holdfast.control.plain import moment, some_moment

config_app = group("The configuration of the daemon on this machine.")
token_app = group("Tokens for the daemon on this machine. They are kept in its data directory, as hashes.")


def add_serve(app: typer.Typer) -> None:
    """Registers `serve`, with a flag for each row of the daemon's table of settings."""
    from holdfast.daemon import SETTINGS

    def serve(**flags: Any) -> int:
        from holdfast.cli import _serve

        return _serve.serve({name: value for name, value in flags.items() if name != "json"}, flags["json"])

    serve.__doc__ = """Runs the daemon until it is told to stop by SIGINT or SIGTERM.

    Flags win over HOLDFAST_* variables, and these over the config file. With --json its log is JSON lines.
    """
    parameters = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None, typer.Option(one.flag, help=one.description, show_default=one.default or False, metavar="VALUE")
            ],
        )
        for one in SETTINGS
    ]
    parameters.append(inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json))
    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    serve.__annotations__ = {one.name: one.annotation for one in parameters}
    command(app, "serve", "holdfast serve", "holdfast serve --listen 127.0.0.1:0 --data-dir ./data")(serve)


@command(config_app, "show", "holdfast config show", "holdfast config show --json")
def show(context: typer.Context, json: Json = False) -> None:
    """Shows the effective configuration, and where each value came from. Secrets are hidden."""
    rows = list(said(context).loaded().rows())
    if json:
        print_json({row.name: {"value": row.value, "origin": row.origin} for row in rows})
    else:
        table(["Setting", "Value", "From", "Variable"], [(row.name, row.value, row.origin, row.variable) for row in rows], "")


@command(config_app, "path", "holdfast config path")
def path(json: Json = False) -> None:
    """Shows where the config file is, or would be."""
    file = config_file()
    if json:
        print_json({"path": str(file), "exists": file.is_file()})
    else:
        print(file)


# ---- tokens ------------------------------------------------------------------------------------------------------------------------


def _tokens(context: typer.Context) -> Any:
    from holdfast.daemon import Tokens

    config = said(context).loaded().config
    return Tokens(config.data_dir, token_file=config.token_file)


def _token_json(token: Any) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "tenant": token.tenant,
        "scopes": [str(scope) for scope in token.scopes],
        "created_at": moment(token.created_at),
        "expires_at": some_moment(token.expires_at),
    }


@command(
    token_app,
    "create",
    "holdfast token create ci --scope run --scope read",
    "holdfast token create laptop --scope admin --days 30",
    "holdfast token create ci-team-a --tenant team-a --scope run",
)
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Who or what it is for.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="admin, run, answer or read; may be repeated. By default read.")
    ] = None,
    days: Annotated[int | None, typer.Option("--days", min=1, max=3650, help="After how many days it expires.")] = None,
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant that it belongs to.")] = "default",
    json: Json = False,
) -> int:
    """Makes a token, and shows its secret this one time."""
    import time

    expires_at = None if days is None else time.time_ns() // 1_000_000 + days * 86_400_000
    token, secret = _tokens(context).create(name, scope or ["read"], expires_at, tenant=tenant)
    if json:
        print_json(_token_json(token) | {"secret": secret})
    else:
        print(f"Created token: {token.name} (ID: {token.id})")
        pairs(
            {
                "Tenant": token.tenant,
                "Scopes": ", ".join(token.scopes),
                "Expires": some_moment(token.expires_at),
                "Secret": secret,
            }
        )
    return Exit.FINE


@command(token_app, "list", "holdfast token list")
def list_tokens(context: typer.Context, json: Json = False) -> None:
    """Shows tokens, without their secrets, which nobody has."""
    found = [_token_json(token) for token in _tokens(context).list()]
    columns: Columns = {
        "ID": "id",
        "Name": "name",
        "Tenant": "tenant",
        "Scopes": lambda one: ", ".join(one["scopes"]),
        "Created": "created_at",
        "Expires": "expires_at",
    }
    listing(json, found, columns, "No tokens found")


@command(token_app, "revoke", "holdfast token revoke ci")
def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="Its id or its name.")],
    json: Json = False,
) -> None:
    """Takes a token back. A daemon that runs refuses it from then on."""
    gone = _tokens(context).revoke(token)
    if json:
        print_json(_token_json(gone))
    else:
        print(f"Revoked token: {gone.name} (ID: {gone.id})")
