"""For schemathesis: what a schema cannot say, taken out of requests that shall be good ones."""

from typing import Any

import schemathesis
from schemathesis import Case, GenerationMode, HookContext


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    case.query.pop("cursor", None)  # only the server can make one up
    if isinstance(case.body, dict):
        case.body = _within_64_bits(case.body)  # JSON Schema does not tell 1e30 from an integer of as many digits


def _within_64_bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _within_64_bits(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(part) for part in value]
    return value % (1 << 62) if type(value) is int and abs(value) >> 62 else value
