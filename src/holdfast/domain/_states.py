"""The state machines, as tables: what may follow what. Nothing else in Holdfast decides that."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Generic, TypeVar

from holdfast.domain._errors import InvalidTransition

State = TypeVar("State", bound=StrEnum)


class SessionState(StrEnum):
    """Where a session is."""

    STARTING = "starting"
    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    CRASHED = "crashed"
    CLOSED = "closed"


class ExecutionStatus(StrEnum):
    """Where an execution is."""

    RUNNING = "running"
    PAUSED = "paused"
    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class QueryState(StrEnum):
    """Where a query is."""

    OPEN = "open"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Machine(Generic[State]):
    """A table of states and those that may follow each.

    >>> QUERY.next(QueryState.OPEN, QueryState.ANSWERED)
    <QueryState.ANSWERED: 'answered'>
    >>> QUERY.is_final(QueryState.EXPIRED)
    True
    """

    def __init__(self, what: str, table: Mapping[State, frozenset[State]]) -> None:
        self.what, self.table = what, table

    def next(self, current: State, wanted: State) -> State:
        """`wanted`, if it may follow `current`."""
        allowed = self.table[current]
        if wanted not in allowed:
            raise InvalidTransition(self.what, current, wanted, frozenset(allowed))
        return wanted

    def is_final(self, state: State) -> bool:
        """Whether nothing follows."""
        return not self.table[state]


def _table(rows: Mapping[State, str]) -> dict[State, frozenset[State]]:
    return {state: frozenset(type(state)(name) for name in names.split()) for state, names in rows.items()}


SESSION: Final = Machine(
    "the session",
    _table(
        {
            SessionState.STARTING: "ready running paused crashed closed",
            SessionState.READY: "running paused closed",  # paused: rewound into the middle of an execution
            SessionState.RUNNING: "ready starting paused crashed closed",  # starting: another startup file follows
            SessionState.PAUSED: "running ready paused closed",
            SessionState.CRASHED: "ready paused closed",  # by rewinding
            SessionState.CLOSED: "",
        }
    ),
)

EXECUTION: Final = Machine(
    "the execution",
    _table(
        {
            ExecutionStatus.RUNNING: "paused ok error timeout cancelled",
            ExecutionStatus.PAUSED: "running cancelled",
            ExecutionStatus.OK: "",
            ExecutionStatus.ERROR: "",
            ExecutionStatus.TIMEOUT: "",
            ExecutionStatus.CANCELLED: "",
        }
    ),
)

QUERY: Final = Machine(
    "the query",
    _table(
        {
            QueryState.OPEN: "answered cancelled expired",
            QueryState.ANSWERED: "",
            QueryState.CANCELLED: "",
            QueryState.EXPIRED: "",
        }
    ),
)
