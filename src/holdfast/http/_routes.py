"""Routes: FastAPI's, with what each needs said where it is declared: who may call it, what may go wrong, an example.

The handlers give answers that are ready to be sent, and their return types are for the document only. A hot route goes past
FastAPI's body handling and dependencies: its handler is called with the model of the body, by a bare ASGI function. Both kinds read
bodies with the same strict reader.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_params_to_args
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.control import Holdfast, Scoped
from holdfast.http import _body
from holdfast.http._call import Call, call_of
from holdfast.http._errors import InvalidRequest, method_not_allowed, refusal_of_parameters
from holdfast.http._metrics import Metrics

PREFIX: Final = "/api/v1"

Handler = Callable[..., Awaitable[Any]]

# What handlers depend on is asynchronous although it never waits: FastAPI would call it on a thread otherwise.


async def _holdfast(request: Request) -> Scoped:
    hf: Holdfast = request.app.state.hf
    return call_of(request.scope).view(hf)


async def _process(request: Request) -> Holdfast:
    hf: Holdfast = request.app.state.hf
    return hf


async def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


async def _call(request: Request) -> Call:
    return call_of(request.scope)


Hf = Annotated[Scoped, Depends(_holdfast)]
"""Holdfast as the caller sees it: confined to the tenant that the request is about."""
Process = Annotated[Holdfast, Depends(_process)]
"""All of Holdfast, for what is said of the process and of no tenant."""
Asked = Annotated[Call, Depends(_call)]
Counted = Annotated[Metrics, Depends(_metrics)]


@dataclass(frozen=True, slots=True)
class Plan:
    """A route as it is declared."""

    method: str
    path: str
    handler: Handler
    scope: str | None
    status: int
    errors: tuple[str, ...]
    answer: Any
    example: Any
    hot: type[BaseModel] | None
    tag: str
    extra: dict[str, Any]


@dataclass
class Routes:
    """The routes of one resource."""

    tag: str
    plans: list[Plan] = field(default_factory=list)

    def add(
        self,
        method: str,
        path: str,
        scope: str | None,
        answer: Any,
        *,
        example: Any,
        status: int = 200,
        errors: Sequence[str] = (),
        hot: type[BaseModel] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> Callable[[Handler], Handler]:
        """Declares a route: `answer` is the model of what it answers, `hot` that of the body of a route that is called all the time.

        `extra` is for the document: an example of the `body`, and what else an answer may be.
        """

        def declared(handler: Handler) -> Handler:
            self.plans.append(
                Plan(method, path, handler, scope, status, tuple(errors), answer, example, hot, self.tag, extra or {})
            )
            return handler

        return declared


class ApiRoute(APIRoute):
    """A route that asks for the scope of the token, reads strictly, and refuses what it does not know."""

    def __init__(self, *args: Any, plan: Plan, **options: Any) -> None:
        self.plan = plan
        super().__init__(*args, **options)
        self._queries = frozenset(_query_names(self.dependant))

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        model: Any = None if self.body_field is None else self.body_field.field_info.annotation

        async def strict(request: Request) -> Response:
            call = call_of(request.scope)
            try:
                self.admit(call)
                self._check_queries(request)
                request._body = call.body
                if model is not None:
                    value = request._json = await _body.plain_of(call.body)
                    _body.parsed(model, value)  # as FastAPI will, which would list everything that is wrong, however much
                response = await handle(request)
                call.subject = getattr(response, "subject", None)
                return response
            except RequestValidationError as error:
                return call.refused(refusal_of_parameters(error.errors()))
            except Exception as error:  # noqa: BLE001 - whatever it is, the client hears of it, and not what it is
                return call.refused(error)

        return strict

    def admit(self, call: Call) -> None:
        """Raises unless the caller may make the call."""
        call.route, call.tag = self.path, self.plan.tag
        call.require(self.plan.scope)

    def _check_queries(self, request: Request) -> None:
        seen = set()
        for name, _ in request.query_params.multi_items():
            if name not in self._queries:
                raise InvalidRequest(f"there is no query parameter {name[:60]!r} here")
            if name in seen:
                raise InvalidRequest(f"the query parameter {name[:60]!r} is there twice")
            seen.add(name)


def _query_names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        yield parameter.alias
    for part in dependant.dependencies:
        yield from _query_names(part)


class HotRoute(ApiRoute):
    """A route whose handler is called with as little in between as there can be."""

    hf: Holdfast

    def __init__(self, *args: Any, plan: Plan, **options: Any) -> None:
        super().__init__(*args, plan=plan, **options)
        self.app = self.run

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        call, plan = call_of(scope), self.plan
        call.hot, call.receive = True, receive
        try:
            self.admit(call)
            given = scope["path_params"]
            if scope["query_string"]:
                given = given | self._parsed_queries(Request(scope))
            if plan.hot is not None and plan.hot is not NoBody:
                body = _body.parsed(plan.hot, await _body.plain_of(call.body))
                answer = await plan.handler(call.view(self.hf), call, body, **given)
            else:
                answer = await plan.handler(call.view(self.hf), call, **given)
            call.subject = getattr(answer, "subject", None)
        except Exception as error:  # noqa: BLE001 - as the handlers of FastAPI's routes do
            answer = call.refused(error)
        await send({"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _parsed_queries(self, request: Request) -> dict[str, Any]:
        self._check_queries(request)
        found, errors = request_params_to_args(self.dependant.query_params, request.query_params)
        if errors:
            raise refusal_of_parameters(errors)
        return found


class NoBody(BaseModel):
    """Stands for the body of a hot route that takes none."""


class Lanes:
    """ASGI: the hot routes first, by their paths alone; then everything else, by FastAPI's router."""

    def __init__(self, app: ASGIApp, hot: Sequence[HotRoute], routes: Sequence[ApiRoute] = ()) -> None:
        self._app = app
        self._exact = {route.path: route for route in hot if not route.param_convertors}
        self._shaped = [route for route in hot if route.param_convertors]
        self._routes = routes

    def admit(self, scope: Scope, call: Call) -> None:
        """Raise if the route that a request goes to, where there is one, is not for its caller. Its body is not needed for that."""
        method, path = scope["method"], scope["path"]
        exact = self._exact.get(path)
        if exact is not None:
            if exact.plan.method == method:
                exact.admit(call)
            return
        for route in (*self._shaped, *self._routes):
            if route.plan.method == method and (match := route.path_regex.match(path)):
                scope["path_params"] = match.groupdict()
                route.admit(call)
                return

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            method, path = scope["method"], scope["path"]
            route = self._exact.get(path)
            if route is not None:
                if route.plan.method != method:  # the router might take the path for one with an id in it
                    await method_not_allowed([route.plan.method])(scope, receive, send)
                    return
                scope["path_params"] = {}
                await route.run(scope, receive, send)
                return
            for shaped in self._shaped:
                if shaped.plan.method == method and (match := shaped.path_regex.match(path)):
                    scope["path_params"] = match.groupdict()
                    await shaped.run(scope, receive, send)
                    return
        await self._app(scope, receive, send)
