"""The native modules that a template may expose, by name."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from holdfast.capabilities.database import Database
from holdfast.capabilities.exec import Exec
from holdfast.capabilities.fs import Fs
from holdfast.capabilities.native import Grant, NativeModule
from holdfast.domain import Capability, ModuleNotAllowed, TemplateSpec

_TABLE: Final[dict[str, type[NativeModule]]] = {module.name: module for module in (Fs, Exec, Database)}

MODULES: Final[tuple[dict[str, Any], ...]] = tuple(
    {
        "id": module.name,
        "name": module.name,
        "kind": "native",
        "description": module.description,
        "functions": list(module.functions()),
        "config": asdict(module.config_type()),
    }
    for module in _TABLE.values()
)
"""What is known of each, and the config that it has if none is given."""

_BUILT_IN: Final = frozenset(["array", "console", "date", "json", "math", "object", "promise", "string"])
_LONGEST: Final = 200
_KIND: Final = "module"


def check_module(name: str) -> str:
    """The name of a native module, in the one way in which it is written.

    >>> check_module(" FS ")
    'fs'
    """
    if not isinstance(name, str) or len(name) > _LONGEST:
        raise ModuleNotAllowed
    word = name.strip().lower()
    if not word:
        raise ModuleNotAllowed("the name of a module must not be blank")
    if word in _BUILT_IN:
        raise ModuleNotAllowed(f"{word} is part of the language: it is always there, and is no module")
    if word not in _TABLE:
        raise ModuleNotAllowed(f"there is no native module {word[:40]!r}; there are {', '.join(_TABLE)}")
    return word


def check_config(kind: str, name: str, config: Mapping[str, Any]) -> None:
    """`InvalidValue` if a capability is that of a native module, and its config is not one that the module takes."""
    if kind == _KIND and name in _TABLE:
        _TABLE[name].read_config(config)


def granted(spec: TemplateSpec) -> tuple[Grant, ...]:
    """The native modules that sessions of a template have: those that it exposes, with the configs of its capabilities."""
    configs = {capability.name: capability.config for capability in spec.capabilities if _is_config(capability)}
    return tuple(Grant(_TABLE[name], configs.get(name, {})) for name in spec.exposed if name in _TABLE)


def _is_config(capability: Capability) -> bool:
    return capability.kind == _KIND and capability.enabled
