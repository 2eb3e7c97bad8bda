"""Following events over real sockets that break, with daemons that die, repeat themselves and fall silent."""

import asyncio
import contextlib
import json
import threading
import time

import pytest

from holdfast.client import ApiError, AsyncClient, Client, MalformedResponse, Unreachable
from holdfast.domain import SessionNotFound
from tests.integration.played import CUT, Played, Reply, Streaming, free_port

ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER = "00000000-0000-4000-8000-000000000002"
END = b"event: end\ndata: {}\n\n"


def told(*numbers, execution=ID):
    events = []
    for number in numbers:
        data = {
            "execution_id": execution,
            "session_id": OTHER,
            "seq": number,
            "ts": "2026-11-16T05:45:12.345Z",
            "type": "console",
        }
        events.append(f"id: c{number}\nevent: console\ndata: {json.dumps(data)}\n\n")
    return "".join(events).encode()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr("holdfast.client._retry._FIRST_S", 0.01)


@pytest.fixture(params=["blocking", "awaiting"])
def follow(request):
    """Follows with a client of each kind in turn: all events, or the first few."""

    def blocking(url, most=None, retry_for=5.0, **how):
        with Client(url, retry_for=retry_for) as client, contextlib.closing(client.events.follow(**how)) as events:
            found = []
            for event in events:
                found.append(event)
                if len(found) == most:
                    break
            return found

    def awaiting(url, most=None, retry_for=5.0, **how):
        async def run():
            found = []
            async with (
                AsyncClient(url, retry_for=retry_for) as client,
                contextlib.aclosing(client.events.follow(**how)) as events,
            ):
                async for event in events:
                    found.append(event)
                    if len(found) == most:
                        break
            return found

        return asyncio.run(run())

    return {"blocking": blocking, "awaiting": awaiting}[request.param]


def test_an_execution_is_followed_to_its_end(follow):
    with Played(lambda asked: Streaming([told(1), b": hb\n\n", told(2, 3) + END, told(4)])) as played:
        events = follow(played.url, execution=ID)
    assert [event.seq for event in events] == [1, 2, 3]
    assert [event.cursor for event in events] == ["c1", "c2", "c3"]
    assert events[0].ts.tzinfo is not None
    asked = played.asked[0]
    assert (asked.path, asked.query) == (f"/api/v1/executions/{ID}/stream", {})
    assert asked.headers["accept"] == "text/event-stream"
    assert "last-event-id" not in asked.headers


def test_sessions_and_everything_have_streams_too(follow):
    with Played(lambda asked: Streaming([told(7)])) as played:
        follow(played.url, most=1, session=ID, after="start")
        follow(played.url, most=1, after="c6")
        follow(played.url, most=1)
    assert [(asked.path, asked.query) for asked in played.asked] == [
        (f"/api/v1/sessions/{ID}/stream", {"after": "start"}),
        ("/api/v1/events/stream", {"after": "c6"}),
        ("/api/v1/events/stream", {}),
    ]


@pytest.mark.parametrize("where", [5, 150, 230])
@pytest.mark.parametrize("properly", [True, False])
def test_a_connection_that_breaks_anywhere_loses_nothing_and_repeats_nothing(where, properly):
    """The server goes on after `Last-Event-ID`, as ours does."""

    def answer(asked):
        last = int(asked.headers.get("last-event-id", "c0")[1:])
        whole = told(*range(last + 1, 5)) + END
        if len(played.asked) < 4:
            return Streaming([whole[:where], *([] if properly else [CUT])])
        return Streaming([whole])

    with Played(answer) as played, Client(played.url) as client:
        assert [event.seq for event in client.events.follow(execution=ID)] == [1, 2, 3, 4]
    assert len(played.asked) == 4


def test_what_is_told_again_is_not_passed_on(follow):
    """A server that begins anew each time, and two executions at once."""
    both = told(1, 2) + told(1, execution=OTHER)
    streams = iter([[both, CUT], [both + told(3), CUT], [both + told(3, 4) + told(2, execution=OTHER) + END]])
    with Played(lambda asked: Streaming(next(streams))) as played:
        events = follow(played.url, session=ID)
    assert [(event.execution_id, event.seq) for event in events] == [
        (ID, 1), (ID, 2), (OTHER, 1), (ID, 3), (ID, 4), (OTHER, 2),
    ]  # fmt: skip


def test_a_daemon_that_dies_and_comes_back_is_not_noticed(follow):
    """The first one hangs in the middle of an event when it is killed; for a while nobody listens; the second knows where to go on."""
    port = free_port()
    reached, killed = threading.Event(), threading.Event()

    def chunks():
        yield told(1, 2) + told(3)[:20]
        reached.set()
        killed.wait(5)

    def replace():
        reached.wait(5)
        first.die()
        killed.set()
        time.sleep(0.2)
        second.append(Played(lambda asked: Streaming([told(3, 4) + END]), port).__enter__())

    second = []
    first = Played(lambda asked: Streaming(chunks()), port).__enter__()
    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        events = follow(first.url, execution=ID)
    finally:
        replacing.join()
        second[0].die()
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert second[0].asked[0].headers["last-event-id"] == "c2"


