"""Records as flat rows, and back: what the SQL stores share.

A row is a tuple of what every database knows: integers, text, bytes and NULL. Ids are their 16 bytes. Whatever nobody filters or sorts by
is packed as JSON text. `..._row` gives a tuple, `..._of` takes one in the order that is written beside it; a store adds what only it
knows, such as the integer by which it calls a session. The fields of a session or an execution that never change after it is new are
apart from those that do, since an update writes only the latter.
"""

import binascii
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json, to_json

from holdfast.domain import (
    Answer,
    AuditEntry,
    Budget,
    ErrorEntry,
    Event,
    EventType,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    Family,
    InvalidValue,
    Metrics,
    Node,
    Origin,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionState,
    Step,
    Template,
    TemplateSpec,
    TemplateVersion,
    Usage,
    Worktree,
)
from holdfast.sandbox import jsontext
from holdfast.store._damage import (
    confined,
    execution_placeholder,
    lost_events,
    names,
    query_placeholder,
    session_placeholder,
    whole_event,
    whole_execution,
    whole_numbers,
    whole_query,
    whole_session,
)
from holdfast.store._errors import StoreDamaged
from holdfast.store._event_pages import Room, Skipped, fitted, skipped
from holdfast.store.protocol import (
    Begun,
    Commit,
    Effect,
    Link,
    Page,
    Reply,
    StateRow,
    StateWrite,
    StrategyFigures,
    ToldStep,
)

Row = tuple[Any, ...]

_CHUNK: Final = 200
_SMALL: Final = 100
_LONG_TEXT: Final = 256 << 10
_CONSOLE: Final = EventType.CONSOLE.value
_SESSION_STATES: Final = {state.value: state for state in SessionState}
_EXECUTION_KINDS: Final = {kind.value: kind for kind in ExecutionKind}
_EXECUTION_STATUSES: Final = {status.value: status for status in ExecutionStatus}
_QUERY_KINDS: Final = {kind.value: kind for kind in QueryKind}
_QUERY_STATES: Final = {state.value: state for state in QueryState}


# ---- text, numbers, cursors --------------------------------------------------------------------------------------------------------

_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode


def _packed(value: Any) -> str:
    return to_json(value).decode()


def pack(value: Any) -> str:
    """A value as JSON. Halves of surrogate pairs, which scripts may produce and no database takes, are escaped."""
    try:
        return jsontext.dumps(value, _packed)
    except ValueError:  # half a surrogate pair, or nested deeply: the standard library knows how, and takes three times as long
        pass
    try:
        return jsontext.dumps(value, _dumps)
    except (TypeError, ValueError, RecursionError):
        raise InvalidValue("this cannot be kept as JSON") from None


def unpack(text: str) -> Any:
    """What `pack` gave. `StoreDamaged` if something else has changed it."""
    try:
        if len(text) > jsontext.SHORT:  # without holding the interpreter lock
            return jsontext.loads(text.encode(), jsontext.ANY)
        return from_json(text)
    except ValueError:
        pass
    try:
        text.encode()  # half a surrogate pair stands for a byte that is no text
        return json.loads(text)
    except (ValueError, RecursionError):
        raise StoreDamaged from None


def pack_some(value: Any) -> str | None:
    """As `pack`; what is None or empty takes no room."""
    return pack(value) if value else None


_UNSAFE: Final = re.compile("[\0\x1a\ud800-\udfff]")
_ESCAPED: Final = re.compile("\x1a([0-9a-f]{4})")


def plain_some(text: str | None) -> str | None:
    """Text for a column, or None for NULL."""
    return None if text is None else plain(text)


def plain(text: str) -> str:
    """Text for a column. NUL and halves of surrogate pairs are written as U+001A and four digits. Equal text stays equal.

    >>> plain("a\\0b")
    'a\\x1a0000b'
    """
    return _UNSAFE.sub(lambda found: f"\x1a{ord(found[0]):04x}", text)


