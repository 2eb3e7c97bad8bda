"""The session records of workflows, kept in any Holdfast store behind the five verbs that VibeForge's programs use.

Reads give copies: a change that is not passed to `update_session` is seen by nobody. An update of a stale copy is refused, so
nobody overwrites what somebody else has written in between.
"""

from abc import ABC, abstractmethod
from typing import Final

from holdfast.domain import WorkflowSession
from holdfast.store.protocol import Store


class SessionStoreInterface(ABC):
    """What keeps workflows."""

    @abstractmethod
    def create_session(self) -> WorkflowSession:
        """A new one, already kept."""

    @abstractmethod
    def get_session(self, session_id: str) -> WorkflowSession | None:
        """A copy of it; None if there is none."""

    @abstractmethod
    def update_session(self, session: WorkflowSession) -> None:
        """Keeps it as it is now. One that was never kept is added."""

    @abstractmethod
    def delete_session(self, session_id: str) -> None:
        """Forgets it. Forgetting twice is fine."""

    @abstractmethod
    def list_sessions(self) -> list[str]:
        """The ids of all, in the order in which they were added."""


class SessionStore(SessionStoreInterface):
    """Workflows in a Holdfast store; without one, in the memory of this process.

    >>> store = SessionStore()
    >>> session = store.create_session()
    >>> store.get_session(session.session_id) == session
    True
    """

    def __init__(self, store: Store | None = None) -> None:
        if store is None:
            from holdfast.store.memory import MemoryStore

            store = MemoryStore()
        self._store = store

    def create_session(self) -> WorkflowSession:
        session = WorkflowSession()
        self.update_session(session)
        return session

    def get_session(self, session_id: str) -> WorkflowSession | None:
        found = self._store.get_document(session_id)
        if found is None:
            return None
        version, data = found
        return WorkflowSession.from_dict(data | {"version": version})

    def update_session(self, session: WorkflowSession) -> None:
        """Keeps it as it is now, and gives it its new version. `VersionConflict` if it was changed or deleted since it was read."""
        data = session.to_dict()
        del data["version"]  # the store's own counts
        if session.version:
            session.version = self._store.update_document(session.session_id, data, session.version)
        else:
            session.version = self._store.create_document(session.session_id, data)

    def delete_session(self, session_id: str) -> None:
        self._store.delete_document(session_id)

    def list_sessions(self) -> list[str]:
        return self._store.list_documents()


# VibeForge's programs import this one. Nothing in Holdfast uses it: whoever wants workflows that last gives `SessionStore` a store.
session_store: Final = SessionStore()
