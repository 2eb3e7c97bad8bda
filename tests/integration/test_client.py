"""The client over real sockets: results, errors, retries, paging, tokens. What both clients do is tested with both."""

import asyncio
import contextlib
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

import holdfast
from holdfast.client import ApiError, AsyncClient, Client, MalformedResponse, NoAnswer, Page, Unreachable, find_server
from holdfast.client._retry import Backoff, retry_after
from holdfast.domain import Budget, HoldfastError, InvalidId, InvalidValue, NotFound, SessionBusy, SessionNotFound
from tests.integration.played import CUT, Played, Reply, free_port

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
OK = {"status": "ok"}


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch, tmp_path):
    for name in ("HOLDFAST_SERVER_URL", "HOLDFAST_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("holdfast.client._retry._FIRST_S", 0.01)  # the tests are in a hurry


@pytest.fixture(params=["blocking", "awaiting"])
def ask(request):
    """Makes a call with a client of each kind in turn. What can be iterated becomes a list."""

    def blocking(url, do, **options):
        with Client(url, **options) as client:
            result = do(client)
            return list(result) if hasattr(result, "__next__") else result

    def awaiting(url, do, **options):
        async def run():
            async with AsyncClient(url, **options) as client:
                result = do(client)
                return [item async for item in result] if hasattr(result, "__anext__") else await result

        return asyncio.run(run())

    return {"blocking": blocking, "awaiting": awaiting}[request.param]


# ---- the lines of the specification ------------------------------------------------------------------------------------------------


def test_cli_01_an_envelope_becomes_a_typed_error(ask):
    details = {"template_id": ID, "session_id": OTHER}
    envelope = {"error": {"code": "STARTUP_FAILED", "message": "a.js: boom", "details": details}}
    with (
        Played(lambda asked: Reply(envelope, 422, {"X-Request-Id": "r-1"})) as played,
        pytest.raises(ApiError) as caught,
    ):
        ask(played.url, lambda client: client.sessions.create(ID))
    error = caught.value
    assert (error.status, error.code, error.message, error.details) == (422, "STARTUP_FAILED", "a.js: boom", details)
    assert (str(error), error.request_id) == ("a.js: boom", "r-1")
    assert '"STARTUP_FAILED"' in error.body
    assert len(played.asked) == 1


@pytest.mark.parametrize(
    "body", ["<html>oh no", "", '{"error": "text"}', '{"error": {"code": 5, "message": "x"}}', "[1]", b"\xff"]
)
def test_cli_02_an_error_that_is_no_envelope_keeps_status_and_body(ask, body):
    with Played(lambda asked: Reply(body, 500, {"Content-Type": "text/html"})) as played, pytest.raises(ApiError) as caught:
        ask(played.url, lambda client: client.sessions.get(ID))
    error = caught.value
    assert (error.status, error.code, error.details) == (500, "HTTP_500", {})
    assert error.body == (body if isinstance(body, str) else "\ufffd")


@pytest.mark.parametrize("body", ["<html>", "", '{"id": 5}', '{"id": "cut', b'{"id": "\xff"}', "null", "[]"])
def test_cli_03_a_malformed_200_says_decode_response(ask, body):
    with Played(lambda asked: Reply(body)) as played, pytest.raises(MalformedResponse, match="decode response") as caught:
        ask(played.url, lambda client: client.sessions.get(ID))
    assert isinstance(caught.value, ApiError)
    assert caught.value.status == 200
    assert caught.value.body == (body if isinstance(body, str) else '{"id": "\ufffd"}')


def test_cli_04_empty_values_are_left_out_of_the_query(ask):
    with Played(lambda asked: []) as played:
        ask(played.url, lambda client: client.sessions.list(status="", template=None, name="a b&c", limit=3, cursor=""))
        ask(played.url, lambda client: client.sessions.list())
    assert [asked.query for asked in played.asked] == [{"name": "a b&c", "limit": "3"}, {}]


# ---- every route -------------------------------------------------------------------------------------------------------------------

T, S, X = f"/templates/{ID}", f"/sessions/{ID}", f"/executions/{ID}"
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
    ("queries.answer", lambda q: q.answer(ID, None, query=1, usage={"prompt_tokens": 1}), "POST", f"{S}/queries/q-1/answer",
     {"value": None, "usage": {"prompt_tokens": 1}}, EXECUTION),
    ("queries.answer", lambda q: q.answer(ID, "yes"), "POST", f"{S}/answers", {"value": "yes"}, EXECUTION),
    ("queries.answer_many", lambda q: q.answer_many(ID, {"q-1": 1, "q-2": None}), "POST", f"{S}/answers", {"answers": {"q-1": 1, "q-2": None}}, EXECUTION),
    ("queries.fail", lambda q: q.fail(ID, "q-1", "no", code="E"), "POST", f"{S}/queries/q-1/answer", {"error": {"message": "no", "code": "E"}}, EXECUTION),
    ("queries.cancel", lambda q: q.cancel(ID, "q-1"), "POST", f"{S}/queries/q-1/cancel", None, EXECUTION),
    ("events.list", lambda e: e.list(ID, after_seq=4), "GET", f"{X}/events?after_seq=4", None, [EVENT]),
    ("events.iterate", lambda e: e.iterate(ID), "GET", f"{X}/events?limit=1000", None, [EVENT]),
    ("ops.health", lambda o: o.health(), "GET", "/health", None, OK),
    ("ops.live", lambda o: o.live(), "GET", "/health/live", None, OK),
    ("ops.ready", lambda o: o.ready(), "GET", "/health/ready", None, {"status": "ok", "recovery": {"interrupted": 1, "recovered": 1}}),
    ("ops.version", lambda o: o.version(), "GET", "/version", None, {"version": "1", "api": "v1"}),
    ("ops.metrics", lambda o: o.metrics(), "GET", "/metrics", None, "# HELP x\nx 1\n"),
    ("ops.summary", lambda o: o.summary(), "GET", "/runtime/summary", None, {"active_sessions": 0}),
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
        for group in ("templates", "sessions", "executions", "queries", "events", "ops"):
            methods = {f"{group}.{name}" for name in dir(getattr(client, group)) if not name.startswith("_")}
            assert methods <= tested
            tested -= methods
            for name in methods:
                assert getattr(getattr(client, group), name.partition(".")[2]).__doc__, name
    assert not tested


def test_what_comes_is_typed_and_may_have_more_than_is_known(ask):
    more = {**SESSION, "status": "dreaming", "colour": "blue", "origin": {"session_id": OTHER, "checkpoint": 2, "x": 1}}
    with Played(lambda asked: more) as played:
        session = ask(played.url, lambda client: client.sessions.get(ID))
    assert session.created_at == datetime(2026, 11, 16, 5, 45, 12, 345000, UTC)
    assert session.created_at.utcoffset() == timedelta(0)
    assert (session.status, session.origin.checkpoint, session.meta) == ("dreaming", 2, {})
    assert not hasattr(session, "colour")
    with pytest.raises(ValueError, match="frozen"):
        session.name = "x"


def test_not_being_ready_is_a_result(ask):
    with Played(lambda asked: Reply({"status": "recovering", "store": "ok"}, 503)) as played:
        assert ask(played.url, lambda client: client.ops.ready()).status == "recovering"
    assert len(played.asked) == 1


def test_background_is_a_preference(ask):
    with Played(lambda asked: Reply(EXECUTION, 202)) as played:
        ask(played.url, lambda client: client.executions.repl(ID, "1", background=True))
        ask(played.url, lambda client: client.executions.repl(ID, "1"))
    assert [asked.headers.get("prefer") for asked in played.asked] == ["respond-async", None]


@pytest.mark.parametrize(
    "do",
    [
        lambda c: c.sessions.get("../templates"),
        lambda c: c.sessions.get(""),
        lambda c: c.queries.get(ID, "q-0"),
        lambda c: c.templates.remove_module(ID, ".."),
        lambda c: c.templates.remove_module(ID, ""),
        lambda c: c.templates.remove_library(ID, "a\r\nb"),
        lambda c: c.templates.remove_library(ID, "\ud800"),
        lambda c: c.queries.answer(ID, float("nan")),
        lambda c: c.queries.answer(ID, object()),
        lambda c: c.queries.answer(ID, 1, usage={"prompt_tokens": 1}),
        lambda c: c.queries.answer(ID, b"bytes"),
        lambda c: c.sessions.create(ID, idempotency_key=""),
        lambda c: c.sessions.create(ID, idempotency_key="a\nb"),
        lambda c: c.sessions.prune(ID, before=datetime(2026, 1, 2)),  # noqa: DTZ001
        lambda c: c.events.follow(session=ID, execution=ID),
    ],
)
def test_what_makes_no_sense_is_never_sent(do):
    with Played(lambda asked: OK) as played, Client(played.url) as client, pytest.raises(InvalidValue):
        do(client)
    assert played.asked == []


# ---- errors ------------------------------------------------------------------------------------------------------------------------


def test_errors_are_of_the_librarys_classes(ask):
    with Played(lambda asked: Reply({"error": {"code": asked.query["name"], "message": "m"}}, 409)) as played:

        def fail(code):
            ask(played.url, lambda client: client.sessions.list(name=code))

        with pytest.raises(SessionBusy) as caught:
            fail("SESSION_BUSY")
        assert isinstance(caught.value, ApiError)
        with pytest.raises(NotFound):
            fail("SESSION_NOT_FOUND")
        with pytest.raises(InvalidValue) as caught:
            fail("VALIDATION_ERROR")
        assert not isinstance(caught.value, InvalidId)
        with pytest.raises(HoldfastError) as caught:
            fail("SOMETHING_NEW")
        assert (type(caught.value), caught.value.code) == (ApiError, "SOMETHING_NEW")


def test_errors_survive_a_pickle():
    error = ApiError.of(404, "SESSION_NOT_FOUND", "gone", {"a": 1}, "body", "r")
    for one in (error, MalformedResponse.because(200, "why", "body")):
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one)
        assert vars(again) == vars(one)
    assert isinstance(error, SessionNotFound)


