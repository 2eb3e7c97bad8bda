"""`exec`: programs that a template allows, run in the session's worktree.

A program is a part of the host, with all that the daemon's user may do: the sandbox ends where it begins. So a template names each by its
absolute path, and what may be given to it. What is done here is to start it in a clean place, and to make sure that it ends.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from holdfast.capabilities.exec import process
from holdfast.capabilities.exec.programs import MOST, Program, choose, open_program
from holdfast.capabilities.exec.seclusion import check_words, hidden_from
from holdfast.capabilities.files.worktree import open_folder
from holdfast.capabilities.native import NativeModule, effect, waits
from holdfast.domain import EffectKind, InvalidValue
from holdfast.sandbox import HostError

_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_MOST_OUTPUT: Final = 8 << 20
_MOST_MEMORY_MB: Final = 1 << 20
_MOST_PROCESSES: Final = 4_096
_MOST_INPUT: Final = 1 << 20
_MOST_ARGUMENTS: Final = 1_000
_LARGEST_ARGUMENTS: Final = 100_000
_SHOWN: Final = 2_000
_SIGNALLED: Final = 128


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """The programs that scripts may run, and what a run may use."""

    programs: tuple[str | Program, ...] = ()
    max_output_bytes: int = 1 << 20
    max_memory_mb: int = 1_024
    max_processes: int = 64

    def __post_init__(self) -> None:
        if len(self.programs) > MOST:
            raise InvalidValue(f"programs must be at most {MOST}")
        for at, program in enumerate(self.programs):
            if isinstance(program, str):
                _checked(at, program)
        most = {"max_output_bytes": _MOST_OUTPUT, "max_memory_mb": _MOST_MEMORY_MB, "max_processes": _MOST_PROCESSES}
        for name, largest in most.items():
            if not 1 <= getattr(self, name) <= largest:
                raise InvalidValue(f"{name} must be from 1 to {largest}")


def _checked(at: int, path: str) -> Program:
    try:
        return Program(path)
    except InvalidValue as error:
        raise InvalidValue(f"programs[{at}] {str(error).removeprefix('path ')}") from None


def _settled(at: int, given: Any, program: str | Program) -> dict[str, Any]:
    """A program of a config as a template keeps it: with what its path leads to."""
    where = f"config.programs[{at}]"
    try:
        found = (Program(program) if isinstance(program, str) else program).settled()
    except InvalidValue as error:
        field, _, problem = str(error).partition(" ")
        path = where if isinstance(program, str) else f"{where}.{field}"
        raise InvalidValue(f"{path} {problem}").with_details(field=path) from None
    kept = {"path": program} if isinstance(program, str) else dict(given)
    return {**kept, "real": found.real, **({"digest": found.digest} if found.digest else {})}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a script may say of a run, besides the program and its arguments."""

    cwd: str | None = None
    env: dict[str, str] | None = None
    input: str | None = None
    timeoutMs: float | None = None  # noqa: N815 - the name that scripts see

    def __post_init__(self) -> None:
        if self.timeoutMs is not None and not self.timeoutMs > 0:
            raise InvalidValue("timeoutMs must be more than 0")
        if self.input is not None and len(self.input.encode()) > _MOST_INPUT:
            raise InvalidValue(f"input must be at most {_MOST_INPUT} bytes")


