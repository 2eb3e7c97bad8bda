"""Named queries and migrations, read from the `.sql` files of this package."""

import re
from pathlib import Path

_NAME = "-- name:"
_INCLUDED = re.compile(r"\{([a-z_]+)\}")


def load_queries(kind: str) -> dict[str, str]:
    """The queries of `sql/<kind>/*.sql` by name. A query begins after a line `-- name: its_name` and ends at the next one.

    `{its_name}` in another one stands for its text: so a list of columns is written once.
    """
    queries: dict[str, str] = {}
    for file in _sql_files(kind):
        for block in ("\n" + file.read_text("utf-8")).split("\n" + _NAME)[1:]:
            name, _, text = block.partition("\n")
            if name.strip() in queries:
                raise ValueError(f"two queries are named {name.strip()}")
            lines = [line for line in text.splitlines() if not line.startswith("--")]
            queries[name.strip()] = "\n".join(lines).strip().removesuffix(";")
    return {name: _INCLUDED.sub(lambda found: queries.get(found[1], found[0]), text) for name, text in queries.items()}


def load_migrations(kind: str) -> list[str]:
    """The texts of `sql/<kind>/migrations/*.sql` in their order: the first one leads to version 1."""
    return [file.read_text("utf-8") for file in _sql_files(f"{kind}/migrations")]


def _sql_files(folder: str) -> list[Path]:
    return sorted((Path(__file__).parent / "sql" / folder).glob("*.sql"))
