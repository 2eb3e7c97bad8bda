"""Transcripts: what runs asked, were told, and came to."""

from typing import Annotated, Final

from fastapi import Query
from starlette.responses import Response

from holdfast.http import _examples
from holdfast.http._answers import Json
from holdfast.http._call import READ, RUN
from holdfast.http._params import Key, Listed, SessionId
from holdfast.http._routes import Hf, Routes
from holdfast.http.models import _strategies as models

routes: Final = Routes("transcripts")

_NOT_FOUND: Final = ("SESSION_NOT_FOUND", "EXECUTION_NOT_FOUND")
_TYPES: Final = {"jsonl": "application/x-ndjson", "markdown": "text/markdown"}
_Strategy = Annotated[str | None, Query(description="Only of this strategy.", min_length=1, max_length=1000)]


@routes.add("GET", "/transcripts", READ, list[models.TranscriptSummary], example=[_examples.TRANSCRIPT_SUMMARY])
async def list_transcripts(hf: Hf, listed: Listed, strategy: _Strategy = None) -> Json:
    """Runs, newest first, active or not."""
    found = await hf.transcripts.list(strategy=strategy, limit=listed.limit, after=listed.cursor)
    return listed.headed(found["transcripts"], found["next"])


@routes.add("GET", "/transcripts/stats", READ, models.TranscriptStats, example=_examples.TRANSCRIPT_STATS)
async def get_transcript_stats(
    hf: Hf,
    strategy: _Strategy = None,
    days: Annotated[float | None, Query(gt=0, le=36_500, description="Only what began in the last so many days.")] = None,
) -> Json:
    """Figures of runs that have ended, by strategy."""
    return Json(await hf.transcripts.stats(strategy=strategy, days=days))


@routes.add("GET", "/transcripts/{session_id}", READ, models.Transcript, errors=_NOT_FOUND, example=_examples.TRANSCRIPT)
async def get_transcript(
    hf: Hf,
    session_id: SessionId,
    max_chars: Annotated[
        int, Query(ge=0, le=1 << 30, description="The oldest exchanges are left out beyond; 0 is no limit.")
    ] = 100_000,
) -> Json:
    """One run with all that was asked and answered, as far as it has come."""
    return Json(await hf.transcripts.get(session_id, max_chars=max_chars))


@routes.add(
    "GET",
    "/transcripts/{session_id}/export",
    READ,
    str,
    errors=_NOT_FOUND,
    example=_examples.EXPORTED,
    extra={"texts": True},
)
async def export_transcript(
    hf: Hf,
    session_id: SessionId,
    format: Annotated[  # noqa: A002 - what it is called in the address
        str, Query(description="JSON lines, or Markdown.", json_schema_extra={"enum": list(_TYPES)})
    ] = "jsonl",
) -> Response:
    """The whole of one as text."""
    text = await hf.transcripts.export(session_id, format)
    return Response(text.encode("utf-8", "replace"), media_type=_TYPES[format])


@routes.add(
    "POST",
    "/transcripts/{session_id}/notes",
    RUN,
    models.NotesCount,
    errors=(*_NOT_FOUND, "IDEMPOTENCY_CONFLICT"),
    status=201,
    example={"session_id": _examples.SESSION_ID, "notes_count": 1},
    extra={"body": {"title": "Why", "content": "The second sample was the odd one."}},
)
async def add_note(hf: Hf, session_id: SessionId, body: models.NewNote, key: Key) -> Json:
    """Adds a note to a run, also while it goes on."""
    return Json(await hf.transcripts.note(session_id, body.content, title=body.title, idempotency_key=key), 201)
