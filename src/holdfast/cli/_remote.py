"""The daemon, for commands: where it is, which token it wants, and sessions that live there."""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from holdfast.cli._host import Json, is_fork
from holdfast.domain import InvalidId, SessionNotFound, TemplateNotFound, parse_id

if TYPE_CHECKING:
    from holdfast.client import AsyncClient, Client
    from holdfast.daemon import Loaded

_RETRY_FOR_S: Final = 3.0
"""A daemon that is started again is waited for, one that is not there at all is not waited for long."""


@dataclass(frozen=True, slots=True)
class Globals:
    """What was said before the command."""

    server_url: str | None = None
    token: str | None = None
    tenant: str | None = None

    def loaded(self) -> "Loaded":
        """The configuration of this machine's daemon."""
        from holdfast.daemon import load_config

        return load_config()

    def server(self) -> tuple[str, str | None]:
        """The daemon's address, and the token for it, if there is one.

        What was said wins, then HOLDFAST_SERVER_URL and HOLDFAST_TOKEN, then the config file. The token file is for a daemon on this
        machine: its content is never sent anywhere else.
        """
        from holdfast.client import find_server

        loaded = self.loaded()
        url = self.server_url or os.environ.get("HOLDFAST_SERVER_URL") or _url_of(*loaded.config.address)
        found = find_server(url, self.token)
        if found.token is None and found.local:
            from holdfast.daemon.tokens import read_secret

            return found.url, read_secret(loaded.config.token_file)
        return found.url, found.token

    @property
    def named_tenant(self) -> str | None:
        """The tenant that an operator names; None: that of the token."""
        return self.tenant or os.environ.get("HOLDFAST_TENANT") or None

    @contextlib.contextmanager
    def client(self) -> "Iterator[Client]":
        from holdfast.client import Client

        with Client(*self.server(), retry_for=_RETRY_FOR_S, tenant=self.named_tenant) as client:
            yield client

    @contextlib.asynccontextmanager
    async def host(self) -> "AsyncIterator[Remote]":
        from holdfast.client import AsyncClient

        async with AsyncClient(*self.server(), retry_for=_RETRY_FOR_S, tenant=self.named_tenant) as client:
            yield Remote(client)


def _url_of(host: str, port: int) -> str:
    """Where a daemon that listens like this is reached from this machine.

    >>> _url_of("0.0.0.0", 3210), _url_of("::1", 1)
    ('http://127.0.0.1:3210', 'http://[::1]:1')
    """
    reached = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def plain(value: Any) -> Any:
    """A result of the client as the JSON that the daemon sent.

    >>> plain((datetime(2026, 11, 16, 5, 45, 12, 345000, UTC), None))
    ['2026-11-16T05:45:12.345Z', None]
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    return value


def template_id(client: "Client", which: str) -> str:
    """The id of a template that is given by its id or its name."""
    try:
        return str(parse_id(which, "template"))
    except InvalidId:
        found = list(client.templates.list(name=which, limit=1))
    if not found:
        raise TemplateNotFound(f"there is no template {which[:80]!r}")
    return found[0].id


def session_id(client: "Client", which: str) -> str:
    """The id of a session that is given by its id, or by its name: then it is the newest of that name."""
    try:
        return str(parse_id(which, "session"))
    except InvalidId:
        found = list(client.sessions.list(name=which, limit=1))
    if not found:
        raise SessionNotFound(f"there is no session {which[:80]!r}")
    return found[0].id


class Remote:
    """`Host` at a daemon."""

    def __init__(self, client: "AsyncClient") -> None:
        self.client = self._client = client

    async def session(self, which: str) -> Json:
        try:
            return _json(await self._client.sessions.get(parse_id(which, "session")))
        except InvalidId:
            found = list(await self._client.sessions.list(name=which, limit=1))
        if not found:
            raise SessionNotFound(f"there is no session {which[:80]!r}")
        return _json(found[0])

    async def create(self, template: str, name: str | None = None) -> Json:
        try:
            found_id = str(parse_id(template, "template"))
        except InvalidId:
            found = list(await self._client.templates.list(name=template, limit=1))
            if not found:
                raise TemplateNotFound(f"there is no template {template[:80]!r}") from None
            found_id = found[0].id
        return _json(await self._client.sessions.create(found_id, name=name))

    async def delete(self, session_id: str) -> None:
        await self._client.sessions.delete(session_id)

    async def language(self, session: Json) -> str:
        return (await self._client.templates.get(session["template_id"])).template.engine

    async def start(self, session_id: str, source: str) -> Json:
        return _json(await self._client.executions.repl(session_id, source, background=True))

    async def look(self, execution_id: str, seconds: float) -> Json:
        return _json(await self._client.executions.wait(execution_id, seconds))

    async def events(self, execution_id: str, after_seq: int) -> Sequence[Json]:
        return [_json(event) for event in await self._client.events.list(execution_id, after_seq=after_seq, limit=1000)]

    async def cancel(self, execution_id: str) -> Json:
        return _json(await self._client.executions.cancel(execution_id))

    async def queries(self, session_id: str) -> Sequence[Json]:
        found = [_json(query) for query in await self._client.queries.list(session_id, state="open", limit=1000)]
        return await self.asked(session_id) if any(map(is_fork, found)) else found

    async def asked(self, session_id: str) -> list[Json]:
        """What a run asks, with what its branches do."""
        return [_json(query) for query in await self._client.strategies.asked(session_id, limit=1000)]

    async def all_queries(self, session_id: str | None) -> Sequence[Json]:
        """What is open, in a session or in all."""
        return [_json(query) async for query in self._client.queries.iterate(session_id, state="open")]

    async def follow(self, session_id: str | None) -> AsyncIterator[Json]:
        """Events as they happen."""
        async for event in self._client.events.follow(session=session_id):
            yield _json(event)

    async def answer(self, session_id: str, query_id: str, value: Any) -> Json:
        if query_id.startswith("f"):
            return _json(
                await self._client.strategies.resume(session_id, [{"response": value, "query_id": query_id}], wait_s=0)
            )
        return _json(await self._client.queries.answer(session_id, value, query=query_id))

    async def fork(self, session_id: str, checkpoint: int | None = None, name: str | None = None) -> Json:
        return _json((await self._client.sessions.fork(session_id, checkpoint, name=name))[0])

    async def rewind(self, session_id: str, checkpoint: int) -> Json:
        return _json(await self._client.sessions.rewind(session_id, checkpoint))

    async def checkpoints(self, session_id: str) -> Sequence[Json]:
        return [_json(one) async for one in self._client.sessions.iterate_checkpoints(session_id)]

    async def tree(self, session_id: str) -> Json:
        return _json(await self._client.sessions.tree(session_id))

    async def diff(self, session_id: str, before: int) -> Json:
        return _json(await self._client.sessions.diff(session_id, before))


def _json(model: Any) -> Json:
    plain_model: Json = plain(model)
    return plain_model
