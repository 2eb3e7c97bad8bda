"""Every method of the client asks what its route wants, and reads what the route answers."""

from datetime import UTC, datetime

from holdfast.client import Client
from holdfast.control import Response
from holdfast.domain import Budget
from tests.integration.played import Played, Reply

ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER = "00000000-0000-4000-8000-000000000002"
NOW = "2026-11-16T05:45:12.345Z"
TEMPLATE = {"id": ID, "name": "first", "engine": "javascript", "created_at": NOW, "updated_at": NOW}
SESSION = {"id": ID, "template_id": OTHER, "status": "ready", "created_at": NOW}
EXECUTION = {"id": ID, "session_id": OTHER, "kind": "repl", "status": "ok", "started_at": NOW}
QUERY = {"id": "q-1", "session_id": ID, "execution_id": OTHER, "kind": "ask", "state": "open", "asked_at": NOW}
EVENT = {"execution_id": ID, "session_id": OTHER, "seq": 1, "ts": NOW, "type": "console", "payload": {"text": "hi"}}
LIMITS = {"cpu_ms": 1, "wall_ms": 2, "mem_mb": 4, "stack_kb": 5, "max_events": 6, "max_output_kb": 7, "max_suspensions": 8}
SETTINGS = {"template_id": ID, "limits": LIMITS, "resolver": {}, "runtime": {}}
CAPABILITY = {"id": OTHER, "template_id": ID, "kind": "tool", "name": "t"}
STARTUP = {"id": OTHER, "template_id": ID, "path": "a.js"}
VERSION = {"template_id": ID, "number": 2, "spec": {}, "created_at": NOW}
NAMED = {"template_id": ID, "name": "fs"}
STRATEGY = {"name": "reflect", "language": "lua", "source": "bundled", "news": True}
REPLY = {"status": "needs_response", "session_id": ID, "query_id": "q-1", "prompt": "?", "news": True}
TOLD = {"session_id": ID, "status": "ok", "started_at": NOW}
OK = {"status": "ok"}

