"""What of a request goes into the audit log: who called which route, about which object, and with which outcome. Never a body."""

import re
from typing import Any, Final
from uuid import UUID

from starlette.types import Scope

from holdfast.control import AuditWriter
from holdfast.domain import AuditEntry
from holdfast.http._call import Call

_CHANGES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REFUSALS: Final = frozenset({401, 403, 429})
_UNMATCHED: Final = "unmatched"
_PREFIX: Final = "/api/v1"
_UUID: Final = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OBJECTS: Final = ("execution_id", "session_id", "template_id")
"""Parameters of paths that name an object, the closest first."""
_TYPES: Final = {"templates": "template", "sessions": "session", "executions": "execution", "strategies": "session"}


class Auditor:
    """Puts requests into the audit log."""

    def __init__(self, writer: AuditWriter) -> None:
        self._writer = writer

    async def note(self, call: Call, scope: Scope, status: int) -> None:
        """Note a request whose answer is about to be sent.

        Each change is an entry; it is durable before the answer, unless the route is one that is called all the time. Requests that did
        not succeed are counted together: a caller can have as many of them as it likes.
        """
        is_change = call.method in _CHANGES
        if not is_change and status not in _REFUSALS:
            return
        if call.mounted and status < 400:  # whoever serves it notes what was called
            return
        entry = self._entry(call, scope, status)
        if is_change and status < 400:
            self._writer.add(entry)
            if not call.hot:
                await self._writer.flush()
        else:
            self._writer.refuse(entry)

    def _entry(self, call: Call, scope: Scope, status: int) -> AuditEntry:
        caller, client = call.caller, scope.get("client")
        kind, some_id = _object(call, scope)
        return AuditEntry(
            at=self._writer.now(),
            # What has no route may have any method, and each would be another kind of refusal.
            action=_UNMATCHED if call.route == _UNMATCHED else f"{call.method} {call.route.removeprefix(_PREFIX)}",
            outcome="ok" if status < 400 else call.code or f"HTTP_{status}",
            status=status,
            tenant=call.tenant,
            token="" if caller is None else caller.id,
            token_name="" if caller is None or caller.token is None else caller.token.name,
            object_type=kind,
            object_id=some_id,
            surface="mcp" if call.mounted else "rest",
            address=str(client[0]) if client else "",
            request_id=call.request_id,
        )


def _object(call: Call, scope: Scope) -> tuple[str, str]:
    """The object that a request is about: what its path names, or what it has made. Only ids, so that nothing else gets into the log."""
    given: dict[str, Any] = scope.get("path_params") or {}
    for name in _OBJECTS:
        if name in given:
            return name.removesuffix("_id"), _id(given[name])
    return _TYPES.get(call.tag, ""), _id(call.subject)


def _id(value: object) -> str:
    text = str(value) if isinstance(value, str | UUID) else ""
    return text if _UUID.fullmatch(text) else ""
