"""The commands that talk to a daemon, against a real one."""

import asyncio
import json
import re
from typing import Any

import pytest

from holdfast.cli import _remote
from holdfast.cli.commands import query
from tests.daemon import Daemon
from tests.integration.cli_process import Terminal

NOBODY = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    started = Daemon(tmp_path_factory.mktemp("daemon")).start()
    yield started
    assert started.stop() == 0


@pytest.fixture
def holdfast(daemon, capsys, monkeypatch):
    """Finds the token as people do: in the data directory."""
    monkeypatch.setenv("HOLDFAST_DATA_DIR", daemon.environment["HOLDFAST_DATA_DIR"])
    monkeypatch.setenv("HOLDFAST_CONFIG", daemon.environment["HOLDFAST_CONFIG"])
    monkeypatch.setenv("HOLDFAST_SERVER_URL", daemon.url)
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    return Terminal(capsys)


def found(text: str, key: str) -> str:
    """The value of a `Key: value` line."""
    return next(line.removeprefix(f"{key}: ") for line in text.splitlines() if line.startswith(f"{key}: "))


def test_smk_a_template_with_files_and_a_session_of_it(holdfast, tmp_path):
    (tmp_path / "init.js").write_text("var SMOKE_VALUE = 40")
    (tmp_path / "run.js").write_text("console.log(__ARGS__.who); SMOKE_VALUE + 2")
    assert '"name": "fs"' in holdfast("template", "list-available-modules").out
    made = holdfast("template", "create", "--name", "smoke").out
    template = made.removeprefix("Created template: smoke (ID: ").removesuffix(")\n")
    assert holdfast("template", "add-module", template, "--name", "fs").out == "Added module: fs\n"
    assert holdfast("template", "add-startup", template, "--path", "init.js").code == 0
    worktree = ["--workspace-id", "w", "--base-commit", "c0ffee", "--worktree-path", str(tmp_path)]
    created = holdfast("session", "create", "--template-id", template, *worktree).out
    assert created.splitlines()[1:] == [
        "Status: ready",
        f"Template ID: {template}",
        "Workspace ID: w",
        "Base Commit: c0ffee",
        f"Worktree Path: {tmp_path}",
    ]
    session = found(created, "Created session")
    said = holdfast("exec", "repl", session, "SMOKE_VALUE + 2")
    assert said.code == 0
    assert '"preview":"42"' in found(said.out, "Result")
    assert "Events:\n  [1] input_echo: " in said.out
    said = holdfast("exec", "run-file", session, "run.js", "--args", '{"who": "Ada"}')
    assert (said.code, found(said.out, "Status")) == (0, "ok")
    assert '"json":42' in found(said.out, "Result")
    assert '"text":"Ada"' in said.out
    summary = holdfast("ops", "runtime-summary", "--json")
    assert '"active_sessions":1' in summary.out
    assert json.loads(holdfast("ops", "health").out)["ready"] == "ok"
    assert holdfast("session", "list").out.splitlines()[1].startswith(session)
    assert len(holdfast("exec", "list", session, "--json").json) == 3  # with the startup file
    assert holdfast("session", "close", session).out == f"Closed session: {session}\n"
    assert found(holdfast("session", "get", session).out, "Status") == "closed"
    assert holdfast("exec", "repl", session, "1").code == 4


def test_templates(holdfast):
    assert holdfast("template", "create", "--name", "parts", "--engine", "lua", "--limit", "wall_ms=900").code == 0
    twice = holdfast("template", "create", "--name", "parts")
    assert (twice.code, twice.out) == (4, "")
    assert "(NAME_TAKEN)\nhint: " in twice.err
    added = holdfast(
        "template", "add-capability", "parts", "--kind", "module", "--name", "fs", "--config", '{"write": true}', "--json"
    ).json
    assert (added["enabled"], added["config"]) == (True, {"write": True})
    assert 'module  fs    yes      {"write":true}' in holdfast("template", "list-capabilities", "parts").out
    unknown = holdfast("template", "add-capability", "parts", "--kind", "tool", "--name", "ship")
    assert unknown.code == 2
    assert "(CAPABILITY_INVALID)" in unknown.err
    startup = holdfast("template", "add-startup", "parts", "--path", "a.lua", "--order", "20", "--json").json["id"]
    assert holdfast("template", "add-startup", "parts", "--path", "b.lua", "--mode", "import").code == 2
    assert holdfast("template", "add-startup", "parts", "--path", "../b.lua").code == 1
    assert holdfast("template", "list-startup", "parts", "--json").json[0]["order_index"] == 20
    assert holdfast("template", "add-library", "parts", "--name", "lodash").code == 0
    assert holdfast("template", "list-libraries", "parts").out == "lodash-4.17.21\n"
    assert "(MODULE_NOT_ALLOWED)" in holdfast("template", "add-module", "parts", "--name", "json").err
    assert holdfast("template", "list-modules", "parts").out == "No modules found\n"
    shown = holdfast("template", "get", "parts").out
    assert '"wall_ms":900' in found(shown, "  Limits")
    assert shown.index("Capabilities:") < shown.index("Startup Files:") < shown.index("Loaded Libraries:")
    assert holdfast("template", "remove-library", "parts", "--name", "lodash").code == 0
    assert holdfast("template", "remove-startup", "parts", startup).code == 0
    assert holdfast("template", "remove-capability", "parts", added["id"]).code == 0
    assert "Loaded Libraries" not in holdfast("template", "get", "parts").out
    assert holdfast("template", "update", "parts", "--limit", "wall_ms=800", "--inactive").code == 0
    assert holdfast("template", "update", "parts").code == 2
    assert len(holdfast("template", "versions", "parts", "--json").json) > 1
    assert holdfast("session", "create", "--template-id", "parts").code == 4
    copy = holdfast("template", "clone", "parts", "--name", "copy", "--json").json
    assert (copy["name"], copy["engine"]) == ("copy", "lua")
    assert holdfast("template", "delete", "copy").out == f"Deleted template: {copy['id']}\n"
    assert holdfast("template", "get", "copy").code == 3
    assert holdfast("template", "list", "--name", "copy").out == "No templates found\n"


