"""What MCP hosts are shown of the tools, and what becomes of arguments that do not fit."""

import functools
import json
import subprocess
import sys

import pytest

from holdfast.domain import InvalidValue
from holdfast.mcp import TOOLS
from holdfast.mcp._arguments import checked


def test_there_are_few_tools_and_all_of_them_take_little_room():
    listed = [
        {"name": tool.name, "description": tool.description, "in": tool.input, "out": tool.output} for tool in TOOLS.values()
    ]
    assert len(listed) <= 12
    assert len(json.dumps(listed)) < 9_000
    assert all(len(tool.description) < 160 for tool in TOOLS.values())


def test_whatever_changes_something_takes_an_idempotency_key():
    changing = {name for name, tool in TOOLS.items() if "idempotency_key" in tool.properties}
    assert changing == {"run", "advise", "continue", "cancel", "fork", "transcripts"}
    assert all(tool.hints.get("readOnlyHint") for name, tool in TOOLS.items() if name not in changing)


def test_a_note_needs_more_than_reading():
    tool = TOOLS["transcripts"]
    assert tool.needs({"session_id": "s"}) == "read"
    assert tool.needs({"session_id": "s", "note": "n"}) == "run"


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("history", {}, "session_id is required"),
        ("history", {"session_id": 1}, "session_id must be text"),
        ("history", {"session_id": "s", "limit": True}, "limit must be a whole number"),
        ("history", {"session_id": "s", "limit": 1.5}, "limit must be a whole number"),
        ("history", {"sesion_id": "s"}, "there is no argument 'sesion_id'; there are session_id, limit"),
        ("run", {"language": "perl"}, "language must be one of lua, javascript"),
        ("run", {"ctx": []}, "ctx must be an object"),
        ("run", {"budget": {"max_llm_calls": "1"}}, "budget.max_llm_calls must be a whole number"),
        ("run", {"budget": {"calls": 1}}, "there is no argument 'budget.calls'"),
        ("continue", {"session_id": "s", "responses": {}}, "responses must be a list"),
        ("continue", {"session_id": "s", "responses": ["a"]}, r"responses\[0\] must be an object"),
        ("continue", {"session_id": "s", "responses": [{"response": 1}]}, r"responses\[0\].query_id is required"),
        (
            "continue",
            {"session_id": "s", "responses": [{"query_id": "q-1", "usage": 1}]},
            r"responses\[0\].usage must be an object",
        ),
        ("transcripts", {"days": "1"}, "days must be a number"),
        ("run", {"code": "a\0"}, "NUL"),
        ("run", {"ctx": {"a": [{"b\0": 1}]}}, "NUL"),
        ("run", {"ctx": {"a": "é\ud800"}}, "half of a surrogate pair"),
        ("run", {"ctx": {"a": 1 << 63}}, "more than 64 bits"),
        ("run", {"ctx": {"a": float("inf")}}, "too large"),
        ("run", {"ctx": {"a": functools.reduce(lambda inner, _: [inner], range(5000), 1)}}, "nested too deep"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(name, given, problem):
    with pytest.raises(InvalidValue, match=problem):
        checked(TOOLS[name], given)


def test_null_is_an_argument_left_out_but_a_response_may_be_null():
    given = {"session_id": "s", "response": None, "query_id": None, "responses": None}
    assert checked(TOOLS["continue"], given) == {"session_id": "s", "response": None}


def test_nobody_waits_for_the_protocol_s_library_before_a_host_has_come():
    code = "import sys, holdfast.cli._serve, holdfast.cli.app, holdfast.mcp._endpoint; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
