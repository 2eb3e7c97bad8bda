"""Helper processes for SQLite: how they are started, counted, and ended, whatever they do.

Theory of operation
-------------------
One process of ours forks all helpers (`sqlite_helper/fork_server.py`); it is started with the first one. A helper is one connection of one
session. It is killed when a call has no time left or is cancelled; what it had not committed is undone by SQLite, when the file is next
opened.

There are at most so many. If another one is needed, one that nobody uses is closed: its session connects again when it next calls.
Databases in memory and transactions would be lost with it, so they are only taken from the same owner, after a while.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from holdfast.capabilities.database.sqlite_helper import wire
from holdfast.domain import Principal
from holdfast.sandbox import HostError

_CODE: Final = (
    "import sys; sys.path[:] = sys.argv[2:] + sys.path; from sqlite_helper.fork_server import main; main(int(sys.argv[1]))"
)
_HERE: Final = Path(__file__).parent
_LOOK_S: Final = 0.05
_GRACE_S: Final = 0.2
"""How long a helper has to answer after its time is up."""
_END_S: Final = 2.0
_START_S: Final = 30.0
_STATEFUL_IDLE_S: Final = 5.0
_KEPT: Final = ("SYSTEMROOT",)

MOST_HELPERS: Final = 64
MOST_OF_AN_OWNER: Final = 32


class Killed(Exception):
    """A helper was ended by us, or ended. `code` says why; `uncertain` whether a commit had begun."""

    def __init__(self, code: str, *, uncertain: bool) -> None:
        super().__init__(code)
        self.code, self.uncertain = code, uncertain


class Left(Exception):
    """A helper was idle for too long, and has ended. It has done nothing of what it was asked for."""


class Helper:
    """The daemon's end of one helper. One thread at a time may call it; any may end it."""

    def __init__(self, helpers: "Helpers", connection: socket.socket, pid: int, owner: Principal, most_bytes: int) -> None:
        self._helpers, self._socket, self._pid = helpers, connection, pid
        self._decoder = wire.Decoder((wire.MOST_VALUES + 1_000, 6 * most_bytes + (16 << 20)))
        self.owner = owner
        self.used = time.monotonic()
        self.is_stateful = False
        """Whether something would be lost with it."""
        self.is_gone = self._is_slow = False
        self.lock = threading.Lock()
        """Held while there is a call, and while it is ended."""
        wire.set_timeout(connection, _LOOK_S)
        self._receiver = wire.Receiver(connection)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def call(self, frames: Iterable[bytes], seconds: float, is_stopped: Callable[[], bool]) -> wire.Message:
        """The answer to a request, within so many seconds. Raises `Killed` or `Left`; then it is gone."""
        with self.lock:
            if self.is_gone:
                raise Left
            self.used = time.monotonic()
            until = self.used + seconds + _GRACE_S
            try:
                return self._answer(frames, until, is_stopped)
            except BaseException:
                self.is_gone = True
                self._helpers.end(self)
                raise
            finally:
                self.used = time.monotonic()

    def look(self) -> bool:
        """Whether it is there, as far as one can tell without asking. One that nobody has asked says nothing but that it leaves."""
        return not self.is_gone and not self._poll.poll(0)

    def close(self) -> None:
        """Lets it end by itself, so that nothing of it is left when this returns; or kills it."""
        with self.lock:
            if not self.is_gone:
                self.is_gone = True
                self._helpers.end(self, politely=True)

    def _answer(self, frames: Iterable[bytes], until: float, is_stopped: Callable[[], bool]) -> wire.Message:
        commits = False
        try:
            for frame in frames:
                self._send(frame, until, is_stopped)
            while True:
                while (found := self._decoder.next()) is not None:
                    if found.kind == wire.COMMITS:
                        commits = True
                    elif found.kind == wire.LEAVES:
                        raise Left
                    else:
                        return found
                self._take(until, is_stopped)
        except Killed as killed:
            # It may have ended just now: what it said before is heard.
            self._helpers.tell(kill=self._pid)
            return self._last(killed, commits)
        except (OSError, wire.Malformed):
            raise Killed("DATABASE_FAILED", uncertain=commits) from None

    def _send(self, frame: bytes, until: float, is_stopped: Callable[[], bool]) -> None:
        left = memoryview(frame)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                _check(until, is_stopped)
            except OSError:
                return  # it has ended: what it said before is read

    def _take(self, until: float, is_stopped: Callable[[], bool]) -> None:
        try:
            data = self._receiver.receive()
        except BlockingIOError:
            data = None
            if not self._is_slow:
                self._is_slow = True
                self._helpers.tell(slow=self._pid)
        if data == b"":
            raise OSError
        if data:
            self._decoder.feed(data)
        _check(until, is_stopped)

    def _last(self, killed: Killed, commits: bool) -> wire.Message:
        """What a helper that was killed had said. Its answer counts, if it is one."""
        ends = time.monotonic() + _END_S
        with contextlib.suppress(OSError, wire.Malformed):
            while time.monotonic() < ends:
                while (found := self._decoder.next()) is not None:
                    if found.kind == wire.COMMITS:
                        commits = True
                    elif found.kind == wire.DONE:
                        self.is_gone = True
                        self._helpers.end(self)
                        return found
                with contextlib.suppress(BlockingIOError):
                    data = self._socket.recv(wire.PIECE)
                    if not data:
                        break
                    self._decoder.feed(data)
        raise Killed(killed.code, uncertain=commits)

    def finish(self, *, politely: bool) -> None:
        """For `Helpers`: closes the socket. If it does not end by itself it is killed."""
        if politely:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
                wire.set_timeout(self._socket, _END_S)
                while self._socket.recv(wire.PIECE):
                    pass
                self._socket.close()
                return
        self._helpers.tell(kill=self._pid)
        self._socket.close()


