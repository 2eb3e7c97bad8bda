"""Steps that were given up: outcomes beside those of the sandbox, and what is said of a step that is rolled back."""

from typing import Any

from holdfast.domain import Answer, ExecutionStatus, HoldfastError, Limit, QuotaExceeded
from holdfast.runtime._errors import EffectUncertain, LimitExceeded
from holdfast.sandbox import Breached, Cancelled


class Crashed:
    """The step was given up."""

    def __init__(self, error: HoldfastError) -> None:
        self.error = error
        self.events = ()


class Dropped(Crashed):
    """The session goes on from elsewhere: there is no state to bring in order."""

    def __init__(self) -> None:
        super().__init__(HoldfastError("the session was rewound"))


def described(outcome: Breached | Cancelled | Crashed) -> tuple[dict[str, Any], ExecutionStatus]:
    """Why a step was rolled back, and what that makes of its execution."""
    if isinstance(outcome, Dropped):
        return {"name": "Cancelled", "message": str(outcome.error), "code": "CANCELLED"}, ExecutionStatus.CANCELLED
    if isinstance(outcome, Cancelled):
        cancelled = {"name": "Cancelled", "message": "the execution was cancelled", "code": "CANCELLED"}
        return cancelled, ExecutionStatus.CANCELLED
    if isinstance(outcome, Crashed):
        error = outcome.error
        details = error.details if isinstance(error, LimitExceeded | QuotaExceeded) else {}
        return {"name": type(error).__name__, "message": str(error), "code": error.code} | details, ExecutionStatus.ERROR
    breach = outcome.breach
    limit = {"limit": breach.limit.value, "allowed": breach.allowed, "actual": breach.actual}
    timed = breach.limit in (Limit.WALL, Limit.CPU)
    status = ExecutionStatus.TIMEOUT if timed else ExecutionStatus.ERROR
    return {"name": "LimitExceeded", "message": str(breach), "code": LimitExceeded.code} | limit, status


def uncertain() -> Answer:
    """What a script is told of a tool that may have run."""
    error = EffectUncertain()
    return Answer(error={"message": str(error), "code": error.code})
