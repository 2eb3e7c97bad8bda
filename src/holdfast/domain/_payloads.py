"""What a query of each kind asks. A script's payload is checked when it asks; a wrong one raises in the script, at the call."""

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.domain._errors import InvalidValue
from holdfast.domain._tokens import estimate

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

DEFAULT_MAX_TOKENS: Final = 1024


class QueryKind(StrEnum):
    """Who is asked."""

    LLM = "llm"
    ASK = "ask"
    APPROVE = "approve"
    TIMER = "timer"
    TOOL = "tool"


@cache
def _checks() -> "tuple[dict[str, TypeAdapter[Any]], type[ValidationError]]":
    from pydantic import ValidationError

    from holdfast.domain._payload_models import ADAPTERS

    return ADAPTERS, ValidationError


def check_payload(kind: str, payload: Any) -> QueryKind:
    """The kind of a query whose payload fits it, else `InvalidValue` with the first thing that is wrong."""
    adapters, invalid = _checks()
    adapter = adapters.get(kind)
    if adapter is None:
        raise InvalidValue(f"there is no query kind {kind[:40]!r}; there are {', '.join(adapters)}")
    try:
        adapter.validate_python(payload)
    except invalid as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidValue(f"{kind}: {where + ': ' if where else ''}{first['msg']}") from None
    if kind == "llm" and (payload.get("prompt") is None) == (payload.get("messages") is None):
        raise InvalidValue("llm: give either a prompt or messages")
    return QueryKind(kind)


def prompt_parts(payload: dict[str, Any]) -> tuple[str, str]:
    """All text that a model is given: the prompt, or what the messages say, and the system prompt."""
    prompt = payload.get("prompt")
    if prompt is None:
        prompt = "".join([_text(message.get("content")) for message in payload.get("messages") or ()])
    return prompt, payload.get("system") or ""


def prompt_size(payload: dict[str, Any]) -> tuple[int, int]:
    """How many characters a model is given, and how many tokens that are by estimate."""
    prompt, system = prompt_parts(payload)
    if not system:
        return len(prompt), estimate(prompt)
    return len(prompt) + len(system), estimate(prompt) + estimate(system)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return ""