def read_plain(text: str) -> str:
    """The text that `plain` has written. `StoreDamaged` for bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StoreDamaged from None
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def signed(number: int) -> int:
    """64 bits as databases have them."""
    return ((number + (1 << 63)) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)


def cursor(kind: str, *position: int) -> str:
    """Where a page ends, as a text that means nothing to whoever gets it."""
    return urlsafe_b64encode(f"{kind}{','.join(map(str, position))}".encode()).decode().rstrip("=")


def read_cursor(kind: str, text: str, count: int | None = 1) -> list[int]:
    """The position in a cursor of a list of this kind: so many numbers, or any number of them."""
    try:
        plain_text = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        position = [int(part) for part in plain_text.removeprefix(kind).split(",")]
    except (ValueError, binascii.Error):  # int() and UnicodeError are ValueErrors
        position = []
    is_whole = position and count in (None, len(position)) and cursor(kind, *position) == text
    if not is_whole or any(abs(number) >> 63 for number in position):
        raise InvalidValue("this is not the cursor of such a list")
    return position


def check_place(after: int, last: int) -> None:
    """A feed never gets shorter: nobody can have heard of what is beyond its end, unless in another store, or before it was restored."""
    if after > last:
        raise InvalidValue("this cursor is beyond the end of the feed: it is of another store")


def read_number(text: str) -> int:
    """The cursor of a session's own feed: the number of a step."""
    if not re.fullmatch("0|[1-9][0-9]{0,17}", text, re.ASCII):
        raise InvalidValue("this is not the cursor of such a feed")
    return int(text)


# ---- templates ---------------------------------------------------------------------------------------------------------------------


def template_row(template: Template) -> Row:
    """id, name, latest, created_at, updated_at, tenant"""
    return (
        template.id.bytes,
        plain(template.name),
        template.latest,
        template.created_at,
        template.updated_at,
        plain(template.tenant),
    )


@names("template", lambda row: row[0])
def template_of(row: Row) -> Template:
    """The order of `template_row`."""
    template_id, name, latest, created_at, updated_at, tenant = row
    found = Template(UUID(bytes=template_id), read_plain(name), latest, created_at, updated_at, read_plain(tenant))
    return whole_numbers("template", found)


def version_row(version: TemplateVersion) -> Row:
    """number, spec, guest, baked, created_at"""
    return version.number, pack(version.spec.as_dict()), version.guest, version.baked, version.created_at


@names("template version", lambda template_id, row: f"{template_id}/{row[0]}")
def version_of(template_id: UUID, row: Row) -> TemplateVersion:
    """The order of `version_row`."""
    number, spec, guest, baked, created_at = row
    return TemplateVersion(template_id, number, TemplateSpec.from_dict(unpack(spec)), guest, baked, created_at)


# ---- sessions ----------------------------------------------------------------------------------------------------------------------


def session_fixed_row(session: Session) -> Row:
    """id, template_id, created_at, origin_session, origin_number, worktree, branch_of, branch_query, branch, tenant, created_by"""
    origin, family = session.origin, session.family
    return (
        session.id.bytes,
        session.template_id.bytes,
        session.created_at,
        *((None, None) if origin is None else (origin.session_id.bytes, origin.number)),
        pack_some(session.worktree),
        *(
            (None, None, None)
            if family is None
            else (family.parent.bytes, family.query, pack([family.root.hex, family.index, family.depth]))
        ),
        plain(session.tenant),
        plain(session.token),
    )


def session_row(session: Session) -> Row:
    """What may change: template_version, state, updated_at, name, meta, closed_at, version, fence, owner, head, steps, queries,
    execution_id, wake_at, seed, budget, llm_calls, tokens, last_error, usage
    """
    name, owner, execution_id, seed, budget = session.name, session.owner, session.execution_id, session.seed, session.budget
    return (
        session.template_version,
        session.state._value_,  # an enum of texts is slow to bind
        session.updated_at,
        None if name is None else plain(name),
        pack(session.meta) if session.meta else None,
        session.closed_at,
        session.version,
        session.fence,
        None if owner is None else owner.bytes,
        session.head,
        session.steps,
        session.queries,
        None if execution_id is None else execution_id.bytes,
        session.wake_at,
        None if seed is None else signed(seed),
        None if budget is None else pack(budget.as_dict()),
        session.llm_calls,
        session.tokens,
        None if session.last_error is None else plain(session.last_error),
        pack_some(session.usage.as_row()),
    )


