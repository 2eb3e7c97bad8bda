"""The root of every error that Holdfast raises.

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
