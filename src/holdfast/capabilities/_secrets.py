"""Configs as they are shown to people and programs: fields that are marked as secret are hidden.

A field is marked by its metadata: `dsn: str = field(default="", metadata={"secret": True})`. It may be at any depth.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from holdfast.capabilities.native import NativeModule

_HIDDEN: Final = "***"


def shown_config(module: type[NativeModule], given: Mapping[str, Any]) -> dict[str, Any]:
    """What holds for a module that is granted with a config, defaults and all. Raises `InvalidValue`."""
    return {**_shown(module.read_config(given)), **module.read_limits(given)._asdict()}


def masked_config(module: type[NativeModule] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """A config as it was given. Of a module that is not there nobody knows what is secret: all of it is."""
    if module is None:
        return {name: _hidden(value) for name, value in given.items()}
    return dict(_masked(module.config_type, given))


def _shown(value: Any) -> Any:
    """A config that was read, as JSON, with all its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _hidden(getattr(value, field.name))
            if field.metadata.get("secret")
            else _shown(getattr(value, field.name))
            for field in fields(value)
            if field.init
        }
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_shown(item) for item in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _masked(kind: Any, given: Any) -> Any:
    """A config as it was given, with the secrets hidden that a dataclass of this kind has, whether it takes the rest or not."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        for one in get_args(kind):  # the first that hides something: a part is of one kind at most
            found = _masked(one, given)
            if found != given:
                return found
        return given
    if is_dataclass(kind) and isinstance(given, Mapping):
        secret = {field.name for field in fields(kind) if field.metadata.get("secret")}
        hints = get_type_hints(kind)
        return {name: _hidden(item) if name in secret else _masked(hints.get(name, Any), item) for name, item in given.items()}
    if origin in (list, tuple) and isinstance(given, list | tuple):
        return [_masked(get_args(kind)[0], item) for item in given]
    if origin in (dict, Mapping) and isinstance(given, Mapping):
        return {key: _masked(get_args(kind)[1], item) for key, item in given.items()}
    return given


def _hidden(value: Any) -> Any:
    """What is not set is no secret. Of several values the names stay."""
    if isinstance(value, Mapping):
        return {key: _hidden(item) for key, item in value.items()}
    return _HIDDEN if value not in (None, "", (), []) else value
