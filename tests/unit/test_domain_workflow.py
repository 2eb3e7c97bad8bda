"""The record of a workflow. M1-M14 of VibeForge, with its weaknesses mended: guarded phases, an honest `updated_at`, copies."""

import copy
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import PHASES, ErrorEntryNotFound, InvalidTransition, InvalidValue, SessionPhase, WorkflowSession, new_id

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Clock:
    """Says what it is told to, and goes nowhere by itself."""

    def __init__(self, now=NOON):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def session(clock):
    return WorkflowSession("w-1", clock=clock)


def at(phase, **more):
    return WorkflowSession.from_dict({"phase": phase, **more})


def test_m1_a_new_session():
    session = WorkflowSession()
    assert session.session_id
    assert session.phase is SessionPhase.QUESTIONNAIRE
    assert session.created_at == session.updated_at
    assert (session.current_question_index, session.answers, session.version) == (0, {}, 0)
    assert [session.intent_profile, session.build_spec, session.concept, session.task_graph] == [None] * 4
    assert [session.completed_task_ids, session.failed_task_ids, session.logs, session.error_history] == [[], [], [], []]
    assert [session.active_task_id, session.pending_clarification, session.clarification_answer] == [None] * 3
    assert [session.failure_reason, session.failure_artifact, session.abort_reason, session.is_aborted] == [
        None,
        None,
        None,
        False,
    ]
    assert (session.fix_loop_count, session.max_fix_loops) == (0, 3)


def test_m1_no_two_share_anything():
    one, two = WorkflowSession(), WorkflowSession()
    assert one.session_id != two.session_id
    one.add_answer("q", 1)
    one.logs.append("x")
    assert (two.answers, two.logs) == ({}, [])


def test_m2_an_explicit_id_is_kept():
    assert WorkflowSession("any text / at all").session_id == "any text / at all"


def test_m3_a_phase_moves_on_and_so_does_updated_at():
    session = WorkflowSession()
    before = session.updated_at
    session.update_phase(SessionPhase.BUILD_SPEC)
    assert session.phase is SessionPhase.BUILD_SPEC
    assert session.updated_at > before


@pytest.mark.parametrize("wanted", ["EXECUTION", SessionPhase.COMPLETE, "QUESTIONNAIRE"])
def test_m3_restated_a_phase_that_cannot_follow_is_refused_and_nothing_changes(session, wanted):
    """Theirs took any."""
    before = session.to_dict()
    for change in (session.update_phase, lambda phase: setattr(session, "phase", phase)):
        with pytest.raises(InvalidTransition, match="allowed from QUESTIONNAIRE: BUILD_SPEC, FAILED"):
            change(wanted)
    assert session.to_dict() == before


def test_m3_restated_a_phase_that_does_not_exist_is_refused(session):
    """Theirs took it, and broke later."""
    with pytest.raises(InvalidValue, match="there is no phase 'LUNCH'; there are QUESTIONNAIRE, "):
        session.update_phase("LUNCH")
    session.phase = "FAILED"
    assert session.phase is SessionPhase.FAILED


@given(st.lists(st.sampled_from(SessionPhase), max_size=30))
def test_a_session_walks_through_its_phases_at_random(walk):
    session = WorkflowSession(clock=Clock())
    for wanted in walk:
        phase, updated_at = session.phase, session.updated_at
        if wanted in PHASES.table[phase]:
            session.update_phase(wanted)
            assert (session.phase, session.updated_at > updated_at) == (wanted, True)
        else:
            with pytest.raises(InvalidTransition):
                session.update_phase(wanted)
            assert (session.phase, session.updated_at) == (phase, updated_at)


def test_m4_answers(session):
    before = session.updated_at
    session.add_answer("q1", "a")
    assert session.updated_at > before
    session.add_answer("q2", ["b"])
    session.add_answer("q3", None)
    session.add_answer("q1", "c")
    assert session.answers == {"q1": "c", "q2": ["b"], "q3": None}


