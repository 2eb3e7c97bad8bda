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
from holdfast.domain import HoldfastError, InvalidId, InvalidValue, NotFound, SessionBusy, SessionNotFound
from tests.integration.played import CUT, Played, Reply, Streaming, free_port

ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER = "00000000-0000-4000-8000-000000000002"
NOW = "2026-11-16T05:45:12.345Z"
SESSION = {"id": ID, "template_id": OTHER, "status": "ready", "created_at": NOW}
EXECUTION = {"id": ID, "session_id": OTHER, "kind": "repl", "status": "ok", "started_at": NOW}
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


# ---- results ------------------------------------------------------------------------------------------------------------------------


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
    senseless = ("-1", "soon", "", "Mon, 16 Nov 99999999999999999999 07:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT")
    for given, seconds in (("7", 7), (" 0 ", 0), *((given, 0) for given in senseless)):
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


def test_an_answer_without_end_is_given_up(ask, monkeypatch):
    """Although there is always another byte in time; and one that is too large is not kept."""

    def drops():
        for _ in range(100):
            time.sleep(0.02)
            yield b" "

    with Played(lambda asked: Streaming(drops(), "application/json")) as played, pytest.raises(NoAnswer):
        ask(played.url, lambda client: client.sessions.get(ID), timeout=0.2)
    monkeypatch.setattr("holdfast.client._wire._LARGEST", 1000)
    with Played(lambda asked: Reply(" " * 1001)) as played, pytest.raises(MalformedResponse, match="at most 1000 bytes"):
        ask(played.url, lambda client: client.sessions.get(ID))


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
    "options",
    [
        {"timeout": 0},
        {"execution_timeout": -1},
        {"retry_for": -1},
        {"connections": 0},
        {"connections": 2.5},
        *({"timeout": timeout} for timeout in (float("nan"), float("inf"), 1e30, "5", True)),
        {"retry_for": "10"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidValue):
        Client(**options)


def test_the_clients_are_part_of_holdfast():
    assert (holdfast.Client, holdfast.AsyncClient) == (Client, AsyncClient)
