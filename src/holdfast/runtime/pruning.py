"""What goes away: checkpoints that nobody needs, and sessions. What others build on them is made to stand without them, unthawed."""

from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

from holdfast.domain import CheckpointNotFound, HoldfastError, InvalidValue, Node, Origin, VersionConflict
from holdfast.runtime.core import Core
from holdfast.runtime.jobs import Job
from holdfast.runtime.resident import Resident, image_damaged
from holdfast.sandbox import ImageError, compose
from holdfast.store import Commit, Link, Rebased, Store

# ---- prune -------------------------------------------------------------------------------------------------------------------------


class Prune(Job):
    """Checkpoints that nobody needs go away; their events stay."""

    leaves: ClassVar[bool] = True

    def __init__(self, keep: int | None, before: int | None) -> None:
        self._keep, self._before = keep, before
        self.pruned = 0

    def check(self, core: Core, resident: Resident) -> None:
        if self._keep is None and self._before is None:
            raise InvalidValue("say how many checkpoints to keep, or from when on")

    def run(self, core: Core, resident: Resident) -> Commit | None:
        session = resident.session
        nodes = core.store.list_nodes(session.id)
        forks = {fork.origin.number for fork in core.store.list_forks(session.id) if fork.origin is not None}
        victims = doomed(session.id, nodes, session.head, forks, self._keep, self._before)
        if victims:  # forks of forks build on this session as well, also after those in between are gone
            bases = {link.base.number for link in core.store.list_dependents(session.id) if link.base is not None}
            victims = doomed(session.id, nodes, session.head, forks | bases, self._keep, self._before)
        if not victims:
            return None
        commit = core.change(session)
        commit.rebased = rebase(core.store, session.id, nodes, victims, core.key)
        commit.pruned = sorted(victims)
        self.pruned = len(victims)
        return commit

    def result(self, resident: Resident) -> int:
        return self.pruned


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
    """The deltas that are against a victim, made against what that is against: without thawing anything."""
    by_number = {node.number: node for node in nodes}
    sealed: dict[int, bytes] = {}

    def image(number: int) -> bytes:
        if number not in sealed:
            for link in store.chain(Origin(session_id, number)):  # most of these will be asked for as well
                if link.at.session_id == session_id:
                    sealed.setdefault(link.at.number, link.sealed)
        return sealed[number]

    rebased: list[Rebased] = []
    for node in nodes:  # in the order of numbers: bases come before what is made against them
        base = node.base
        if base is None or base.session_id != session_id or base.number not in victims:
            continue
        try:
            merged = compose(image(base.number), image(node.number), key)
        except (ImageError, KeyError) as error:
            raise image_damaged(Origin(session_id, node.number)) from error
        new_base = by_number[base.number].base
        if node.number in victims:
            sealed[node.number] = merged
            by_number[node.number] = node._replace(base=new_base)
        else:
            rebased.append(Rebased(Origin(session_id, node.number), new_base, merged))
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
            rebased.append(Rebased(Origin(fork.id, 0), None, _flat(chain, key)))
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


def _flat(chain: Sequence[Link], key: bytes) -> bytes:
    """One image against the template that does what a chain does. If one in it is damaged nothing can be made of it, nor could before."""
    merged = chain[-1].sealed
    try:
        for link in reversed(chain[:-1]):
            merged = compose(merged, link.sealed, key)
    except ImageError:
        return chain[0].sealed
    return merged