def test_m5_logs(session, clock):
    session.add_log("first")
    clock.now += timedelta(seconds=1)
    session.add_log("second")
    assert session.logs == ["[2026-05-01T12:00:00.000001+00:00] first", "[2026-05-01T12:00:01+00:00] second"]
    assert session.updated_at == clock.now


def test_m6_an_error_has_the_present_phase(session):
    before = session.updated_at
    identity = session.add_error("t1", "it broke")
    (entry,) = session.error_history
    assert entry == {
        "id": identity,
        "timestamp": session.updated_at.isoformat(),
        "phase": "QUESTIONNAIRE",
        "task_id": "t1",
        "execution_id": None,
        "kind": "error",
        "message": "it broke",
        "error_message": "it broke",
        "attempt": 1,
        "resolved_at": None,
    }
    assert session.updated_at > before


@pytest.mark.parametrize("phase", [SessionPhase.EXECUTION, "EXECUTION"])
def test_m7_an_error_may_be_of_another_phase(session, phase):
    execution_id = new_id()
    session.add_error("t1", "it broke", phase, kind="verification", execution_id=execution_id)
    (entry,) = session.error_history
    assert (entry["phase"], entry["kind"], entry["execution_id"]) == ("EXECUTION", "verification", str(execution_id))
    with pytest.raises(InvalidValue, match="there is no phase 'NAP'"):
        session.add_error("t1", "it broke", "NAP")
    assert len(session.error_history) == 1


def test_m8_errors_stay_in_order_also_when_the_clock_is_set_back(session, clock):
    for task in ("a", "b", "a", "a"):
        session.add_error(task, f"{task} broke")
        clock.now -= timedelta(hours=1)
    assert [(entry["task_id"], entry["attempt"]) for entry in session.error_history] == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
    stamps = [entry["timestamp"] for entry in session.error_history]
    assert stamps == sorted(set(stamps))
    assert len({entry["id"] for entry in session.error_history}) == 4


def test_an_error_is_resolved_once(session, clock):
    first, second = session.add_error("a", "x"), session.add_error("a", "y")
    clock.now += timedelta(seconds=1)
    session.resolve_error(first)
    assert [entry["resolved_at"] for entry in session.error_history] == [clock.now.isoformat(), None]
    clock.now += timedelta(seconds=1)
    before = session.to_dict()
    session.resolve_error(first)
    assert session.to_dict() == before
    assert session.error_history[1]["id"] == second
    with pytest.raises(ErrorEntryNotFound):
        session.resolve_error("nothing")


ASSIGNED = {
    "intent_profile": {"version": "1.0"},
    "build_spec": {"target": {}},
    "concept": {"features": ["a"]},
    "task_graph": {"tasks": []},
    "completed_task_ids": ["t1"],
    "failed_task_ids": ["t2"],
    "active_task_id": "t3",
    "pending_clarification": {"question": "?", "options": []},
    "clarification_answer": "proceed",
    "clarification_context": {"type": "fix_loop"},
}


@pytest.mark.parametrize("name", ASSIGNED)
def test_m9_fields_are_assigned(session, name):
    """Restated: that is a change, so `updated_at` moves."""
    before = session.updated_at
    setattr(session, name, ASSIGNED[name])
    assert getattr(session, name) == ASSIGNED[name]
    assert session.updated_at > before


def test_m9_a_field_that_no_store_would_keep_is_refused(session):
    with pytest.raises(AttributeError, match="a workflow has no field 'complete_task_ids'"):
        session.complete_task_ids = ["t1"]


def test_m10_times_are_in_utc():
    session = WorkflowSession(clock=Clock(datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))))
    assert (session.created_at, session.created_at.tzinfo, session.updated_at.tzinfo) == (NOON, UTC, UTC)
    assert WorkflowSession().created_at.tzinfo is UTC


def test_m10_a_clock_without_a_zone_is_refused():
    with pytest.raises(InvalidValue, match="without a zone"):
        WorkflowSession(clock=Clock(datetime(2026, 5, 1)))  # noqa: DTZ001


