"""How a command ends: one table from error codes to exit codes, and what to do about them.

0 fine, 1 the script failed or something else went wrong, 2 usage, 3 not found, 4 conflict or busy, 5 the daemon cannot be reached,
6 a limit or a timeout. Ctrl-C is 130, as shells expect.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from holdfast.domain import HoldfastError


class Exit(IntEnum):
    """Exit codes, which scripts may rely on."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    LIMIT = 6
    INTERRUPTED = 130


_BY_CODE: Final[Mapping[str, Exit]] = {
    **dict.fromkeys(
        (
            "USAGE",
            "VALIDATION_ERROR",
            "INVALID_REQUEST",
            "CAPABILITY_INVALID",
            "LIMIT_TOO_HIGH",
            "CONFIG_INVALID",
            "STORE_UNKNOWN",
        ),
        Exit.USAGE,
    ),
    **dict.fromkeys(
        (
            "ALREADY_RUNNING",
            "ANSWER_AMBIGUOUS",
            "ANSWER_CONFLICT",
            "CAPABILITY_EXISTS",
            "CONFLICT",
            "IDEMPOTENCY_CONFLICT",
            "INVALID_TRANSITION",
            "LEASE_LOST",
            "NAME_TAKEN",
            "PACKAGE_CHANGED",
            "PACKAGE_EXISTS",
            "SESSION_BUSY",
            "SESSION_NOT_READY",
            "STARTUP_FILE_EXISTS",
            "TEMPLATE_INACTIVE",
            "TEMPLATE_IN_USE",
            "VERSION_CONFLICT",
            "STATE_CONFLICT",
        ),
        Exit.CONFLICT,
    ),
    **dict.fromkeys(("DAEMON_UNREACHABLE", "UNAVAILABLE", "CLOSED"), Exit.UNREACHABLE),
    **dict.fromkeys(
        (
            "BUDGET_EXCEEDED",
            "DAEMON_TIMEOUT",
            "LIMIT_EXCEEDED",
            "OUTPUT_LIMIT_EXCEEDED",
            "QUOTA_EXCEEDED",
            "RATE_LIMITED",
            "USAGE_EXCEEDED",
            "REQUEST_TIMEOUT",
            "TIMEOUT",
        ),
        Exit.LIMIT,
    ),
}

_BY_STATUS: Final[Mapping[str, Exit]] = {
    "ok": Exit.FINE,
    "paused": Exit.FINE,
    "running": Exit.FINE,
    "error": Exit.FAILED,
    "cancelled": Exit.FAILED,
    "timeout": Exit.LIMIT,
}

_HINTS: Final[Mapping[str, str]] = {
    "DAEMON_UNREACHABLE": "start a daemon with `holdfast serve`, or say where it is with --server-url",
    "MALFORMED_RESPONSE": "is this a Holdfast daemon, of this version? --server-url and HOLDFAST_SERVER_URL say where to look",
    "UNAUTHENTICATED": "give a token with --token or HOLDFAST_TOKEN; `holdfast token create` makes one",
    "FORBIDDEN": "the token lacks a scope; `holdfast token list` shows what each may do",
    "SESSION_BUSY": "wait for the execution, cancel it with `holdfast exec cancel`, or answer it: `holdfast query list`",
    "SESSION_NOT_READY": "`holdfast session get` says why; `holdfast session rewind` goes back to a checkpoint",
    "SESSION_NOT_FOUND": "`holdfast session list` shows those of the daemon, `holdfast resume --list` those of `holdfast run`",
    "TEMPLATE_NOT_FOUND": "`holdfast template list` shows all",
    "TEMPLATE_IN_USE": "`holdfast session list` shows its sessions; `holdfast session delete` removes one",
    "NAME_TAKEN": "choose another name; `list` of the same group shows those that are there",
    "ANSWER_AMBIGUOUS": "`holdfast query list` shows the ids of open queries",
    "LIBRARY_NOT_CACHED": "add it with `holdfast libs add`, on the machine of the daemon",
    "MODULE_NOT_ALLOWED": "`holdfast template list-available-modules` shows what there is",
    "PACKAGE_CHANGED": "`holdfast strategy verify` says what is different; `holdfast strategy add --force` takes it as it is",
    "PACKAGE_EXISTS": "say --force to replace it, or --name to give it another name",
    "PACKAGE_NOT_FOUND": "`holdfast strategy list` shows what there is",
    "LIMIT_EXCEEDED": "the session is as it was before; `holdfast run --limit` and `holdfast template update --limit` set limits",
    "QUOTA_EXCEEDED": "`holdfast quota show` shows what is used; delete sessions, or come back later",
    "USAGE_EXCEEDED": "`holdfast session get` shows what it has used; `holdfast template update --limit` sets limits",
    "STORE_UNKNOWN": "an address is memory:, sqlite:///file or postgresql://host/database",
    "STORE_READ_ONLY": "`holdfast doctor` says what is wrong with the data directory",
    "GUEST_UNAVAILABLE": "`holdfast doctor` says what is missing",
}


