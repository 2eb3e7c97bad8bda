"""`holdfast transcript`: what runs of strategies asked, were told, and came to, here or at a daemon."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from holdfast.cli._exits import usage
from holdfast.cli._given import checked_text
from holdfast.cli._tables import Columns, listing, pairs
from holdfast.cli._terminal import as_json, harmless, print_json
from holdfast.cli.commands import Json, Limited, SessionArgument, command, group, said
from holdfast.cli.commands.local import Store

if TYPE_CHECKING:
    from holdfast.cli._runs import Runs

app = group("Transcripts of runs of strategies.")

Found = TypeVar("Found")
_Strategy = Annotated[str | None, typer.Option("--strategy", help="Only of this strategy.")]
_COLUMNS: Columns = {
    "Session ID": "session_id",
    "Strategy": "strategy",
    "Status": "status",
    "Started": "started_at",
    "Rounds": "rounds",
    "LLM calls": "llm_calls",
    "Tokens": lambda one: one["total_tokens"]["tokens"],
    "Task": "task_hint",
}


def _asked(context: typer.Context, store: str | None, ask: "Callable[[Runs], Awaitable[Found]]") -> Found:
    from holdfast.cli._runs import runs_at

    async def go() -> Found:
        async with runs_at(said(context), store) as runs:
            return await ask(runs)

    return asyncio.run(go())


@command(app, "list", "holdfast transcript list", "holdfast transcript list --strategy reflect --limit 5 --json")
def list_transcripts(
    context: typer.Context, strategy: _Strategy = None, limit: Limited = 50, store: Store = None, json: Json = False
) -> None:
    """Shows runs of strategies, newest first, those of this machine or with --server-url those of a daemon."""
    found = _asked(context, store, lambda runs: runs.transcripts(strategy, limit))
    listing(json, found, _COLUMNS, "No transcripts found")


@command(app, "show", "holdfast transcript show 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def show(
    context: typer.Context,
    session: SessionArgument,
    max_chars: Annotated[
        int, typer.Option("--max-chars", min=0, help="Leave out the oldest questions beyond; 0 is no limit.")
    ] = 100_000,
    store: Store = None,
    json: Json = False,
) -> None:
    """Shows all that a run asked, was told, and came to, as far as it has come."""

    async def ask(runs: "Runs") -> dict[str, Any]:
        return await runs.transcript(await runs.find(session), max_chars)

    found = _asked(context, store, ask)
    if json:
        print_json(found)
        return
    pairs({title: found[field] if isinstance(field, str) else field(found) for title, field in _COLUMNS.items()})
    pairs({"Input": found["ctx"] or None})
    if found.get("truncated"):
        print(f"Left out: {found['original_rounds'] - found['returned_rounds']} of {found['original_rounds']}")
    for exchange in found["transcript"]:
        _exchange(exchange)
    pairs({"Result": found.get("result_preview") or found["result"], "Error": found["error"]})
    for note in found["notes"]:
        pairs({f"Note {note['timestamp']}": f"{note['title']}: {note['content']}" if note["title"] else note["content"]})


def _exchange(exchange: dict[str, Any]) -> None:
    print(f"\n{exchange['query_id']} ({exchange['kind']}, {exchange['state']})")
    _lines("system", exchange.get("system"))
    _lines("?", exchange["prompt"])
    if exchange.get("error"):
        _lines("!", exchange["error"].get("message"))
    _lines(">", exchange["response"])


def _lines(sign: str, said_there: Any) -> None:
    if said_there is None:
        return
    text = said_there if isinstance(said_there, str) else as_json(said_there)
    for line in harmless(text, sys.stdout).splitlines() or [""]:
        print(f"  {sign} {line}".rstrip())


@command(
    app,
    "export",
    "holdfast transcript export 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --format markdown --output run.md",
)
def export(
    context: typer.Context,
    session: SessionArgument,
    form: Annotated[str, typer.Option("--format", help="jsonl or markdown.")] = "jsonl",
    output: Annotated[Path | None, typer.Option("--output", help="Write it to this file.", dir_okay=False)] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Prints the whole of a transcript as JSON lines or Markdown. `holdfast strategy run --answers` takes the former."""

    async def ask(runs: "Runs") -> tuple[str, str]:
        session_id = await runs.find(session)
        return session_id, await runs.export(session_id, form)

    session_id, text = _asked(context, store, ask)
    if output is not None:
        try:
            output.write_text(text, "utf-8", "replace")
        except OSError as error:
            raise usage(f"{output} cannot be written: {error.strerror}") from None
    if json:
        about = {"session_id": session_id, "format": form}
        print_json(about | ({"text": text} if output is None else {"path": str(output)}))
    elif output is None:
        print(harmless(text, sys.stdout), end="" if text.endswith("\n") else "\n", flush=True)


@command(app, "note", "holdfast transcript note 3f2504e0-4f89-41d3-9a0c-0305e82c3301 'the second answer was wrong' --title why")
def note(
    context: typer.Context,
    session: SessionArgument,
    content: Annotated[str, typer.Argument(help="What to note.")],
    title: Annotated[str | None, typer.Option("--title", help="What it is about.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Adds a note to a run, also while it goes on."""
    checked_text(content, "CONTENT")
    checked_text(title, "--title")

    async def ask(runs: "Runs") -> dict[str, Any]:
        return await runs.note(await runs.find(session), content, title)

    found = _asked(context, store, ask)
    if json:
        print_json(found)
    else:
        print(f"Notes: {found['notes_count']}")


@command(app, "stats", "holdfast transcript stats", "holdfast transcript stats --strategy reflect --days 7")
def stats(
    context: typer.Context,
    strategy: _Strategy = None,
    days: Annotated[float | None, typer.Option("--days", min=0, help="Only of the last so many days.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Shows what runs that have ended took, by strategy."""
    found = _asked(context, store, lambda runs: runs.stats(strategy, days))
    if json:
        print_json(found)
        return
    rows = [{"strategy": name, **figures} for name, figures in found["strategies"].items()]
    columns: Columns = {
        "Strategy": "strategy",
        "Runs": "count",
        "Elapsed ms": "avg_elapsed_ms",
        "LLM calls": "avg_llm_calls",
        "Rounds": "avg_rounds",
        "Tokens in all": "total_tokens",
    }
    listing(False, rows, columns, "No transcripts found")
