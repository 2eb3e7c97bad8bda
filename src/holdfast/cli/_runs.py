"""Where runs of strategies live: in this process or with a daemon. Commands do not care which.

The library and the client have the same verbs, so most is said once here; what they tell is JSON as the REST API has it.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.cli._host import Json
from holdfast.cli._local import Local, opened
from holdfast.cli._places import local_store
from holdfast.cli._remote import Globals, Remote
from holdfast.cli._remote import plain as _plain
from holdfast.control import Response, plain
from holdfast.domain import Budget, ExecutionKind, ExecutionNotFound, SessionNotFound

_MOST: Final = 1_000


def told(model: Any) -> Json:
    """What the library or the client tells, as JSON."""
    found: Json = _plain(model)
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run: a package by name, or the text of a file; and with what."""

    strategy: str | None = None
    code: str | None = None
    language: str | None = None
    template: str | None = None
    task: str | None = None
    ctx: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget | None = None
    name: str | None = None


class Runs:
    """Runs, and their transcripts, of a Holdfast of our own or of a daemon."""

    def __init__(self, host: Local | Remote) -> None:
        self._host = host
        self._strategies: Any = host.hf.strategies if isinstance(host, Local) else host.client.strategies
        self._transcripts: Any = host.hf.transcripts if isinstance(host, Local) else host.client.transcripts

    async def start(self, wanted: Wanted, wait_s: float) -> Json:
        """Begins a run. Tells where it stands when it needs somebody, has ended, or has waited for so long."""
        how = {"template": wanted.template, "budget": wanted.budget, "wait_s": wait_s}
        if wanted.strategy is not None:
            return told(
                await self._strategies.advise(
                    wanted.strategy, wanted.task, opts=dict(wanted.ctx), language=wanted.language, **how
                )
            )
        ctx = dict(wanted.ctx) if wanted.task is None else {**wanted.ctx, "task": wanted.task}
        language = wanted.language or "lua"
        return told(await self._strategies.run(wanted.code, language=language, ctx=ctx, name=wanted.name, **how))

    async def resume(self, session_id: str, responses: Sequence[Response], wait_s: float) -> Json:
        return told(await self._strategies.resume(session_id, responses, wait_s=wait_s))

    async def outcome(self, session_id: str, wait_s: float) -> Json:
        return told(await self._strategies.outcome(session_id, wait_s=wait_s))

    async def cancel(self, session_id: str) -> Json:
        return told(await self._strategies.cancel(session_id))

    async def status(self, session_id: str | None, **shown: Any) -> Json:
        return told(await self._strategies.status(session_id, **shown))

    async def find(self, which: str | None) -> str:
        """The id of a run's session, given by its id or name; by default the last one that is active."""
        if which is not None:
            return str((await self._host.session(which))["id"])
        active = (await self.status(None, limit=1))["sessions"]
        if not active:
            raise SessionNotFound("no run waits to be resumed")
        return str(active[0]["session_id"])

    async def execution(self, session_id: str) -> Json:
        """The run's own execution, whatever else was run in its session."""
        host = self._host
        if isinstance(host, Local):
            found = [plain.execution(one) for one in (await host.hf.executions.list(session_id, limit=_MOST)).items]
        else:
            found = [told(one) for one in await host.client.executions.list(session_id, limit=_MOST)]
        for execution in found:
            if execution["kind"] == ExecutionKind.STRATEGY:
                return execution
        raise ExecutionNotFound("no strategy ran in this session")

    async def events(self, execution_id: str, after_seq: int) -> Sequence[Json]:
        return await self._host.events(execution_id, after_seq)

    async def queries(self, session_id: str) -> Sequence[Json]:
        """What the run asks, and its branches."""
        return await self._host.asked(session_id)

    async def answer(self, session_id: str, query_id: str, value: Any) -> Json:
        return await self.resume(session_id, [Response(value, query_id)], 0)

    # ---- transcripts ---------------------------------------------------------------------------------------------------------------

    async def transcripts(self, strategy: str | None, limit: int) -> list[Json]:
        found = await self._transcripts.list(strategy=strategy, limit=limit)
        return [told(one) for one in (found["transcripts"] if isinstance(self._host, Local) else found)]

    async def transcript(self, session_id: str, max_chars: int) -> Json:
        return told(await self._transcripts.get(session_id, max_chars=max_chars))

    async def export(self, session_id: str, form: str) -> str:
        text: str = await self._transcripts.export(session_id, form)
        return text

    async def note(self, session_id: str, content: str, title: str | None) -> Json:
        return told(await self._transcripts.note(session_id, content, title=title))

    async def stats(self, strategy: str | None, days: float | None) -> Json:
        return told(await self._transcripts.stats(strategy=strategy, days=days))


def is_remote(globals_: Globals, store: str | None) -> bool:
    """Whether a daemon is meant: one was named, and no store."""
    return store is None and bool(globals_.server_url or os.environ.get("HOLDFAST_SERVER_URL"))


@contextlib.asynccontextmanager
async def runs_at(globals_: Globals, store: str | None) -> AsyncIterator[Runs]:
    """The runs of the daemon that was named, or of the store of the person at the terminal."""
    if is_remote(globals_, store):
        async with globals_.host() as remote:
            yield Runs(remote)
    else:
        async with opened(local_store(store)) as local:
            yield Runs(local)