def test_m11_defaults_of_workflow_and_simulation():
    session = WorkflowSession()
    assert (session.agents, session.agent_roles, session.agent_models, session.agent_graph, session.main_task) == (
        [],
        {},
        {},
        None,
        None,
    )
    assert (session.simulation_mode, session.tick_index, session.tick_status) == ("manual", 0, "idle")
    assert [session.auto_delay_ms, session.tick_budget, session.initial_prompt, session.first_agent_id] == [None] * 4
    assert (session.use_real_llm, session.llm_provider, session.default_model, session.default_temperature) == (
        False,
        "openai",
        "gpt-4o-mini",
        0.7,
    )
    assert (session.simulation_cost_usd, session.max_history_depth, session.max_cost_usd, session.tick_rate_limit_ms) == (
        0.0,
        20,
        1.0,
        1000,
    )
    assert [session.simulation_final_answer, session.last_tick_timestamp] == [None, None]
    assert [session.simulation_message_queue, session.simulation_expected_responses, session.response_buffer] == [[], [], []]


def test_m12_everything_survives_a_round_trip_as_json(session):
    session.agents = [{"id": "a1"}]
    session.agent_roles, session.agent_models = {"a1": "worker"}, {"a1": "m"}
    session.main_task, session.simulation_mode, session.tick_index, session.tick_status = "do it", "auto", 5, "running"
    session.last_tick_timestamp = NOON
    session.version = 7
    session.add_answer("q", {"deep": [1, None, 2.5]})
    session.add_log("line")
    session.resolve_error(session.add_error("t", "x"))
    session.update_phase("BUILD_SPEC")
    again = WorkflowSession.from_dict(json.loads(json.dumps(session.to_dict())))
    assert again == session
    assert again.to_dict() == session.to_dict()
    assert (again.phase, again.last_tick_timestamp, again.version) == (SessionPhase.BUILD_SPEC, NOON, 7)


def test_m12_restated_what_to_dict_gives_is_a_copy(session):
    """Theirs gave the live objects."""
    session.answers["q"] = {"deep": [1]}
    plain = session.to_dict()
    plain["answers"]["q"]["deep"].append(2)
    plain["logs"].append("x")
    assert (session.answers, session.logs) == ({"q": {"deep": [1]}}, [])
    given_data = {"answers": {"q": [1]}}
    WorkflowSession.from_dict(given_data).answers["q"].append(2)
    assert given_data == {"answers": {"q": [1]}}


def test_m13_a_partial_record_has_defaults_for_the_rest():
    data = {
        "session_id": "w-9",
        "answers": {"a": 1},
        "tick_index": 3,
        "created_at": "2026-05-01T12:00:00+00:00",
        "from_the_future": 1,
    }
    session = WorkflowSession.from_dict(data)
    assert (session.session_id, session.answers, session.tick_index, session.phase) == (
        "w-9",
        {"a": 1},
        3,
        SessionPhase.QUESTIONNAIRE,
    )
    assert (session.created_at, session.updated_at, session.logs, session.max_fix_loops) == (NOON, NOON, [], 3)
    assert not hasattr(session, "from_the_future")
    assert WorkflowSession.from_dict({"updated_at": "2026-05-01T12:00:00Z"}).created_at == NOON
    assert WorkflowSession.from_dict({}).session_id