class Exec(NativeModule):
    """Runs programs. None is allowed that the config does not name."""

    name: ClassVar[str] = "exec"
    description: ClassVar[str] = "Runs the programs that its config names, in the session's worktree."
    config_type: ClassVar[type[Any]] = ExecConfig
    most_timeout_ms: ClassVar[int] = 600_000

    @classmethod
    def settle(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What each path leads to is looked up when it is granted. What it leads to later is not allowed."""
        programs = cls.read_config(given).programs
        if not programs:
            return given
        return {**given, "programs": [_settled(at, given["programs"][at], one) for at, one in enumerate(programs)]}

    @effect(EffectKind.ONCE)
    def run(self, cmd: str, args: list[str] | None = None, options: RunOptions | None = None) -> str:
        """What a program writes, to its output and as errors. Raises if it does not end well."""
        ended = self._run(cmd, args or [], options or RunOptions(), merged=True)
        output = ended.output.decode(errors="replace")
        if ended.status is None:
            raise HostError("the program took too long", code="PROGRAM_TIMEOUT")
        if ended.status:
            how = f"ended with status {ended.status}" if ended.status > 0 else f"was ended by signal {-ended.status}"
            raise HostError(f"the program {how}: {output[:_SHOWN].strip()}".rstrip(": "), code="PROGRAM_FAILED")
        return output

    @effect(EffectKind.ONCE)
    def spawnSync(  # noqa: N802 - the name that scripts see
        self, cmd: str, args: list[str] | None = None, options: RunOptions | None = None
    ) -> dict[str, Any]:
        """How a program has ended, and what it wrote. The step waits for it."""
        return self._spawned(cmd, args, options)

    @waits(once=True)
    def spawn(self, cmd: str, args: list[str] | None = None, options: RunOptions | None = None) -> dict[str, Any]:
        """The same. The script waits for it, and takes no place meanwhile."""
        return self._spawned(cmd, args, options)

    def _spawned(self, cmd: str, args: list[str] | None, options: RunOptions | None) -> dict[str, Any]:
        ended = self._run(cmd, args or [], options or RunOptions(), merged=False)
        code = ended.status
        if code is not None and code < 0:  # as shells have it
            code = _SIGNALLED - code
        return {
            "code": code,
            "stdout": ended.output.decode(errors="replace"),
            "stderr": ended.errors.decode(errors="replace"),
            "timedOut": ended.status is None,
        }

    def _run(self, cmd: str, args: list[str], options: RunOptions, *, merged: bool) -> process.Ended:
        given = options.env or {}
        _check_size(args, given)
        program = choose(_programs(self.config), cmd, args, given)
        root = self.scope.root
        check_words([*args, *given.values()], root, options.cwd or ".")
        seconds = min(self.scope.time_left(), self.most_timeout_ms / 1000)
        if options.timeoutMs is not None:
            seconds = min(seconds, options.timeoutMs / 1000)
        with (
            open_folder(root) as top,
            open_folder(root, options.cwd or ".") as folder,
            open_program(program, os.fstat(top)) as opened,
        ):
            order = process.Order(
                program=opened,
                by_path=opened.is_script and not program.pinned,
                words=[cmd, *args],
                env=_environment(program, given),
                folder=folder,
                input=(options.input or "").encode(),
                seconds=max(0.0, seconds),
                merged=merged,
                most_output=self.config.max_output_bytes,
                most_memory=self.config.max_memory_mb << 20,
                most_processes=self.config.max_processes,
                hidden=hidden_from(root, os.fstat(top)),
            )
            return process.run(order, self.scope.is_stopped)


def _programs(config: ExecConfig) -> list[Program]:
    return [_checked(at, one) if isinstance(one, str) else one for at, one in enumerate(config.programs)]


def _environment(program: Program, given: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in program.inherit if name in os.environ}
    return {**_ENVIRONMENT, **inherited, **given}


def _check_size(args: list[str], env: Mapping[str, str]) -> None:
    words = [*args, *env, *env.values()]
    if len(words) > _MOST_ARGUMENTS or sum(len(word.encode()) + 1 for word in words) > _LARGEST_ARGUMENTS:
        message = f"at most {_MOST_ARGUMENTS} arguments and variables of {_LARGEST_ARGUMENTS} bytes in all"
        raise HostError(message, code="INVALID_ARGUMENT")
    if any("\0" in word for word in words):
        raise HostError("arguments and variables must not have NUL in them", code="INVALID_ARGUMENT")