T, S, X, R = f"/templates/{ID}", f"/sessions/{ID}", f"/executions/{ID}", f"/runs/{ID}"
WORKTREE = {"workspace_id": "w", "base_commit_oid": "c", "worktree_path": "/p"}
ROUTES = [
    ("templates.list", lambda t: t.list(name="n", limit=2, cursor="c"), "GET", "/templates?name=n&limit=2&cursor=c", None, [TEMPLATE]),
    ("templates.iterate", lambda t: t.iterate(page_size=3), "GET", "/templates?limit=3", None, [TEMPLATE]),
    ("templates.create", lambda t: t.create("n", engine="lua", limits={"wall_ms": 5}), "POST", "/templates",
     {"name": "n", "engine": "lua", "limits": {"wall_ms": 5}}, TEMPLATE),
    ("templates.get", lambda t: t.get(ID), "GET", T, None, {"template": TEMPLATE, "settings": SETTINGS}),
    ("templates.update", lambda t: t.update(ID, name="m", is_active=False), "PATCH", T, {"name": "m", "is_active": False}, TEMPLATE),
    ("templates.delete", lambda t: t.delete(ID), "DELETE", T, None, OK),
    ("templates.clone", lambda t: t.clone(ID, "copy"), "POST", f"{T}/clone", {"name": "copy"}, TEMPLATE),
    ("templates.versions", lambda t: t.versions(ID), "GET", f"{T}/versions", None, [VERSION]),
    ("templates.version", lambda t: t.version(ID, 2), "GET", f"{T}/versions/2", None, VERSION),
    ("templates.settings", lambda t: t.settings(ID), "GET", f"{T}/settings", None, SETTINGS),
    ("templates.update_settings", lambda t: t.update_settings(ID, limits={"cpu_ms": 9}), "PATCH", f"{T}/settings",
     {"limits": {"cpu_ms": 9}}, SETTINGS),
    ("templates.capabilities", lambda t: t.capabilities(ID), "GET", f"{T}/capabilities", None, [CAPABILITY]),
    ("templates.add_capability", lambda t: t.add_capability(ID, "tool", "t", config={"a": 1}), "POST", f"{T}/capabilities",
     {"kind": "tool", "name": "t", "enabled": False, "config": {"a": 1}}, CAPABILITY),
    ("templates.remove_capability", lambda t: t.remove_capability(ID, OTHER), "DELETE", f"{T}/capabilities/{OTHER}", None, OK),
    ("templates.modules", lambda t: t.modules(ID), "GET", f"{T}/modules", None, ["fs"]),
    ("templates.add_module", lambda t: t.add_module(ID, "fs"), "POST", f"{T}/modules", {"name": "fs"}, NAMED),
    ("templates.remove_module", lambda t: t.remove_module(ID, "a/b c"), "DELETE", f"{T}/modules/a%2Fb%20c", None, OK),
    ("templates.libraries", lambda t: t.libraries(ID), "GET", f"{T}/libraries", None, ["lodash-4.17.21"]),
    ("templates.add_library", lambda t: t.add_library(ID, "lodash"), "POST", f"{T}/libraries", {"name": "lodash"}, NAMED),
    ("templates.remove_library", lambda t: t.remove_library(ID, "%2e"), "DELETE", f"{T}/libraries/%252e", None, OK),
    ("templates.startup_files", lambda t: t.startup_files(ID), "GET", f"{T}/startup-files", None, [STARTUP]),
    ("templates.add_startup_file", lambda t: t.add_startup_file(ID, "a.js", order_index=3), "POST", f"{T}/startup-files",
     {"path": "a.js", "order_index": 3, "mode": "eval"}, STARTUP),
    ("templates.remove_startup_file", lambda t: t.remove_startup_file(ID, OTHER), "DELETE", f"{T}/startup-files/{OTHER}", None, OK),
    ("sessions.list", lambda s: s.list(status="ready", template=OTHER), "GET", f"/sessions?status=ready&template_id={OTHER}", None, [SESSION]),
    ("sessions.iterate", lambda s: s.iterate(name="n"), "GET", "/sessions?name=n&limit=200", None, [SESSION]),
    ("sessions.create", lambda s: s.create(ID, meta={"a": None}, budget=Budget(max_llm_calls=2), **WORKTREE), "POST", "/sessions",
     {"template_id": ID, "meta": {"a": None}, "budget": {"max_llm_calls": 2}, **WORKTREE}, SESSION),
    ("sessions.get", lambda s: s.get(f" {{{ID.upper()}}} "), "GET", S, None, SESSION),
    ("sessions.close", lambda s: s.close(ID), "POST", f"{S}/close", None, SESSION),
    ("sessions.delete", lambda s: s.delete(ID), "DELETE", f"{S}?purge=true", None, OK),
    ("sessions.fork", lambda s: s.fork(ID, 3, count=2), "POST", f"{S}/fork", {"checkpoint": 3, "count": 2}, [SESSION, SESSION]),
    ("sessions.rewind", lambda s: s.rewind(ID, 0), "POST", f"{S}/rewind", {"checkpoint": 0}, SESSION),
    ("sessions.checkpoints", lambda s: s.checkpoints(ID), "GET", f"{S}/checkpoints", None, [{"number": 1}]),
    ("sessions.iterate_checkpoints", lambda s: s.iterate_checkpoints(ID), "GET", f"{S}/checkpoints?limit=200", None, [{"number": 1}]),
    ("sessions.tree", lambda s: s.tree(ID), "GET", f"{S}/tree", None, {"session_id": ID, "nodes": [{"number": 0}, {"number": 1, "parent": 0}]}),
    ("sessions.diff", lambda s: s.diff(ID, 0, 2), "GET", f"{S}/diff?before=0&after=2", None, {"added": {"x": {"type": "number", "preview": "1"}}}),
    ("sessions.prune", lambda s: s.prune(ID, keep=3, before=datetime(2026, 1, 2, tzinfo=UTC)), "POST", f"{S}/prune",
     {"keep": 3, "before": 1_767_312_000_000}, {"pruned": 4}),
    ("sessions.pruning", lambda s: s.pruning(ID), "GET", f"{S}/prune", None, {"pruned": 4, "remaining": 2}),
    ("sessions.errors", lambda s: s.errors(ID), "GET", f"{S}/errors", None, []),
    ("executions.list", lambda e: e.list(ID, status="ok"), "GET", f"/executions?session_id={ID}&status=ok", None, [EXECUTION]),
    ("executions.iterate", lambda e: e.iterate(ID), "GET", f"/executions?session_id={ID}&limit=200", None, [EXECUTION]),
    ("executions.repl", lambda e: e.repl(ID, "1"), "POST", "/executions/repl", {"session_id": ID, "input": "1"}, EXECUTION),
    ("executions.run_file", lambda e: e.run_file(ID, "a.js", {"n": 1}, {"E": "x"}, wait=True), "POST", "/executions/run-file",
     {"session_id": ID, "path": "a.js", "args": {"n": 1}, "env": {"E": "x"}, "wait": True}, EXECUTION),
    ("executions.strategy", lambda e: e.strategy(ID, "x", {"task": "t"}, budget={"max_tokens": 5}), "POST", "/executions/strategy",
     {"session_id": ID, "source": "x", "ctx": {"task": "t"}, "budget": {"max_tokens": 5}}, EXECUTION),
    ("executions.get", lambda e: e.get(ID), "GET", X, None, {**EXECUTION, "queries": [QUERY]}),
    ("executions.wait", lambda e: e.wait(ID, 0.5), "GET", f"{X}/wait?timeout_ms=500", None, EXECUTION),
    ("executions.cancel", lambda e: e.cancel(ID), "POST", f"{X}/cancel", None, EXECUTION),
    ("queries.list", lambda q: q.list(ID, execution=OTHER, state="open", kind="ask"), "GET",
     f"/queries?session_id={ID}&execution_id={OTHER}&state=open&kind=ask", None, [QUERY]),
    ("queries.iterate", lambda q: q.iterate(), "GET", "/queries?limit=200", None, [QUERY]),
    ("queries.get", lambda q: q.get(ID, "q-1"), "GET", f"{S}/queries/q-1", None, QUERY),
    ("queries.answer", lambda q: q.answer(ID, None, query=1, usage={"prompt_tokens": 1}, model="m"), "POST", f"{S}/queries/q-1/answer",
     {"value": None, "usage": {"prompt_tokens": 1}, "model": "m"}, EXECUTION),
    ("queries.answer", lambda q: q.answer(ID, "yes"), "POST", f"{S}/answers", {"value": "yes"}, EXECUTION),
    ("queries.answer_many", lambda q: q.answer_many(ID, {"q-1": 1, "q-2": None}), "POST", f"{S}/answers", {"answers": {"q-1": 1, "q-2": None}}, EXECUTION),
    ("queries.fail", lambda q: q.fail(ID, "q-1", "no", code="E"), "POST", f"{S}/queries/q-1/answer", {"error": {"message": "no", "code": "E"}}, EXECUTION),
    ("queries.cancel", lambda q: q.cancel(ID, "q-1"), "POST", f"{S}/queries/q-1/cancel", None, EXECUTION),
    ("strategies.list", lambda s: s.list("lua", limit=2), "GET", "/strategies?language=lua&limit=2", None, [STRATEGY]),
    ("strategies.iterate", lambda s: s.iterate(), "GET", "/strategies?limit=200", None, [STRATEGY]),
    ("strategies.show", lambda s: s.show("reflect", "lua"), "GET", "/strategies/reflect?language=lua", None, {**STRATEGY, "text": "return {}"}),
    ("strategies.run", lambda s: s.run("return 1", ctx={"n": 1}, template=ID, name="n", wait_s=2), "POST", "/runs",
     {"code": "return 1", "template": ID, "ctx": {"n": 1}, "name": "n", "wait_s": 2}, REPLY),
    ("strategies.advise", lambda s: s.advise("reflect", "tea", opts={"n": 1}, budget=Budget(max_llm_calls=2), language="lua"), "POST", "/runs",
     {"strategy": "reflect", "task": "tea", "opts": {"n": 1}, "language": "lua", "budget": {"max_llm_calls": 2}}, REPLY),
    ("strategies.resume", lambda s: s.resume(ID, [{"response": None}, Response("b", "f-3-0-7", model="m")], wait_s=0), "POST",
     f"{R}/continue", {"responses": [{"response": None}, {"response": "b", "query_id": "f-3-0-7", "usage": None, "model": "m",
      "finish_reason": None}], "wait_s": 0}, REPLY),
    ("strategies.resume", lambda s: s.resume(ID, [Response(error="no")]), "POST", f"{R}/continue", {"responses": [
     {"query_id": None, "error": "no", "usage": None, "model": None, "finish_reason": None}]}, REPLY),
    ("strategies.resume", lambda s: s.resume(ID, []), "GET", f"{R}/outcome", None, REPLY),
    ("strategies.outcome", lambda s: s.outcome(ID, wait_s=0.5), "GET", f"{R}/outcome?wait_s=0.5", None, REPLY),
    ("strategies.asked", lambda s: s.asked(ID, limit=5), "GET", f"{R}/queries?limit=5", None, [QUERY]),
    ("strategies.status", lambda s: s.status(limit=3), "GET", "/runs?limit=3", None, {"active_sessions": 0, "sessions": []}),
    ("strategies.status", lambda s: s.status(ID, pending_filter="meta", include_history=True), "GET",
     f"{R}?pending_filter=meta&include_history=true", None, {"session_id": ID}),
    ("strategies.cancel", lambda s: s.cancel(ID), "POST", f"{R}/cancel", None, REPLY),
    ("strategies.fork", lambda s: s.fork(ID, 2, name="n"), "POST", f"{R}/fork", {"checkpoint": 2, "name": "n"}, REPLY),
    ("strategies.history", lambda s: s.history(ID, limit=4), "GET", f"{R}/history?limit=4", None,
     {"session_id": ID, "nodes": [{"number": 0}], "total": 7}),
    ("transcripts.list", lambda t: t.list(strategy="s", limit=2, cursor="c"), "GET", "/transcripts?strategy=s&limit=2&cursor=c", None, [TOLD]),
    ("transcripts.iterate", lambda t: t.iterate(), "GET", "/transcripts?limit=200", None, [TOLD]),
    ("transcripts.get", lambda t: t.get(ID, max_chars=0), "GET", f"/transcripts/{ID}?max_chars=0", None, {**TOLD, "ctx": {"n": 1}, "transcript": [
     {"query_id": "f-3-0-7", "kind": "llm", "prompt": "?", "response": "!", "state": "answered", "asked_at": NOW}]}),
    ("transcripts.export", lambda t: t.export(ID, "markdown"), "GET", f"/transcripts/{ID}/export?format=markdown", None, "# run"),
    ("transcripts.note", lambda t: t.note(ID, "so", title="why"), "POST", f"/transcripts/{ID}/notes", {"content": "so", "title": "why"},
     {"session_id": ID, "notes_count": 1}),
    ("transcripts.stats", lambda t: t.stats(days=7), "GET", "/transcripts/stats?days=7", None, {"total_sessions": 1, "strategies": {"s": {"count": 1}}}),
    ("events.list", lambda e: e.list(ID, after_seq=4), "GET", f"{X}/events?after_seq=4", None, [EVENT]),
    ("events.iterate", lambda e: e.iterate(ID), "GET", f"{X}/events?limit=1000", None, [EVENT]),
    ("ops.health", lambda o: o.health(), "GET", "/health", None, OK),
    ("ops.live", lambda o: o.live(), "GET", "/health/live", None, OK),
    ("ops.ready", lambda o: o.ready(), "GET", "/health/ready", None, {"status": "ok", "recovery": {"interrupted": 1, "recovered": 1}}),
    ("ops.version", lambda o: o.version(), "GET", "/version", None, {"version": "1", "api": "v1"}),
    ("ops.metrics", lambda o: o.metrics(), "GET", "/metrics", None, "# HELP x\nx 1\n"),
    (
        "ops.audit",
        lambda o: o.audit(token="t", action="a", object_id="o", outcome="ok", since="2026-11-16", limit=2),
        "GET",
        "/audit?token=t&action=a&object_id=o&outcome=ok&since=2026-11-16&limit=2",
        None,
        [{"at": "2026-11-16T05:45:12.345Z", "action": "POST /sessions", "outcome": "ok"}],
    ),
    ("ops.summary", lambda o: o.summary(), "GET", "/runtime/summary", None, {"active_sessions": 0}),
    ("ops.quotas", lambda o: o.quotas(), "GET", "/quotas", None, {"tenant": {}, "token": {}}),
    ("ops.languages", lambda o: o.languages(), "GET", "/catalogue/languages", None, [{"id": "lua", "name": "Lua"}]),
    ("ops.modules", lambda o: o.modules(), "GET", "/catalogue/modules", None, [{"id": "fs", "name": "fs", "functions": ["x"]}]),
    ("ops.libraries", lambda o: o.libraries(), "GET", "/catalogue/libraries", None, []),
]  # fmt: skip


