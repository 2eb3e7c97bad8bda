"""Native modules: what a script gets by `require("name")` is done by a Python object, made for its session alone.

Theory of operation
-------------------
A module is a class. Its methods that are marked with `effect` are functions that scripts call within a step; those that are marked with
`waits` are ones that a script waits for: it pauses, durably, and the runtime does the work. Annotations are what arguments are checked
against. What scripts see are these functions by their names, or what a few lines of glue in their own language make of them.

A session that runs has an object of each module that it has called, made from its worktree and the template's config, and closed when
the session leaves memory. Nothing of such an object is durable. What it keeps, such as a connection, must be of the kind that a script
can ask for again. A call that a script waits for has an object to itself.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, TypeVar
from uuid import UUID

from holdfast.capabilities._kinds import arguments, read_config
from holdfast.capabilities._meter import Meter, is_refusal
from holdfast.capabilities._shared import Shared
from holdfast.capabilities.state.overlay import Overlay
from holdfast.domain import DEFAULT_TENANT, EffectKind, HoldfastError, InvalidValue, Principal, WorktreeNotFound
from holdfast.sandbox import HostError
from holdfast.store import StoreDamaged, StoreError

_log: Final = logging.getLogger("holdfast.capabilities")
_EFFECT: Final = "effect_kind"
_WAITS: Final = "waits_once"
_COMMON: Final = ("timeout_ms", "max_calls")
_NOBODY: Final = Principal()
_MOST_CALLS: Final = 1_000_000
Method = TypeVar("Method", bound=Callable[..., Any])


def effect(kind: EffectKind) -> Callable[[Method], Method]:
    """Marks a method as a function that scripts call within a step."""

    def mark(method: Method) -> Method:
        setattr(method, _EFFECT, kind)
        return method

    return mark


def waits(*, once: bool) -> Callable[[Method], Method]:
    """Marks a method as a function that scripts wait for, on a thread of its own. With `once` it is never begun a second time."""

    def mark(method: Method) -> Method:
        setattr(method, _WAITS, once)
        return method

    return mark


class _Wait(NamedTuple):
    """A call that a script waits for, under way on this thread."""

    until: float
    stop: threading.Event


class Scope:
    """What a module knows of the session that it is made for, and of the call that it does."""

    def __init__(
        self,
        session_id: UUID,
        template_id: UUID,
        worktree: str | None,
        *,
        tenant: str = DEFAULT_TENANT,
        is_stopped: Callable[[], bool] = bool,
        time_left: Callable[[bool], float] = lambda computing: math.inf,
        step: Callable[[], int] = int,
        state: Overlay | None = None,
        shared: Shared | None = None,
        owner: Principal = _NOBODY,
        mem_mb: int = 128,
        charge: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.session_id, self.template_id, self.worktree, self.tenant = session_id, template_id, worktree, tenant
        self.owner, self.mem_mb, self.charge = owner, mem_mb, charge
        """Who the session belongs to; its limit of memory; and how it is told of seconds that other processes have computed for it."""
        self.shared = shared or Shared()
        """What the modules of all sessions share."""
        self._is_stopped, self._time_left, self.step = is_stopped, time_left, step
        self._state = state
        self.until = math.inf
        """When the time of a call within a step is up. There is one at a time."""
        self._waits = threading.local()

    @property
    def root(self) -> str:
        """The worktree. Raises if there is none."""
        if self.worktree is None:
            raise WorktreeNotFound("this session has no worktree")
        return self.worktree

    @property
    def state(self) -> Overlay:
        """The state as the step that runs sees it. For functions of the kind `STATE`, which a script does not wait for."""
        if self._state is None:
            raise HostError("there is no state here", code="STATE_UNAVAILABLE")
        return self._state

    def is_stopped(self) -> bool:
        """Whether the call was told to stop, with its step or with its execution. Whoever waits looks at this."""
        wait: _Wait | None = getattr(self._waits, "wait", None)
        return self._is_stopped() if wait is None else wait.stop.is_set()

    def time_left(self, computing: bool = False) -> float:
        """Seconds until the call's time is up, or a limit of time of its step: that of all time, or with True also of computing."""
        wait: _Wait | None = getattr(self._waits, "wait", None)
        now = time.monotonic()
        return min(self.until - now, self._time_left(computing)) if wait is None else wait.until - now

    @contextmanager
    def waiting(self, seconds: float, stop: threading.Event) -> Iterator[None]:
        """A call that a script waits for runs on this thread, for at most so long."""
        self._waits.wait = _Wait(time.monotonic() + seconds, stop)
        try:
            yield
        finally:
            del self._waits.wait


