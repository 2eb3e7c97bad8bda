"""The application: the routes, and the gate around them."""

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from holdfast._version import VERSION
from holdfast.control import Holdfast
from holdfast.http import (
    _audit_routes,
    _errors,
    _executions,
    _ops,
    _queries,
    _sessions,
    _strategies,
    _streams,
    _templates,
    _transcripts,
)
from holdfast.http._access import AccessLog
from holdfast.http._answers import encoded
from holdfast.http._audit import Auditor
from holdfast.http._call import Call, call_of
from holdfast.http._docs import PAGE, POLICY
from holdfast.http._metrics import Metrics
from holdfast.http._mounts import Mounted, Mounts, closing
from holdfast.http._openapi import document
from holdfast.http._routes import PREFIX, ApiRoute, HotRoute, Lanes, Plan
from holdfast.http._security import Gate
from holdfast.http._streams import Streams

if TYPE_CHECKING:
    from holdfast.daemon import Config, Tokens

DOCUMENT: Final = f"{PREFIX}/openapi.json"
DOCS: Final = f"{PREFIX}/docs"

_ALL: Final = (
    _templates.routes,
    _templates.catalogue,
    _sessions.routes,
    _executions.routes,
    _queries.routes,
    _strategies.routes,
    _transcripts.routes,
    _streams.routes,
    _ops.routes,
    _audit_routes.routes,
)


class App:
    """The ASGI application. `state.stopping` is to be set when the daemon stops: streams end then."""

    def __init__(self, api: FastAPI, gate: Gate) -> None:
        self.api, self._gate = api, gate
        self.state = api.state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gate(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The document that describes it."""
        return self.api.openapi()


def create_app(hf: Holdfast, config: "Config", tokens: "Tokens | None", mounted: Mapping[str, Mounted] | None = None) -> App:
    """The REST API of an opened Holdfast. Without tokens everybody may do everything: only for tests, and for what is closed otherwise.

    `mounted` are other applications by the paths that they are found at. They are behind the same gate.
    """
    mounts = mounted or {}
    api = FastAPI(
        title="Holdfast", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=closing(mounts)
    )
    metrics = Metrics()
    hf.observe(metrics.observe)
    api.state.hf, api.state.config, api.state.metrics, api.state.tokens = hf, config, metrics, tokens
    api.state.stopping = asyncio.Event()
    api.state.streams = Streams(config.streams)
    for group in _ALL:
        for plan in group.plans:
            _add(api, plan)
    hot = [route for route in api.routes if isinstance(route, HotRoute)]
    for route in hot:
        route.hf = hf
    api.add_exception_handler(HTTPException, _errors.on_http_error)
    _describe(api)
    public = {PREFIX + plan.path for group in _ALL for plan in group.plans if plan.scope is None} | {DOCUMENT, DOCS}
    lanes = Lanes(api, hot, [route for route in api.routes if isinstance(route, ApiRoute)])
    routed, done = Mounts(lanes, mounts, api.state), _Done(metrics, AccessLog(config.access_log))
    return App(api, Gate(routed, config, tokens, public, done, Auditor(hf.auditor), lanes.admit))


def _add(api: FastAPI, plan: Plan) -> None:
    kind = ApiRoute if plan.hot is None else HotRoute
    options: dict[str, Any] = {
        "methods": [plan.method],
        "status_code": plan.status,
        "response_model": plan.answer,
        "tags": [plan.tag],
        "operation_id": plan.handler.__name__,
        "summary": plan.handler.__name__.replace("_", " ").capitalize(),
    }
    api.router.routes.append(kind(PREFIX + plan.path, plan.handler, plan=plan, **options))


def _describe(api: FastAPI) -> None:
    """The document and the page that shows it."""

    @cache
    def described() -> dict[str, Any]:
        return document(api, VERSION)

    @cache
    def text() -> bytes:
        return encoded(described())

    async def openapi_json(request: Request) -> Response:
        call_of(request.scope).route = DOCUMENT
        return Response(text(), media_type="application/json")

    async def docs(request: Request) -> Response:
        call_of(request.scope).route = DOCS
        return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})

    api.openapi = described  # type: ignore[method-assign]
    api.add_route(DOCUMENT, openapi_json, include_in_schema=False)
    api.add_route(DOCS, docs, include_in_schema=False)


class _Done:
    """What is noted when a request is done."""

    def __init__(self, metrics: Metrics, access: AccessLog) -> None:
        self._metrics, self._access = metrics, access

    def __call__(self, call: Call, seconds: float) -> None:
        if not call.streams:
            self._metrics.request_ms.add(seconds * 1000, call.route)
        self._metrics.requests.add(call.route, str(call.status))
        self._access(call, seconds)
