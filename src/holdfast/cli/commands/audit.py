"""`holdfast audit`: who did what, from where, and with which outcome."""

import time
from typing import Annotated, Any

import typer

from holdfast.cli._remote import plain
from holdfast.cli._tables import Columns, listing
from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, Limited, command, group, said

app = group("The audit log of the daemon: who did what to which object, from where, and with which outcome.")

_PAUSE_S = 1.0
_COLUMNS: Columns = {
    "Time": "at",
    "Tenant": "tenant",
    "Token": lambda one: one["token_name"] or one["token"],
    "Action": "action",
    "Object": lambda one: f"{one['object_type']} {one['object_id']}".strip(),
    "Outcome": "outcome",
    "From": "address",
    "Count": "count",
}


@command(
    app,
    "list",
    "holdfast audit list",
    "holdfast audit list --outcome FORBIDDEN --since 2026-11-16T00:00:00Z --json",
    "holdfast --tenant team-a audit list --follow",
)
def list_entries(
    context: typer.Context,
    token: Annotated[str | None, typer.Option("--token", help="Only what the token with this id did.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="Only this action, such as 'POST /sessions'.")] = None,
    object_id: Annotated[str | None, typer.Option("--object", help="Only what was done to the object with this id.")] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", help="Only this outcome: ok, or the code of an error.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="Only entries from this time on, such as 2026-11-16.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only entries before this time.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show new entries as they come, oldest first.")] = False,
    limit: Limited = 50,
    json: Json = False,
) -> None:
    """List entries of the audit log, newest first. Needs a token with the scope admin."""
    filters: dict[str, Any] = {
        "token": token,
        "action": action,
        "object_id": object_id,
        "outcome": outcome,
        "since": since,
        "until": until,
    }
    with said(context).client() as client:
        if not follow:
            listing(json, plain(list(client.ops.audit(**filters, limit=limit))), _COLUMNS, "No entries found")
            return
        _follow(client, filters, limit, json)


def _follow(client: Any, filters: dict[str, Any], limit: int, json: bool) -> None:
    shown: list[Any] = []
    while True:
        found = plain(list(client.ops.audit(**filters, limit=limit)))
        for entry in reversed([one for one in found if one not in shown]):
            if json:
                print_json(entry)
            else:
                print(*(column(entry) if callable(column) else entry[column] for column in _COLUMNS.values()), flush=True)
        shown = found
        time.sleep(_PAUSE_S)