@dataclass(frozen=True, slots=True)
class NoConfig:
    """The config of a module that has none."""


class Limits(NamedTuple):
    """What the config of any module may say."""

    timeout_ms: int
    max_calls: int


class NativeModule:
    """What all modules are. Raise `HostError`, or another `HoldfastError`, into the script; anything else is a fault of the module."""

    name: ClassVar[str]
    description: ClassVar[str]
    config_type: ClassVar[type[Any]] = NoConfig
    """A dataclass, all of whose fields have defaults; it may raise `InvalidValue`, which begins with the field's name."""
    confined_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of the config by which nothing of the host is reached: administrators of all tenants may set them. All others are for
    operators."""
    timeout_ms: ClassVar[int] = 10_000
    """How long a call may take, unless the config says otherwise."""
    most_timeout_ms: ClassVar[int] = 60_000
    max_calls: ClassVar[int] = 10_000
    """How many calls one step may make, unless the config says otherwise."""
    javascript: ClassVar[str] = ""
    """Glue: the body of a CommonJS module that finds the functions in `host`."""
    lua: ClassVar[str] = ""
    """Glue: a chunk that finds the functions in `host`, and returns the module."""
    members: ClassVar[tuple[str, ...]] = ()
    """What scripts see, if glue makes something else of the functions."""

    def __init__(self, scope: Scope, config: Any) -> None:
        """Must not fail: what is wrong with the session is told when something is called."""
        self.scope, self.config = scope, config

    def close(self) -> None:
        """Gives back what it holds. It is not called any more."""

    @classmethod
    def functions(cls) -> dict[str, EffectKind]:
        """What scripts call within a step, in the order in which it is written, that of the base classes first."""
        return cls._marked(_EFFECT)

    @classmethod
    def waiting(cls) -> dict[str, bool]:
        """What scripts wait for, and whether it is done once."""
        return cls._marked(_WAITS)

    @classmethod
    def exports(cls) -> list[str]:
        """What scripts see."""
        return list(cls.members or (*cls.functions(), *cls.waiting()))

    @classmethod
    def _marked(cls, mark: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            found |= {name: getattr(member, mark) for name, member in vars(base).items() if hasattr(member, mark)}
        return found

    @classmethod
    def read_config(cls, given: Mapping[str, Any]) -> Any:
        """The module's own config, checked, with what is common to all. Raises `InvalidValue`."""
        cls.read_limits(given)
        return read_config(cls.config_type, {name: value for name, value in given.items() if name not in _COMMON}, "config")

    @classmethod
    def settle(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """A config as a template keeps it: what is looked up once, when it is granted, is looked up here. Raises `InvalidValue`."""
        cls.read_config(given)
        return given

    @classmethod
    def host_fields(cls, given: Mapping[str, Any]) -> list[str]:
        """Fields of a config, which may be invalid, by which scripts reach the host: all that are not the default, but for those that
        the module declares as confined. It looks at nothing of the host, so that nobody is told what is there.
        """
        defaults = {
            one.name: one.default if one.default_factory is MISSING else one.default_factory()
            for one in fields(cls.config_type)
        }
        reaching = given.keys() - cls.confined_fields - set(_COMMON)
        return sorted(name for name in reaching if name not in defaults or given[name] != defaults[name])

    @classmethod
    def read_limits(cls, given: Mapping[str, Any]) -> Limits:
        """What a config says that is common to all modules. Raises `InvalidValue`."""
        most = {"timeout_ms": cls.most_timeout_ms, "max_calls": _MOST_CALLS}
        for name in _COMMON:
            value = given.get(name, 1)
            if type(value) is not int or not 1 <= value <= most[name]:
                raise InvalidValue(f"config.{name} must be a whole number from 1 to {most[name]}").with_details(
                    field=f"config.{name}"
                )
        return Limits(given.get("timeout_ms", cls.timeout_ms), given.get("max_calls", cls.max_calls))


class Grant(NamedTuple):
    """A module that a template grants, with its config."""

    module: type[NativeModule]
    config: Mapping[str, Any]

    def made(self, scope: Scope) -> tuple[NativeModule, Limits]:
        """An object of the module. A config that it does not take any more is an error of the call."""
        kind = self.module
        try:
            limits, config = kind.read_limits(self.config), kind.read_config(self.config)
        except InvalidValue as error:
            raise HostError(f"the template's config of {kind.name}: {error}", code="MODULE_CONFIG_INVALID") from None
        return kind(scope, config), limits


class Waiting(NamedTuple):
    """A function that scripts wait for."""

    call: Callable[[Any, threading.Event], Any]
    """Takes the list of arguments, and what tells it to stop."""
    once: bool
    most: int
    """For how many calls of its module one step may wait."""


class _Made:
    """A module of a session, and how often the step that runs has called it."""

    def __init__(self, grant: Grant, scope: Scope) -> None:
        self.module, self._limits = grant.made(scope)
        self.seconds = self._limits.timeout_ms / 1000
        self._scope = scope
        self._step = self._calls = -1

    def count(self) -> None:
        step = self._scope.step()
        if step != self._step:
            self._step, self._calls = step, 0
        self._calls += 1
        if self._calls > self._limits.max_calls:
            message = f"a step calls {self.module.name} at most {self._limits.max_calls} times"
            raise HostError(message, code="CALLS_EXCEEDED")


class NativeModules:
    """The modules of one session in memory. One thread at a time may use it, but for calls that a script waits for."""

    def __init__(self, grants: Sequence[Grant], scope: Scope, meter: Meter) -> None:
        self._grants, self._scope, self._meter = grants, scope, meter
        self._made: dict[str, _Made] = {}

    def functions(self) -> Iterator[tuple[str, Callable[..., Any], EffectKind]]:
        """All functions that are called within a step, by their full names, as `module.name`."""
        for grant in self._grants:
            for name, kind in grant.module.functions().items():
                yield f"{grant.module.name}.{name}", partial(self._call, grant, name, getattr(grant.module, name)), kind

    def waiting(self) -> Iterator[tuple[str, Waiting]]:
        """All functions that a script waits for, by their full names."""
        for grant in self._grants:
            module = grant.module
            given = grant.config.get("max_calls", module.max_calls)
            most = given if isinstance(given, int) else module.max_calls
            for name, once in module.waiting().items():
                yield f"{module.name}.{name}", Waiting(partial(self._wait, grant, name, getattr(module, name)), once, most)

    def close(self) -> None:
        made, self._made = self._made, {}
        for one in made.values():
            _close(one.module)

    def _call(self, grant: Grant, name: str, method: Callable[..., Any], /, *given: Any) -> Any:
        def work() -> Any:
            made = self._made.get(grant.module.name)
            if made is None:
                made = self._made[grant.module.name] = _Made(grant, self._scope)
            made.count()
            taken = arguments(f"{grant.module.name}.{name}", method, given)
            self._scope.until = time.monotonic() + made.seconds
            return method(made.module, *taken)

        return self._counted(grant.module.name, name, work)

    def _wait(self, grant: Grant, name: str, method: Callable[..., Any], given: Any, stop: threading.Event) -> Any:
        def work() -> Any:
            taken = arguments(f"{grant.module.name}.{name}", method, given if isinstance(given, list) else [given])
            module, limits = grant.made(self._scope)
            try:
                with self._scope.waiting(limits.timeout_ms / 1000, stop):
                    return method(module, *taken)
            finally:
                _close(module)

        return self._counted(grant.module.name, name, work)

    def _counted(self, module: str, name: str, work: Callable[[], Any]) -> Any:
        """Does a call, counts it by its outcome, and raises what a script may see."""
        begun = time.perf_counter()
        outcome = "error"
        try:
            result = work()
            outcome = "ok"
            return result
        except StoreDamaged as error:  # of what the script asked for; it is so the next time as well
            raise _told(error)[0] from None
        except StoreError:  # a store that is away or full is no error of the script: whoever runs the step sees to it
            raise
        except HoldfastError as error:
            told, outcome = _told(error)
            raise told from None
        finally:
            self._meter.count(module, name, outcome, time.perf_counter() - begun)


def _close(module: NativeModule) -> None:
    """What goes wrong at the end of a module must not keep others, nor their session, from theirs."""
    try:
        module.close()
    except Exception:  # noqa: BLE001 - another package's code may raise anything
        _log.exception("the module %s could not be closed", module.name)


def _told(error: HoldfastError) -> tuple[HostError, str]:
    """An error as a script may see it, and how it is counted."""
    told = error if isinstance(error, HostError) else HostError(str(error), code=error.code)
    return told, "refused" if is_refusal(told.script_code) else "error"
