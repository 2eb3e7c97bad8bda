"""The module `card`: results that are kept for good. A card is made once; what is added later is new, and nothing that it says is changed.

Cards lie in the state (`shelf.py`), so what a step does to them is committed with the step, and several processes may do so at once.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, Literal

from holdfast.capabilities._json import plain
from holdfast.capabilities.cards.lineage import Question, lineage
from holdfast.capabilities.cards.making import check_name, clean, lines, make, stamp, text_at
from holdfast.capabilities.cards.shelf import Shelf
from holdfast.capabilities.cards.where import looked_up, matcher, orders, sorting
from holdfast.capabilities.native import NativeModule, Scope, effect
from holdfast.domain import EffectKind, InvalidValue, check_namespace, hidden_root, shared_root, template_root
from holdfast.sandbox import HostError

_MOST_CARDS: Final = 100_000
_MOST_BYTES: Final = 4 * 1024 * 1024
_PART: Final = "cards"
Rows = list[dict[str, Any]]
Values = list[Any]


@dataclass(frozen=True, slots=True)
class CardConfig:
    """Whose cards they are, and how many there may be."""

    namespace: str | None = None
    max_cards: int = 10_000
    max_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        if self.namespace is not None:
            try:
                check_namespace(self.namespace)
            except InvalidValue:
                raise InvalidValue("namespace must be a name of at most 100 characters, without / \\ .. or NUL") from None
        if not 1 <= self.max_cards <= _MOST_CARDS:
            raise InvalidValue(f"max_cards must be from 1 to {_MOST_CARDS}")
        if not 1 <= self.max_bytes <= _MOST_BYTES:
            raise InvalidValue(f"max_bytes must be from 1 to {_MOST_BYTES}")


@dataclass(frozen=True, slots=True)
class OfPackage:
    """Only those of one package."""

    pkg: str | None = None


@dataclass(frozen=True, slots=True)
class Naming:
    """What an alias says besides its card."""

    pkg: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Some of many, after a filter."""

    where: Any = None
    offset: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("offset", "limit"):
            if (getattr(self, name) or 0) < 0:
                raise InvalidValue(f"{name} must not be negative")

    def of(self, found: Iterable[Any]) -> list[Any]:
        return list(islice(found, self.offset, None if self.limit is None else self.offset + self.limit))


@dataclass(frozen=True, slots=True)
class Search(Slice):
    """Which cards are looked for."""

    pkg: str | None = None
    order_by: Any = None


@dataclass(frozen=True, slots=True)
class Relatives:
    """Which relatives of a card are looked for."""

    card_id: str
    direction: Literal["up", "down", "both"] = "up"
    depth: int = 10
    include_stats: bool = True
    relation_filter: list[str] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.depth <= _MOST_CARDS:
            raise InvalidValue(f"depth must be from 0 to {_MOST_CARDS}")

    def question(self) -> Question:
        relations = None if self.relation_filter is None else frozenset(self.relation_filter)
        return Question(self.direction != "down", self.direction != "up", self.depth, self.include_stats, relations)


@dataclass(frozen=True, slots=True)
class Backfill:
    """What algocline copies to other places."""

    sink: str
    dry_run: bool = False


