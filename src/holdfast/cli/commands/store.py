"""`holdfast store`: look after the store itself. No daemon is needed."""

import asyncio
from contextlib import nullcontext
from typing import Annotated

import typer

from holdfast.cli._exits import Exit
from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, command, group

app = group("Check and repair the store.")


@command(app, "check", "holdfast store check", "holdfast store check --repair --json")
def check(
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended; drop what cannot be read. No daemon may run.")
    ] = False,
    address: Annotated[
        str | None, typer.Option("--store", help="The address of the store, instead of the daemon's own.", show_default=False)
    ] = None,
    json: Json = False,
) -> int:
    """Read everything in the store and report what is damaged.

    The exit code is 0 if nothing is damaged, or nothing any more, and 1 otherwise. Back the store up before a repair: rows that cannot be
    read are reset or dropped, and sessions are rewound to their last whole checkpoint.
    """
    from holdfast.control.maintenance import check_store
    from holdfast.daemon import InstanceLock, load_config
    from holdfast.libraries import LibraryCache

    config = load_config().config
    with InstanceLock(config.data_dir) if repair and address is None else nullcontext():
        report = asyncio.run(check_store(address or config.store, repair=repair, libraries=LibraryCache(config.libraries_dir)))
    if json:
        print_json(report.as_dict())
        return Exit.FINE if report.whole else Exit.FAILED
    if report.in_use:
        print(f"{report.in_use} processes use the store: what they are in the middle of may look damaged.")
    for finding in report.findings:
        state = "" if not repair else "left: " if finding in report.left else "repaired: "
        print(f"{state}{finding.kind} {finding.id}: {finding.problem}; {finding.repair}")
    print("The store is whole." if report.whole else f"{len(report.left or report.findings)} damaged.")
    return Exit.FINE if report.whole else Exit.FAILED
