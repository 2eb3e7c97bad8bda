"""What all processes have in common that are killed: they run sessions in both languages, answer their queries, and note what they were told.

Notes go to a file with one write each, so a note is whole or not there, and is there even if the process is killed in the next instant.
A note is written only after Holdfast has acknowledged what it says.
"""

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any, Literal

from holdfast import Holdfast, HoldfastError, Turn
from holdfast.domain import ExecutionStatus, Session, SessionState, TemplateNotFound

Language = Literal["javascript", "lua"]
LANGUAGES: tuple[Language, ...] = ("javascript", "lua")

# Two who drive the same session get in each other's way, and are told so.
EXPECTED = ("SESSION_BUSY", "ANSWER_CONFLICT", "ANSWER_AMBIGUOUS", "SESSION_NOT_READY")


class Notes:
    """Lines of JSON in a file, appended whole."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *note: Any) -> None:
        os.write(self._file, (json.dumps(note) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


class Driver:
    """Drives sessions for as long as it lives. What they are, and what they do, is said by those who inherit."""

    at_once = 4
    """How many sessions of each language are driven at the same time."""
    tolerant = False
    """Whether nothing that goes wrong is a surprise."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.notes = Notes(folder / "notes")
        self.random = random.Random(seed)

    def close(self) -> None:
        self.notes.close()

    def open(self, address: str) -> Holdfast:
        raise NotImplementedError

    async def make_template(self, hf: Holdfast, language: Language) -> None:
        """The template of a language, which bears its name."""
        raise NotImplementedError

    async def make_session(self, hf: Holdfast, language: str) -> Session:
        return await hf.sessions.create(language)

    def source(self, session: Session, language: str) -> str:
        raise NotImplementedError

    async def run(self, address: str) -> None:
        self.notes.write("opening")
        async with self.open(address) as hf:
            for language in LANGUAGES:
                try:
                    await hf.templates.get(language)
                except TemplateNotFound:
                    await self.make_template(hf, language)
            self.notes.write("ready")
            await asyncio.gather(*(self._drive(hf, language) for language in LANGUAGES * self.at_once))

    async def _drive(self, hf: Holdfast, language: str) -> None:
        while True:
            try:
                turn = await self._next(hf, language)
                while turn.execution.status is ExecutionStatus.PAUSED:
                    turn = await self._answer(hf, turn)
                self._noted(turn)
            except HoldfastError as error:
                if error.code not in EXPECTED and not self.tolerant:
                    raise
                await asyncio.sleep(0.01)

    async def _next(self, hf: Holdfast, language: str) -> Turn:
        """A session that somebody left behind, or a new one."""
        waiting = (await hf.sessions.list(states=[SessionState.PAUSED], template=language, limit=100)).items
        if waiting and self.random.random() < 0.8:
            session = self.random.choice(waiting)
            if session.execution_id is not None:
                return await hf.executions.turn(session.execution_id)
        ready = (await hf.sessions.list(states=[SessionState.READY], template=language, limit=20)).items
        fresh = [session for session in ready if session.steps == 0]
        session = self.random.choice(fresh) if fresh else await self.make_session(hf, language)
        self.notes.write("session", str(session.id))
        source = self.source(session, language)
        turn = await hf.executions.run(session.id, source, background=self.random.random() < 0.3)
        self._noted(turn)
        return turn

    async def _answer(self, hf: Holdfast, turn: Turn) -> Turn:
        asks = [query for query in turn.queries if query.kind == "ask"]
        if not asks:
            return await hf.executions.wait(turn.execution.id)
        answer = f"{asks[0].id} {self.random.getrandbits(40):x}"
        again = await hf.queries.answer(turn.session.id, answer, query=asks[0].id)
        self.notes.write("answered", str(turn.session.id), asks[0].id, answer)
        self._noted(again)
        return again

    def _noted(self, turn: Turn) -> None:
        session, execution = str(turn.session.id), str(turn.execution.id)
        if turn.execution.status is ExecutionStatus.PAUSED:
            self.notes.write("paused", session, execution, [query.id for query in turn.queries])
        elif turn.execution.status is not ExecutionStatus.RUNNING:
            self.notes.write("ended", session, execution, turn.execution.status.value, turn.execution.result)
