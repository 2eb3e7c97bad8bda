"""The contract, third part: checkpoints, chains of them, forks, and what happens when something in a chain goes away."""

from dataclasses import replace
from uuid import uuid4

from holdfast.domain import Checkpoint, Event, Node, Origin, Session, Step
from holdfast.store._contract_base import T0, Samples, codes, refused
from holdfast.store.protocol import Link, Rebased


class CheckpointContract(Samples):
    """States that one can go back to."""

    def numbers(self, at: Origin) -> list[tuple[Origin, bytes]]:
        return [(link.at, link.sealed) for link in self.store.chain(at)]

    # ---- chains

    def test_a_chain_leads_from_a_checkpoint_to_the_template(self) -> None:
        session, _ = self.history(3)
        expected = [
            Link(Origin(session.id, 3), 3, Origin(session.id, 2), b"image 3"),
            Link(Origin(session.id, 2), 2, Origin(session.id, 1), b"image 2"),
            Link(Origin(session.id, 1), 1, None, b"image 1"),
        ]
        assert self.store.chain(Origin(session.id, 3)) == expected
        assert self.store.chain(Origin(session.id, 2)) == expected[1:]
        assert self.store.load(session.id).chain == expected

    def test_the_beginning_of_a_session_is_its_template(self) -> None:
        session = self.new_session()
        assert self.store.chain(Origin(session.id, 0)) == []
        assert self.store.load(session.id).chain == []

    def test_a_session_that_was_rewound_is_loaded_from_where_it_is(self) -> None:
        session, _ = self.history(3)
        session = self.change(session, {"head": 1})
        assert [link.at.number for link in self.store.load(session.id).chain] == [1]
        self.change(session, {"head": 0})
        assert self.store.load(session.id).chain == []

    def test_a_chain_may_skip_steps_and_be_14_links_long(self) -> None:
        session = self.new_session()
        execution = self.execution(session)
        base, steps = None, []
        for bit in range(14):
            number = (2 << bit) - 1
            steps.append(self.step(number, execution, base, depth=number))
            base = Origin(session.id, number)
        self.change(session, {"head": 16383, "steps": 16383}, steps=steps)
        assert [link.at.number for link in self.store.load(session.id).chain] == [(2 << bit) - 1 for bit in range(14)][::-1]

    def test_a_checkpoint_that_never_was_is_not_found(self) -> None:
        session, execution = self.history(1)
        self.change(session, {"steps": 2}, steps=[self.step(2, execution, checkpoint=None)])
        for at in (Origin(session.id, 2), Origin(session.id, 3), Origin(uuid4(), 1), Origin(uuid4(), 0)):
            with refused("CHECKPOINT_NOT_FOUND"):
                self.store.chain(at)
            with refused("CHECKPOINT_NOT_FOUND"):
                self.store.get_node(at)

    def test_nodes_tell_all_but_the_image(self) -> None:
        session, execution = self.history(1)
        checkpoint = Checkpoint(2, Origin(session.id, 1), b"x" * 1000, (4, 7), T0 + 9)
        events = [Event(seq, T0 + 5, "stdout", {"text": str(seq)}) for seq in (2, 3)]
        self.change(session, {"steps": 3}, steps=[Step(3, 1, execution.id, T0 + 5, 2, events, checkpoint)])
        assert self.store.step_events(Origin(session.id, 3)) == events
        assert self.store.step_events(Origin(session.id, 2)) == self.store.step_events(Origin(execution.id, 3)) == []
        expected = [
            Node(1, 0, execution.id, T0 + 1, 1, None, 7, ()),
            Node(3, 1, execution.id, T0 + 5, 2, Origin(session.id, 1), 1000, (4, 7), T0 + 9),
        ]
        assert self.store.list_nodes(session.id) == expected
        assert [self.store.get_node(Origin(session.id, number)) for number in (1, 3)] == expected
        assert self.store.list_nodes(uuid4()) == []

    def test_a_number_is_used_once(self) -> None:
        session, execution = self.history(2)
        again = self.commit(replace(session, version=session.version + 1), steps=[self.step(2, execution, sealed=b"other")])
        assert codes(self.store.commit([again])) in (["CONFLICT"], ["VERSION_CONFLICT"])
        assert self.store.chain(Origin(session.id, 2))[0].sealed == b"image 2"

    def test_an_image_of_20_megabytes_comes_back(self) -> None:
        session = self.new_session()
        execution, image = self.execution(session), bytes(range(256)) * 80_000
        self.change(session, {"head": 1, "steps": 1}, steps=[self.step(1, execution, sealed=image)])
        assert self.store.load(session.id).chain[0].sealed == image
        assert self.store.list_nodes(session.id)[0].size == len(image)

    # ---- forks

    def test_a_fork_begins_where_it_was_forked(self) -> None:
        session, _ = self.history(3)
        fork = self.fork(session, 2)
        expected = [(Origin(session.id, 2), b"image 2"), (Origin(session.id, 1), b"image 1")]
        assert self.numbers(Origin(fork.id, 0)) == expected
        assert self.store.load(fork.id).chain == self.store.chain(Origin(session.id, 2))
        again = self.fork(fork, 0)
        assert self.numbers(Origin(again.id, 0)) == expected

    def test_a_fork_of_a_beginning_is_the_template(self) -> None:
        fork = self.fork(self.new_session(), 0)
        assert self.store.chain(Origin(fork.id, 0)) == []
        assert self.store.load(self.fork(fork, 0).id).chain == []

    def test_a_chain_goes_on_across_forks(self) -> None:
        session, _ = self.history(2)
        fork = self.fork(session, 2)
        execution = self.execution(fork)
        steps = [self.step(1, execution, Origin(session.id, 2), depth=3), self.step(2, execution, Origin(fork.id, 1), depth=4)]
        self.change(fork, {"head": 2, "steps": 2}, new_executions=[execution], steps=steps)
        places = [Origin(fork.id, 2), Origin(fork.id, 1), Origin(session.id, 2), Origin(session.id, 1)]
        assert [link.at for link in self.store.load(fork.id).chain] == places
        assert self.store.get_node(Origin(fork.id, 1)).base == Origin(session.id, 2)

    def test_a_fork_from_nowhere_is_refused(self) -> None:
        session, _ = self.history(1)
        for origin in (Origin(session.id, 2), Origin(uuid4(), 1), Origin(uuid4(), 0)):
            fork = self.session(origin=origin)
            assert codes(self.store.commit([self.commit(fork, expected=None)])) == ["CHECKPOINT_NOT_FOUND"]

    def test_forks_are_listed(self) -> None:
        session, _ = self.history(2)
        forks = [self.fork(session, number, created_at=T0 + number) for number in (2, 1)]
        self.fork(forks[0], 0)
        assert self.store.list_forks(session.id) == forks
        assert self.store.list_forks(uuid4()) == []

    def dependent(self) -> tuple[Session, Session]:
        """A session, and a fork of its second step with a step on the first."""
        session, _ = self.history(2)
        fork = self.fork(session, 2)
        execution = self.execution(fork)
        step = self.step(1, execution, Origin(session.id, 1), depth=3, sealed=b"fork 1", open=(2,))
        return session, self.change(fork, {"head": 1, "steps": 1}, new_executions=[execution], steps=[step])

    def test_checkpoints_that_need_those_of_another_session_are_listed(self) -> None:
        session, fork = self.dependent()
        assert self.store.list_dependents(session.id) == [Link(Origin(fork.id, 1), 3, Origin(session.id, 1), b"fork 1")]
        assert self.store.list_dependents(fork.id) == []

    def test_a_step_on_a_checkpoint_of_another_session_that_went_away_is_refused(self) -> None:
        session, execution = self.history(3)
        fork = self.fork(session, 3)
        self.change(session, pruned=[1])
        for base in (Origin(session.id, 1), Origin(uuid4(), 1)):
            step = self.step(1, execution, base)
            assert codes(self.store.commit([self.commit(replace(fork, version=2), steps=[step])])) == ["VERSION_CONFLICT"]

    # ---- pruning

    def test_a_pruned_checkpoint_is_gone_and_its_events_stay(self) -> None:
        session, execution = self.history(3)
        rebased = Rebased(Origin(session.id, 3), Origin(session.id, 1), b"3 on 1")
        self.change(session, pruned=[2], rebased=[rebased])
        assert self.numbers(Origin(session.id, 3)) == [(Origin(session.id, 3), b"3 on 1"), (Origin(session.id, 1), b"image 1")]
        assert [node.number for node in self.store.list_nodes(session.id)] == [1, 3]
        with refused("CHECKPOINT_NOT_FOUND"):
            self.store.chain(Origin(session.id, 2))
        assert [event.seq for event in self.store.list_events(execution.id)] == [1, 2, 3]

    def test_a_rebased_checkpoint_stays_what_it_was_otherwise(self) -> None:
        session, _ = self.history(2)
        before = self.store.get_node(Origin(session.id, 2))
        self.change(session, rebased=[Rebased(Origin(session.id, 2), None, b"whole")], pruned=[1])
        assert self.store.get_node(Origin(session.id, 2)) == before._replace(base=None, size=5)

    def test_what_follows_a_pruned_checkpoint_follows_the_one_before_it(self) -> None:
        session, _ = self.history(3)
        self.change(session, rebased=[Rebased(Origin(session.id, 3), Origin(session.id, 1), b"merged")], pruned=[2])
        assert [(node.number, node.parent) for node in self.store.list_nodes(session.id)] == [(1, 0), (3, 1)]

    def test_a_checkpoint_that_a_fork_needs_cannot_be_pruned(self) -> None:
        session, fork = self.dependent()
        for number in (1, 2):  # the base of a step, and where it was forked
            commit = self.commit(replace(session, version=session.version + 1, name="pruned"), pruned=[number])
            assert codes(self.store.commit([commit])) == ["VERSION_CONFLICT"]
        assert self.store.get_session(session.id).name is None
        assert len(self.store.load(fork.id).chain) == 2
        rebased = [Rebased(Origin(fork.id, 1), None, b"own 1"), Rebased(Origin(fork.id, 0), None, b"own 0")]
        self.change(session, rebased=rebased, pruned=[1, 2])
        assert self.numbers(Origin(fork.id, 1)) == [(Origin(fork.id, 1), b"own 1")]
        assert self.numbers(Origin(fork.id, 0)) == [(Origin(fork.id, 0), b"own 0")]

    def test_rebasing_what_is_not_there_is_refused(self) -> None:
        session, _ = self.history(2)
        changed = replace(session, version=session.version + 1)
        for checkpoint in (Origin(session.id, 3), Origin(session.id, 0), Origin(uuid4(), 1)):
            commit = self.commit(changed, rebased=[Rebased(checkpoint, None, b"")])
            assert codes(self.store.commit([commit])) == ["CHECKPOINT_NOT_FOUND"]
        assert self.store.get_session(session.id) == session

    # ---- deleting

    def test_a_deleted_session_is_gone_with_all_it_had(self) -> None:
        session, execution = self.history(2)
        other, other_execution = self.history(2)
        for one in (session, other):
            self.change(one, asked=[self.query(one, 1)], errors=[self.error()])
        self.store.delete_session(session.id)
        with refused("SESSION_NOT_FOUND"):
            self.store.load(session.id)
        with refused("EXECUTION_NOT_FOUND"):
            self.store.list_events(execution.id)
        with refused("QUERY_NOT_FOUND"):
            self.store.get_query(session.id, 1)
        with refused("CHECKPOINT_NOT_FOUND"):
            self.store.chain(Origin(session.id, 1))
        assert self.store.list_nodes(session.id) == []
        assert self.store.list_errors(session.id).items == []
        assert [query.session_id for query in self.store.list_queries().items] == [other.id]
        assert [found.id for found in self.store.list_executions().items] == [other_execution.id]
        assert [found.id for found in self.store.list_sessions().items] == [other.id]
        assert len(self.store.load(other.id).chain) == 2
        assert codes(self.store.commit([self.commit(replace(session, version=99))])) == ["SESSION_NOT_FOUND"]

    def test_a_session_made_after_a_deleted_one_has_nothing_of_it(self) -> None:
        session, _ = self.history(2)
        self.change(session, asked=[self.query(session, 1)], errors=[self.error()])
        self.store.delete_session(session.id)
        for fresh in (self.new_session(), self.new_session(id=session.id)):
            loaded = self.store.load(fresh.id)
            assert (loaded.session, loaded.open, loaded.begun, loaded.chain) == (fresh, [], None, [])
            assert self.store.list_nodes(fresh.id) == []
            assert self.store.list_errors(fresh.id).items == []

    def test_a_session_that_forks_need_cannot_be_deleted(self) -> None:
        session, fork = self.dependent()
        step = Rebased(Origin(fork.id, 1), None, b"own 1")
        beginning = Rebased(Origin(fork.id, 0), None, b"own 0")
        for rebased in ([], [step], [beginning], [step, beginning._replace(base=Origin(session.id, 1))]):
            with refused("VERSION_CONFLICT"):
                self.store.delete_session(session.id, rebased)
        assert [link.sealed for link in self.store.load(fork.id).chain] == [b"fork 1", b"image 1"]
        assert [link.sealed for link in self.store.chain(Origin(fork.id, 0))] == [b"image 2", b"image 1"]

    def test_a_fork_outlives_what_it_was_forked_from(self) -> None:
        session, fork = self.dependent()
        own = [Rebased(Origin(fork.id, 1), Origin(fork.id, 0), b"1 on 0"), Rebased(Origin(fork.id, 0), None, b"own 0")]
        self.store.delete_session(session.id, own[::-1])
        assert self.store.get_session(fork.id) == fork
        expected = [
            Link(Origin(fork.id, 1), 3, Origin(fork.id, 0), b"1 on 0"),
            Link(Origin(fork.id, 0), 2, None, b"own 0"),
        ]
        assert self.store.load(fork.id).chain == expected
        assert self.store.chain(Origin(fork.id, 0)) == expected[1:]
        assert [node.number for node in self.store.list_nodes(fork.id)] == [1]
        assert self.store.get_node(Origin(fork.id, 1)).open == (2,)
        grandchild = self.fork(fork, 0)
        assert self.store.load(grandchild.id).chain == expected[1:]

    def test_a_beginning_of_its_own_may_lie_on_a_third_session(self) -> None:
        root, _ = self.history(2)
        middle = self.fork(root, 2)
        execution = self.execution(middle)
        step = self.step(1, execution, Origin(root.id, 2), depth=3)
        middle = self.change(middle, {"head": 1, "steps": 1}, new_executions=[execution], steps=[step])
        leaf = self.fork(middle, 1)
        self.store.delete_session(middle.id, [Rebased(Origin(leaf.id, 0), Origin(root.id, 1), b"leaf")])
        assert self.numbers(Origin(leaf.id, 0)) == [(Origin(leaf.id, 0), b"leaf"), (Origin(root.id, 1), b"image 1")]
        assert [link.at for link in self.store.list_dependents(root.id)] == [Origin(leaf.id, 0)]
        self.store.delete_session(root.id, [Rebased(Origin(leaf.id, 0), None, b"alone")])
        assert self.store.load(leaf.id).chain == [Link(Origin(leaf.id, 0), 3, None, b"alone")]

    def test_forks_of_a_beginning_do_not_keep_a_session(self) -> None:
        session, _ = self.history(1)
        fork = self.fork(session, 0)
        leaf = self.fork(fork, 0)
        self.store.delete_session(session.id)
        self.store.delete_session(fork.id)
        assert self.store.load(leaf.id).chain == []
        assert self.store.get_session(leaf.id).origin == Origin(fork.id, 0)
