"""`holdfast session`: long-lived program states, and their history."""

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli._exits import usage
from holdfast.cli._remote import plain, session_id, template_id
from holdfast.cli._tables import Columns, drawn, listing, pairs, table
from holdfast.cli._terminal import drawable, print_json
from holdfast.cli.commands import Json, Limited, SessionArgument, command, group, json_object, said

_LOOK_S = 0.5
app = group("Sessions of the daemon, and their history.")

Checkpoint = Annotated[int | None, typer.Option("--checkpoint", min=0, help="A checkpoint; by default the present state.")]


@command(
    app,
    "create",
    "holdfast session create --template-id first",
    "holdfast session create --template-id first --worktree-path .",
)
def create(
    context: typer.Context,
    template: Annotated[str, typer.Option("--template-id", help="The template's id or name.")],
    workspace_id: Annotated[str | None, typer.Option("--workspace-id", help="Whose worktree it is.")] = None,
    base_commit: Annotated[str | None, typer.Option("--base-commit", help="The commit that the worktree began from.")] = None,
    worktree_path: Annotated[Path | None, typer.Option("--worktree-path", help="The folder whose files it may run.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for it.")] = None,
    meta: Annotated[str, typer.Option("--meta", help="What you want to remember of it, as a JSON object.")] = "{}",
    json: Json = False,
) -> None:
    """Makes a session, in a worktree if you say which. Whose that is, and from which commit, is only noted."""
    if worktree_path is None and (workspace_id is not None or base_commit is not None):
        raise usage("--workspace-id and --base-commit are about a worktree: say --worktree-path")
    if worktree_path is not None:
        workspace_id, base_commit = workspace_id or "local", base_commit or "none"
    remembered = json_object(meta, "--meta")
    with said(context).client() as client:
        session = plain(
            client.sessions.create(
                template_id(client, template),
                name=name,
                meta=remembered or None,
                workspace_id=workspace_id,
                base_commit_oid=base_commit,
                worktree_path=None if worktree_path is None else str(worktree_path.absolute()),
            )
        )
    if json:
        print_json(session)
    else:
        print(f"Created session: {session['id']}")
        _described(session)


def _described(session: dict[str, Any]) -> None:
    pairs(
        {
            "Status": session["status"],
            "Template ID": session["template_id"],
            "Name": session["name"],
            "Workspace ID": session["workspace_id"],
            "Base Commit": session["base_commit_oid"],
            "Worktree Path": session["worktree_path"],
        }
    )


def amounts(used: dict[str, Any]) -> str:
    """What was used, on one line."""
    return f"{used['cpu_s']:.1f} CPU seconds, {used['steps']} steps, {used['events']} events, {used['bytes'] / 1e6:.1f} MB"


@command(app, "list", "holdfast session list --status paused")
def list_sessions(
    context: typer.Context,
    status: Annotated[str, typer.Option("--status", help="Only those in this state.")] = "",
    template: Annotated[str | None, typer.Option("--template-id", help="Only those of this template.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only those of this name.")] = None,
    limit: Limited = 50,
    json: Json = False,
) -> None:
    """Shows sessions, newest first."""
    with said(context).client() as client:
        wanted = None if template is None else template_id(client, template)
        found = plain(list(client.sessions.list(status=status or None, template=wanted, name=name, limit=limit)))
    columns = {"Session ID": "id", "Template ID": "template_id", "Status": "status", "Created": "created_at", "Name": "name"}
    listing(json, found, columns, "No sessions found")


