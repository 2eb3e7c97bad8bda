"""Values that come from outside, checked against the annotations of whoever takes them: arguments of scripts, and configs."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast.domain import InvalidValue
from holdfast.sandbox import HostError, Undefined

_SAFE: Final = 1 << 53
_PHRASES: Final = {
    str: "text",
    bytes: "bytes",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}
Config = TypeVar("Config")


class Mismatch(Exception):
    """A value is of another kind."""


class _Parameter(NamedTuple):
    name: str
    kind: Any
    needed: bool
    default: Any


def take(kind: Any, value: Any) -> Any:
    """A value as an annotation has it. Raises `Mismatch`.

    >>> take(int, 2.0), take(list[str], {}), take(str | None, None)
    (2, [], None)
    """
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _take_one_of(get_args(kind), value)
    if origin in (list, tuple):
        if value == {}:  # an empty table of Lua is either
            value = []
        if not isinstance(value, list | tuple):
            raise Mismatch
        return origin(take(get_args(kind)[0], item) for item in value)
    if kind is int and type(value) is float and value.is_integer():  # Lua has both
        value = int(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise Mismatch
    if kind is int and not -_SAFE <= value <= _SAFE:
        raise Mismatch
    if kind is str and not is_whole(value):
        raise Mismatch
    return value


def _take_one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return take(kind, value)
        except Mismatch:
            continue
    raise Mismatch


def phrase(kind: Any) -> str:
    """What an annotation asks for, in words.

    >>> phrase(str | bytes | None), phrase(list[str])
    ('text or bytes', 'a list, each text')
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return " or ".join(phrase(one) for one in get_args(kind) if one is not NoneType)
    if origin in (list, tuple):
        return f"a list, each {phrase(get_args(kind)[0])}"
    return _PHRASES.get(kind, "something else")


def arguments(called: str, method: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    """What a script gave, as a method wants it. What is undefined, or null, is as if it had been left out."""
    parameters, others = _parameters(method)
    if len(given) > len(parameters) and others is None:
        raise _refused(f"{called} takes at most {len(parameters)} arguments")
    taken: list[Any] = []
    for at, parameter in enumerate(parameters):
        value = given[at] if at < len(given) else None
        if value is None or value is Undefined:
            if parameter.needed:
                raise _refused(f"{called}: {parameter.name} is missing")
            taken.append(parameter.default)
            continue
        taken.append(_taken(f"{called}: {parameter.name}", parameter.kind, value))
    return taken + [_taken(f"{called}: argument {at}", others, given[at]) for at in range(len(parameters), len(given))]


def _taken(what: str, kind: Any, value: Any) -> Any:
    try:
        return take(kind, value)
    except Mismatch:
        raise _refused(f"{what} must be {phrase(kind)}") from None


def _refused(message: str) -> HostError:
    return HostError(message, code="INVALID_ARGUMENT")


@cache
def _parameters(method: Callable[..., Any]) -> tuple[list[_Parameter], Any]:
    """The parameters after `self`, and the kind of any number of others; None if there are no others."""
    signature = inspect.signature(method, eval_str=True)
    others: Any = None
    found: list[_Parameter] = []
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            others = parameter.annotation
        else:
            needed = parameter.default is parameter.empty
            found.append(_Parameter(parameter.name, parameter.annotation, needed, parameter.default))
    return found, others


def read_config(kind: type[Config], given: Mapping[str, Any], where: str) -> Config:
    """A config as a dataclass whose fields all have defaults. Raises `InvalidValue`, which names the field."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    taken = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidValue(f"there is no {where}.{name[:40]}; there is {', '.join(known) or 'nothing'}")
        try:
            taken[name] = take(hints[name], value)
        except Mismatch:
            raise InvalidValue(f"{where}.{name} must be {phrase(hints[name])}") from None
    try:
        return kind(**taken)
    except InvalidValue as error:
        raise InvalidValue(f"{where}.{error}") from None


def is_whole(text: str) -> bool:
    """Whether there is no half of a surrogate pair in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
