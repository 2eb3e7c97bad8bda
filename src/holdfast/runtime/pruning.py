"""What goes away: checkpoints that nobody needs, and sessions. What others build on them is made to stand without them, unthawed."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from holdfast.domain import Amounts, CheckpointNotFound, HoldfastError, InvalidValue, Node, Origin, VersionConflict
from holdfast.runtime.core import Core
from holdfast.runtime.jobs import Job
from holdfast.runtime.resident import Resident, image_damaged
from holdfast.runtime.usage import charge
from holdfast.sandbox import ImageError, Label, compose, relabel
from holdfast.store import Commit, Link, Rebased, StateWrite, Store

# ---- prune -------------------------------------------------------------------------------------------------------------------------


BATCH: Final = 500
"""How many checkpoints go in one commit: others who write, and the session itself, wait for no more than that."""
PRUNINGS: Final = "prunings/"
"""Namespace of the state, which no script can name, with what is still to be pruned, by session."""
_KEPT_MS: Final = 86_400_000


class Pruning(NamedTuple):
    """How far the pruning of a session has come."""

    pruned: int = 0
    remaining: int = 0


def pruning_of(store: Store, session_id: UUID, now: int) -> tuple[Pruning, dict[str, Any]] | None:
    """Return the pruning of a session that is under way, or was when its process died, and what was asked for."""
    row = store.get_state(PRUNINGS, str(session_id))
    if row is None or (row.expires_at is not None and row.expires_at <= now):
        return None
    found = json.loads(row.value)
    return Pruning(found["pruned"], found["remaining"]), {"keep": found["keep"], "before": found["before"]}


class Prune(Job):
    """A batch of the checkpoints that nobody needs goes away; their events stay. It is repeated until none remains.

    The newest go first. So none of them is needed by another that goes later, and only the few that stay are made to stand without them.
    What remains is kept in the state, so that whoever finds it there after a crash goes on.
    """

    leaves: ClassVar[bool] = True

    def __init__(self, keep: int | None, before: int | None, last: "Prune | None" = None, most: int = BATCH) -> None:
        self._keep, self._before, self._last, self._most = keep, before, last, most
        self._so_far = Pruning() if last is None else last.so_far
        self.nodes: list[Node] = []
        """The checkpoints after it, for the next batch: listing all of them takes longer than dropping a batch."""
        self.version = 0
        """The version of the session that has these."""

    @property
    def so_far(self) -> Pruning:
        return self._so_far

    def check(self, core: Core, resident: Resident) -> None:
        if self._keep is None and self._before is None:
            raise InvalidValue("say how many checkpoints to keep, or from when on")

    def run(self, core: Core, resident: Resident) -> Commit | None:
        session, last = resident.session, self._last
        before = Pruning() if last is None else last.so_far
        known = last is not None and last.version == session.version
        nodes = last.nodes if last is not None and known else core.store.list_nodes(session.id)
        forks = {fork.origin.number for fork in core.store.list_forks(session.id) if fork.origin is not None}
        victims = doomed(session.id, nodes, session.head, forks, self._keep, self._before)
        if victims:  # forks of forks build on this session as well, also after those in between are gone
            bases = {link.base.number for link in core.store.list_dependents(session.id) if link.base is not None}
            victims = doomed(session.id, nodes, session.head, forks | bases, self._keep, self._before)
        if not victims:
            self._so_far = Pruning(before.pruned)
            return None
        batch = set(sorted(victims, reverse=True)[: self._most])
        commit = core.change(session)
        commit.rebased = rebase(core.store, session.id, nodes, batch, core.key)
        commit.pruned = sorted(batch)
        sizes = {node.number: node.size for node in nodes}
        freed = sum(sizes[number] for number in batch)
        freed += sum(sizes[change.checkpoint.number] - len(change.sealed) for change in commit.rebased)
        changed = {change.checkpoint.number: change for change in commit.rebased}
        self.nodes = [
            node._replace(base=changed[node.number].base, size=len(changed[node.number].sealed))
            if node.number in changed
            else node
            for node in nodes
            if node.number not in batch
        ]
        self.version = session.version
        now = core.now(resident)
        charge(commit, Amounts(), now, freed=freed)
        self._so_far = Pruning(before.pruned + len(batch), len(victims) - len(batch))
        if before.pruned or self._so_far.remaining:
            kept = self._so_far._asdict() | {"keep": self._keep, "before": self._before}
            until = now + _KEPT_MS if self._so_far.remaining else now
            commit.state = [StateWrite(PRUNINGS, str(session.id), json.dumps(kept), None, until)]
        return commit

    def result(self, resident: Resident) -> Pruning:
        return self._so_far


def doomed(
    session_id: UUID, nodes: Sequence[Node], head: int, forks: set[int], keep: int | None, before: int | None
) -> set[int]:
    """The checkpoints that may go: not the present one, none of `forks`, which other sessions build on, and nothing that those build on."""
    by_number = {node.number: node for node in nodes}
    needed = {head}
    for number in forks:
        while number in by_number:
            needed.add(number)
            base = by_number[number].base
            number = base.number if base is not None and base.session_id == session_id else -1
    newest_first = sorted((node.number for node in nodes), reverse=True)
    spared = set(newest_first[:keep]) if keep is not None else set()
    old = {node.number for node in nodes if before is None or node.created_at < before}
    return {number for number in newest_first if number in old} - needed - spared


def rebase(store: Store, session_id: UUID, nodes: Sequence[Node], victims: set[int], key: bytes) -> list[Rebased]:
    """The deltas that stay and are against a victim, made against what that is against: without thawing anything."""
    by_number = {node.number: node for node in nodes}
    sealed: dict[int, bytes] = {}
    merged: dict[int, tuple[Origin | None, bytes]] = {}

    def image(number: int) -> bytes:
        if number not in sealed:
            for link in store.chain(Origin(session_id, number)):  # most of these will be asked for as well
                if link.at.session_id == session_id:
                    sealed.setdefault(link.at.number, link.sealed)
        return sealed[number]

    def without_victims(number: int) -> tuple[Origin | None, bytes]:
        """The base of a checkpoint that is no victim, and the delta against it."""
        chain = [number]
        while (base := by_number[chain[-1]].base) is not None and base.session_id == session_id and base.number in victims:
            if base.number in merged:
                break
            chain.append(base.number)
        for at in reversed(chain):
            base = by_number[at].base
            if base is not None and base.session_id == session_id and base.number in victims:
                below, delta = merged[base.number]
                merged[at] = below, compose(delta, image(at), key)
            else:
                merged[at] = base, image(at)
        return merged[number]

    rebased: list[Rebased] = []
    for node in nodes:
        base = node.base
        if node.number not in victims and base is not None and base.session_id == session_id and base.number in victims:
            try:
                rebased.append(Rebased(Origin(session_id, node.number), *without_victims(node.number)))
            except (ImageError, KeyError) as error:
                raise image_damaged(Origin(session_id, node.number)) from error
    return rebased


# ---- delete ------------------------------------------------------------------------------------------------------------------------


class Delete(Job):
    """A closed session goes away. A job like any other, so that nobody forks what is about to go, or finds it in memory later."""

    leaves: ClassVar[bool] = True
    looks: ClassVar[bool] = True
    patient = True
    repeatable: ClassVar[bool] = False  # a session that is gone cannot be told from one that never was

    def run(self, core: Core, resident: Resident) -> None:
        try:
            core.store.delete_session(resident.id, independent(core.store, resident.id, core.key))
        except CheckpointNotFound as error:  # a session that was forked from this one has changed in between, or is gone
            raise VersionConflict from error


def independent(store: Store, session_id: UUID, key: bytes) -> list[Rebased]:
    """All that other sessions build on this one, made to stand without it."""
    rebased = [
        Rebased(link.at, None, _flat([link, *store.chain(link.base)], key))
        for link in store.list_dependents(session_id)
        if link.base
    ]
    for fork in store.list_forks(session_id):
        assert fork.origin is not None
        chain = store.chain(fork.origin)
        if chain:
            rebased.append(Rebased(Origin(fork.id, 0), None, _beginning(fork.id, chain, key)))
    return rebased


def delete_damaged(store: Store, session_id: UUID, key: bytes) -> None:
    """Delete a session that cannot be loaded. What others build on it becomes theirs as it is, even where nothing can be made of it."""
    rebased = [Rebased(link.at, None, link.sealed) for link in store.list_dependents(session_id)]
    try:
        rebased = independent(store, session_id, key)
    except HoldfastError:
        for fork in store.list_forks(session_id):
            rebased.append(Rebased(Origin(fork.id, 0), None, b""))
    store.delete_session(session_id, rebased)


def _beginning(fork: UUID, chain: Sequence[Link], key: bytes) -> bytes:
    """The image that a fork begins with, as its own: an image is taken only for the checkpoint that its label names."""
    flat = _flat(chain, key)
    try:
        return relabel(flat, key, Label(fork, 0))
    except ImageError:
        return flat


def _flat(chain: Sequence[Link], key: bytes) -> bytes:
    """One image against the template that does what a chain does. If one in it is damaged nothing can be made of it, nor could before."""
    merged = chain[-1].sealed
    try:
        for link in reversed(chain[:-1]):
            merged = compose(merged, link.sealed, key)
    except ImageError:
        return chain[0].sealed
    return merged
