"""Leaving: a script may end its execution from wherever it is, by asking for the tool `holdfast.exit`. That query never comes back."""

import json
from collections.abc import Iterable
from typing import Any, Final

from holdfast.runtime._errors import BranchFailed
from holdfast.runtime._plain import plain
from holdfast.runtime.branches import EXIT
from holdfast.sandbox import Failed, Finished, Result, ScriptError, jsontext
from holdfast.sandbox import Query as ScriptQuery

_LONGEST_PREVIEW: Final = 200
_encode: Final = json.JSONEncoder(ensure_ascii=False).encode
_TYPES: Final = {
    "javascript": {type(None): "null", bool: "boolean", str: "string", list: "Array", dict: "Object"},
    "lua": {type(None): "nil", bool: "boolean", str: "string", list: "table", dict: "table"},
}


def left(queries: Iterable[ScriptQuery], language: str) -> Finished | Failed | None:
    """What an execution has come to that leaves by one of these queries; None if it does not, or not in a way that makes sense."""
    for query in queries:
        payload = query.payload
        if query.kind == "tool" and isinstance(payload, dict) and payload.get("name") == EXIT:
            args = plain(payload.get("args"))
            found = _outcome({} if args in (None, []) else args, language)
            if found is not None:
                return found
    return None


def _outcome(args: Any, language: str) -> Finished | Failed | None:
    if not isinstance(args, dict) or type(args.get("ok", True)) is not bool:
        return None
    if args.get("ok", True):
        value = args.get("value")
        kind = _TYPES[language].get(type(value), "number")
        return Finished(Result(kind, _preview(value, kind), value, has_json=True))
    error = args.get("error")
    return Failed(ScriptError("Error", error, code=BranchFailed.code)) if isinstance(error, str) else None


def _preview(value: Any, kind: str) -> str:
    text = value if isinstance(value, str) else kind if value is None else jsontext.dumps(value, _encode)
    return text if len(text) <= _LONGEST_PREVIEW else text[: _LONGEST_PREVIEW - 1] + "…"
