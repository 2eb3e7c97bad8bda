"""What an attempt is, and how a text is written in either language."""

import json
from typing import Any, NamedTuple


class Attempt(NamedTuple):
    """A script that tries to get out.

    `ends` is how it must end: the code or the name of the error that it raises, `paused` if it waits for an answer that nobody gives, or
    the value that it gives; texts may be several, as `A|B`. In a source `<out>` is the folder outside, `<tree>` the worktree,
    `<port>` the port of the server that is granted, and `<canary>` that of one that is not.
    """

    name: str
    source: str
    ends: Any

    def fits(self, outcome: Any) -> bool:
        if isinstance(self.ends, str) and isinstance(outcome, str):
            return outcome in self.ends.split("|")
        return bool(outcome == self.ends)


def javascript_text(text: str) -> str:
    return json.dumps(text)


def lua_text(text: str) -> str:
    """Signs that are no letters are written as numbers, but for those of what is filled in later."""
    return (
        '"'
        + "".join(c if c.isascii() and (c.isalnum() or c in "<>") else "".join(f"\\{b:03d}" for b in c.encode()) for c in text)
        + '"'
    )
