"""Which query an answer is for. Lines 1-6, 11 and 12 of algocline 6.1, and of its section 8 what answers of one round did to the next."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import (
    Answer,
    AnswerAmbiguous,
    AnswerConflict,
    Given,
    InvalidValue,
    PendingQueries,
    Query,
    QueryKind,
    QueryNotFound,
    QueryState,
    new_id,
)

SESSION, EXECUTION = new_id(), new_id()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def asked(number, kind=QueryKind.LLM, **more):
    return Query(
        SESSION, number, EXECUTION, kind, {"prompt": f"question {number}"}, asked_at=1000 + number, guest_id=number, **more
    )


def waiting(count, first=1):
    return PendingQueries([asked(number) for number in range(first, first + count)])


@st.composite
def orders(draw):
    """Numbers of queries in a row, which need not start at 1, and the order in which they are answered."""
    first = draw(st.integers(1, 1000))
    numbers = list(range(first, first + draw(st.integers(1, 7))))
    return numbers, draw(st.permutations(numbers))


def test_line_1_one_query_is_complete_when_fed():
    pending = waiting(1)
    assert pending.feed(1, Answer("yes"), at=5)
    assert (pending.remaining, pending.is_complete, pending.pending()) == (0, True, [])
    (query,) = pending.queries()
    assert (query.state, query.answer, query.closed_at) == (QueryState.ANSWERED, Answer("yes"), 5)


def test_line_2_three_queries_fed_in_another_order():
    pending = waiting(3)
    assert [pending.feed(number, Answer(number)) for number in (3, 1, 2)] == [False, False, True]
    assert [answer.value for answer in pending.ordered_answers()] == [1, 2, 3]


@given(orders())
def test_line_2_answers_come_in_the_order_of_the_questions_whatever_that_of_answering(drawn):
    numbers, order = drawn
    pending = PendingQueries([asked(number) for number in numbers])
    assert [pending.feed(number, Answer(number)) for number in order] == [False] * (len(order) - 1) + [True]
    assert [answer.value for answer in pending.ordered_answers()] == numbers


@given(orders(), st.integers(1, 10**6))
def test_line_3_an_unknown_id_is_refused(drawn, number):
    numbers, _ = drawn
    number += numbers[-1]
    pending = PendingQueries([asked(number) for number in numbers])
    with pytest.raises(QueryNotFound, match=f"^unknown query_id: q-{number}$"):
        pending.feed(number, Answer("x"))
    assert pending.remaining == len(numbers)


@given(orders(), st.text(), st.text())
def test_line_4_a_second_answer_is_refused_unless_it_is_the_same(drawn, first, second):
    """Restated: the same answer again is a retry, and changes nothing."""
    numbers, order = drawn
    pending = PendingQueries([asked(number) for number in numbers])
    pending.feed(order[0], Answer(first), at=1)
    before = pending.queries()
    if first == second:
        assert pending.check(order[0], Answer(second, usage={"prompt_tokens": 3})) is None
        assert pending.feed(order[0], Answer(second), at=2) == (len(numbers) == 1)
    else:
        with pytest.raises(AnswerConflict, match=f"^already responded to query_id: q-{order[0]}$"):
            pending.feed(order[0], Answer(second), at=2)
    assert pending.queries() == before


@pytest.mark.parametrize(
    ("first", "second"), [(1, True), (0, False), ([1], [True]), (None, False), ("1", 1), ({"a": 1}, {"a": 1, "b": None})]
)
def test_line_4_what_only_python_takes_for_the_same_is_not(first, second):
    pending = waiting(1)
    pending.feed(1, Answer(first))
    with pytest.raises(AnswerConflict):
        pending.feed(1, Answer(second))


def test_line_4_an_error_is_another_answer_than_a_value():
    pending = waiting(1)
    pending.feed(1, Answer(error={"message": "no"}))
    assert pending.check(1, Answer(error={"message": "no"})) is None
    with pytest.raises(AnswerConflict):
        pending.check(1, Answer(None))


@pytest.mark.parametrize("state", [QueryState.CANCELLED, QueryState.EXPIRED])
def test_line_4_nobody_answers_what_is_cancelled_or_expired(state):
    pending = PendingQueries([asked(1, state=state, answer=Answer("default"))])
    with pytest.raises(AnswerConflict, match="already responded to query_id: q-1"):
        pending.feed(1, Answer("default"))
    assert pending.is_complete


def test_line_5_only_the_unanswered_are_pending():
    pending = waiting(2)
    pending.feed(1, Answer("x"))
    assert [query.id for query in pending.pending()] == ["q-2"]


@given(orders())
def test_line_6_each_answer_leaves_one_less(drawn):
    numbers, order = drawn
    pending = PendingQueries([asked(number) for number in numbers])
    for left, number in zip(range(len(numbers), 0, -1), order, strict=True):
        assert (pending.remaining, len(pending.pending())) == (left, left)
        pending.feed(number, Answer("x"))
    assert pending.remaining == 0


@given(orders(), JSON, st.data())
def test_line_6_json_keeps_partial_progress(drawn, value, data):
    numbers, order = drawn
    pending = PendingQueries([asked(number, deadline=9) for number in numbers])
    for number in order[: data.draw(st.integers(0, len(order)))]:
        pending.feed(number, Answer(value, usage={"completion_tokens": 2}), at=77)
    again = PendingQueries.from_json(pending.to_json())
    assert again.queries() == pending.queries()
    assert again.pending() == pending.pending()
    assert again.to_json() == pending.to_json()


@pytest.mark.parametrize("text", ["", "{", "null", "[1]", '[{"number": 1}]', '{"a": 1}', "5", b"\xff"])
def test_what_is_not_the_json_of_queries_is_refused(text):
    with pytest.raises(InvalidValue, match="not a list of pending queries"):
        PendingQueries.from_json(text)


@pytest.mark.parametrize("change", [{"kind": "psychic"}, {"state": "lost"}, {"session_id": "x"}, {"surprise": 1}])
def test_json_with_a_wrong_field_is_refused(change):
    (plain,) = json.loads(waiting(1).to_json())
    with pytest.raises(InvalidValue):
        PendingQueries.from_json(json.dumps([plain | change]))


def test_line_11_restated_what_does_not_wait_takes_no_answer():
    for pending in (PendingQueries(), waiting(1)):
        for query in pending.pending():
            pending.feed(query.number, Answer("x"))
        with pytest.raises(AnswerAmbiguous, match=r"^no pending queries$"):
            pending.feed(None, Answer("y"))
        with pytest.raises(QueryNotFound):
            pending.feed(9, Answer("y"))


def test_line_12_nothing_remains_where_nothing_was_asked():
    assert (PendingQueries().remaining, PendingQueries().is_complete, PendingQueries().ordered_answers()) == (0, True, [])


def test_without_an_id_the_only_open_one_is_meant():
    pending = waiting(3)
    with pytest.raises(AnswerAmbiguous, match=r"^3 queries pending; specify query_id explicitly$"):
        pending.feed(None, Answer("x"))
    pending.feed(1, Answer("a"))
    pending.feed(3, Answer("c"))
    assert pending.check(None, Answer("b")) is pending.pending()[0]
    assert pending.feed(None, Answer("b"))
    assert [answer.value for answer in pending.ordered_answers()] == ["a", "b", "c"]


def test_restated_an_answer_of_an_earlier_round_never_reaches_a_later_question():
    """Their ids started again at q-0 in each round, so a retry answered the next question."""
    first_round = waiting(1)
    first_round.feed(1, Answer("to the first"))
    second_round = waiting(1, first=2)
    with pytest.raises(QueryNotFound):
        second_round.feed(1, Answer("to the first"))


def test_a_check_changes_nothing_and_the_records_given_stay_as_they_were():
    given_queries = [asked(1), asked(2)]
    pending = PendingQueries(given_queries)
    assert pending.check(2, Answer("x")) is given_queries[1]
    pending.feed(2, Answer("x"))
    assert given_queries == [asked(1), asked(2)]


def test_restated_several_answers_are_taken_together_or_not_at_all():
    """Theirs kept those before the one that was refused."""
    pending = waiting(3)
    for refused in (Given(9, Answer("x")), Given(1, Answer("another")), Given(None, Answer("x"))):
        with pytest.raises((QueryNotFound, AnswerConflict, AnswerAmbiguous)):
            pending.feed_all([Given(1, Answer("a")), refused])
        assert pending.remaining == 3
    closed = pending.feed_all(
        [Given(3, Answer("c")), Given(1, Answer("a")), Given(1, Answer("a")), Given(None, Answer("b"))], at=4
    )
    assert [(query.number, query.answer.value, query.closed_at) for query in closed] == [(3, "c", 4), (1, "a", 4), (2, "b", 4)]
    assert pending.is_complete
    assert pending.feed_all([Given(1, Answer("a"))]) == []


def test_no_answers_at_all_are_refused():
    with pytest.raises(InvalidValue, match=r"^Empty responses array$"):
        waiting(1).feed_all([])


def test_timers_are_left_out():
    timer = Query(SESSION, 2, EXECUTION, QueryKind.TIMER, {"wake_at": 5}, asked_at=0)
    pending = PendingQueries([asked(1), timer])
    assert pending.remaining == 1
    with pytest.raises(QueryNotFound):
        pending.feed(2, Answer(None))
    assert pending.feed(None, Answer("x"))


def test_one_number_twice_is_refused():
    with pytest.raises(InvalidValue, match="two queries of one number"):
        PendingQueries([asked(1), asked(1)])
