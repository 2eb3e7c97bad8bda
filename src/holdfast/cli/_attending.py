"""Attending to an execution: showing what its script says, and answering what it asks, wherever it runs."""

from dataclasses import dataclass
from typing import Final, TextIO

from holdfast.cli._asking import Left, Line, Say, answered
from holdfast.cli._host import FINAL, Host, Json, questions, rests
from holdfast.cli._showing import show_events

_LOOK_S: Final = 0.2


@dataclass(slots=True)
class Attended:
    """A session that somebody attends to, and how far its events were shown."""

    session: Json | None = None
    shown: int = 0


async def attend(host: Host, execution: Json, attended: Attended, out: TextIO, line: Line, say: Say) -> Json:
    """Goes on until the execution has ended, or nobody answers. Gives where it stands then."""
    while True:
        await _show(host, execution, attended, out)
        while not await rests(host, execution):
            execution = await host.look(execution["id"], _LOOK_S)
            await _show(host, execution, attended, out)
        if execution["status"] in FINAL:
            return execution
        try:
            for query in await questions(host, execution):
                await answered(host, query, line, say)
        except Left:
            return execution
        execution = await host.look(execution["id"], 0)


async def _show(host: Host, execution: Json, attended: Attended, out: TextIO) -> None:
    while attended.shown < execution["seq"]:
        events = await host.events(execution["id"], attended.shown)
        if not events:
            return
        show_events(events, out)
        attended.shown = events[-1]["seq"]


def document(session: Json, execution: Json) -> Json:
    """What `--json` prints of an execution that was attended to."""
    return {
        "session_id": session["id"],
        "name": session["name"],
        "execution_id": execution["id"],
        "status": execution["status"],
        "result": execution["result"],
        "error": execution["error"],
        "queries": execution["queries"],
    }