def test_every_method_asks_what_it_should():
    answers = []
    with Played(lambda asked: Reply(answers[-1])) as played, Client(played.url) as client:
        for name, do, method, where, body, answer in ROUTES:
            answers.append(answer)
            result = do(getattr(client, name.partition(".")[0]))
            list(result) if hasattr(result, "__next__") else result
            asked = played.asked[-1]
            path, _, query = where.partition("?")
            assert (asked.method, asked.path) == (method, f"/api/v1{path}"), name
            assert "&".join(f"{key}={value}" for key, value in asked.query.items()) == query, name
            assert asked.json() == body, name
            assert (asked.key is not None) == (method != "GET"), name
            assert ("content-type" in asked.headers) == (body is not None), name
        keys = [asked.key for asked in played.asked if asked.key]
        assert len(set(keys)) == len(keys)


def test_every_method_is_in_the_table():
    tested = {name for name, *_ in ROUTES} | {"events.follow"}
    with Client() as client:
        for group in ("templates", "sessions", "executions", "queries", "strategies", "transcripts", "events", "ops"):
            methods = {f"{group}.{name}" for name in dir(getattr(client, group)) if not name.startswith("_")}
            assert methods <= tested
            tested -= methods
            for name in methods:
                assert getattr(getattr(client, group), name.partition(".")[2]).__doc__, name
    assert not tested
