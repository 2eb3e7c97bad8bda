"""The native modules that a template may grant, by name: ours, and those of other packages.

Another package offers a module by an entry point of the group `holdfast.capabilities`, which leads to a class. One that cannot be loaded,
or has a name that is taken, is left out and logged: it must not keep Holdfast from starting.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import import_module
from typing import Any, Final

from holdfast.capabilities.native import Grant, NativeModule
from holdfast.domain import Capability, ModuleNotAllowed, TemplateSpec

GROUP: Final = "holdfast.capabilities"
KIND: Final = "module"
"""The kind of the capabilities that are about modules."""

_log: Final = logging.getLogger("holdfast.capabilities")
_OURS: Final = {
    "fs": "files.fs:Fs",
    "exec": "exec.module:Exec",
    "database": "database.module:Database",
    "http": "http.module:Http",
    "state": "state.module:State",
    "card": "cards.module:Card",
    "env": "env:Env",
    "clock": "clock:Clock",
    "random": "entropy:Random",
    "crypto": "digest:Crypto",
}
"""Where each is. They are imported when the first template needs one: many programs never do, and wait for every import."""
_BUILT_IN: Final = frozenset(["array", "console", "date", "json", "math", "object", "promise", "string"])
_LONGEST: Final = 200


@cache
def modules() -> Mapping[str, type[NativeModule]]:
    """All native modules, by name."""
    from importlib.metadata import entry_points

    found = {name: _imported(place) for name, place in _OURS.items()}
    for point in entry_points(group=GROUP):
        try:
            module = point.load()
            _check(module, found)
        except Exception:  # noqa: BLE001 - another package's code may raise anything
            _log.exception("the capability %s cannot be used", point.name)
            continue
        found[module.name] = module
    return found


def _imported(place: str) -> type[NativeModule]:
    file, _, name = place.partition(":")
    module: type[NativeModule] = getattr(import_module(f"{__package__}.{file}"), name)
    return module


def _check(module: Any, found: Mapping[str, Any]) -> None:
    if not isinstance(module, type) or not issubclass(module, NativeModule):
        raise TypeError("it is not a class that is derived from NativeModule")
    name = module.name
    taken = {*_BUILT_IN, *found, "holdfast"}
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower() or name in taken:
        raise ValueError("its name is not an identifier in lower case, or is taken")
    module.read_config({})


def describe() -> list[dict[str, Any]]:
    """What is known of each, and the config that it has if none is given."""
    return [
        {
            "id": module.name,
            "name": module.name,
            "kind": "native",
            "description": module.description,
            "functions": module.exports(),
            "config": {**asdict(module.config_type()), "timeout_ms": module.timeout_ms, "max_calls": module.max_calls},
        }
        for module in modules().values()
    ]


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
    if word not in modules():
        raise ModuleNotAllowed(f"there is no native module {word[:40]!r}; there are {', '.join(modules())}")
    return word


def host_grants(spec: TemplateSpec) -> list[tuple[Capability, str]]:
    """Grants of modules that reach the host and are not by an operator, each with the field: not for other tenants than the default."""
    found = [one for one in spec.capabilities if one.kind == KIND and one.enabled and one.config and not one.by_operator]
    return [
        (one, fields[0]) for one in found if one.name in modules() and (fields := modules()[one.name].host_fields(one.config))
    ]


def granted(spec: TemplateSpec) -> tuple[Grant, ...]:
    """The native modules that sessions of a template have: those that it exposes or has an enabled capability for, with the configs of
    its capabilities. A capability that is not enabled denies.
    """
    about = {capability.name: capability for capability in spec.capabilities if capability.kind == KIND}
    names = dict.fromkeys([*spec.exposed, *about])
    if not names:  # to look for other packages' modules takes a while
        return ()
    return tuple(
        Grant(modules()[name], about[name].config if name in about else {})
        for name in names
        if name in modules() and (name not in about or about[name].enabled)
    )
