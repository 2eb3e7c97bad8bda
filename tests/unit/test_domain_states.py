"""The tables of what may follow what, walked at random. Lines 7-13 of algocline 6.1; T1-T3 of VibeForge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import (
    EXECUTION,
    PHASES,
    QUERY,
    SESSION,
    Answer,
    Conflict,
    ExecutionStatus,
    InvalidTransition,
    PendingQueries,
    Query,
    QueryKind,
    QueryState,
    SessionPhase,
    SessionState,
    new_id,
)

MACHINES = {
    "session": (SESSION, SessionState),
    "execution": (EXECUTION, ExecutionStatus),
    "query": (QUERY, QueryState),
    "phases": (PHASES, SessionPhase),
}
ENDED = [ExecutionStatus.OK, ExecutionStatus.ERROR, ExecutionStatus.TIMEOUT, ExecutionStatus.CANCELLED]


@pytest.fixture(params=MACHINES, scope="module")
def machine(request):
    return MACHINES[request.param]


def test_t1_every_state_has_a_row(machine):
    table, states = machine
    assert set(table.table) == set(states)
    assert all(following <= set(states) for following in table.table.values())


def test_every_state_can_be_reached_from_the_first(machine):
    table, states = machine
    reached, frontier = set(), [next(iter(states))]
    while frontier:
        state = frontier.pop()
        if state not in reached:
            reached.add(state)
            frontier.extend(table.table[state])
    assert reached == set(states)


@given(data=st.data())
def test_a_random_walk_takes_each_arrow_and_refuses_all_else(machine, data):
    table, states = machine
    state = data.draw(st.sampled_from(list(states)))
    for _ in range(12):
        allowed = table.table[state]
        for wanted in states:
            if wanted in allowed:
                assert table.next(state, wanted) is wanted
                continue
            with pytest.raises(InvalidTransition) as refusal:
                table.next(state, wanted)
            assert (refusal.value.current, refusal.value.wanted, refusal.value.allowed) == (state, wanted, allowed)
            assert str(refusal.value).endswith(f"allowed from {state}: {', '.join(sorted(allowed)) or 'none'}")
        assert table.is_final(state) == (not allowed)
        if table.is_final(state):
            break
        state = data.draw(st.sampled_from(sorted(allowed)))


@pytest.mark.parametrize(
    ("name", "final"),
    [
        ("session", {SessionState.CLOSED}),
        ("execution", set(ENDED)),
        ("query", {QueryState.ANSWERED, QueryState.CANCELLED, QueryState.EXPIRED}),
        ("phases", {SessionPhase.COMPLETE, SessionPhase.FAILED}),
    ],
)
def test_these_states_are_final(name, final):
    table, states = MACHINES[name]
    assert {state for state in states if table.is_final(state)} == final


# ---- executions


def asked(number):
    return Query(new_id(), number, new_id(), QueryKind.LLM, {"prompt": "?"}, asked_at=0)


def test_line_7_running_pauses_and_goes_on_with_the_answers_in_order():
    assert EXECUTION.next(ExecutionStatus.RUNNING, ExecutionStatus.PAUSED) is ExecutionStatus.PAUSED
    pending = PendingQueries([asked(1), asked(2)])
    pending.feed(2, Answer("second"))
    pending.feed(1, Answer("first"))
    assert EXECUTION.next(ExecutionStatus.PAUSED, ExecutionStatus.RUNNING) is ExecutionStatus.RUNNING
    assert [answer.value for answer in pending.ordered_answers()] == ["first", "second"]


def test_line_8_taking_answers_while_one_is_missing_fails_and_changes_nothing():
    pending = PendingQueries([asked(1), asked(2)])
    pending.feed(2, Answer("second"))
    with pytest.raises(Conflict, match="1 of 2 queries still wait"):
        pending.ordered_answers()
    assert (pending.remaining, pending.is_complete) == (1, False)


@pytest.mark.parametrize("end", [ExecutionStatus.OK, ExecutionStatus.ERROR, ExecutionStatus.TIMEOUT])
def test_line_9_only_what_runs_completes_or_fails(end):
    assert EXECUTION.is_final(EXECUTION.next(ExecutionStatus.RUNNING, end))
    with pytest.raises(InvalidTransition, match="allowed from paused: cancelled, running"):
        EXECUTION.next(ExecutionStatus.PAUSED, end)


def test_line_10_what_runs_or_waits_can_be_cancelled():
    for state in (ExecutionStatus.RUNNING, ExecutionStatus.PAUSED):
        assert EXECUTION.next(state, ExecutionStatus.CANCELLED) is ExecutionStatus.CANCELLED


@pytest.mark.parametrize("state", ENDED)
def test_line_10_what_has_ended_cannot(state):
    with pytest.raises(InvalidTransition, match=f"is {state} and cannot become cancelled; allowed from {state}: none"):
        EXECUTION.next(state, ExecutionStatus.CANCELLED)


def test_line_11_what_waits_cannot_pause_again():
    with pytest.raises(InvalidTransition, match="is paused and cannot become paused"):
        EXECUTION.next(ExecutionStatus.PAUSED, ExecutionStatus.PAUSED)


def test_line_13_only_ended_states_are_final():
    assert [state for state in ExecutionStatus if EXECUTION.is_final(state)] == ENDED


# ---- phases


def test_t2_the_phases_and_what_follows_each():
    assert {phase.value: {following.value for following in PHASES.table[phase]} for phase in SessionPhase} == {
        "QUESTIONNAIRE": {"BUILD_SPEC", "FAILED"},
        "BUILD_SPEC": {"IDEA", "FAILED"},
        "IDEA": {"PLAN_REVIEW", "FAILED"},
        "PLAN_REVIEW": {"EXECUTION", "IDEA", "FAILED"},
        "EXECUTION": {"CLARIFICATION", "VERIFICATION", "COMPLETE", "FAILED"},
        "CLARIFICATION": {"EXECUTION", "FAILED"},
        "VERIFICATION": {"COMPLETE", "EXECUTION", "FAILED"},
        "COMPLETE": set(),
        "FAILED": set(),
    }


@pytest.mark.parametrize(
    ("current", "wanted", "allowed"),
    [
        ("QUESTIONNAIRE", "EXECUTION", "BUILD_SPEC, FAILED"),
        ("EXECUTION", "QUESTIONNAIRE", "CLARIFICATION, COMPLETE, FAILED, VERIFICATION"),
        ("COMPLETE", "FAILED", "none"),
        ("FAILED", "QUESTIONNAIRE", "none"),
    ],
)
def test_t3_a_refusal_names_both_phases_and_what_is_allowed(current, wanted, allowed):
    with pytest.raises(InvalidTransition) as refusal:
        PHASES.next(SessionPhase(current), SessionPhase(wanted))
    assert str(refusal.value) == f"the workflow is {current} and cannot become {wanted}; allowed from {current}: {allowed}"


def test_failing_is_possible_from_every_phase_that_is_not_final():
    for phase in SessionPhase:
        assert PHASES.is_final(phase) or SessionPhase.FAILED in PHASES.table[phase]
