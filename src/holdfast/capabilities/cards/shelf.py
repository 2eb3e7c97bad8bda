"""Where cards lie in the state, and how they are found there.

    card/       <id>                      the card
    order/      <pkg>/<created>/<id>      what lists show of it: keys alone say which cards there are of a package, and in which order
    child/      <prior id>/<id>           which cards came of a card
    alias/      <name>
    samples/    <id>                      how many there are, and where
    samples/<id>/   <number of the first>     some of them, as a list

All of it is below a root that scripts cannot name. No name has a slash in it.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.capabilities._json import read, written
from holdfast.capabilities.cards.lineage import prior_id
from holdfast.capabilities.cards.making import age, check_name, summary, text_at
from holdfast.capabilities.native import Scope
from holdfast.sandbox import HostError

_PART: Final = 65_536
"""Samples lie together until they have so many bytes."""
_LARGEST_ALIAS: Final = 4096
_EVERY: Final = 100
"""How many are gone through before the time is looked at again."""
One = TypeVar("One")


class Place(NamedTuple):
    """A card as `order/` knows it."""

    pkg: str
    created: str
    id: str


class Shelf:
    """The cards below one root, as the step that runs sees them."""

    def __init__(self, scope: Scope, root: str, max_cards: int, max_bytes: int) -> None:
        self._scope, self._root, self._max_cards, self._max_bytes = scope, root, max_cards, max_bytes

    # ---- cards

    def has(self, card_id: str) -> bool:
        return self._scope.state.get(self._at("card"), card_id) is not None

    def get(self, card_id: str) -> dict[str, Any] | None:
        return self._read("card", card_id)

    def look(self, card_id: str) -> dict[str, Any] | None:
        """The same for whoever looks through many."""
        self.check_time()
        return self._glance("card", card_id)

    def check(self, card: dict[str, Any]) -> None:
        """Refuses a card that is too large."""
        _check_size(written(card)[1], self._max_bytes, "a card has")

    def add(self, card: dict[str, Any]) -> None:
        self._check_room("card", "cards")
        self.put(card)

    def put(self, card: dict[str, Any]) -> None:
        """A new card, or one that has grown: what decides its place in the order does not change."""
        self.check(card)
        self._put("card", card["card_id"], card)
        self._put("order", _key(card), summary(card))
        prior = prior_id(card)
        if prior is not None and _is_name(prior):
            self._put("child", f"{prior}/{card['card_id']}", True)

    def places(self, pkg: str | None) -> list[Place]:
        """Newest first."""
        keys = self._scope.state.keys(self._at("order"), "" if pkg is None else f"{pkg}/")
        found = [Place(*key.split("/")) for key in keys]
        found.sort(key=lambda place: (place.created, place.id), reverse=True)
        return found

    def summaries(self, places: list[Place]) -> Iterator[dict[str, Any]]:
        for place in self._watched(places):
            found = self._glance("order", "/".join(place))
            if found is not None:
                yield found

    def cards(self, places: list[Place]) -> Iterator[tuple[Place, dict[str, Any]]]:
        for place in places:
            found = self.look(place.id)
            if found is not None:
                yield place, found

    def children(self, card_id: str) -> Iterator[str]:
        """In the order of their ids."""
        start = f"{card_id}/"
        for key in self._scope.state.keys(self._at("child"), start):
            yield key.removeprefix(start)

    # ---- aliases

    def alias(self, name: str) -> dict[str, Any] | None:
        return self._read("alias", name)

    def put_alias(self, alias: dict[str, Any]) -> None:
        if not self._scope.state.has(self._at("alias"), alias["name"]):
            self._check_room("alias", "aliases")
        _check_size(written(alias)[1], _LARGEST_ALIAS, "an alias has")
        self._put("alias", alias["name"], alias)

    def aliases(self) -> Iterator[dict[str, Any]]:
        """By name."""
        for name in self._watched(self._scope.state.keys(self._at("alias"), "")):
            found = self._glance("alias", name)
            if found is not None:
                yield found

    # ---- samples

    def has_samples(self, card_id: str) -> bool:
        return self._scope.state.get(self._at("samples"), card_id) is not None

    def put_samples(self, card_id: str, samples: Iterable[Any]) -> int:
        """What is noted of them is written last: if something does not fit, there are none. Gives how many there are."""
        parts: dict[int, list[str]] = {}
        part: list[str] = []
        size = total = count = 0
        for number, sample in enumerate(self._watched(samples)):
            count += 1
            text, length = written(sample)
            total += length + 1
            _check_size(total, self._max_bytes, "the samples of a card have")
            if not part or size + length > _PART:
                part = parts[number] = []
                size = 0
            part.append(text)
            size += length + 1
        state = self._scope.state
        for first, texts in parts.items():
            state.put(self._at(f"samples/{card_id}"), str(first), f"[{','.join(texts)}]", None)
        state.put(self._at("samples"), card_id, json.dumps({"count": count, "parts": [*parts]}), None)
        return count

    def samples(self, card_id: str, since: int = 0) -> Iterator[Any]:
        """From one on, in their order; none if there are none."""
        noted = self._glance("samples", card_id)
        firsts = [] if noted is None else noted["parts"]
        for first, following in zip_longest(firsts, firsts[1:]):
            if following is None or following > since:
                part = self._scope.state.glance(self._at(f"samples/{card_id}"), str(first))
                yield from self._watched(read(part or "[]")[max(0, since - first) :])

    # ---- what these share

    def _at(self, part: str) -> str:
        return f"{self._root}{part}/"

    def _read(self, part: str, key: str) -> dict[str, Any] | None:
        found = self._scope.state.get(self._at(part), key)
        return None if found is None else read(found[0])

    def _glance(self, part: str, key: str) -> dict[str, Any] | None:
        found = self._scope.state.glance(self._at(part), key)
        return None if found is None else read(found)

    def _put(self, part: str, key: str, value: Any) -> None:
        self._scope.state.put(self._at(part), key, written(value)[0], None)

    def _check_room(self, part: str, what: str) -> None:
        if self._scope.state.count(self._at(part)) >= self._max_cards:
            raise HostError(f"card: there are {self._max_cards} {what} already", code="CARD_TOO_LARGE")

    def _watched(self, many: Iterable[One]) -> Iterator[One]:
        """Goes through many as long as the call has time."""
        for number, one in enumerate(many):
            if number % _EVERY == 0:
                self.check_time()
            yield one

    def check_time(self) -> None:
        """Raise if the call has no time left, or its execution was cancelled."""
        if self._scope.is_stopped():
            raise HostError("card: the execution was cancelled", code="CANCELLED")
        if self._scope.time_left(True) <= 0:
            raise HostError("card: there are too many to look through in time", code="CARD_TIMEOUT")


def _check_size(size: int, most: int, whose: str) -> None:
    if size > most:
        raise HostError(f"card: {whose} at most {most} bytes", code="CARD_TOO_LARGE")


def _key(card: dict[str, Any]) -> str:
    return "/".join(Place(text_at(card, "pkg", "name") or "", age(card), card["card_id"]))


def _is_name(name: str) -> bool:
    try:
        check_name("card_id", name)
    except HostError:
        return False
    return True
