"""One run of a program, from the daemon's side: a supervisor is started, and what the program writes is read until all of it has ended."""

import contextlib
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.capabilities.exec.confinement import Plan
from holdfast.capabilities.exec.programs import Opened
from holdfast.sandbox import HostError

try:
    import resource
except ImportError:  # a system without worktrees, where nothing is run
    resource = None  # type: ignore[assignment]

_SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))
_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What Python itself may need of the daemon's environment to start. The program does not get it."""
_LARGEST_FILE: Final = 1 << 30
_MOST_FILES: Final = 256
_MORE_TASKS: Final = 1024
_LOOK_MS: Final = 50
_PIECE: Final = 1 << 16
_GRACE_S: Final = 10.0
"""How long a supervisor may take to end all that it has started."""
_SPARE_S: Final = 5.0
"""How much later a supervisor stops by itself, should the daemon not tell it to."""


class Order(NamedTuple):
    """What is to be run, and what it may use."""

    program: Opened
    by_path: bool
    """Whether the program is run by its path, for it to find its other files, and not by its descriptor."""
    words: list[str]
    env: Mapping[str, str]
    folder: int
    input: bytes
    seconds: float
    merged: bool
    """Whether what it writes as errors goes to its output."""
    most_output: int
    most_memory: int
    most_processes: int
    hidden: Plan | None
    """What the program shall not see."""


class Ended(NamedTuple):
    """How a run has ended. `status` is that of the program, negative if a signal ended it, None if it had to be stopped."""

    status: int | None
    output: bytes
    errors: bytes


def run(order: Order, is_stopped: Callable[[], bool]) -> Ended:
    """Runs a program to its end, and whatever it starts. The descriptors of the order stay open."""
    until = time.monotonic() + order.seconds
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = _start(order, theirs)
        with process:
            following = _Following(process, ours, order)
            try:
                ours.settimeout(order.seconds + _SPARE_S)
                _send(ours, order)
                return following.follow(until, is_stopped)
            finally:
                _stop(process, ours)


def _start(order: Order, connection: socket.socket) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", _SUPERVISOR, str(connection.fileno())],
            cwd="/",
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if order.merged else subprocess.PIPE,
            pass_fds=(connection.fileno(), order.folder, order.program.descriptor),
            start_new_session=True,  # no terminal, and no signals that are meant for the daemon
        )
    except (OSError, ValueError):
        raise _failed() from None


def _send(connection: socket.socket, order: Order) -> None:
    data = marshal.dumps(
        {
            "file": order.program.descriptor,
            "path": order.program.path,
            "is_script": order.program.is_script,
            "by_path": order.by_path,
            "hidden": None if order.hidden is None else order.hidden.plain(),
            "folder": order.folder,
            "words": [word.encode() for word in order.words],
            "env": {name.encode(): value.encode() for name, value in order.env.items()},
            "seconds": order.seconds + _SPARE_S,
            "limits": _limits(order),
            "processes": order.most_processes,
        }
    )
    with contextlib.suppress(OSError):  # it has ended already, which is found out by reading
        connection.sendall(len(data).to_bytes(4, "big") + data)


def _limits(order: Order) -> dict[int, int]:
    """Limits of the system for each process, set before the program begins."""
    limits = {
        resource.RLIMIT_CPU: int(order.seconds) + 2,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _LARGEST_FILE,
        resource.RLIMIT_NOFILE: _MOST_FILES,
        resource.RLIMIT_DATA: order.most_memory,
    }
    with contextlib.suppress(
        OSError, ValueError, IndexError
    ):  # how many there are of all users: a little more is enough for one
        tasks = Path("/proc/loadavg").read_text().split()[3].partition("/")[2]
        limits[resource.RLIMIT_NPROC] = int(tasks) + _MORE_TASKS
    return limits


class _Following:
    """Writes the input and reads what comes, without waiting for either."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, order: Order) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._connection, self._stdin = connection.fileno(), process.stdin
        self._input = memoryview(order.input)
        self._output, self._errors = bytearray(), bytearray()
        self._told = b""
        self._left = order.most_output
        self._into = {process.stdout.fileno(): self._output}
        if process.stderr is not None:
            self._into[process.stderr.fileno()] = self._errors
        self._poll = select.poll()
        for descriptor in (*self._into, self._stdin.fileno()):
            os.set_blocking(descriptor, False)
        for descriptor in (*self._into, self._connection):
            self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._stdin.fileno(), select.POLLOUT)

    def follow(self, until: float, is_stopped: Callable[[], bool]) -> Ended:
        """To the end, or as long as it may take."""
        while True:
            if is_stopped():
                raise HostError("the execution was cancelled", code="CANCELLED")
            left = until - time.monotonic()
            if left <= 0:
                self._drain()
                return self._ended(None)
            for descriptor, _ in self._poll.poll(min(_LOOK_MS, left * 1000 + 1)):
                if descriptor == self._connection:
                    return self._outcome()
                if descriptor in self._into:
                    self._take(descriptor)
                else:
                    self._give()

    def _outcome(self) -> Ended:
        """The supervisor has spoken, or is gone: nothing of the program is left that could write."""
        self._drain()
        with contextlib.suppress(OSError):
            self._told = os.read(self._connection, 100)
        outcome, _, number = self._told.decode().strip().partition(" ")
        if outcome == "ended":
            return self._ended(int(number))
        if outcome == "crowded":
            raise HostError("the program has started too many others", code="PROCESSES_EXCEEDED")
        if outcome == "stopped":
            return self._ended(None)
        raise _failed("started" if outcome == "failed" else "followed to its end")

    def _ended(self, status: int | None) -> Ended:
        return Ended(status, bytes(self._output), bytes(self._errors))

    def _drain(self) -> None:
        """What is there to be read now."""
        for descriptor in list(self._into):
            while self._take(descriptor):
                pass

    def _take(self, descriptor: int) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return False
        if not data:
            self._poll.unregister(descriptor)
            del self._into[descriptor]
            return False
        self._into[descriptor] += data
        self._left -= len(data)
        if self._left < 0:
            raise HostError("the program wrote more than the template allows", code="OUTPUT_TOO_LARGE")
        return True

    def _give(self) -> None:
        """Some of the input. A program need not read it."""
        descriptor = self._stdin.fileno()
        try:
            self._input = self._input[os.write(descriptor, self._input[:_PIECE]) :] if self._input else self._input
        except BlockingIOError:
            return
        except OSError:
            self._input = memoryview(b"")
        if not self._input:
            self._poll.unregister(descriptor)
            self._stdin.close()


def _stop(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    """Sees to it that a supervisor ends, and with it all that it has started. If it was made to stand still, it goes on."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.send_signal(signal.SIGCONT)
        process.wait(_GRACE_S)
    process.kill()


def _failed(what: str = "started") -> HostError:
    return HostError(f"the program could not be {what}", code="PROGRAM_FAILED")
