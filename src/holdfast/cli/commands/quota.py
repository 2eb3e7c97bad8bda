"""`holdfast quota`: what the tenant and the token may use, and what they use."""

import typer

from holdfast.cli._remote import plain
from holdfast.cli._tables import listing
from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, command, group, said

app = group("Show quotas.")


@command(app, "show", "holdfast quota show", "holdfast quota show --json")
def show(context: typer.Context, json: Json = False) -> None:
    """Show the quotas of the tenant and of the token, and what is used of them."""
    with said(context).client() as client:
        found = plain(client.ops.quotas())
    if json:
        print_json(found)
        return
    rows = [
        {
            "scope": scope,
            "quota": name,
            "used": _number(found[scope]["used"].get(name)),
            "limit": _number(limit) if limit else "none",
        }
        for scope in ("tenant", "token")
        for name, limit in found[scope]["limits"].items()
    ]
    listing(False, rows, {"Scope": "scope", "Quota": "quota", "Used": "used", "Limit": "limit"}, "No quotas")


def _number(value: float | None) -> str:
    return "" if value is None else f"{round(value, 3):g}"
