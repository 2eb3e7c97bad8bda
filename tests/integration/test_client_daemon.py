"""The client and a real daemon: every group, and a daemon that is killed in the middle of it all."""

import asyncio
import contextlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.client import ApiError, AsyncClient, Client
from holdfast.domain import (
    AnswerConflict,
    ExecutionNotFound,
    IdempotencyConflict,
    InvalidValue,
    NameTaken,
    SessionBusy,
    SessionState,
    TemplateInUse,
)
from tests.daemon import Daemon
from tests.integration.test_documentation import run_all


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("client")).start()
    yield daemon
    daemon.stop()


@pytest.fixture
def client(daemon):
    with Client(daemon.url, daemon.token) as client:
        yield client


def test_the_token_is_found_where_the_daemon_left_it(daemon, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SERVER_URL", daemon.url)
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(daemon.folder / "data"))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    with Client() as client:
        assert client.ops.summary().active_sessions >= 0
    with Client(token="hf_wrong") as client:
        with pytest.raises(ApiError) as caught:
            client.ops.summary()
        assert (caught.value.status, caught.value.code) == (401, "UNAUTHENTICATED")
        assert caught.value.request_id
        assert client.ops.health().status == "ok"


def test_the_daemon_tells_of_itself(client):
    assert client.ops.live().status == "ok"
    assert client.ops.ready().status == "ok"
    assert client.ops.version().api == "v1"
    assert "# TYPE" in client.ops.metrics()
    assert [language.id for language in client.ops.languages()] == ["javascript", "lua"]
    assert "fs" in [module.id for module in client.ops.modules()]
    assert client.ops.libraries()[0].version
    summary = client.ops.summary()
    assert set(summary.sessions) == {state.value for state in SessionState}


def test_templates(client, tmp_path):
    template = client.templates.create("kept", limits={"wall_ms": 4000})
    with pytest.raises(NameTaken):
        client.templates.create("kept")
    assert [found.id for found in client.templates.list(name="kept")] == [template.id]
    assert client.templates.settings(template.id).limits.wall_ms == 4000
    settings = client.templates.update_settings(template.id, limits={"cpu_ms": 1500})
    assert (settings.limits.wall_ms, settings.limits.cpu_ms) == (4000, 1500)
    capability = client.templates.add_capability(template.id, "module", "fs", config={"write": True})
    assert client.templates.capabilities(template.id)[0] == capability
    client.templates.add_module(template.id, "fs")
    client.templates.add_library(template.id, "lodash")
    startup = client.templates.add_startup_file(template.id, "a.js")
    detail = client.templates.get(template.id)
    assert (detail.template.exposed_modules, detail.template.libraries) == (("fs",), ("lodash-4.17.21",))
    assert (detail.capabilities, detail.startup_files) == ((capability,), (startup,))
    copy = client.templates.clone(template.id, "copy")
    assert copy.libraries == ("lodash-4.17.21",)
    client.templates.remove_capability(template.id, capability.id)
    client.templates.remove_module(template.id, "fs")
    client.templates.remove_library(template.id, "lodash")
    client.templates.remove_startup_file(template.id, startup.id)
    for listed in (client.templates.modules, client.templates.libraries, client.templates.startup_files):
        assert len(listed(template.id)) == 0
    changed = client.templates.update(template.id, name="renamed", is_active=False)
    assert (changed.name, changed.is_active) == ("renamed", False)
    versions = client.templates.versions(template.id)
    assert client.templates.version(template.id, versions[0].number) == versions[0]
    for found in (template, copy):
        client.templates.delete(found.id)
    assert {found.name for found in client.templates.iterate(page_size=1)}.isdisjoint({"renamed", "copy"})


