"""The root of every error that Holdfast raises, and those that belong to no single layer.

HoldfastError
├── InvalidValue            something that a caller gave makes no sense
│   ├── InvalidId           not a UUID, or not a query's id
│   ├── CapabilityInvalid   there is nothing of this kind and name, or it does not take this config
│   └── UnknownSetting      a word that is not among those allowed
├── InvalidTransition       a state machine's table has no such arrow
├── NotFound                TEMPLATE_, SESSION_, EXECUTION_, QUERY_, CHECKPOINT_, ERROR_ENTRY_, CAPABILITY_, STARTUP_, FILE_NOT_FOUND
├── Conflict
│   ├── NameTaken           a template of this name exists
│   ├── CapabilityExists    the template has this capability; likewise StartupFileExists
│   ├── TemplateInactive    no session is made of it
│   ├── VersionConflict     somebody else changed it in between
│   ├── StateConflict       others changed the same keys of the state again and again
│   └── IdempotencyConflict the same key was used for something else
├── Forbidden               whoever asks may not do this
├── InvalidPath             a path that leads out of a worktree, or to what is no file
├── WorktreeNotFound        there is no such folder; WorktreeNotAllowed: it is not one that whoever asks may name
├── StartupFailed           a session cannot start; likewise StartupModeUnsupported
├── ModuleNotAllowed        not a native module
├── LibraryUnknown          not the name of a library; LibraryNotCached: it is not in the cache
├── SessionBusy             another execution runs or waits
├── SessionNotReady         the session has crashed or is closed
├── AnswerConflict          the query has another answer
└── BudgetExceeded          a budget would be exceeded

Each subclass has a stable `code`, which clients may rely on, and says whose fault it is. A message defaults to the first line of
the class's docstring. Messages never show host paths, SQL, secrets or stack traces: they may reach a client.
"""

from enum import StrEnum
from typing import Any, ClassVar, Self


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
    retry_after: int | None = None
    """After how many seconds the same call may work; None: that is not known."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().partition("\n")[0])
        self.details: dict[str, Any] = {}
        """What a program may want to know besides: ids, limits. JSON, and fit for a client as the message is."""

    def with_details(self, **details: Any) -> Self:
        """Adds to `details`, and gives the error itself.

        >>> NotFound().with_details(session_id="s").details
        {'session_id': 's'}
        """
        self.details |= details
        return self


class InvalidValue(HoldfastError):
    """What was given makes no sense here."""

    code = "VALIDATION_ERROR"
    fault = Fault.CALLER


class InvalidId(InvalidValue):
    """This is not an id."""


class CapabilityInvalid(InvalidValue):
    """There is nothing that this capability could grant, or its config makes no sense. `details` has the path of the bad `field`."""

    code = "CAPABILITY_INVALID"


class LimitTooHigh(InvalidValue):
    """A limit of a template is above what the operator allows. `details` has the path of the bad `field`."""

    code = "LIMIT_TOO_HIGH"


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


class CapabilityNotFound(NotFound):
    """The template has no such capability."""

    code = "CAPABILITY_NOT_FOUND"


class StartupNotFound(NotFound):
    """The template has no such startup file."""

    code = "STARTUP_NOT_FOUND"


class FileNotFound(NotFound):
    """There is no such file in the worktree."""

    code = "FILE_NOT_FOUND"


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


class TemplateInactive(Conflict):
    """This template is not active: no session can be made of it."""

    code = "TEMPLATE_INACTIVE"


class CapabilityExists(Conflict):
    """The template has this capability already."""

    code = "CAPABILITY_EXISTS"


class StartupFileExists(Conflict):
    """The template has this startup file already."""

    code = "STARTUP_FILE_EXISTS"


class VersionConflict(Conflict):
    """Somebody else changed this in between. Read it again."""

    code = "VERSION_CONFLICT"


class StateConflict(Conflict):
    """Other sessions changed the same keys of the state again and again. Nothing of this was done; ask again."""

    code = "STATE_CONFLICT"
    fault = Fault.ENVIRONMENT

    def __init__(self, namespace: str = "") -> None:
        super().__init__()
        self.namespace = namespace
        """In which one they met. Clients are not told."""


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


class Forbidden(HoldfastError):
    """This is not allowed."""

    code = "FORBIDDEN"
    fault = Fault.CALLER


class InvalidPath(HoldfastError):
    """A path must lead to a file within the worktree."""

    code = "INVALID_PATH"
    fault = Fault.CALLER


class WorktreeNotFound(HoldfastError):
    """The worktree is not a folder that is there."""

    code = "WORKTREE_NOT_FOUND"
    fault = Fault.CALLER


class WorktreeNotAllowed(HoldfastError):
    """This folder is not below one that may be named as a worktree."""

    code = "WORKTREE_NOT_ALLOWED"
    fault = Fault.CALLER


class StartupFailed(HoldfastError):
    """The session could not start."""

    code = "STARTUP_FAILED"
    fault = Fault.CALLER


class StartupModeUnsupported(HoldfastError):
    """Startup files are evaluated; there is no other mode than eval."""

    code = "STARTUP_MODE_UNSUPPORTED"
    fault = Fault.CALLER


class ModuleNotAllowed(HoldfastError):
    """This is not a native module that a template may expose."""

    code = "MODULE_NOT_ALLOWED"
    fault = Fault.CALLER


class LibraryUnknown(HoldfastError):
    """This is not the name of a library."""

    code = "LIBRARY_UNKNOWN"
    fault = Fault.CALLER


class LibraryNotCached(HoldfastError):
    """A library of the template is not in the cache."""

    code = "LIBRARY_NOT_CACHED"
    fault = Fault.ENVIRONMENT
