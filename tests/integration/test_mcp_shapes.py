"""Results, in the shapes that hosts know, and within the schemas that the tools declare."""

import asyncio
import collections

import pytest
from mcp import Client

from holdfast.control import Holdfast, strategies
from holdfast.mcp._server import Strategies
from holdfast.mcp._tools import TOOLS

ONE = "alc.stats.record('n', 1) return alc.llm('one?', {system = 'Be brief.', max_tokens = 7})"
MANY = "return alc.llm_batch({{prompt = 'a'}, {prompt = 'b', grounded = true, underspecified = true}, {prompt = 'c'}})"
ALL = "await Promise.all([hf.llm([{role: 'user', content: 'x'}], {temperature: 0.5}), hf.ask('who?', {options: [1, 2]}), hf.approve('sure?'), hf.tool('t', {a: 1})])"


class Host:
    """The SDK's client, which holds every result against the schema of its tool, and raises if it does not fit."""

    def __init__(self, client):
        self.client = client
        self.seen = collections.defaultdict(set)

    async def call(self, tool, **given):
        result = await self.client.call_tool(tool, given)
        assert not result.is_error, result.content
        reply = result.structured_content
        self.seen[tool] |= reply.keys()
        return reply


@pytest.fixture(scope="module")
def replies():
    """One of each kind, by name, and which names each tool has given."""
    found = {}

    async def work():
        async with Holdfast.open() as hf, Client(Strategies(hf, secret=b"x" * 32, state_s=60).server) as client:
            host = Host(client)
            one = found["one"] = await host.call("run", code=ONE)
            session_id = one["session_id"]
            found["many"] = await host.call("run", code=MANY)
            found["all"] = await host.call("run", code=ALL, language="javascript")
            some = {"session_id": found["many"]["session_id"]}
            found["accepted"] = await host.call("continue", **some, query_id="q-2", response="B")
            found["cancelled"] = await host.call("cancel", **some)
            found["fork"] = await host.call("fork", session_id=session_id)
            found["status"] = await host.call("status", session_id=session_id, pending_filter="full", include_history=True)
            found["sessions"] = await host.call("status", pending_filter={"prompt": {"mode": "preview", "chars": 2}})
            found["completed"] = await host.call("continue", session_id=session_id, response=None)
            found["error"] = await host.call("run", code="error('no')")
            found["waiting"] = await host.call("run", code="alc.sleep(1000000)")
            await host.call("advise", strategy="reflect", task="?")
            await host.call("history", session_id=session_id)
            await host.call("strategies")
            await host.call("strategies", name="reflect")
            await host.call("templates")
            await host.call("templates", name="strategy-lua")
            await host.call("transcripts")
            await host.call("transcripts", session_id=session_id, note="n")
            await host.call("transcripts", session_id=session_id)
            await host.call("transcripts", session_id=session_id, format="jsonl")
            await host.call("transcripts", stats=True)
            found["seen"] = host.seen

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(strategies, "_WAIT_S", 0.05)
        asyncio.run(work())
    return found


def without(reply, *names):
    return {name: value for name, value in reply.items() if name not in ("session_id", *names)}


def test_what_is_asked_is_one_question_or_a_list_with_flags_that_are_true(replies):
    assert all(reply["session_id"] for name, reply in replies.items() if name not in ("seen", "sessions"))
    asked = {"status": "needs_response", "query_id": "q-1", "prompt": "one?", "system": "Be brief.", "max_tokens": 7}
    assert without(replies["one"]) == asked
    assert without(replies["fork"]) == asked
    plain = {"system": None, "max_tokens": 1024}
    assert without(replies["many"]) == {
        "status": "needs_response",
        "queries": [
            {"id": "q-1", "prompt": "a", **plain},
            {"id": "q-2", "prompt": "b", **plain, "grounded": True, "underspecified": True},
            {"id": "q-3", "prompt": "c", **plain},
        ],
    }
    assert replies["all"]["queries"] == [
        {"id": "q-1", "messages": [{"role": "user", "content": "x"}], **plain, "temperature": 0.5},
        {"id": "q-2", "kind": "ask", "prompt": "who?", "options": [1, 2]},
        {"id": "q-3", "kind": "approve", "prompt": "sure?"},
        {"id": "q-4", "kind": "tool", "name": "t", "args": {"a": 1}},
    ]


def test_what_became_of_a_run(replies):
    assert without(replies["accepted"]) == {"status": "accepted", "remaining": 2}
    assert without(replies["completed"], "stats") == {"status": "completed", "result": None}
    assert without(replies["error"], "stats") == {"status": "error", "error": "strategy:1: no"}
    assert without(replies["cancelled"], "stats") == {"status": "cancelled"}
    assert without(replies["waiting"], "wake_at") == {"status": "waiting"}
    assert isinstance(replies["waiting"]["wake_at"], int)
    for name in ("completed", "error", "cancelled"):
        assert replies[name]["stats"].keys() == {"auto", "custom"}
    assert replies["completed"]["stats"]["custom"] == {"n": 1}


def test_a_status_is_a_snapshot(replies):
    found = replies["status"]
    assert (found["state"], found["phase"], found["pending_queries"]) == ("paused", "paused", 1)
    assert found["pending"] == [
        {
            "query_id": "q-1",
            "max_tokens": 7,
            "system": "Be brief.",
            "grounded": False,
            "underspecified": False,
            "prompt": "one?",
        }
    ]
    metrics = {"elapsed_ms", "llm_calls", "rounds", "tokens", "recent_logs", "conversation_history"}
    assert found["metrics"].keys() == metrics
    assert found["metrics"]["tokens"].keys() == {"prompt_total", "response_total", "total", "current_query"}
    listed = replies["sessions"]
    assert listed["active_sessions"] == len(listed["sessions"]) == 3
    assert {"prompt_preview": "on"} in [query for one in listed["sessions"] for query in one["pending"]]


def test_nothing_is_declared_that_no_result_has(replies):
    for tool in TOOLS.values():
        alike = [name for name, other in TOOLS.items() if other.output is tool.output]  # as are those of all that run something
        assert tool.output["properties"].keys() <= set().union(*(replies["seen"][name] for name in alike)), tool.name
