"""Results in algocline's shapes. Lines 15, 17-21 and 40 of its section 6; restated: each has the session's id, and errors have stats."""

import json

import pytest

from holdfast.domain import (
    Answer,
    Budget,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    Metrics,
    Query,
    QueryKind,
    QueryState,
    new_id,
    replies,
)

SESSION = new_id()
ID = str(SESSION)


def asked(number, payload, kind=QueryKind.LLM, **more):
    return Query(SESSION, number, new_id(), kind, payload, asked_at=100 + number, **more)


def ended(status, **more):
    return Execution(new_id(), SESSION, ExecutionKind.STRATEGY, status, 1, 1, 1, metrics=Metrics(llm_calls=2), **more)


def test_line_17_restated_accepted_tells_how_many_remain_and_of_which_session():
    assert replies.accepted(SESSION, 2) == {"status": "accepted", "session_id": ID, "remaining": 2}


def test_line_18_one_question_stands_by_itself():
    assert replies.needs_response(SESSION, [asked(7, {"prompt": "Why?"})]) == {
        "status": "needs_response",
        "session_id": ID,
        "query_id": "q-7",
        "prompt": "Why?",
        "system": None,
        "max_tokens": 1024,
    }


def test_line_18_the_system_prompt_and_max_tokens_are_those_of_the_question():
    reply = replies.needs_response(SESSION, [asked(1, {"prompt": "?", "system": "Be brief.", "max_tokens": 9})])
    assert (reply["system"], reply["max_tokens"]) == ("Be brief.", 9)
    assert "queries" not in reply


@pytest.mark.parametrize("flag", ["grounded", "underspecified"])
def test_lines_15_and_19_a_flag_is_there_only_when_true(flag):
    on, off = asked(1, {"prompt": "a", flag: True}), asked(2, {"prompt": "b", flag: False})
    unset, null = asked(3, {"prompt": "c"}), asked(4, {"prompt": "d", flag: None})
    assert replies.needs_response(SESSION, [on])[flag] is True
    for query in (off, unset, null):
        assert flag not in replies.needs_response(SESSION, [query])
    assert [item.get(flag) for item in replies.needs_response(SESSION, [on, off, unset])["queries"]] == [True, None, None]


def test_line_20_restated_several_questions_are_a_list_with_ids_that_go_on_from_round_to_round():
    reply = replies.needs_response(SESSION, [asked(number, {"prompt": f"p{number}"}) for number in (4, 5, 6)])
    assert reply == {
        "status": "needs_response",
        "session_id": ID,
        "queries": [{"id": f"q-{n}", "prompt": f"p{n}", "system": None, "max_tokens": 1024} for n in (4, 5, 6)],
    }


def test_messages_take_the_place_of_the_prompt():
    messages = [{"role": "user", "content": "hi"}]
    reply = replies.needs_response(SESSION, [asked(1, {"messages": messages, "prompt": None, "system": "s"})])
    assert reply == {
        "status": "needs_response",
        "session_id": ID,
        "query_id": "q-1",
        "messages": messages,
        "system": "s",
        "max_tokens": 1024,
    }


def test_restated_what_algocline_dropped_reaches_the_host():
    payload = {
        "prompt": "?",
        "temperature": 0,
        "model": "m",
        "stop": ["."],
        "schema": {"type": "object"},
        "timeout_ms": 5,
        "default": 1,
    }
    reply = replies.needs_response(SESSION, [asked(1, payload)])
    assert {name: reply.get(name) for name in payload} == payload | {"timeout_ms": None, "default": None}


def test_a_script_cannot_forge_fields_of_a_reply():
    payload = {"prompt": "?", "status": "completed", "session_id": "x", "query_id": "q-9", "queries": [], "result": 1}
    reply = replies.needs_response(SESSION, [asked(1, payload)])
    extra = reply.pop("extra")
    assert reply == replies.needs_response(SESSION, [asked(1, {"prompt": "?"})])
    assert extra == {"status": "completed", "session_id": "x", "query_id": "q-9", "queries": [], "result": 1}