def test_a_huge_error_is_cut():
    with (
        Played(lambda asked: Reply("x" * 1_000_000, 400)) as played,
        Client(played.url) as client,
        pytest.raises(ApiError) as caught,
    ):
        client.ops.health()
    assert len(caught.value.body) == 64 << 10


def test_nobody_there_is_unreachable(ask):
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"no daemon can be reached at http://127.0.0.1:\d+: ") as caught:
        ask(f"http://127.0.0.1:{free_port()}", lambda client: client.ops.health(), retry_for=0.2)
    assert caught.value.code == "DAEMON_UNREACHABLE"
    assert time.monotonic() - began < 2


# ---- retries -----------------------------------------------------------------------------------------------------------------------


def test_a_daemon_that_comes_back_is_not_noticed(ask):
    port = free_port()
    played = Played(lambda asked: SESSION, port)
    timer = threading.Timer(0.2, played.__enter__)
    timer.start()
    try:
        assert ask(played.url, lambda client: client.sessions.create(ID)).id == ID
    finally:
        timer.join()
        played.die()


@pytest.mark.parametrize(
    "trouble", [Reply("busy", 502), Reply("busy", 503), Reply({}, 504), CUT, Reply("cut", 200, {"Content-Length": "99"})]
)
def test_a_change_is_sent_again_with_the_same_key(ask, trouble):
    answers = iter([trouble, trouble, SESSION])
    with Played(lambda asked: next(answers)) as played:
        assert ask(played.url, lambda client: client.sessions.create(ID, name="n")).id == ID
    assert len(played.asked) == 3
    assert len({asked.key for asked in played.asked}) == 1
    assert {asked.body for asked in played.asked} == {f'{{"template_id":"{ID}","name":"n"}}'.encode()}