@pytest.fixture(scope="module")
def plain(daemon) -> str:
    """A template without anything."""
    with daemon.client() as client:
        made: dict[str, Any] = client.post("/templates", json={"name": "plain"}).json()
    return made["id"]


def test_questions_forks_and_the_past(holdfast, plain):
    session = holdfast("session", "create", "--template-id", "plain", "--name", "trip", "--meta", '{"n": 1}', "--json").json[
        "id"
    ]
    code = "var trail = []; while (trail.length < 2) trail.push(await ask('Where to?')); trail.join('>')"
    paused = holdfast("exec", "repl", "trip", code)
    assert paused.code == 0
    assert 'Waits for q-1 (ask): {"question":"Where to?"}' in paused.out
    assert holdfast("exec", "repl", "trip", "1").code == 4
    assert [one["id"] for one in holdfast("query", "list", "--session", "trip", "--json").json] == ["q-1"]
    assert found(holdfast("query", "answer", "trip", "Lima").out, "Status") == "paused"
    assert holdfast("query", "answer", "trip", "Oslo", "--query", "q-1").code == 4  # another answer
    fork = holdfast("session", "fork", "trip", "--json").json[0]
    assert fork["origin"]["session_id"] == session
    ended = holdfast("query", "answer", fork["id"], '"Rome"', "--as-json", "--json")
    assert ended.json["result"]["json"] == "Lima>Rome"
    assert holdfast("query", "answer", "trip", "x", "--query", "q-9").code == 3
    failed = holdfast("query", "answer", "trip", "--error", "nobody is there", "--code", "GONE")
    assert (failed.code, "GONE" in found(failed.out, "Error")) == (1, True)
    assert "(ANSWER_AMBIGUOUS)" in holdfast("query", "answer", "trip", "x").err
    assert holdfast("query", "list", "--session", "trip").out == "No queries found\n"
    numbers = [one["number"] for one in holdfast("session", "checkpoints", "trip", "--json").json]
    assert holdfast("session", "rewind", "trip", str(numbers[0])).out.endswith("Status: paused\n")
    assert fork["id"] in holdfast("session", "tree", "trip").out
    assert "<- here" in holdfast("session", "tree", "trip").out
    assert "trail" in holdfast("session", "diff", "trip", "0").out
    execution = holdfast("session", "get", "trip", "--json").json["execution_id"]
    assert found(holdfast("exec", "cancel", execution).out, "Status") == "cancelled"
    assert holdfast("session", "rewind", "trip", "99").code == 3
    assert holdfast("session", "errors", "trip").code == 0
    assert holdfast("session", "delete", "trip").code == 0
    assert holdfast("session", "get", session).code == 3
    assert holdfast("session", "get", fork["id"]).code == 0


