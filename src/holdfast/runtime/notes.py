"""Notes: what people write down about a session. They lie in the state below it, where no script can reach them, and go with it."""

import json
from typing import Any, Final
from uuid import UUID

from holdfast.domain import Conflict, InvalidValue, hidden_root, session_root
from holdfast.runtime.core import Core
from holdfast.runtime.jobs import Job
from holdfast.runtime.resident import Resident
from holdfast.store import Commit, Reply, StateWrite, Store

MOST_NOTES: Final = 1_000
LARGEST_NOTE: Final = 65_536
_LONGEST_TITLE: Final = 200
_DIGITS: Final = 4


class NotesFull(Conflict):
    """A session has at most 1,000 notes."""

    code = "NOTES_FULL"


class AddNote(Job):
    """One more note, also in a session that runs or is closed. Its result is how many there are."""

    patient = True

    def __init__(self, content: str, title: str | None = None, reply: Reply | None = None) -> None:
        if not isinstance(content, str) or not content or len(content.encode(errors="replace")) > LARGEST_NOTE:
            raise InvalidValue(f"a note is text of 1 to {LARGEST_NOTE} bytes")
        if title is not None and (not isinstance(title, str) or len(title) > _LONGEST_TITLE):
            raise InvalidValue(f"the title of a note is text of at most {_LONGEST_TITLE} characters")
        self._content, self._title, self._reply = content, title, reply
        self._count = 0

    def run(self, core: Core, resident: Resident) -> Commit:
        place = _place(resident.id)
        count = len(core.store.list_state(place, now=0, limit=MOST_NOTES).items)
        if count == MOST_NOTES:
            raise NotesFull
        self._count = count + 1
        note = {"timestamp": core.now(resident), "title": self._title, "content": self._content}
        commit = core.change(resident.session)
        commit.state = [StateWrite(place, f"{self._count:0{_DIGITS}}", json.dumps(note), 0)]
        if self._reply is not None:
            commit.reply = self._reply._replace(outcome={"notes_count": self._count})
        return commit

    def result(self, resident: Resident) -> int:
        return self._count


def notes_of(store: Store, session_id: UUID) -> list[dict[str, Any]]:
    """The notes of a session, oldest first: `{timestamp, title, content}`. Called on a thread."""
    place = _place(session_id)
    rows = [store.get_state(place, key) for key in store.list_state(place, now=0, limit=MOST_NOTES).items]
    return [json.loads(row.value) for row in rows if row is not None]


def count_notes(store: Store, session_id: UUID) -> int:
    """How many there are. Called on a thread."""
    return len(store.list_state(_place(session_id), now=0, limit=MOST_NOTES).items)


def _place(session_id: UUID) -> str:
    return hidden_root(session_root(session_id), "notes")
