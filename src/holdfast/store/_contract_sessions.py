"""The contract, first part: commits and sessions."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

from holdfast.domain import Budget, Event, QueryState, Session, SessionState
from holdfast.store._contract_base import (
    NASTY,
    T0,
    Samples,
    codes,
    full_session,
    pages,
    refused,
)
from holdfast.store.protocol import Begun, Effect, Reply


class SessionContract(Samples):
    """Commits, and what can be read after them."""

    # ---- sessions

    def test_a_session_comes_back_with_every_field(self) -> None:
        session = Session(**full_session(self.template))
        self.write(self.commit(session, expected=None))
        assert self.store.get_session(session.id) == session
        assert self.store.list_sessions().items == [session]

    def test_a_plain_session_comes_back_with_its_defaults(self) -> None:
        session = self.new_session()
        found = self.store.get_session(session.id)
        assert found == session
        assert found.meta == {}
        assert found.budget is None

    def test_every_field_that_may_change_does(self) -> None:
        session = self.new_session(name="before", meta={"a": 1}, budget=Budget(max_tokens=1), seed=1, last_error="e")
        kept = {"id": session.id, "created_at": T0, "version": 2, "fence": 0, "worktree": None, "family": None}
        kept |= {"tenant": session.tenant, "token": session.token}
        changed = Session(**full_session(self.template) | kept)
        self.write(self.commit(changed))
        assert self.store.get_session(session.id) == changed
        emptied = replace(session, version=3, name=None, meta={}, budget=None, seed=None, last_error=None)
        self.write(self.commit(emptied))
        assert self.store.get_session(session.id) == emptied

    def test_an_unknown_session_is_not_found(self) -> None:
        with refused("SESSION_NOT_FOUND"):
            self.store.get_session(uuid4())
        with refused("SESSION_NOT_FOUND"):
            self.store.load(uuid4())
        with refused("SESSION_NOT_FOUND"):
            self.store.delete_session(uuid4())

    def test_a_session_of_an_unknown_template_is_refused(self) -> None:
        session = self.session(template_id=uuid4())
        assert codes(self.store.commit([self.commit(session, expected=None)])) == ["TEMPLATE_NOT_FOUND"]
        with refused("SESSION_NOT_FOUND"):
            self.store.get_session(session.id)

    # ---- compare and set

    def test_who_comes_second_gets_a_version_conflict(self) -> None:
        session = self.new_session()
        self.change(session, {"name": "first"})
        late = replace(session, version=2, name="second")
        assert codes(self.store.commit([self.commit(late)])) == ["VERSION_CONFLICT"]
        assert self.store.get_session(session.id).name == "first"

    def test_a_commit_to_no_session_is_not_found(self) -> None:
        assert codes(self.store.commit([self.commit(self.session(version=2))])) == ["SESSION_NOT_FOUND"]

    def test_a_new_session_whose_id_is_taken_is_a_conflict(self) -> None:
        session = self.new_session(name="first")
        assert codes(self.store.commit([self.commit(replace(session, name="second"), expected=None)])) == ["VERSION_CONFLICT"]
        assert self.store.get_session(session.id).name == "first"

    def test_a_commit_of_a_former_owner_loses_its_lease(self) -> None:
        session = self.new_session(owner=uuid4())
        taken = replace(session, version=2, fence=1, owner=uuid4())
        self.write(self.commit(taken, fence=0))
        late = replace(session, version=2, name="late")
        assert codes(self.store.commit([self.commit(late)])) == ["LEASE_LOST"]
        even_with_its_version = replace(session, version=3, name="late")
        assert codes(self.store.commit([self.commit(even_with_its_version, fence=0)])) == ["LEASE_LOST"]
        assert self.store.get_session(session.id) == taken

    def test_a_lost_lease_writes_nothing_of_the_commit(self) -> None:
        session, execution = self.history(1)
        self.write(self.commit(replace(session, version=session.version + 1, fence=1), fence=0))
        late = replace(session, version=session.version + 1)
        commit = self.commit(late, steps=[self.step(2, execution)], asked=[self.query(session, 1)], errors=[self.error()])
        assert codes(self.store.commit([commit])) == ["LEASE_LOST"]
        assert [node.number for node in self.store.list_nodes(session.id)] == [1]
        assert self.store.list_queries(session.id).items == []
        assert self.store.list_errors(session.id).items == []

    def test_the_same_commit_again_counts_as_written_and_changes_nothing(self) -> None:
        session, execution = self.history(1)
        changed = replace(session, version=session.version + 1, steps=2, head=2)
        commit = self.commit(
            changed, steps=[self.step(2, execution)], asked=[self.query(session, 1)], token=0xFFFF_FFFF_FFFF_FFFF
        )
        self.write(commit)
        self.write(commit)
        self.write(commit, commit)
        assert self.store.get_session(session.id) == changed
        assert len(self.store.list_nodes(session.id)) == 2

    def test_a_new_session_again_counts_as_written(self) -> None:
        commit = self.commit(self.session(name="once"), expected=None)
        self.write(commit)
        self.write(commit)
        assert self.store.count_sessions() == {SessionState.READY: 1}

    def test_a_token_of_long_ago_is_a_conflict(self) -> None:
        session = self.new_session()
        old = self.commit(replace(session, version=2))
        self.write(old)
        self.change(old.session)
        assert codes(self.store.commit([old])) == ["VERSION_CONFLICT"]

    # ---- groups

    def test_nothing_to_commit_is_fine(self) -> None:
        assert self.store.commit([]) == []

    def test_a_group_of_many_sessions_is_written_in_one_go(self) -> None:
        sessions = [self.session(name=str(number)) for number in range(128)]
        self.write(*[self.commit(session, expected=None) for session in sessions])
        self.write(*[self.commit(replace(session, version=2, llm_calls=1)) for session in sessions])
        assert all(self.store.get_session(session.id).llm_calls == 1 for session in sessions)

    def test_a_late_commit_does_not_stop_the_others_of_its_group(self) -> None:
        sessions = [self.new_session() for _ in range(5)]
        self.change(sessions[2])
        commits = [self.commit(replace(s, version=2, name="group"), asked=[self.query(s, 1)]) for s in sessions]
        commits.append(self.commit(self.session(version=4)))
        expected = [None, None, "VERSION_CONFLICT", None, None, "SESSION_NOT_FOUND"]
        assert codes(self.store.commit(commits)) == expected
        assert [len(self.store.list_queries(s.id).items) for s in sessions] == [1, 1, 0, 1, 1]

    def test_an_impossible_commit_does_not_stop_the_others_of_its_group(self) -> None:
        sessions = [self.history(1) for _ in range(4)]
        commits = []
        for number, (session, execution) in enumerate(sessions):
            step = self.step(1 if number == 1 else 2, execution)  # 1 is taken
            missing = [self.query(session, 9)] if number == 2 else []
            commits.append(self.commit(replace(session, version=session.version + 1, name="new"), steps=[step], closed=missing))
        outcomes = codes(self.store.commit(commits))
        assert outcomes[0] is None
        assert outcomes[1] in ("CONFLICT", "VERSION_CONFLICT")
        assert outcomes[2] == "QUERY_NOT_FOUND"
        assert outcomes[3] is None
        assert [self.store.get_session(s.id).name for s, _ in sessions] == ["new", None, None, "new"]
        assert [len(self.store.list_nodes(s.id)) for s, _ in sessions] == [2, 1, 1, 2]

    def test_a_commit_with_what_cannot_be_kept_fails_alone(self) -> None:
        good, bad = self.new_session(), self.new_session()
        commits = [
            self.commit(replace(bad, version=2, meta={"what": object()})),
            self.commit(replace(good, version=2, name="written")),
        ]
        assert codes(self.store.commit(commits)) == ["VALIDATION_ERROR", None]
        assert self.store.get_session(bad.id) == bad

    def test_an_execution_that_is_not_there_cannot_change(self) -> None:
        session, other = self.new_session(), self.history(1)
        for execution in (self.execution(session), other[1]):
            commit = self.commit(replace(session, version=2), executions=[execution])
            assert codes(self.store.commit([commit])) == ["EXECUTION_NOT_FOUND"]
        assert self.store.get_session(session.id).version == 1

    def test_one_session_twice_in_a_group_goes_by_version(self) -> None:
        session = self.new_session()
        first, second = replace(session, version=2), replace(session, version=3)
        asked = self.query(session, 1)
        closed = replace(asked, state=QueryState.CANCELLED, closed_at=T0)
        self.write(self.commit(first, asked=[asked]), self.commit(second, closed=[closed]))
        assert self.store.get_query(session.id, 1) == closed

    # ---- many at once

    def test_64_threads_commit_to_64_sessions(self) -> None:
        sessions = [self.new_session() for _ in range(64)]

        def work(session: Session) -> None:
            for _ in range(3):
                session = self.change(session)

        with ThreadPoolExecutor(64) as pool:
            list(pool.map(work, sessions))
        assert all(self.store.get_session(session.id).version == 4 for session in sessions)

    def test_of_64_threads_that_commit_to_one_session_exactly_one_wins_each_version(self) -> None:
        session, winners, together = self.new_session(), [], threading.Barrier(64)

        def work(name: str) -> None:
            together.wait()
            for version in (2, 3):
                outcome = self.store.commit([self.commit(replace(session, version=version, name=name))])[0]
                assert outcome is None or outcome.code == "VERSION_CONFLICT"
                if outcome is None:
                    winners.append(version)

        with ThreadPoolExecutor(64) as pool:
            list(pool.map(work, map(str, range(64))))
        assert sorted(winners) == [2, 3]

    def test_reads_go_on_beside_writes(self) -> None:
        session, _ = self.history(2)
        done = threading.Event()

        def read() -> int:
            reads = 0
            while not done.is_set():
                loaded = self.store.load(session.id)
                assert loaded.session.llm_calls == loaded.session.tokens
                reads += 1
            return reads

        with ThreadPoolExecutor(4) as pool:
            reading = [pool.submit(read) for _ in range(4)]
            try:
                changed = session
                for number in range(1, 30):
                    changed = self.change(changed, {"llm_calls": number, "tokens": number})
            finally:
                done.set()
            assert all(reader.result() for reader in reading)

    # ---- copies

    def test_what_was_given_may_be_changed_afterwards(self) -> None:
        session = self.session(meta={"a": {"b": 1}})
        execution, query = (
            self.execution(session, args={"a": [1]}, result={"r": [1]}),
            self.query(session, 1, payload={"p": [1]}),
        )
        step = self.step(1, execution, events=[Event(1, T0, "value", {"v": [1]})])
        error, begun = self.error(), Begun(execution.id, {"code": ["x"]}, 1.5, [Effect("f", "h", None, 1.0)])
        reply = Reply("key", "hash", {"o": [1]}, T0)
        commit = self.commit(session, expected=None, new_executions=[execution], steps=[step], asked=[query], errors=[error])
        commit.begun, commit.reply = begun, reply
        self.write(commit)
        session.meta["a"]["b"], session.name = 2, "changed"
        execution.args["a"].append(2)
        execution.metrics.steps = 99
        execution.result["r"].append(2)  # type: ignore[index]
        query.payload["p"].append(2)
        step.events[0].payload["v"].append(2)
        step.events.clear()
        assert step.checkpoint is not None
        step.checkpoint.sealed = b"changed"
        error.message = "changed"
        begun.request["code"].append("y")
        begun.effects.clear()
        reply.outcome["o"].append(2)
        self._check_untouched(session, execution.id)

    def test_what_was_got_may_be_changed_afterwards(self) -> None:
        self.test_what_was_given_may_be_changed_afterwards()
        session_id = self.store.list_sessions().items[0].id
        loaded, execution = self.store.load(session_id), self.store.list_executions(session_id).items[0]
        got, query = self.store.get_session(session_id), self.store.get_query(session_id, 1)
        assert loaded.begun is not None
        for session in (loaded.session, got, self.store.list_sessions().items[0]):
            session.meta["a"]["b"], session.name = 2, "changed"
        execution.args["a"].append(2)
        execution.metrics.steps = 99
        query.payload["p"].append(2)
        loaded.open[0].payload["p"].append(2)
        loaded.begun.request["code"].append("y")
        loaded.begun.effects.clear()
        self.store.list_events(execution.id)[0].payload["v"].append(2)
        self.store.list_errors(session_id).items[0].message = "changed"
        reply = self.store.get_reply("key")
        assert reply is not None
        reply.outcome["o"].append(2)
        self._check_untouched(got, execution.id)

    def _check_untouched(self, session: Session, execution_id: object) -> None:
        loaded, execution = self.store.load(session.id), self.store.list_executions(session.id).items[0]
        assert execution.id == execution_id
        assert (loaded.session.meta, loaded.session.name) == ({"a": {"b": 1}}, None)
        assert (execution.args, execution.result, execution.metrics.steps) == ({"a": [1]}, {"r": [1]}, 0)
        assert self.store.get_query(session.id, 1).payload == {"p": [1]} == loaded.open[0].payload
        assert self.store.list_events(execution.id) == [Event(1, T0, "value", {"v": [1]})]
        assert self.store.list_nodes(session.id)[0].size == len(b"image 1")
        assert self.store.list_errors(session.id).items[0].message == "it broke"
        assert loaded.begun == Begun(execution.id, {"code": ["x"]}, 1.5, [Effect("f", "h", None, 1.0)])
        assert self.store.get_reply("key") == Reply("key", "hash", {"o": [1]}, T0)

    # ---- lists of sessions

    def test_sessions_are_listed_newest_first_in_pages(self) -> None:
        ids = [self.new_session(created_at=T0 + number).id for number in range(7)][::-1]
        assert [[s.id for s in page] for page in pages(self.store.list_sessions, 3)] == [ids[:3], ids[3:6], ids[6:]]
        assert [len(page) for page in pages(self.store.list_sessions, 7)] == [7]

    def test_pages_neither_repeat_nor_skip_while_sessions_come_and_change(self) -> None:
        ids = [self.new_session(created_at=T0 + number).id for number in range(6)][::-1]
        first = self.store.list_sessions(limit=3)
        self.new_session(created_at=T0 + 9)
        self.change(self.store.get_session(ids[4]), {"updated_at": T0 + 99})
        self.store.delete_session(first.items[-1].id)  # even the one where the page ended
        second = self.store.list_sessions(limit=3, after=first.next)
        assert [s.id for s in first.items + second.items] == ids
        assert second.next is None

    def test_sessions_are_filtered(self) -> None:
        other = self.new_template("other")
        a = self.new_session(state=SessionState.PAUSED, name=NASTY, updated_at=T0 + 1)
        b = self.new_session(state=SessionState.RUNNING, template_id=other.id, updated_at=T0 + 2)
        c = self.new_session(state=SessionState.PAUSED, name="c", template_id=other.id, updated_at=T0 + 3)

        def ids(**filters: object) -> list[object]:
            return [session.id for session in self.store.list_sessions(**filters).items]  # type: ignore[arg-type]

        assert ids(states=[SessionState.PAUSED]) == [c.id, a.id]
        assert ids(states=[SessionState.PAUSED, SessionState.RUNNING]) == [c.id, b.id, a.id]
        assert ids(states=[SessionState.CLOSED]) == []
        assert ids(template_id=other.id) == [c.id, b.id]
        assert ids(template_id=other.id, states=[SessionState.RUNNING]) == [b.id]
        assert ids(name=NASTY) == [a.id]
        assert ids(name="nobody") == []
        assert ids(idle_before=T0 + 3) == [b.id, a.id]
        assert ids(template_id=other.id, name="c", idle_before=T0 + 4) == [c.id]
        found = pages(self.store.list_sessions, 1, states=[SessionState.PAUSED])
        assert [[s.id for s in page] for page in found] == [[c.id], [a.id]]

    def test_a_made_up_cursor_is_refused(self) -> None:
        self.new_session()
        for made_up in ("", "x", "!!", "a" * 50, "é", "\0", "MTIz"):
            for fetch in (
                self.store.list_sessions,
                self.store.list_executions,
                self.store.list_queries,
                self.store.list_templates,
            ):
                with refused("VALIDATION_ERROR"):
                    fetch(after=made_up)

    def test_sessions_are_counted_by_state(self) -> None:
        assert self.store.count_sessions() == {}
        for state in (SessionState.PAUSED, SessionState.PAUSED, SessionState.CLOSED):
            self.new_session(state=state)
        assert self.store.count_sessions() == {SessionState.PAUSED: 2, SessionState.CLOSED: 1}
