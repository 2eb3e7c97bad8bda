"""`exec`: programs that a template allows, run in the session's worktree.

A program is a part of the host, with all that the daemon's user may do: the sandbox ends where it begins. So a template names each by its
absolute path, and what is done here is only to start it in a clean place, and to make sure that it ends.
"""

import contextlib
import math
import os
import select
import signal
import stat
import subprocess
import time
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.capabilities.native import NativeModule, Scope, effect
from holdfast.capabilities.worktree import resolve_root
from holdfast.domain import EffectKind, InvalidValue, WorktreeNotFound
from holdfast.sandbox import HostError

try:
    import resource
except ImportError:  # a system without worktrees, where nothing is run
    resource = None  # type: ignore[assignment]

_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_LARGEST_OUTPUT: Final = 1 << 20
_LONGEST_MS: Final = 60_000
_MOST_PROGRAMS: Final = 100
_MOST_ARGUMENTS: Final = 1_000
_LARGEST_ARGUMENTS: Final = 100_000
_LARGEST_FILE: Final = 1 << 30
_MOST_FILES: Final = 256
_SHOWN: Final = 2_000
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """The programs that scripts may run, by absolute path, and how long each run may take."""

    programs: tuple[str, ...] = ()
    timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        if len(self.programs) > _MOST_PROGRAMS:
            raise InvalidValue(f"programs must be at most {_MOST_PROGRAMS}")
        if not all(program.startswith("/") and "\0" not in program for program in self.programs):
            raise InvalidValue("programs must be absolute paths")
        if not 1 <= self.timeout_ms <= _LONGEST_MS:
            raise InvalidValue(f"timeout_ms must be from 1 to {_LONGEST_MS}")


class _Ended(NamedTuple):
    status: int
    output: str


class Exec(NativeModule):
    """Runs programs. None is allowed that the config does not name."""

    name: ClassVar[str] = "exec"
    description: ClassVar[str] = "Runs the programs that its config names, in the session's worktree."
    config_type: ClassVar[type[Any]] = ExecConfig

    def __init__(self, scope: Scope, config: ExecConfig) -> None:
        super().__init__(scope, config)
        # What a name leads to is settled once, so that it is not changed under a session's feet.
        found = {program: _executable(program, scope.worktree) for program in config.programs}
        self._programs = {program: path for program, path in found.items() if path is not None}

    @effect(EffectKind.ONCE)
    def run(self, cmd: str, args: list[str] | None = None) -> str:
        """What a program writes, to its output and as errors. Raises if it does not end well."""
        program = self._programs.get(cmd)
        if program is None:
            raise HostError("this program is not one that the template allows", code="PROGRAM_NOT_ALLOWED")
        given = args or []
        size = sum(len(arg.encode()) + 1 for arg in given)
        if len(given) > _MOST_ARGUMENTS or size > _LARGEST_ARGUMENTS or any("\0" in arg for arg in given):
            message = f"at most {_MOST_ARGUMENTS} arguments of {_LARGEST_ARGUMENTS} bytes, without NUL"
            raise HostError(message, code="INVALID_ARGUMENT")
        root = self.scope.root
        if resolve_root(root) != root:  # it was replaced by a link
            raise WorktreeNotFound
        seconds = max(0.0, min(self.config.timeout_ms / 1000, self.scope.time_left(False)))
        ended = self._run(program, [cmd, *given], root, seconds)
        if ended.status != 0:
            how = f"ended with status {ended.status}" if ended.status > 0 else f"was ended by signal {-ended.status}"
            raise HostError(f"the program {how}: {ended.output[:_SHOWN].strip()}".rstrip(": "), code="PROGRAM_FAILED")
        return ended.output

    def _run(self, program: str, words: list[str], folder: str, seconds: float) -> _Ended:
        try:
            process = subprocess.Popen(
                words,
                executable=program,
                cwd=folder,
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own, and no terminal
            )
        except (OSError, ValueError):
            raise HostError("the program could not be started", code="PROGRAM_FAILED") from None
        with process:
            try:
                _limit(process.pid, seconds)
                output = self._follow(process, time.monotonic() + seconds)
            finally:
                # All that it has started, too. Nobody has waited for it yet, so that the number is still its own.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            return _Ended(process.wait(), output.decode(errors="replace"))

    def _follow(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        """What it writes until it ends. What it leaves running in the background is not waited for."""
        assert process.stdout is not None
        pipe, output, writes = process.stdout.fileno(), bytearray(), True
        os.set_blocking(pipe, False)
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        nap = 0.001
        while True:
            if self.scope.is_stopped():
                raise HostError("the execution was cancelled", code="CANCELLED")
            left = until - time.monotonic()
            if left <= 0:
                raise HostError("the program took too long", code="PROGRAM_TIMEOUT")
            if not writes:
                if _has_ended(process.pid):
                    return bytes(output)
                time.sleep(min(nap, left))
                nap = min(nap * 2, _LOOK_S)
                continue
            if poll.poll(min(_LOOK_S, left) * 1000):
                writes = _take(pipe, output)
            elif _has_ended(process.pid):  # others hold its output open
                _take(pipe, output)
                writes = False


def _take(pipe: int, output: bytearray) -> bool:
    """Whether there may be more."""
    try:
        data = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return False
    output += data
    if len(output) > _LARGEST_OUTPUT:
        raise HostError(f"the program wrote more than {_LARGEST_OUTPUT} bytes", code="OUTPUT_TOO_LARGE")
    return bool(data)


def _has_ended(pid: int) -> bool:
    """Whether a child has ended, which is still there to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _executable(program: str, worktree: str | None) -> str | None:
    """Where a program really is, if it is one. One in the worktree is none: a script may be able to write there."""
    real = os.path.realpath(program)
    if worktree is not None and real.startswith(worktree.rstrip("/") + "/"):
        return None
    try:
        is_file = stat.S_ISREG(os.stat(real).st_mode)
    except OSError:
        return None
    return real if is_file and os.access(real, os.X_OK) else None


def _limit(pid: int, seconds: float) -> None:
    """Limits of the system, from just after its start: between fork and exec no Python may run in a process with threads."""
    if resource is None or not hasattr(resource, "prlimit"):
        return
    most = {
        resource.RLIMIT_CPU: math.ceil(seconds) + 1,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _LARGEST_FILE,
        resource.RLIMIT_NOFILE: _MOST_FILES,
    }
    with contextlib.suppress(OSError):  # it has ended already
        for limit, wanted in most.items():
            hard = resource.prlimit(pid, limit)[1]
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.prlimit(pid, limit, (value, value))
