"""Rows that cannot be read: confined to what they belong to.

A row may have been changed by something else than Holdfast: a failing disk, a restore that was cut short, somebody with SQL. Whoever asks
for such an object by its id is told `StoreDamaged` with its kind and id. A list goes on: it has a placeholder for a session, execution or
query, which says that it is damaged, and leaves out what is of no use without its content. Each is logged as `store.damaged`.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final, ParamSpec, TypeVar
from uuid import UUID

from holdfast.domain import (
    DEFAULT_TENANT,
    Event,
    EventType,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionState,
)
from holdfast.store._errors import StoreDamaged, StoreError

_log: Final = logging.getLogger("holdfast.store")
_QUIET_S: Final = 600
Given = ParamSpec("Given")
Record = TypeVar("Record")
Row = tuple[Any, ...]

DAMAGED_ERROR: Final = '{"code":"STORE_DAMAGED","message":"the session was closed because it is damaged in the store"}'
"""The error, as JSON, of an execution that ends with a damaged session."""


def damaged(kind: str, name: object) -> StoreDamaged:
    """Return the error for an object that cannot be read."""
    shown = f"{kind} {name}" if name else kind
    message = f"The store's record of {shown} is damaged. Run `holdfast store check --repair`, or restore a backup."
    return StoreDamaged(message).with_details(kind=kind, id=str(name))


def names(kind: str, name: Callable[..., object]) -> Callable[[Callable[Given, Record]], Callable[Given, Record]]:
    """Make a function that reads a row raise `StoreDamaged` for one that it cannot read, named by its arguments."""

    def decorate(read: Callable[Given, Record]) -> Callable[Given, Record]:
        @functools.wraps(read)
        def reading(*given: Given.args, **options: Given.kwargs) -> Record:
            try:
                return read(*given, **options)
            except StoreError as error:
                if error.details:
                    raise
            except Exception:  # noqa: BLE001, S110 - a damaged row may make a parser raise anything
                pass
            raise damaged(kind, _text(name, given))

        return reading

    return decorate


def _text(name: Callable[..., object], given: Row) -> object:
    try:
        found = name(*given)
        return UUID(bytes=found) if isinstance(found, bytes) else found
    except Exception:  # noqa: BLE001 - the id may be what is damaged
        return "?"


def confined(
    rows: Iterable[Row], read: Callable[[Row], Record], instead: Callable[[Row], Record] | None = None
) -> list[Record]:
    """Read rows of a list. One that cannot be read is logged, and is what `instead` makes of it, or is left out."""
    found = []
    for row in rows:
        try:
            found.append(read(row))
            continue
        except Exception as error:  # noqa: BLE001 - as above
            log_damage(error)
        if instead is not None:
            try:
                found.append(instead(row))
            except Exception:  # noqa: BLE001, S112 - not even its id can be read
                continue
    return found


def log_damage(error: Exception) -> None:
    """Log what is damaged. Lists are read again and again, so the same is logged once in ten minutes."""
    details = getattr(error, "details", {})
    _log_once(str(details.get("kind", "?")), str(details.get("id", "?")), int(time.monotonic() // _QUIET_S))


@functools.lru_cache(4096)
def _log_once(kind: str, name: str, period: int) -> None:
    _log.error("store.damaged kind=%s id=%s", kind, name)


# ---- what a whole record has ---------------------------------------------------------------------------------------------------------


def _fields(*fields: str) -> Callable[[Any], Row]:
    return attrgetter(*fields)


_SESSION_NUMBERS: Final = _fields(
    "template_version", "created_at", "updated_at", "version", "fence", "head", "steps", "queries", "llm_calls", "tokens"
)
_EXECUTION_NUMBERS: Final = _fields("started_at", "first_step", "last_step", "seq")
_QUERY_NUMBERS: Final = _fields("number", "asked_at")
_NODE_NUMBERS: Final = _fields("number", "parent", "created_at", "depth", "size")
_TEMPLATE_NUMBERS: Final = _fields("latest", "created_at", "updated_at")


_BOUND: Final = 1 << 62
"""Greater than any number that is stored. With it the next of a counter can always be written."""
_MOST_QUERIES: Final = (1 << 28) - 1
_LONGEST_SECRET: Final = 1024


def _numbers(values: Row) -> None:
    for value in values:
        if type(value) is not int or not -_BOUND < value < _BOUND:
            raise TypeError


def _maybe(kind: type, *values: object) -> None:
    for value in values:
        if value is not None and not isinstance(value, kind):
            raise TypeError
        if isinstance(value, int) and not -_BOUND < value < _BOUND:
            raise TypeError


def whole_session(found: Session) -> Session:
    """Return a session, or raise if it has what no session has."""
    _numbers(_SESSION_NUMBERS(found))
    _maybe(int, found.closed_at, found.wake_at)
    if not isinstance(found.meta, dict) or not 0 <= found.head <= found.steps or found.queries >= _MOST_QUERIES:
        raise TypeError
    usage = found.usage
    for value in (*usage.hourly, *usage.execution, *usage.total, usage.hour, usage.stored_events, usage.stored_bytes):
        if type(value) not in (int, float):
            raise TypeError
    if found.worktree is not None:
        _maybe(str, *found.worktree)
    if found.family is not None:
        _numbers((found.family.query, found.family.index, found.family.depth))
    return found


def whole_execution(found: Execution) -> Execution:
    """Return an execution, or raise if it has what none has."""
    _numbers(_EXECUTION_NUMBERS(found))
    _maybe(int, found.ended_at)
    _maybe(dict, found.result, found.error)
    _maybe(str, found.input, found.path)
    metrics = found.metrics
    if not isinstance(found.custom, dict):
        raise TypeError
    for value in (*metrics.as_row()[:-4], metrics.prompt_tokens.tokens, metrics.answer_tokens.tokens):
        if type(value) not in (int, float):
            raise TypeError
    return found


def whole_query(found: Query) -> Query:
    """Return a query, or raise if it has what none has."""
    _numbers(_QUERY_NUMBERS(found))
    _maybe(int, found.guest_id, found.deadline, found.started_at, found.closed_at)
    if not isinstance(found.payload, dict):
        raise TypeError
    if found.kind is QueryKind.TOOL and not isinstance(found.payload.get("name"), str):
        raise TypeError
    if found.answer is not None:
        _maybe(dict, found.answer.error, found.answer.usage)
    return found


def whole_numbers(kind: str, found: Record) -> Record:
    """Return a node or a template, or raise if one of its numbers is none."""
    _numbers((_NODE_NUMBERS if kind == "node" else _TEMPLATE_NUMBERS)(found))
    return found


def whole_event(seq: int, ts: Any, kind: Any, payload: Any) -> Event:
    """Return an event, or raise if it has what none has."""
    if type(ts) is not int or type(kind) is not str or type(payload) is not dict:
        raise TypeError
    return Event(seq, ts, kind, payload)


def secret_of(name: str, value: Any) -> bytes:
    """Return the value of a secret, or raise `StoreDamaged` if it is none."""
    if not is_secret(value):
        raise damaged("secret", name)
    return bytes(value)


def is_secret(value: Any) -> bool:
    """Whether a value can be one that was kept as a secret: all are a few bytes."""
    return isinstance(value, (bytes, memoryview)) and len(value) <= _LONGEST_SECRET


# ---- placeholders --------------------------------------------------------------------------------------------------------------------

_SESSION: Final = "this session is damaged in the store"


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _id(value: object) -> UUID:
    return UUID(bytes=value) if isinstance(value, bytes) and len(value) == 16 else UUID(int=0)


def session_placeholder(row: Row) -> Session:
    """Return what can be told of a session whose row is damaged. Raises if its id is."""
    tenant, created_by = row[9:11]
    return Session(
        UUID(bytes=row[0]),
        _id(row[1]),
        _number(row[11]),
        SessionState.CLOSED if row[12] == SessionState.CLOSED.value else SessionState.CRASHED,
        _number(row[2]),
        _number(row[13]),
        tenant=tenant if isinstance(tenant, str) else DEFAULT_TENANT,
        token=created_by if isinstance(created_by, str) else "",
        last_error=f"STORE_DAMAGED: {_SESSION}",
        damaged=True,
    )


def execution_placeholder(session_id: UUID, row: Row) -> Execution:
    """Return what can be told of an execution whose row is damaged. Raises if its id is."""
    return Execution(
        UUID(bytes=row[0]),
        session_id,
        ExecutionKind.REPL,
        ExecutionStatus.ERROR,
        _number(row[2]),
        _number(row[3]),
        _number(row[3]),
        ended_at=_number(row[2]),
        error={"code": StoreDamaged.code, "message": "this execution is damaged in the store"},
        damaged=True,
    )


def query_placeholder(session_id: UUID, row: Row) -> Query:
    """Return what can be told of a query whose row is damaged: nobody can answer it."""
    payload = {"code": StoreDamaged.code, "message": "this query is damaged in the store", "damaged": True}
    state = QueryState.OPEN if row[7] == QueryState.OPEN.value else QueryState.CANCELLED
    return Query(session_id, row[0], _id(row[1]), QueryKind.ASK, payload, _number(row[4]), state=state, damaged=True)


def lost_events(first_seq: object, session: object) -> list[Event]:
    """Return the event that stands for those of a step which cannot be read."""
    _log_once("events", str(session), int(time.monotonic() // _QUIET_S))
    message = "the events of this step are damaged in the store"
    payload = {"level": "error", "code": StoreDamaged.code, "message": message}
    return [Event(max(_number(first_seq), 1), 0, EventType.SYSTEM.value, payload)]
