"""The shapes of what queries ask, for pydantic. Imported when a script first asks something: pydantic takes longer to import than
most of what does not ask takes to run.
"""

from typing import Annotated, Any, Final, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from holdfast.domain._payloads import QueryKind

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
    role: NotRequired[str | None]
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


ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {
    QueryKind.LLM: TypeAdapter(LlmPayload),
    QueryKind.ASK: TypeAdapter(AskPayload),
    QueryKind.APPROVE: TypeAdapter(ApprovePayload),
    QueryKind.TOOL: TypeAdapter(ToolPayload),
}
