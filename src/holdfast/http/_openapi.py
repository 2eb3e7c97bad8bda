"""The OpenAPI document: what FastAPI derives from the handlers, and what the routes say besides."""

import http
from collections.abc import Iterable
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from holdfast.http._errors import envelope
from holdfast.http._routes import ApiRoute, Plan
from holdfast.http._statuses import STATUSES
from holdfast.http.models._base import Error

_ALWAYS: Final = (
    "VALIDATION_ERROR",
    "INVALID_REQUEST",
    "HOST_NOT_ALLOWED",
    "FORBIDDEN",
    "RATE_LIMITED",
    "INTERNAL",
    "UNAVAILABLE",
)
_BODY: Final = ("REQUEST_TIMEOUT", "BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_PAGED: Final = {
    "X-Next-Cursor": {"description": "Where the next page begins; not there on the last.", "schema": {"type": "string"}},
    "Link": {"description": "The next page.", "schema": {"type": "string"}},
}
_REQUEST_ID: Final = {
    "X-Request-Id": {"description": "The request's id: the caller's, or a new one.", "schema": {"type": "string"}}
}
_ABOUT: Final = """Script sessions that survive anything.

Every error has one envelope, with a stable `code`. Lists have pages: `limit` and `cursor`, and the next cursor in `X-Next-Cursor`.
What changes something takes an `Idempotency-Key`. Times are RFC 3339 with milliseconds.
"""
_TAGS: Final = {
    "templates": "What sessions start from. Each change is a new version.",
    "catalogue": "What templates may be made of.",
    "sessions": "Long-lived program states, and their history.",
    "executions": "Runs inside a session.",
    "queries": "What paused executions wait for, and the answers.",
    "strategies": "Programs that ask models, and runs of them, told in the shapes that algocline's hosts know.",
    "transcripts": "What runs asked, were told, and came to.",
    "events": "Streams of what happens, as server-sent events.",
    "operations": "Health, figures, versions.",
}


def document(app: FastAPI, version: str) -> dict[str, Any]:
    """The whole document."""
    routes = [route for route in app.routes if isinstance(route, ApiRoute)]
    found = get_openapi(
        title="Holdfast",
        version=version,
        openapi_version="3.1.0",
        summary="REST API",
        description=_ABOUT,
        routes=routes,
        tags=[{"name": name, "description": told} for name, told in _TAGS.items()],
    )
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    error = Error.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= error.pop("$defs", {}) | {"Error": error}
    found["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A token with a scope: admin, run, answer or read."}
    }
    for route in routes:
        operation = found["paths"][route.path_format][route.plan.method.lower()]
        _complete(operation, route.plan)
    return found


def _complete(operation: dict[str, Any], plan: Plan) -> None:
    if plan.scope is None:
        operation["security"] = []
    else:
        operation["security"] = [{"bearer": []}]
        operation["x-scope"] = plan.scope
        operation["description"] = f"{operation.get('description', '')}\n\nNeeds a token with the scope `{plan.scope}`.".strip()
    for parameter in operation.get("parameters", ()):
        _plain_schema(parameter)
    responses = operation["responses"]
    responses.pop("422", None)
    _answers(operation, responses, plan)
    codes = [*_ALWAYS, *plan.errors]
    if plan.scope is not None:
        codes.append("UNAUTHENTICATED")
    if "requestBody" in operation:
        codes += _BODY
        content = operation["requestBody"]["content"]["application/json"]
        if "body" in plan.extra:
            content["example"] = plan.extra["body"]
    for status, these in _by_status(codes):
        responses.setdefault(str(status), _refusals(status, these))
    for answer in responses.values():
        answer["headers"] = {**_REQUEST_ID, **answer.get("headers", {})}
    operation["responses"] = dict(sorted(responses.items()))


def _plain_schema(parameter: dict[str, Any]) -> None:
    """A parameter that is left out is left out: there is no way to send a null."""
    schema = parameter["schema"]
    kinds = schema.pop("anyOf", None)
    if kinds is not None:
        schema.update(next(kind for kind in kinds if kind.get("type") != "null"))
    schema.pop("title", None)


def _answers(operation: dict[str, Any], responses: dict[str, Any], plan: Plan) -> None:
    """The answers that are none of the errors."""
    told = responses[str(plan.status)]
    told["description"] = http.HTTPStatus(plan.status).phrase
    if "stream" in plan.extra:
        told["content"] = {"text/event-stream": {"schema": {"type": "string"}, "example": plan.example}}
    elif "text" in plan.extra:
        told["content"] = {plan.extra["text"]: {"schema": {"type": "string"}, "example": plan.example}}
    elif "texts" in plan.extra:
        told["content"] = {kind: {"schema": {"type": "string"}, "example": text} for kind, text in plan.example.items()}
    else:
        content = told["content"]["application/json"]
        content["example"] = plan.example
        content["schema"].pop("title", None)
        if any(parameter["name"] == "cursor" for parameter in operation.get("parameters", ())):
            told["headers"] = _PAGED
        if plan.extra.get("async"):
            begun = {**plan.example, "status": "running", "ended_at": None, "result": None}
            responses["202"] = {
                "description": "It runs, and that is durable.",
                "content": {"application/json": {"schema": content["schema"], "example": begun}},
                "headers": {
                    "Preference-Applied": {"description": "`respond-async`", "schema": {"type": "string"}},
                },
            }
        if "later" in plan.extra:
            responses["202"] = {
                "description": "It goes on in the background.",
                "content": {"application/json": {"schema": content["schema"], "example": plan.extra["later"]}},
            }
        if "unready" in plan.extra:
            unready = {**plan.example, "status": "unavailable", "store": "unavailable", "reason": "store_unavailable"}
            responses["503"] = {
                "description": "Not ready.",
                "content": {"application/json": {"schema": {"anyOf": [content["schema"], _ERROR]}, "example": unready}},
            }


def _by_status(codes: Iterable[str]) -> list[tuple[int, list[str]]]:
    found: dict[int, list[str]] = {}
    for code in codes:
        found.setdefault(STATUSES[code], []).append(code)
    return sorted(found.items())


def _refusals(status: int, codes: list[str]) -> dict[str, Any]:
    examples = {
        code: {"value": envelope(code, f"What {code.lower().replace('_', ' ')} means here, in words.")} for code in codes
    }
    return {
        "description": f"{http.HTTPStatus(status).phrase}: {', '.join(codes)}",
        "content": {"application/json": {"schema": _ERROR, "examples": examples}},
    }
