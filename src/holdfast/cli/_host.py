"""Where a session lives: in this process (`_local`) or with a daemon (`_remote`). `run`, `resume` and `repl` do not care which.

Everything is asked and told in the JSON of the REST API.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

Json = dict[str, Any]

FINAL: Final = frozenset({"ok", "error", "timeout", "cancelled"})
ASKED: Final = frozenset({"ask", "approve", "llm", "tool"})
"""Queries that a person can answer; timers are the clock's."""


class Answering(Protocol):
    """What whoever answers queries needs."""

    async def queries(self, session_id: str) -> Sequence[Json]:
        """What is open in a session. In the place of a fork stands what its branches ask, under the ids that answers name."""
        ...

    async def answer(self, session_id: str, query_id: str, value: Any) -> Json: ...


class Host(Answering, Protocol):
    """What can be asked of whoever keeps a session."""

    async def session(self, which: str) -> Json:
        """By id, or by name: then the newest of that name."""
        ...

    async def create(self, template: str, name: str | None = None) -> Json: ...

    async def delete(self, session_id: str) -> None: ...

    async def language(self, session: Json) -> str: ...

    async def start(self, session_id: str, source: str) -> Json:
        """Begins to run a snippet; returns when it is sure to run."""
        ...

    async def look(self, execution_id: str, seconds: float) -> Json:
        """An execution, as soon as it has ended or waits for somebody, or after this time as it is then."""
        ...

    async def events(self, execution_id: str, after_seq: int) -> Sequence[Json]: ...

    async def cancel(self, execution_id: str) -> Json: ...

    async def fork(self, session_id: str, checkpoint: int | None = None, name: str | None = None) -> Json: ...

    async def rewind(self, session_id: str, checkpoint: int) -> Json: ...

    async def checkpoints(self, session_id: str) -> Sequence[Json]: ...

    async def tree(self, session_id: str) -> Json: ...

    async def diff(self, session_id: str, before: int) -> Json: ...


def is_fork(query: Mapping[str, Any]) -> bool:
    """Whether a query waits for branches of its script, and for nobody else."""
    return bool(query["kind"] == "tool" and query["payload"].get("name") == "holdfast.fork")


async def questions(host: Answering, execution: Mapping[str, Any]) -> list[Json]:
    """What a person can answer now, also of what branches ask."""
    if execution["status"] != "paused":
        return []
    forked = any(map(is_fork, execution["queries"]))
    found = await host.queries(execution["session_id"]) if forked else execution["queries"]
    return [query for query in found if query["kind"] in ASKED]


async def rests(host: Answering, execution: Mapping[str, Any]) -> bool:
    """Whether an execution has ended, or waits for a person."""
    return execution["status"] in FINAL or bool(await questions(host, execution))