def test_people_and_tools_are_asked_with_a_kind():
    head = {"status": "needs_response", "session_id": ID, "query_id": "q-1"}
    ask = asked(1, {"question": "Which?", "options": ["a", "b"], "timeout_ms": 9}, QueryKind.ASK)
    assert replies.needs_response(SESSION, [ask]) == head | {"kind": "ask", "prompt": "Which?", "options": ["a", "b"]}
    approve = asked(1, {"question": "Deploy?"}, QueryKind.APPROVE)
    assert replies.needs_response(SESSION, [approve]) == head | {"kind": "approve", "prompt": "Deploy?"}
    tool = asked(1, {"name": "search", "args": {"q": "x"}}, QueryKind.TOOL)
    assert replies.needs_response(SESSION, [tool]) == head | {"kind": "tool", "name": "search", "args": {"q": "x"}}
    bare = asked(1, {"name": "search"}, QueryKind.TOOL)
    assert replies.needs_response(SESSION, [bare]) == head | {"kind": "tool", "name": "search", "args": None}


def test_timers_are_not_shown():
    timers = [asked(2, {"wake_at": 900}, QueryKind.TIMER), asked(3, {"wake_at": 800}, QueryKind.TIMER)]
    only = asked(1, {"prompt": "?"})
    assert replies.needs_response(SESSION, [only, *timers]) == replies.needs_response(SESSION, [only])
    assert replies.needs_response(SESSION, timers) == {"status": "waiting", "session_id": ID, "wake_at": 800}


def test_line_21_restated_how_executions_end():
    """Theirs: no session id anywhere, no stats for errors, and `cancelled` could not happen."""
    stats = Metrics(llm_calls=2).stats(None)
    done = ended(ExecutionStatus.OK, result={"type": "object", "preview": "{…}", "json": {"a": [1]}})
    assert replies.completed(done) == {"status": "completed", "session_id": ID, "result": {"a": [1]}, "stats": stats}
    broken = ended(ExecutionStatus.ERROR, error={"name": "Error", "message": "boom", "stack": "..."})
    assert replies.failed(broken) == {"status": "error", "session_id": ID, "error": "boom", "stats": stats}
    assert replies.cancelled(ended(ExecutionStatus.CANCELLED)) == {"status": "cancelled", "session_id": ID, "stats": stats}


def test_line_21_stats_have_the_budget_and_what_the_script_recorded():
    done = ended(ExecutionStatus.OK, result={"type": "nil", "preview": "nil", "json": None}, budget=Budget(max_tokens=5))
    done.custom = {"score": 0.5}
    reply = replies.completed(done)
    assert (reply["result"], reply["stats"]["custom"], reply["stats"]["auto"]["budget"]) == (
        None,
        {"score": 0.5},
        {"max_tokens": 5},
    )


def test_a_value_without_a_json_form_is_null_with_a_preview():
    done = ended(ExecutionStatus.OK, result={"type": "function", "preview": "f()"})
    reply = replies.completed(done)
    assert (reply["result"], reply["result_preview"]) == (None, "f()")


def test_an_error_without_a_message_still_says_something():
    assert replies.failed(ended(ExecutionStatus.TIMEOUT))["error"] == "the execution ended as timeout"


def test_line_40_the_transcript_has_each_exchange_in_the_order_of_the_questions():
    queries = [
        asked(1, {"prompt": "2+2?", "system": "You calculate."}, state=QueryState.ANSWERED, answer=Answer("4")),
        asked(2, {"question": "ok?"}, QueryKind.ASK),
        asked(3, {"messages": [{"role": "user", "content": "hi"}]}, state=QueryState.ANSWERED, answer=Answer("hello")),
        asked(4, {"prompt": "open"}),
    ]
    assert replies.transcript(queries) == [
        {"query_id": "q-1", "prompt": "2+2?", "system": "You calculate.", "response": "4"},
        {"query_id": "q-3", "prompt": "hi", "system": None, "response": "hello"},
        {"query_id": "q-4", "prompt": "open", "system": None, "response": None},
    ]
    assert "transcript" not in json.dumps(Metrics().stats(None))
