"""Sessions in this process, in a store of the person at the terminal: no daemon needed."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from holdfast._version import VERSION
from holdfast.cli._exits import usage
from holdfast.cli._host import Json, is_fork
from holdfast.cli._places import data_dir, package_path
from holdfast.control import Holdfast, Response, plain
from holdfast.domain import InvalidId, NameTaken, SessionNotFound, SessionState, TemplateNotFound, parse_id
from holdfast.runtime import Settings

_GRACE_MS: Final = 300
"""How long a script may go on after Ctrl-C, before it is stopped where it is to go on from there another time."""

OPEN_STATES: Final = (SessionState.PAUSED, SessionState.RUNNING, SessionState.STARTING)


class Local:
    """`Host` on a Holdfast of our own."""

    def __init__(self, hf: Holdfast) -> None:
        self.hf = hf

    async def begin(self, language: str, limits: Mapping[str, int], name: str | None, meta: Json) -> Json:
        """A new session of a language. Its template is made when it is first needed, and by version: a newer Holdfast has newer guests."""
        template = await self._template_name(language, limits)
        try:
            return plain.session(await self.hf.sessions.create(template, name=name, meta=meta))
        except TemplateNotFound:
            from holdfast.domain import Limits

            with contextlib.suppress(NameTaken):  # another process was faster
                await self.hf.templates.create(template, language=_language(language), limits=Limits(**limits))
            return plain.session(await self.hf.sessions.create(template, name=name, meta=meta))

    async def _template_name(self, language: str, limits: Mapping[str, int]) -> str:
        changed = "".join(f" {name}={limits[name]}" for name in sorted(limits))
        return f"run {language} {VERSION}{changed}"

    async def create(self, template: str, name: str | None = None) -> Json:
        return plain.session(await self.hf.sessions.create(template, name=name))

    async def session(self, which: str) -> Json:
        try:
            return plain.session(await self.hf.sessions.get(parse_id(which)))
        except InvalidId:
            named = (await self.hf.sessions.list(name=which, limit=1)).items
        if not named:
            raise SessionNotFound(f"there is no session {which[:80]!r}")
        return plain.session(named[0])

    async def latest(self) -> Json:
        """The session that began last, of those that wait or were interrupted."""
        found = await self.open_sessions()
        if not found:
            raise SessionNotFound("nothing waits to be resumed")
        return found[0]

    async def open_sessions(self) -> list[Json]:
        """Those that wait or were interrupted. Branches of a script belong to the session that forked them."""
        found = (await self.hf.sessions.list(states=OPEN_STATES, limit=1000)).items
        return [plain.session(session) for session in found if session.family is None]

    async def language(self, session: Json) -> str:
        version = await self.hf.templates.version(session["template_id"], session["template_version"])
        return version.spec.language

    async def is_done(self, session_id: str) -> bool:
        """Whether a session was for one script, of which nothing is to come. What was made of it at the REPL is not ours to throw away."""
        session = await self.hf.sessions.get(session_id)
        if session.state in OPEN_STATES or session.meta.get("script") is None:
            return False
        return len((await self.hf.executions.list(session_id, limit=2)).items) <= 1

    async def delete(self, session_id: str) -> None:
        await self.hf.sessions.delete(session_id)

    async def run(self, session_id: str, source: str) -> Json:
        """Runs a snippet up to its end or first pause, with one commit less than `start` and `look`."""
        return plain.turn(await self.hf.executions.run(session_id, source))

    async def run_file(self, session_id: str, source: str, path: str, args: Any) -> Json:
        return plain.turn(await self.hf.executions.run_file(session_id, source, path, args))

    async def start(self, session_id: str, source: str) -> Json:
        return plain.turn(await self.hf.executions.run(session_id, source, background=True))

    async def look(self, execution_id: str, seconds: float) -> Json:
        try:
            return plain.turn(await self.hf.executions.wait(execution_id, seconds))
        except TimeoutError:
            return plain.turn(await self.hf.executions.turn(execution_id))

    async def events(self, execution_id: str, after_seq: int) -> Sequence[Json]:
        execution = await self.hf.executions.get(execution_id)
        return [
            plain.event(execution.id, execution.session_id, event)
            for event in await self.hf.executions.events(execution_id, after_seq=after_seq)
        ]

    async def cancel(self, execution_id: str) -> Json:
        await self.hf.executions.cancel(execution_id)
        return plain.turn(await self.hf.executions.turn(execution_id))

    async def queries(self, session_id: str) -> Sequence[Json]:
        found = [plain.query(query) for query in (await self.hf.queries.list(session_id, limit=1000)).items]
        return await self.asked(session_id) if any(map(is_fork, found)) else found

    async def asked(self, session_id: str) -> list[Json]:
        """What a run asks, with what its branches do."""
        asked = await self.hf.strategies.asked(session_id)
        return [plain.query(one.query) | {"id": one.id, "session_id": session_id} for one in asked]

    async def answer(self, session_id: str, query_id: str, value: Any) -> Json:
        if query_id.startswith("f"):
            return await self.hf.strategies.resume(session_id, [Response(value, query_id)], wait_s=0)
        return plain.turn(await self.hf.queries.answer(session_id, value, query=query_id))

    async def fork(self, session_id: str, checkpoint: int | None = None, name: str | None = None) -> Json:
        return plain.session(await self.hf.sessions.fork(session_id, checkpoint, name=name))

    async def rewind(self, session_id: str, checkpoint: int) -> Json:
        return plain.session(await self.hf.sessions.rewind(session_id, checkpoint))

    async def checkpoints(self, session_id: str) -> Sequence[Json]:
        return [plain.checkpoint(node) for node in await self.hf.sessions.checkpoints(session_id)]

    async def tree(self, session_id: str) -> Json:
        return plain.tree(await self.hf.sessions.tree(session_id))

    async def diff(self, session_id: str, before: int) -> Json:
        return await self.hf.sessions.diff(session_id, before)


def _language(name: str) -> Any:
    if name not in ("javascript", "lua"):
        raise usage(f"there is no language {name[:40]!r}; there are javascript and lua")
    return name


@contextlib.asynccontextmanager
async def opened(address: str) -> AsyncIterator[Local]:
    """A store, opened."""
    settings = Settings(grace_ms=_GRACE_MS)
    async with Holdfast.open(address, settings=settings, packages=package_path(), data_dir=data_dir()) as hf:
        yield Local(hf)
