"""What a new card is: what is filled in, its id, and what is shown of it in lists."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from holdfast._version import VERSION
from holdfast.capabilities._json import folded, plain
from holdfast.capabilities._kinds import is_whole
from holdfast.sandbox import HostError, jsontext

SCHEMA: Final = "card/v0"
_LONGEST: Final = {"pkg": 100, "card_id": 200, "alias": 200}
_LONGEST_SHOWN: Final = 200
"""Characters of what lists show of a card: there may be a hundred thousand in one."""
_MOST: Final = (1 << 64) - 1
_sorted: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_VENDORS: Final = ("claude-", "gpt-")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Made(NamedTuple):
    """A new card, whole."""

    id: str
    pkg: str
    card: dict[str, Any]


def make(given: Any, now: int, is_taken: Callable[[str], bool], check: Callable[[dict[str, Any]], None]) -> Made:
    """A card of what a script gave. An id that was given is kept, whoever has it; one that is made here is one that nobody has.

    `check` refuses what is too large, before more is done with it.
    """
    if not isinstance(given, dict):
        raise HostError("alc.card.create: input must be a table", code="INVALID_ARGUMENT")
    card = clean(given)
    check(card)
    name = text_at(card, "pkg", "name")
    if name is None:
        raise HostError("alc.card.create: pkg.name is required", code="CARD_INVALID")
    pkg = check_name("pkg", name)
    card = {"schema_version": SCHEMA, "created_at": stamp(now), "created_by": f"holdfast@{VERSION}"} | card
    if isinstance(card.get("params"), dict):
        card["param_fingerprint"] = f"{_djb2(card['params']):016x}"
    identity = card.get("card_id")
    if not isinstance(identity, str) or not identity:
        identity = _identity(card, pkg, now, is_taken)
    return Made(check_name("card_id", identity), pkg, card | {"card_id": identity})


def _identity(card: Mapping[str, Any], pkg: str, now: int, is_taken: Callable[[str], bool]) -> str:
    """Two cards of one second that say the same have ids of their own as well."""
    moment = f"{datetime.fromtimestamp(now // 1000, UTC):%Y%m%dT%H%M%S}"
    start = f"{pkg}_{short_model(text_at(card, 'model', 'id') or '')}_{moment}_"
    seed = _djb2(card)
    while is_taken(found := f"{start}{seed & 0xFFFFFF:06x}"):
        seed += 1
    return found


def clean(given: Any) -> Any:
    """What a script gave as a card has it: without what is null, or a number that is none."""
    return _without_nulls(plain(_finite(given), "card"))


def lines(samples: Iterable[Any]) -> Iterator[Any]:
    """Samples as they are kept: null is a value in them."""
    return (plain(_finite(sample), "card") for sample in samples)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0:  # infinite, or not a number
        return None
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def check_name(kind: str, name: str) -> str:
    """The name of a package, a card or an alias.

    >>> check_name("pkg", "sc")
    'sc'
    """
    is_plain = name and is_whole(name) and len(name.encode()) <= _LONGEST[kind] and min(name) >= " " and ".." not in name
    if not is_plain or "/" in name or "\\" in name:
        raise HostError(f"Invalid {kind} name: '{name[:40]}'", code="INVALID_ARGUMENT")
    return name


def short_model(model: str) -> str:
    """What an id says of the model.

    >>> [short_model(model) for model in ("claude-opus-4-6", "gpt-4o", "", "---")]
    ['opus46', '4o', 'model', 'model']
    """
    for vendor in _VENDORS:
        if model.startswith(vendor):
            model = model.removeprefix(vendor)
            break
    return re.sub(r"[^A-Za-z0-9]", "", model)[:50] or "model"


def stamp(now: int) -> str:
    """A moment as cards have it, to the second.

    >>> stamp(1_800_000_000_123)
    '2027-01-15T08:00:00Z'
    """
    return f"{datetime.fromtimestamp(now // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def age(card: Mapping[str, Any]) -> str:
    """By which cards are in order: when it was made, or nothing if it does not say so in the usual way."""
    created = card.get("created_at")
    return created if isinstance(created, str) and _TIME.fullmatch(created) else ""


def summary(card: Mapping[str, Any]) -> dict[str, Any]:
    """What lists show. Long texts are cut off."""
    rate = at(card, ("stats", "pass_rate"))
    found = {
        "card_id": card["card_id"],
        "pkg": text_at(card, "pkg", "name"),
        "created_at": text_at(card, "created_at"),
        "model": text_at(card, "model", "id"),
        "scenario": text_at(card, "scenario", "name"),
        "pass_rate": rate if isinstance(rate, int | float) and not isinstance(rate, bool) else None,
    }
    return {
        name: value[:_LONGEST_SHOWN] if isinstance(value, str) else value for name, value in found.items() if value is not None
    }


def at(card: Any, path: tuple[str, ...]) -> Any:
    """What is at the end of a path; None: nothing. Cards have no nulls."""
    for name in path:
        if not isinstance(card, dict) or name not in card:
            return None
        card = card[name]
    return card


def text_at(card: Any, *path: str) -> str | None:
    found = at(card, path)
    return found if isinstance(found, str) else None


def _djb2(value: Any) -> int:
    """64 bits of what a value is, in whatever order its keys are and however its numbers are written."""
    code = 5381
    for byte in jsontext.dumps(folded(value), _sorted, sort=True).encode():
        code = (code * 33 + byte) & _MOST
    return code