class CommandFailed(HoldfastError):
    """A command cannot go on. The code is given where it is raised, since a command speaks of what others know."""

    def __init__(self, message: str, code: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]
        self.hint = hint


def usage(message: str, hint: str | None = None) -> CommandFailed:
    """What was typed makes no sense."""
    return CommandFailed(message, "USAGE", hint)


def exit_of(error: HoldfastError) -> Exit:
    """The exit code of an error: by its code, else by the status of the daemon's answer.

    >>> exit_of(CommandFailed("there is no such session", "SESSION_NOT_FOUND"))
    <Exit.NOT_FOUND: 3>
    """
    code = error.code
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code.endswith("NOT_FOUND") and code != "WORKTREE_NOT_FOUND":
        return Exit.NOT_FOUND
    by_status = {
        400: Exit.USAGE,
        404: Exit.NOT_FOUND,
        408: Exit.LIMIT,
        409: Exit.CONFLICT,
        429: Exit.LIMIT,
        503: Exit.UNREACHABLE,
    }
    return by_status.get(getattr(error, "status", None) or 0, Exit.FAILED)


def exit_of_execution(execution: Mapping[str, Any]) -> Exit:
    """The exit code of a command that ran something."""
    error = execution.get("error") or {}
    if error.get("code") in ("LIMIT_EXCEEDED", "OUTPUT_LIMIT_EXCEEDED"):
        return Exit.LIMIT
    return _BY_STATUS.get(execution["status"], Exit.FAILED)


def hint_of(error: HoldfastError) -> str | None:
    """What to do next, where there is something useful."""
    own: str | None = getattr(error, "hint", None)
    if error.code == "OUTPUT_LIMIT_EXCEEDED" and "execution_id" in error.details:
        return f"`holdfast exec events {error.details['execution_id']}` shows what there was until then"
    if error.code == "STARTUP_FAILED" and "session_id" in error.details:
        return f"`holdfast session errors {error.details['session_id']}` says more"
    return own or _HINTS.get(error.code)


def tell(error: HoldfastError) -> None:
    """An error on stderr, with its code, and a hint."""
    from holdfast.cli._terminal import harmless, painted

    lines = [f"{painted('error:', 'red', sys.stderr)} {harmless(str(error), sys.stderr)} ({error.code})"]
    hint = hint_of(error)
    if hint is not None:
        lines.append(f"{painted('hint:', 'dim', sys.stderr)} {harmless(hint, sys.stderr)}")
    with contextlib.suppress(OSError):  # whoever reads our output may have gone: that changes nothing about what went wrong
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print("\n".join(lines), file=sys.stderr, flush=True)


def guarded(command: Callable[[], int]) -> int:
    """Runs a command. Whatever it raises becomes a message and an exit code."""
    from holdfast.cli._streams import give_up_stdout

    try:
        return _told(command)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone, as `head` does
        give_up_stdout()
        return Exit.FAILED


def _told(command: Callable[[], int]) -> int:
    try:
        code = command()
        sys.stdout.flush()
        return code
    except HoldfastError as error:
        tell(error)
        return exit_of(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # the last resort of a program that people use
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        _tell_the_worst(error)
        return Exit.FAILED


def _tell_the_worst(error: Exception) -> None:
    from holdfast.cli._streams import give_up_stdout

    if (
        isinstance(error, OSError) and error.strerror
    ):  # a full disk, a folder that is not ours: the system's no, and not our fault
        where = "stdout: " if give_up_stdout() else "" if error.filename is None else f"{error.filename}: "
        tell(CommandFailed(f"the system refuses: {where}{error.strerror}", "SYSTEM_ERROR"))
        return
    told = f"a defect in Holdfast: {type(error).__name__}: {error}"
    tell(CommandFailed(told, "INTERNAL", "HOLDFAST_DEBUG=1 shows where"))
