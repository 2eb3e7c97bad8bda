"""What can be read by address: transcripts, sessions, strategies, and the type definitions for editors."""

import re
from typing import Any, Final

import mcp_types as types

from holdfast.control import Scoped
from holdfast.domain import NotFound
from holdfast.mcp._plain import shown

_JSON: Final = "application/json"
_TYPES: Final = {"alc.d.lua": ("lua", "text/x-lua"), "holdfast.d.ts": ("javascript", "text/typescript")}
_KINDS: Final = {"lua": "text/x-lua", "javascript": "text/javascript"}
_ADDRESS: Final = re.compile(
    r"holdfast://(?P<kind>transcripts|sessions|strategies|types)/(?P<name>[A-Za-z0-9._-]{1,64})", re.ASCII
)
"""Whether there is such a name is asked of those who know."""

FIXED: Final = [
    types.Resource(uri=f"holdfast://types/{name}", name=name, description="Types of the script library", mime_type=mime)
    for name, (_, mime) in _TYPES.items()
]
TEMPLATES: Final = [
    types.ResourceTemplate(
        uri_template="holdfast://transcripts/{session_id}",
        name="transcript",
        description="What a run asked, was told, and came to",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        uri_template="holdfast://sessions/{session_id}",
        name="session",
        description="Where a run stands, with what it asks",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        uri_template="holdfast://strategies/{name}",
        name="strategy",
        description="The text of a strategy",
        mime_type="text/plain",
    ),
]


async def read(hf: Scoped, uri: str) -> types.TextResourceContents:
    """The text at an address. `NotFound`, also for what looks like none of ours."""
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        raise NotFound("there is no such resource")
    kind, name = match["kind"], match["name"]
    if kind == "transcripts":
        return _json(uri, await hf.transcripts.get(name))
    if kind == "sessions":
        return _json(uri, await hf.strategies.status(name, pending_filter="full", include_history=True))
    if kind == "strategies":
        found = await hf.strategies.show(name)
        return types.TextResourceContents(uri=uri, text=found["text"], mime_type=_KINDS[found["language"]])
    if name not in _TYPES:
        raise NotFound("there is no such resource")
    language, mime = _TYPES[name]
    from holdfast.strategies.types import text

    return types.TextResourceContents(uri=uri, text=text(language), mime_type=mime)


def _json(uri: str, value: Any) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, text=shown(value)[0], mime_type=_JSON)
