"""`holdfast run` and `holdfast resume`: a script in this process, and the person at the terminal for all that it asks."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from holdfast.cli._asking import Line
from holdfast.cli._attending import Attended, attend, document
from holdfast.cli._exits import CommandFailed, Exit, exit_of_execution, usage
from holdfast.cli._given import limits_of, script_of
from holdfast.cli._host import FINAL, Json
from holdfast.cli._local import Local, opened
from holdfast.cli._places import local_store
from holdfast.cli._showing import show_end
from holdfast.cli._terminal import Lines, harmless, painted, print_json, say


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

    async def begin(local: Local, attended: Attended) -> Json:
        attended.session = session = await local.begin(wanted.language, limits, name, {"script": wanted.path or "-e"})
        if wanted.path is None:
            return await local.run(session["id"], wanted.source)
        return await local.run_file(session["id"], wanted.source, wanted.path, wanted.args)

    return _attend(local_store(store), json, begin)


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
        return execution

    return _attend(address, json, begin)


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


def _attend(address: str, json: bool, begin: Callable[[Local, Attended], Awaitable[Json]]) -> int:
    attended = Attended()

    async def go() -> Json:
        async with opened(address) as local:
            execution = await begin(local, attended)
            out = sys.stderr if json else sys.stdout
            execution = await attend(local, execution, attended, out, _reader(), lambda text: say(harmless(text, sys.stderr)))
            assert attended.session is not None
            if json:
                print_json(document(attended.session, execution))
            elif execution["status"] in FINAL:
                show_end(execution)
            if execution["status"] in FINAL and attended.session["name"] is None and await local.is_done(execution):
                await local.delete(attended.session["id"])
            return execution

    try:
        execution = asyncio.run(go())
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            say()  # after the ^C
        _say_how_to_go_on(address, attended.session)
        return Exit.INTERRUPTED
    if execution["status"] not in FINAL:
        _say_how_to_go_on(address, attended.session)
    return exit_of_execution(execution)


def _reader() -> Line:
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


def _say_how_to_go_on(address: str, session: Json | None) -> None:
    if session is not None and address != "memory:":
        say(f"session {session['id']} waits; go on with: holdfast resume {session['id']}")