@names("session", lambda row: row[0])
def session_of(row: Row) -> Session:
    """The order of `session_fixed_row` and then `session_row`."""
    session_id, template_id, created_at, origin_session, origin_number, worktree, *family = row[:9]
    tenant, created_by = row[9:11]
    template_version, state, updated_at, name, meta, closed_at, version, fence, owner, head, steps, queries = row[11:23]
    execution_id, wake_at, seed, budget, llm_calls, tokens, last_error, usage = row[23:]
    found = Session(
        UUID(bytes=session_id),
        UUID(bytes=template_id),
        template_version,
        _SESSION_STATES[state],
        created_at,
        updated_at,
        None if name is None else read_plain(name),
        {} if meta is None else unpack(meta),
        closed_at,
        version,
        fence,
        None if owner is None else UUID(bytes=owner),
        head,
        steps,
        queries,
        None if execution_id is None else UUID(bytes=execution_id),
        wake_at,
        None if seed is None else seed & 0xFFFFFFFFFFFFFFFF,
        origin_of(origin_session, origin_number),
        None if budget is None else Budget(**unpack(budget)),
        llm_calls,
        tokens,
        None if last_error is None else read_plain(last_error),
        None if worktree is None else Worktree(*unpack(worktree)),
        None if family[0] is None else _family_of(*family),
        read_plain(tenant),
        read_plain(created_by),
        Usage.from_row(None if usage is None else unpack(usage)),
    )
    return whole_session(found)


def _family_of(parent: bytes, query: int, rest: str) -> Family:
    root, index, depth = unpack(rest)
    return Family(UUID(hex=root), UUID(bytes=parent), query, index, depth)


def origin_of(session_id: bytes | None, number: int | None) -> Origin | None:
    return None if session_id is None or number is None else Origin(UUID(bytes=session_id), number)


# ---- executions --------------------------------------------------------------------------------------------------------------------


def execution_fixed_row(execution: Execution) -> Row:
    """id, kind, started_at, first_step, strategy: by that figures are kept, so it is NULL for all other kinds."""
    kind = execution.kind
    strategy = plain(execution.path or "") if kind is ExecutionKind.STRATEGY else None
    return execution.id.bytes, kind._value_, execution.started_at, execution.first_step, strategy


def execution_given(execution: Execution) -> str:
    """What it was asked to do. It may be large, so it lies apart from what each step changes."""
    parent = execution.parent_id
    return pack([execution.input, execution.path, execution.args, None if parent is None else parent.hex, execution.env])


def execution_row(execution: Execution) -> Row:
    """What may change: status, last_step, seq, ended_at, result, error, metrics, budget, custom"""
    result, error, budget = execution.result, execution.error, execution.budget
    return (
        execution.status._value_,
        execution.last_step,
        execution.seq,
        execution.ended_at,
        None if result is None else pack(result),
        None if error is None else pack(error),
        pack(execution.metrics.as_row()),
        None if budget is None else pack(budget.as_dict()),
        pack(execution.custom) if execution.custom else None,
    )


