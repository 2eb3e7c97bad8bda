"""The root of every error that Holdfast raises, and those that belong to no single layer.

HoldfastError
├── InvalidValue            something that a caller gave makes no sense
│   ├── InvalidId           not a UUID, or not a query's id
│   └── UnknownSetting      a word that is not among those allowed
├── InvalidTransition       a state machine's table has no such arrow
├── NotFound                TEMPLATE_, SESSION_, EXECUTION_, QUERY_, CHECKPOINT_, ERROR_ENTRY_NOT_FOUND
├── Conflict
│   ├── NameTaken           a template of this name exists
│   ├── VersionConflict     somebody else changed it in between
│   └── IdempotencyConflict the same key was used for something else
├── SessionBusy             another execution runs or waits
├── SessionNotReady         the session has crashed or is closed
├── AnswerConflict          the query has another answer
└── BudgetExceeded          a budget would be exceeded

Each subclass has a stable `code`, which clients may rely on, and says whose fault it is. A message defaults to the first line of
the class's docstring. Messages never show host paths, SQL, secrets or stack traces: they may reach a client.
"""

from enum import StrEnum
from typing import ClassVar


class Fault(StrEnum):
    """Who has to change something before the call can work."""

    CALLER = "caller"
    SCRIPT = "script"
    HOLDFAST = "holdfast"
    ENVIRONMENT = "environment"


class HoldfastError(Exception):
    """Something went wrong in Holdfast."""

    code: ClassVar[str] = "INTERNAL"
    fault: ClassVar[Fault] = Fault.HOLDFAST

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().partition("\n")[0])


class InvalidValue(HoldfastError):
    """What was given makes no sense here."""

    code = "VALIDATION_ERROR"
    fault = Fault.CALLER


class InvalidId(InvalidValue):
    """This is not an id."""


class InvalidTransition(HoldfastError):
    """This state cannot follow the present one."""

    code = "INVALID_TRANSITION"
    fault = Fault.CALLER

    def __init__(self, what: str, current: str, wanted: str, allowed: frozenset[str]) -> None:
        names = ", ".join(sorted(allowed)) or "none"
        super().__init__(f"{what} is {current} and cannot become {wanted}; allowed from {current}: {names}")
        self.current, self.wanted, self.allowed = current, wanted, allowed


class NotFound(HoldfastError):
    """There is no such thing."""

    code = "NOT_FOUND"
    fault = Fault.CALLER


class TemplateNotFound(NotFound):
    """There is no such template."""

    code = "TEMPLATE_NOT_FOUND"


class SessionNotFound(NotFound):
    """There is no such session."""

    code = "SESSION_NOT_FOUND"


class ExecutionNotFound(NotFound):
    """There is no such execution."""

    code = "EXECUTION_NOT_FOUND"


class QueryNotFound(NotFound):
    """There is no such query."""

    code = "QUERY_NOT_FOUND"


class CheckpointNotFound(NotFound):
    """There is no such checkpoint, or it was pruned."""

    code = "CHECKPOINT_NOT_FOUND"


class ErrorEntryNotFound(NotFound):
    """There is no such entry in the error history."""

    code = "ERROR_ENTRY_NOT_FOUND"


class Conflict(HoldfastError):
    """This contradicts what is there."""

    code = "CONFLICT"
    fault = Fault.CALLER


class NameTaken(Conflict):
    """A template of this name exists already."""

    code = "NAME_TAKEN"


class TemplateInUse(Conflict):
    """Sessions of this template exist: delete them first."""

    code = "TEMPLATE_IN_USE"


class VersionConflict(Conflict):
    """Somebody else changed this in between. Read it again."""

    code = "VERSION_CONFLICT"


class IdempotencyConflict(Conflict):
    """This idempotency key was used for another request."""

    code = "IDEMPOTENCY_CONFLICT"


class AnswerConflict(Conflict):
    """The query was answered differently, or is cancelled or expired."""

    code = "ANSWER_CONFLICT"


class AnswerAmbiguous(Conflict):
    """Say which query is answered: not exactly one is open."""

    code = "ANSWER_AMBIGUOUS"


class SessionBusy(Conflict):
    """Another execution runs or waits in this session."""

    code = "SESSION_BUSY"


class SessionNotReady(Conflict):
    """The session has crashed or is closed."""

    code = "SESSION_NOT_READY"


class BudgetExceeded(HoldfastError):
    """A budget would be exceeded."""

    code = "BUDGET_EXCEEDED"
    fault = Fault.SCRIPT
