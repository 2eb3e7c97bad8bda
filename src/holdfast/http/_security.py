"""The gate: every request passes it before any route sees it, and every answer on its way out.

In this order: the Host header, the Origin header, the token, the token's share, the scope that the route needs, the body. Whatever is
refused is refused before the next thing is looked at, so nothing large is read for somebody who may not ask.
"""

import os
import re
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.daemon import REQUEST_ID
from holdfast.domain import NotFound, Quotas
from holdfast.http import _body
from holdfast.http._answers import Json
from holdfast.http._audit import Auditor
from holdfast.http._call import ANYONE, Call, Caller
from holdfast.http._errors import (
    HostNotAllowed,
    InvalidRequest,
    RequestForbidden,
    Unauthenticated,
)
from holdfast.http._hosts import Hosts
from holdfast.http._inflight import PIECE, Held, Inflight
from holdfast.http._shares import Shares

if TYPE_CHECKING:
    from holdfast.daemon import Config, Tokens

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_BODIES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_READS: Final = frozenset({"GET", "HEAD"})
_HEALTH: Final = "/api/v1/health"
_ALWAYS: Final = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
_OURS: Final = [
    b"authorization",
    b"content-type",
    b"idempotency-key",
    b"last-event-id",
    b"prefer",
    b"x-request-id",
    b"x-holdfast-tenant",
]
_MCP: Final = [b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"mcp-session-id"]
_CORS: Final = [
    (b"access-control-allow-methods", b"GET, HEAD, POST, PATCH, DELETE"),
    (b"access-control-allow-headers", b", ".join(_OURS + _MCP)),
    (b"access-control-max-age", b"600"),
]
_EXPOSED: Final = (
    b"access-control-expose-headers",
    b"link, mcp-session-id, preference-applied, retry-after, x-next-cursor, x-request-id",
)

TENANT_HEADER: Final = b"x-holdfast-tenant"
"""By which an operator names the tenant that a request is about."""

_WAITED_S: Final = 1.0
"""After so long it is checked again whether the token of a call is good, before anything is answered."""

Done = Callable[[Call, float], None]
Admit = Callable[[Scope, Call], None]
"""Raises if the route of a request, where there is one, is not for its caller."""


