"""The whole command line, for typer."""

import functools
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import _click
from typer.exceptions import Abort
from typer.main import get_command

from holdfast.cli._exits import CommandFailed, Exit, tell
from holdfast.cli._remote import Globals
from holdfast.cli.commands import (
    audit,
    command,
    database,
    execution,
    libs,
    local,
    mcp,
    ops,
    query,
    quota,
    serve,
    session,
    store,
    strategy,
    strategy_run,  # noqa: F401  # adds to the group of strategies
    template,
    template_parts,  # noqa: F401  # adds to the group of templates
    transcript,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from holdfast._version import VERSION

        print(f"holdfast {VERSION}")
        raise typer.Exit


def root(
    context: typer.Context,
    server_url: Annotated[
        str | None, typer.Option("--server-url", help="The daemon's address [HOLDFAST_SERVER_URL].", show_default=False)
    ] = None,
    token: Annotated[str | None, typer.Option("--token", help="The token for it [HOLDFAST_TOKEN].", show_default=False)] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="The tenant that is meant, for administrators [HOLDFAST_TENANT].", show_default=False),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The config file [HOLDFAST_CONFIG].", show_default=False)
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Script sessions that survive anything: JavaScript and Lua that may stop to wait, be killed, forked and rewound."""
    if config is not None:
        os.environ["HOLDFAST_CONFIG"] = str(
            config
        )  # for all that reads the configuration, in this process and those that it starts
    context.obj = Globals(server_url, token, tenant)


def built() -> typer.Typer:
    """All commands."""
    names = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(name="holdfast", no_args_is_help=True, pretty_exceptions_enable=False, context_settings=names)
    app.callback()(root)
    local.add(app)
    serve.add_serve(app)
    mcp.add(app)
    app.add_typer(template.app, name="template")
    app.add_typer(session.app, name="session")
    app.add_typer(execution.app, name="exec")
    app.add_typer(query.app, name="query")
    command(app, "events", "holdfast events --follow", "holdfast events --follow --session trip --json")(query.events)
    app.add_typer(strategy.app, name="strategy")
    app.add_typer(transcript.app, name="transcript")
    app.add_typer(libs.app, name="libs")
    app.add_typer(database.app, name="database")
    app.add_typer(store.app, name="store")
    app.add_typer(ops.app, name="ops")
    app.add_typer(quota.app, name="quota")
    app.add_typer(audit.app, name="audit")
    app.add_typer(serve.token_app, name="token")
    app.add_typer(serve.config_app, name="config")
    return app


def _meant(arguments: list[str]) -> str:
    """The command that was meant, where it is not known any more who refused its arguments."""
    found = parsing()
    path = ["holdfast"]
    for word in arguments:
        found = getattr(found, "commands", {}).get(word)
        if found is None:
            break
        path.append(word)
    return " ".join(path)


@functools.cache
def parsing() -> Any:
    """What reads the arguments. Made once: it takes longer than many a command."""
    return get_command(built())


def started(arguments: list[str]) -> int:
    """Does what the arguments say. Gives the exit code."""
    try:
        result = parsing().main(arguments, prog_name="holdfast", standalone_mode=False)
    except _click.exceptions.NoArgsIsHelpError:  # the help is shown by then
        return Exit.USAGE
    except _click.exceptions.ClickException as error:
        where = getattr(error, "ctx", None)
        asked = _meant(arguments) if where is None else where.command_path
        tell(CommandFailed(error.format_message(), "USAGE", f"`{asked} --help` shows what there is"))
        return Exit.USAGE
    except Abort:
        sys.stdout.flush()
        return Exit.INTERRUPTED
    return result if isinstance(result, int) else Exit.FINE
