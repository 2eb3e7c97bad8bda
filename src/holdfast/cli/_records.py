"""Records as the JSON that the REST API has of them, so that a script need not know whether a daemon answered or this process."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast.domain import Event, Execution, Node, Query, Session, query_id


def time_of(milliseconds: int | None) -> str | None:
    """
    >>> time_of(1_794_807_912_345)
    '2026-11-16T05:45:12.345Z'
    """
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> str:
    """The time, as `time_of` writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_json(session: Session) -> dict[str, Any]:
    origin, worktree = session.origin, session.worktree
    return {
        "id": str(session.id),
        "template_id": str(session.template_id),
        "template_version": session.template_version,
        "name": session.name,
        "meta": session.meta,
        "workspace_id": None if worktree is None else worktree.workspace_id,
        "base_commit_oid": None if worktree is None else worktree.base_commit_oid,
        "worktree_path": None if worktree is None else worktree.path,
        "status": session.state.value,
        "created_at": time_of(session.created_at),
        "updated_at": time_of(session.updated_at),
        "closed_at": time_of(session.closed_at),
        "last_error": session.last_error,
        "execution_id": None if session.execution_id is None else str(session.execution_id),
        "head": session.head,
        "origin": None if origin is None else {"session_id": str(origin.session_id), "checkpoint": origin.number},
        "wake_at": time_of(session.wake_at),
    }


def execution_json(execution: Execution, queries: Sequence[Query]) -> dict[str, Any]:
    return {
        "id": str(execution.id),
        "session_id": str(execution.session_id),
        "kind": execution.kind.value,
        "status": execution.status.value,
        "input": execution.input,
        "path": execution.path,
        "args": execution.args,
        "env": execution.env,
        "started_at": time_of(execution.started_at),
        "ended_at": time_of(execution.ended_at),
        "result": execution.result,
        "error": execution.error,
        "seq": execution.seq,
        "parent_id": None if execution.parent_id is None else str(execution.parent_id),
        "queries": [query_json(query) for query in queries],
    }


def query_json(query: Query) -> dict[str, Any]:
    return {
        "id": query.id,
        "session_id": str(query.session_id),
        "execution_id": str(query.execution_id),
        "kind": query.kind.value,
        "payload": query.payload,
        "state": query.state.value,
        "asked_at": time_of(query.asked_at),
        "deadline": time_of(query.deadline),
        "closed_at": time_of(query.closed_at),
        "answer": None if query.answer is None else query.answer.as_dict(),
    }


def event_json(event: Event, execution: Execution) -> dict[str, Any]:
    return {
        "execution_id": str(execution.id),
        "session_id": str(execution.session_id),
        "seq": event.seq,
        "ts": time_of(event.ts),
        "type": event.type,
        "payload": event.payload,
    }


def checkpoint_json(node: Node) -> dict[str, Any]:
    return {
        "number": node.number,
        "parent": node.parent,
        "execution_id": str(node.execution_id),
        "created_at": time_of(node.created_at),
        "depth": node.depth,
        "bytes": node.size,
        "open": [query_id(number) for number in node.open],
        "wake_at": time_of(node.wake_at),
    }


def tree_json(tree: dict[str, Any]) -> dict[str, Any]:
    return tree | {"nodes": [node | {"created_at": time_of(node["created_at"])} for node in tree["nodes"]]}