def test_a_key_of_the_callers_own_is_kept(ask):
    answers = iter([CUT, EXECUTION])
    with Played(lambda asked: next(answers)) as played:
        ask(played.url, lambda client: client.executions.repl(ID, "1", idempotency_key="mine"))
    assert [asked.key for asked in played.asked] == ["mine", "mine"]


def test_too_many_requests_are_slowed_down():
    def answer(asked):
        times.append(time.monotonic())
        if len(times) > 1:
            return OK
        return Reply({"error": {"code": "RATE_LIMITED", "message": "slow"}}, 429, {"Retry-After": "1"})

    times = []
    with Played(answer) as played, Client(played.url) as client:
        assert client.ops.health().status == "ok"
    assert 0.9 < times[1] - times[0] < 3


def test_how_long_to_wait_is_a_number_or_a_date():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 28 < retry_after({"Retry-After": soon}) <= 30
    assert 28 < retry_after({"Retry-After": soon.replace("GMT", "-0000")}) <= 30
    for given, seconds in (("7", 7), (" 0 ", 0), ("-1", 0), ("soon", 0), ("", 0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0)):
        assert retry_after({"Retry-After": given}) == seconds
    assert retry_after({}) == 0


def test_failures_are_answered_with_longer_and_longer_pauses_until_patience_ends():
    clock = [100.0]
    backoff = Backoff(10, lambda: clock[0])
    pauses = []
    while (pause := backoff.failed()) is not None:
        pauses.append(pause)
        clock[0] += pause
    assert pauses[0] <= 0.01
    assert max(pauses) <= 2
    assert 7 < sum(pauses) <= 10
    assert Backoff(0, lambda: 0.0).failed() is None
    assert Backoff(5, lambda: 0.0).failed(at_least_s=3) == 3


