"""Values that come from outside, checked against the annotations of whoever takes them: arguments of scripts, and configs."""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast.domain import InvalidValue
from holdfast.sandbox import HostError, Undefined

_SAFE: Final = 1 << 53
_LONGEST_KEY: Final = 40
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_PATH: Final = re.compile(r"([A-Za-z_]\w*)(\.[A-Za-z_]\w*|\[\d+\])*", re.ASCII)
_PHRASES: Final = {
    str: "text",
    bytes: "bytes",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}
_SIMPLE: Final = (bool, bytes, float)
"""Of these kinds any value will do."""
Config = TypeVar("Config")


class Mismatch(Exception):
    """A value is of another kind: `path` leads to the part that is, as `.programs[0].path`, and `problem` goes after it."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(path + problem)
        self.problem, self.path = problem, path

    def below(self, step: str) -> "Mismatch":
        """The same, seen from one level up."""
        return Mismatch(self.problem, step + self.path)


class _Parameter(NamedTuple):
    name: str
    kind: Any
    needed: bool
    default: Any


def take(kind: Any, value: Any) -> Any:
    """A value as an annotation has it. Raises `Mismatch`.

    Lists, dictionaries by text and dataclasses may be nested: an object becomes a dataclass, by the names of its fields.

    >>> take(int, 2.0), take(list[str], {}), take(str | None, None), take(dict[str, int], {"a": 1})
    (2, [], None, {'a': 1})
    """
    if kind is Any or (type(value) is kind and (kind in _SIMPLE or (kind is str and is_whole(value)))):
        return value
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _take_one_of(kind, value)
    if origin is Literal:
        if not any(type(known) is type(value) and known == value for known in get_args(kind)):
            _refuse(kind)
        return value
    if origin in (list, tuple):
        if value == {}:  # an empty table of Lua is either
            value = []
        if not isinstance(value, list | tuple):
            _refuse(kind)
        return origin(_take_items(get_args(kind)[0], value))
    if origin in (dict, Mapping):
        return _take_mapping(kind, value)
    if is_dataclass(kind):
        return _take_fields(kind, value)
    if kind is int and type(value) is float and value.is_integer():  # Lua has both
        value = int(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        _refuse(kind)
    if kind is int and not -_SAFE <= value <= _SAFE:
        _refuse(kind)
    if kind is str and not is_whole(value):
        _refuse(kind)
    return value


def _refuse(kind: Any) -> NoReturn:
    raise Mismatch(f" must be {phrase(kind)}")


def _below(step: str, kind: Any, value: Any) -> Any:
    try:
        return take(kind, value)
    except Mismatch as found:
        raise found.below(step) from None


def _take_items(kind: Any, values: Sequence[Any]) -> list[Any]:
    taken: list[Any] = []
    for item in values:
        try:
            taken.append(take(kind, item))
        except Mismatch as found:
            raise found.below(f"[{len(taken)}]") from None
    return taken


def _take_one_of(kind: Any, value: Any) -> Any:
    nearest: Mismatch | None = None
    for one in get_args(kind):
        try:
            return take(one, value)
        except Mismatch as found:
            if found.path or (is_dataclass(one) and isinstance(value, Mapping)):
                nearest = found  # it is of this kind, but for a part of it
    raise nearest or Mismatch(f" must be {phrase(kind)}")


def _take_mapping(kind: Any, value: Any) -> dict[str, Any]:
    if value == []:  # an empty table of Lua, again
        value = {}
    if not isinstance(value, Mapping):
        _refuse(kind)
    for key in value:
        if not isinstance(key, str) or not is_whole(key):
            raise Mismatch(" must have text for keys")
    return {key: _below(_step(key), get_args(kind)[1], item) for key, item in value.items()}


def _take_fields(kind: Any, value: Any) -> Any:
    """An object as a dataclass. What is undefined is as if it had been left out."""
    if not isinstance(value, Mapping):
        _refuse(kind)
    known = _fields(kind)
    taken = {}
    for name, item in value.items():
        if name not in known:
            raise Mismatch(f" is not known here; there is {', '.join(known) or 'nothing'}", _step(name))
        if item is not Undefined:
            taken[name] = _below(f".{name}", known[name].kind, item)
    for name, field in known.items():
        if field.needed and name not in taken:
            raise Mismatch(" is missing", f".{name}")
    try:
        return kind(**taken)
    except InvalidValue as error:
        raise _blamed(str(error), known) from None


def _blamed(message: str, known: Mapping[str, Any]) -> Mismatch:
    """What a dataclass says of itself begins with the field that is wrong, or with a path below it; or it is about all of it."""
    found = _PATH.match(message)
    if found is None or found[1] not in known:
        return Mismatch(f": {message}")
    return Mismatch(message[found.end() :], f".{found[0]}")


def _step(key: Any) -> str:
    shown = str(key)[:_LONGEST_KEY]
    return f".{shown}" if _PLAIN_KEY.fullmatch(shown) else f"[{json.dumps(shown)}]"


@cache
def _fields(kind: Any) -> dict[str, "_Parameter"]:
    hints = get_type_hints(kind)
    return {
        field.name: _Parameter(
            field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING, field.default
        )
        for field in fields(kind)
        if field.init
    }


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
    if origin is Literal:
        return " or ".join(map(str, get_args(kind)))
    if origin in (dict, Mapping):
        return f"an object, each value {phrase(get_args(kind)[1])}"
    if is_dataclass(kind):
        return "an object"
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
        try:
            taken.append(take(parameter.kind, value))
        except Mismatch as found:
            raise _refused(f"{called}: {parameter.name}{found.path}{found.problem}") from None
    for at in range(len(parameters), len(given)):
        try:
            taken.append(take(others, given[at]))
        except Mismatch as found:
            raise _refused(f"{called}: argument {at}{found.path}{found.problem}") from None
    return taken


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
    """A config as a dataclass. Raises `InvalidValue`, which begins with the path of the bad field and has it in its details."""
    try:
        config: Config = take(kind, given)
    except Mismatch as found:
        path = where + found.path
        raise InvalidValue(path + found.problem).with_details(field=path) from None
    return config


def is_whole(text: str) -> bool:
    """Whether there is no half of a surrogate pair in it."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
