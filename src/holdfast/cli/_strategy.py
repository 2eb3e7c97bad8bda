"""`holdfast strategy run` and `resume`: a run, and the person at the terminal, or a recording, for all that it asks."""

import asyncio
import json as jsons
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO
from uuid import UUID

from holdfast.cli._asking import Left, answered
from holdfast.cli._exits import CommandFailed, Exit, exit_of_execution, tell, usage
from holdfast.cli._given import LANGUAGES, checked_text, text_of
from holdfast.cli._host import Json
from holdfast.cli._places import local_store
from holdfast.cli._remote import Globals
from holdfast.cli._run import reader
from holdfast.cli._runs import Runs, Wanted, is_remote, runs_at
from holdfast.cli._showing import show_error, show_events
from holdfast.cli._terminal import as_json, harmless, print_json, say
from holdfast.control import Asked, Recorded, Response, plain
from holdfast.domain import HoldfastError, Query, QueryKind

_LOOK_S: Final = 0.2
_ENDED: Final = frozenset({"completed", "error", "cancelled"})

Begin = Callable[[Runs], Awaitable[Json]]
Answer = Callable[[Runs, str], Awaitable[None]]
"""Answers what a run asks now. Raises `Left` if there is nobody who could."""


@dataclass(slots=True)
class _Seen:
    """Which run is attended to, and how much of what its script said was shown."""

    session_id: str | None = None
    shown: int | None = 0
    """None: whatever there is by now was shown before."""
    waits: bool = False
    """Whether it has yet to end, as far as was seen."""


def wanted_of(given: str, language: str | None, **more: Any) -> Wanted:
    """What is to be run: the text of a file, if it looks like one, or a package by name."""
    suffix = Path(given).suffix.lower()
    if suffix not in LANGUAGES and "/" not in given and "\\" not in given:
        return Wanted(strategy=given, language=language, **more)
    found = language or LANGUAGES.get(suffix)
    if found is None:
        raise usage(f"what language is {given}?", "say --language javascript or --language lua")
    return Wanted(code=text_of(given), language=found, name=Path(given).name, **more)


def options_of(words: Sequence[str]) -> Json:
    """What `--opt` says: JSON where it is some, else text.

    >>> options_of(["n=5", "style=brief"])
    {'n': 5, 'style': 'brief'}
    """
    options: Json = {}
    for word in words:
        checked_text(word, "--opt")
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise usage(f"--opt takes KEY=VALUE, not {word!r}", "for example: --opt n=5")
        try:
            options[name] = jsons.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options


def recording_of(file: Path) -> Recorded:
    """The answers in a transcript: JSON lines as `transcript export` writes them, JSON as `transcript show --json` does, or a list."""
    text = text_of(str(file))
    try:
        found = jsons.loads(text)
    except (ValueError, RecursionError):
        try:
            found = [jsons.loads(line) for line in text.split("\n") if line.strip()]
        except (ValueError, RecursionError):
            raise usage(f"{file} is no transcript: it is neither JSON nor JSON lines") from None
    if isinstance(found, Mapping):
        found = found.get("transcript", [found])
    entries = [one for one in found if isinstance(one, Mapping) and "prompt" in one] if isinstance(found, list) else []
    if not entries:
        raise usage(f"{file} is no transcript: it has no prompts")
    return Recorded(entries)


def run(globals_: Globals, wanted: Wanted, store: str | None, answers: Path | None, json: bool) -> int:
    """Runs a strategy. Its session stays, for its transcript."""

    async def begin(runs: Runs) -> Json:
        return await runs.start(wanted, _LOOK_S)

    return _attend(globals_, store, json, begin, answers, _Seen())


def resume(
    globals_: Globals, session: str | None, store: str | None, response: Response | None, answers: Path | None, json: bool
) -> int:
    """Goes on with a run, by default with the last that is active; first with a response, if there is one."""
    seen = _Seen(shown=None)

    async def begin(runs: Runs) -> Json:
        session_id = seen.session_id = await runs.find(session)
        if response is not None:
            seen.shown = (await runs.execution(session_id))["seq"]
            return await runs.resume(session_id, [response], _LOOK_S)
        return await runs.outcome(session_id, _LOOK_S)

    return _attend(globals_, store, json, begin, answers, seen)


