"""A session in memory: its records as of the last commit, its sandbox, and the images that its next delta may be made against."""

import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from holdfast.capabilities import NativeModules, Overlay, Scope, SessionModules, Waiting
from holdfast.domain import Execution, ExecutionStatus, Origin, Query, QueryKind, Session, SessionState
from holdfast.runtime.effects import EffectKind, Function
from holdfast.runtime.journal import Journal
from holdfast.runtime.shelf import Shelved
from holdfast.sandbox import GuestFault, Image, ImageError, Sandbox
from holdfast.store import Begun, Link, Loaded, StoreDamaged

_BUDGET: Final = "holdfast.budget"


class Rung(NamedTuple):
    """An image on the way from the present state to the template, each a delta against the one before it."""

    depth: int
    at: Origin
    image: Image


def base_depth(depth: int) -> int:
    """How deep the base of a checkpoint lies: all chains are short, and few checkpoints repeat what one before them has.

    The first one is against the template, and holds what starting the script has changed, which is most of it. Those after it are
    against an earlier one, in the way in which a binary counter forgets its lowest digit.

    >>> [base_depth(depth) for depth in range(1, 10)]
    [0, 1, 1, 3, 1, 5, 5, 7, 1]
    """
    before = depth - 1
    return (before & (before - 1)) + 1 if before else 0


class Resident:
    """One session of this process. A worker thread has it to itself while a job of the session runs.

    What a job does to it counts only if its commit succeeds. If not, the whole resident is dropped, and the next job loads it anew.
    """

    def __init__(self, loaded: Loaded, shelved: Shelved, key: bytes, state: Overlay | None = None) -> None:
        self.session: Session = loaded.session
        self.execution: Execution | None = loaded.execution
        self.open: dict[int, Query] = {query.number: query for query in loaded.open}
        self.begun: Begun | None = loaded.begun
        owner = loaded.session.owner
        self.starters: dict[int, UUID | None] = {query.number: owner for query in loaded.open if query.started_at is not None}
        """Who runs the tools that were started when this process came to the session, as far as one can tell."""
        self.shelved = shelved
        self.state = state
        """What the step that runs does to the state; there if it has native modules."""
        self._native: NativeModules | None = None
        self.waiting: dict[str, Waiting] = {}
        """The functions of native modules that the script waits for."""
        self.budget: Callable[[], dict[str, int | None] | None] = lambda: None
        """What is left of the budget of whatever runs."""
        functions = self._functions() if shelved.native else dict(shelved.functions)
        functions[_BUDGET] = Function(_BUDGET, lambda *_: self.budget(), EffectKind.READ)
        worktree = loaded.session.worktree
        found = SessionModules(shelved.modules, None if worktree is None else worktree.path)
        self.journal = Journal(functions, found, self._begin)
        self.begin: Callable[..., None] | None = None
        """Makes the step that runs durable, with True also what it did to the state so far; there only while one runs."""
        self.is_cancelled: Callable[[], bool] = bool
        """Whether the job that runs was told to stop, perhaps before there was a sandbox to tell."""
        self.lock = threading.Lock()
        """Held while a step is made durable, by the thread that runs it or by the one that watches."""
        self.held_until: int | None = None
        """Until when the session does nothing by itself, since a limit of this hour is used up; None if none is, as far as is known."""
        self.charged = 0.0
        """Seconds that other processes have computed for the step that runs."""
        self.owed: deque[float] = deque()
        """Seconds that threads have computed for calls that the script waits for, which no step has counted yet."""
        self.latest = loaded.session.updated_at
        self.sandbox: Sandbox | None = None
        self._key = key
        self._links: list[Link] = loaded.chain
        self._ladder: list[Rung] | None = None

    @property
    def id(self) -> UUID:
        return self.session.id

    @property
    def ladder(self) -> list[Rung]:
        """The present state last. Empty: it is the template."""
        if self._ladder is None:
            self._ladder = climb(self._links, self.shelved, self._key)
            self._links = []
        return self._ladder

    def awake(self) -> Sandbox:
        """The sandbox, thawed if it has to be. Raises `StoreDamaged` if its image is that of no guest."""
        if self.sandbox is None or self.sandbox.closed:
            template, limits, ladder = self.shelved.template, self.shelved.limits, self.ladder
            if ladder:
                held_mb = -(-ladder[-1].image.size >> 20)
                if (
                    held_mb > limits.mem_mb
                ):  # by a version that was made before the ceiling: it keeps its memory, and gets no more
                    limits = limits.but(mem_mb=held_mb)
                try:
                    self.sandbox = template.thaw(ladder[-1].image, limits=limits, host=self.journal)
                except (ImageError, GuestFault) as error:
                    raise image_damaged(ladder[-1].at) from error
            else:
                self.sandbox = template.create(limits=limits, host=self.journal, seed=self.session.seed)
        return self.sandbox

    def by_guest_id(self) -> dict[int, Query]:
        """The open queries of the script, by the id that it has for each."""
        return {query.guest_id: query for query in self.open.values() if query.guest_id is not None}

    def due(self) -> int | None:
        """When a timer or the deadline of an open query is next due."""
        due: int | None = None
        for query in self.open.values():
            at = query.payload["wake_at"] if query.kind is QueryKind.TIMER else query.deadline
            if at is not None and (due is None or at < due):
                due = at
        return due

    def hibernate(self) -> None:
        """Gives the memory back. All of it is in the store."""
        if self.sandbox is not None:
            self.sandbox.close()
            self.sandbox = None

    @property
    def size(self) -> int:
        """Bytes of memory that are the session's own, about: its last image, and as much in its sandbox."""
        if not self._ladder:
            return 0
        own = self._ladder[-1].image.own_bytes
        return own if self.sandbox is None else 2 * own

    def let_go(self) -> None:
        """Gives back all that is large. It is used no more, but parts of it refer to each other, and may be collected much later."""
        self.hibernate()
        self.close_modules()
        self.journal.sandbox = None
        self._ladder, self._links = None, []

    def close_modules(self) -> None:
        """Gives back what native modules hold. If one is called again it begins anew."""
        if self._native is not None:
            self._native.close()

    def _functions(self) -> dict[str, Function]:
        """What the template grants, and the native modules of this session."""
        worktree = self.session.worktree
        scope = Scope(
            self.id,
            self.session.template_id,
            None if worktree is None else worktree.path,
            tenant=self.session.tenant,
            is_stopped=self._is_stopped,
            time_left=self._time_left,
            step=lambda: self.session.steps,
            state=self.state,
            shared=self.shelved.shared,
            owner=self.session.principal,
            mem_mb=self.shelved.limits.mem_mb,
            charge=self._charge,
        )
        self._native = NativeModules(self.shelved.native, scope, self.shelved.meter)
        self.waiting = dict(self._native.waiting())
        own = {name: Function(name, call, kind) for name, call, kind in self._native.functions()}
        return {**self.shelved.functions, **own}

    def _is_stopped(self) -> bool:
        return self.sandbox is not None and self.sandbox.cancelled

    def _time_left(self, computing: bool) -> float:
        return math.inf if self.sandbox is None else self.sandbox.time_left(computing=computing)

    def take_owed(self) -> float:
        """Seconds of calls that have ended since a step began. They count as time of the next one, but not for its limit."""
        total = 0.0
        while self.owed:
            total += self.owed.popleft()
        return total

    def _charge(self, seconds: float) -> None:
        self.charged += seconds
        if self.sandbox is not None:
            self.sandbox.charge(seconds)

    def _begin(self) -> None:
        if self.begin is not None:
            self.begin(True)


