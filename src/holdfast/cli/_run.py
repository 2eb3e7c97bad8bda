"""`holdfast run` and `holdfast resume`: a script in this process, and the person at the terminal for all that it asks."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from holdfast.cli._asking import Line
from holdfast.cli._attending import Attended, attend, document
from holdfast.cli._exits import CommandFailed, Exit, exit_of_execution, usage
from holdfast.cli._given import checked_name, limits_of, script_of
from holdfast.cli._host import FINAL, Json, rests
from holdfast.cli._local import Local, opened
from holdfast.cli._places import local_store
from holdfast.cli._showing import show_end
from holdfast.cli._terminal import Lines, harmless, painted, print_json, say
from holdfast.control import plain
from holdfast.domain import HoldfastError

_QUIET_S: Final = 1.0
"""After this long without a sign, whoever resumed a session is told what it does."""


def run(
    script: str | None,
    code: str | None,
    lang: str | None,
    store: str | None,
    name: str | None,
    args: str | None,
    arg: Sequence[str],
    limit: Sequence[str],
    json: bool,
) -> int:
    """Runs a script in a new session. One that ends leaves nothing behind, unless it has a name."""
    wanted = script_of(script, code, lang, args, arg)
    limits = limits_of(limit)
    checked_name(name)

    async def begin(local: Local, attended: Attended) -> Json:
        attended.session = session = await local.begin(wanted.language, limits, name, {"script": wanted.path or "-e"})
        if wanted.path is None:
            return await local.run(session["id"], wanted.source)
        return await local.run_file(session["id"], wanted.source, wanted.path, wanted.args)

    return _attend(store, json, begin)


def resume(session: str | None, store: str | None, json: bool, listed: bool, deleted: bool) -> int:
    """Goes on with a session that waits or was interrupted, by default with the last one."""
    address = local_store(store)
    if listed:
        return asyncio.run(_list(address, json))
    if deleted:
        if session is None:
            raise usage("say which session to delete", "`holdfast resume --list` shows those that wait")
        return asyncio.run(_delete(address, session, json))

    async def begin(local: Local, attended: Attended) -> Json:
        attended.session = found = await (local.latest() if session is None else local.session(session))
        execution_id = found["execution_id"] or await _last_execution(local, found)
        execution = await local.look(execution_id, 0)
        if execution["status"] not in FINAL:
            attended.shown = execution["seq"]  # what came before was seen when it happened
        if not await rests(local, execution):
            execution = await local.look(execution_id, _QUIET_S)
        if not await rests(local, execution):
            await _say_what_it_does(local, found["id"])
        return execution

    return _attend(store, json, begin)


async def _say_what_it_does(local: Local, session_id: str) -> None:
    wakes = (await local.session(session_id))["wake_at"]
    if wakes is None or wakes <= plain.moment(time.time_ns() // 1_000_000):
        say("it runs; if it was killed with its process, it goes on here within ten seconds")
    else:
        say(f"it sleeps until {wakes}")


async def _last_execution(local: Local, session: Json) -> str:
    """Of a session in which nothing waits: it went on by itself, and its end may not have been seen yet."""
    executions = (await local.hf.executions.list(session["id"], limit=1)).items
    if not executions:
        raise CommandFailed("nothing was run in this session", "EXECUTION_NOT_FOUND")
    return str(executions[0].id)


async def _list(address: str, json: bool) -> int:
    async with opened(address) as local:
        sessions = await local.open_sessions()
    if json:
        print_json(sessions)
    for session in [] if json else sessions:
        about = session["name"] or session["meta"].get("script", "")
        print(f"{session['id']}  {session['status']:8}  {session['created_at']}  {harmless(about, sys.stdout)}")
    return Exit.FINE


async def _delete(address: str, session: str, json: bool) -> int:
    async with opened(address) as local:
        found = await local.session(session)
        await local.delete(found["id"])
    if json:
        print_json({"status": "ok", "session_id": found["id"]})
    else:
        print(f"Deleted session: {found['id']}")
    return Exit.FINE


def _attend(store: str | None, json: bool, begin: Callable[[Local, Attended], Awaitable[Json]]) -> int:
    attended = Attended()

    async def go() -> Json:
        async with opened(local_store(store)) as local:
            try:
                return await _attended(local, attended, json, begin)
            except (HoldfastError, BrokenPipeError):
                with suppress(HoldfastError):
                    await _tidied(local, attended.session)
                raise

    try:
        execution = asyncio.run(go())
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            say()  # after the ^C
        _say_how_to_go_on(store, attended.session)
        return Exit.INTERRUPTED
    if execution["status"] not in FINAL:
        _say_how_to_go_on(store, attended.session)
    return exit_of_execution(execution)


async def _attended(local: Local, attended: Attended, json: bool, begin: Callable[[Local, Attended], Awaitable[Json]]) -> Json:
    execution = await begin(local, attended)
    out = sys.stderr if json else sys.stdout
    execution = await attend(local, execution, attended, out, reader(), lambda text: say(harmless(text, sys.stderr)))
    assert attended.session is not None
    if json:
        print_json(document(attended.session, execution))
    elif execution["status"] in FINAL:
        show_end(execution)
    if execution["status"] in FINAL:
        await _tidied(local, attended.session)
    return execution


async def _tidied(local: Local, session: Json | None) -> None:
    """What has ended, or was refused before it began, leaves nothing behind unless it has a name."""
    if session is not None and session["name"] is None and await local.is_done(session["id"]):
        await local.delete(session["id"])


def reader() -> Line:
    """Reads answers from stdin; who types them sees what for."""
    lines = Lines()

    async def line(prompt: str) -> str | None:
        is_typed = sys.stdin.isatty()
        if is_typed:
            print(painted(prompt, "bold", sys.stderr), end="", file=sys.stderr, flush=True)
        given = await lines.next()
        if given is None and is_typed:
            say()
        return given

    return line


def _say_how_to_go_on(store: str | None, session: Json | None) -> None:
    if session is None:
        return
    if local_store(store) == "memory:":
        say("the session is gone, since it was in memory only")
        return
    import shlex

    where = "" if store is None else f" --store {shlex.quote(store)}"
    say(f"session {session['id']} waits; go on with: holdfast resume {session['id']}{where}")
