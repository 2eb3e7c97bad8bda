"""Transcripts: what runs of strategies asked, were told, and came to.

A view of the store, so it is written as the run goes, and what a killed process had heard is in it. What branches asked is part of it,
under the ids by which it was answered. It goes with its session.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from holdfast.control import _given
from holdfast.control._exchanges import exchanges
from holdfast.control._family import Asked
from holdfast.control._once import Once
from holdfast.control._tenancy import TenantRuntime
from holdfast.control.plain import moment, some_moment
from holdfast.domain import (
    Execution,
    ExecutionKind,
    ExecutionNotFound,
    InvalidValue,
    QueryKind,
    parse_id,
    replies,
)
from holdfast.runtime import AddNote, branches, count_notes, notes_of
from holdfast.sandbox import jsontext
from holdfast.store import Reply, StrategyFigures

_HINT: Final = 100
_MOST_CHARS: Final = 100_000
_FEW: Final = 5
_DAY_MS: Final = 86_400_000
_OURS: Final = frozenset({"prompt", "question", "name", "system"})
_compact: Final = json.JSONEncoder(ensure_ascii=False).encode
_AWKWARD: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
Json = dict[str, Any]


class Transcripts:
    """`hf.transcripts`: list, get, export, note, stats."""

    def __init__(self, runtime: TenantRuntime, once: Once) -> None:
        self._runtime, self._once = runtime, once

    async def list(self, *, strategy: str | None = None, limit: int = 50, after: str | None = None) -> Json:
        """Newest first: `{transcripts: [...], next}`, each with `session_id`, `strategy`, `status`, `task_hint`, times and counts."""
        page = _given.page(limit, after)
        return await self._runtime.call(self._list, _given.name(strategy, "strategy"), page)

    async def get(self, session: UUID | str, *, max_chars: int = _MOST_CHARS) -> Json:
        """One, whole: with `ctx`, `result`, `error`, `stats`, `notes`, and the exchanges in the order of asking in `transcript`.

        If these have more characters than `max_chars` (0: no limit) the oldest are left out: then it has `truncated: true`,
        `original_rounds` and `returned_rounds`. `SessionNotFound`.
        """
        _given.number(max_chars, "max_chars")
        session_id = parse_id(session, "session")
        return await self._runtime.call(lambda: _cut(self._whole(session_id), max_chars))

    async def export(self, session: UUID | str, format: str = "jsonl") -> str:  # noqa: A002 - what users call it
        """The whole of one as text: `jsonl` (a line for the run, each exchange, each note and the end) or `markdown`."""
        write = _FORMATS.get(format) if isinstance(format, str) else None
        if write is None:
            raise InvalidValue(f"there is no format {str(format)[:40]!r}; there are {', '.join(_FORMATS)}")
        session_id = parse_id(session, "session")
        return await self._runtime.call(lambda: write(self._whole(session_id)))

    async def note(
        self, session: UUID | str, content: str, *, title: str | None = None, idempotency_key: str | None = None
    ) -> Json:
        """Adds a note, also while it runs: `{session_id, notes_count}`."""
        session_id = parse_id(session, "session")

        async def do(reply: Reply | None) -> Json:
            count: int = await self._runtime.submit(session_id, AddNote(content, title, reply))
            return {"session_id": str(session_id), "notes_count": count}

        async def again(outcome: Json) -> Json:
            return {"session_id": str(session_id), "notes_count": outcome["notes_count"]}

        return await self._once(idempotency_key, {"note": str(session_id), "content": content, "title": title}, do, again)

    async def stats(self, *, strategy: str | None = None, days: float | None = None) -> Json:
        """What runs that have ended took, by strategy, of all time or of the last days; branches are part of the run that forked them."""
        if days is not None and (isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= 36_500):
            raise InvalidValue("days must be a positive number, at most 36500")
        since = 0 if days is None else int(self._runtime.settings.clock() - days * _DAY_MS)
        rows = await self._runtime.call(self._runtime.store.strategy_figures, since)
        wanted = [row for row in rows if strategy in (None, row.name)]
        return {"total_sessions": sum(row.count for row in wanted), "strategies": {row.name: _averages(row) for row in wanted}}

    # ---- on a thread ---------------------------------------------------------------------------------------------------------------

    def _list(self, strategy: str | None, page: Json) -> Json:
        kinds = [ExecutionKind.STRATEGY]
        found = self._runtime.store.list_executions(kinds=kinds, strategy=strategy, roots=True, **page)
        return {"transcripts": [self._head(execution) for execution in found.items], "next": found.next}

    def _head(self, execution: Execution) -> Json:
        metrics = execution.metrics
        return {
            "session_id": str(execution.session_id),
            "execution_id": str(execution.id),
            "strategy": execution.path,
            "status": execution.status.value,
            "task_hint": self._hint(execution),
            "started_at": moment(execution.started_at),
            "ended_at": some_moment(execution.ended_at),
            "elapsed_ms": metrics.elapsed_ms,
            "rounds": metrics.rounds,
            "llm_calls": metrics.llm_calls,
            "total_tokens": metrics.total_tokens.as_dict(),
            "notes_count": count_notes(self._runtime.store, execution.session_id),
        }

    def _hint(self, execution: Execution) -> str:
        """What it was about, in a few words: its task, or else the first thing that it asked."""
        text = execution.args.get("task") if isinstance(execution.args, dict) else None
        if not isinstance(text, str):
            first = self._runtime.store.list_queries(execution.session_id, execution_id=execution.id, limit=_FEW).items
            asked = (query for query in first if query.kind is not QueryKind.TIMER and not branches.is_fork(query))
            text = next(map(replies.prompt_of, asked), "")
        return text if len(text) <= _HINT else text[:_HINT] + "..."

    def _whole(self, session_id: UUID) -> Json:
        store = self._runtime.store
        session = store.get_session(session_id)
        execution = branches.latest(store, session.id)
        if execution is None:
            raise ExecutionNotFound("no strategy ran in this session")
        result = execution.result or {}
        preview = {"result_preview": result["preview"]} if "json" not in result and "preview" in result else {}
        return {
            **self._head(execution),
            "code": execution.input,
            "ctx": execution.args,
            "result": result.get("json"),
            **preview,
            "error": execution.error,
            "stats": execution.metrics.stats(execution.budget, execution.custom),
            "transcript": [_exchange(asked) for asked in exchanges(store, execution)],
            "notes": [note | {"timestamp": moment(note["timestamp"])} for note in notes_of(store, session_id)],
        }


# ---- parts of a transcript ---------------------------------------------------------------------------------------------------------


def _exchange(asked: Asked) -> Json:
    query, payload, answer = asked.query, asked.query.payload, asked.query.answer
    shown: Json = {"query_id": asked.id, "kind": query.kind.value, "prompt": replies.prompt_of(query)}
    if query.kind is QueryKind.LLM:
        shown["system"] = payload.get("system")
    options = {name: value for name, value in payload.items() if name not in _OURS and value is not None}
    if options:
        shown["options"] = options
    shown |= {"response": None if answer is None else answer.value, "state": query.state.value}
    about = {} if answer is None else {name: value for name, value in answer.as_dict().items() if name != "value"}
    return shown | about | {"asked_at": moment(query.asked_at), "closed_at": some_moment(query.closed_at)}


def _cut(whole: Json, max_chars: int) -> Json:
    exchanges: list[Json] = whole["transcript"]
    left, kept = max_chars, 0
    for exchange in reversed(exchanges):
        left -= len(jsontext.dumps(exchange, _compact))
        if max_chars and left < 0:
            break
        kept += 1
    if kept == len(exchanges):
        return whole
    cut = {"truncated": True, "original_rounds": len(exchanges), "returned_rounds": kept}
    return whole | {"transcript": exchanges[len(exchanges) - kept :]} | cut


def _averages(row: StrategyFigures) -> Json:
    return {
        "count": row.count,
        "avg_elapsed_ms": round(row.elapsed_ms / row.count),
        "avg_llm_calls": round(row.llm_calls / row.count),
        "avg_rounds": round(row.rounds / row.count),
        "total_prompt_chars": row.prompt_chars,
        "total_response_chars": row.answer_chars,
        "total_prompt_tokens": row.prompt_tokens,
        "total_response_tokens": row.answer_tokens,
        "total_tokens": row.prompt_tokens + row.answer_tokens,
    }


# ---- as text -----------------------------------------------------------------------------------------------------------------------


def _jsonl(whole: Json) -> str:
    ends = ("status", "ended_at", "elapsed_ms", "result", "result_preview", "error", "stats")
    parts = (*ends, "transcript", "notes", "notes_count", "llm_calls", "rounds", "total_tokens")
    head = {name: value for name, value in whole.items() if name not in parts}
    lines = [
        {"type": "run", **head},
        *({"type": "exchange", **exchange} for exchange in whole["transcript"]),
        *({"type": "note", **note} for note in whole["notes"]),
        {"type": "end", **{name: whole[name] for name in ends if name in whole}},
    ]
    return "".join(map(_json_line, lines))


def _json_line(value: Json) -> str:
    """One line that can be written to any file: what many take for the end of a line is escaped, and so are halves of characters."""
    text = jsontext.dumps(value, _compact)
    return (jsontext.dumps(value, json.dumps) if _AWKWARD.search(text) else text) + "\n"


def _markdown(whole: Json) -> str:
    said = [f"# {_line(whole['strategy'])}: {_line(whole['task_hint']) or 'no task'}", ""]
    about = ("session_id", "status", "started_at", "ended_at", "llm_calls", "rounds")
    said += [f"- {name}: {whole[name]}" for name in about if whole[name] is not None]
    for exchange in whole["transcript"]:
        said += ["", f"## {exchange['query_id']} ({exchange['kind']})", ""]
        if exchange.get("system"):
            said += ["System:", "", _fenced(exchange["system"]), ""]
        said += [_fenced(exchange["prompt"]), "", _answered(exchange)]
    for note in whole["notes"]:
        said += ["", f"## Note: {_line(note['title'] or note['timestamp'])}", "", _fenced(note["content"])]
    if whole["ended_at"] is not None:
        result = whole.get("result_preview") or _text(whole["result"])
        end = (whole["error"].get("message") or "") if whole["error"] else result
        said += ["", f"## {'Error' if whole['error'] else 'Result'}", "", _fenced(end)]
    return "\n".join(said) + "\n"


def _answered(exchange: Json) -> str:
    if exchange["state"] == "open":
        return "Not answered yet."
    if exchange.get("error"):
        return f"Error:\n\n{_fenced(exchange['error'].get('message') or '')}"
    if exchange["state"] == "cancelled":
        return "Not answered any more."
    by = f" ({_line(exchange['model'])})" if exchange.get("model") else ""
    return f"Answer{by}:\n\n{_fenced(_text(exchange['response']))}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _line(text: Any) -> str:
    """A text in a line of Markdown, of which none of it is taken for markup."""
    return re.sub(r"[\\`*<\[&]", r"\\\g<0>", " ".join(str(text or "").split()))


def _fenced(text: str) -> str:
    """A text as it is, whatever it has in it: between fences that are longer than any of its own."""
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


_FORMATS: Final[dict[str, Callable[[Json], str]]] = {"jsonl": _jsonl, "markdown": _markdown}
