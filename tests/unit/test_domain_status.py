"""The status of sessions. Lines 23-27, 37, 42 and 43 of algocline section 6; restated: what runs can be seen."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import (
    Answer,
    Budget,
    Event,
    EventType,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    InvalidValue,
    Metrics,
    PendingFilter,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionState,
    Template,
    TemplateSpec,
    TemplateVersion,
    new_id,
    replies,
)
from holdfast.store import Commit, open_store

SESSION = new_id()
KANA = "あいうえお"


def session(state=SessionState.PAUSED, **more):
    return Session(SESSION, new_id(), 1, state, created_at=1000, updated_at=more.pop("updated_at", 1000), **more)


def execution(status=ExecutionStatus.PAUSED, **more):
    return Execution(new_id(), SESSION, ExecutionKind.STRATEGY, status, 1000, 1, 1, **more)


def asked(number, payload=None, kind=QueryKind.LLM, **more):
    return Query(SESSION, number, new_id(), kind, payload or {"prompt": f"p{number}"}, asked_at=1000 + number, **more)


def answered(number, value="r", **more):
    return asked(
        number, more.pop("payload", None), state=QueryState.ANSWERED, answer=Answer(value, **more), closed_at=2000 + number
    )


# ---- filters

FULL = asked(1, {"prompt": KANA, "system": "s", "max_tokens": 5, "grounded": True})


def test_line_24_a_filter_shows_nothing_unless_told():
    assert PendingFilter().project(FULL) == {}
    assert PendingFilter.parse({}).project(FULL) == {}


def test_line_24_meta_is_id_and_max_tokens():
    assert PendingFilter.parse("meta").project(FULL) == {"query_id": "q-1", "max_tokens": 5}
    assert PendingFilter.parse("meta").project(asked(2)) == {"query_id": "q-2", "max_tokens": 1024}


def test_line_24_a_preview_is_cut_by_code_points():
    shown = PendingFilter.parse("preview", preview_chars=3).project(FULL)
    assert shown == {"query_id": "q-1", "max_tokens": 5, "prompt_preview": "あいう"}
    assert PendingFilter.parse("preview", preview_chars=99).project(FULL)["prompt_preview"] == KANA
    assert len(PendingFilter.parse("preview").project(asked(1, {"prompt": "x" * 999}))["prompt_preview"]) == 200


@given(st.text(), st.integers(0, 30))
def test_line_24_a_preview_is_the_beginning(prompt, chars):
    shown = PendingFilter.parse({"prompt": {"mode": "preview", "chars": chars}}).project(asked(1, {"prompt": prompt}))
    assert shown == {"prompt_preview": prompt[:chars]}


def test_line_24_full_has_all():
    assert PendingFilter.parse("full").project(FULL) == {
        "query_id": "q-1",
        "max_tokens": 5,
        "system": "s",
        "grounded": True,
        "underspecified": False,
        "prompt": KANA,
    }
    assert PendingFilter.parse("full").project(asked(2))["system"] is None


def test_line_24_some_fields():
    some = PendingFilter.parse({"system": True, "max_tokens": False, "prompt": {"mode": "full"}})
    assert some.project(FULL) == {"system": "s", "prompt": KANA}
    assert PendingFilter.parse({"prompt": {"mode": "off", "chars": 2}}).project(FULL) == {}
    assert PendingFilter.parse({"prompt": {"mode": "preview"}}, preview_chars=1).project(FULL) == {"prompt_preview": "あ"}


def test_filters_know_messages_people_and_tools():
    messages = [{"role": "user", "content": "hello"}]
    query = asked(1, {"messages": messages})
    assert PendingFilter.parse("full").project(query)["messages"] == messages
    assert PendingFilter.parse("preview").project(query)["prompt_preview"] == "hello"
    ask = asked(2, {"question": "Which?", "options": [1]}, QueryKind.ASK)
    assert PendingFilter.parse("full").project(ask) == {"query_id": "q-2", "kind": "ask", "prompt": "Which?", "options": [1]}
    tool = asked(3, {"name": "t", "args": 7}, QueryKind.TOOL)
    assert PendingFilter.parse("full").project(tool) == {"query_id": "q-3", "kind": "tool", "name": "t", "args": 7}
    assert PendingFilter.parse("preview").project(tool) == {"query_id": "q-3", "kind": "tool", "prompt_preview": "t"}


@pytest.mark.parametrize("name", ["META", "Full", "", "everything"])
def test_lines_24_and_27_an_unknown_preset_is_refused_by_name(name):
    with pytest.raises(InvalidValue) as refusal:
        PendingFilter.parse(name)
    assert str(refusal.value) == f'unknown pending_filter preset \'{name}\' (valid: "meta" | "preview" | "full")'


@pytest.mark.parametrize(("given", "name"), [(None, "null"), (True, "bool"), (7, "number"), (1.5, "number"), ([], "array")])
def test_line_27_a_filter_of_another_type_is_refused_by_its_type(given, name):
    with pytest.raises(InvalidValue) as refusal:
        PendingFilter.parse(given)
    assert str(refusal.value) == f"pending_filter must be a preset name (string) or filter object, got {name}"


@pytest.mark.parametrize(
    "given",
    [
        {"query": True},
        {"chars": 5},
        {"system": 1},
        {"prompt": "full"},
        {"prompt": {"mode": "half"}},
        {"prompt": {}},
        {"prompt": None},
    ]
    + [{"prompt": {"mode": "preview", "chars": chars}} for chars in (-1, 1.5, True, "3")],
)
def test_a_filter_with_a_wrong_field_is_refused(given):
    with pytest.raises(InvalidValue, match="pending_filter"):
        PendingFilter.parse(given)


# ---- snapshots


def test_line_25_restated_a_session_that_runs_is_seen():
    """Theirs could be seen only while they waited."""
    shown = replies.snapshot(session(SessionState.RUNNING), execution(ExecutionStatus.RUNNING), now=1700)
    assert shown == {
        "session_id": str(SESSION),
        "state": "running",
        "phase": "running",
        "started_at": 1000,
        "last_activity_at": 1000,
        "metrics": {
            "elapsed_ms": 700,
            "llm_calls": 0,
            "rounds": 0,
            "tokens": {"prompt_total": 0, "response_total": 0, "total": 0, "current_query": None},
            "recent_logs": [],
        },
    }


@pytest.mark.parametrize(
    ("status", "state", "phase"),
    [
        ("running", "running", "running"),
        ("paused", "paused", "paused"),
        ("ok", "terminal", "completed"),
        ("error", "terminal", "failed"),
        ("timeout", "terminal", "failed"),
        ("cancelled", "terminal", "cancelled"),
    ],
)
def test_every_status_of_an_execution_has_a_state_and_a_phase(status, state, phase):
    shown = replies.snapshot(session(), execution(ExecutionStatus(status)), now=2000)
    assert (shown["state"], shown["phase"]) == (state, phase)


@pytest.mark.parametrize("state", list(SessionState))
def test_a_session_in_which_nothing_has_run_has_its_own_state(state):
    shown = replies.snapshot(session(state, updated_at=1500), None, now=2000)
    assert (shown["state"], shown["phase"], shown["started_at"], shown["last_activity_at"]) == (state, state, 1000, 1500)
    assert shown["metrics"]["tokens"]["current_query"] is None


def test_the_clock_of_an_execution_that_has_ended_stands_still():
    shown = replies.snapshot(session(), execution(ExecutionStatus.OK, ended_at=1300), now=99_000)
    assert shown["metrics"]["elapsed_ms"] == 300


def test_a_clock_that_was_set_back_gives_no_negative_time():
    assert replies.snapshot(session(), execution(), now=5)["metrics"]["elapsed_ms"] == 0


def test_line_26_history_only_when_wanted_and_the_ten_newest():
    history = [answered(number, f"r{number}", usage={"prompt_tokens": 50}) for number in range(1, 13)] + [asked(13)]
    assert "conversation_history" not in replies.snapshot(session(), execution(), history=history, now=9)["metrics"]
    shown = replies.snapshot(session(), execution(), history=history, now=9, include_history=True)["metrics"][
        "conversation_history"
    ]
    assert [entry["query_id"] for entry in shown] == [f"q-{number}" for number in range(4, 14)]
    assert shown[0] == {
        "query_id": "q-4",
        "prompt": "p4",
        "response": "r4",
        "prompt_tokens": 50,
        "response_tokens": 1,
        "started_at": 1004,
        "completed_at": 2004,
    }
    assert shown[-1] == {
        "query_id": "q-13",
        "prompt": "p13",
        "response": None,
        "prompt_tokens": 1,
        "response_tokens": 0,
        "started_at": 1013,
        "completed_at": None,
    }


def test_history_is_of_models_and_people():
    timer, tool = asked(1, {"wake_at": 1}, QueryKind.TIMER), asked(2, {"name": "t"}, QueryKind.TOOL)
    ask = asked(3, {"question": "Which?"}, QueryKind.ASK, answer=Answer({"a": 1}))
    (entry,) = replies.conversation_history([timer, tool, ask])
    assert (entry["prompt"], entry["response"], entry["response_tokens"]) == ("Which?", {"a": 1}, 2)


def test_an_answer_that_is_an_error_takes_no_tokens():
    (entry,) = replies.conversation_history([asked(1, answer=Answer(error={"message": "no"}))])
    assert (entry["response"], entry["response_tokens"]) == (None, 0)


def test_line_27_no_sessions():
    assert replies.status([]) == {"active_sessions": 0, "sessions": []}


def test_line_27_a_paused_session_shows_what_is_pending():
    open_queries = [asked(1), asked(2, {"wake_at": 5}, QueryKind.TIMER)]
    plain = replies.snapshot(session(), execution(), open_queries, now=2000)
    assert plain["pending_queries"] == 1
    assert "pending" not in plain
    shown = replies.snapshot(session(), execution(), open_queries, now=2000, pending_filter=PendingFilter.parse("meta"))
    assert shown == plain | {"pending": [{"query_id": "q-1", "max_tokens": 1024}]}
    assert replies.status([shown]) == {"active_sessions": 1, "sessions": [shown]}
    assert json.loads(json.dumps(shown)) == shown


def test_line_37_what_is_left_of_a_budget():
    metrics = Metrics()
    metrics.ask(len("test"), 1)
    metrics.answer(1, "test", None, None)
    shown = replies.snapshot(session(), execution(metrics=metrics, budget=Budget(max_llm_calls=5, max_tokens=100)), now=1400)
    assert shown["metrics"]["budget_remaining"] == {"llm_calls": 4, "elapsed_ms": None, "tokens": 98}
    assert "budget_remaining" not in replies.snapshot(session(), execution(metrics=metrics), now=1400)["metrics"]


def test_line_37_the_narrower_of_two_budgets_counts():
    both = session(budget=Budget(max_llm_calls=3, max_elapsed_ms=1000), llm_calls=2)
    shown = replies.snapshot(both, execution(budget=Budget(max_llm_calls=9, max_tokens=7)), now=1400)
    assert shown["metrics"]["budget_remaining"] == {"llm_calls": 1, "elapsed_ms": 600, "tokens": 7}


def test_line_42_the_current_query_is_set_while_it_waits_and_gone_after():
    waiting = asked(2, {"prompt": "hello world", "system": "be brief"})
    shown = replies.snapshot(session(), execution(), [asked(1), waiting], now=2000)
    assert shown["metrics"]["tokens"]["current_query"] == {"query_id": "q-2", "prompt_tokens": 5, "started_waiting_at": 1002}
    assert shown["started_at"] <= shown["metrics"]["tokens"]["current_query"]["started_waiting_at"]
    after = replies.snapshot(session(), execution(ExecutionStatus.RUNNING), [], now=2000)
    assert after["metrics"]["tokens"]["current_query"] is None
    person = replies.snapshot(session(), execution(), [asked(1, {"question": "?"}, QueryKind.ASK)], now=2000)
    assert person["metrics"]["tokens"]["current_query"] is None


def test_line_42_tokens_of_all_queries():
    metrics = Metrics()
    metrics.ask(len("hello world"), 3)
    metrics.answer(3, "four", None, 9)
    tokens = replies.snapshot(session(), execution(metrics=metrics), now=2000)["metrics"]["tokens"]
    assert tokens == {"prompt_total": 3, "response_total": 9, "total": 12, "current_query": None}


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("idle", "ttl", "found"), [(0, HOUR, False), (2 * HOUR, HOUR, True), (HOUR, 3 * HOUR, False), (1, 0, True)]
)
def test_line_23_restated_an_idle_session_is_found_by_its_last_activity_and_never_just_dropped(idle, ttl, found):
    """Theirs were dropped after three hours, with all that they had. Ours sleep in the store; who wants to end them asks for the idle."""
    now = 10 * HOUR
    template = Template(new_id(), "t", 1, created_at=0, updated_at=0)
    idler = Session(SESSION, template.id, 1, SessionState.PAUSED, created_at=1, updated_at=now - idle)
    store = open_store("memory:")
    store.create_template(template, TemplateVersion(template.id, 1, TemplateSpec(), b"guest", b"baked", created_at=0))
    assert store.commit([Commit(idler, expected=None, fence=0, token=1)]) == [None]
    assert [each.id for each in store.list_sessions(idle_before=now - ttl).items] == ([SESSION] if found else [])
    assert store.get_session(SESSION).state is SessionState.PAUSED
    store.close()


# ---- logs


def console(seq, text, level="info"):
    return Event(seq, 5000 + seq, EventType.CONSOLE, {"level": level, "text": text})


def test_line_43_the_newest_twenty_lines_oldest_first():
    lines = replies.recent_logs([console(seq, f"line {seq}") for seq in range(1, 22)])
    assert [line["message"] for line in lines] == [f"line {seq}" for seq in range(2, 22)]
    assert lines[0] == {"ts": 5002, "level": "info", "source": "console", "message": "line 2"}
    assert replies.recent_logs([]) == []


def test_line_43_a_level_is_kept_as_it_is_and_sources_are_told():
    events = [
        Event(1, 10, "log", {"level": "shout", "message": "a"}),
        Event(2, 11, "value", {"type": "number"}),
        Event(3, 12, "log", {"level": "warn", "message": "b", "source": "alc.lua.print"}),
        console(4, "c\td", "error"),
    ]
    assert [tuple(line.values()) for line in replies.recent_logs(events)] == [
        (10, "shout", "alc.log", "a"),
        (12, "warn", "alc.lua.print", "b"),
        (5004, "error", "console", "c\td"),
    ]


def test_progress_is_the_last_that_was_told():
    events = [Event(seq, seq, "progress", {"step": seq, "total": 3, "message": f"m{seq}"}) for seq in (1, 2)] + [
        console(3, "x")
    ]
    shown = replies.snapshot(session(), execution(ExecutionStatus.RUNNING), logs=events, now=2000)["metrics"]
    assert shown["progress"] == {"step": 2, "total": 3, "message": "m2"}
    assert [line["message"] for line in shown["recent_logs"]] == ["x"]
    assert "progress" not in replies.snapshot(session(), execution(), now=2000)["metrics"]
