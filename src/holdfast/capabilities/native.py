"""Native modules: what a script gets by `require("name")` is done by a Python object, made for its session alone.

Theory of operation
-------------------
A module is a class. Its methods that are marked with `effect` are the functions that scripts see, by the same names; their annotations are
what arguments are checked against. A template exposes modules by name, and may give each a config.

A session that runs has an object of each module that it has called, made from its worktree and that config, and closed when the
session leaves memory. Nothing of such an object is durable. What it keeps, such as a connection, must be of the kind that a script can
ask for again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from holdfast.capabilities._kinds import arguments, read_config
from holdfast.domain import EffectKind, HoldfastError, InvalidValue, WorktreeNotFound
from holdfast.sandbox import HostError

_MARK: Final = "effect_kind"
Method = TypeVar("Method", bound=Callable[..., Any])


def effect(kind: EffectKind) -> Callable[[Method], Method]:
    """Marks a method as a function that scripts see."""

    def mark(method: Method) -> Method:
        setattr(method, _MARK, kind)
        return method

    return mark


@dataclass(frozen=True, slots=True)
class Scope:
    """What a module knows of the session that it is made for."""

    worktree: str | None
    is_stopped: Callable[[], bool]
    """Whether the step that runs was told to stop. Whoever waits looks at this."""
    time_left: Callable[[bool], float]
    """Seconds until the step that runs exceeds a limit of time: that of all time, or with True also that of computing."""

    @property
    def root(self) -> str:
        """The worktree. Raises if there is none."""
        if self.worktree is None:
            raise WorktreeNotFound("this session has no worktree")
        return self.worktree


@dataclass(frozen=True, slots=True)
class NoConfig:
    """The config of a module that has none."""


class NativeModule:
    """What all modules are. Raise `HostError`, or another `HoldfastError`, into the script; anything else is a fault of the module."""

    name: ClassVar[str]
    description: ClassVar[str]
    config_type: ClassVar[type[Any]] = NoConfig
    """A dataclass, all of whose fields have defaults; it may raise `InvalidValue`, which begins with the field's name."""

    def __init__(self, scope: Scope, config: Any) -> None:
        """Must not fail: what is wrong with the session is told when something is called."""
        self.scope, self.config = scope, config

    def close(self) -> None:
        """Gives back what it holds. It is not called any more."""

    @classmethod
    def functions(cls) -> dict[str, EffectKind]:
        """What scripts see, in the order in which it is written, that of the base classes first."""
        found: dict[str, EffectKind] = {}
        for base in reversed(cls.__mro__):
            found |= {name: getattr(member, _MARK) for name, member in vars(base).items() if hasattr(member, _MARK)}
        return found

    @classmethod
    def read_config(cls, given: Mapping[str, Any]) -> Any:
        """The config, checked. Raises `InvalidValue`."""
        return read_config(cls.config_type, given, "config")


class Grant(NamedTuple):
    """A module that a template exposes, with its config."""

    module: type[NativeModule]
    config: Mapping[str, Any]


class NativeModules:
    """The modules of one session in memory. One thread at a time may use it."""

    def __init__(self, grants: Sequence[Grant], scope: Scope) -> None:
        self._grants, self._scope = grants, scope
        self._made: dict[str, NativeModule] = {}

    def functions(self) -> Iterator[tuple[str, Callable[..., Any], EffectKind]]:
        """All functions by their full names, as `module.name`."""
        for grant in self._grants:
            for name, kind in grant.module.functions().items():
                full = f"{grant.module.name}.{name}"
                yield full, partial(self._call, grant, full, getattr(grant.module, name)), kind

    def close(self) -> None:
        made, self._made = self._made, {}
        for module in made.values():
            module.close()

    def _call(self, grant: Grant, full: str, method: Callable[..., Any], /, *given: Any) -> Any:
        try:
            taken = arguments(full, method, given)
            return method(self._made.get(grant.module.name) or self._make(grant), *taken)
        except HostError:
            raise
        except HoldfastError as error:
            raise HostError(str(error), code=error.code) from None

    def _make(self, grant: Grant) -> NativeModule:
        kind = grant.module
        try:
            config = kind.read_config(grant.config)
        except InvalidValue as error:
            raise HostError(f"the template's config of {kind.name}: {error}", code="MODULE_CONFIG_INVALID") from None
        module = self._made[kind.name] = kind(self._scope, config)
        return module
