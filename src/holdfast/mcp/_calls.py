"""What each tool does: arguments in, control called, plain JSON out."""

import asyncio
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from holdfast.capabilities import read_file, resolve_root
from holdfast.control import Holdfast, Response, Scoped, plain
from holdfast.domain import Budget, InvalidId, InvalidValue, parse_id
from holdfast.mcp._rights import view
from holdfast.mcp._under_way import Run

Json = dict[str, Any]

_LANGUAGES: Final = {".lua": "lua", ".js": "javascript", ".mjs": "javascript"}


class Calls:
    """The tools, by their names, over an opened Holdfast. `root` is the folder below which scripts may be named as files; None is none."""

    def __init__(self, hf: Holdfast, root: str | None = None) -> None:
        self._whole = hf
        self._root = None if root is None else resolve_root(root)

    @property
    def _hf(self) -> Scoped:
        """Holdfast as whoever calls sees it."""
        return view(self._whole)

    async def __call__(self, tool: str, given: Json, key: str | None, run: Run) -> Json:
        """`key` makes it happen once; `run` is told which run this is about."""
        do = getattr(self, f"_{tool}")
        result: Json = await do(given, key, run)
        return result

    # ---- runs ----------------------------------------------------------------------------------------------------------------------

    async def _run(self, given: Json, key: str | None, run: Run) -> Json:
        code, language = await self._script(given)
        return await self._hf.strategies.run(
            code,
            language=given.get("language") or language,
            template=given.get("template"),
            ctx=given.get("ctx"),
            budget=Budget.parse(given.get("budget")),
            idempotency_key=key,
            began=run.began,
        )

    async def _script(self, given: Json) -> tuple[str, str | None]:
        """The text to run, and the language, if its name tells."""
        code, file = given.get("code"), given.get("file")
        if code is not None and file is not None:
            raise InvalidValue("Provide either `code` or `file`, not both.")
        if code is not None:
            return code, None
        if file is None:
            raise InvalidValue("Either `code` or `file` must be provided.")
        if self._root is None:
            raise InvalidValue("`file` is for a server on the host's own machine (holdfast mcp); send the script as `code`")
        found = await asyncio.to_thread(read_file, self._root, file)
        return found.text, _LANGUAGES.get(PurePath(found.path).suffix.lower())

    async def _advise(self, given: Json, key: str | None, run: Run) -> Json:
        return await self._hf.strategies.advise(
            given["strategy"],
            given.get("task"),
            opts=given.get("opts"),
            language=given.get("language"),
            template=given.get("template"),
            budget=Budget.parse(given.get("budget")),
            idempotency_key=key,
            began=run.began,
        )

    async def _continue(self, given: Json, key: str | None, run: Run) -> Json:
        if "responses" in given:
            responses = [_response(item) for item in given["responses"]]
            if not responses:
                raise InvalidValue("Empty responses array")
        elif "response" in given or "error" in given:
            responses = [_response({name: given[name] for name in _ANSWER if name in given})]
        else:
            raise InvalidValue("Either 'response' or 'responses' must be provided")
        return await self._hf.strategies.resume(given["session_id"], responses, idempotency_key=key)

    async def _cancel(self, given: Json, key: str | None, run: Run) -> Json:
        return await self._hf.strategies.cancel(given["session_id"], idempotency_key=key)

    async def _fork(self, given: Json, key: str | None, run: Run) -> Json:
        return await self._hf.strategies.fork(
            given["session_id"], given.get("checkpoint"), name=given.get("name"), idempotency_key=key, began=run.began
        )

    # ---- looking -------------------------------------------------------------------------------------------------------------------

    async def _status(self, given: Json, key: str | None, run: Run) -> Json:
        return await self._hf.strategies.status(
            given.get("session_id"),
            pending_filter=given.get("pending_filter"),
            include_history=given.get("include_history", False),
            **_some(given, "limit"),
        )

    async def _history(self, given: Json, key: str | None, run: Run) -> Json:
        return await self._hf.strategies.history(given["session_id"], **_some(given, "limit"))

    async def _strategies(self, given: Json, key: str | None, run: Run) -> Json:
        if "name" in given:
            return await self._hf.strategies.show(given["name"], given.get("language"))
        return {"strategies": await self._hf.strategies.list(given.get("language"))}

    async def _templates(self, given: Json, key: str | None, run: Run) -> Json:
        templates = self._hf.templates
        if "name" not in given:
            page = await templates.list(**_some(given, "limit"))
            return {"templates": [plain.template(found, (await templates.version(found.id)).spec) for found in page.items]}
        found = await templates.get(given["name"])
        spec = (await templates.version(found.id, found.latest)).spec
        grants = [plain.permission(one) for one in await templates.policy(found.id, found.latest) if one.granted]
        return {"template": plain.template(found, spec), "settings": plain.settings(found.id, spec), "grants": grants}

    async def _transcripts(self, given: Json, key: str | None, run: Run) -> Json:
        transcripts, session_id = self._hf.transcripts, given.get("session_id")
        if given.get("stats"):
            if "note" in given:
                raise InvalidValue("a note and stats are two calls")
            return await transcripts.stats(**_some(given, "strategy", "days"))
        if session_id is None:
            if "note" in given or "format" in given:
                raise InvalidValue("say whose transcript is meant: session_id")
            return await transcripts.list(**_some(given, "strategy", "limit", "after"))
        if "note" in given:
            return await transcripts.note(session_id, given["note"], title=given.get("title"), idempotency_key=key)
        if given.get("format", "json") != "json":
            text = await transcripts.export(session_id, given["format"])
            return {"session_id": session_id, "format": given["format"], "text": text}
        return await transcripts.get(session_id, **_some(given, "max_chars"))


_ANSWER: Final = ("response", "query_id", "error", "usage", "model", "finish_reason")


def _response(given: Mapping[str, Any]) -> Response:
    if ("response" in given) == ("error" in given):
        raise InvalidValue("an answer has a response or an error")
    return Response(**given)


def _some(given: Json, *names: str) -> Json:
    """Those that were given."""
    return {name: given[name] for name in names if name in given}


def names_queries(given: Json) -> bool:
    """Whether all that is answered is named by the id of its query."""
    return all("query_id" in item for item in given["responses"]) if "responses" in given else "query_id" in given


def session_of(given: Json) -> UUID | None:
    """The session that a call is about, if its arguments name one that could be."""
    try:
        return parse_id(given["session_id"]) if "session_id" in given else None
    except InvalidId:
        return None