@names("execution", lambda session_id, row: row[0])
def execution_of(session_id: UUID, row: Row) -> Execution:
    """The order of `execution_fixed_row`, then `execution_given`, then `execution_row`."""
    execution_id, kind, started_at, first_step, _, given = row[:6]
    status, last_step, seq, ended_at, result, error, metrics, budget, custom = row[6:]
    code, path, args, parent, env = unpack(given)
    found = Execution(
        UUID(bytes=execution_id),
        session_id,
        _EXECUTION_KINDS[kind],
        _EXECUTION_STATUSES[status],
        started_at,
        first_step,
        last_step,
        seq,
        code,
        path,
        args,
        ended_at,
        None if result is None else unpack(result),
        None if error is None else unpack(error),
        Metrics.from_row(unpack(metrics)),
        None if budget is None else Budget(**unpack(budget)),
        None if parent is None else UUID(hex=parent),
        env,
        {} if custom is None else unpack(custom),
    )
    return whole_execution(found)


def figures_row(metrics: Metrics) -> list[int]:
    """What one run adds to the figures of its strategy, in the order of `StrategyFigures` after the name."""
    return [
        1,
        metrics.elapsed_ms,
        metrics.llm_calls,
        metrics.rounds,
        metrics.prompt_chars,
        metrics.answer_chars,
        metrics.prompt_tokens.tokens,
        metrics.answer_tokens.tokens,
    ]


def figures_of(row: Row) -> StrategyFigures:
    """strategy, and then as in `StrategyFigures`."""
    return StrategyFigures(read_plain(row[0]), *map(int, row[1:]))


# ---- steps -------------------------------------------------------------------------------------------------------------------------


def prepare(commit: Commit) -> int:
    """Does what takes long of writing a commit before the store is locked for it. Gives about how many bytes will be written."""
    size = 0
    for step in commit.steps:
        if step.text is None and len(step.events) > _CHUNK:
            step.text = pack_events(step.events)
        size += len(step.text) if step.text is not None else _SMALL * len(step.events)
        if step.checkpoint is not None:
            size += len(step.checkpoint.sealed)
    if commit.begun is not None:
        size += sum([len(effect.reply or "") for effect in commit.begun.effects])
    return size + sum([len(write.value or "") for write in commit.state])


def step_row(step: Step) -> Row:
    """number, parent, execution_id, created_at, first_seq, last_seq, events, depth, wake_at, open, sealed

    Its base is not among them: stores name sessions in ways of their own. `depth` is NULL where there is no checkpoint.
    """
    checkpoint, events = step.checkpoint, step.events
    return (
        step.number,
        step.parent,
        step.execution_id.bytes,
        step.created_at,
        step.first_seq,
        step.first_seq + len(events) - 1,
        step.text or pack_events(events),
        *(
            (None, None, None, None)
            if checkpoint is None
            else (checkpoint.depth, checkpoint.wake_at, pack_some(checkpoint.open), checkpoint.sealed)
        ),
    )


def pack_events(events: Sequence[Event]) -> str | None:
    """Events as a store keeps them. Their numbers go up by one from the first, so they are left out."""
    if len(events) <= _CHUNK:
        return pack([event[1:] for event in events]) if events else None
    # A few at a time: one long call would keep all other threads waiting.
    chunks = [_pack_chunk(events[at : at + _CHUNK]) for at in range(0, len(events), _CHUNK)]
    return f"[{','.join(chunks)}]"


def _pack_chunk(events: Sequence[Event]) -> str:
    """A few events, without the brackets. What scripts say on the console is known to be flat, so nobody has to look whether it is long."""
    rows = [event[1:] for event in events]
    try:
        if sum([len(payload["text"]) if kind == _CONSOLE else _LONG_TEXT for _, kind, payload in rows]) < _LONG_TEXT:
            return _packed(rows)[1:-1]
    except ValueError:
        pass
    return pack(rows)[1:-1]


@names("events of a step", lambda *_: "")
def events_of(first_seq: int, events: str | None) -> list[Event]:
    """The events of one step."""
    return [] if events is None else [whole_event(seq, *event) for seq, event in enumerate(unpack(events), first_seq)]


def listed_events(rows: Iterable[Row], after_seq: int, limit: int, max_bytes: int | None) -> list[Event]:
    """Events after a seq, from rows of first_seq and events."""
    room, events = Room(max_bytes), list[Event]()
    for first_seq, text in rows:
        events += room.take([event for event in events_of(first_seq, text) if event.seq > after_seq], len(text or ""))
        if len(events) >= limit or room.is_full:
            break
    return events[:limit]


