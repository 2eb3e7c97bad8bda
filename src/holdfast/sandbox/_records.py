"""Records as a guest writes them, turned into events and outcomes; see guests/common/abi.h."""

import math
from typing import Any, Final

from holdfast.sandbox._errors import GuestFault, refusal
from holdfast.sandbox.jsontext import Bounds, TooLarge, has, loads
from holdfast.sandbox.steps import Event, Failed, Finished, Outcome, Paused, Query, Result, ScriptError
from holdfast.sandbox.values import Undefined, revive

BOUNDS: Final = Bounds(size=32 << 20, values=1_000_000, containers=240_000)
"""The most that the records of one step may hold, whatever the limit of output says."""
_TAG: Final = b'"$"'
_LARGEST_ID: Final = 0xFFFFFFFF
_LATEST: Final = 8.64e15
_ANY: Final = object
_SHAPES: Final[dict[str, tuple[type, ...]]] = {
    "console": (str, str),
    "query": (int, str, _ANY),
    "log": (_ANY,),
    "progress": (_ANY,),
    "stat": (_ANY,),
    "cancelled": (int,),
    "unhandled": (dict,),
    "error": (dict,),
    "refused": (str, str),
}
"""What follows the kind of a record. Those of `value` and `pending` vary, and are checked where they are read."""
_EVENTS: Final = frozenset(("console", "query", "log", "progress", "stat", "cancelled", "unhandled"))


def outcome(raw: bytes) -> Outcome:
    """The outcome of a step, from the records that it left. Raises what the guest refused.

    A guest whose memory was tampered with may leave anything: what is no outcome is `GuestFault`. `TooLarge`: see `BOUNDS`.
    """
    records = _records(raw)
    if not records:
        raise GuestFault("the guest left no outcome")
    last = _checked(records.pop())
    events = tuple(map(_event, records)) if records else ()
    kind = last[0]
    if kind == "pending":
        queries = tuple([Query(record[1], record[2], record[3]) for record in records if record[0] == "query"])
        return _paused(last, queries, events)
    if kind == "value":
        return Finished(_result(last, tagged=has(raw, _TAG)), events)
    if kind == "error":
        return Failed(_error(last[1]), events)
    if kind == "refused":
        raise refusal(last[1], last[2])
    raise GuestFault("the guest left no outcome")


def _checked(record: Any) -> list[Any]:
    """A record of the right shape."""
    if type(record) is list and record and type(record[0]) is str:
        shape = _SHAPES.get(record[0])
        if shape is None:
            if record[0] in ("value", "pending"):
                return record
        elif len(record) == len(shape) + 1 and all(
            kind is _ANY or type(field) is kind for field, kind in zip(record[1:], shape, strict=True)
        ):
            return record
    raise GuestFault("the guest left a record that makes no sense")


def _is_id(number: Any) -> bool:
    return type(number) is int and 0 <= number <= _LARGEST_ID


def _paused(record: list[Any], queries: tuple[Query, ...], events: tuple[Event, ...]) -> Paused:
    if len(record) != 3 or type(record[2]) is not list or not all(map(_is_id, record[2])):
        raise GuestFault("the guest waits for what makes no sense")
    wake = record[1]
    if wake is not None and not (type(wake) in (int, float) and math.isfinite(wake) and abs(wake) <= _LATEST):
        raise GuestFault("the guest waits for a time that makes no sense")
    return Paused(queries, tuple(record[2]), wake, events)


def events(raw: bytes) -> tuple[Event, ...]:
    """The events of a step that did not come to its end. It may have been stopped after its outcome, which does not count then."""
    return tuple(_event(record) for record in _records(raw) if _checked(record)[0] in _EVENTS)


def _records(raw: bytes) -> list[Any]:
    try:
        records: list[Any] = loads(b"[%b]" % raw, BOUNDS)
        return [revive(record) for record in records] if has(raw, _TAG) else records
    except TooLarge:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise GuestFault("the guest answered with what is no JSON") from None


def _result(record: list[Any], *, tagged: bool) -> Result:
    if not 3 <= len(record) <= 4 or type(record[1]) is not str or type(record[2]) is not str:
        raise GuestFault("the guest left a result that makes no sense")
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
    name, message, stack, code = (fields.get(key) for key in ("name", "message", "stack", "code"))
    if type(name) is not str or type(message) is not str or not isinstance(stack, str | None):
        raise GuestFault("the guest left an error that makes no sense")
    return ScriptError(name, message, stack or "", None if code is None else str(code), fields.get("value"))


def _event(record: Any) -> Event:
    if type(record) is list and len(record) == 3 and record[0] == "console" and type(record[1]) is type(record[2]) is str:
        return Event("console", {"level": record[1], "text": record[2]})  # most are
    kind = _checked(record)[0]
    if kind not in _EVENTS or (kind in ("query", "cancelled") and not _is_id(record[1])):
        raise GuestFault("the guest left an event that makes no sense")
    if kind == "query":
        return Event(kind, {"id": record[1], "kind": record[2], "payload": record[3]})
    if kind == "cancelled":
        return Event(kind, {"id": record[1]})
    return Event(kind, record[1])  # "unhandled": the error
