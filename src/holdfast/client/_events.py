"""Calls about events."""

from uuid import UUID

from holdfast.client import models
from holdfast.client._calls import Call, Page, an_id, look, page_of, path, query_of
from holdfast.client._follow import Stream
from holdfast.client._retry import is_time
from holdfast.client._verbs import Group, Way, each, stream, verb
from holdfast.domain import InvalidValue


class Events(Group[Way]):
    """`client.events`: what happened, and what happens."""

    @verb
    def list(
        self, execution: UUID | str, *, after_seq: int = 0, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.Event]]:
        """The events of an execution, in order: those after number `after_seq`."""
        where = path("executions", an_id(execution, "execution"), "events")
        return look(where, page_of(models.Event), after_seq=after_seq or None, limit=limit, cursor=cursor)

    @each
    def iterate(self, execution: UUID | str, *, after_seq: int = 0, page_size: int = 1000) -> Call[Page[models.Event]]:
        """All events of an execution so far, in order, fetched as they are needed."""
        where = path("executions", an_id(execution, "execution"), "events")
        return look(where, page_of(models.Event), after_seq=after_seq or None, limit=page_size)

    @stream
    def follow(
        self,
        *,
        execution: UUID | str | None = None,
        session: UUID | str | None = None,
        after: str | None = None,
        silence: float = 45.0,
        patience: float = 60.0,
    ) -> Stream:
        """Events as they happen: of an execution until it has ended, of a session, or of everything.

        An execution's are told from its first one, the others from now on; `after` is the `cursor` of the last event that is known, or
        "start". When the connection breaks, or nothing comes for `silence` seconds, not even a heartbeat, another one goes on where it
        was, and no event is told twice. It raises `Unreachable` when there is none for `patience` seconds.
        """
        if execution is not None and session is not None:
            raise InvalidValue("either an execution is followed or a session")
        if not is_time(silence) or not is_time(patience) or silence == 0:
            raise InvalidValue("silence and patience must be numbers of seconds")
        if execution is not None:
            where = path("executions", an_id(execution, "execution"), "stream")
        elif session is not None:
            where = path("sessions", an_id(session, "session"), "stream")
        else:
            where = path("events", "stream")
        return Stream(where, query_of({"after": after}), silence, patience)