class Card(NativeModule):
    """Cards, in the store."""

    name: ClassVar[str] = "card"
    description: ClassVar[str] = "Results of runs that are kept for good, with samples, aliases and lineage"
    config_type: ClassVar[type[Any]] = CardConfig
    confined_fields: ClassVar[frozenset[str]] = frozenset(CardConfig.__dataclass_fields__)
    config: CardConfig

    def __init__(self, scope: Scope, config: CardConfig) -> None:
        super().__init__(scope, config)
        root = template_root(scope.template_id) if config.namespace is None else shared_root(config.namespace, scope.tenant)
        self._shelf = Shelf(scope, hidden_root(root, _PART), config.max_cards, config.max_bytes)

    @effect(EffectKind.STATE)
    def create(self, card: Any) -> dict[str, Any]:
        made = make(card, self.scope.state.now, self._shelf.has, self._shelf.check)
        if self._shelf.has(made.id):
            raise HostError(f"alc.card.create: card '{made.id}' already exists (immutable)", code="CARD_EXISTS")
        self._shelf.add(made.card)
        return {"card_id": made.id, "path": _path(made.card)}

    @effect(EffectKind.STATE)
    def get(self, card_id: str) -> dict[str, Any] | None:
        return self._shelf.get(check_name("card_id", card_id))

    @effect(EffectKind.STATE)
    def list(self, options: OfPackage | None = None) -> Rows:
        return self.find(None if options is None else Search(pkg=options.pkg))

    @effect(EffectKind.STATE)
    def append(self, card_id: str, fields: Any) -> dict[str, Any]:
        old = self._card("append", card_id)
        if fields == []:  # an empty table of Lua is either
            fields = {}
        if not isinstance(fields, dict):
            raise HostError("alc.card.append: fields must be a table", code="INVALID_ARGUMENT")
        for key in fields:
            if key in old:
                message = f"alc.card.append: key '{key[:200]}' already set on card '{card_id}' (immutable)"
                raise HostError(message, code="CARD_IMMUTABLE")
        card: dict[str, Any] = old | clean(fields)
        self._shelf.put(card)
        return card

    @effect(EffectKind.STATE)
    def get_by_alias(self, name: str) -> dict[str, Any] | None:
        alias = self._shelf.alias(check_name("alias", name))
        if alias is None:
            return None
        card = self._shelf.get(alias["card_id"])
        if card is None:
            message = f"alc.card.get_by_alias: alias '{name}' points at missing card '{alias['card_id']}'"
            raise HostError(message, code="CARD_NOT_FOUND")
        return card

    @effect(EffectKind.STATE)
    def alias_set(self, name: str, card_id: str, options: Naming | None = None) -> dict[str, Any]:
        check_name("alias", name)
        self._card("alias_set", card_id)
        given = options or Naming()
        alias = {"name": name, "card_id": card_id, "pkg": given.pkg, "set_at": stamp(self.scope.state.now), "note": given.note}
        alias = {key: value for key, value in alias.items() if value is not None}
        self._shelf.put_alias(alias)
        return alias

    @effect(EffectKind.STATE)
    def alias_list(self, options: OfPackage | None = None) -> Rows:
        pkg = None if options is None else options.pkg
        return [alias for alias in self._shelf.aliases() if pkg is None or alias.get("pkg") == pkg]

    @effect(EffectKind.STATE)
    def find(self, options: Search | None = None) -> Rows:
        search = options or Search()
        keys = orders(plain(search.order_by, "card"))
        places = self._shelf.places(None if search.pkg is None else check_name("pkg", search.pkg))
        if search.where is None and not keys:
            return [*self._shelf.summaries(search.of(places))]
        is_wanted = matcher(plain(search.where, "card"), self._shelf.check_time)
        found = []
        room = self.scope.mem_mb << 20
        for place, card in self._shelf.cards(places):
            if is_wanted(card):
                found.append((looked_up(keys, card), place))
                room -= sum(map(sys.getsizeof, found[-1][0]))
                if room < 0:
                    raise HostError("card: there are too many cards to put in this order", code="CARD_TOO_LARGE")
        by = sorting(keys, self._shelf.check_time)
        found.sort(key=lambda one: by(one[0]))
        return [*self._shelf.summaries(search.of(place for _, place in found))]

    @effect(EffectKind.STATE)
    def write_samples(self, card_id: str, samples: Values) -> dict[str, Any]:
        card = self._card("write_samples", card_id)
        if self._shelf.has_samples(card_id):
            message = f"alc.card.write_samples: samples already exist for card '{card_id}' (write-once)"
            raise HostError(message, code="CARD_IMMUTABLE")
        return {"path": f"{_path(card)}.samples", "count": self._shelf.put_samples(card_id, lines(samples))}

    @effect(EffectKind.STATE)
    def read_samples(self, card_id: str, options: Slice | None = None) -> Values:
        self._card("read_samples", card_id)
        wanted = options or Slice()
        if wanted.where is None:
            return Slice(limit=wanted.limit).of(self._shelf.samples(card_id, wanted.offset))
        return wanted.of(filter(matcher(plain(wanted.where, "card"), self._shelf.check_time), self._shelf.samples(card_id)))

    @effect(EffectKind.STATE)
    def lineage(self, options: Relatives) -> dict[str, Any] | None:
        root = self._shelf.get(check_name("card_id", options.card_id))
        return None if root is None else lineage(root, options.question(), self._shelf.look, self._shelf.children)

    @effect(EffectKind.READ)
    def sink_backfill(self, options: Backfill) -> None:
        raise HostError("alc.card.sink_backfill: there are no sinks; cards are exported by the host", code="CARD_SINKS_NONE")

    def _card(self, function: str, card_id: str) -> dict[str, Any]:
        card = self._shelf.get(check_name("card_id", card_id))
        if card is None:
            raise HostError(f"alc.card.{function}: card '{card_id}' not found", code="CARD_NOT_FOUND")
        return card


def _path(card: dict[str, Any]) -> str:
    """What a card is called where a file would have a path. There is no file."""
    return f"cards/{text_at(card, 'pkg', 'name')}/{card['card_id']}"
