"""`holdfast exec`: runs inside a session of the daemon."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli._exits import exit_of_execution, usage
from holdfast.cli._remote import plain, session_id
from holdfast.cli._tables import Columns, listing, pairs
from holdfast.cli._terminal import as_json, print_json
from holdfast.cli.commands import ExecutionArgument, Json, Limited, SessionArgument, command, group, json_object, said

if TYPE_CHECKING:
    from holdfast.client import Client

app = group("Executions: runs inside a session of the daemon.")

Background = Annotated[bool, typer.Option("--background", help="Return as soon as it is sure to run.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for its turn, if something else runs or waits in the session.")]


@command(app, "repl", "holdfast exec repl 3f2504e0-4f89-41d3-9a0c-0305e82c3301 '1 + 1'")
def repl(
    context: typer.Context,
    session: SessionArgument,
    code: Annotated[str, typer.Argument(help="What to run.")],
    background: Background = False,
    wait: Wait = False,
    json: Json = False,
) -> int:
    """Runs a snippet, up to its end or its first question. Fails if the snippet does."""
    with said(context).client() as client:
        found_id = session_id(client, session)
        execution = plain(client.executions.repl(found_id, code, background=background, wait=wait))
        return _ran(client, execution, json)


@command(app, "run-file", "holdfast exec run-file 3f2504e0-4f89-41d3-9a0c-0305e82c3301 jobs/main.js --args '{\"n\": 3}'")
def run_file(
    context: typer.Context,
    session: SessionArgument,
    path: Annotated[str, typer.Argument(help="A file of the session's worktree, by its path there.")],
    args: Annotated[str, typer.Option("--args", help="What the script finds in __ARGS__, as a JSON object.")] = "{}",
    env: Annotated[str, typer.Option("--env", help="What the script finds in __ENV__, as a JSON object.")] = "{}",
    background: Background = False,
    wait: Wait = False,
    json: Json = False,
) -> int:
    """Runs a file of the worktree, up to its end or its first question. Fails if the script does."""
    given, environment = json_object(args, "--args"), json_object(env, "--env")
    with said(context).client() as client:
        found_id = session_id(client, session)
        execution = plain(client.executions.run_file(found_id, path, given, environment, background=background, wait=wait))
        return _ran(client, execution, json)


@command(app, "strategy", 'holdfast exec strategy 3f2504e0-4f89-41d3-9a0c-0305e82c3301 plan.lua --ctx \'{"task": "tea"}\'')
def strategy(
    context: typer.Context,
    session: SessionArgument,
    file: Annotated[Path, typer.Argument(help="A file on this machine.", exists=True, dir_okay=False)],
    ctx: Annotated[str, typer.Option("--ctx", help="The strategy's input, as a JSON object.")] = "{}",
    background: Background = False,
    wait: Wait = False,
    json: Json = False,
) -> int:
    """Runs a strategy, which finds its input in the global `ctx`."""
    given = json_object(ctx, "--ctx")
    try:
        source = file.read_text("utf-8")
    except (OSError, ValueError):
        raise usage(f"{file} cannot be read as text in UTF-8") from None
    with said(context).client() as client:
        found_id = session_id(client, session)
        execution = plain(client.executions.strategy(found_id, source, given, background=background, wait=wait))
        return _ran(client, execution, json)


def _ran(client: "Client", execution: dict[str, Any], json: bool) -> int:
    """What came of it, in the lines that scripts know how to read."""
    if json:
        print_json(execution)
        return exit_of_execution(execution)
    print(f"Execution ID: {execution['id']}")
    pairs({"Status": execution["status"], "Result": execution["result"], "Error": execution["error"]})
    for query in execution["queries"]:
        pairs({f"Waits for {query['id']} ({query['kind']})": query["payload"]})
    print("Events:")
    for event in plain(list(client.events.iterate(execution["id"]))):
        pairs({f"  [{event['seq']}] {event['type']}": event["payload"]})
    return exit_of_execution(execution)


@command(app, "list", "holdfast exec list 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --limit 10")
def list_executions(
    context: typer.Context,
    session: SessionArgument,
    status: Annotated[str | None, typer.Option("--status", help="Only those of this status.")] = None,
    limit: Limited = 50,
    json: Json = False,
) -> None:
    """Shows the executions of a session, newest first."""
    with said(context).client() as client:
        found = plain(list(client.executions.list(session_id(client, session), status=status, limit=limit)))
    columns = {"Execution ID": "id", "Kind": "kind", "Status": "status", "Started": "started_at"}
    listing(json, found, columns, "No executions found")


@command(app, "get", "holdfast exec get 7c9e6679-7425-40de-944b-e07fc1f90ae7")
def get(context: typer.Context, execution: ExecutionArgument, json: Json = False) -> None:
    """Shows an execution."""
    with said(context).client() as client:
        found = plain(client.executions.get(execution))
    if json:
        print_json(found)
        return
    pairs(
        {
            "Execution ID": found["id"],
            "Session ID": found["session_id"],
            "Kind": found["kind"],
            "Status": found["status"],
            "Path": found["path"],
            "Started": found["started_at"],
            "Ended": found["ended_at"],
            "Result": found["result"],
            "Error": found["error"],
            "Metrics": found["metrics"],
        }
    )


@command(app, "events", "holdfast exec events 7c9e6679-7425-40de-944b-e07fc1f90ae7 --after-seq 2")
def events(
    context: typer.Context,
    execution: ExecutionArgument,
    after_seq: Annotated[int, typer.Option("--after-seq", min=0, help="Only those after this number.")] = 0,
    json: Json = False,
) -> None:
    """Shows the events of an execution, in order."""
    with said(context).client() as client:
        found = plain(list(client.events.iterate(execution, after_seq=after_seq)))
    columns: Columns = {
        "Seq": "seq",
        "Timestamp": lambda one: one["ts"][11:23],
        "Type": "type",
        "Payload": lambda one: as_json(one["payload"]),
    }
    listing(json, found, columns, "No events found")


@command(app, "cancel", "holdfast exec cancel 7c9e6679-7425-40de-944b-e07fc1f90ae7")
def cancel(context: typer.Context, execution: ExecutionArgument, json: Json = False) -> None:
    """Stops an execution, running or paused. Its session can be used afterwards."""
    with said(context).client() as client:
        stopped = plain(client.executions.cancel(execution))
    if json:
        print_json(stopped)
    else:
        print(f"Execution ID: {stopped['id']}")
        pairs({"Status": stopped["status"]})
