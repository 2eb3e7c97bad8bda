"""Commands of the REPL, which begin with a dot."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli._exits import CommandFailed, usage
from holdfast.cli._tables import drawn, table
from holdfast.cli._terminal import as_json, drawable, print_json, say

if TYPE_CHECKING:
    from holdfast.cli._repl import Repl

DOTS: Final = {
    ".help": "shows this",
    ".fork": "makes a fork, and goes on in it; .session goes back",
    ".rewind": "N: goes back to checkpoint N; 0 is the beginning",
    ".tree": "draws the history",
    ".checkpoints": "shows the states that can be gone back to",
    ".queries": "shows what is waited for",
    ".session": "ID: goes on in another session; without one, says which this is",
    ".save": "FILE: writes what ran without an error to a file",
    ".load": "FILE: runs a file",
    ".exit": "leaves, as does Ctrl-D",
}


def is_dot(snippet: str) -> bool:
    """Whether this is a command. No snippet of either language begins like this.

    >>> is_dot(".tree"), is_dot(".5 + 1")
    (True, False)
    """
    return snippet.startswith(".") and snippet[1:2].isalpha()


class Dots:
    """Does what a line says that begins with a dot. Gives whether to go on."""

    def __init__(self, repl: "Repl") -> None:
        self._repl = repl
        self._ways: dict[str, Callable[[str], Awaitable[bool]]] = {
            ".help": self._help,
            ".fork": self._fork,
            ".rewind": self._rewind,
            ".tree": self._tree,
            ".checkpoints": self._checkpoints,
            ".queries": self._queries,
            ".session": self._session,
            ".save": self._save,
            ".load": self._load,
            ".exit": self._exit,
        }

    async def do(self, line: str) -> bool:
        word, _, rest = line.strip().partition(" ")
        if word not in self._ways:
            raise usage(f"there is no command {word}", ".help shows what there is")
        return await self._ways[word](rest.strip())

    async def _help(self, rest: str) -> bool:
        for word, text in DOTS.items():
            say(f"{word:13} {text}")
        return True

    async def _fork(self, rest: str) -> bool:
        repl = self._repl
        before = repl.session["id"]
        fork = await repl.host.fork(before)
        say(f"in {fork['id']}, a fork of {before}")
        return await self._into(fork)

    async def _into(self, session: dict[str, Any]) -> bool:
        repl = self._repl
        repl.session, repl.has_run = session, True
        repl.source.use(session["id"])
        return await repl.attend_open()

    async def _rewind(self, rest: str) -> bool:
        if not rest.isascii() or not rest.isdigit():
            raise usage("say which checkpoint: .rewind N", ".checkpoints shows them")
        await self._repl.host.rewind(self._repl.session["id"], int(rest))
        say(f"at checkpoint {rest}")
        return await self._repl.attend_open()

    async def _tree(self, rest: str) -> bool:
        tree = await self._repl.host.tree(self._repl.session["id"])
        if self._repl.json:
            print_json(tree)
        for line in [] if self._repl.json else drawn(tree):
            print(drawable(line, sys.stdout), flush=True)
        return True

    async def _checkpoints(self, rest: str) -> bool:
        found = await self._repl.host.checkpoints(self._repl.session["id"])
        if self._repl.json:
            print_json(found)
        else:
            rows = [(one["number"], one["parent"], one["created_at"], one["bytes"], ", ".join(one["open"])) for one in found]
            table(["Checkpoint", "Parent", "Created", "Bytes", "Waits for"], rows, "No checkpoints found")
        return True

    async def _queries(self, rest: str) -> bool:
        found = await self._repl.host.queries(self._repl.session["id"])
        if self._repl.json:
            print_json(found)
        else:
            rows = [(one["id"], one["kind"], one["asked_at"], as_json(one["payload"])) for one in found]
            table(["Query", "Kind", "Asked", "Payload"], rows, "No queries found")
        return True

    async def _session(self, rest: str) -> bool:
        if rest:
            return await self._into(await self._repl.host.session(rest))
        print(self._repl.session["id"], flush=True)
        return True

    async def _save(self, rest: str) -> bool:
        if not rest:
            raise usage("say where: .save FILE")
        try:
            Path(rest).expanduser().write_text("".join(f"{snippet}\n" for snippet in self._repl.snippets), "utf-8")
        except OSError as error:
            raise CommandFailed(f"{rest} cannot be written: {error.strerror}", "FILE_NOT_WRITTEN") from None
        say(f"{len(self._repl.snippets)} snippets are in {rest}")
        return True

    async def _load(self, rest: str) -> bool:
        if not rest:
            raise usage("say which file: .load FILE")
        try:
            text = Path(rest).expanduser().read_text("utf-8")
        except OSError as error:
            raise CommandFailed(f"{rest} cannot be read: {error.strerror}", "FILE_NOT_FOUND") from None
        except ValueError:
            raise usage(f"{rest} is not text in UTF-8") from None
        return await self._repl.run(text)

    async def _exit(self, rest: str) -> bool:
        return False
