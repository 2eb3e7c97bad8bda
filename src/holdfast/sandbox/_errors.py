"""Errors of the sandbox.

HoldfastError
└── SandboxError
    ├── GuestUnavailable      no such guest, or its module does not fit this version
    ├── GuestFault            the guest trapped for a reason that is no limit
    ├── SandboxClosed         a step, or freeze, after close
    ├── EngineClosed          a step after the engine was closed
    ├── SandboxBusy           two threads use one sandbox
    ├── RequestRefused        the step makes no sense now; nothing was changed
    │   ├── ExecutionPending  the last execution still waits
    │   ├── NotPending        nothing waits
    │   ├── UnknownQuery      an answer to a query that was never asked
    │   └── QueryNotOpen      an answer to a query that has one, or was cancelled
    ├── ValueRefused          a Python value that cannot cross into a guest
    ├── TemplateFailed        a startup file raised, waited, or broke a limit; LibraryLoadFailed: a library did
    ├── ImageError
    │   ├── ImageDamaged      truncated, altered, or sealed with another key
    │   ├── ImageForeign      made by another guest or template, or a delta against another image
    │   ├── ImageUnsupported  written by another version
    │   └── ImageTooLarge     larger than the reader allows
    └── HostError             raised by a host function: becomes an error in the script
"""

from typing import ClassVar

from holdfast.domain import Fault, HoldfastError


class SandboxError(HoldfastError):
    """The sandbox could not do this."""

    code = "SANDBOX_ERROR"


class GuestUnavailable(SandboxError):
    """There is no guest for this language, or its module does not fit this version of Holdfast."""

    code = "GUEST_UNAVAILABLE"
    fault = Fault.ENVIRONMENT


class GuestFault(SandboxError):
    """The guest stopped for a reason that is no limit. The sandbox is closed; thaw its last image."""

    code = "GUEST_FAULT"


class SandboxClosed(SandboxError):
    """This sandbox is closed. Thaw its last image."""

    code = "SANDBOX_CLOSED"
    fault = Fault.CALLER


class EngineClosed(SandboxError):
    """The engine of this sandbox is closed."""

    code = "ENGINE_CLOSED"
    fault = Fault.CALLER


class SandboxBusy(SandboxError):
    """This sandbox is running a step on another thread."""

    code = "SANDBOX_BUSY"
    fault = Fault.CALLER


class RequestRefused(SandboxError):
    """The step makes no sense in the sandbox's present state. Nothing was changed."""

    code = "REQUEST_REFUSED"
    fault = Fault.CALLER


class ExecutionPending(RequestRefused):
    """An execution waits for answers. Resume it first."""

    code = "EXECUTION_PENDING"


class NotPending(RequestRefused):
    """No execution waits for an answer."""

    code = "NOT_PENDING"


class UnknownQuery(RequestRefused):
    """No query with this id was ever asked."""

    code = "UNKNOWN_QUERY"


class QueryNotOpen(RequestRefused):
    """This query has been answered or cancelled already."""

    code = "QUERY_NOT_OPEN"


class ValueRefused(SandboxError):
    """This value cannot cross into a guest."""

    code = "VALUE_REFUSED"
    fault = Fault.CALLER


class TemplateFailed(SandboxError):
    """A startup file of the template did not run to its end."""

    code = "TEMPLATE_FAILED"
    fault = Fault.SCRIPT

    def __init__(self, message: str | None = None, *, startup: int | None = None) -> None:
        super().__init__(message)
        self.startup = startup
        """Which of the startup files it was."""


class LibraryLoadFailed(TemplateFailed):
    """A library of the template did not run to its end."""

    code = "LIBRARY_LOAD_FAILED"


class ImageError(SandboxError):
    """This image cannot be used."""

    code = "IMAGE_ERROR"
    fault = Fault.CALLER


class ImageDamaged(ImageError):
    """The image is truncated, altered, or sealed with another key."""

    code = "IMAGE_DAMAGED"


class ImageForeign(ImageError):
    """The image belongs to another guest or template, or is a delta against another image."""

    code = "IMAGE_FOREIGN"


class ImageUnsupported(ImageError):
    """The image was written by another version of Holdfast, which this one cannot read."""

    code = "IMAGE_UNSUPPORTED"


class ImageTooLarge(ImageError):
    """The image is larger than allowed."""

    code = "IMAGE_TOO_LARGE"


class HostError(SandboxError):
    """A host function refused or failed. Raised in Python by the function, it is raised in the script at the call."""

    fault = Fault.SCRIPT
    code: ClassVar[str] = "HOST_ERROR"

    def __init__(self, message: str | None = None, *, code: str = "HOST_ERROR") -> None:
        super().__init__(message)
        self.script_code = code


_REFUSALS: dict[str, type[RequestRefused]] = {
    kind.code: kind for kind in (ExecutionPending, NotPending, UnknownQuery, QueryNotOpen)
}


def refusal(code: str, message: str) -> RequestRefused:
    """The error for what a guest refused."""
    return _REFUSALS.get(code, RequestRefused)(message)