@command(app, "get", "holdfast session get 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def get(context: typer.Context, session: SessionArgument, json: Json = False) -> None:
    """Shows a session."""
    with said(context).client() as client:
        found = plain(client.sessions.get(session_id(client, session)))
    if json:
        print_json(found)
        return
    print(f"Session ID: {found['id']}")
    _described(found)
    origin = found["origin"]
    pairs(
        {
            "Checkpoint": found["head"],
            "Execution ID": found["execution_id"],
            "Forked From": None if origin is None else f"{origin['session_id']} at {origin['checkpoint']}",
            "Created": found["created_at"],
            "Updated": found["updated_at"],
            "Closed": found["closed_at"],
            "Last Error": found["last_error"],
            "Used": amounts(found["usage"]["total"]),
            "Used in Hour": f"{amounts(found['usage']['hour'])}, from {found['usage']['hour']['began_at']}",
            "Stored": f"{found['usage']['stored_events']} events, {found['usage']['stored_bytes'] / 1e6:.1f} MB",
        }
    )


@command(app, "close", "holdfast session close 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def close(context: typer.Context, session: SessionArgument, json: Json = False) -> None:
    """Ends a session and what runs or waits in it. Its history stays. Twice is fine."""
    with said(context).client() as client:
        closed = plain(client.sessions.close(session_id(client, session)))
    if json:
        print_json(closed)
    else:
        print(f"Closed session: {closed['id']}")


@command(app, "delete", "holdfast session delete 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def delete(context: typer.Context, session: SessionArgument, json: Json = False) -> None:
    """Removes a session and all that belongs to it. Its forks stay whole."""
    with said(context).client() as client:
        found_id = session_id(client, session)
        client.sessions.delete(found_id)
    if json:
        print_json({"status": "ok", "session_id": found_id})
    else:
        print(f"Deleted session: {found_id}")


@command(app, "prune", "holdfast session prune 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --keep 10")
def prune(
    context: typer.Context,
    session: SessionArgument,
    keep: Annotated[int | None, typer.Option("--keep", min=0, help="How many of the newest checkpoints stay.")] = None,
    older_than: Annotated[
        float | None, typer.Option("--older-than", min=0, help="Only those older than so many hours.")
    ] = None,
    json: Json = False,
) -> None:
    """Delete checkpoints that are not needed. The present state, those that forks began at, and all events stay."""
    if keep is None and older_than is None:
        raise usage("say --keep, --older-than, or both")
    before = None if older_than is None else datetime.now(UTC) - timedelta(hours=older_than)
    with said(context).client() as client:
        found_id = session_id(client, session)
        progress = client.sessions.prune(found_id, keep=keep, before=before)
        pruned = progress.pruned
        while progress.remaining:
            print(f"Pruned {progress.pruned}, {progress.remaining} remain", file=sys.stderr, flush=True)
            time.sleep(_LOOK_S)
            pruned = progress.pruned + progress.remaining
            progress = client.sessions.pruning(found_id)
    if json:
        print_json({"session_id": found_id, "pruned": pruned})
    else:
        print(f"Pruned checkpoints: {pruned}")


# ---- history -----------------------------------------------------------------------------------------------------------------------


@command(app, "fork", "holdfast session fork 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --checkpoint 2 --count 3")
def fork(
    context: typer.Context,
    session: SessionArgument,
    checkpoint: Checkpoint = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many.")] = 1,
    name: Annotated[str | None, typer.Option("--name", help="A name for them.")] = None,
    json: Json = False,
) -> None:
    """Makes new sessions that go on from a checkpoint of this one."""
    with said(context).client() as client:
        forks = plain(client.sessions.fork(session_id(client, session), checkpoint, count=count, name=name))
    if json:
        print_json(forks)
    for one in [] if json else forks:
        print(f"Created session: {one['id']}")


@command(app, "rewind", "holdfast session rewind 3f2504e0-4f89-41d3-9a0c-0305e82c3301 2")
def rewind(
    context: typer.Context,
    session: SessionArgument,
    checkpoint: Annotated[int, typer.Argument(min=0, help="The checkpoint to go back to; 0 is the beginning.")],
    json: Json = False,
) -> None:
    """Goes back to a checkpoint. What came after it stays in the history."""
    with said(context).client() as client:
        rewound = plain(client.sessions.rewind(session_id(client, session), checkpoint))
    if json:
        print_json(rewound)
    else:
        print(f"Rewound session: {rewound['id']} (checkpoint {checkpoint})")
        pairs({"Status": rewound["status"]})


@command(app, "checkpoints", "holdfast session checkpoints 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def checkpoints(context: typer.Context, session: SessionArgument, json: Json = False) -> None:
    """Shows the states that a session can go back to."""
    with said(context).client() as client:
        found = plain(list(client.sessions.iterate_checkpoints(session_id(client, session))))
    columns: Columns = {
        "Checkpoint": "number",
        "Parent": "parent",
        "Created": "created_at",
        "Bytes": "bytes",
        "Waits for": lambda one: ", ".join(one["open"]),
    }
    listing(json, found, columns, "No checkpoints found")


@command(app, "tree", "holdfast session tree 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def tree(context: typer.Context, session: SessionArgument, json: Json = False) -> None:
    """Draws the history of a session, with its forks."""
    with said(context).client() as client:
        found = plain(client.sessions.tree(session_id(client, session)))
    if json:
        print_json(found)
    for line in [] if json else drawn(found):
        print(drawable(line, sys.stdout))


@command(app, "diff", "holdfast session diff 3f2504e0-4f89-41d3-9a0c-0305e82c3301 1 3")
def diff(
    context: typer.Context,
    session: SessionArgument,
    before: Annotated[int, typer.Argument(min=0, help="A checkpoint; 0 is the beginning.")],
    after: Annotated[int | None, typer.Argument(min=0, help="Another one; by default the present state.")] = None,
    json: Json = False,
) -> None:
    """Shows the global variables that differ between two checkpoints."""
    with said(context).client() as client:
        found = plain(client.sessions.diff(session_id(client, session), before, after))
    if json:
        print_json(found)
        return
    rows = [("+", name, "", one["preview"]) for name, one in found["added"].items()]
    rows += [("-", name, one["preview"], "") for name, one in found["removed"].items()]
    rows += [("~", name, one["before"]["preview"], one["after"]["preview"]) for name, one in found["changed"].items()]
    table(["", "Name", "Before", "After"], rows, "No differences")


@command(app, "errors", "holdfast session errors 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def errors(context: typer.Context, session: SessionArgument, limit: Limited = 50, json: Json = False) -> None:
    """Shows what went wrong in a session, oldest first."""
    with said(context).client() as client:
        found = plain(list(client.sessions.errors(session_id(client, session), limit=limit)))
    columns = {"Time": "timestamp", "Kind": "kind", "Execution ID": "execution_id", "Message": "message"}
    listing(json, found, columns, "No errors found")
