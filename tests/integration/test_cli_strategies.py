"""`holdfast strategy run`, `resume`, `status` and `holdfast transcript`: here, and at a daemon."""

import json
import os
import pty
import re
import signal
import subprocess

import pytest

from holdfast.cli import _strategy
from holdfast.cli._remote import Globals
from holdfast.domain import HoldfastError
from tests.http_server import served
from tests.integration.cli_process import COMMAND, Terminal, environment

UUID = "[0-9a-f]{8}-[0-9a-f-]{27}"
PLAN = """
local name = alc.llm("Name a " .. ctx.thing .. ".")
print("thinking of " .. name)
return {name = name, colour = alc.llm("Its colour?", {system = "One word."}), task = ctx.task, n = ctx.n}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("daemon")) as server:
        yield server


@pytest.fixture(params=["here", "daemon"])
def holdfast(request, data, capsys, monkeypatch):
    """The same commands, in the store of the person at the terminal and at a daemon."""
    for name, value in environment(data).items():
        if name.startswith(("HOLDFAST_", "NO_COLOR")):
            monkeypatch.setenv(name, value)
    for name in ("HOLDFAST_SERVER_URL", "HOLDFAST_TOKEN", "HOLDFAST_LOCAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "daemon":
        server = request.getfixturevalue("server")
        monkeypatch.setenv("HOLDFAST_SERVER_URL", server.url)
        monkeypatch.setenv("HOLDFAST_TOKEN", server.token)
    return Terminal(capsys)


@pytest.fixture
def plan(tmp_path):
    file = tmp_path / "plan.lua"
    file.write_text(PLAN)
    return str(file)


def test_a_run_is_answered_call_by_call_and_told_in_its_transcript(holdfast, plan, tmp_path):
    words = ["--ctx", '{"thing": "fruit"}', "--task", "eat", "--opt", "n=5"]
    said = holdfast("strategy", "run", plan, *words)
    assert said.code == 0
    asks, session = said.json, said.json["session_id"]
    assert (asks["status"], asks["query_id"], asks["prompt"]) == ("needs_response", "q-1", "Name a fruit.")
    assert said.err == f"run {session} waits; go on with: holdfast strategy resume {session}\n"

    assert any(line.startswith(session) for line in holdfast("strategy", "status").out.splitlines())
    one = holdfast("strategy", "status", session)
    assert "Waits for: 1" in one.out
    assert "Asks q-1: Name a fruit." in one.out
    shown = holdfast("strategy", "status", session, "--pending", "full", "--json").json
    assert shown["pending"][0]["prompt"] == "Name a fruit."

    said = holdfast("strategy", "resume", session, "--response", "plum")
    assert said.json["prompt"] == "Its colour?"
    assert said.err.startswith("thinking of plum\n")
    assert holdfast("strategy", "resume", session, "--response", "x", "--query", "q-7").code == 3
    said = holdfast("strategy", "resume", session, "--response", "blue", "--query", "q-2", "--json")
    assert said.json["result"] == {"name": "plum", "colour": "blue", "task": "eat", "n": 5}
    assert holdfast("strategy", "resume", session).code == 0  # its end, once more
    late = holdfast("strategy", "resume", session, "--response", "late")
    assert (late.code, "waits" in late.err) == (4, False)

    assert holdfast("transcript", "note", session, "tasty", "--title", "verdict").out == "Notes: 1\n"
    told = holdfast("transcript", "show", session).out
    for line in ("Strategy: plan.lua", "q-2 (llm, answered)", "  system One word.", "  ? Its colour?", "  > blue"):
        assert line in told.splitlines(), line
    assert "verdict: tasty" in told
    found = holdfast("transcript", "show", session, "--json").json
    assert [one["response"] for one in found["transcript"]] == ["plum", "blue"]
    assert session in holdfast("transcript", "list", "--strategy", "plan.lua").out
    assert holdfast("transcript", "list", "--strategy", "plan").out == "No transcripts found\n"
    assert holdfast("transcript", "stats", "--json").json["strategies"]["plan.lua"]["count"] >= 1
    assert "plan.lua" in holdfast("transcript", "stats").out
    assert "Its colour?" in holdfast("transcript", "export", session, "--format", "markdown").out
    assert holdfast("transcript", "export", session, "--format", "pdf").code == 2

    recorded = tmp_path / "said.jsonl"
    assert holdfast("transcript", "export", session, "--output", str(recorded)).out == ""
    again = holdfast("strategy", "run", plan, *words, "--answers", str(recorded), "--json")
    assert (again.code, again.json["result"]) == (0, {"name": "plum", "colour": "blue", "task": "eat", "n": 5})
    assert again.err == "thinking of plum\n"
    unknown = holdfast("strategy", "run", plan, "--opt", "thing=tree", "--answers", str(recorded))
    assert (unknown.code, unknown.out) == (1, "")
    assert re.search(rf"run ({UUID}) waits; .*\nerror: .*'Name a tree.' \(PROMPT_UNKNOWN\)", unknown.err)


@pytest.mark.parametrize("holdfast", ["daemon"], indirect=True)
def test_failures_and_cancelled_runs_have_exit_codes(holdfast, tmp_path):
    script = tmp_path / "bad.js"
    script.write_text("await llm('?'); throw new Error('no')")
    session = holdfast("strategy", "run", str(script)).json["session_id"]
    failed = holdfast("strategy", "resume", session, "--response", "x")
    assert (failed.code, failed.out) == (1, "")
    assert "error: Error: no (SCRIPT_ERROR)" in failed.err
    session = holdfast("strategy", "run", str(script)).json["session_id"]
    assert "no model" in holdfast("strategy", "resume", session, "--error", "no model", "--json").json["error"]
    session = holdfast("strategy", "run", str(script)).json["session_id"]
    assert holdfast("strategy", "cancel", session).out == f"Session ID: {session}\nStatus: cancelled\n"
    assert holdfast("strategy", "resume", session).code == 1
    script.write_text("await llm('?')")
    session = holdfast("strategy", "run", str(script)).json["session_id"]
    assert holdfast("strategy", "resume", session, "--response", "x").out == "x\n"
    assert holdfast("exec", "repl", session, "throw 1").code == 1
    assert holdfast("strategy", "resume", session).code == 0  # what else is done in its session says nothing of the run
    script.write_text("'x'.repeat(300_000)")
    assert holdfast("strategy", "run", str(script), "--budget-calls", "1").code == 6


@pytest.mark.parametrize("holdfast", ["here"], indirect=True)
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run", "nowhere.lua"], 3, "(FILE_NOT_FOUND)"),
        (["run", "a/b"], 2, "what language"),
        (["run", "nobody_has_this"], 3, "(PACKAGE_NOT_FOUND)"),
        (["run", "x.lua", "--ctx", "[]"], 2, "--ctx must be a JSON object"),
        (["run", "x.lua", "--opt", "n"], 2, "--opt takes KEY=VALUE"),
        (["resume", "nobody"], 3, "(SESSION_NOT_FOUND)"),
        (["resume", "x", "--response", "a", "--error", "b"], 2, "not both"),
        (["resume", "x", "--query", "q-1"], 2, "--query goes with"),
        (["status", "nobody"], 3, "(SESSION_NOT_FOUND)"),
        (["status", "--pending", "all"], 2, "unknown pending_filter preset 'all'"),
        (["run", "x.lua", "--ctx", "[" * 100_000], 2, "--ctx must be JSON"),
        (["run", "x.lua", "--ctx", '{"a": "\udcff"}'], 2, "--ctx is not text in UTF-8"),
        (["run", "x.lua", "--opt", "n=\udcff"], 2, "--opt is not text in UTF-8"),
        (["run", "x.lua", "--task", "\udcff"], 2, "--task is not text in UTF-8"),
        (["resume", "x", "--response", "\udcff"], 2, "--response is not text in UTF-8"),
    ],
)
def test_what_cannot_be_done(holdfast, words, code, told):
    said = holdfast("strategy", *words)
    assert (said.code, said.out) == (code, "")
    assert told in said.err


def test_what_is_no_transcript(tmp_path):
    file = tmp_path / "said"
    for text in ("", "{", "[1]", '{"prompt": 1, "response": 2}', '{"transcript": 3}', "[" * 100_000):
        file.write_text(text)
        with pytest.raises(HoldfastError):
            _strategy.recording_of(file)


@pytest.mark.parametrize("holdfast", ["here"], indirect=True)
def test_lines_of_a_transcript_end_where_json_lines_do(holdfast, tmp_path):
    """Not at U+2028 and U+0085, where Python thinks that they do; and halves of characters break no file."""
    script, said = tmp_path / "said.js", tmp_path / "said.jsonl"
    script.write_text("await llm('a\\u2028b\\x85c') + '\\u2028' + await llm('\\ud800')")
    first = json.dumps({"prompt": "a\u2028b\x85c", "response": "\x85"}, ensure_ascii=False)
    said.write_text(f"{first}\n{json.dumps({'prompt': chr(0xD800), 'response': 'half'})}\n")
    first = holdfast("strategy", "run", str(script), "--answers", str(said), "--json")
    session = first.json["session_id"]
    assert first.json["result"].startswith("\x85\u2028")
    assert holdfast("transcript", "note", session, "\udcff").code == 2
    for form in ("markdown", "jsonl"):
        assert holdfast("transcript", "export", session, "--format", form, "--output", str(said)).code == 0
    assert holdfast("strategy", "run", str(script), "--answers", str(said), "--json").json["result"] == first.json["result"]


def test_where_it_waits_is_said_if_it_is_not_where_everybody_looks(capsys, monkeypatch):
    monkeypatch.delenv("HOLDFAST_SERVER_URL", raising=False)
    _strategy._say_how_to_go_on(Globals("http://127.0.0.1:1"), None, "X")
    _strategy._say_how_to_go_on(Globals(), "a b.db", "X")
    _strategy._say_how_to_go_on(Globals(), "memory:", "X")
    _strategy._say_how_to_go_on(Globals(), "a.db", None)
    assert capsys.readouterr().err.splitlines() == [
        "run X waits; go on with: holdfast --server-url http://127.0.0.1:1 strategy resume X",
        "run X waits; go on with: holdfast strategy resume X --store 'a b.db'",
        "the run is gone, since it was in memory only",
        "the run goes on from there; look for it with: holdfast strategy status --store a.db",
    ]


@pytest.mark.parametrize("holdfast", ["here"], indirect=True)
def test_at_a_terminal_a_person_plays_the_model_and_ctrl_c_leaves_the_run(holdfast, data, plan):
    """A real process at a real terminal: an answer is typed, then Ctrl-C; `resume` goes on with the second question."""
    ours, theirs = pty.openpty()
    words = [*COMMAND, "strategy", "run", plan, "--ctx", '{"thing": "fruit"}']
    process = subprocess.Popen(
        words, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment(data), cwd=data
    )
    os.close(theirs)
    seen = ""

    def until(text):
        nonlocal seen
        while text not in seen:
            seen += os.read(ours, 65_536).decode()

    until("Name a fruit.")
    os.write(ours, b"a plum\n\n")
    until("Its colour?")
    process.send_signal(signal.SIGINT)
    until("waits; go on with")
    out, _ = process.communicate(timeout=30)
    os.close(ours)
    assert (process.returncode, out) == (130, "thinking of a plum\n")
    session = re.search(rf"run ({UUID}) waits; go on with", seen)[1]
    assert holdfast("strategy", "status", session, "--json").json["pending_queries"] == 1
    said = holdfast("strategy", "resume", session, "--response", "blue")
    assert (said.code, json.loads(said.out)) == (0, {"name": "a plum", "colour": "blue"})
