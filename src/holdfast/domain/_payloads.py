"""What a query of each kind asks. A script's payload is checked when it asks; a wrong one raises in the script, at the call."""

from enum import StrEnum
from typing import Annotated, Any, Final, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from holdfast.domain._errors import InvalidValue
from holdfast.domain._tokens import estimate

DEFAULT_MAX_TOKENS: Final = 1024


class QueryKind(StrEnum):
    """Who is asked."""

    LLM = "llm"
    ASK = "ask"
    APPROVE = "approve"
    TIMER = "timer"
    TOOL = "tool"


_Positive = Annotated[int, Field(gt=0, strict=True)]
_OPEN: Final = ConfigDict(extra="allow", strict=True)


@with_config(_OPEN)
class _Common(TypedDict):
    timeout_ms: NotRequired[Annotated[float, Field(gt=0, le=1e13)] | None]
    default: NotRequired[Any]


@with_config(_OPEN)
class LlmPayload(_Common):
    """For a model. Either `prompt` or `messages`. What is not listed is passed on to whoever answers."""

    prompt: NotRequired[str | None]
    messages: NotRequired[list[dict[str, Any]] | None]
    system: NotRequired[str | None]
    max_tokens: NotRequired[_Positive | None]
    temperature: NotRequired[Annotated[float, Field(ge=0, le=10)] | None]
    model: NotRequired[str | None]
    stop: NotRequired[str | list[str] | None]
    schema: NotRequired[dict[str, Any] | None]
    grounded: NotRequired[bool | None]
    underspecified: NotRequired[bool | None]


@with_config(_OPEN)
class AskPayload(_Common):
    """For a person: a question, and perhaps what to choose from."""

    question: str
    options: NotRequired[list[Any] | None]


@with_config(_OPEN)
class ApprovePayload(_Common):
    """For a person who says yes or no."""

    question: str


@with_config(_OPEN)
class ToolPayload(_Common):
    """For a tool, which the runtime runs if it knows one of that name."""

    name: str
    args: NotRequired[Any]


class TimerPayload(TypedDict):
    """For the clock."""

    wake_at: int


_ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {
    QueryKind.LLM: TypeAdapter(LlmPayload),
    QueryKind.ASK: TypeAdapter(AskPayload),
    QueryKind.APPROVE: TypeAdapter(ApprovePayload),
    QueryKind.TOOL: TypeAdapter(ToolPayload),
}


def check_payload(kind: str, payload: Any) -> QueryKind:
    """The kind of a query whose payload fits it, else `InvalidValue` with the first thing that is wrong."""
    adapter = _ADAPTERS.get(kind)
    if adapter is None:
        raise InvalidValue(f"there is no query kind {kind[:40]!r}; there are {', '.join(_ADAPTERS)}")
    try:
        adapter.validate_python(payload)
    except ValidationError as error:
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
