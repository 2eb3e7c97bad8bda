"""Stands between the daemon and one program, as a process of its own: `python -I -S supervisor.py <descriptor>`.

Theory of operation
-------------------
The daemon has threads, so that nothing of ours may run in it between fork and exec; and what a program starts in the background is
nobody's child once its parent has ended. A process with one thread has neither problem. It sets the limits, goes into the folder and runs
the file that it was given, and adopts whatever loses its parent below it (`PR_SET_CHILD_SUBREAPER`). So it can end all that came of the
program, also what has left its group and session: it kills children of its own, whose numbers cannot be anybody else's, until there are
none.

It does so when the program has ended, when there are too many processes, when time is up, and when its connection is closed, be it because
the daemon was killed. Then it says how the program has ended. It imports little, since every run waits for it to start.
"""

import ctypes
import marshal
import os
import resource
import select
import signal
import sys
import time
from typing import Any, Final, NoReturn

_TICK_MS: Final = 50
_LONGEST_TICKS: Final = 5.0
_SUBREAPER: Final = 36
_DEATH_SIGNAL: Final = 1
_NO_NEW_RIGHTS: Final = 38
_IS_LINUX: Final = sys.platform == "linux"


def main(connection: int) -> None:
    order = _read_order(connection)
    for descriptor in (connection, order["folder"], order["file"]):
        os.set_inheritable(descriptor, False)
    _control(_SUBREAPER, 1)
    until = time.monotonic() + order["seconds"]
    try:
        os.fchdir(order["folder"])
        os.close(order["folder"])  # a way around the mounts, for whoever looks at this process
        _confine(order["hidden"])
    except OSError as error:
        _tell(connection, "failed", error.errno or 1)
        return
    child, failure = _start(order)
    _leave_its_pipes()
    if failure:
        os.waitpid(child, 0)
        _tell(connection, "failed", failure)
        return
    outcome, status = _watch(connection, child, until, order["processes"])
    _end_all(child)
    _tell(connection, outcome, status)


def _read_order(connection: int) -> dict[str, Any]:
    """What is to be run. It comes from the same Python, so that its own format will do."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        piece = os.read(connection, 1 << 16)
        if not piece:
            os._exit(1)
        data += piece
    order: dict[str, Any] = marshal.loads(data[4:])  # noqa: S302 - from the daemon, by a descriptor that nobody else has
    return order


def _tell(connection: int, outcome: str, number: int) -> None:
    try:
        os.write(connection, f"{outcome} {number}\n".encode())
    except OSError:  # nobody wants to know
        return


def _confine(hidden: list[Any] | None) -> None:
    """Hides from this process, and so from the program, what the program shall not see."""
    if hidden is None or not _IS_LINUX:
        return
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import confinement  # type: ignore[import-not-found] # as a file beside this one: the package would take long to import

    plan = confinement.Plan.read(hidden)
    is_hidden = confinement.hide(plan)
    _control(_NO_NEW_RIGHTS, 1)
    confinement.fence(plan, is_hidden=is_hidden)


def _start(order: dict[str, Any]) -> tuple[int, int]:
    """The program's number, and what the system said if it could not be run."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        _become(order, theirs)
    os.close(theirs)
    os.close(order["file"])
    failure = os.read(ours, 16)
    os.close(ours)
    return child, int(failure or b"0")


def _become(order: dict[str, Any], told: int) -> NoReturn:
    """The program. It begins with no signal ignored or blocked, and can gain no rights that it does not have."""
    try:
        os.setsid()
        _control(_DEATH_SIGNAL, signal.SIGKILL)
        _control(_NO_NEW_RIGHTS, 1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        _limit(order["limits"])
        words, env = order["words"], order["env"]
        if os.execve in os.supports_fd and not order["by_path"]:
            os.set_inheritable(order["file"], order["is_script"])  # its interpreter opens it by the descriptor's name
            os.execve(order["file"], words, env)  # noqa: S606
        is_there, is_meant = os.stat(order["path"]), os.fstat(order["file"])
        if (is_there.st_dev, is_there.st_ino) == (is_meant.st_dev, is_meant.st_ino):
            os.execve(order["path"], words, env)  # noqa: S606
        os.write(told, b"1")
    except OSError as error:
        os.write(told, b"%d" % (error.errno or 1))
    finally:
        os._exit(127)


def _limit(limits: dict[int, int]) -> None:
    for kind, wanted in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))


def _leave_its_pipes() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _watch(connection: int, child: int, until: float, most: int) -> tuple[str, int]:
    """What came first, and the program's status if that is that it has ended. It is still there to be waited for."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    ends = os.pidfd_open(child) if hasattr(os, "pidfd_open") else None
    if ends is not None:
        poll.register(ends, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll(_TICK_MS)]
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid == child:
                return "ended", found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            os.waitpid(found.si_pid, 0)  # one that was adopted
        if connection in ready or time.monotonic() > until:
            return "stopped", 0
        if _IS_LINUX and _count_below(os.getpid(), most) > most:
            return "crowded", 0


def _count_below(pid: int, most: int) -> int:
    """How many processes there are below one; not more than a few beyond `most` are looked at."""
    count, waiting = 0, [pid]
    while waiting and count <= most:
        children = _children(waiting.pop())
        count += len(children)
        waiting += children
    return count


def _children(pid: int) -> list[int]:
    """By all threads of a process. Where the kernel does not say, all processes are asked for their parents."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:
        if not os.path.exists("/proc/thread-self/children"):
            return [other for other in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(other) == pid]
    except OSError:
        pass
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _end_all(child: int) -> None:
    """Kills the group of the program, and then whatever is a child of this process, until there is none. What a child leaves behind when
    it dies is one of ours the moment after.
    """
    _kill(os.killpg, child)  # it was not waited for: the number is still its own
    patience = time.monotonic() + _LONGEST_TICKS
    while time.monotonic() < patience:
        if _IS_LINUX:
            for pid in _children(os.getpid()):
                _kill(os.kill, pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.0005)


def _kill(kill: Any, number: int) -> None:
    try:
        kill(number, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _control(option: int, value: int) -> None:
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)  # at once: somebody waits for it
