"""The process host: configuration, tokens, the lock that keeps a second daemon out, the log, and the server with its signals.

What is served comes from above: `run` is given a function that makes the application. Begin with `load_config` and `serve`. Nothing here is
imported before it is used, since a command that only reads the configuration shall not wait for a web server.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.daemon._errors import AlreadyRunning as AlreadyRunning
    from holdfast.daemon._errors import CannotListen as CannotListen
    from holdfast.daemon._errors import ConfigInvalid as ConfigInvalid
    from holdfast.daemon._errors import DaemonError as DaemonError
    from holdfast.daemon._errors import TokenNeeded as TokenNeeded
    from holdfast.daemon._errors import TokenNotFound as TokenNotFound
    from holdfast.daemon._errors import TokensUnusable as TokensUnusable
    from holdfast.daemon.config import SETTINGS as SETTINGS
    from holdfast.daemon.config import Config as Config
    from holdfast.daemon.config import Loaded as Loaded
    from holdfast.daemon.config import Row as Row
    from holdfast.daemon.config import Setting as Setting
    from holdfast.daemon.config import load_config as load_config
    from holdfast.daemon.host import ASGIApp as ASGIApp
    from holdfast.daemon.host import run as run
    from holdfast.daemon.host import serve as serve
    from holdfast.daemon.lock import InstanceLock as InstanceLock
    from holdfast.daemon.lock import running_pid as running_pid
    from holdfast.daemon.logs import REQUEST_ID as REQUEST_ID
    from holdfast.daemon.logs import Logs as Logs
    from holdfast.daemon.logs import log_request as log_request
    from holdfast.daemon.tokens import Scope as Scope
    from holdfast.daemon.tokens import Token as Token
    from holdfast.daemon.tokens import Tokens as Tokens

_PLACES = {
    **dict.fromkeys(
        ("AlreadyRunning", "CannotListen", "ConfigInvalid", "DaemonError", "TokenNeeded", "TokenNotFound", "TokensUnusable"),
        "_errors",
    ),
    **dict.fromkeys(("SETTINGS", "Config", "Loaded", "Row", "Setting", "load_config"), "config"),
    **dict.fromkeys(("ASGIApp", "run", "serve"), "host"),
    **dict.fromkeys(("InstanceLock", "running_pid"), "lock"),
    **dict.fromkeys(("REQUEST_ID", "Logs", "log_request"), "logs"),
    **dict.fromkeys(("Scope", "Token", "Tokens"), "tokens"),
}

__all__ = [
    "REQUEST_ID",
    "SETTINGS",
    "ASGIApp",
    "AlreadyRunning",
    "CannotListen",
    "Config",
    "ConfigInvalid",
    "DaemonError",
    "InstanceLock",
    "Loaded",
    "Logs",
    "Row",
    "Scope",
    "Setting",
    "Token",
    "TokenNeeded",
    "TokenNotFound",
    "Tokens",
    "TokensUnusable",
    "load_config",
    "log_request",
    "run",
    "running_pid",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(f"holdfast.daemon.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'holdfast.daemon' has no attribute {name!r}")