def test_sessions_their_executions_and_their_history(client):
    template = client.templates.create("history")
    session = client.sessions.create(template.id, name="first", meta={"owner": "ada"}, idempotency_key="history-1")
    assert client.sessions.create(template.id, name="first", meta={"owner": "ada"}, idempotency_key="history-1") == session
    with pytest.raises(IdempotencyConflict):
        client.sessions.create(template.id, name="other", idempotency_key="history-1")
    with pytest.raises(TemplateInUse):
        client.templates.delete(template.id)
    ran = client.executions.repl(session.id, "var n = 1; console.log('hello'); n + 1")
    assert (ran.status, ran.result["preview"]) == ("ok", "2")
    failed = client.executions.repl(session.id, "throw new Error('no')")
    assert (failed.status, failed.error["message"]) == ("error", "no")

    asks = client.executions.repl(session.id, "n = await ask('How many?')")
    assert (asks.status, asks.queries[0].payload["question"]) == ("paused", "How many?")
    with pytest.raises(SessionBusy):
        client.executions.repl(session.id, "1")
    (forked,) = client.sessions.fork(session.id, name="fork")
    query = client.queries.list(session.id)[0]
    assert client.queries.get(session.id, query.id).state == "open"
    assert client.queries.answer(session.id, 7, query=query.id).status == "ok"
    assert client.queries.answer(session.id, 7, query=query.id).status == "ok"
    with pytest.raises(AnswerConflict):
        client.queries.answer(session.id, 8, query=query.id)
    assert client.queries.fail(forked.id, client.queries.list(forked.id)[0].id, "nobody knows").status == "error"

    executions = list(client.executions.iterate(session.id, page_size=1))
    assert [execution.id for execution in executions] == [asks.id, failed.id, ran.id]
    events = list(client.events.iterate(asks.id, page_size=2))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert list(client.events.list(asks.id, after_seq=2)) == events[2:]
    followed = list(client.events.follow(execution=asks.id))
    assert [event.model_copy(update={"cursor": None}) for event in followed] == events
    assert list(client.events.follow(execution=asks.id, after=followed[1].cursor)) == followed[2:]

    checkpoints = list(client.sessions.iterate_checkpoints(session.id, page_size=1))
    tree = client.sessions.tree(session.id)
    assert [node.number for node in tree.nodes] == [0, *(checkpoint.number for checkpoint in checkpoints)]
    assert [node.forks for node in tree.nodes if node.forks] == [(forked.id,)]
    diff = client.sessions.diff(session.id, checkpoints[0].number)
    assert (diff.changed["n"].before.preview, diff.changed["n"].after.preview) == ("1", "7")
    assert client.sessions.rewind(session.id, checkpoints[0].number).head == checkpoints[0].number
    assert client.sessions.errors(session.id).next is None
    assert client.sessions.prune(session.id, before=datetime.now(UTC) - timedelta(days=1)).pruned == 0

    waits = client.executions.repl(session.id, "await ask('?')", background=True)
    assert client.executions.wait(waits.id).status == "paused"
    assert client.executions.cancel(waits.id).status == "cancelled"
    assert client.executions.strategy(session.id, "ctx.n", {"n": 3}).status == "ok"
    assert client.sessions.close(session.id).status == client.sessions.close(session.id).status == "closed"
    assert [found.id for found in client.sessions.iterate(template=template.id, status="closed")] == [session.id]
    for found in (forked, session):
        client.sessions.delete(found.id)
    client.templates.delete(template.id)


def test_what_is_wrong_is_of_the_librarys_classes(client):
    with pytest.raises(ExecutionNotFound) as caught:
        client.executions.get("00000000-0000-4000-8000-000000000000")
    assert isinstance(caught.value, ApiError)
    assert caught.value.status == 404
    with pytest.raises(InvalidValue):
        client.sessions.list(status="dreaming")


def test_a_daemon_that_is_killed_and_comes_back_is_not_noticed(daemon):
    """Calls that are under way, queries that are open and streams that are read go on with the next daemon; nothing happens twice."""

    async def follow(client, session_id, ready):
        found = []
        async with contextlib.aclosing(client.events.follow(session=session_id, after="start", silence=5)) as events:
            async for event in events:
                found.append((event.execution_id, event.seq))
                ready.set()
                if event.type == "console" and event.payload["text"] == "last":
                    return found
        raise AssertionError("it ended")

    async def run():
        async with AsyncClient(daemon.url, daemon.token, retry_for=60) as client:
            template = await client.templates.create("killed", limits={"wall_ms": 60_000, "cpu_ms": 60_000})
            session = await client.sessions.create(template.id)
            counts = await client.sessions.create(template.id)
            asks = await client.executions.repl(session.id, "console.log(await ask('Go on?'))")
            ready = asyncio.Event()
            following = asyncio.create_task(follow(client, session.id, ready))
            await asyncio.wait_for(ready.wait(), 10)
            await client.executions.repl(counts.id, "var n = 0")
            busy = asyncio.create_task(client.executions.repl(counts.id, "for (let i = 0; i < 1e7; i++); n += 1"))
            await asyncio.sleep(0.2)
            assert (await client.sessions.get(counts.id)).status == "running"
            daemon.kill()
            calls = [asyncio.create_task(client.executions.repl(counts.id, "n += 1", wait=True)) for _ in range(10)]
            await asyncio.sleep(0.1)
            await asyncio.to_thread(daemon.start)
            assert {call.status for call in await asyncio.gather(busy, *calls)} == {"ok"}
            assert (await client.executions.repl(counts.id, "n")).result["preview"] == "11"
            assert (await client.queries.answer(session.id, "yes")).id == asks.id
            last = await client.executions.repl(session.id, "console.log('last')")
            told = await asyncio.wait_for(following, 20)
            stored = [event.seq async for event in client.events.iterate(asks.id)]
            return told, {asks.id: stored, last.id: [seq for execution, seq in told if execution == last.id]}

    told, stored = asyncio.run(run())
    assert stored[told[0][0]][-1] > 2
    assert told == [(execution, seq) for execution, numbers in stored.items() for seq in numbers]


def test_what_the_pages_say_of_the_client_is_right(daemon, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SERVER_URL", daemon.url)
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(daemon.folder / "data"))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    for page in ("README.md", "docs/client.md"):
        text = (Path(__file__).parents[2] / page).read_text()
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if page == "README.md":
            blocks = [block for block in blocks if "holdfast.Client" in block]
        assert blocks
        asyncio.run(run_all(page, blocks))
