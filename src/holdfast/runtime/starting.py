"""How sessions start, and files of their worktrees run."""

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from holdfast.capabilities import read_file
from holdfast.domain import (
    SESSION,
    ErrorEntry,
    Execution,
    ExecutionKind,
    HoldfastError,
    InvalidPath,
    Origin,
    Session,
    SessionState,
    StartupFailed,
    new_id,
)
from holdfast.runtime.core import Core
from holdfast.runtime.jobs import Job, Start
from holdfast.runtime.resident import Resident
from holdfast.runtime.shelf import Startup
from holdfast.store import Commit, Store


@dataclass(slots=True)
class StartPath(Start):
    """A new execution of a file of the session's worktree, which is read when its turn has come."""

    def check(self, core: Core, resident: Resident) -> None:
        Start.check(self, core, resident)
        worktree = resident.session.worktree
        if worktree is None:
            raise InvalidPath("this session has no worktree")
        self.path, self.source = read_file(worktree.path, self.path or "")


class StartUp(Job):
    """The next of the files that a session runs as it starts."""

    executes: ClassVar[bool] = True

    def run(self, core: Core, resident: Resident) -> Commit | None:
        session = resident.session
        if session.state is not SessionState.STARTING:
            return None
        for file in resident.shelved.startup[self._ran(core, resident) :]:
            try:
                text = file.text if file.text is not None else self._read(session, file)
            except HoldfastError as error:
                return self._crash(core, resident, f"startup file {file.path}: {error}", error.code)
            return Start(new_id(), ExecutionKind.STARTUP, text, file.path).run(core, resident)
        session.state = SESSION.next(session.state, SessionState.READY)
        return core.change(session)

    def _read(self, session: Session, file: Startup) -> str:
        if session.worktree is None:
            raise StartupFailed("the session has no worktree")
        return read_file(session.worktree.path, file.path).text

    def _crash(self, core: Core, resident: Resident, message: str, code: str) -> Commit:
        """There is no execution that could tell why, so the history of errors does."""
        session, now = resident.session, core.now(resident)
        commit = core.change(session)
        session.state, session.last_error, session.updated_at = SESSION.next(session.state, SessionState.CRASHED), message, now
        commit.errors = [ErrorEntry(new_id(), now, SessionState.STARTING.value, None, None, code, message)]
        return commit

    def _ran(self, core: Core, resident: Resident) -> int:
        """How many of the files have run, on the way to the present state: there may have been others, before a rewind."""
        session = resident.session
        chain = core.store.chain(Origin(session.id, session.head))  # a fork begins where its origin was
        names = [file.path for file in resident.shelved.startup]
        if not chain:
            return 0
        if chain[0].at.number == 0:  # what led there is gone with its session; what came next is known, or nothing runs twice
            first = self.first(core.store, chain[0].at.session_id)
            return names.index(first.path) if first is not None and self.is_start(first) and first.path in names else len(names)
        node = core.store.get_node(chain[0].at)
        last = core.store.get_execution(node.execution_id).path
        return names.index(last) + 1 if last in names else 0

    @staticmethod
    def first(store: Store, session_id: UUID) -> Execution | None:
        """The first execution that a session ever had."""
        page = store.list_executions(session_id, limit=1000)
        while page.next is not None:
            page = store.list_executions(session_id, limit=1000, after=page.next)
        return page.items[-1] if page.items else None

    @staticmethod
    def is_start(first: Execution | None) -> bool:
        """Whether a session with this first execution had startup files to run as it began, and began with that one."""
        return first is not None and first.kind is ExecutionKind.STARTUP and first.parent_id is None
