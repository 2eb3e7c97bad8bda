"""What a card came from, and what came from it. A card names the one before it in `metadata.prior_card_id`, and how they are related in
`metadata.prior_relation`. Nobody keeps such names from going in circles.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from holdfast.capabilities._json import written
from holdfast.capabilities.cards.making import text_at
from holdfast.sandbox import HostError

_MOST_BYTES: Final = 8 * 1024 * 1024
"""Of all cards together, as far as they are shown."""


class Question(NamedTuple):
    """Up is to what was before, down to what came of it. `relations`: only such steps are gone; None: all."""

    up: bool
    down: bool
    depth: int
    stats: bool
    relations: frozenset[str] | None


def lineage(
    root: dict[str, Any],
    question: Question,
    get: Callable[[str], dict[str, Any] | None],
    children: Callable[[str], Iterable[str]],
) -> dict[str, Any]:
    """All cards at most so many steps away, breadth first: those above have a depth below 0. Edges go from a card to the one before it."""
    walk = _Walk(root, question, get)
    if question.up:
        walk.go(-1, walk.prior)
    if question.down:
        walk.go(1, lambda node: walk.found(children(node["card_id"])))
    nodes = [{name: value for name, value in node.items() if value is not None} for node in walk.nodes]
    return {"root": root["card_id"], "nodes": nodes, "edges": walk.edges, "truncated": walk.truncated}


def prior_id(card: dict[str, Any]) -> str | None:
    """The card before this one."""
    return text_at(card, "metadata", "prior_card_id")


class _Walk:
    """Of cards only that is kept which is shown: a node."""

    def __init__(self, root: dict[str, Any], question: Question, get: Callable[[str], dict[str, Any] | None]) -> None:
        self._question, self._get = question, get
        self._left = _MOST_BYTES
        self._root = self._node(root)
        self._shown = {root["card_id"]}
        self._linked: set[tuple[str, str]] = set()
        self.nodes = [self._root]
        self.edges: list[dict[str, Any]] = []
        self.truncated = False

    def prior(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The one before."""
        return self.found(() if node["prior_card_id"] is None else (node["prior_card_id"],))

    def found(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Those of these that are there."""
        return (self._node(card) for card in map(self._get, names) if card is not None)

    def go(self, sign: int, beyond: Callable[[dict[str, Any]], Iterable[dict[str, Any]]]) -> None:
        """Each card is passed once in a direction, so that circles end."""
        passed, level, depth = {self._root["card_id"]}, [self._root], 0
        while level:
            depth += 1
            links = [(node, other) for node in level for other in beyond(node)]
            following = []
            for node, other in links:
                later, prior = (node, other) if sign < 0 else (other, node)
                if not self._is_followed(later):
                    continue
                is_new = other["card_id"] not in passed
                if is_new and depth > self._question.depth:
                    self.truncated = True
                    return
                passed.add(other["card_id"])
                self._show(other, sign * depth)
                self._link(later, prior)
                if is_new:
                    following.append(other)
            level = following

    def _is_followed(self, later: dict[str, Any]) -> bool:
        relations = self._question.relations
        return relations is None or later["prior_relation"] in relations

    def _show(self, node: dict[str, Any], depth: int) -> None:
        if node["card_id"] not in self._shown:
            self._shown.add(node["card_id"])
            self.nodes.append(node | {"depth": depth})

    def _link(self, later: dict[str, Any], prior: dict[str, Any]) -> None:
        edge = {"from": later["card_id"], "to": prior["card_id"]}
        relation = later["prior_relation"]
        if (edge["from"], edge["to"]) not in self._linked:
            self._linked.add((edge["from"], edge["to"]))
            self.edges.append(edge if relation is None else edge | {"relation": relation})

    def _node(self, card: dict[str, Any]) -> dict[str, Any]:
        node = {
            "card_id": card["card_id"],
            "pkg": text_at(card, "pkg", "name"),
            "depth": 0,
            "prior_card_id": prior_id(card),
            "prior_relation": text_at(card, "metadata", "prior_relation"),
            "stats": card.get("stats") if self._question.stats else None,
        }
        self._left -= written(node)[1]
        if self._left < 0:
            message = f"card: a lineage has at most {_MOST_BYTES >> 20} MB: ask for less depth, or without include_stats"
            raise HostError(message, code="CARD_TOO_LARGE")
        return node
