"""Kinds of values that a configuration has: how each is read, from a file's types and from text, and what is refused."""

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.domain import USAGE_LIMITS, HoldfastError, InvalidValue, Limits, Quotas, RepeatedKey, check_ceiling, read_json

_NUMBER: Final = re.compile(r"[+-]?\d{1,18}")
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_ORIGIN: Final = re.compile(r"https?://([a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:\d{1,5})?")
_YES: Final = frozenset({"1", "true", "yes", "on"})
_NO: Final = frozenset({"0", "false", "no", "off"})
_MOST: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Kind:
    """`read` takes a value of its own type, `parse` takes text of the environment or of a flag. Both raise ValueError: `must be ...`."""

    label: str
    read: Callable[[Any], Any]
    parse: Callable[[str], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or any(ord(letter) < 32 for letter in value):
        raise ValueError("must be text in one line")
    return value.strip()


def split_address(value: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 address is in brackets.

    >>> split_address("[::1]:3210")
    ('::1', 3210)
    """
    host, separator, port = value.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("must be host:port, with a port from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(host[1:-1])), int(port)
        except ValueError:
            raise ValueError("must have an IPv6 address between the brackets, as in [::1]:3210") from None
    if ":" in host:
        raise ValueError("must have an IPv6 address in brackets, as in [::1]:3210")
    if not _HOST.fullmatch(host):
        raise ValueError("must be host:port; every address of this machine is 0.0.0.0 or [::]")
    return host, int(port)


def _address(value: Any) -> str:
    address = _text(value)
    split_address(address)
    return address


def _store(value: Any) -> str:
    address = _text(value)
    scheme, _, rest = address.partition(":")
    known = address == "memory:" or (scheme == "sqlite" and rest.startswith("///") and len(rest) > 3)
    if not known and not (scheme in ("postgresql", "postgres") and rest):
        raise ValueError("must be memory:, sqlite:///file or postgresql://host/database")
    return address


def _path(value: Any) -> Path:
    if not isinstance(value, Path):
        value = Path(_text(value))
    try:
        path: Path = value.expanduser()
    except RuntimeError:
        raise ValueError("must be a path; this user has no home directory") from None
    return path.absolute()


def _path_or_none(value: Any) -> Path | None:
    """`none` is no path: TOML has no null."""
    none = value is None or (isinstance(value, str) and value.strip().lower() == "none")
    return None if none else _path(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _parse_switch(text: str) -> bool:
    word = text.strip().lower()
    if word not in _YES | _NO:
        raise ValueError("must be true or false")
    return word in _YES


ADDRESS: Final = Kind("host:port", _address, _address)
STORE: Final = Kind("store", _store, _store)
PATH: Final = Kind("path", _path, _path)
PATH_OR_NONE: Final = Kind("path or none", _path_or_none, _path_or_none)
SWITCH: Final = Kind("true or false", _switch, _parse_switch)


def choice(*words: str) -> Kind:
    """One of some words."""

    def read(value: Any) -> str:
        word = value.strip().lower() if isinstance(value, str) else value
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(word)

    return Kind(" | ".join(words), read, read)


def whole(low: int, high: int = _MOST) -> Kind:
    """A whole number."""
    bounds = f"must be a whole number from {low} to {high}" if high < _MOST else f"must be a whole number, {low} or more"

    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(bounds)
        return value

    def parse(text: str) -> int:
        word = text.strip().replace("_", "")
        if not _NUMBER.fullmatch(word):
            raise ValueError(bounds)
        return read(int(word))

    return Kind("whole number", read, parse)


def whole_or_none(low: int) -> Kind:
    """A whole number, or `none`: TOML has no null."""
    number = whole(low)

    def read(value: Any) -> int | None:
        if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
            return None
        try:
            return int(number.read(value))
        except ValueError as error:
            raise ValueError(f"{error}, or none") from None

    def parse(text: str) -> int | None:
        if text.strip().lower() == "none":
            return None
        try:
            return int(number.parse(text))
        except ValueError as error:
            raise ValueError(f"{error}, or none") from None

    return Kind("whole number or none", read, parse)


def number(low: float, high: float) -> Kind:
    """A number, with a fraction or without."""
    bounds = f"must be a number from {low:g} to {high:g}"

    def read(value: Any) -> float:
        if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
            raise ValueError(bounds)
        return float(value)

    def parse(text: str) -> float:
        try:
            return read(float(text))
        except ValueError:
            raise ValueError(bounds) from None

    return Kind("number", read, parse)


def _listed(check: Callable[[Any], str]) -> Kind:
    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError("must be a list of texts")
        return tuple(check(one) for one in value)

    def parse(text: str) -> tuple[str, ...]:
        return read([one.strip() for one in text.split(",") if one.strip()])

    return Kind("list", read, parse)


def _host(value: Any) -> str:
    name = _text(value).lower()
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        if not _HOST.fullmatch(bare):
            raise ValueError("must have names of hosts, without a scheme or a port") from None
        return bare


def _origin(value: Any) -> str:
    origin = _text(value).lower()
    if not _ORIGIN.fullmatch(origin):
        raise ValueError("must have origins such as https://example.org or http://localhost:3000, without a path") from None
    return origin


def table(check: Callable[[Mapping[str, Any]], object]) -> Kind:
    """A table of a TOML file, or a JSON object. `check` raises for what makes no sense."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError("must be a table")
        try:
            check(value)
        except (HoldfastError, TypeError) as error:
            raise ValueError(f"makes no sense: {error}") from None
        return dict(value)

    def parse(text: str) -> dict[str, Any]:
        try:
            given = read_json(text)
        except RepeatedKey:
            raise
        except ValueError:
            raise ValueError("must be a JSON object") from None
        return read(given)

    return Kind("table", read, parse)


def _usage_limits(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in USAGE_LIMITS:
            raise InvalidValue(f"there is no limit {str(name)[:60]!r}; expected are {', '.join(USAGE_LIMITS)}")
    Limits(**given)


_CEILING: Final = {"mem_mb": 1024, "max_output_kb": 65_536}


def ceiling() -> dict[str, int]:
    """The ceiling of limits where the configuration says nothing else."""
    return dict(_CEILING)


_GIVEN_CEILING: Final = table(check_ceiling)
CEILING: Final = Kind(
    "table",
    lambda value: _CEILING | _GIVEN_CEILING.read(value),
    lambda text: _CEILING | _GIVEN_CEILING.parse(text),
)
QUOTAS: Final = table(Quotas.parse)
USAGE: Final = table(_usage_limits)
HOSTS: Final = _listed(_host)
WORDS: Final = _listed(lambda value: _text(value).strip())
ORIGINS: Final = _listed(_origin)
PATHS: Final = _listed(lambda value: str(_path(value)))
