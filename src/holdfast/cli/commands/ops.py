"""`holdfast ops`: how the daemon is."""

import json as json_format
from typing import Any

import typer

from holdfast.cli._remote import plain
from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, command, group, said

app = group("How the daemon is.")


def _document(value: Any, json: bool) -> None:
    if json:
        print_json(value)
    else:
        print(json_format.dumps(value, indent=2, ensure_ascii=False))


@command(app, "health", "holdfast ops health")
def health(context: typer.Context, json: Json = False) -> None:
    """Whether the daemon is there, and ready to be used."""
    with said(context).client() as client:
        found = plain(client.ops.health())
        ready = plain(client.ops.ready())
    _document(found | {"ready": ready["status"], "store": ready["store"], "recovery": ready["recovery"]}, json)


@command(app, "runtime-summary", "holdfast ops runtime-summary --json")
def runtime_summary(context: typer.Context, json: Json = False) -> None:
    """How many sessions there are in each state, and what they use."""
    with said(context).client() as client:
        _document(plain(client.ops.summary()), json)


@command(app, "metrics", "holdfast ops metrics", "holdfast ops metrics --json")
def metrics(context: typer.Context, json: Json = False) -> None:
    """The daemon's metrics, in the text format of Prometheus; with --json as an object."""
    with said(context).client() as client:
        text = client.ops.metrics()
    if json:
        print_json(samples(text))
    else:
        print(text, end="" if text.endswith("\n") else "\n")


def samples(text: str) -> dict[str, float]:
    """The values of metrics by name, with labels as they are written.

    >>> samples('# HELP up x\\nup 1\\nruns_total{kind="repl"} 3\\n')
    {'up': 1.0, 'runs_total{kind="repl"}': 3.0}
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#"):
            found[name] = float(value)
    return found
