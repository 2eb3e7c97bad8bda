"""`holdfast query` and `holdfast events`: what scripts wait for, and what happens."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli._exits import Exit, exit_of, exit_of_execution, usage
from holdfast.cli._remote import Globals, Remote, plain, session_id
from holdfast.cli._tables import pairs, table
from holdfast.cli._terminal import as_json, harmless, print_json
from holdfast.cli.commands import Json, Limited, SessionArgument, command, group, json_value, said
from holdfast.domain import HoldfastError

if TYPE_CHECKING:
    from holdfast.client import Client

app = group("Queries: what paused scripts wait for.")

_WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_LOOK_S: Final = 2.0

Told = frozenset[tuple[str, str]]
"""Queries, each by its session and its id."""


def _line(query: dict[str, Any]) -> tuple[Any, ...]:
    return query["session_id"], query["id"], query["kind"], query["state"], query["asked_at"], as_json(query["payload"])


@command(app, "list", "holdfast query list", "holdfast query list --session trip --state answered")
def list_queries(
    context: typer.Context,
    session: Annotated[str | None, typer.Option("--session", help="Only those of this session.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="llm, ask, approve, tool or timer.")] = None,
    state: Annotated[str, typer.Option("--state", help="open, answered, cancelled or expired.")] = "open",
    limit: Limited = 50,
    json: Json = False,
) -> None:
    """Shows what is waited for, oldest first."""
    with said(context).client() as client:
        wanted = None if session is None else session_id(client, session)
        found = plain(list(client.queries.list(wanted, kind=kind, state=state, limit=limit)))
    if json:
        print_json(found)
    else:
        table(["Session ID", "Query", "Kind", "State", "Asked", "Payload"], [_line(one) for one in found], "No queries found")


@command(
    app,
    "answer",
    "holdfast query answer trip Lima",
    "holdfast query answer trip yes --query q-2",
    "holdfast query answer trip '{\"cents\": 250}' --as-json",
    "holdfast query answer trip --error 'nobody is there'",
)
def answer(
    context: typer.Context,
    session: SessionArgument,
    value: Annotated[str | None, typer.Argument(help="The answer.")] = None,
    query: Annotated[str | None, typer.Option("--query", help="Which one; may be left out if only one is open.")] = None,
    as_value: Annotated[bool, typer.Option("--as-json", help="The answer is JSON, not text.")] = False,
    error: Annotated[str | None, typer.Option("--error", help="Raise this in the script instead.")] = None,
    code: Annotated[str | None, typer.Option("--code", help="The code of that error.")] = None,
    json: Json = False,
) -> int:
    """Answers a query. The same answer again is fine; another one is a conflict. Fails if the script does."""
    if (value is None) == (error is None):
        raise usage("give an answer or --error")
    with said(context).client() as client:
        found_id = session_id(client, session)
        which = query or _only(client, found_id)
        if error is not None:
            execution = plain(client.queries.fail(found_id, which, error, code=code))
        else:
            assert value is not None
            given = json_value(value, "the answer") if as_value else _meant(client, found_id, which, value)
            execution = plain(client.queries.answer(found_id, given, query=which))
    if json:
        print_json(execution)
    else:
        print(f"Answered query: {which}")
        print(f"Execution ID: {execution['id']}")
        pairs({"Status": execution["status"], "Result": execution["result"], "Error": execution["error"]})
        for waiting in execution["queries"]:
            pairs({f"Waits for {waiting['id']} ({waiting['kind']})": waiting["payload"]})
    return exit_of_execution(execution)


def _only(client: "Client", found_id: str) -> str:
    """The query that is open, if there is exactly one that is not the clock's."""
    client.sessions.get(found_id)
    waiting = [one for one in client.queries.list(found_id, state="open") if one.kind != "timer"]
    if len(waiting) != 1:
        from holdfast.domain import AnswerAmbiguous

        raise AnswerAmbiguous(f"say which query is answered: {', '.join(one.id for one in waiting) or 'none'} is open")
    return waiting[0].id


def _meant(client: "Client", found_id: str, which: str, value: str) -> Any:
    """The answer, where yes and no mean something."""
    if value.strip().lower() in _WORDS and client.queries.get(found_id, which).kind == "approve":
        return _WORDS[value.strip().lower()]
    return value


@command(app, "watch", "holdfast query watch", "holdfast query watch --session trip --json")
def watch(
    context: typer.Context,
    session: Annotated[str | None, typer.Option("--session", help="Only those of this session.")] = None,
    json: Json = False,
) -> None:
    """Shows what is waited for, and then each new query as it is asked, until Ctrl-C."""
    asyncio.run(_watch(said(context), session, json))


async def _watch(globals_: Globals, session: str | None, json: bool) -> None:
    """Lists what is open whenever the stream tells of a query, and now and then: one may be asked before the stream has begun."""
    async with globals_.host() as host:
        wanted = None if session is None else (await host.session(session))["id"]
        told = _tell_new(await host.all_queries(wanted), frozenset(), json)
        asked = asyncio.Event()
        listening = asyncio.create_task(_listen(host, wanted, asked))
        while not listening.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await asked.wait()
            asked.clear()
            try:
                told = _tell_new(await host.all_queries(wanted), told, json)
            except HoldfastError as error:
                if exit_of(error) != Exit.UNREACHABLE:
                    raise  # else it is perhaps started again: the stream waits for it, and says so when it gives up
        await listening


async def _listen(host: Remote, wanted: str | None, asked: asyncio.Event) -> None:
    try:
        async for event in host.follow(wanted):
            if event["type"] == "query":
                asked.set()
    finally:
        asked.set()


def _tell_new(queries: Sequence[dict[str, Any]], told: Told, json: bool) -> Told:
    """Shows those that were not told yet. Gives what is open: what was closed may be asked again, as after a rewind."""
    for query in queries:
        if (query["session_id"], query["id"]) in told:
            continue
        if json:
            print_json(query)
        else:
            print(harmless("  ".join(map(str, _line(query))), sys.stdout), flush=True)
    return frozenset((query["session_id"], query["id"]) for query in queries)


def events(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")] = False,
    session: Annotated[str | None, typer.Option("--session", help="Only those of this session.")] = None,
    execution: Annotated[str | None, typer.Option("--execution", help="Only those of this execution.")] = None,
    after: Annotated[str | None, typer.Option("--after", help='After this cursor; "start" is from the beginning.')] = None,
    json: Json = False,
) -> None:
    """Shows events: those that an execution has, or with --follow all as they happen. With --json one a line."""
    if not follow and execution is None:
        raise usage("say --follow, or whose events: --execution ID")
    if session is not None and execution is not None:
        raise usage("either --session or --execution")
    with said(context).client() as client:
        if not follow:
            assert execution is not None
            for event in client.events.iterate(execution):
                _event(plain(event), json)
            return
        wanted = None if session is None else session_id(client, session)
        with closing(client.events.follow(session=wanted, execution=execution, after=after)) as told:
            for event in told:
                _event(plain(event), json)


def _event(event: dict[str, Any], json: bool) -> None:
    if json:
        print_json(event)
    else:
        line = f"{event['ts']}  {event['execution_id']}  [{event['seq']}] {event['type']}: {as_json(event['payload'])}"
        print(harmless(line, sys.stdout), flush=True)