def test_executions_and_their_events(holdfast, plain, tmp_path):
    session = holdfast("session", "create", "--template-id", plain, "--json").json["id"]
    ran = holdfast("exec", "repl", session, "console.log('a'); throw new TypeError('no')", "--json")
    assert (ran.code, ran.json["status"]) == (1, "error")
    execution = ran.json["id"]
    events = holdfast("exec", "events", execution, "--after-seq", "1", "--json").json
    assert [event["seq"] for event in events] == list(range(2, 2 + len(events)))
    assert "console" in holdfast("exec", "events", execution).out
    assert "TypeError" in found(holdfast("exec", "get", execution).out, "Error")
    told = holdfast("events", "--follow", "--execution", execution, "--json").out.splitlines()  # which ends, since it has ended
    assert [json.loads(line)["seq"] for line in told] == list(range(1, 2 + len(events)))
    assert len(holdfast("events", "--execution", execution).out.splitlines()) == len(told)
    assert holdfast("events").code == 2
    strategy = tmp_path / "plan.js"
    strategy.write_text("ctx.task + '!'")
    assert '"json":"tea!"' in holdfast("exec", "strategy", session, str(strategy), "--ctx", '{"task": "tea"}').out
    assert holdfast("exec", "strategy", session, str(tmp_path / "none.js")).code == 2
    assert holdfast("exec", "run-file", session, "x.js", "--args", "[]").code == 2
    much = holdfast("exec", "repl", session, "console.log('x'.repeat(300_000))")
    assert much.code == 6
    execution = re.search("hint: `holdfast exec events ([0-9a-f-]{36})`", much.err)[1]
    assert holdfast("exec", "get", execution, "--json").json["error"]["limit"] == "max_output_kb"
    endless = holdfast("exec", "repl", session, "for (;;);", "--background", "--json")
    assert (endless.code, endless.json["status"]) == (0, "running")
    assert holdfast("exec", "cancel", endless.json["id"], "--json").json["status"] == "cancelled"
    assert '{state="ready"}' in holdfast("ops", "metrics").out
    assert all(isinstance(value, float) for value in holdfast("ops", "metrics", "--json").json.values())


def test_a_repl_at_the_daemon(holdfast, plain):
    said = holdfast("repl", "--template", "plain", typed="const n = await ask('Who?')\nAda\nn + '!'\n.tree\n")
    assert said.out.startswith("Ada!\nsession ")
    assert holdfast("repl", typed="1\n").code == 2  # which template?


def test_queries_are_watched_also_when_the_daemon_is_killed_and_started_again(holdfast, plain, daemon, capsys, monkeypatch):
    monkeypatch.setattr(_remote, "_RETRY_FOR_S", 0.1)
    session = holdfast("session", "create", "--template-id", plain, "--json").json["id"]
    holdfast("exec", "repl", session, "await approve('first?'); await ask('second?')")
    told: list[str] = []

    async def until(count):
        async with asyncio.timeout(30):
            while len(told) < count:
                await asyncio.sleep(0.02)
                told.extend(json.loads(line)["payload"]["question"] for line in capsys.readouterr().out.splitlines())

    async def answer(value):
        async with _remote.Globals().host() as host:
            (query,) = await host.queries(session)
            await host.answer(session, query["id"], value)

    async def watch():
        watching = asyncio.create_task(query._watch(_remote.Globals(), session, json=True))
        await until(1)
        await answer(True)
        await until(2)
        await asyncio.to_thread(daemon.kill)
        await asyncio.sleep(query._LOOK_S + 0.3)  # it has looked in vain meanwhile
        await asyncio.to_thread(daemon.start)
        async with _remote.Globals().host() as host:
            await host.rewind(session, (await host.checkpoints(session))[0]["number"])
        await until(3)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    monkeypatch.setattr(query, "_LOOK_S", 0.3)
    asyncio.run(watch())
    assert told == ["first?", "second?", "first?"]  # and not twice what was open all the time


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["session", "get", NOBODY], 3, "(SESSION_NOT_FOUND)\nhint: "),
        (["session", "get", "nobody"], 3, "there is no session 'nobody'"),
        (["template", "get", NOBODY], 3, "(TEMPLATE_NOT_FOUND)"),
        (["exec", "get", NOBODY], 3, "(EXECUTION_NOT_FOUND)"),
        (["exec", "get", "x"], 2, "(VALIDATION_ERROR)"),
        (["session", "list", "--status", "sleepy"], 2, "(VALIDATION_ERROR)"),
        (["session", "create", "--template-id", "plain", "--workspace-id", "w"], 2, "say --worktree-path"),
        (["session", "create"], 2, "--template-id"),
        (["session", "list", "--limit", "0"], 2, "(USAGE)"),
        (["--token", "hf_wrong", "session", "list"], 1, "(UNAUTHENTICATED)\nhint: "),
        (["template", "create", "--name"], 2, "hint: `holdfast template create --help`"),
        (["--server-url", "ftp://x", "session", "list"], 2, "(VALIDATION_ERROR)"),
    ],
    ids=str,
)
def test_what_cannot_be_done(holdfast, plain, words, code, told):
    said = holdfast(*words)
    assert (said.code, said.out) == (code, "")
    assert told in said.err


def test_a_daemon_that_is_not_there(holdfast, monkeypatch):
    monkeypatch.setattr(_remote, "_RETRY_FOR_S", 0.0)
    said = holdfast("--server-url", "http://127.0.0.1:9", "template", "list")
    assert (said.code, said.out) == (5, "")
    assert "(DAEMON_UNREACHABLE)\nhint: start a daemon with `holdfast serve`" in said.err
    assert holdfast("doctor").code == 0
