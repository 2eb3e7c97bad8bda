"""`env`: the environment variables that a template names, and no others."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from holdfast.capabilities.native import NativeModule, effect
from holdfast.domain import EffectKind, InvalidValue
from holdfast.sandbox import HostError

_MOST: Final = 1_000
_LARGEST: Final = 64 << 10
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_OURS: Final = "HOLDFAST_"
"""How variables begin that set up the daemon: its tokens and its store are among them."""


@dataclass(frozen=True, slots=True)
class EnvConfig:
    """Names of variables whose values are those of the daemon's environment, and variables with values of their own."""

    names: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, metadata={"secret": True})

    def __post_init__(self) -> None:
        if len(self.names) + len(self.values) > _MOST:
            raise InvalidValue(f"names and values must be at most {_MOST}")
        for at, name in enumerate(self.names):
            if not _NAME.fullmatch(name):
                raise InvalidValue(f"names[{at}] must be a name of letters, digits and _")
            if name.upper().startswith(_OURS):
                raise InvalidValue(f"names[{at}] must not be a variable that sets up Holdfast itself")
        for name, value in self.values.items():
            if not _NAME.fullmatch(name):
                raise InvalidValue("values must have names of letters, digits and _")
            if len(value) > _LARGEST:
                raise InvalidValue(f"values.{name} must have at most {_LARGEST} characters")


class Env(NativeModule):
    """Of a variable that is in both, the value of the config counts."""

    name: ClassVar[str] = "env"
    description: ClassVar[str] = "Gives the environment variables that its config names."
    config_type: ClassVar[type[Any]] = EnvConfig
    confined_fields: ClassVar[frozenset[str]] = frozenset({"values"})

    @effect(EffectKind.READ)
    def get(self, name: str, default: str | None = None) -> str | None:
        """The value of a variable; the default, or nothing, if the daemon does not have it."""
        if name not in self.config.values and name not in self.config.names:
            raise HostError(f"the template does not allow the variable {name[:100]}", code="VARIABLE_NOT_ALLOWED")
        value = self._value(name)
        return default if value is None else value

    @effect(EffectKind.READ)
    def all(self) -> dict[str, str]:
        """All that are set, by name."""
        found = {name: self._value(name) for name in sorted({*self.config.names, *self.config.values})}
        return {name: value for name, value in found.items() if value is not None}

    def _value(self, name: str) -> str | None:
        own: str | None = self.config.values.get(name)
        if own is not None:
            return own
        value = os.environ.get(name)
        return None if value is None else os.fsencode(value).decode(errors="replace")[:_LARGEST]
