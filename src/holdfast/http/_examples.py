"""What requests and answers look like, for the document."""

from typing import Any, Final

TEMPLATE_ID: Final = "6f1c2a9e-6a1f-4a53-9a0e-2f6f6f3d0c11"
SESSION_ID: Final = "0b9f6f0e-58a3-4f0c-9b0a-64a1f5f7a222"
EXECUTION_ID: Final = "a3d1b2c4-7c55-4d6e-8f90-12ab34cd5633"
OTHER_ID: Final = "5f0d7a58-2a3b-4c4d-9e5f-6a7b8c9d0e44"
_AT: Final = "2026-11-16T05:45:12.345Z"

Plain = dict[str, Any]

TEMPLATE: Final[Plain] = {
    "id": TEMPLATE_ID,
    "name": "agents",
    "engine": "javascript",
    "is_active": True,
    "version": 3,
    "exposed_modules": ["fs"],
    "libraries": ["lodash-4.17.21"],
    "created_at": _AT,
    "updated_at": _AT,
    "damaged": False,
}
LIMITS: Final[Plain] = {
    "cpu_ms": 2000,
    "wall_ms": 5000,
    "mem_mb": 128,
    "stack_kb": 1024,
    "max_events": 50000,
    "max_output_kb": 256,
    "max_suspensions": 0,
    "max_cpu_s_per_hour": 1800,
    "max_steps_per_hour": 1000000,
    "max_events_per_hour": 5000000,
    "max_mb_per_hour": 4096,
    "max_execution_cpu_s": 36000,
    "max_execution_steps": 20000000,
    "max_execution_events": 100000000,
    "max_execution_mb": 65536,
    "max_session_cpu_s": 360000,
    "max_session_steps": 100000000,
    "max_session_events": 500000000,
    "max_session_mb": 262144,
}
RESOLVER: Final[Plain] = {"roots": ["."], "extensions": [".js", ".mjs"], "allow_absolute_repo_imports": True}
RUNTIME: Final[Plain] = {"esm": True, "strict": True, "console": True}
SETTINGS: Final[Plain] = {"template_id": TEMPLATE_ID, "limits": LIMITS, "resolver": RESOLVER, "runtime": RUNTIME}
CAPABILITY: Final[Plain] = {
    "id": OTHER_ID,
    "template_id": TEMPLATE_ID,
    "kind": "module",
    "name": "fs",
    "enabled": True,
    "config": {"write": True},
}
PERMISSIONS: Final[list[Plain]] = [
    {
        "kind": "module",
        "name": "fs",
        "granted": True,
        "reason": "its capability is enabled",
        "description": "Reads files of the session's worktree, and writes them if its config says so.",
        "functions": ["readFileSync", "writeFileSync"],
        "config": {"write": True, "timeout_ms": 10_000, "max_calls": 10_000},
    },
    {
        "kind": "module",
        "name": "exec",
        "granted": False,
        "reason": "nothing grants it",
        "description": "Runs the programs that its config names, in the session's worktree.",
        "functions": ["run"],
        "config": {},
    },
]
STARTUP_FILE: Final[Plain] = {
    "id": OTHER_ID,
    "template_id": TEMPLATE_ID,
    "path": "runtime/startup.js",
    "order_index": 10,
    "mode": "eval",
}
DETAIL: Final[Plain] = {
    "template": TEMPLATE,
    "settings": SETTINGS,
    "capabilities": [CAPABILITY],
    "startup_files": [STARTUP_FILE],
    "policy": PERMISSIONS,
}
VERSION: Final[Plain] = {
    "template_id": TEMPLATE_ID,
    "number": 3,
    "spec": {
        "engine": "javascript",
        "is_active": True,
        "exposed_modules": ["fs"],
        "libraries": ["lodash-4.17.21"],
        "capabilities": [CAPABILITY],
        "startup_files": [STARTUP_FILE],
        "sources": {"libraries": [], "modules": [], "startup": []},
        "limits": LIMITS,
        "resolver": RESOLVER,
        "runtime": RUNTIME,
    },
    "created_at": _AT,
}
SESSION: Final[Plain] = {
    "id": SESSION_ID,
    "template_id": TEMPLATE_ID,
    "template_version": 3,
    "name": "morning run",
    "meta": {"owner": "ada"},
    "workspace_id": None,
    "base_commit_oid": None,
    "worktree_path": None,
    "status": "ready",
    "created_at": _AT,
    "updated_at": _AT,
    "closed_at": None,
    "last_error": None,
    "execution_id": None,
    "head": 0,
    "origin": None,
    "wake_at": None,
    "family": None,
    "usage": {
        "hour": {"began_at": "2026-11-16T05:00:00.000Z", "cpu_s": 0.1, "steps": 12, "events": 40, "bytes": 20480},
        "execution": {"cpu_s": 0.01, "steps": 1, "events": 3, "bytes": 2048},
        "total": {"cpu_s": 2.5, "steps": 300, "events": 900, "bytes": 512000},
        "stored_events": 900,
        "stored_bytes": 256000,
    },
    "damaged": False,
}
_QUOTA: Final[Plain] = {"executions": 20, "cpu_s_per_hour": 1800, "sessions": 1000, "events": 5000000, "mb": 10000}
_USED: Final[Plain] = {"executions": 1, "cpu_s_per_hour": 12.5, "sessions": 3, "events": 900, "mb": 0.3}
QUOTAS: Final[Plain] = {
    "tenant": {"name": "default", "limits": _QUOTA | {"requests_per_s": 200}, "used": _USED},
    "token": {"name": "k3v9qx", "limits": _QUOTA | {"requests_per_s": 50}, "used": _USED},
}
METRICS: Final[Plain] = {"elapsed_ms": 1, "steps": 1, "pauses": 0, "queries": 0, "llm_calls": 0, "cpu_ms": 0.4}
QUERY: Final[Plain] = {
    "id": "q-1",
    "session_id": SESSION_ID,
    "execution_id": EXECUTION_ID,
    "kind": "ask",
    "payload": {"question": "Who?"},
    "state": "open",
    "asked_at": _AT,
    "deadline": None,
    "closed_at": None,
    "answer": None,
}
EXECUTION: Final[Plain] = {
    "id": EXECUTION_ID,
    "session_id": SESSION_ID,
    "kind": "repl",
    "status": "ok",
    "input": "1 + 1",
    "path": None,
    "args": [],
    "env": {},
    "started_at": _AT,
    "ended_at": _AT,
    "result": {"type": "number", "preview": "2", "json": 2},
    "error": None,
    "metrics": METRICS,
    "custom": {},
    "seq": 2,
    "parent_id": None,
    "queries": [],
}
PAUSED: Final[Plain] = EXECUTION | {
    "status": "paused",
    "input": "await ask('Who?')",
    "ended_at": None,
    "result": None,
    "queries": [QUERY],
}
RAN_FILE: Final[Plain] = EXECUTION | {
    "kind": "run_file",
    "input": None,
    "path": "calc.js",
    "args": {"a": 1},
    "env": {"mode": "test"},
}
EVENT: Final[Plain] = {
    "execution_id": EXECUTION_ID,
    "session_id": SESSION_ID,
    "seq": 2,
    "ts": _AT,
    "type": "value",
    "payload": {"type": "number", "preview": "2", "json": 2},
}
CHECKPOINT: Final[Plain] = {
    "number": 1,
    "parent": 0,
    "execution_id": EXECUTION_ID,
    "created_at": _AT,
    "depth": 1,
    "bytes": 2412,
    "open": [],
    "wake_at": None,
}
TREE: Final[Plain] = {
    "session_id": SESSION_ID,
    "origin": None,
    "nodes": [
        {
            "number": 0,
            "parent": None,
            "execution_id": None,
            "created_at": None,
            "bytes": 0,
            "open": [],
            "head": False,
            "forks": [],
        },
        {
            "number": 1,
            "parent": 0,
            "execution_id": EXECUTION_ID,
            "created_at": _AT,
            "bytes": 2412,
            "open": [],
            "head": True,
            "forks": [OTHER_ID],
        },
    ],
}
ERROR_ENTRY: Final[Plain] = {
    "id": OTHER_ID,
    "timestamp": _AT,
    "phase": "execution",
    "task_id": None,
    "execution_id": EXECUTION_ID,
    "kind": "Error",
    "message": "boom",
    "attempt": 1,
    "resolved_at": None,
}
STRATEGY: Final[Plain] = {
    "name": "self_consistency",
    "language": "lua",
    "version": "1.0.0",
    "description": "Asks several times at once, and takes the answer that most agree on.",
    "category": "sampling",
    "source": "bundled",
    "hides": [],
}
STRATEGY_DETAIL: Final[Plain] = STRATEGY | {
    "meta": {"name": "self_consistency", "version": "1.0.0", "category": "sampling"},
    "spec": None,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "files": ["init.lua"],
    "file": "init.lua",
    "text": "local M = {}\nfunction M.run(ctx) return alc.llm(ctx.task) end\nreturn M\n",
}
NEEDS_RESPONSE: Final[Plain] = {
    "status": "needs_response",
    "session_id": SESSION_ID,
    "query_id": "q-1",
    "prompt": "What is 17 + 25?",
    "system": None,
    "max_tokens": 1024,
}
_STATS: Final[Plain] = {"auto": {"elapsed_ms": 812, "llm_calls": 1, "pauses": 1, "rounds": 1}, "custom": {}}
COMPLETED: Final[Plain] = {"status": "completed", "session_id": SESSION_ID, "result": {"answer": "42"}, "stats": _STATS}
CANCELLED: Final[Plain] = {"status": "cancelled", "session_id": SESSION_ID, "stats": _STATS}
BRANCH_QUERY: Final[Plain] = QUERY | {"id": "f-3-0-7", "kind": "llm", "payload": {"prompt": "What is 17 + 25?"}}
RUN_STATUS: Final[Plain] = {
    "session_id": SESSION_ID,
    "strategy": "self_consistency",
    "state": "paused",
    "phase": "paused",
    "started_at": 1_794_807_912_345,
    "last_activity_at": 1_794_807_912_345,
    "metrics": {"elapsed_ms": 812, "llm_calls": 1, "rounds": 0, "recent_logs": []},
    "pending_queries": 1,
    "pending": [{"query_id": "q-1", "max_tokens": 1024}],
}
HISTORY: Final[Plain] = TREE | {"total": 2}
TRANSCRIPT_SUMMARY: Final[Plain] = {
    "session_id": SESSION_ID,
    "execution_id": EXECUTION_ID,
    "strategy": "self_consistency",
    "status": "ok",
    "task_hint": "What is 17 + 25?",
    "started_at": _AT,
    "ended_at": _AT,
    "elapsed_ms": 812,
    "rounds": 1,
    "llm_calls": 1,
    "total_tokens": {"tokens": 13, "source": "provided"},
    "notes_count": 1,
}
EXCHANGE: Final[Plain] = {
    "query_id": "q-1",
    "kind": "llm",
    "prompt": "What is 17 + 25?",
    "system": None,
    "response": "42",
    "state": "answered",
    "usage": {"prompt_tokens": 12, "completion_tokens": 1},
    "model": "small",
    "finish_reason": "stop",
    "asked_at": _AT,
    "closed_at": _AT,
}
TRANSCRIPT: Final[Plain] = TRANSCRIPT_SUMMARY | {
    "code": 'return require("self_consistency").run(ctx)',
    "ctx": {"task": "What is 17 + 25?"},
    "result": {"answer": "42"},
    "error": None,
    "stats": _STATS,
    "transcript": [EXCHANGE],
    "notes": [{"timestamp": _AT, "title": "Why", "content": "It was easy."}],
}
TRANSCRIPT_STATS: Final[Plain] = {
    "total_sessions": 1,
    "strategies": {
        "self_consistency": {
            "count": 1,
            "avg_elapsed_ms": 812,
            "avg_llm_calls": 1,
            "avg_rounds": 1,
            "total_prompt_chars": 16,
            "total_response_chars": 2,
            "total_prompt_tokens": 12,
            "total_response_tokens": 1,
            "total_tokens": 13,
        }
    },
}
EXPORTED: Final[Plain] = {
    "application/x-ndjson": '{"type":"run","strategy":"self_consistency"}\n{"type":"exchange","query_id":"q-1"}\n',
    "text/markdown": "# self_consistency\n\n## q-1\n\nWhat is 17 + 25?\n",
}
READINESS: Final[Plain] = {"status": "ok", "store": "ok", "reason": None, "recovery": {"interrupted": 0, "recovered": 0}}
SUMMARY: Final[Plain] = {
    "active_sessions": 1,
    "active_session_ids": [SESSION_ID],
    "sessions": {"starting": 0, "ready": 1, "running": 0, "paused": 0, "crashed": 0, "closed": 4},
    "resident": 1,
    "hibernated": 0,
    "waiting": 0,
    "recovered": 0,
    "memory_bytes": 104857600,
}

AUDIT_ENTRY: Final = {
    "at": "2026-11-16T05:45:12.345Z",
    "action": "POST /sessions",
    "outcome": "ok",
    "status": 201,
    "tenant": "default",
    "token": "3f6c1a9d2b04",
    "token_name": "ci",
    "object_type": "session",
    "object_id": SESSION_ID,
    "surface": "rest",
    "address": "127.0.0.1",
    "request_id": "6f1d5a0d7b3e4c1f9a2b8c7d6e5f4a3b",
    "count": 1,
}