_SCANNED: Final = 10
"""How many steps of all tenants are looked at for each that a tenant's feed may tell."""


def scanned(limit: int, tenant: str | None) -> int:
    """Return how many steps a page of the feed looks at: those of other tenants are passed over without reading their events."""
    return limit if tenant is None else limit * _SCANNED


def told_steps(rows: Iterable[Row], limit: int, max_bytes: int | None = None, after: Skipped = None) -> list[ToldStep]:
    """Steps of the feed, from rows of cursor, whether it is the tenant's own, session id, execution id, number, first_seq, events.

    Where steps of other tenants come last, a step with number 0 tells only where to go on after them.
    """
    told: list[ToldStep] = []
    passed: str | None = None
    room = Room(max_bytes)
    for at, own, session, execution, number, first_seq, events in rows:
        if not own:
            passed = at
        elif len(told) == limit or room.is_full:
            return told
        else:
            steps = told_step(at, session, execution, number, first_seq, events)
            told += [fitted(step._replace(events=skipped(at, step.events, after)), room, len(events or "")) for step in steps]
            passed = None if steps else at
    return told if passed is None else [*told, passed_steps(passed)]


def told_step(at: str, session: bytes, execution: bytes, number: int, first_seq: int, events: str | None) -> list[ToldStep]:
    """One step of a feed; none if it cannot be said whose it is."""
    row = at, session, execution, number, first_seq, events
    return confined([row], _told_step)


@names("step", lambda row: row[1])
def _told_step(row: Row) -> ToldStep:
    at, session, execution, number, first_seq, events = row
    session_id = UUID(bytes=session)
    if type(number) is not int or type(first_seq) is not int:
        raise StoreDamaged
    try:
        found = events_of(first_seq, events)
    except StoreDamaged:
        found = lost_events(first_seq, session_id)
    return ToldStep(at, session_id, UUID(bytes=execution), number, first_seq, found)


def passed_steps(at: str) -> ToldStep:
    """The place in the feed after steps of other tenants, of which nothing is told."""
    return ToldStep(at, _NOBODY, _NOBODY, 0, 1, [])


_NOBODY: Final = UUID(int=0)


@names("checkpoint", lambda row: row[0])
def node_of(row: Row) -> Node:
    """number, parent, execution_id, created_at, depth, base's session id, base's number, size, open, wake_at"""
    number, parent, execution_id, created_at, depth, base_session, base_number, size, waiting, wake_at = row
    base, numbers = origin_of(base_session, base_number), tuple(unpack(waiting)) if waiting else ()
    if not all(type(number) is int for number in (*numbers, 0 if wake_at is None else wake_at)):
        raise StoreDamaged
    return whole_numbers(
        "node", Node(number, parent, UUID(bytes=execution_id), created_at, depth, base, size, numbers, wake_at)
    )


def nodes_of(rows: Iterable[Row]) -> list[Node]:
    """The checkpoints among all steps of a session. The parent of one is the nearest that is still there."""
    kept: list[Row] = []
    gone: dict[int, int] = {}
    for row in rows:
        if row[4] is None:
            gone[row[0]] = row[1]
        else:
            kept.append(row)
    return confined(kept, lambda row: node_of((row[0], nearest(row[1], gone), *row[2:])))


def nearest(parent: int, gone: dict[int, int]) -> int:
    """The nearest ancestor that is not gone."""
    for _ in range(len(gone) + 1):  # a damaged row may name itself
        if parent not in gone:
            return parent
        parent = gone[parent]
    return 0


@names("checkpoint", lambda row: f"{UUID(bytes=row[0])}/{row[1]}")
def link_of(row: Row) -> Link:
    """session id, number, depth, base's session id, base's number, sealed"""
    session_id, number, depth, base_session, base_number, sealed = row
    if type(depth) is not int or not isinstance(sealed, bytes):
        raise StoreDamaged
    return Link(Origin(UUID(bytes=session_id), number), depth, origin_of(base_session, base_number), sealed)


