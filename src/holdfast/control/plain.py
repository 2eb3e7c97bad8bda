"""Records as plain values, the same on all surfaces: dictionaries with the names of the API, times in RFC 3339, ids as text."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from holdfast.control._policy import Permission, masked
from holdfast.domain import (
    AuditEntry,
    Capability,
    ErrorEntry,
    Event,
    Execution,
    ExecutionKind,
    Family,
    Node,
    Query,
    Session,
    StartupPath,
    Template,
    TemplateSpec,
    TemplateVersion,
    Usage,
    query_id,
)
from holdfast.runtime import Turn

_LAST: Final = 253_402_300_799_999
"""The end of the year 9999: what is later is said to be then."""


def moment(ms: int) -> str:
    """A time in milliseconds since 1970, as text.

    >>> moment(1794807912345)
    '2026-11-16T05:45:12.345Z'
    """
    ms = min(max(ms, 0), _LAST)
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


@lru_cache(256)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def some_moment(ms: int | None) -> str | None:
    return None if ms is None else moment(ms)


def _some(value: object) -> str | None:
    return None if value is None else str(value)


# ---- templates ---------------------------------------------------------------------------------------------------------------------


def template(found: Template, spec: TemplateSpec) -> dict[str, Any]:
    return {
        "id": str(found.id),
        "name": found.name,
        "engine": spec.language,
        "is_active": spec.active,
        "version": found.latest,
        "exposed_modules": list(spec.exposed),
        "libraries": list(spec.packages),
        "created_at": moment(found.created_at),
        "updated_at": moment(found.updated_at),
        "damaged": False,
    }


def settings(template_id: object, spec: TemplateSpec) -> dict[str, Any]:
    return {
        "template_id": str(template_id),
        "limits": {name: getattr(spec.limits, name) for name in type(spec.limits).__dataclass_fields__},
        "resolver": dict(spec.resolver),
        "runtime": dict(spec.runtime),
    }


def capability(template_id: object, found: Capability) -> dict[str, Any]:
    return {
        "id": found.id,
        "template_id": str(template_id),
        "kind": found.kind,
        "name": found.name,
        "enabled": found.enabled,
        "config": masked(found),
    }


def permission(found: Permission) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "name": found.name,
        "granted": found.granted,
        "reason": found.reason,
        "description": found.description,
        "functions": list(found.functions),
        "config": dict(found.config),
    }


def startup_file(template_id: object, found: StartupPath) -> dict[str, Any]:
    return {
        "id": found.id,
        "template_id": str(template_id),
        "path": found.path,
        "order_index": found.order_index,
        "mode": found.mode,
    }


def startup_files(template_id: object, files: Iterable[StartupPath]) -> list[dict[str, Any]]:
    """In the order in which they run."""
    return [startup_file(template_id, file) for file in sorted(files, key=lambda file: file.order_index)]


def template_version(found: TemplateVersion) -> dict[str, Any]:
    spec = found.spec
    return {
        "template_id": str(found.template_id),
        "number": found.number,
        "spec": {
            "engine": spec.language,
            "is_active": spec.active,
            "exposed_modules": list(spec.exposed),
            "libraries": list(spec.packages),
            "capabilities": [capability(found.template_id, one) for one in spec.capabilities],
            "startup_files": startup_files(found.template_id, spec.files),
            "sources": {
                "libraries": [file.filename for file in spec.libraries],
                "modules": [file.filename for file in spec.modules],
                "startup": [file.filename for file in spec.startup],
            },
            **{name: part for name, part in settings(found.template_id, spec).items() if name != "template_id"},
        },
        "created_at": moment(found.created_at),
    }


# ---- sessions ----------------------------------------------------------------------------------------------------------------------


def session(found: Session) -> dict[str, Any]:
    worktree, origin = found.worktree, found.origin
    return {
        "id": str(found.id),
        "template_id": str(found.template_id),
        "template_version": found.template_version,
        "name": found.name,
        "meta": found.meta,
        "workspace_id": None if worktree is None else worktree.workspace_id,
        "base_commit_oid": None if worktree is None else worktree.base_commit_oid,
        "worktree_path": None if worktree is None else worktree.path,
        "status": found.state.value,
        "created_at": moment(found.created_at),
        "updated_at": moment(found.updated_at),
        "closed_at": some_moment(found.closed_at),
        "last_error": found.last_error,
        "execution_id": _some(found.execution_id),
        "head": found.head,
        "origin": None if origin is None else {"session_id": str(origin.session_id), "checkpoint": origin.number},
        "wake_at": some_moment(found.wake_at),
        "family": None if found.family is None else family(found.family),
        "usage": usage(found.usage),
        "damaged": found.damaged,
    }


def usage(found: Usage) -> dict[str, Any]:
    shown = found.as_dict()
    return shown | {"hour": shown["hour"] | {"began_at": moment(shown["hour"]["began_at"])}}


def family(found: Family) -> dict[str, Any]:
    return {
        "root_id": str(found.root),
        "parent_id": str(found.parent),
        "query_id": query_id(found.query),
        "index": found.index,
        "depth": found.depth,
    }


def checkpoint(node: Node) -> dict[str, Any]:
    return {
        "number": node.number,
        "parent": node.parent,
        "execution_id": str(node.execution_id),
        "created_at": moment(node.created_at),
        "depth": node.depth,
        "bytes": node.size,
        "open": [query_id(number) for number in node.open],
        "wake_at": some_moment(node.wake_at),
    }


def tree(found: dict[str, Any]) -> dict[str, Any]:
    return found | {"nodes": [node | {"created_at": some_moment(node["created_at"])} for node in found["nodes"]]}


def error_entry(found: ErrorEntry) -> dict[str, Any]:
    return {
        "id": str(found.id),
        "timestamp": moment(found.timestamp),
        "phase": found.phase,
        "task_id": found.task_id,
        "execution_id": _some(found.execution_id),
        "kind": found.kind,
        "message": found.message,
        "attempt": found.attempt,
        "resolved_at": some_moment(found.resolved_at),
    }


# ---- executions and queries --------------------------------------------------------------------------------------------------------


def execution(found: Execution, queries: Iterable[Query] = ()) -> dict[str, Any]:
    args, env = found.args, found.env
    if found.kind is ExecutionKind.REPL:
        args, env = [], {}
    return {
        "id": str(found.id),
        "session_id": str(found.session_id),
        "kind": found.kind.value,
        "status": found.status.value,
        "input": found.input,
        "path": found.path,
        "args": args,
        "env": env,
        "started_at": moment(found.started_at),
        "ended_at": some_moment(found.ended_at),
        "result": found.result,
        "error": found.error,
        "metrics": found.metrics.as_dict(),
        "custom": found.custom,
        "seq": found.seq,
        "parent_id": _some(found.parent_id),
        "queries": [query(one) for one in queries],
    }


def turn(found: Turn) -> dict[str, Any]:
    return execution(found.execution, found.queries)


def event(execution_id: object, session_id: object, found: Event) -> dict[str, Any]:
    return {
        "execution_id": str(execution_id),
        "session_id": str(session_id),
        "seq": found.seq,
        "ts": moment(found.ts),
        "type": found.type,
        "payload": found.payload,
    }


def query(found: Query) -> dict[str, Any]:
    return {
        "id": found.id,
        "session_id": str(found.session_id),
        "execution_id": str(found.execution_id),
        "kind": found.kind.value,
        "payload": found.payload,
        "state": found.state.value,
        "asked_at": moment(found.asked_at),
        "deadline": some_moment(found.deadline),
        "closed_at": some_moment(found.closed_at),
        "answer": None if found.answer is None else found.answer.as_dict(),
    }


def audit_entry(entry: AuditEntry) -> dict[str, Any]:
    """An entry of the audit log."""
    return {name: getattr(entry, name) for name in AuditEntry.__dataclass_fields__} | {"at": moment(entry.at)}
