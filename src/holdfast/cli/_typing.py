"""Where the REPL's snippets and answers come from: a person who types, or a pipe."""

import os
from pathlib import Path
from typing import Any, Protocol

from holdfast.cli._dots import is_dot
from holdfast.cli._snippets import is_whole
from holdfast.cli._terminal import Lines


class Stopped(Exception):
    """Ctrl-C while something was typed."""


class Source(Protocol):
    """Something that gives snippets and answers."""

    async def snippet(self) -> str | None:
        """The next whole snippet, or None at the end. Raises `Stopped`."""
        ...

    async def line(self, prompt: str) -> str | None:
        """An answer, or None at the end. Raises `Stopped`."""
        ...

    def use(self, session_id: str) -> None:
        """The session whose names are completed from now on."""
        ...


class Piped:
    """Lines of a pipe or a file: a snippet ends where it is whole."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._lines = Lines()

    async def snippet(self) -> str | None:
        gathered: list[str] = []
        while True:
            line = await self._lines.next()
            if line is None:
                return "\n".join(gathered) if gathered else None
            gathered.append(line)
            text = "\n".join(gathered)
            if is_dot(text) or is_whole(text, self._language):
                return text

    async def line(self, prompt: str) -> str | None:
        return await self._lines.next()

    def use(self, session_id: str) -> None:
        """Nothing is completed."""


class Typed:
    """prompt_toolkit: history, completion, colours, several lines where one is not enough."""

    def __init__(self, language: str, history: Path | None, completer: Any, **options: Any) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.lexers import PygmentsLexer

        self._language, self._completer = language, completer
        self._session: PromptSession[str] = PromptSession(
            multiline=Condition(self._goes_on),
            prompt_continuation="... ",
            lexer=PygmentsLexer.from_filename("x.lua" if language == "lua" else "x.js"),
            history=InMemoryHistory() if history is None else FileHistory(private(history)),
            completer=completer,
            complete_while_typing=False,
            interrupt_exception=Stopped,
            **options,
        )
        self._answers: PromptSession[str] = PromptSession(interrupt_exception=Stopped, **options)

    def _goes_on(self) -> bool:
        text = self._session.default_buffer.text
        return not is_dot(text) and not is_whole(text, self._language)

    async def snippet(self) -> str | None:
        try:
            return await self._session.prompt_async(f"{'js' if self._language == 'javascript' else self._language}> ")
        except EOFError:
            return None

    async def line(self, prompt: str) -> str | None:
        try:
            return await self._answers.prompt_async(prompt)
        except EOFError:
            return None

    def use(self, session_id: str) -> None:
        self._completer.session_id = session_id


def private(file: Path) -> str:
    """A file that nobody else can read, made if need be: what is typed may hold secrets."""
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    file.chmod(0o600)
    return str(file)
