"""Branches: what a script's fork is, who its branches are, and what each may ask of models.

A script forks by asking for the tool `holdfast.fork`, with the names of what its branches shall run. That query has two kinds of answers.
In a branch, which is a session forked where the script waits, it says which branch it is; in the session that asked, what came of all of
them. Ids of branches follow from the query, so that whoever goes on with a fork after a crash finds those that are there.

This is what all need to know of forks; `forking.py` makes and joins them, `joining.py` sees to it that this happens.
"""

import contextlib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final
from uuid import UUID, uuid5

from holdfast.domain import (
    EXECUTION,
    Budget,
    Execution,
    ExecutionKind,
    InvalidValue,
    Metrics,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionNotFound,
    Spent,
)
from holdfast.runtime._errors import ForkLimit
from holdfast.store import Store

PREFIX: Final = "holdfast."
"""What the names of tools and functions begin with that are ours."""
FORK: Final = "holdfast.fork"
EXIT: Final = "holdfast.exit"
MOST_BRANCHES: Final = 256
DEEPEST: Final = 8
MOST_IN_FAMILY: Final = 1_000
_LONGEST_NAME: Final = 200
_ON_ERROR: Final = (None, "skip", "abort", "fail")
_PAGE: Final = 1_000


class Standing(Enum):
    """How the branches of a fork stand, all together."""

    MOVES = "moves"
    """Something happens by itself, and soon: one runs, or is about to; or all have ended, and the fork is about to be joined."""
    ASKS = "asks"
    """None moves, and one waits for somebody outside."""
    WORKS = "works"
    """One waits for a tool of the host, and none for anybody outside."""
    SLEEPS = "sleeps"
    """All wait for the clock."""


def is_fork(query: Query) -> bool:
    """Whether a query waits for branches, or is the one by which a branch was told which it is."""
    return query.kind is QueryKind.TOOL and query.payload["name"] == FORK


def is_birth(session: Session, query: Query) -> bool:
    """Whether it is the query by which this session is told which branch it is."""
    return session.family is not None and query.number == session.family.query


def names(query: Query) -> list[str]:
    """What the branches of a fork are called."""
    found: list[str] = query.payload["args"]["strategies"]
    return found


def aborts(query: Query) -> bool:
    """Whether all of a fork fails as soon as one of its branches does."""
    return query.payload["args"].get("on_error") in ("abort", "fail")


def child_id(parent: UUID, query: int, index: int) -> UUID:
    """The session that is a branch, counted from 0, of what another one asked as this query."""
    return uuid5(parent, f"fork/{query}/{index}")


def children(query: Query) -> list[UUID]:
    """The sessions that are the branches of a fork, whether they are there or not."""
    return [child_id(query.session_id, query.number, index) for index in range(len(names(query)))]


def execution_of(branch: UUID) -> UUID:
    """The execution that a branch begins with."""
    return uuid5(branch, "branch")


def check_fork(session: Session, payload: dict[str, Any]) -> None:
    """Refuses a fork that makes no sense, or would lead too far: `InvalidValue`, `ForkLimit`."""
    given = payload.get("args")
    args: dict[str, Any] = given if isinstance(given, dict) else {}
    strategies = args.get("strategies")
    if not isinstance(strategies, list) or not strategies:
        raise InvalidValue("alc.fork: strategies must be a non-empty array")
    if not all(isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME for name in strategies):
        raise InvalidValue(f"alc.fork: strategies must be text of at most {_LONGEST_NAME} characters")
    if args.get("on_error") not in _ON_ERROR:
        raise InvalidValue("alc.fork: on_error must be skip, abort or fail")
    if len(strategies) > MOST_BRANCHES:
        raise ForkLimit(f"a fork has at most {MOST_BRANCHES} branches, not {len(strategies)}")
    if session.family is not None and session.family.depth >= DEEPEST:
        raise ForkLimit(f"forks are nested at most {DEEPEST} deep")


# ---- what the store has of them ----------------------------------------------------------------------------------------------------


def latest(store: Store, branch: UUID) -> Execution | None:
    """What a branch runs or has run, also after somebody has rewound it. None: there is no such session."""
    found = store.list_executions(branch, kinds=[ExecutionKind.STRATEGY], limit=1).items
    return found[0] if found else None


def forks_of(store: Store, session: Session) -> Iterable[Query]:
    """All forks that a session ever asked for."""
    after: str | None = None
    while True:
        page = store.list_queries(session.id, kinds=[QueryKind.TOOL], limit=_PAGE, after=after)
        yield from (query for query in page.items if is_fork(query) and not is_birth(session, query))
        after = page.next
        if after is None:
            return


def below(store: Store, session_id: UUID) -> list[UUID]:
    """The branches of all forks that a session ever asked for, as far as they are there. `SessionNotFound`."""
    session = store.show_session(session_id)
    found: list[UUID] = []
    for query in forks_of(store, session) if session.queries else ():
        for child in children(query):
            with contextlib.suppress(SessionNotFound):
                found.append(store.show_session(child).id)
    return found


def charge(store: Store, session: Session, execution: Execution, query: Query) -> None:
    """What the branches of a fork have asked models counts as asked by whoever forked, once the fork is over, and however it ended."""
    for metrics in _asked(store, query):
        execution.metrics.include(metrics)
        session.llm_calls += metrics.llm_calls
        session.tokens += metrics.spent.tokens


def _asked(store: Store, query: Query) -> Iterator[Metrics]:
    """What each branch has asked, and those below it that it has not been charged for yet."""
    for child in children(query):
        branch = latest(store, child)
        if branch is None:
            continue
        yield branch.metrics
        if not EXECUTION.is_final(branch.status):
            waiting = store.list_queries(child, states=[QueryState.OPEN], kinds=[QueryKind.TOOL], limit=_PAGE).items
            for fork in waiting:
                if is_fork(fork) and fork.number != query.number:  # not that by which it is told which branch it is
                    yield from _asked(store, fork)


# ---- budgets -----------------------------------------------------------------------------------------------------------------------


def is_held(waiting: Iterable[Query]) -> bool:
    """Whether what is left of a budget is with the branches of a fork that is waited for."""
    return any(is_fork(query) for query in waiting)


def share(budget: Budget | None, spent: Spent, query: Query, index: int, waiting: Iterable[Query]) -> Budget | None:
    """What a branch may use of a budget: as much as any other branch of the forks that were asked for together. Time passes for all.

    Whatever an earlier fork was given is with its branches as long as it is waited for.
    """
    if budget is None:
        return None
    forks = [fork for fork in waiting if is_fork(fork)]
    together = [fork for fork in forks if fork.asked_at == query.asked_at]
    held = any(fork.asked_at < query.asked_at for fork in forks)
    count = sum(len(names(fork)) for fork in together)
    place = sum(len(names(fork)) for fork in together if fork.number < query.number) + index
    left = budget.remaining(spent)

    def part(of: int | None) -> int | None:
        return None if of is None else 0 if held else of // count + (place < of % count)

    return Budget(part(left["llm_calls"]), left["elapsed_ms"], part(left["tokens"]))