def _attend(globals_: Globals, store: str | None, json: bool, begin: Begin, answers: Path | None, seen: _Seen) -> int:
    answer = _person() if answers is None else _recording(recording_of(answers))
    is_read = json or not sys.stdin.isatty()  # by a program, for which a reply is all there is on stdout

    async def go() -> tuple[Json, Json]:
        async with runs_at(globals_, store) as runs:
            reply = await _attended(runs, await begin(runs), answer, sys.stderr if is_read else sys.stdout, seen)
            return reply, await runs.execution(reply["session_id"])

    try:
        reply, execution = asyncio.run(go())
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            say()  # after the ^C
        _say_how_to_go_on(globals_, store, seen.session_id)
        return Exit.INTERRUPTED
    except HoldfastError:
        if seen.waits:
            _say_how_to_go_on(globals_, store, seen.session_id)
        raise
    if json or (is_read and reply["status"] not in _ENDED):
        print_json(reply)
    elif reply["status"] in _ENDED:
        _show_end(reply, execution)
    if reply["status"] not in _ENDED:
        _say_how_to_go_on(globals_, store, reply["session_id"])
    return exit_of_execution(execution)


async def _attended(runs: Runs, reply: Json, answer: Answer, out: TextIO, seen: _Seen) -> Json:
    """Goes on until the run has ended, or nobody answers. Gives where it stands then."""
    session_id = seen.session_id = str(reply["session_id"])
    sleeps = False
    while True:
        seen.waits = reply["status"] not in _ENDED
        await _show(runs, session_id, seen, out)
        if not seen.waits:
            return reply
        if reply["status"] == "waiting":
            if reply["wake_at"] is not None and not sleeps:
                say(f"it sleeps until {plain.moment(reply['wake_at'])}")
            sleeps = reply["wake_at"] is not None
        else:
            try:
                await answer(runs, session_id)
            except Left:
                return await runs.outcome(session_id, 0)
        reply = await runs.outcome(session_id, _LOOK_S)


async def _show(runs: Runs, session_id: str, seen: _Seen, out: TextIO) -> None:
    execution = await runs.execution(session_id)
    if seen.shown is None:
        seen.shown = execution["seq"]
    while seen.shown < execution["seq"]:
        events = await runs.events(execution["id"], seen.shown)
        if not events:
            return
        show_events(events, out)
        seen.shown = events[-1]["seq"]


def _person() -> Answer:
    line = reader()

    async def answer(runs: Runs, session_id: str) -> None:
        if not sys.stdin.isatty():
            raise Left
        for query in await runs.queries(session_id):
            await answered(runs, query, line, lambda text: say(harmless(text, sys.stderr)))

    return answer


def _recording(recorded: Recorded) -> Answer:
    async def answer(runs: Runs, session_id: str) -> None:
        responses = [replace(await recorded(_asked(query)), query_id=query["id"]) for query in await runs.queries(session_id)]
        if responses:
            await runs.resume(session_id, responses, 0)

    return answer


def _asked(query: Json) -> Asked:
    record = Query(
        UUID(query["session_id"]), 1, UUID(query["execution_id"]), QueryKind(query["kind"]), query["payload"], asked_at=0
    )
    return Asked(query["id"], record)


def _show_end(reply: Json, execution: Json) -> None:
    """The value on stdout, text as it is and anything else as JSON; or the error on stderr. No value is no line."""
    if reply["status"] == "completed":
        result = reply["result"] if reply["result"] is not None else reply.get("result_preview")
        if result is not None:
            print(harmless(result if isinstance(result, str) else as_json(result), sys.stdout), flush=True)
    elif reply["status"] == "cancelled":
        tell(CommandFailed("the run was cancelled", "CANCELLED"))
    else:
        show_error(execution["error"] or {"message": reply["error"]})


def _say_how_to_go_on(globals_: Globals, store: str | None, session_id: str | None) -> None:
    remote = is_remote(globals_, store)
    if not remote and local_store(store) == "memory:":
        say("the run is gone, since it was in memory only")
        return
    words = ["holdfast", "strategy", "resume", session_id or ""] if session_id else ["holdfast", "strategy", "status"]
    if store is not None:
        words += ["--store", store]
    elif remote and globals_.server_url:
        words[1:1] = ["--server-url", globals_.server_url]
    what = f"run {session_id} waits; go on with" if session_id else "the run goes on from there; look for it with"
    say(f"{what}: {shlex.join(words)}")
