"""The life of a daemon: from the lock to the last commit.

The order matters. The lock is first, so that a second daemon touches nothing. The socket is bound before the store is opened, so that one
whose address is taken touches no session. At the end the store is closed after the requests have ended, and the lock is given back last.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.control import Holdfast
from holdfast.daemon._collecting import Collector
from holdfast.daemon._errors import ConfigInvalid, DaemonError, DirectoryReplaced, TokenNeeded
from holdfast.daemon._files import OTHERS_WRITE, private_folder
from holdfast.daemon._held import HeldFolder
from holdfast.daemon._masking import masked
from holdfast.daemon._server import Server
from holdfast.daemon._signals import handled, notify
from holdfast.daemon._sockets import bind, is_loopback, url_of
from holdfast.daemon._waiting import open_patiently
from holdfast.daemon.config import Config, Loaded
from holdfast.daemon.lock import InstanceLock
from holdfast.daemon.logs import Logs
from holdfast.daemon.spool import AuditSpool
from holdfast.daemon.tokens import Tokens
from holdfast.domain import AuditEntry, HoldfastError
from holdfast.libraries import LibraryCache
from holdfast.strategies import PackagePath

Message = MutableMapping[str, Any]
ASGIApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
MakeApp = Callable[[Holdfast, Config, Tokens], ASGIApp]

_log: Final = logging.getLogger("holdfast.daemon")
_FILES: Final = 65_536
_SAME_S: Final = 0.2  # a terminal and a supervisor may both pass the same one on
_LOOK_S: Final = 1.0
_LOOK_AT_TOKENS_S: Final = 0.5


async def run(
    config: Config,
    make_app: MakeApp,
    *,
    ready: Callable[[str], None] | None = None,
    reload: Callable[[], Config] | None = None,
    stopping: asyncio.Event | None = None,
    protected: Sequence[Path] = (),
) -> None:
    """Runs a daemon until SIGTERM or SIGINT, or until `stopping` is set. A second signal ends the process at once.

    `make_app` is given Holdfast, the configuration and the tokens. If what it makes has a `state`, `state.stopping` is an event that is set
    when the daemon stops: streams shall end then. `ready` is called with the URL when it serves. `reload` gives the configuration anew, for
    SIGHUP. No script reaches the data directory, the other files that the configuration names, nor those that are `protected`. Raises a
    DaemonError, or what the store says, if it cannot start.
    """
    stopping = stopping or asyncio.Event()
    with InstanceLock(_data_dir(config)), Logs(config.log_level, config.log_format, access=config.access_log) as logs:
        host = _Host(config, logs, stopping, reload, protected)
        with handled({"SIGTERM": host.stop, "SIGINT": host.stop, "SIGBREAK": host.stop, "SIGHUP": host.hang_up}):
            await host.run(make_app, ready)


def serve(loaded: Loaded, make_app: MakeApp, *, ready: Callable[[str], None] | None = None) -> None:
    """Runs a daemon in this process, on the fastest event loop that there is."""
    if sys.platform == "win32":
        factory = None
    else:
        from uvloop import new_event_loop as factory

    def started(url: str) -> None:
        Collector().start()
        if ready is not None:
            ready(url)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run(loaded.config, make_app, ready=started, reload=lambda: loaded.again().config, protected=loaded.files))


def _data_dir(config: Config) -> Path:
    try:
        folder = private_folder(config.data_dir)
    except OSError as error:
        raise ConfigInvalid(f"the data directory cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigInvalid("the data directory cannot be written by this user")
    return folder


class _Host:
    """What a running daemon has."""

    def __init__(
        self,
        config: Config,
        logs: Logs,
        stopping: asyncio.Event,
        reload: Callable[[], Config] | None,
        protected: Sequence[Path],
    ) -> None:
        self._config, self._logs, self._stopping, self._reload = config, logs, stopping, reload
        self._protected = protected
        self._config_folders = [HeldFolder(path.parent) for path in protected]
        self._tokens: Tokens | None = None
        self._told_at = 0.0
        self._moving = False

    async def run(self, make_app: MakeApp, ready: Callable[[str], None] | None) -> None:
        config = self._config
        _log.info("starting", extra={"fields": {"pid": os.getpid(), "store": masked(config.store)}})
        if sys.platform != "win32" and config.data_dir.stat().st_mode & OTHERS_WRITE:
            _log.warning("the data directory can be written by others, who can take tokens and sessions away: chmod 700 it")
        _raise_file_limit(config.connections)
        tokens = self._tokens = Tokens(config.data_dir, token_file=config.token_file)
        with bind(*config.address) as listening:
            if is_loopback(listening):
                tokens.first()
            elif not tokens.usable:
                raise TokenNeeded
            server: Server | None = None
            try:
                async with self._opened(listening) as hf:
                    if hf is None:
                        return
                    app = make_app(hf, config, tokens)
                    state = getattr(app, "state", None)
                    if state is not None:
                        state.stopping = self._stopping
                    server = Server(app, config, self._stopping, lambda: self._started(url_of(listening), ready))
                    await server.run_until_stopped(listening)
            finally:
                if server is not None:  # requests that waited for a script have been told by Holdfast that it closes
                    await server.finish()
        _log.info("stopped")

    @asynccontextmanager
    async def _opened(self, listening: socket.socket) -> AsyncIterator[Holdfast | None]:
        """Holdfast on the store. None: the daemon was told to stop before the store could be opened."""
        config = self._config
        # Real paths: a link on the way could lead elsewhere later, and only the folders of a real path are kept from programs.
        libraries = LibraryCache(config.libraries_dir.resolve())
        packages = PackagePath.default(config.project_dir, config.data_dir.resolve())

        def make() -> Holdfast:
            return Holdfast.open(
                config.store,
                settings=config.settings,
                retention=config.retention,
                libraries=libraries,
                packages=packages,
                data_dir=config.data_dir,
                protected=[config.token_file, config.libraries_dir, *self._protected],
                tenant_modules=config.tenant_modules,
            )

        async with AsyncExitStack() as stack:
            hf = await open_patiently(make, stack, config, listening, self._stopping)
            if hf is None:
                yield None
                return
            self._note(hf, "daemon start")
            self._move_spool(hf)
            await hf.auditor.flush()
            watching = [asyncio.create_task(self._watch_recovery(hf)), asyncio.create_task(self._watch_tokens(hf))]
            try:
                yield hf
            finally:
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)
                self._move_spool(hf)
                self._note(hf, "daemon stop")
                _log.info("closing: what runs is committed, or goes on at the next start")

    def _started(self, url: str, ready: Callable[[str], None] | None) -> None:
        _log.info("ready on %s", url)
        notify("READY=1")
        if ready is not None:
            ready(url)

    # ---- signals -------------------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """SIGTERM, SIGINT: the first begins the end, the second is the end. Nothing that was acknowledged is lost by either."""
        if self._told_at and time.monotonic() - self._told_at < _SAME_S:
            return
        if self._told_at:
            _log.warning("stopped at once by a second signal; what ran goes on at the next start")
            self._logs.stop()
            os._exit(128 + signal.SIGTERM)
        self._told_at = time.monotonic()
        _log.info("stopping: requests have %g s to end", self._config.shutdown_grace_s)
        notify("STOPPING=1")
        self._stopping.set()

    def hang_up(self) -> None:
        """SIGHUP: the log level and the tokens are read again. If that fails, they stay as they were."""
        try:
            for folder in self._config_folders:
                folder.check()
            if self._reload is not None:
                config = self._reload()
                self._logs.set_level(config.log_level)
            if self._tokens is not None:
                self._tokens.reload()
        except HoldfastError as error:
            _log.error("not read again: %s", error, extra={"fields": {"code": error.code}})
        else:
            _log.warning("read again: log level and tokens")

    # ---- in the background ---------------------------------------------------------------------------------------------------------

    def _note(self, hf: Holdfast, action: str) -> None:
        """Put something that the daemon does itself into the audit log."""
        hf.auditor.add(AuditEntry(hf.auditor.now(), action, "ok", surface="daemon"))

    def _move_spool(self, hf: Holdfast) -> None:
        """Move audit entries of commands on this machine into the store."""
        assert self._tokens is not None
        spool = AuditSpool(self._tokens.folder)
        if self._moving or spool.is_empty:
            return
        self._moving = True  # until it is in the store; or for good, if it cannot be read
        try:
            entries, forget = spool.take()
        except OSError as error:
            _log.error("audit.spool_unreadable error=%s", error.strerror)
            return

        def moved() -> None:
            forget()
            self._moving = False

        for entry in entries:
            hf.auditor.add(entry)
        hf.auditor.when_written(moved)

    async def _watch_tokens(self, hf: Holdfast) -> None:
        """Tokens that the CLI makes or revokes count within a second."""
        tokens, told = self._tokens, ""
        assert tokens is not None
        while True:
            await asyncio.sleep(_LOOK_AT_TOKENS_S)
            try:
                if tokens.refresh():
                    _log.info("the tokens have changed")
                self._move_spool(hf)
                told = ""
            except DaemonError as error:
                if str(error) != told:
                    told = str(error)
                    event = (
                        "tokens.directory_replaced" if isinstance(error, DirectoryReplaced) else "the tokens stay as they were"
                    )
                    _log.error("%s: %s", event, error, extra={"fields": {"code": error.code}})
            except Exception:  # noqa: BLE001 - whatever it is, the next change must be seen: it may revoke a token
                _log.exception("the tokens could not be read again")

    async def _watch_recovery(self, hf: Holdfast) -> None:
        """Tells how far it is with what a process that ended left behind. Leases of such a process may have to run out first."""
        loop = asyncio.get_running_loop()
        until = loop.time() + 2 * self._config.lease_ms / 1000
        known, left = 0, 0
        while left or loop.time() < until:
            try:
                summary = await hf.summary()
            except HoldfastError as error:
                _log.warning("how far recovery is cannot be told: %s", error)
            else:
                recovered, before, left = summary["recovered"], left, summary["interrupted"]
                if recovered != known or left != before:
                    _log.info("recovering", extra={"fields": {"recovered": recovered, "interrupted": left}})
                    known = recovered
            await asyncio.sleep(_LOOK_S)
        _log.info("recovery is over", extra={"fields": {"recovered": known}})


def _raise_file_limit(connections: int) -> None:
    """Every connection is an open file, and many systems allow 1024 unless they are asked."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(connections + 1024, _FILES) if hard == resource.RLIM_INFINITY else min(connections + 1024, hard)
    if wanted < connections:
        _log.warning(
            "%d connections are allowed, but only %d open files: other calls fail before there are so many", connections, wanted
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            _log.warning("the limit of open files stays at %d", soft)