# ---- queries -----------------------------------------------------------------------------------------------------------------------


def query_fixed_row(query: Query) -> Row:
    """number, execution_id, kind, payload, asked_at, guest_id, deadline"""
    return (
        query.number,
        query.execution_id.bytes,
        query.kind._value_,
        pack(query.payload),
        query.asked_at,
        query.guest_id,
        query.deadline,
    )


def query_row(query: Query) -> Row:
    """What may change: state, started_at, closed_at, answer"""
    answer = query.answer
    return query.state._value_, query.started_at, query.closed_at, None if answer is None else pack(answer)


@names("query", lambda session_id, row: f"{session_id}/q-{row[0]}")
def query_of(session_id: UUID, row: Row) -> Query:
    """The order of `query_fixed_row` and then `query_row`."""
    number, execution_id, kind, payload, asked_at, guest_id, deadline, state, started_at, closed_at, answer = row
    found = Query(
        session_id,
        number,
        UUID(bytes=execution_id),
        _QUERY_KINDS[kind],
        unpack(payload),
        asked_at,
        guest_id,
        _QUERY_STATES[state],
        deadline,
        started_at,
        closed_at,
        None if answer is None else Answer(*unpack(answer)),
    )
    return whole_query(found)


# ---- lists, in which a damaged row is only a placeholder ---------------------------------------------------------------------------


def listed_sessions(rows: Iterable[Row]) -> list[Session]:
    """Rows as for `session_of`."""
    return confined(rows, session_of, session_placeholder)


def listed_executions(rows: Iterable[Row]) -> list[Execution]:
    """A session's id, and then as for `execution_of`."""
    return confined(
        rows,
        lambda row: execution_of(UUID(bytes=row[0]), row[1:]),
        lambda row: execution_placeholder(UUID(bytes=row[0]), row[1:]),
    )


def listed_queries(rows: Iterable[Row]) -> list[Query]:
    """A session's id, and then as for `query_of`."""
    return confined(
        rows, lambda row: query_of(UUID(bytes=row[0]), row[1:]), lambda row: query_placeholder(UUID(bytes=row[0]), row[1:])
    )


def listed_ids(rows: Iterable[Row]) -> list[UUID]:
    """Ids of sessions, without those that are none."""
    return confined(rows, lambda row: UUID(bytes=row[0]))


# ---- the rest ----------------------------------------------------------------------------------------------------------------------


def error_row(entry: ErrorEntry) -> Row:
    """id, timestamp, resolved_at, data"""
    execution = None if entry.execution_id is None else entry.execution_id.hex
    data = pack([entry.phase, entry.task_id, execution, entry.kind, entry.message, entry.attempt])
    return entry.id.bytes, entry.timestamp, entry.resolved_at, data


@names("error entry", lambda row: row[0])
def error_of(row: Row) -> ErrorEntry:
    """The order of `error_row`."""
    entry_id, timestamp, resolved_at, data = row
    phase, task_id, execution, kind, message, attempt = unpack(data)
    execution_id = None if execution is None else UUID(hex=execution)
    if type(timestamp) is not int or not all(isinstance(text, str) for text in (phase, kind, message)):
        raise StoreDamaged
    return ErrorEntry(UUID(bytes=entry_id), timestamp, phase, task_id, execution_id, kind, message, attempt, resolved_at)


def begun_text(begun: Begun) -> str:
    """Without its effects, which lie apart, so that each is written once."""
    return pack([begun.execution_id.hex, begun.request, begun.now, begun.attempts])


@names("step under way", lambda *_: "")
def begun_of(text: str, effects: Sequence[Row] = ()) -> Begun:
    """`effects`: position, data; in order."""
    execution, request, now, attempts = unpack(text)
    if (effects and effects[-1][0] != len(effects) - 1) or not isinstance(request, dict) or type(attempts) is not int:
        raise StoreDamaged
    if type(now) not in (int, float):
        raise StoreDamaged
    return Begun(UUID(hex=execution), request, now, [Effect(*unpack(data)) for _, data in effects], attempts)


