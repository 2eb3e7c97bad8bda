"""How long things are kept."""

from dataclasses import dataclass, fields

from holdfast.domain._errors import InvalidValue
from holdfast.domain._records import Session
from holdfast.domain._states import SessionState


@dataclass(frozen=True, slots=True)
class Retention:
    """What may go, and when. None keeps for ever.

    A session keeps its newest `checkpoints`, and all younger than `checkpoints_ms`; always the newest, and those that forks began at. One
    that was not used for `idle_ms` is closed, and one that was closed for `closed_ms` is deleted. Replies to idempotency keys are kept for
    `replies_ms`, entries of the audit log for `audit_ms`. A template keeps its newest `versions`, and all younger than `versions_ms`;
    always the latest, and those that sessions are made of, closed ones among them.
    """

    checkpoints: int | None = None
    checkpoints_ms: int | None = None
    idle_ms: int | None = None
    closed_ms: int | None = None
    replies_ms: int = 24 * 3600 * 1000
    versions: int | None = None
    versions_ms: int | None = None
    audit_ms: int | None = 90 * 24 * 3600 * 1000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (type(value) is not int or value < 0):
                raise InvalidValue(f"{field.name} must be a whole number that is not negative, or null")

    @property
    def prunes(self) -> bool:
        """Whether checkpoints go at all."""
        return self.checkpoints is not None or self.checkpoints_ms is not None

    @property
    def drops_versions(self) -> bool:
        """Whether versions of templates go at all."""
        return self.versions is not None or self.versions_ms is not None

    def closes(self, session: Session, now: int) -> bool:
        """Whether a session has not been used for too long."""
        rests = session.state in (SessionState.READY, SessionState.PAUSED, SessionState.CRASHED)
        return rests and self.idle_ms is not None and now - session.updated_at >= self.idle_ms

    def deletes(self, session: Session, now: int) -> bool:
        """Whether a session was closed long ago."""
        return session.closed_at is not None and self.closed_ms is not None and now - session.closed_at >= self.closed_ms
