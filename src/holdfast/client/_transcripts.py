"""Calls about transcripts: what runs asked, were told, and came to."""

from uuid import UUID

from holdfast.client import models
from holdfast.client._calls import Call, Page, an_id, change, given, look, one, page_of, path, text
from holdfast.client._verbs import Group, Way, each, verb


def _at(session: UUID | str, *rest: str) -> str:
    return path("transcripts", an_id(session, "session"), *rest)


class Transcripts(Group[Way]):
    """`client.transcripts`: list, get, export, note, stats."""

    @verb
    def list(
        self, *, strategy: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.TranscriptSummary]]:
        """Runs, newest first, active or not; all, or those of one strategy."""
        return look(path("transcripts"), page_of(models.TranscriptSummary), strategy=strategy, limit=limit, cursor=cursor)

    @each
    def iterate(self, *, strategy: str | None = None, page_size: int = 200) -> Call[Page[models.TranscriptSummary]]:
        """All runs, newest first, fetched as they are needed."""
        return look(path("transcripts"), page_of(models.TranscriptSummary), strategy=strategy, limit=page_size)

    @verb
    def get(self, session: UUID | str, *, max_chars: int | None = None) -> Call[models.Transcript]:
        """One run with all that was asked and answered. Beyond `max_chars` (100,000; 0 is no limit) the oldest exchanges are left out."""
        return look(_at(session), one(models.Transcript), max_chars=max_chars)

    @verb
    def export(self, session: UUID | str, format: str | None = None) -> Call[str]:  # noqa: A002 - as the library calls it
        """The whole of one as text: `jsonl`, or `markdown`."""
        return look(_at(session, "export"), text, format=format)

    @verb
    def note(
        self, session: UUID | str, content: str, *, title: str | None = None, idempotency_key: str | None = None
    ) -> Call[models.NotesCount]:
        """Adds a note, also while it runs. Tells how many there are."""
        body = {"content": content} | given(title=title)
        return change("POST", _at(session, "notes"), one(models.NotesCount), body, idempotency_key)

    @verb
    def stats(self, *, strategy: str | None = None, days: float | None = None) -> Call[models.TranscriptStats]:
        """Figures of runs that have ended by strategy, of the last so many days or of all time."""
        return look(path("transcripts", "stats"), one(models.TranscriptStats), strategy=strategy, days=days)