def effect_rows(begun: Begun) -> list[tuple[int, str]]:
    """position, data; of those that are to be written."""
    return [(position, pack(effect)) for position, effect in enumerate(begun.effects, begun.since)]


def effects_left(commit: Commit) -> int | None:
    """How many effects of the step that is under way there are after a commit. None: as many as before."""
    if commit.begun is not None:
        return commit.begun.since + len(commit.begun.effects)
    return 0 if commit.ended else None


def reply_row(reply: Reply) -> Row:
    """key, request, outcome, created_at"""
    return plain(reply.key), plain(reply.request), pack(reply.outcome), reply.created_at


@names("document", lambda document_id, row: document_id)
def document_of(document_id: str, row: Row) -> tuple[int, dict[str, Any]]:
    """version, data"""
    version, data = row[0], unpack(row[1])
    if type(version) is not int or not isinstance(data, dict):
        raise StoreDamaged
    return version, data


@names("reply", lambda row: row[0])
def reply_of(row: Row) -> Reply:
    """The order of `reply_row`."""
    key, request, outcome, created_at = row
    found = Reply(read_plain(key), read_plain(request), unpack(outcome), created_at)
    if not isinstance(found.outcome, dict):
        raise StoreDamaged
    return found


def audit_row(entry: AuditEntry) -> Row:
    """at, tenant, token, action, object, outcome, data"""
    data = [
        entry.status,
        entry.token_name,
        entry.object_type,
        entry.surface,
        entry.address,
        entry.request_id,
        entry.count,
    ]
    searched = (entry.tenant, entry.token, entry.action, entry.object_id, entry.outcome)
    return entry.at, *map(plain, searched), pack(data)


def audit_of(row: Row) -> AuditEntry:
    """The order of `audit_row`."""
    tenant, token, action, object_id, outcome = map(read_plain, row[1:6])
    status, token_name, object_type, surface, address, request_id, count = unpack(row[6])
    return AuditEntry(
        at=row[0],
        action=action,
        outcome=outcome,
        status=status,
        tenant=tenant,
        token=token,
        token_name=token_name,
        object_type=object_type,
        object_id=object_id,
        surface=surface,
        address=address,
        request_id=request_id,
        count=count,
    )


def state_row(write: StateWrite, commit: Commit) -> dict[str, Any]:
    """By name. A commit's token is the version of all rows that it writes: no other commit has it."""
    return {
        "namespace": plain(write.namespace),
        "key": plain(write.key),
        "value": write.value,
        "version": signed(commit.token),
        "expires_at": write.expires_at,
        "expected": write.expected,
    }


@names("state key", lambda row: row[0])
def state_of(row: Row) -> StateRow:
    """key, value, version, expires_at."""
    unpack(row[1])  # whoever reads it would not know what is wrong
    return StateRow(read_plain(row[0]), row[1], row[2], row[3])


def state_page(namespace: str, prefix: str, now: int, limit: int, after: str | None) -> dict[str, Any]:
    """What a statement that lists keys is given: one more is asked for than is wanted, to know whether there is a next page."""
    return {
        "namespace": plain(namespace),
        "prefix": plain(prefix),
        "after": "" if after is None else plain(after),
        "first": after is None,
        "now": now,
        "limit": limit + 1,
    }


def keys_of(rows: Iterable[Row], limit: int) -> Page[str]:
    """The page of keys that came of it."""
    keys = confined(rows, lambda row: read_plain(row[0]))
    return Page(keys[:limit], keys[limit - 1] if len(keys) > limit else None)


def state_range(root: str) -> dict[str, str]:
    """Where namespaces lie that begin with a text which ends in a slash: after a slash comes a zero."""
    return {"root": plain(root), "end": plain(root[:-1] + "0")}