def climb(links: list[Link], shelved: Shelved, key: bytes) -> list[Rung]:
    """The images of a chain as it comes from a store, the present state last. Raises `StoreDamaged` if one of them is."""
    ladder: list[Rung] = []
    for link in reversed(links):
        parent = ladder[-1].image if ladder else None
        try:
            image = shelved.template.open(link.sealed, key, parent, largest=shelved.version.spec.limits.mem_mb << 20)
        except ImageError as error:
            raise image_damaged(link.at) from error
        if tuple(image.label) != tuple(link.at):  # a whole image of ours, but that of another session or checkpoint
            raise image_damaged(link.at)
        ladder.append(Rung(link.depth, link.at, image))
    return ladder


def check_whole(loaded: Loaded) -> None:
    """Raise `StoreDamaged` if the records of a session, each of which can be read, do not fit together."""
    session, execution, begun = loaded.session, loaded.execution, loaded.begun
    is_whole = execution is not None or session.execution_id is None
    if session.state is SessionState.PAUSED:
        is_whole = execution is not None and execution.status is ExecutionStatus.PAUSED
        is_whole = is_whole and (bool(loaded.open) or session.wake_at is not None)
    if begun is not None:
        is_whole = execution is not None and execution.id == begun.execution_id
    asked = (query.guest_id for query in loaded.open if query.kind is not QueryKind.TIMER)
    is_whole = is_whole and all(guest_id is not None and guest_id > 0 for guest_id in asked)
    if not is_whole or any(query.number > session.queries for query in loaded.open):
        raise records_damaged(session.id)


def records_damaged(session_id: UUID) -> StoreDamaged:
    """Return the error for a session whose records contradict each other."""
    message = (
        f"The records of session {session_id} contradict each other. Run `holdfast store check --repair`, or restore a backup."
    )
    return StoreDamaged(message).with_details(kind="session", id=str(session_id))


def template_lost(session: Session) -> StoreDamaged:
    """Return the error for a session whose template is not in the store."""
    name = f"{session.template_id}/{session.template_version}"
    message = (
        f"The store has no template {name}, which session {session.id} was made from. "
        "Run `holdfast store check --repair`, or restore a backup."
    )
    return StoreDamaged(message).with_details(kind="template", id=name)


def image_damaged(at: Origin) -> StoreDamaged:
    """Return the error for a checkpoint that cannot be thawed."""
    message = (
        f"The image of checkpoint {at.number} of session {at.session_id} is damaged. "
        "Rewind to an earlier checkpoint, or run `holdfast store check --repair`."
    )
    return StoreDamaged(message).with_details(kind="image", id=f"{at.session_id}/{at.number}")
