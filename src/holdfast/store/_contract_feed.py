"""The contract, another part: steps as those hear of them who follow what happens."""

import threading
from dataclasses import replace
from uuid import UUID, uuid4

from holdfast.domain import Event, Execution, Session
from holdfast.store._contract_base import NASTY, T0, Samples, refused
from holdfast.store.protocol import ToldStep


def _names(steps: list[ToldStep]) -> list[tuple[UUID, int]]:
    return [(step.session_id, step.number) for step in steps]


class FeedSamples(Samples):
    """Sessions that take one step after the other."""

    def begun(self) -> tuple[Session, Execution]:
        """A session with an execution that has no steps yet."""
        session = self.new_session()
        execution = self.execution(session)
        return self.change(session, {"execution_id": execution.id}, new_executions=[execution]), execution

    def next_step(self, session: Session, execution: Execution) -> tuple[Session, Execution]:
        number = session.steps + 1
        execution = replace(execution, last_step=number, seq=number)
        position = {"head": number, "steps": number}
        return self.change(session, position, executions=[execution], steps=[self.step(number, execution)]), execution


class FeedContract(FeedSamples):
    """Nothing is told twice, and nothing is left out."""

    def test_steps_are_told_in_the_order_of_their_commits(self) -> None:
        one, other = self.begun(), self.begun()
        expected = []
        for turn in range(6):
            if turn % 3 == 1:
                other = self.next_step(*other)
                expected.append((other[0].id, other[0].steps))
            else:
                one = self.next_step(*one)
                expected.append((one[0].id, one[0].steps))
        told = self.store.list_steps()
        assert _names(told) == expected
        for step in told:
            assert step.execution_id == (one if step.session_id == one[0].id else other)[1].id
            assert step.first_seq == step.number
            assert [(event.seq, event.payload["text"]) for event in step.events] == [(step.number, f"step {step.number}")]
        assert len({step.cursor for step in told}) == 6
        assert max(len(step.cursor) for step in told) < 40

    def test_it_goes_on_after_any_cursor(self) -> None:
        one, other = self.begun(), self.begun()
        for _ in range(3):
            one, other = self.next_step(*one), self.next_step(*other)
        for session_id in (None, one[0].id):
            told = self.store.list_steps(session_id=session_id)
            assert len(told) == (6 if session_id is None else 3)
            for at, step in enumerate(told):
                assert self.store.list_steps(session_id=session_id, after=step.cursor) == told[at + 1 :]
                assert self.store.list_steps(session_id=session_id, after=step.cursor, limit=2) == told[at + 1 : at + 3]
                assert self.store.list_steps(session_id=session_id, after=step.cursor, including=True) == told[at:]
            assert self.store.list_steps(session_id=session_id, limit=1) == told[:1]

    def test_it_goes_on_after_its_end(self) -> None:
        assert self.store.list_steps() == self.store.list_steps(after=self.store.last_cursor()) == []
        one, other = self.begun(), self.begun()
        assert self.store.list_steps(session_id=one[0].id) == []
        for _ in range(3):
            everywhere, here = self.store.last_cursor(), self.store.last_cursor(one[0].id)
            one, other = self.next_step(*one), self.next_step(*other)
            names = [(one[0].id, one[0].steps), (other[0].id, other[0].steps)]
            assert _names(self.store.list_steps(after=everywhere)) == names
            assert _names(self.store.list_steps(session_id=one[0].id, after=here)) == names[:1]

    def test_events_are_told_whole(self) -> None:
        session, execution = self.begun()
        events = [Event(seq, T0 + seq, "console", {"text": NASTY, "n": seq}) for seq in range(1, 4)]
        steps = [
            self.step(1, execution, events=events[:2], first_seq=1),
            self.step(2, execution, events=[], first_seq=3),
            self.step(3, execution, events=events[2:], first_seq=3, checkpoint=None),
        ]
        self.change(session, executions=[replace(execution, last_step=3, seq=3)], steps=steps)
        for told in (self.store.list_steps(), self.store.list_steps(session_id=session.id)):
            assert [(step.number, step.first_seq, step.events) for step in told] == [
                (1, 1, events[:2]),
                (2, 3, []),
                (3, 3, events[2:]),
            ]

    def test_events_after_any_seq_are_found_among_the_steps_of_others(self) -> None:
        """However executions take turns in a session, and also if a step has no event."""
        session, first = self.begun()
        second = self.execution(session, first_step=2)
        counts = {first.id: 0, second.id: 0}
        steps = []
        for number, letter in enumerate("abbbaabaaaabbbbbbbba", 1):
            execution = first if letter == "a" else second
            seq, many = counts[execution.id] + 1, number % 3
            events = [Event(at, T0, "console", {"at": at}) for at in range(seq, seq + many)]
            steps.append(self.step(number, execution, events=events, first_seq=seq))
            counts[execution.id] += many
        first, second = replace(first, last_step=20, seq=counts[first.id]), replace(second, last_step=19, seq=counts[second.id])
        self.change(session, {"head": 20, "steps": 20}, executions=[first], new_executions=[second], steps=steps)
        for execution in (first, second):
            events = [event for step in steps if step.execution_id == execution.id for event in step.events]
            assert [event.seq for event in events] == list(range(1, execution.seq + 1))
            for after in range(execution.seq + 2):
                assert self.store.list_events(execution.id, after_seq=after) == events[after:]
                assert self.store.list_events(execution.id, after_seq=after, limit=2) == events[after : after + 2]

    def test_pages_have_a_bound_in_bytes(self) -> None:
        """Read with any bound, all comes once and in order, and no page is much larger; one event always comes."""
        session, execution = self.begun()
        seq = 1
        for number, sizes in enumerate(([10] * 5, [3000], [200] * 40, [], [50_000, 10, 50_000]), 1):
            events = [Event(seq + at, T0, "console", {"text": "x" * size}) for at, size in enumerate(sizes)]
            step = self.step(number, execution, events=events, first_seq=seq)
            seq += len(events)
            execution = replace(execution, last_step=number, seq=seq - 1)
            session = self.change(session, {"head": number, "steps": number}, executions=[execution], steps=[step])
        everything = self.store.list_events(execution.id)
        assert len(everything) == seq - 1
        for most in (1, 1000, 4000, 60_000, 1 << 20):
            heard: list[Event] = []
            while page := self.store.list_events(execution.id, after_seq=len(heard), max_bytes=most):
                heard += page
                assert sum(len(event.payload["text"]) for event in page[:-1]) < most
            assert heard == everything
            for session_id in (None, session.id):
                heard = self._heard(session_id, most)
                assert heard == everything

    def _heard(self, session_id: UUID | None, most: int) -> list[Event]:
        heard: list[Event] = []
        after, part = None, 0
        while steps := self.store.list_steps(
            session_id=session_id, after=after, including=part > 0, after_seq=part, max_bytes=most
        ):
            events = [event for step in steps for event in step.events]
            assert sum(len(event.payload["text"]) for event in events[:-1]) < most
            assert not any(step.more for step in steps[:-1])
            heard += events
            after, part = steps[-1].cursor, steps[-1].events[-1].seq if steps[-1].more else 0
        return heard

    def test_a_commit_that_is_refused_is_not_told(self) -> None:
        session, execution = self.next_step(*self.begun())
        end = self.store.last_cursor()
        step = self.step(2, execution)
        late = self.commit(replace(session, version=session.version), steps=[step])
        missing = self.commit(replace(session, version=session.version + 1), steps=[step], executions=[self.execution(session)])
        assert None not in self.store.commit([late, missing])
        assert self.store.list_steps(after=end) == []
        session, execution = self.next_step(session, execution)
        assert _names(self.store.list_steps(after=end)) == [(session.id, 2)]

    def test_what_is_pruned_stays_where_it_was(self) -> None:
        session, _ = self.history(4)
        told = self.store.list_steps()
        session = self.change(session, pruned=[1, 3])
        assert self.store.list_steps() == told
        assert self.store.list_steps(after=told[-1].cursor) == []
        assert self.store.list_steps(session_id=session.id, after="2")[0].events == told[2].events

    def test_a_deleted_session_is_told_no_more_and_others_go_on(self) -> None:
        """Also if it had the newest step, and whether the reader stopped before it, at it, or after it."""
        for _ in range(3):
            one, other = self.begun(), self.begun()
            one = self.next_step(*one)
            before = self.store.last_cursor()
            for _ in range(2):
                other = self.next_step(*other)
            cursors = [before, *(step.cursor for step in self.store.list_steps(after=before)), self.store.last_cursor()]
            self.store.delete_session(other[0].id)
            assert {self.store.list_steps(after=at)[:1] == [] for at in cursors} == {True}
            assert {self.store.list_steps(after=at, including=True)[-1:] == [] for at in cursors[1:]} == {True}
            cursors.append(self.store.last_cursor())
            one = self.next_step(*one)
            for at in cursors:
                assert _names(self.store.list_steps(after=at)) == [(one[0].id, 2)]
            self.store.delete_session(one[0].id)
            assert self.store.list_steps() == []

    def test_the_feed_outlives_the_process(self) -> None:
        session, execution = self.next_step(*self.begun())
        gone, _ = self.next_step(*self.begun())
        end, told = self.store.last_cursor(), self.store.list_steps(session_id=session.id)
        self.store.delete_session(gone.id)
        self.store = self.reopen(self.store)
        assert self.store.list_steps(session_id=session.id) == told
        session, _ = self.next_step(session, execution)
        assert _names(self.store.list_steps(after=end)) == [(session.id, 2)]

    def test_an_unknown_session_has_no_feed(self) -> None:
        session, _ = self.next_step(*self.begun())
        for session_id in (uuid4(), session.id):
            if session_id == session.id:
                self.store.delete_session(session.id)
            with refused("SESSION_NOT_FOUND"):
                self.store.list_steps(session_id=session_id)
            with refused("SESSION_NOT_FOUND"):
                self.store.last_cursor(session_id)

    def test_a_cursor_must_be_one_of_the_feed(self) -> None:
        session, _ = self.next_step(*self.begun())
        here, everywhere = self.store.last_cursor(session.id), self.store.last_cursor()
        page = self.store.list_sessions(limit=1).next or "czE"
        for after in ("", " ", "x", NASTY, here, page, everywhere + "A", "-1", "9" * 40, everywhere * 100):
            with refused("VALIDATION_ERROR"):
                self.store.list_steps(after=after)
        for after in ("", "x", NASTY, everywhere, "01", "-1", "1.5", "\u0661", "9" * 40, "2"):
            with refused("VALIDATION_ERROR"):
                self.store.list_steps(session_id=session.id, after=after)

    def test_who_follows_while_many_commit_hears_of_each_step_once(self) -> None:
        writers, steps = 8, 12
        begun = [self.begun() for _ in range(writers)]
        doomed: Session | None = self.next_step(*self.begun())[0]
        starts = threading.Barrier(writers + 1)
        at = self.store.last_cursor()

        def write(session: Session, execution: Execution) -> None:
            starts.wait()
            for _ in range(steps):
                session, execution = self.next_step(session, execution)

        threads = [threading.Thread(target=write, args=each) for each in begun]
        for thread in threads:
            thread.start()
        starts.wait()
        heard: list[tuple[UUID, int]] = []
        resumed: list[tuple[str, int]] = []
        while True:
            over = not any(thread.is_alive() for thread in threads)
            told = self.store.list_steps(after=at, limit=7)
            if not told and over:
                break
            if len(heard) > writers and doomed is not None:
                self.store.delete_session(doomed.id)
                doomed = None
            heard += _names(told)
            resumed += [(step.cursor, len(heard) - len(told) + place) for place, step in enumerate(told, 1)]
            at = told[-1].cursor if told else at
        assert sorted(heard) == sorted((session.id, number) for session, _ in begun for number in range(1, steps + 1))
        for session, _ in begun:
            assert [number for session_id, number in heard if session_id == session.id] == list(range(1, steps + 1))
        for cursor, place in resumed[:: len(resumed) // 5]:
            assert _names(self.store.list_steps(after=cursor, limit=1000)) == heard[place:]
