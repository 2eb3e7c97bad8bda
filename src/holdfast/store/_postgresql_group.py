"""A group of commits as the parameters of the statement `commit`, in `sql/postgresql/commit.sql`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast.domain import Execution, Query, Session, Step
from holdfast.store._postgresql_arrays import blobs, integers, texts, uuids
from holdfast.store._rows import (
    Row,
    begun_text,
    effect_rows,
    effects_left,
    execution_fixed_row,
    execution_given,
    execution_row,
    query_fixed_row,
    query_row,
    session_row,
    signed,
    step_row,
)
from holdfast.store._usage import commit_charges
from holdfast.store.protocol import Commit

NEW: Final = -1
"""The version of a session that is not there yet: its row is made in the same transaction, just before."""


def parameters(commits: Sequence[Commit], shard: int) -> list[bytes]:
    """What the statement wants, in the order of its parameters: those of effects only if a step under way is changed."""
    new_executions: list[Row] = []
    executions: list[Row] = []
    steps: list[Row] = []
    asked: list[Row] = []
    closed: list[Row] = []
    effects: list[Row] = []
    charged: list[Row] = []
    for place, commit in enumerate(commits, 1):
        made, changed = _merged(commit.new_executions, commit.executions, _execution_id)
        new_executions += [(place, *execution_fixed_row(e), execution_given(e), *execution_row(e)) for e in made]
        executions += [(place, e.id.bytes, *execution_row(e)) for e in changed]
        steps += [(place, *step_row(step), *_base(step, commit.session)) for step in commit.steps]
        fresh, old = _merged(commit.asked, commit.closed, _query_number)
        asked += [(place, *query_fixed_row(query), *query_row(query)) for query in fresh]
        closed += [(place, query.number, *query_row(query)) for query in old]
        charged += [(place, *charge, shard, *amounts) for charge, amounts in commit_charges(commit)]
        if commit.begun is not None:
            effects += [(place, *row) for row in effect_rows(commit.begun)]
    return [
        *_columns(_SESSION, [_session(commit) for commit in commits]),
        *_columns(_NEW_EXECUTION, new_executions),
        *_columns(_EXECUTION, executions),
        *_columns(_STEP, steps),
        *_columns(_ASKED, asked),
        *_columns(_CLOSED, closed),
        texts([session_row(commit.session)[-1] for commit in commits]),
        *_columns(_CHARGED, charged),
        *(_columns(_EFFECT, effects) if any(effects_left(commit) is not None for commit in commits) else ()),
    ]


# The columns of the statement's arrays, a letter each. i: bigint, u: uuid, t: text, b: bytea
_SESSION: Final = "uiiiititittiiiuiiiuiitiit"
_NEW_EXECUTION: Final = "iutiitttiiittttt"
_EXECUTION: Final = "iutiiittttt"
_STEP: Final = "iiiuiiitiitbui"
_ASKED: Final = "iiuttiiitiit"
_CLOSED: Final = "iitiit"
_USAGE: Final = "t"
_CHARGED: Final = "ittiiiiiii"
_EFFECT: Final = "iit"
WITHOUT_EFFECTS: Final = len(_SESSION + _NEW_EXECUTION + _EXECUTION + _STEP + _ASKED + _CLOSED + _USAGE + _CHARGED)

_ENCODERS: Final[dict[str, Callable[[Sequence[Any]], bytes]]] = {"i": integers, "u": uuids, "t": texts, "b": blobs}


def _columns(kinds: str, rows: list[Row]) -> list[bytes]:
    columns: Iterable[Row] = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return [_ENCODERS[kind](column) for kind, column in zip(kinds, columns, strict=True)]


def _session(commit: Commit) -> Row:
    """id, expected, held, token, stay, begun, and then as `session_row` but for the usage, which comes later."""
    return (
        commit.session.id.bytes,
        NEW if commit.expected is None else commit.expected,
        commit.fence,
        signed(commit.token),
        effects_left(commit),
        None if commit.begun is None else begun_text(commit.begun),
        *session_row(commit.session)[:-1],
    )


def _base(step: Step, session: Session) -> Row:
    """The base of a step's checkpoint: its session, unless that is the same one, and its number."""
    if step.checkpoint is None or step.checkpoint.base is None:
        return None, None
    session_id, number = step.checkpoint.base
    return None if session_id == session.id else session_id.bytes, number


def _merged(new: list[Any], changed: list[Any], identity: Callable[[Any], object]) -> tuple[Iterable[Any], Iterable[Any]]:
    """New rows in their last state, and changes of others, one each: one statement changes no row twice, nor one that it makes."""
    if not changed or (not new and len(changed) == 1):
        return new, changed
    last = {identity(item): item for item in changed}
    ids = {identity(item) for item in new}
    if len(last) == len(changed) and ids.isdisjoint(last):
        return new, changed
    return [last.get(identity(item), item) for item in new], [item for at, item in last.items() if at not in ids]


def _execution_id(execution: Execution) -> object:
    return execution.id


def _query_number(query: Query) -> object:
    return query.number
