"""Errors of the daemon. They are for whoever starts it, at a terminal or in a log; no client of a running daemon gets to see them.

HoldfastError
├── DaemonError
│   ├── ConfigInvalid      a value of the configuration makes no sense; says which, and where it came from
│   ├── AlreadyRunning     another daemon has this data directory
│   ├── CannotListen       the address is taken, or not one of this machine
│   ├── TokenNeeded        it would be open to other machines, and nobody has a token
│   ├── TokensUnusable     the file of tokens is damaged, or others may write to it
│   └── DirectoryReplaced  another folder is where one was that the daemon began with
└── NotFound
    └── TokenNotFound
"""

from holdfast.domain import Fault, HoldfastError, NotFound


class DaemonError(HoldfastError):
    """The daemon cannot start."""

    code = "DAEMON_ERROR"
    fault = Fault.ENVIRONMENT


class ConfigInvalid(DaemonError):
    """The configuration makes no sense."""

    code = "CONFIG_INVALID"
    fault = Fault.CALLER


class AlreadyRunning(DaemonError):
    """Another daemon uses this data directory."""

    code = "ALREADY_RUNNING"

    def __init__(self, pid: int | None) -> None:
        who = "" if pid is None else f" (process {pid})"
        super().__init__(f"another daemon{who} uses this data directory: stop it, or give this one its own with --data-dir")
        self.pid = pid


class CannotListen(DaemonError):
    """The address cannot be listened on."""

    code = "CANNOT_LISTEN"


class TokenNeeded(DaemonError):
    """Other machines could reach this daemon, and there is no token yet: make one with `holdfast token create`."""

    code = "TOKEN_NEEDED"
    fault = Fault.CALLER


class TokensUnusable(DaemonError):
    """The file of tokens cannot be used."""

    code = "TOKENS_UNUSABLE"


class DirectoryReplaced(DaemonError):
    """Another directory, or none, is at the path of one that was opened at the start. Move it back, or restart the daemon."""

    code = "DIRECTORY_REPLACED"


class TokenNotFound(NotFound):
    """There is no such token."""

    code = "TOKEN_NOT_FOUND"