def test_who_must_wait_too_long_is_told_at_once(ask):
    limited = Reply({"error": {"code": "RATE_LIMITED", "message": "slow"}}, 429, {"Retry-After": "60"})
    with Played(lambda asked: limited) as played, pytest.raises(ApiError) as caught:
        ask(played.url, lambda client: client.ops.health(), retry_for=5)
    assert (caught.value.code, len(played.asked)) == ("RATE_LIMITED", 1)


def test_trouble_that_goes_on_is_told_in_the_end(ask):
    unavailable = Reply({"error": {"code": "UNAVAILABLE", "message": "later"}}, 503)
    with Played(lambda asked: unavailable) as played, pytest.raises(ApiError, match="later"):
        ask(played.url, lambda client: client.sessions.close(ID), retry_for=0.3)
    assert len(played.asked) > 2
    with Played(lambda asked: CUT) as played, pytest.raises(Unreachable, match="broke off"):
        ask(played.url, lambda client: client.sessions.close(ID), retry_for=0.2)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 408, 409, 422, 500, 501])
def test_other_answers_are_the_last_word(status):
    with Played(lambda asked: Reply({}, status)) as played, Client(played.url) as client:
        with pytest.raises(ApiError) as caught:
            client.sessions.close(ID)
        assert (caught.value.status, len(played.asked)) == (status, 1)


def test_time_is_counted_from_the_first_failure(ask):
    """An execution may take long before its daemon dies; its result is wanted all the same."""

    def answer(asked):
        if len(played.asked) > 1:
            return EXECUTION
        time.sleep(0.3)
        return CUT

    with Played(answer) as played:
        assert ask(played.url, lambda client: client.executions.repl(ID, "1"), retry_for=0.2).id == ID


def test_who_is_too_slow_is_not_asked_again(ask):
    def answer(asked):
        time.sleep(0.2)
        return EXECUTION if "repl" in asked.path else SESSION

    with Played(answer) as played:
        with pytest.raises(NoAnswer) as caught:
            ask(played.url, lambda client: client.sessions.get(ID), timeout=0.1)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.code == "DAEMON_TIMEOUT"
        ask(played.url, lambda client: client.executions.repl(ID, "1"), timeout=0.1)
        with pytest.raises(NoAnswer):
            ask(played.url, lambda client: client.executions.repl(ID, "1"), execution_timeout=0.1)
    assert len(played.asked) == 3


def test_waiting_has_the_time_that_it_asks_for(ask):
    def answer(asked):
        time.sleep(0.2)
        return EXECUTION

    with Played(answer) as played:
        ask(played.url, lambda client: client.executions.wait(ID, 1), timeout=0.1)
        ask(played.url, lambda client: client.executions.wait(ID, 1000), timeout=0.1)
    assert [asked.query["timeout_ms"] for asked in played.asked] == ["1000", "60000"]


# ---- lists -------------------------------------------------------------------------------------------------------------------------


def test_iterating_fetches_page_after_page(ask):
    pages = {None: ([1, 2], "a/b c"), "a/b c": ([3], "z"), "z": ([], None)}

    def answer(asked):
        numbers, cursor = pages[asked.query.get("cursor")]
        return Reply([{**SESSION, "name": str(number)} for number in numbers], 200, {"X-Next-Cursor": cursor} if cursor else {})

    with Played(answer) as played:
        found = ask(played.url, lambda client: client.sessions.iterate(status="ready", page_size=2))
        assert [session.name for session in found] == ["1", "2", "3"]
        assert all(asked.query["status"] == "ready" and asked.query["limit"] == "2" for asked in played.asked)
        page = ask(played.url, lambda client: client.sessions.list())
    assert isinstance(page, Page)
    assert (len(page), page[0].name, page.next) == (2, "1", "a/b c")
    assert [session.name for session in page[:1]] == ["1"]


def test_a_list_that_repeats_itself_ends(ask):
    with Played(lambda asked: Reply([SESSION], 200, {"X-Next-Cursor": "same"})) as played:
        assert len(ask(played.url, lambda client: client.sessions.iterate())) == 2


def test_what_is_not_needed_is_not_fetched():
    with Played(lambda asked: Reply([SESSION] * 3, 200, {"X-Next-Cursor": "more"})) as played, Client(played.url) as client:
        with contextlib.closing(client.sessions.iterate(page_size=3)) as sessions:
            assert next(sessions).id == ID
        assert len(played.asked) == 1


