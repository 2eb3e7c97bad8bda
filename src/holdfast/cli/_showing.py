"""What a script said, and how it ended, on the terminal."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from holdfast.cli._exits import CommandFailed, tell
from holdfast.cli._host import Json
from holdfast.cli._terminal import harmless, painted


def show_events(events: Sequence[Json], out: TextIO) -> None:
    """Errors, warnings, logs and progress go to stderr, the rest to `out`."""
    for event in events:
        payload = event["payload"]
        if event["type"] == "console":
            is_trouble = payload.get("level") in ("error", "warn")
            stream = sys.stderr if is_trouble else out
            text = harmless(str(payload.get("text", "")), stream)
            print(painted(text, "yellow", stream) if is_trouble else text, file=stream, flush=True)
        elif event["type"] in ("stdout", "stderr"):
            stream = sys.stderr if event["type"] == "stderr" else out
            stream.write(harmless(str(payload.get("text", "")), stream))
            stream.flush()
        elif event["type"] in ("log", "progress"):
            out.flush()
            print(
                painted(harmless(_remark(event["type"], payload), sys.stderr), "dim", sys.stderr), file=sys.stderr, flush=True
            )


def _remark(kind: str, payload: Mapping[str, Any]) -> str:
    """
    >>> _remark("progress", {"step": 2, "total": 5, "message": "voting"}), _remark("log", {"level": "warn", "message": "late"})
    ('2/5 voting', 'warn: late')
    """
    if kind == "log":
        return f"{payload.get('level', 'info')}: {payload.get('message', '')}"
    return f"{payload.get('step')}/{payload.get('total')} {payload.get('message') or ''}".rstrip()


def show_end(execution: Mapping[str, Any]) -> None:
    """The value of an execution on stdout, or its error on stderr. No value is no line."""
    if execution["status"] == "ok":
        value = execution["result"] or {}
        if value.get("type") not in (None, "undefined", "nil"):
            print(harmless(value["preview"], sys.stdout), flush=True)
    elif execution["status"] == "cancelled":
        tell(CommandFailed("the execution was cancelled", "CANCELLED"))
    elif execution["error"] is not None:
        show_error(execution["error"])


def show_error(error: Mapping[str, Any]) -> None:
    """A script's error: where it happened, then what."""
    name, message = error.get("name") or "Error", error.get("message") or ""
    stack = str(error.get("stack") or "")
    places = [line for line in stack.splitlines() if line.strip() and line.strip() != f"{name}: {message}"]
    if places:
        sys.stdout.flush()
        print(painted(harmless("\n".join(places), sys.stderr), "dim", sys.stderr), file=sys.stderr)
    code = error.get("code") or "SCRIPT_ERROR"
    says_itself = error.get("code") or name == "error"  # as Lua calls every one
    tell(CommandFailed(message if says_itself else f"{name}: {message}", str(code)))
