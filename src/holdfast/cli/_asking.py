"""Questions of a script, put to the person at the terminal, and what is made of the answers."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from holdfast.cli._host import Answering, Json
from holdfast.domain import AnswerConflict, HoldfastError

_LOOK_S: Final = 0.5
_YES: Final = frozenset({"y", "yes", "true", "1"})
_NO: Final = frozenset({"n", "no", "false", "0"})

Line = Callable[[str], Awaitable[str | None]]
"""Shows a prompt and gives a line, or None at the end of input."""
Say = Callable[[str], None]


class Left(Exception):
    """The person has no answer now. The session waits."""


async def answered(host: Answering, query: Json, line: Line, say: Say) -> None:
    """Asks one question and passes the answer on. One that somebody else answers meanwhile, or the clock, is let go."""
    asking = asyncio.ensure_future(ask(query, line, say))
    closing = asyncio.ensure_future(_closed(host, query))
    try:
        await asyncio.wait([asking, closing], return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            say(f"  {query['id']} is {closing.result()} meanwhile")
            return
        try:
            await host.answer(query["session_id"], query["id"], asking.result())
        except HoldfastError as error:
            if error.code != AnswerConflict.code:
                raise
            say(f"  {query['id']} was closed meanwhile")
    finally:
        for task in (asking, closing):
            task.cancel()
        await asyncio.gather(asking, closing, return_exceptions=True)


async def _closed(host: Answering, query: Json) -> str:
    """Waits until a query is no longer open."""
    while True:
        await asyncio.sleep(_LOOK_S)
        if all(open_one["id"] != query["id"] for open_one in await host.queries(query["session_id"])):
            return "closed"


async def ask(query: Json, line: Line, say: Say) -> Any:
    """The answer of a person to a query. Raises `Left` if there is none."""
    payload = query["payload"]
    if query["kind"] == "approve":
        return await _yes_or_no(payload, line, say)
    if query["kind"] == "ask":
        return await _choice(payload, line, say)
    if query["kind"] == "llm":
        return await _model(payload, line, say)
    say(f"? tool {payload.get('name')}({json.dumps(payload.get('args'), ensure_ascii=False)})")
    return _value(_given(await line("its result, as JSON: ")))


async def _yes_or_no(payload: Mapping[str, Any], line: Line, say: Say) -> bool:
    say(f"? {payload['question']}")
    while True:
        word = _given(await line("yes or no [y/n]: ")).strip().lower()
        if word in _YES or word in _NO:
            return word in _YES
        if not word and isinstance(payload.get("default"), bool):
            return bool(payload["default"])
        say("  say y or n")


async def _choice(payload: Mapping[str, Any], line: Line, say: Say) -> Any:
    options: list[Any] = payload.get("options") or []
    say(f"? {payload['question']}")
    for number, option in enumerate(options, 1):
        say(f"  {number}) {_text(option)}")
    given = _given(await line("> "))
    if not given and payload.get("default") is not None:
        return payload["default"]
    if given.isascii() and given.isdigit() and 0 < int(given) <= len(options):
        return options[int(given) - 1]
    return next((option for option in options if _text(option) == given), given)


async def _model(payload: Mapping[str, Any], line: Line, say: Say) -> str:
    """Plays the model: several lines, up to an empty one or the end of input."""
    say("? answer for the model; an empty line ends it")
    if payload.get("system"):
        say(_indented(f"system: {payload['system']}"))
    for message in payload.get("messages") or []:
        say(_indented(f"{message.get('role', '')}: {_text(message.get('content'))}"))
    if payload.get("prompt") is not None:
        say(_indented(payload["prompt"]))
    lines: list[str] = []
    while True:
        given = await line("> ")
        if given is None and not lines:
            raise Left
        if not given:
            return "\n".join(lines)
        lines.append(given)


def _given(line: str | None) -> str:
    if line is None:
        raise Left
    return line


def _value(text: str) -> Any:
    """JSON if it is some, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
