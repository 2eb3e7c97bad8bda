"""How a fork stands: whether its branches go on by themselves, or somebody outside has to do something first."""

from collections.abc import Callable
from uuid import UUID

from holdfast.domain import EXECUTION, Execution, ExecutionStatus, Query, QueryKind, QueryState, Session, SessionNotFound
from holdfast.runtime import branches
from holdfast.runtime.branches import Standing
from holdfast.store import Store

_ORDER = list(Standing)
"""What one of them does counts for all, the first before the others."""


class Standings:
    """Looks at forks, on a thread. `is_busy` says whether a job of a session is on its way here; `is_own` whether a tool runs here."""

    def __init__(self, store: Store, is_busy: Callable[[UUID], bool], is_own: Callable[[Session, Query], bool]) -> None:
        self._store, self._is_busy, self._is_own = store, is_busy, is_own

    def of(self, session: Session, fork: Query) -> Standing:
        """How a fork of a session stands."""
        children = branches.children(fork)
        if branches.is_birth(session, fork) or any(map(self._is_busy, children)):
            return Standing.MOVES
        found: list[Standing] = []
        for child in children:
            branch = branches.latest(self._store, child)
            if branch is None:
                if fork.started_at is None:  # it is about to be made
                    return Standing.MOVES
                continue
            if EXECUTION.is_final(branch.status):
                if branches.aborts(fork) and branch.status is not ExecutionStatus.OK:  # the others are about to be stopped
                    return Standing.MOVES
                continue
            found.append(self._branch(branch))
            if found[-1] is Standing.MOVES:
                return Standing.MOVES
        return min(found, key=_ORDER.index, default=Standing.MOVES)

    def _branch(self, branch: Execution) -> Standing:
        if branch.status is ExecutionStatus.RUNNING:
            return Standing.MOVES
        try:
            session = self._store.get_session(branch.session_id)
        except SessionNotFound:  # it was deleted just now
            return Standing.MOVES
        # None: it has moved on since it was looked at.
        waiting = self._store.list_queries(session.id, execution_id=branch.id, states=[QueryState.OPEN], limit=10_000).items
        return min((self._query(session, query) for query in waiting), key=_ORDER.index, default=Standing.MOVES)

    def _query(self, session: Session, query: Query) -> Standing:
        if query.kind is QueryKind.TIMER:
            return Standing.SLEEPS
        if branches.is_fork(query):
            return self.of(session, query)
        return Standing.WORKS if self._is_own(session, query) else Standing.ASKS