# ---- connections -------------------------------------------------------------------------------------------------------------------


def test_connections_are_kept():
    with Played(lambda asked: OK) as played, Client(played.url) as client:
        for _ in range(20):
            client.ops.health()
        assert len({asked.peer for asked in played.asked}) == 1


def test_there_are_never_more_connections_than_allowed():
    def answer(asked):
        time.sleep(0.005)
        return OK

    async def many():
        async with AsyncClient(played.url, connections=4) as client:
            await asyncio.gather(*(client.ops.health() for _ in range(40)))

    with Played(answer) as played:
        asyncio.run(many())
        assert 1 < len({asked.peer for asked in played.asked}) <= 4
        played.asked.clear()
        with Client(played.url, connections=4) as client, ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda _: client.ops.health(), range(40)))
        assert 1 < len({asked.peer for asked in played.asked}) <= 4


# ---- where, and with which token ---------------------------------------------------------------------------------------------------


def test_the_slash_at_the_end_of_an_address_does_not_matter(ask):
    with Played(lambda asked: OK) as played:
        ask(played.url + "///", lambda client: client.ops.health())
        ask(played.url + "/behind/a/proxy/", lambda client: client.ops.health())
    assert [asked.path for asked in played.asked] == ["/api/v1/health", "/behind/a/proxy/api/v1/health"]


def test_the_token_goes_to_the_daemon_and_nowhere_else(ask):
    with Played(lambda asked: OK) as elsewhere:
        moved = Reply({}, 307, {"Location": f"{elsewhere.url}/api/v1/health"})
        with Played(lambda asked: moved) as played, pytest.raises(ApiError, match="307"):
            ask(played.url, lambda client: client.ops.health(), token="hf_secret")
    assert played.asked[0].headers["authorization"] == "Bearer hf_secret"
    assert elsewhere.asked == []


def test_no_proxy_is_asked_for_what_is_on_this_machine(ask, monkeypatch):
    with Played(lambda asked: OK) as proxy, Played(lambda asked: OK) as played:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        ask(played.url, lambda client: client.ops.health())
    assert (len(proxy.asked), len(played.asked)) == (0, 1)


def test_the_daemon_is_found_by_the_environment_and_its_token_in_its_folder(ask, monkeypatch, tmp_path):
    with Played(lambda asked: OK) as played:
        monkeypatch.setenv("HOLDFAST_SERVER_URL", played.url)
        ask(None, lambda client: client.ops.health())
        (tmp_path / "token").write_text("hf_file\n")
        ask(None, lambda client: client.ops.health())
        monkeypatch.setenv("HOLDFAST_TOKEN", "hf_variable")
        ask(None, lambda client: client.ops.health())
        ask(None, lambda client: client.ops.health(), token="hf_argument")
    tokens = [asked.headers.get("authorization") for asked in played.asked]
    assert tokens == [None, "Bearer hf_file", "Bearer hf_variable", "Bearer hf_argument"]


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:3210", True),
        ("http://localhost", True),
        ("http://LOCALHOST:1", True),
        ("http://[::1]:3210", True),
        ("https://127.9.9.9", True),
        ("http://127.0.0.1.example.com", False),
        ("http://localhost.example.com", False),
        ("http://0.0.0.0:3210", False),
        ("http://192.168.1.2:3210", False),
        ("http://[fe80::1]", False),
        ("http://127.1", False),
    ],
)
def test_the_token_of_this_machine_stays_on_this_machine(url, local, tmp_path):
    (tmp_path / "token").write_text("hf_file")
    assert find_server(url).token == ("hf_file" if local else None)
    assert find_server(url, "hf_given").token == "hf_given"
    assert "hf_given" not in repr(find_server(url, "hf_given"))


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:3210",
        "ftp://x",
        "http://",
        "http://x:0",
        "http://x:y",
        "http://u:p@x",
        "http://x?a=b",
        "http://x#f",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(InvalidValue, match="server"):
        Client(url)


@pytest.mark.parametrize("token", ["a b", "a\nb", "ü", "x" * 5000])
def test_a_token_that_is_none_is_refused_and_not_shown(token):
    with pytest.raises(InvalidValue) as caught:
        Client(token=token)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"execution_timeout": -1}, {"retry_for": -1}, {"connections": 0}, {"timeout": float("nan")}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidValue):
        Client(**options)


def test_the_clients_are_part_of_holdfast():
    assert (holdfast.Client, holdfast.AsyncClient) == (Client, AsyncClient)
