"""Questions in the middle of a call: `input_required`, for clients that can put them to a person or to a model.

A client of protocol 2026-07-28 or later says with each request what it can do. If that is all that a run needs, the call is not
answered with `needs_response`: it is interrupted with what is asked, in the protocol's own words, and the client makes the same call
again with the answers. In between, the client keeps which session and which queries this was about: the SDK seals that, and binds it
to the call and to whoever makes it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.control import Asked, Response
from holdfast.domain import DEFAULT_MAX_TOKENS, QueryKind
from holdfast.mcp._plain import sendable

MOST_ROUNDS: Final = 8
"""Clients give up after ten."""
_LONGEST_CHOICE: Final = 200
_HANDED_ON: Final = frozenset(
    {"prompt", "messages", "system", "max_tokens", "temperature", "model", "stop", "schema", "timeout_ms", "default"}
)
"""What of a question for a model has a place of its own, or is none of the client's business."""


@dataclass(frozen=True, slots=True)
class Round:
    """Which round of a call this is: its session, and what was asked."""

    session_id: str
    queries: tuple[str, ...]
    number: int

    def text(self) -> str:
        return json.dumps([self.session_id, self.queries, self.number])

    @classmethod
    def read(cls, text: str | None) -> "Round | None":
        """From what the client kept, which is ours: the seal was looked at before. None for the first call."""
        if text is None:
            return None
        session_id, queries, number = json.loads(text)
        return cls(session_id, tuple(queries), number)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a client can do in the middle of a call."""

    elicits: bool = False
    samples: bool = False

    @classmethod
    def of(cls, version: str, declared: types.ClientCapabilities | None) -> "Abilities":
        if version not in MODERN_PROTOCOL_VERSIONS or declared is None:
            return cls()
        elicits = declared.elicitation
        return cls(
            elicits is not None
            and (elicits.form is not None or elicits.url is None),  # forms are what is meant if nothing is said
            declared.sampling is not None,
        )

    def __bool__(self) -> bool:
        return self.elicits or self.samples

    def requests(self, asked: Sequence[Asked]) -> types.InputRequests | None:
        """All that a run asks, as requests by the ids of its queries; None unless all of it can be asked."""
        requests: types.InputRequests = {}
        for one in asked:
            request = self._request(one)
            if request is None:
                return None
            requests[one.id] = request
        return requests or None

    def _request(self, asked: Asked) -> types.InputRequest | None:
        kind, payload = asked.query.kind, sendable(asked.query.payload)
        if kind is QueryKind.LLM:
            return _sampling(payload) if self.samples else None
        if kind in (QueryKind.ASK, QueryKind.APPROVE) and self.elicits:
            return _elicitation(kind, payload)
        return None


def answers(asked: Sequence[Asked], given: types.InputResponses) -> list[Response]:
    """What the client has brought back for queries that are still open. What was declined, or makes no sense, is no answer."""
    found = []
    for one in asked:
        response = given.get(one.id)
        if isinstance(response, types.ElicitResult):
            found.append(_elicited(one, response))
        elif isinstance(response, types.CreateMessageResult | types.CreateMessageResultWithTools):
            found.append(_sampled(one, response))
    return [response for response in found if response is not None]


# ---- models ------------------------------------------------------------------------------------------------------------------------


def _sampling(payload: Mapping[str, Any]) -> types.CreateMessageRequest | None:
    system = [payload["system"]] if payload.get("system") else []
    messages: list[types.SamplingMessage] = []
    for message in payload.get("messages") or [{"role": "user", "content": payload.get("prompt")}]:
        text = _text(message.get("content"))
        if text is None:  # an image, or what else only whoever wrote the script knows
            return None
        if message.get("role") == "system":
            system.append(text)
        else:
            role: types.Role = "assistant" if message.get("role") == "assistant" else "user"
            messages.append(types.SamplingMessage(role=role, content=types.TextContent(type="text", text=text)))
    if not messages:
        return None
    if payload.get("schema") is not None:  # which the protocol has no place for
        system.append(f"Answer with JSON that fits this JSON Schema, and with nothing else: {json.dumps(payload['schema'])}")
    stop, model = payload.get("stop"), payload.get("model")
    rest = {name: value for name, value in payload.items() if name not in _HANDED_ON and value is not None}
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=messages,
            system_prompt="\n\n".join(system) or None,
            max_tokens=payload.get("max_tokens") or DEFAULT_MAX_TOKENS,
            temperature=payload.get("temperature"),
            stop_sequences=[stop] if isinstance(stop, str) else stop,
            model_preferences=None if model is None else types.ModelPreferences(hints=[types.ModelHint(name=model)]),
            metadata=rest or None,
        )
    )


def _text(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else None for part in content
        ]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    return None


def _sampled(asked: Asked, result: types.CreateMessageResult | types.CreateMessageResultWithTools) -> Response | None:
    parts = result.content if isinstance(result.content, list) else [result.content]
    texts = [part.text for part in parts if isinstance(part, types.TextContent)]
    if asked.query.kind is not QueryKind.LLM or not texts or len(texts) < len(parts):  # nothing at all, or not only words
        return None
    return Response("".join(texts), asked.id, model=result.model, finish_reason=result.stop_reason)


# ---- people ------------------------------------------------------------------------------------------------------------------------


def _elicitation(kind: QueryKind, payload: Mapping[str, Any]) -> types.ElicitRequest:
    name: str = "approved"
    field: dict[str, Any] = {"type": "boolean"}
    if kind is QueryKind.ASK:
        name, field = "answer", {"type": "string"}
        if choices := _choices(payload):
            field["enum"] = list(choices)
    schema = {"type": "object", "properties": {name: field}, "required": [name]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=payload["question"], requested_schema=schema))


def _choices(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What may be chosen, by the text that is shown for it. Nothing, if a person could not tell one from another."""
    options = payload.get("options") or []
    named = {sendable(option if isinstance(option, str) else json.dumps(option)): option for option in options}
    return named if len(named) == len(options) and all(len(text) <= _LONGEST_CHOICE for text in named) else {}


def _elicited(asked: Asked, result: types.ElicitResult) -> Response | None:
    content = result.content or {}
    if result.action != "accept":
        return None
    if asked.query.kind is QueryKind.APPROVE:
        approved = content.get("approved")
        return Response(approved, asked.id) if isinstance(approved, bool) else None
    answer = content.get("answer")
    if asked.query.kind is not QueryKind.ASK or not isinstance(answer, str):
        return None
    choices = _choices(asked.query.payload)
    if choices and answer not in choices:
        return None
    return Response(choices.get(answer, answer), asked.id)
