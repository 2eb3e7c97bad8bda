"""Records as a guest writes them, turned into events and outcomes; see guests/common/abi.h."""

import json
from typing import Any, Final

from holdfast.sandbox._errors import GuestFault, refusal
from holdfast.sandbox.steps import Event, Failed, Finished, Outcome, Paused, Query, Result, ScriptError
from holdfast.sandbox.values import Undefined, revive

_decode: Final = json.JSONDecoder().raw_decode  # what json.loads comes down to, at half its cost for short texts


def outcome(raw: bytes) -> Outcome:
    """The outcome of a step, from the records that it left. Raises what the guest refused."""
    records = _records(raw)
    last = records.pop()
    events = tuple(map(_event, records)) if records else ()
    kind = last[0]
    if kind == "pending":
        queries = tuple([Query(record[1], record[2], record[3]) for record in records if record[0] == "query"])
        return Paused(queries, tuple(last[2]), last[1], events)
    if kind == "value":
        return Finished(_result(last, tagged=b'"$"' in raw), events)
    if kind == "error":
        return Failed(_error(last[1]), events)
    if kind == "refused":
        raise refusal(last[1], last[2])
    raise GuestFault(f"the guest answered with {kind!r}")


def events(raw: bytes) -> tuple[Event, ...]:
    """The events of a step that did not come to its end."""
    return tuple(map(_event, _records(raw)))


def _records(raw: bytes) -> list[Any]:
    text = "[" + raw.decode("utf-8", "surrogatepass") + "]"
    try:
        records: list[Any] = _decode(text)[0]
    except (ValueError, RecursionError):
        raise GuestFault("the guest answered with what is no JSON") from None
    return [revive(record) for record in records] if b'"$"' in raw else records


def _result(record: list[Any], *, tagged: bool) -> Result:
    _, kind, preview, *rest = record
    if not rest:
        return Result(kind, preview)
    value = rest[0]
    return Result(kind, preview, value, value is Undefined or not tagged or _is_plain(value))


def _is_plain(value: Any) -> bool:
    """Whether a revived value is JSON and nothing more."""
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, value.values()))
    if type(value) is float:
        return value - value == 0
    return value is None or type(value) in (bool, int, str)


def _error(fields: dict[str, Any]) -> ScriptError:
    code = fields.get("code")
    return ScriptError(
        fields["name"], fields["message"], fields.get("stack", ""), None if code is None else str(code), fields.get("value")
    )


def _event(record: list[Any]) -> Event:
    kind = record[0]
    if kind == "query":
        return Event(kind, {"id": record[1], "kind": record[2], "payload": record[3]})
    if kind == "console":
        return Event(kind, {"level": record[1], "text": record[2]})
    if kind == "cancelled":
        return Event(kind, {"id": record[1]})
    return Event(kind, record[1])  # "unhandled": the error
