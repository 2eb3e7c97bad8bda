"""What there is to call: names, arguments, results, and what a token must allow.

Every host reads all of this before it does anything, so it is short. The schemas are written by hand for that reason, and arguments are
checked against the very same ones (`_arguments`).
"""

from dataclasses import dataclass, field
from typing import Any, Final

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_OBJECT: Final[Schema] = {"type": "object"}
_LIST: Final[Schema] = {"type": "array"}
_KEY: Final[Schema] = {"type": "string", "description": "The same key again: the same result, done once"}
_LANGUAGE: Final[Schema] = {"enum": ["lua", "javascript"]}
_BUDGET: Final[Schema] = {
    "type": "object",
    "properties": {"max_llm_calls": _WHOLE, "max_elapsed_ms": _WHOLE, "max_tokens": _WHOLE},
}
_USAGE: Final[Schema] = {"type": "object", "description": "prompt_tokens, completion_tokens"}
_ANSWER: Final[Schema] = {
    "query_id": _TEXT,
    "response": {},
    "error": {"type": "string", "description": "Raised in the script instead"},
    "usage": _USAGE,
    "model": _TEXT,
    "finish_reason": _TEXT,
}
_ITEM: Final[Schema] = {
    "type": "object",
    "properties": {name: {"type": part["type"]} if "type" in part else {} for name, part in _ANSWER.items()},
    "required": ["query_id"],
}
_REPLY: Final[Schema] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["needs_response", "accepted", "completed", "error", "cancelled", "waiting"]},
        "session_id": _TEXT,
        "query_id": _TEXT,
        "prompt": _TEXT,
        "queries": _LIST,
        "remaining": _WHOLE,
        "result": {},
        "error": _TEXT,
    },
    "required": ["status", "session_id"],
}

READ: Final = "read"
RUN: Final = "run"
ANSWER: Final = "answer"


def _gives(**properties: Schema) -> Schema:
    """A result that has some of these, by what was asked for."""
    return {"type": "object", "properties": properties}


@dataclass(frozen=True)
class Tool:
    """One tool. `scope` is what a token must allow; `changes` are arguments that make it need `run` as well."""

    name: str
    description: str
    properties: Schema
    output: Schema
    scope: str
    required: tuple[str, ...] = ()
    hints: dict[str, bool] = field(default_factory=dict)
    changes: frozenset[str] = frozenset()

    @property
    def input(self) -> Schema:
        """The schema of its arguments."""
        schema: Schema = {"type": "object", "properties": self.properties, "additionalProperties": False}
        return schema | {"required": list(self.required)} if self.required else schema

    def needs(self, arguments: Schema) -> str:
        """The scope that a token must have for this call."""
        return RUN if self.changes & arguments.keys() else self.scope


_LOOKS: Final = {"readOnlyHint": True, "openWorldHint": False}
_ADDS: Final = {"destructiveHint": False}

TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            "run",
            "Runs a script until it asks something or ends. Input is the global ctx; alc.llm (Lua) or hf.llm (JavaScript) asks.",
            {
                "code": _TEXT,
                "file": {"type": "string", "description": "Instead of code; local servers only"},
                "language": _LANGUAGE | {"description": "By default lua, or as the file is named"},
                "template": {"type": "string", "description": "What it may reach"},
                "ctx": _OBJECT,
                "budget": _BUDGET,
                "idempotency_key": _KEY,
            },
            _REPLY,
            RUN,
            hints=_ADDS,
        ),
        Tool(
            "advise",
            "Runs a strategy by name on a task; `strategies` lists them.",
            {
                "strategy": _TEXT,
                "task": _TEXT,
                "opts": {"type": "object", "description": "More of ctx"},
                "language": _LANGUAGE,
                "template": _TEXT,
                "budget": _BUDGET,
                "idempotency_key": _KEY,
            },
            _REPLY,
            RUN,
            required=("strategy",),
            hints=_ADDS,
        ),
        Tool(
            "continue",
            "Answers what a run asks: one response, or many in responses. Give query_id: then a repeated call cannot answer another.",
            {
                "session_id": _TEXT,
                **_ANSWER,
                "responses": {"type": "array", "items": _ITEM},
                "idempotency_key": _KEY,
            },
            _REPLY,
            ANSWER,
            required=("session_id",),
            hints=_ADDS | {"idempotentHint": True},
        ),
        Tool(
            "status",
            "Shows one run, or all that are active.",
            {
                "session_id": _TEXT,
                "pending_filter": {
                    "description": "meta, preview or full: what is shown of open queries; or an object of query_id, max_tokens, system,"
                    ' grounded, underspecified, prompt: {"mode": "off" | "preview" | "full", "chars"}',
                },
                "include_history": {"type": "boolean"},
                "limit": _WHOLE,
            },
            _gives(active_sessions=_WHOLE, sessions=_LIST, session_id=_TEXT, phase=_TEXT, pending=_LIST),
            READ,
            hints=_LOOKS,
        ),
        Tool(
            "cancel",
            "Stops a run.",
            {"session_id": _TEXT, "idempotency_key": _KEY},
            _REPLY,
            RUN,
            required=("session_id",),
            hints={"destructiveHint": True, "idempotentHint": True},
        ),
        Tool(
            "fork",
            "Makes a second run that goes on from a checkpoint of this one, by default from where it stands.",
            {"session_id": _TEXT, "checkpoint": _WHOLE, "name": _TEXT, "idempotency_key": _KEY},
            _REPLY,
            RUN,
            required=("session_id",),
            hints=_ADDS,
        ),
        Tool(
            "history",
            "Lists the checkpoints of a run, for fork.",
            {"session_id": _TEXT, "limit": _WHOLE},
            _gives(nodes=_LIST, total=_WHOLE),
            READ,
            required=("session_id",),
            hints=_LOOKS,
        ),
        Tool(
            "strategies",
            "Lists strategies, or shows one with its text.",
            {"name": _TEXT, "language": _LANGUAGE},
            _gives(strategies=_LIST, text=_TEXT),
            READ,
            hints=_LOOKS,
        ),
        Tool(
            "templates",
            "Lists templates, or shows one with what it grants.",
            {"name": _TEXT, "limit": _WHOLE},
            _gives(templates=_LIST, template=_OBJECT, grants=_LIST),
            READ,
            hints=_LOOKS,
        ),
        Tool(
            "transcripts",
            "Lists runs with what was asked and answered; shows or exports one, adds a note to it, or counts by strategy (stats).",
            {
                "session_id": _TEXT,
                "format": {"enum": ["json", "jsonl", "markdown"]},
                "max_chars": _WHOLE,
                "note": _TEXT,
                "title": {"type": "string", "description": "Of the note"},
                "stats": {"type": "boolean"},
                "strategy": {"type": "string", "description": "Only of this one"},
                "days": {"type": "number", "description": "For stats: only so many"},
                "limit": _WHOLE,
                "after": {"type": "string", "description": "next of the last page"},
                "idempotency_key": _KEY,
            },
            _gives(transcripts=_LIST, transcript=_LIST, text=_TEXT, notes_count=_WHOLE, strategies=_OBJECT),
            READ,
            hints=_ADDS | {"openWorldHint": False},
            changes=frozenset({"note"}),
        ),
    )
}

INSTRUCTIONS: Final = (
    "Strategies are scripts that ask a model or a person and wait, durably. run or advise starts one. While status is needs_response,"
    " answer each query with continue; every run survives restarts and is found again by session_id (status). A script's own failure"
    " is a result with status error."
)