def test_m13_a_record_of_vibeforge_itself_is_read():
    """It has no schema version, no record version, and errors of four keys."""
    old = [
        {"timestamp": "2026-05-01T12:00:00+00:00", "task_id": "t", "error_message": f"e{n}", "phase": "IDEA"} for n in (1, 2)
    ]
    session = WorkflowSession.from_dict({"session_id": "w", "phase": "IDEA", "error_history": old})
    assert [(entry["message"], entry["error_message"], entry["attempt"]) for entry in session.error_history] == [
        ("e1", "e1", 1),
        ("e2", "e2", 2),
    ]
    assert session.error_history == WorkflowSession.from_dict({"session_id": "w", "error_history": old}).error_history
    session.resolve_error(session.error_history[1]["id"])
    session.add_error("t", "e3")
    assert session.error_history[2]["attempt"] == 3


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"phase": "LUNCH"}, "phase: Input should be 'QUESTIONNAIRE', 'BUILD_SPEC'"),
        ({"phase": None}, "phase: "),
        ({"answers": [1]}, "answers: "),
        ({"error_history": [1]}, "error_history.0: "),
        ({"logs": None}, "logs: "),
        ({"tick_index": "many"}, "tick_index: "),
        ({"session_id": 7}, "session_id: "),
        ({"created_at": "yesterday"}, "created_at: "),
        ({"created_at": "2026-05-01T12:00:00"}, "a time without a zone"),
        ({"schema_version": 2}, "this workflow's record has schema version '2'; known are 1 to 1"),
        ({"schema_version": "x"}, "this workflow's record has schema version 'x'"),
        ([], "a workflow's record is an object"),
        (None, "a workflow's record is an object"),
    ],
)
def test_m13_restated_a_record_that_makes_no_sense_is_refused_with_what_is_wrong(data, text):
    """Theirs raised whatever came up."""
    with pytest.raises(InvalidValue) as refusal:
        WorkflowSession.from_dict(data)
    assert str(refusal.value).startswith(text)


def values(session):
    options = session.get_recovery_options()
    assert all(option.keys() == {"value", "label", "description"} and all(option.values()) for option in options)
    return [option["value"] for option in options]


def test_m14_ways_out_after_a_failure():
    assert values(at("EXECUTION", concept={"x": 1})) == []
    assert values(at("FAILED")) == ["restart_session", "export_logs"]
    assert values(at("FAILED", concept={"x": 1})) == ["restart_session", "export_logs", "reduce_scope"]
    assert values(at("FAILED", task_graph={"tasks": []})) == ["restart_session", "export_logs", "reduce_scope"]
    assert values(at("IDEA", is_aborted=True, concept={})) == ["restart_session", "export_logs"]
    at("FAILED").get_recovery_options()[0]["value"] = "changed"
    assert values(at("FAILED"))[0] == "restart_session"


def test_the_fix_loop_counts_to_its_limit_and_starts_again(session):
    stamps = [session.updated_at]
    results = []
    for _ in range(4):
        results.append(session.increment_fix_loop())
        stamps.append(session.updated_at)
    session.reset_fix_loop()
    stamps.append(session.updated_at)
    assert results == [True, True, False, False]
    assert session.fix_loop_count == 0
    assert stamps == sorted(set(stamps))


CHANGES = {
    "update_phase": lambda session: session.update_phase("FAILED"),
    "add_answer": lambda session: session.add_answer("q", 1),
    "add_log": lambda session: session.add_log("x"),
    "add_error": lambda session: session.add_error("t", "x"),
    "resolve_error": lambda session: session.resolve_error(session.add_error("t", "x")),
    "increment_fix_loop": lambda session: session.increment_fix_loop(),
    "reset_fix_loop": lambda session: session.reset_fix_loop(),
    "assignment": lambda session: setattr(session, "main_task", "x"),
}


@given(st.lists(st.tuples(st.sampled_from([name for name in CHANGES if name != "update_phase"]), st.integers(-1000, 1000))))
def test_restated_updated_at_strictly_increases_with_each_change_whatever_the_clock_does(steps):
    """Theirs stood still within a tick of the clock, and for logs always."""
    clock = Clock()
    session = WorkflowSession(clock=clock)
    for name, shift in steps:
        clock.now += timedelta(milliseconds=shift)
        before = session.updated_at
        CHANGES[name](session)
        assert session.updated_at > before
        assert session.updated_at >= clock.now


@pytest.mark.parametrize("name", CHANGES)
def test_restated_every_change_moves_updated_at(session, name):
    before = session.updated_at
    CHANGES[name](session)
    assert session.updated_at > before
    assert session.created_at == NOON


def test_a_version_is_the_stores_business_and_no_change(session):
    before = session.updated_at
    session.version = 3
    assert session.updated_at == before


def test_a_copy_is_of_its_own(session):
    twin = copy.deepcopy(session)
    twin.add_answer("q", 1)
    assert (session.answers, twin.answers) == ({}, {"q": 1})