class Gate:
    """ASGI middleware around everything."""

    def __init__(
        self,
        app: ASGIApp,
        config: "Config",
        tokens: "Tokens | None",
        public: Collection[str],
        done: Done,
        auditor: Auditor | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._auditor, self._admit = auditor, admit
        self._app, self._tokens, self._public, self._done = app, tokens, frozenset(public), done
        self._hosts = Hosts(config.listen, config.allowed_hosts, config.allowed_origins)
        self._shares = Shares(config.rate_per_s, config.concurrency, quotas=Quotas.parse(config.quotas))
        self._inflight = Inflight(config.inflight_mb << 20)
        self._most, self._patience = config.body_limit_kb * 1024, config.body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":  # there are none here; its handshake is refused
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers, repeated = _headers(scope["headers"])
        call = Call(_request_id(headers), scope["method"], headers=headers)
        extra = [(b"x-request-id", call.request_id.encode()), *_ALWAYS]

        is_cut, has_length = False, False

        async def answer(message: Message) -> None:
            nonlocal is_cut, has_length
            if is_cut:
                return
            begins = message["type"] == "http.response.start"
            if not has_length and time.perf_counter() - began > _WAITED_S and not self._stands(call):
                is_cut = True
                if not begins:
                    await send({"type": "http.response.body"})
                    return
                if self._auditor is not None:  # what was done is noted as it is
                    await self._auditor.note(call, scope, message["status"])
                await call.refused(Unauthenticated())(scope, receive, refuse)
                return
            if begins:
                has_length = any(name == b"content-length" for name, _ in message["headers"])
                held.announce(message, must=call.method not in _READS)  # what was done is told, however much it is
                call.status = message["status"]
                if self._auditor is not None:
                    await self._auditor.note(call, scope, call.status)
                message["headers"] = [*message["headers"], *extra]
            elif len(message.get("body", b"")) > PIECE:
                await held.send(send, message)
                return
            await send(message)

        async def refuse(message: Message) -> None:
            if message["type"] == "http.response.start":
                call.status = message["status"]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        scope["holdfast"], held = call, Held(self._inflight)
        REQUEST_ID.set(call.request_id)
        try:
            await self._pass(scope, receive, answer, call, repeated, extra, held)
        except _body.Gone:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client hears of it, and not what it is
            refused = call.refused(error)
            if not call.status:
                await refused(scope, receive, answer)
        finally:
            held.release()
            self._done(call, time.perf_counter() - began)

    def _stands(self, call: Call) -> bool:
        """Whether the token of a call is still good."""
        token = None if call.caller is None else call.caller.token
        return token is None or self._tokens is None or self._tokens.stands(token)

    async def _pass(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        call: Call,
        repeated: bytes,
        extra: list[tuple[bytes, bytes]],
        held: Held,
    ) -> None:
        headers = call.headers
        if repeated == b"host" or not self._hosts.knows(headers.get(b"host", b"")):
            raise HostNotAllowed
        if repeated:
            raise InvalidRequest(f"the header {repeated.decode('latin-1')} is there twice")
        origin = headers.get(b"origin")
        if origin is not None and self._crosses(origin, headers, extra) and _is_preflight(call.method, headers):
            await Json({"status": "ok"}, 200, {name.decode(): value.decode() for name, value in _CORS})(scope, receive, send)
            return
        call.caller = self._caller(headers.get(b"authorization"))
        path = scope["path"]
        if call.caller is None and path not in self._public:
            raise Unauthenticated
        named = headers.get(TENANT_HEADER)
        call.name_tenant(None if named is None else named.decode("latin-1"))
        if "\n" in path:  # which the end of a route's pattern would overlook
            raise NotFound("there is no such path")
        if call.method == "HEAD":
            scope = {**scope, "method": "GET"}
            call.only_head = True
        if call.caller is None:
            who = _address(scope)
            self._shares.enter(who, kind="address")
        else:
            who = call.caller.id
            self._shares.enter(who, call.caller.tenant)
        try:
            if call.caller is not None:
                held.enter(who)
            if call.method in _BODIES and call.caller is not None:  # nothing that is open to everybody takes a body
                if self._admit is not None:
                    self._admit(scope, call)
                call.body = await self._body(headers, receive, held)
            await self._app(scope, receive, send)
        finally:
            self._shares.leave(who)

    def _crosses(self, origin: bytes, headers: dict[bytes, bytes], extra: list[tuple[bytes, bytes]]) -> bool:
        """Whether a page of another site asks, which must be one of those allowed: its browser is told that it is."""
        if self._hosts.is_listed(origin):
            extra += [(b"access-control-allow-origin", origin), (b"vary", b"Origin"), _EXPOSED]
            return True
        if self._hosts.is_same(origin, headers[b"host"]):
            return False
        raise RequestForbidden("pages of other sites may not ask here; allowed_origins names those that may")

    def _caller(self, authorization: bytes | None) -> Caller | None:
        if self._tokens is None:
            return ANYONE
        if authorization is None:
            return None
        kind, _, secret = authorization.partition(b" ")
        if kind.lower() != b"bearer":
            return None
        token = self._tokens.verify(secret.strip().decode("latin-1"))
        return None if token is None else Caller(token.id, token.granted, token, token.tenant, token.is_operator)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive, held: Held) -> bytes:
        given = headers.get(b"content-length")
        if given is None:
            if b"transfer-encoding" not in headers:
                return b""
            length = None
        else:
            if not given.isdigit():
                raise InvalidRequest("Content-Length is no number")
            length = int(given)
            if not length:
                return b""
        _body.check_type(headers)
        return await _body.read(receive, length, self._most, self._patience, held.add)


_ONCE: Final = frozenset(
    {b"host", b"authorization", b"content-type", b"content-length", b"origin", b"idempotency-key", TENANT_HEADER}
)


def _headers(raw: Any) -> tuple[dict[bytes, bytes], bytes]:
    """The headers by name, and the name of one that must not be there twice and is."""
    headers = dict(raw)
    if len(headers) == len(raw):
        return headers, b""
    seen = set()
    for name, _ in raw:
        if name in seen and name in _ONCE:
            return headers, bytes(name)
        seen.add(name)
    return headers, b""


def _address(scope: Scope) -> str:
    """Return whom a request without a token counts for: its address. Probes of health have a share of their own."""
    client, probes = scope.get("client"), scope["path"].startswith(_HEALTH)
    return f"{'health' if probes else ''}@{client[0] if client else ''}"


def _request_id(headers: dict[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return os.urandom(16).hex()


def _is_preflight(method: str, headers: dict[bytes, bytes]) -> bool:
    return method == "OPTIONS" and b"access-control-request-method" in headers
