"""`holdfast mcp`: strategies for an MCP host, over stdin and stdout."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.cli._exits import Exit, usage
from holdfast.cli.commands import Json, command
from holdfast.cli.commands.local import Store

_GRACE_MS: Final = 300
"""How long a script may go on when the host has gone, before it is stopped where it is, to go on from there another time."""


def add(app: typer.Typer) -> None:
    """Registers it."""
    command(app, "mcp", "holdfast mcp", "holdfast mcp --root ./scripts", "holdfast mcp --store sqlite:///work.db")(mcp)


def mcp(
    store: Store = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="The folder of the store, unless --store names one [HOLDFAST_DATA_DIR].")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", help="The folder below which `file` names scripts; by default the working directory."),
    ] = None,
    state_lifetime: Annotated[
        float,
        typer.Option(
            "--state-lifetime", min=1, max=31_622_400, help="Seconds to answer what is asked in the middle of a call."
        ),
    ] = 3600,
    json: Json = False,
) -> int:
    """Serves strategies to an MCP host that starts this command and speaks to it over stdin and stdout.

    Runs are kept where `holdfast run` keeps its sessions, and survive the end of this process, of the host, and of the machine. What it
    logs goes to stderr, with --json as JSON lines.
    """
    if data_dir is not None:
        os.environ["HOLDFAST_DATA_DIR"] = str(data_dir)  # for all that asks where it is
    if root is not None and not root.is_dir():
        raise usage(f"there is no folder {root}")
    from holdfast.cli import _places
    from holdfast.control import Holdfast
    from holdfast.daemon import Logs
    from holdfast.mcp import serve_stdio
    from holdfast.runtime import Settings

    address, settings, packages = _places.local_store(store), Settings(grace_ms=_GRACE_MS), _places.package_path()
    with Logs("warning", "json" if json else "text"):
        serve_stdio(
            lambda: Holdfast.open(address, settings=settings, packages=packages, data_dir=_places.data_dir()),
            root=str(root or Path.cwd()),
            state_s=state_lifetime,
        )
    return Exit.FINE