def test_the_place_to_go_on_from_may_come_without_an_event(follow):
    """So that who follows from now on loses nothing either when the connection breaks before the first event."""
    streams = iter([[b"id: c41\n\n", CUT], [told(42)]])
    with Played(lambda asked: Streaming(next(streams))) as played:
        assert [event.seq for event in follow(played.url, most=1)] == [42]
    assert played.asked[1].headers["last-event-id"] == "c41"


def test_silence_is_a_broken_connection_and_heartbeats_are_not(follow):
    def quiet():
        yield told(1)
        for _ in range(4):
            time.sleep(0.1)
            yield b": hb\n\n"
        yield told(2)
        silent.wait(3)

    silent = threading.Event()
    streams = iter([quiet(), [told(3) + END]])
    with Played(lambda asked: Streaming(next(streams))) as played:
        events = follow(played.url, execution=ID, silence=0.25)
        silent.set()
    assert [event.seq for event in events] == [1, 2, 3]
    assert [asked.headers.get("last-event-id") for asked in played.asked] == [None, "c2"]


def test_a_daemon_that_is_not_ready_is_waited_for(follow):
    unavailable = Reply({"error": {"code": "UNAVAILABLE", "message": "recovering"}}, 503)
    answers = iter([unavailable, CUT, unavailable, Streaming([told(1) + END])])
    with Played(lambda asked: next(answers)) as played:
        assert len(follow(played.url, execution=ID)) == 1


def test_what_does_not_exist_is_an_error_also_later(follow):
    gone = Reply({"error": {"code": "SESSION_NOT_FOUND", "message": "gone"}}, 404)
    answers = iter([gone, Streaming([told(1)]), gone])
    with Played(lambda asked: next(answers)) as played:
        with pytest.raises(SessionNotFound):
            follow(played.url, session=ID)
        with pytest.raises(SessionNotFound):
            follow(played.url, session=ID)
    assert len(played.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        Reply("<html>", 200, {"Content-Type": "text/html"}),
        Streaming([b"data: {not json\n\n"]),
        Streaming([b'data: {"seq": 1}\n\n']),
        Streaming([told(1)], "application/json"),
    ],
)
def test_what_is_no_stream_of_events_is_an_error(follow, answer):
    with Played(lambda asked: answer) as played, pytest.raises(MalformedResponse, match="decode response"):
        follow(played.url)
    assert len(played.asked) == 1


def test_patience_ends(follow):
    began = time.monotonic()
    with pytest.raises(Unreachable, match="no daemon can be reached"):
        follow(f"http://127.0.0.1:{free_port()}", retry_for=0.2)
    answers = iter([Streaming([told(1), CUT])])
    with Played(lambda asked: next(answers, CUT)) as played, pytest.raises(Unreachable, match="broke off"):
        follow(played.url, patience=0.2)
    with Played(lambda asked: Streaming([])) as played, pytest.raises(Unreachable, match="again and again"):
        follow(played.url, retry_for=0.2)
    with Played(lambda asked: Reply({}, 503)) as played, pytest.raises(ApiError):
        follow(played.url, retry_for=0.2)
    assert time.monotonic() - began < 5


def test_a_daemon_that_lets_everybody_in_and_tells_nothing_is_not_asked_in_a_hurry_for_ever(follow):
    with Played(lambda asked: Streaming([b": welcome\n\n"])) as played, pytest.raises(Unreachable, match="again and again"):
        follow(played.url, patience=0.5)
    assert len(played.asked) < 12


def test_how_long_to_wait_is_the_servers_choice(follow):
    times = []

    def answer(asked):
        times.append(time.monotonic())
        return Streaming([b"retry: 300\n\n"] if len(times) < 2 else [told(1) + END])

    with Played(answer) as played:
        follow(played.url, execution=ID)
    assert 0.29 < times[1] - times[0] < 2


def test_many_may_be_followed_while_calls_go_on():
    """Streams take no connection away from calls."""
    done = threading.Event()

    def answer(asked):
        if "stream" not in asked.path:
            return {"status": "ok"}
        return Streaming(iter(lambda: told(1) if not done.wait(0.02) else b"", b""))

    async def run():
        async with AsyncClient(played.url, connections=2, timeout=2) as client:
            streams = [client.events.follow(after="start") for _ in range(12)]
            assert [(await anext(stream)).seq for stream in streams] == [1] * 12
            assert (await client.ops.health()).status == "ok"
            done.set()
            for stream in streams:
                await stream.aclose()

    with Played(answer) as played:
        asyncio.run(run())


def test_a_reader_who_leaves_closes_the_connection():
    left = threading.Event()

    def chunks():
        try:
            for number in range(1, 10_000):
                yield told(number)
                time.sleep(0.005)
        finally:
            left.set()

    with Played(lambda asked: Streaming(chunks())) as played, Client(played.url) as client:
        for event in client.events.follow():
            if event.seq == 3:
                break
        assert left.wait(3)
