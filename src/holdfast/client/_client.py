"""The two clients. They have the same groups with the same methods; those of `AsyncClient` are awaited."""

from types import TracebackType
from typing import Final, Generic, Self

from holdfast.client._awaiting import Awaiting
from holdfast.client._blocking import Blocking
from holdfast.client._events import Events
from holdfast.client._executions import Executions
from holdfast.client._find import find_server
from holdfast.client._ops import Ops
from holdfast.client._queries import Queries
from holdfast.client._retry import is_time
from holdfast.client._sessions import Sessions
from holdfast.client._strategies import Strategies
from holdfast.client._templates import Templates
from holdfast.client._transcripts import Transcripts
from holdfast.client._verbs import Way
from holdfast.client._wire import Settings, tls_for
from holdfast.domain import ALL_TENANTS, InvalidValue, check_tenant

_TIMEOUT_S: Final = 30.0
_EXECUTION_TIMEOUT_S: Final = 600.0
_RETRY_FOR_S: Final = 10.0
_CONNECTIONS: Final = 64


class _Groups(Generic[Way]):
    """What both clients have."""

    def __init__(self, settings: Settings, way: Way) -> None:
        self._way: Way = way
        self.server_url = settings.server.url
        self.templates = Templates(way)
        self.sessions = Sessions(way)
        self.executions = Executions(way)
        self.queries = Queries(way)
        self.strategies = Strategies(way)
        self.transcripts = Transcripts(way)
        self.events = Events(way)
        self.ops = Ops(way)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server_url!r})"


class Client(_Groups[Blocking]):
    """A client of a daemon. It may be used by several threads, and keeps connections open until it is closed.

        with holdfast.Client() as client:
            template = client.templates.create("first")
            session = client.sessions.create(template.id)
            client.executions.repl(session.id, "6 * 7").result

    Without `server_url` and `token` they are those of HOLDFAST_SERVER_URL and HOLDFAST_TOKEN, or of the daemon on this machine.
    `timeout` is how many seconds an answer may take, `execution_timeout` how many if a script may have to run for it; None is for
    ever. When the daemon cannot be reached or is too busy, calls are sent again for `retry_for` seconds; nothing is done twice.
    `tenant` is for administrators of the default tenant: whose templates and sessions are meant; `*` is all, for reads.
    """

    def __init__(
        self,
        server_url: str | None = None,
        token: str | None = None,
        timeout: float | None = _TIMEOUT_S,
        *,
        execution_timeout: float | None = _EXECUTION_TIMEOUT_S,
        retry_for: float = _RETRY_FOR_S,
        connections: int = _CONNECTIONS,
        tenant: str | None = None,
    ) -> None:
        settings = _settings(server_url, token, timeout, execution_timeout, retry_for, connections, tenant)
        super().__init__(settings, Blocking(settings))

    def close(self) -> None:
        """Closes all connections."""
        self._way.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


class AsyncClient(_Groups[Awaiting]):
    """A client of a daemon, for one event loop. It is as `Client` is, but every call is awaited.

        async with holdfast.AsyncClient() as client:
            session = await client.sessions.create(template_id)

    Streams and `iterate` are read with `async for`.
    """

    def __init__(
        self,
        server_url: str | None = None,
        token: str | None = None,
        timeout: float | None = _TIMEOUT_S,
        *,
        execution_timeout: float | None = _EXECUTION_TIMEOUT_S,
        retry_for: float = _RETRY_FOR_S,
        connections: int = _CONNECTIONS,
        tenant: str | None = None,
    ) -> None:
        settings = _settings(server_url, token, timeout, execution_timeout, retry_for, connections, tenant)
        super().__init__(settings, Awaiting(settings))

    async def close(self) -> None:
        """Closes all connections."""
        await self._way.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _settings(
    server_url: str | None,
    token: str | None,
    timeout: float | None,
    execution_timeout: float | None,
    retry_for: float,
    connections: int,
    tenant: str | None,
) -> Settings:
    for name, seconds in (("timeout", timeout), ("execution_timeout", execution_timeout)):
        if seconds is not None and (not is_time(seconds) or seconds == 0):
            raise InvalidValue(f"{name} must be a number of seconds above 0, or None")
    if not is_time(retry_for) or type(connections) is not int or not connections > 0:
        raise InvalidValue("retry_for must be a number of seconds, and connections a whole number above 0")
    server = find_server(server_url, token)
    named = tenant if tenant is None or tenant == ALL_TENANTS else check_tenant(tenant)
    return Settings(server, tls_for(server), timeout, execution_timeout, retry_for, connections, named)
