"""All that a run asked, in the order of asking: with what its branches did, and what was asked before it went on from elsewhere.

A run that was forked or rewound goes on from a checkpoint of another execution. What that one had been told by then is how this one came to
where it is, so it is part of it. No id of a query means two things in it: forks go on counting, and a session never uses one twice.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from holdfast.control._family import Asked, Path
from holdfast.control._pages import size_of_query
from holdfast.domain import (
    CheckpointNotFound,
    EventType,
    Execution,
    ExecutionNotFound,
    InvalidValue,
    Origin,
    Query,
    QueryKind,
    Session,
    SessionNotFound,
    branch_query_id,
)
from holdfast.runtime import branches
from holdfast.store import Store

_PAGE: Final = 100
_LARGEST: Final = 32 << 20
"""The most characters of all that a run asked and was answered."""


def exchanges(store: Store, execution: Execution) -> list[Asked]:
    """What a run asked, open or not; neither the clock nor the forks themselves. Called on a thread.

    Raises `InvalidValue` if that is too much to be told at once.
    """
    walked = _bounded(_walk(store, _lineage(store, execution), ()))
    found = sorted(walked, key=lambda one: (one[1].asked_at, one[0], one[1].number))
    return [Asked(branch_query_id(path, query.number), query) for path, query in found]


def _bounded(walked: Iterable[tuple[Path, Query]]) -> Iterator[tuple[Path, Query]]:
    left = _LARGEST
    for path, query in walked:
        left -= size_of_query(query)
        if left < 0:
            raise InvalidValue(
                f"what this run asked and was answered has more than {_LARGEST} characters; list its queries instead"
            )
        yield path, query


def _walk(store: Store, queries: Iterable[Query], path: Path) -> Iterator[tuple[Path, Query]]:
    for query in queries:
        if not branches.is_fork(query):
            yield path, query
            continue
        for index, child in enumerate(branches.children(query)):
            branch = branches.latest(store, child)
            if branch is not None:
                yield from _walk(store, _lineage(store, branch), (*path, (query.number, index)))


def _lineage(store: Store, execution: Execution) -> Iterator[Query]:
    """The queries of an execution, and those of the ones that it goes on from which were closed there."""
    is_closed: Callable[[Query], bool] | None = None  # all that it asked
    with contextlib.suppress(SessionNotFound, ExecutionNotFound, CheckpointNotFound):  # what is gone by now cannot be told
        while True:
            session = store.get_session(execution.session_id)
            yield from filter(is_closed, _queries(store, session, execution))
            if execution.parent_id is None or execution.id == branches.execution_of(session.id):
                return  # what was asked before a branch began is told by whoever forked it
            at = _beginning(store, session, execution)
            if at is None:
                return
            is_closed, execution = _closed_at(store, at), store.get_execution(execution.parent_id)


def _queries(store: Store, session: Session, execution: Execution) -> Iterator[Query]:
    after: str | None = None
    while True:
        page = store.list_queries(session.id, execution_id=execution.id, limit=_PAGE, after=after)
        for query in page.items:
            if query.kind is not QueryKind.TIMER and not (branches.is_fork(query) and branches.is_birth(session, query)):
                yield query
        after = page.next
        if after is None:
            return


def _beginning(store: Store, session: Session, execution: Execution) -> Origin | None:
    """The checkpoint from which an execution goes on."""
    own = (node for node in store.list_nodes(session.id) if node.execution_id == execution.id)
    first = next(own, None)
    number = session.head if first is None else first.parent
    return Origin(session.id, number) if number else session.origin


def _closed_at(store: Store, at: Origin) -> Callable[[Query], bool]:
    """Tells of queries of an execution whether they were closed when a checkpoint of it was made. `CheckpointNotFound`."""
    node = store.get_node(at)
    just = {event.payload["query_id"] for event in store.step_events(at) if event.type == EventType.ANSWER}

    def is_closed(query: Query) -> bool:
        if query.closed_at is None or query.number in node.open:
            return False
        if query.closed_at == node.created_at:  # by that step, or by one of the same millisecond
            return query.id in just or query.number < max(node.open, default=0)
        return query.closed_at < node.created_at

    return is_closed
