"""Completion in the REPL: the names that the session has now.

They are asked of a fork, which is deleted at once. To evaluate anything in the session itself would be an execution of it, with events
and a checkpoint; what differs since its beginning (`diff`) leaves no trace either, but knows no members. A fork costs no copy, and
whatever the look at it does, it does not do to the session. Getters are not called.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from holdfast.cli._dots import DOTS
from holdfast.cli._host import Host
from holdfast.domain import HoldfastError

_PATIENCE_S: Final = 2.0
_PATH: Final = {
    "javascript": re.compile(r"(?:([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\.)?([A-Za-z_$][\w$]*)?\Z", re.ASCII),
    "lua": re.compile(r"(?:([A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*)[.:])?([A-Za-z_]\w*)?\Z", re.ASCII),
}
_WORDS: Final = {
    language: words.split()
    for language, words in {
        "javascript": "async await break case catch class const continue delete do else export extends false finally for function if "
        "import in instanceof let new null of return static super switch this throw true try typeof undefined var void while yield",
        "lua": "and break do else elseif end false for function goto if in local nil not or repeat return then true until while",
    }.items()
}

_JAVASCRIPT: Final = """(() => {
  let value = PATH.length ? (typeof FIRST === "undefined" ? undefined : FIRST) : globalThis;
  for (const key of PATH.slice(1)) {
    let found;
    for (let at = value == null ? null : Object(value); at && !found; at = Object.getPrototypeOf(at))
      found = Object.getOwnPropertyDescriptor(at, key);
    value = found && "value" in found ? found.value : undefined;
  }
  const names = new Set();
  for (let at = value == null ? null : Object(value), depth = 0; at && depth < 16; at = Object.getPrototypeOf(at), depth++)
    for (const name of Object.getOwnPropertyNames(at)) if (names.size < 5000) names.add(name);
  return [...names];
})()"""
_LUA: Final = """
local path = {PATH}
local value = _G
for _, key in ipairs(path) do
  local at, found = value, nil
  for _ = 1, 16 do
    if type(at) == "string" then at = string end
    if type(at) ~= "table" then break end
    found = rawget(at, key)
    if found ~= nil then break end
    local meta = getmetatable(at)
    at = type(meta) == "table" and rawget(meta, "__index") or nil
  end
  value = found
end
local names = {}
for _ = 1, 16 do
  if type(value) == "string" then value = string end
  if type(value) ~= "table" then break end
  for name in next, value do
    if type(name) == "string" and #names < 5000 then names[#names + 1] = name end
  end
  local meta = getmetatable(value)
  value = type(meta) == "table" and rawget(meta, "__index") or nil
end
return names
"""


class Names:
    """The names of a session, asked for once in each of its states."""

    def __init__(self, host: Host, language: str) -> None:
        self._host, self._language = host, language
        self._known: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}

    async def members(self, session_id: str, path: tuple[str, ...]) -> list[str]:
        """The members of what a path leads to; without one, the global variables. Empty if that cannot be told."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                session = await self._host.session(session_id)
                key = session_id, session["head"], path
                if key not in self._known:
                    self._known[key] = await self._asked(session_id, path)
                return self._known[key]
        except (HoldfastError, TimeoutError):
            return []

    async def _asked(self, session_id: str, path: tuple[str, ...]) -> list[str]:
        fork = await self._host.fork(session_id, name="completion")
        try:
            execution = await self._host.start(fork["id"], question(path, self._language))
            execution = await self._host.look(execution["id"], _PATIENCE_S)
        finally:
            await asyncio.shield(self._host.delete(fork["id"]))
        result: Any = (execution["result"] or {}).get("json")
        names = {name for name in result if isinstance(name, str)} if isinstance(result, list) else set()
        if not path:  # what `let` and `const` declare is no member of anything
            names.update((await self._host.diff(session_id, 0))["added"])
        return sorted(names)


def question(path: tuple[str, ...], language: str) -> str:
    """The snippet that lists the members of what a path leads to."""
    if language == "lua":
        return _LUA.replace("PATH", ", ".join(json.dumps(name) for name in path))
    return _JAVASCRIPT.replace("PATH", json.dumps(path)).replace("FIRST", path[0] if path else "undefined")


class SessionCompleter(Completer):
    """Completes names of a session, words of its language, and commands of the REPL."""

    def __init__(self, names: Names, language: str) -> None:
        self._names, self._language = names, language
        self.session_id = ""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # all are asked for, and that takes an event loop

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if before.startswith(".") and before.strip() == before:
            for command in DOTS:
                if command.startswith(before):
                    yield Completion(command, -len(before))
            return
        found = _PATH[self._language].search(before)
        assert found is not None
        path = tuple(re.split("[.:]", found[1])) if found[1] else ()
        begun = found[2] or ""
        names = await self._names.members(self.session_id, path)
        for name in sorted({*names, *([] if path else _WORDS[self._language])}):
            if name.startswith(begun) and (begun or not name.startswith("_")) and name.isidentifier():
                yield Completion(name, -len(begun))
