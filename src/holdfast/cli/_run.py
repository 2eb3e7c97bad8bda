"""`holdfast run` and `holdfast resume`: a script in this process, and the person at the terminal for all that it asks."""

import asyncio
import json as json_format
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from holdfast.cli._asking import Line
from holdfast.cli._attending import Attended, attend, document
from holdfast.cli._exits import CommandFailed, Exit, exit_of_execution, usage
from holdfast.cli._host import FINAL, Json
from holdfast.cli._local import Local, opened
from holdfast.cli._places import local_store
from holdfast.cli._showing import show_end
from holdfast.cli._terminal import Lines, harmless, painted, print_json, say

_LANGUAGES: Final = {".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".lua": "lua"}
_LIMITS: Final = ("wall_ms", "cpu_ms", "mem_mb", "stack_kb", "max_events", "max_output_kb", "max_suspensions")


@dataclass(frozen=True, slots=True)
class Script:
    """What to run: a snippet, or a file's text with its name and arguments."""

    source: str
    path: str | None
    language: str
    args: Any = None


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


def resume(session: str | None, store: str | None, json: bool, listed: bool) -> int:
    """Goes on with a session that waits or was interrupted, by default with the last one."""
    address = local_store(store)
    if listed:
        return asyncio.run(_list(address, json))

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
            if execution["status"] in FINAL and attended.session["name"] is None:
                await local.delete(attended.session["id"])
            return execution

    try:
        execution = asyncio.run(go())
    except KeyboardInterrupt:
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


# ---- what was typed ----------------------------------------------------------------------------------------------------------------


def script_of(script: str | None, code: str | None, lang: str | None, args: str | None, arg: Sequence[str]) -> Script:
    """The script that is meant, or a usage error that says what is missing."""
    if (script is None) == (code is None):
        raise usage("give a script or -e CODE", "for example: holdfast run -e '1 + 1'")
    given = arguments_of(args, arg)
    if code is not None:
        return Script(code, None if given is None else "-e", lang or "javascript", given)
    assert script is not None
    if script == "-":
        return Script(sys.stdin.read(), "stdin", lang or "javascript", given)
    language = lang or _LANGUAGES.get(PurePath(script).suffix.lower())
    if language is None:
        raise usage(f"what language is {script}?", "say --lang javascript or --lang lua")
    return Script(_text_of(script), PurePath(script).name, language, given)


def _text_of(script: str) -> str:
    try:
        return Path(script).read_text("utf-8")
    except FileNotFoundError:
        raise CommandFailed(f"there is no file {script}", "FILE_NOT_FOUND") from None
    except OSError as error:
        raise usage(f"{script} cannot be read: {error.strerror}") from None
    except ValueError:
        raise usage(f"{script} is not text in UTF-8") from None


def arguments_of(args: str | None, arg: Sequence[str]) -> Any:
    """What the script finds in `__ARGS__`.

    >>> arguments_of('{"n": 1}', ["who=Ada"])
    {'n': 1, 'who': 'Ada'}
    """
    given: Any = None
    if args is not None:
        try:
            given = json_format.loads(args)
        except ValueError:
            raise usage("--args must be JSON", """for example: --args '{"n": 1}'""") from None
    pairs = dict(_pair(word, "--arg") for word in arg)
    if not pairs:
        return given
    if given is not None and not isinstance(given, dict):
        raise usage("--arg and --args go together only if --args is a JSON object")
    return (given or {}) | pairs


def limits_of(words: Sequence[str]) -> dict[str, int]:
    """Limits by name.

    >>> limits_of(["wall_ms=60000"])
    {'wall_ms': 60000}
    """
    limits: dict[str, int] = {}
    for word in words:
        name, value = _pair(word, "--limit")
        if name not in _LIMITS or not value.isascii() or not value.isdigit():
            raise usage(f"--limit takes NAME=NUMBER, not {word!r}", f"the names are {', '.join(_LIMITS)}")
        limits[name] = int(value)
    return limits


def _pair(word: str, option: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not name or not equals:
        raise usage(f"{option} takes NAME=VALUE, not {word!r}")
    return name, value
