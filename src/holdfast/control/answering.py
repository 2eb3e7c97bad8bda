"""Who answers, if it is neither a person nor a host: a function, or a recording of what was said before."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.control._family import Asked
from holdfast.domain import Fault, HoldfastError, InvalidValue, QueryState, replies


class PromptUnknown(HoldfastError):
    """The recording has no answer to this."""

    code = "PROMPT_UNKNOWN"
    fault = Fault.CALLER


@dataclass(frozen=True, slots=True)
class Response:
    """An answer. Without an id it is for the only query that is open. With `error` that is raised where the script asked."""

    response: Any = None
    query_id: str | None = None
    error: str | None = None
    usage: Mapping[str, int] | None = None
    model: str | None = None
    finish_reason: str | None = None


Answerer = Callable[[Asked], Awaitable[Any]]
"""Gives what is answered: a value, or a `Response`. If it raises, the run stays where it is, and whoever drives it hears of that."""


_UNANSWERED: Final = (QueryState.OPEN, QueryState.CANCELLED)


class Recorded:
    """Answers from a recording: entries with `prompt` and `response`, such as those of a transcript. For tests of strategies.

    A prompt that was recorded several times is answered in that order, and then with the last. One that was not raises `PromptUnknown`;
    so does one that nobody had answered when it was recorded.

    >>> recorded = Recorded([{"prompt": "2+2?", "response": "4"}])
    """

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        self._answers: dict[str, list[Response]] = {}
        for entry in entries:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("prompt"), str) or "response" not in entry:
                raise InvalidValue("a recording is a list of objects with a prompt and a response")
            if entry.get("state") in _UNANSWERED and not entry.get("error"):
                continue
            known = {name: entry.get(name) for name in ("error", "usage", "model", "finish_reason")}
            error = known.pop("error")
            message = error.get("message") if isinstance(error, Mapping) else error
            response = Response(entry["response"], error=message, **known)
            self._answers.setdefault(entry["prompt"], []).append(response)

    async def __call__(self, asked: Asked) -> Response:
        """What was said to this."""
        prompt = text_of(asked)
        known = self._answers.get(prompt)
        if known is None:
            raise PromptUnknown(f"the recording has no answer to {prompt[:200]!r}")
        return known.pop(0) if len(known) > 1 else known[0]


def text_of(asked: Asked) -> str:
    """The question as one text."""
    return replies.prompt_of(asked.query)