def _check(until: float, is_stopped: Callable[[], bool]) -> None:
    if is_stopped():
        raise Killed("CANCELLED", uncertain=False)
    if time.monotonic() > until:
        raise Killed("SQL_TIMEOUT", uncertain=False)


class Helpers:
    """All helpers of a runtime. It may be used by any thread."""

    def __init__(self, most: int = MOST_HELPERS, most_of_an_owner: int = MOST_OF_AN_OWNER) -> None:
        self._most, self._most_of_an_owner = most, most_of_an_owner
        self._counting = threading.Lock()
        self._helpers: set[Helper] = set()
        self._talking = threading.Lock()
        """Held while the fork server is spoken to."""
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_closed = False

    def start(self, order: dict[str, Any], folder: int | None, owner: Principal, most_bytes: int) -> Helper:
        """A helper, which opens its database and says so. The folder stays the caller's."""
        self._make_room(owner)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                pid = self._fork(order, [theirs.fileno(), *([] if folder is None else [folder])])
        except (OSError, ValueError):
            ours.close()
            raise HostError("the process for the database could not be started", code="DATABASE_FAILED") from None
        helper = Helper(self, ours, pid, owner, most_bytes)
        with self._counting:
            self._helpers.add(helper)
        return helper

    def end(self, helper: Helper, *, politely: bool = False) -> None:
        """Its process ends, and counts no more. For helpers that were marked as gone."""
        helper.finish(politely=politely)
        with self._counting:
            self._helpers.discard(helper)

    def tell(self, **request: int) -> None:
        """Have the fork server do something with a helper: `kill` it, or let others go first, since it is `slow`."""
        with self._talking, contextlib.suppress(OSError):
            if self._control is not None:
                self._control.sendall(_request(request))

    def pids(self) -> list[int]:
        """Of the fork server and all helpers: for tests and measurements."""
        with self._counting:
            found = [helper._pid for helper in self._helpers]
        return found if self._server is None else [self._server.pid, *found]

    def close(self) -> None:
        """Ends all of them. Idempotent."""
        with self._talking:
            self._is_closed = True
            self._stop()
        with self._counting:
            helpers, self._helpers = self._helpers, set()
        for helper in helpers:
            helper.close()

    def _make_room(self, owner: Principal) -> None:
        """Closes helpers that nobody uses, as long as there are too many."""
        while True:
            with self._counting:
                own = [helper for helper in self._helpers if helper.owner == owner]
                if len(own) < self._most_of_an_owner and len(self._helpers) < self._most:
                    return
                candidates = own if len(own) >= self._most_of_an_owner else list(self._helpers)
            if not any(
                self._take_place(helper, owner) for helper in sorted(candidates, key=lambda one: (one.is_stateful, one.used))
            ):
                message = "too many databases are open: close those that are not needed, or try again later"
                raise HostError(message, code="DATABASES_EXCEEDED")

    def _take_place(self, helper: Helper, owner: Principal) -> bool:
        """Whether a helper was closed, which needs that it is not in use."""
        if helper.is_stateful and (helper.owner != owner or time.monotonic() - helper.used < _STATEFUL_IDLE_S):
            return False
        if not helper.lock.acquire(blocking=False):
            return False
        try:
            if helper.is_gone:
                return False
            helper.is_gone = True
            self.end(helper, politely=True)
            return True
        finally:
            helper.lock.release()

    def _fork(self, order: dict[str, Any], descriptors: list[int]) -> int:
        request = _request({"order": order})
        with self._talking:
            if self._is_closed:
                raise OSError
            for _ in range(2):
                control = self._control or self._begin()
                try:
                    sent = socket.send_fds(control, [request], descriptors)
                    control.sendall(request[sent:])
                    answer = control.recv(8, socket.MSG_WAITALL)
                except OSError:
                    answer = b""
                if len(answer) == 8:
                    pid = int.from_bytes(answer, "big", signed=True)
                    if pid <= 0:
                        raise OSError
                    return pid
                self._stop()  # it was ended by somebody: another one is started
        raise OSError

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(_START_S)
        found = find_spec("apsw")
        if found is None or found.origin is None:
            raise OSError
        with theirs:
            self._server = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-B",
                    "-c",
                    _CODE,
                    str(theirs.fileno()),
                    str(_HERE),
                    str(Path(found.origin).parents[1]),
                ],
                cwd="/",
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # no signals of a terminal; but not another session, which the scheduler would treat as another user
            )
        self._control = ours
        return ours

    def _stop(self) -> None:
        control, self._control = self._control, None
        server, self._server = self._server, None
        if control is not None:
            control.close()
        if server is not None:
            try:
                server.wait(_END_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _request(content: dict[str, Any]) -> bytes:
    data = json.dumps(content).encode()
    return len(data).to_bytes(4, "big") + data
