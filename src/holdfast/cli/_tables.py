"""Tables, key and value lines, and trees: for people at a terminal, and the same columns without decoration for programs."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.cli._terminal import harmless, is_plain, print_json

Columns = Mapping[str, str | Callable[[Any], Any]]
"""Titles, and for each the name of a field, or what makes the cell of a record."""


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], none: str) -> None:
    """Rows under their columns, or a line that says that there are none. Nothing is cut off where no terminal is."""
    texts = [[harmless(shown(cell), sys.stdout) for cell in row] for row in rows]
    if not texts:
        print(none)
    elif is_plain(sys.stdout):
        for line in aligned([columns, *([cell.replace("\n", "\\n") for cell in row] for row in texts)]):  # a row is a line
            print(line)
    else:
        _decorated(columns, texts)


def listing(json: bool, found: Sequence[Any], columns: Columns, none: str) -> None:
    """What a command has found: as JSON, or as a table."""
    if json:
        print_json(found)
        return
    cells = columns.values()
    table(list(columns), [[one[cell] if isinstance(cell, str) else cell(one) for cell in cells] for one in found], none)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """
    >>> list(aligned([["ID", "Name"], ["1", "first"]]))
    ['ID  Name', '1   first']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _decorated(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    decorated = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        decorated.add_column(column, no_wrap=column.endswith("ID"), overflow="fold")
    for row in rows:
        decorated.add_row(*[Text(cell) for cell in row])
    Console().print(decorated)


def pairs(values: Mapping[str, Any]) -> None:
    """`Key: value` lines. What has no value has no line."""
    for key, value in values.items():
        if value is not None:
            print(f"{key}: {harmless(shown(value), sys.stdout)}")


def shown(value: Any) -> str:
    """
    >>> shown(True), shown(None), shown({"a": 1})
    ('yes', '', '{"a":1}')
    """
    from holdfast.cli._terminal import as_json

    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return as_json(value) if isinstance(value, dict | list) else str(value)


def drawn(tree: Mapping[str, Any]) -> Iterator[str]:
    """The history of a session as lines: its checkpoints, and the sessions that were forked there.

    What has one successor stays in its column. No recursion: a history may be longer than Python's stack.
    """
    yield f"session {tree['session_id']}" + _origin(tree["origin"])
    nodes = {node["number"]: node for node in tree["nodes"]}
    following: dict[int, list[Any]] = {number: [*node["forks"]] for number, node in nodes.items()}
    for number, node in nodes.items():
        if number:
            following[node["parent"] if node["parent"] in nodes else 0].append(node)
    waiting: list[tuple[Any, str, str]] = [(nodes[0], "", "")]
    while waiting:
        one, first, rest = waiting.pop()
        if isinstance(one, str):
            yield f"{first}fork {one}"
            continue
        yield f"{first}{one['number']}{_remarks(one)}"
        below = following[one["number"]]
        if len(below) == 1 and not one["forks"]:
            waiting.append((below[0], rest, rest))
            continue
        last = len(below) - 1
        strokes = [("└─ ", "   ") if place == last else ("├─ ", "│  ") for place in range(len(below))]
        branches = zip(below, strokes, strict=True)
        waiting.extend(reversed([(branch, rest + stroke, rest + inner) for branch, (stroke, inner) in branches]))


def _origin(origin: Mapping[str, Any] | None) -> str:
    return "" if origin is None else f"  (forked from {origin['session_id']} at {origin['checkpoint']})"


def _remarks(node: Mapping[str, Any]) -> str:
    remarks = ["beginning"] if node["number"] == 0 else [f"{node.get('created_at') or ''}  {node.get('bytes', 0)} bytes"]
    if node.get("open"):
        remarks.append(f"waits for {', '.join(node['open'])}")
    if node["head"]:
        remarks.append("<- here")
    return "  " + "  ".join(remarks)
