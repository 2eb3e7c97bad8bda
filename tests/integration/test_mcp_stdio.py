"""`holdfast mcp` as a process: driven by the SDK's own client, and by hand where a client would be too polite."""

import json
import signal

import pytest

from tests.mcp_host import Local, MCPError, Pipes, until

TWO = "return {alc.llm('first?'), alc.llm('second?')}"
BATCH = "return alc.llm_batch({{prompt='a'}, {prompt='b'}, {prompt='c'}})"
FOREVER = "while true do end"
NOISY = """
import os, subprocess, sys
from holdfast.cli import main
from holdfast.mcp import _stdio

take = _stdio._take_pipes

def taken():
    pipes = take()
    print("printed", flush=True)
    os.write(1, b"written\\n")
    subprocess.run(["echo", "by a child"])
    print("nothing to read:", repr(sys.stdin.read()), flush=True)
    return pipes

_stdio._take_pipes = taken
sys.exit(main())
"""
"""`holdfast mcp` with parts that know nothing of what stdin and stdout are for."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mcp")
    (made / "noisy.py").write_text(NOISY)
    (made / "scripts").mkdir()
    (made / "scripts" / "hello.js").write_text("ctx.who + '!'")
    (made / "outside.lua").write_text("return 1")
    return made


@pytest.fixture(scope="module")
def odd():
    """What came over stdout and was no message."""
    return []


@pytest.fixture(scope="module")
def host(folder, odd):
    async def heard(message):
        if isinstance(message, Exception):
            odd.append(message)

    local = Local(folder, "--root", "scripts", program=str(folder / "noisy.py"), message_handler=heard)
    local.start()
    yield local
    local.stop()


def phase(host, session_id):
    return host.call("status", session_id=session_id)["phase"]


# ---- what there is -----------------------------------------------------------------------------------------------------------------


def test_the_tools_are_few_and_small(host):
    listed = host.do(lambda client: client.list_tools()).result(30)
    assert host.client.protocol_version == "2026-07-28"
    names = "run advise continue status cancel fork history strategies templates transcripts"
    assert " ".join(tool.name for tool in listed.tools) == names
    assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) < 12_000
    assert all(tool.output_schema and tool.annotations for tool in listed.tools)


def test_strategies_templates_and_transcripts_can_be_looked_at(host):
    done = host.call("run", code="return 1")
    assert {"reflect", "self_consistency"} <= {one["name"] for one in host.call("strategies")["strategies"]}
    shown = host.call("strategies", name="reflect", language="lua")
    assert shown["name"] == "reflect"
    assert "alc.llm" in host.read("holdfast://strategies/reflect")
    assert [one["name"] for one in host.call("templates")["templates"]] == ["strategy-lua"]
    granted = {(one["kind"], one["name"]) for one in host.call("templates", name="strategy-lua")["grants"]}
    assert ("module", "state") in granted
    session_id = done["session_id"]
    assert host.call("transcripts")["transcripts"][0]["session_id"] == session_id
    assert host.call("transcripts", session_id=session_id, note="well done", title="a note")["notes_count"] == 1
    assert host.call("transcripts", session_id=session_id)["notes"][0]["content"] == "well done"
    assert "well done" in host.call("transcripts", session_id=session_id, format="markdown")["text"]
    assert host.call("transcripts", stats=True)["total_sessions"] >= 1
    assert json.loads(host.read(f"holdfast://transcripts/{session_id}"))["result"] == 1
    assert json.loads(host.read(f"holdfast://sessions/{session_id}"))["phase"] == "completed"


def test_type_definitions_are_resources(host):
    listed = host.do(lambda client: client.list_resources()).result(30).resources
    assert [one.uri for one in listed] == ["holdfast://types/alc.d.lua", "holdfast://types/holdfast.d.ts"]
    assert host.read("holdfast://types/alc.d.lua").startswith("---@meta")
    assert "llm" in host.read("holdfast://types/holdfast.d.ts")
    assert len(host.do(lambda client: client.list_resource_templates()).result(30).resource_templates) == 3


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("holdfast://sessions/../../etc/passwd", "NOT_FOUND"),
        ("holdfast://sessions/q-1", "VALIDATION_ERROR"),
        ("holdfast://transcripts/3f2504e0-4f89-41d3-9a0c-0305e82c3301", "NOT_FOUND"),
        ("holdfast://strategies/no_such", "PACKAGE_NOT_FOUND"),
        ("holdfast://types/other", "NOT_FOUND"),
        ("file:///etc/passwd", "NOT_FOUND"),
    ],
)
def test_a_resource_that_is_not_there_is_told_so(host, uri, code):
    with pytest.raises(MCPError, match=code) as refused:
        host.read(uri)
    assert refused.value.error.code == -32602


# ---- runs --------------------------------------------------------------------------------------------------------------------------


def test_a_run_pauses_is_killed_and_goes_on(host):
    asked = host.call("run", code=TWO, ctx={"n": 1})
    assert asked == {
        "status": "needs_response",
        "session_id": asked["session_id"],
        "query_id": "q-1",
        "prompt": "first?",
        "system": None,
        "max_tokens": 1024,
    }
    host.signal(signal.SIGKILL)
    host.start()
    session_id = asked["session_id"]
    assert [one["session_id"] for one in host.call("status")["sessions"]] == [session_id]
    assert host.call("status", session_id=session_id, pending_filter="preview")["pending"][0]["prompt_preview"] == "first?"
    asked = host.call("continue", session_id=session_id, query_id="q-1", response="one", usage={"prompt_tokens": 3})
    assert (asked["query_id"], asked["prompt"]) == ("q-2", "second?")
    done = host.call("continue", session_id=session_id, response="two", model="m", finish_reason="stop")
    assert (done["status"], done["result"]) == ("completed", ["one", "two"])
    transcript = host.call("transcripts", session_id=session_id)["transcript"]
    assert [(one["query_id"], one["response"], one.get("model")) for one in transcript] == [
        ("q-1", "one", None),
        ("q-2", "two", "m"),
    ]


def test_a_strategy_is_run_by_name(host):
    asked = host.call("advise", strategy="reflect", task="Name a prime.", language="lua", budget={"max_llm_calls": 1})
    assert asked["status"] == "needs_response"
    assert "Name a prime." in asked["prompt"]
    assert host.call("status", session_id=asked["session_id"])["strategy"] == "reflect"
    over = host.call("continue", session_id=asked["session_id"], query_id="q-1", response="4")
    assert "budget_exceeded" in over["error"]
    assert host.refused("advise", strategy="no_such").startswith("PACKAGE_NOT_FOUND: ")
    for name in ("../reflect", "", "a" * 1000, "reflect/init", "réflect"):
        assert host.refused("advise", strategy=name).startswith("PACKAGE_INVALID: ")


def test_several_queries_are_answered_in_one_call_or_in_several(host):
    asked = host.call("run", code=BATCH)
    session_id = asked["session_id"]
    assert [one["id"] for one in asked["queries"]] == ["q-1", "q-2", "q-3"]
    taken = host.call("continue", session_id=session_id, query_id="q-2", response="B")
    assert taken == {"status": "accepted", "session_id": session_id, "remaining": 2}
    refused = host.refused("continue", session_id=session_id, response="?")
    assert refused.startswith("ANSWER_AMBIGUOUS: ")
    rest = [{"query_id": "q-3", "response": "C"}, {"query_id": "q-1", "response": "A"}]
    assert host.call("continue", session_id=session_id, responses=rest)["result"] == ["A", "B", "C"]


def test_a_script_that_fails_is_no_error_of_the_call(host):
    failed = host.call("run", code="error('no way')")
    assert failed["status"] == "error"
    assert "no way" in failed["error"]
    raised = host.call("run", code="return alc.llm('?')")
    raised = host.call("continue", session_id=raised["session_id"], query_id="q-1", error="the model is out")
    assert raised["status"] == "error"
    assert "the model is out" in raised["error"]


def test_a_budget_of_nothing_lets_nothing_be_asked(host):
    refused = host.call("run", code="return alc.llm('?')", budget={"max_llm_calls": 0})
    assert refused["status"] == "error"
    assert "budget_exceeded: max_llm_calls (0)" in refused["error"]
    assert host.refused("run", code="return 1", budget={"max_llm_calls": -1}).startswith("VALIDATION_ERROR: ")


def test_answers_that_make_no_sense_change_nothing(host):
    session_id = host.call("run", code=TWO)["session_id"]
    wrong = [
        ({"query_id": "q-7", "response": 1}, "QUERY_NOT_FOUND"),
        ({"query_id": "7th", "response": 1}, "VALIDATION_ERROR"),
        ({"query_id": "q-1", "response": "a", "usage": {"prompt_tokens": "many"}}, "VALIDATION_ERROR"),
        ({"query_id": "q-1", "response": "a", "error": "b"}, "VALIDATION_ERROR"),
        ({"responses": []}, "VALIDATION_ERROR: Empty responses array"),
        ({"responses": [{"query_id": "q-1", "response": 1}, {"query_id": "q-9", "response": 1}]}, "QUERY_NOT_FOUND"),
        ({}, "VALIDATION_ERROR: Either 'response' or 'responses' must be provided"),
    ]
    for given, code in wrong:
        assert host.refused("continue", session_id=session_id, **given).startswith(code), given
    nobody = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    assert host.refused("continue", session_id=nobody, response=1).startswith("SESSION_NOT_FOUND: ")
    assert host.refused("status", session_id=nobody).startswith("SESSION_NOT_FOUND: ")
    assert host.refused("status", pending_filter="all").startswith("VALIDATION_ERROR: unknown pending_filter preset 'all'")
    assert host.call("status", session_id=session_id)["pending_queries"] == 1


def test_an_answer_twice_is_taken_once_and_another_one_is_refused(host):
    session_id = host.call("run", code=TWO)["session_id"]
    first = host.call("continue", session_id=session_id, query_id="q-1", response="one")
    assert host.call("continue", session_id=session_id, query_id="q-1", response="one") == first
    assert host.refused("continue", session_id=session_id, query_id="q-1", response="other").startswith("ANSWER_CONFLICT: ")
    assert host.call("cancel", session_id=session_id)["status"] == "cancelled"
    assert host.call("cancel", session_id=session_id)["status"] == "cancelled"
    assert host.refused("continue", session_id=session_id, query_id="q-2", response="late").startswith("ANSWER_CONFLICT: ")


def test_the_same_key_is_the_same_run(host):
    first = host.call("run", code=TWO, idempotency_key="once")
    assert host.call("run", code=TWO, idempotency_key="once") == first
    assert host.refused("run", code=BATCH, idempotency_key="once").startswith("IDEMPOTENCY_CONFLICT: ")
    assert host.refused("run", code=BATCH, idempotency_key="").startswith("VALIDATION_ERROR: ")
    assert host.call("run", code=TWO)["session_id"] != first["session_id"]

    def hidden(client):
        return client.call_tool("run", {"code": TWO}, meta={"holdfast/idempotencyKey": "once"})

    assert host.do(hidden).result(30).structured_content == first


def test_a_fork_goes_its_own_way(host):
    session_id = host.call("run", code=TWO)["session_id"]
    host.call("continue", session_id=session_id, query_id="q-1", response="one")
    _, asked, _ = [node["number"] for node in host.call("history", session_id=session_id)["nodes"]]
    other = host.call("fork", session_id=session_id, checkpoint=asked)
    assert (other["status"], other["prompt"]) == ("needs_response", "first?")
    assert other["session_id"] != session_id
    assert host.refused("fork", session_id=session_id, checkpoint=99).startswith("CHECKPOINT_NOT_FOUND: ")


def test_a_file_is_read_below_the_root_and_nowhere_else(host):
    assert host.call("run", file="hello.js", ctx={"who": "Ada"})["result"] == "Ada!"
    assert host.refused("run", file="../outside.lua").startswith("INVALID_PATH: ")
    assert host.refused("run", file="/etc/passwd").startswith("INVALID_PATH: ")
    assert host.refused("run", file="none.lua").startswith("FILE_NOT_FOUND: ")
    assert host.refused("run", file="hello.js", code="return 1").startswith("VALIDATION_ERROR: Provide either `code` or `file`")


def test_progress_is_told_as_the_script_tells_it(host):
    told = []

    async def progress(step, total, message):
        told.append((step, total, message))

    code = "alc.progress(1, 3, 'one') alc.sleep(1) alc.progress(1, 3, 'again') alc.progress(3, 3) return 1"
    assert host.begin("run", progress, code=code).result(30).structured_content["result"] == 1
    assert told == [(1, 3, "one"), (3, 3, None)]


def test_without_a_word_of_the_script_steps_are_progress(host):
    told = []

    async def progress(step, total, message):
        told.append(step)

    asked = host.begin("run", progress, code="alc.llm('?') alc.sleep(1) return 1").result(30).structured_content
    assert told == [1]
    host.begin("continue", progress, session_id=asked["session_id"], query_id="q-1", response="").result(30)
    assert told[1:]


def test_cancelling_a_request_that_only_looks_cancels_nothing(host):
    session_id = host.call("run", code=TWO)["session_id"]
    for tool in ("status", "history", "fork") * 2:
        host.begin(tool, session_id=session_id).cancel()
    assert phase(host, session_id) == "paused"
    assert host.call("continue", session_id=session_id, query_id="q-1", response="one")["query_id"] == "q-2"


def test_cancelling_the_request_cancels_the_run(host):
    running = host.begin("run", code=FOREVER, idempotency_key="spin")
    session_id = until(lambda: [one["session_id"] for one in host.call("status")["sessions"] if one["state"] == "running"])[0]
    running.cancel()
    until(lambda: phase(host, session_id) == "cancelled")
    assert host.call("run", code=FOREVER, idempotency_key="spin")["status"] == "cancelled"


# ---- by hand -----------------------------------------------------------------------------------------------------------------------


def test_two_servers_at_one_store_and_the_end_of_stdin_loses_nothing(folder, host):
    pipes = Pipes(f"sqlite:///{folder}/data/local.db").started()
    code = "print('printed') alc.log('warn', 'logged') return alc.ask('who?')"
    pipes.call("a", "run", {"code": code}, {"elicitation": {"form": {}}, "sampling": {}})
    asked = pipes.reply("a")["result"]
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"]["q-1"]["params"]["message"] == "who?"
    said = {"q-1": {"action": "accept", "content": {"answer": "Ada"}}}
    pipes.call("b", "run", {"code": code}, {"elicitation": {}}, requestState=asked["requestState"], inputResponses=said)
    assert pipes.reply("b")["result"]["structuredContent"]["result"] == "Ada"
    pipes.call("long", "run", {"code": "alc.sleep(1000000)"})
    pipes.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}})
    until(lambda: host.call("transcripts", limit=1)["transcripts"][0]["status"] == "cancelled")
    slow = {"code": "alc.sleep(2000) return 'late'", "idempotency_key": "slow"}
    pipes.call("c", "run", slow)
    until(lambda: any(one["pending_queries"] == 0 for one in host.call("status")["sessions"] if one["state"] == "paused"))
    pipes.end()  # before the reply
    assert host.call("run", **slow)["result"] == "late"


def test_a_signal_ends_it_in_good_order_and_stdout_carried_messages_and_nothing_else(host, odd):
    running = host.begin("run", code="alc.sleep(1000000)", idempotency_key="long")
    until(lambda: host.call("transcripts", limit=1)["transcripts"][0]["status"] == "paused")
    assert host.signal(signal.SIGTERM) == 0
    with pytest.raises(MCPError, match="closed"):
        running.result(30)
    assert odd == []
    once = ["printed", "written", "by a child", "nothing to read: ''"]
    assert host.errors.read_text().splitlines() == once * 2  # it was started twice
