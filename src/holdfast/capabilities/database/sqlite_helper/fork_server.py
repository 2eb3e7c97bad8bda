"""Starts helper processes: `python -I -S -B -c "..."`, with a socket to the daemon.

Theory of operation
-------------------
A Python that has to be started and to import SQLite takes a tenth of a second, and a daemon with threads cannot fork. So one small process
with one thread imports everything once, and forks itself for each connection, in about a millisecond. It is the parent of all helpers,
so that a number which it kills cannot be anybody else's. When its socket is closed, be it because the daemon was killed, it kills them all
and ends.

A request is a length, JSON, and descriptors: the helper's socket, and the folder of a file. The answer is the number of the process.
"""

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import socket
from typing import Any, Final, NoReturn

import apsw

from . import rules, worker
from .vfs import Files

_SLOW: Final = 10
"""The niceness of a helper from its first long statement on: whoever computes for long does not keep the daemon from a processor."""
_REAP_MS: Final = 1_000
_MOST_DESCRIPTORS: Final = 256
_ABOVE: Final = 16
"""Above all numbers that are given new meanings."""


def main(descriptor: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the daemon, which may have work to finish
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("700")  # if the machine has no memory left, rather a helper than the daemon
    control = socket.socket(fileno=descriptor)
    files = Files()
    files.install()
    _warm_up()
    gc.collect()
    gc.freeze()
    ForkServer(control, files).serve()
    os._exit(0)


def _warm_up() -> None:
    """Whatever Python or SQLite do once is done once, and before it is forbidden."""
    with apsw.Connection(":memory:") as database:
        rules.prepare(database, rules.LARGEST_DATABASE)
        for sql in ("select 1, 'a', x'00', 1.5, null", "selec", "select printf('%d', 1)"):
            with contextlib.suppress(apsw.Error):
                json.loads(json.dumps(str(database.execute(sql).fetchall())))
    database.close()


class ForkServer:
    def __init__(self, control: socket.socket, files: Files) -> None:
        self._control, self._files = control, files
        self._children: set[int] = set()
        self._pid = os.getpid()

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            if poll.poll(_REAP_MS if self._children else None):
                request, descriptors = self._receive()
                if request is None:
                    break
                try:
                    self._do(request, descriptors)
                finally:
                    for descriptor in descriptors:
                        os.close(descriptor)
            self._reap()
        for child in self._children:
            os.kill(child, signal.SIGKILL)

    def _receive(self) -> tuple[Any, list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self._control, 4, 2)
        while data and (left := 4 + (int.from_bytes(data[:4], "big") if len(data) >= 4 else 0) - len(data)) > 0:
            piece = self._control.recv(left)  # not more: another request may follow
            if not piece:
                return None, descriptors
            data += piece
        return (json.loads(data[4:]) if data else None), descriptors

    def _do(self, request: Any, descriptors: list[int]) -> None:
        if "kill" in request:
            self._reap()
            if request["kill"] in self._children:  # it was not waited for: the number is still its own
                os.kill(request["kill"], signal.SIGKILL)
            return
        if "slow" in request:
            self._reap()
            if request["slow"] in self._children:
                os.setpriority(os.PRIO_PROCESS, request["slow"], _SLOW)
            return
        try:
            child = os.fork()
        except OSError:
            child = -1
        if child == 0:
            self._become(worker.Order(**request["order"]), descriptors)
        if child > 0:
            self._children.add(child)
        self._control.sendall(child.to_bytes(8, "big", signed=True))

    def _become(self, order: worker.Order, descriptors: list[int]) -> NoReturn:
        """A helper: descriptor 3 is its socket, 4 its folder, and there are no others."""
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            sources = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for descriptor in descriptors]
            for target in (0, 1, 2):
                os.dup2(nothing, target)
            for at, source in enumerate(sources):
                os.dup2(source, 3 + at, inheritable=False)
            os.closerange(3 + len(sources), _MOST_DESCRIPTORS)
            self._control.detach()
            connection = socket.socket(fileno=3)
            worker.run(order, connection, 4 if len(sources) > 1 else -1, self._files, self._pid)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while child := os.waitpid(-1, os.WNOHANG)[0]:
                self._children.discard(child)
