"""`holdfast database`: databases that scripts use. They need no daemon."""

import re
from typing import Annotated, Final

import typer

from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, command, group

app = group("Databases that scripts use.")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")


def _name(given: str) -> str:
    if not _NAME.fullmatch(given):
        raise typer.BadParameter(
            f"{given!r} must be a name of letters, digits, _ and -, which begins with a letter, of at most 63 characters"
        )
    return given


@command(app, "lockdown", "holdfast database lockdown --role scripts > lockdown.sql")
def lockdown(
    role: Annotated[
        str, typer.Option("--role", callback=_name, help="The role that scripts log in as; made if it is not there.")
    ] = "scripts",
    schema: Annotated[
        str, typer.Option("--schema", callback=_name, help="The schema that it may use; made if it is not there.")
    ] = "scripts",
    json: Json = False,
) -> None:
    """Print the SQL script that locks a PostgreSQL role down to its own schema.

    A superuser runs it once in the database that scripts use. Then `require_locked_role` of a connection can be true.
    """
    from holdfast.capabilities.database.postgresql_role import lockdown as script

    text = script(role, schema)
    if json:
        print_json({"role": role, "schema": schema, "sql": text})
    else:
        print(text)
