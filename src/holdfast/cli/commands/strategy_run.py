"""`holdfast strategy run`, `resume`, `status` and `cancel`: runs of strategies, here or at a daemon."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli._exits import usage
from holdfast.cli._given import checked_text
from holdfast.cli._tables import Columns, listing, pairs
from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, Limited, command, json_object, said
from holdfast.cli.commands.local import Store
from holdfast.cli.commands.strategy import app

_Answers = Annotated[
    Path | None, typer.Option("--answers", help="Answer from this transcript instead of asking.", dir_okay=False)
]
_Most = Annotated[int | None, typer.Option("--budget-calls", min=0, help="How many questions for models at most.")]
_Tokens = Annotated[int | None, typer.Option("--budget-tokens", min=0, help="How many tokens at most.")]
_Milliseconds = Annotated[int | None, typer.Option("--budget-ms", min=0, help="How many milliseconds at most.")]
_Run = Annotated[str | None, typer.Argument(metavar="SESSION", help="Its id or its name; by default the last that is active.")]


@command(
    app,
    "run",
    "holdfast strategy run self_consistency --task 'What is 17 + 25?' --opt n=5",
    'holdfast strategy run plan.lua --ctx \'{"task": "tea"}\' --budget-calls 10',
    "holdfast strategy run plan.lua --answers said.jsonl --json",
)
def run(
    context: typer.Context,
    strategy: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A package by name, or a .lua or .js file.")],
    task: Annotated[str | None, typer.Option("--task", help="What is to be done: ctx.task.")] = None,
    opt: Annotated[
        list[str] | None, typer.Option("--opt", metavar="KEY=JSON", help="More of ctx, JSON or text; may be repeated.")
    ] = None,
    ctx: Annotated[str, typer.Option("--ctx", metavar="JSON", help="The strategy's input, as a JSON object.")] = "{}",
    language: Annotated[str | None, typer.Option("--language", help="javascript or lua, where there are both.")] = None,
    template: Annotated[str | None, typer.Option("--template", help="The template of its session, by id or name.")] = None,
    budget_calls: _Most = None,
    budget_tokens: _Tokens = None,
    budget_ms: _Milliseconds = None,
    answers: _Answers = None,
    store: Store = None,
    json: Json = False,
) -> int:
    """Runs a strategy, and asks you what it asks.

    In this process, or with --server-url or HOLDFAST_SERVER_URL at a daemon. You play the model: an answer ends with an empty line.
    Ctrl-C leaves the run where it is, and `holdfast strategy resume` goes on. When stdin is no terminal, what is asked is printed as JSON,
    and the run waits. A run stays in the store when it has ended: `holdfast transcript show` tells all of it.
    """
    from holdfast.cli import _strategy
    from holdfast.domain import Budget

    checked_text(task, "--task")
    limits = Budget(budget_calls, budget_ms, budget_tokens)
    wanted = _strategy.wanted_of(
        strategy,
        language,
        task=task,
        ctx=json_object(ctx, "--ctx") | _strategy.options_of(opt or []),
        template=template,
        budget=limits if limits.as_dict() else None,
    )
    return _strategy.run(said(context), wanted, store, answers, json)


@command(
    app,
    "resume",
    "holdfast strategy resume",
    "holdfast strategy resume 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "holdfast strategy resume 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --response 42 --json",
)
def resume(
    context: typer.Context,
    session: _Run = None,
    response: Annotated[str | None, typer.Option("--response", help="Answer with this text first.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="Raise this in the script instead.")] = None,
    query: Annotated[str | None, typer.Option("--query", help="Which question; may be left out if only one is open.")] = None,
    answers: _Answers = None,
    store: Store = None,
    json: Json = False,
) -> int:
    """Goes on with a run. When stdin is no terminal, what it asks next is printed as JSON."""
    from holdfast.cli import _strategy
    from holdfast.control import Response

    if response is not None and error is not None:
        raise usage("give --response or --error, not both")
    if query is not None and response is None and error is None:
        raise usage("--query goes with --response or --error")
    checked_text(response, "--response")
    checked_text(error, "--error")
    first = None if response is None and error is None else Response(response, query, error)
    return _strategy.resume(said(context), session, store, first, answers, json)


@command(app, "status", "holdfast strategy status", "holdfast strategy status 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --json")
def status(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="Its id or its name; by default all active ones.")
    ] = None,
    pending: Annotated[
        str | None, typer.Option("--pending", help="What to show of open queries: meta, preview or full.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Also the last questions and answers.")] = False,
    limit: Limited = 50,
    store: Store = None,
    json: Json = False,
) -> None:
    """Shows where runs stand: one, or all that are active, newest first."""
    from holdfast.cli._runs import runs_at

    async def look() -> dict[str, Any]:
        async with runs_at(said(context), store) as runs:
            session_id = None if session is None else await runs.find(session)
            shown = {"pending_filter": pending or (None if json or session is None else "preview"), "include_history": history}
            return await runs.status(session_id, **shown) if session_id else await runs.status(None, **shown, limit=limit)

    found = asyncio.run(look())
    if json:
        print_json(found)
    elif session is None:
        listing(False, found["sessions"], _COLUMNS, "No active runs")
    else:
        _one(found)


_COLUMNS: Columns = {
    "Session ID": "session_id",
    "Strategy": "strategy",
    "State": "phase",
    "Waits for": lambda one: one.get("pending_queries"),
    "LLM calls": lambda one: one["metrics"]["llm_calls"],
    "Tokens": lambda one: one["metrics"]["tokens"]["total"],
    "Elapsed ms": lambda one: one["metrics"]["elapsed_ms"],
}


def _one(found: dict[str, Any]) -> None:
    metrics = found["metrics"]
    pairs({title: found[cell] if isinstance(cell, str) else cell(found) for title, cell in _COLUMNS.items()})
    pairs({"Rounds": metrics["rounds"], "Progress": metrics.get("progress"), "Budget left": metrics.get("budget_remaining")})
    for query in found.get("pending", ()):
        pairs({f"Asks {query.get('query_id', '')}": query.get("prompt_preview") or query})
    for said_before in metrics.get("conversation_history", ()):
        pairs({f"Asked {said_before['query_id']}": said_before["prompt"], "Answered": said_before["response"]})
    for line in metrics["recent_logs"]:
        pairs({f"Log {line['level']}": line["message"]})


@command(app, "cancel", "holdfast strategy cancel 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def cancel(
    context: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Its id or its name.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Stops a run, and its branches. Its transcript stays."""
    from holdfast.cli._runs import runs_at

    async def stop() -> dict[str, Any]:
        async with runs_at(said(context), store) as runs:
            return await runs.cancel(await runs.find(session))

    reply = asyncio.run(stop())
    if json:
        print_json(reply)
    else:
        pairs({"Session ID": reply["session_id"], "Status": reply["status"]})
