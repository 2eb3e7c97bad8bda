"""The contract, another part: the step that is under way, and its effects, which are appended."""

from dataclasses import replace
from itertools import pairwise

from holdfast.domain import Execution, Session, shared_root
from holdfast.store._contract_base import NASTY, T0, Samples, codes
from holdfast.store.protocol import Begun, Effect, StateWrite

SPACE = shared_root("journal")


def effect(number: int, *, known: bool = True) -> Effect:
    return Effect("f", f"hash {number}", f"v{number}" if known else None, number + 0.5)


class JournalContract(Samples):
    """Steps under way."""

    def under_way(self, *effects: Effect) -> tuple[Session, Execution]:
        session, execution = self.history(1)
        return self.change(session, begun=self.begun_with(execution, *effects)), execution

    def begun_with(self, execution: Execution, *effects: Effect, since: int = 0, attempts: int = 1) -> Begun:
        return Begun(execution.id, {"code": "x"}, T0 + 0.5, list(effects), attempts, since)

    def effects(self, session: Session) -> list[Effect]:
        begun = self.store.load(session.id).begun
        assert begun is not None
        assert begun.since == 0
        return begun.effects

    def test_a_step_under_way_is_known_until_it_is_over(self) -> None:
        session, execution = self.history(1)
        assert self.store.load(session.id).begun is None
        effects = [Effect("http.get", "hash", None, 1.25), Effect(NASTY, "", '{"a":1}' + NASTY, T0 + 0.125)]
        begun = Begun(execution.id, {"kind": "resume", "answers": [[1, NASTY]]}, T0 + 0.5, effects, 3)
        session = self.change(session, begun=begun)
        assert self.store.load(session.id).begun == begun
        longer = replace(begun, effects=[*effects, Effect("f", "h", None, 2.0)], attempts=4)
        session = self.change(session, begun=longer)
        assert self.store.load(session.id).begun == longer
        session = self.change(session)
        self.store = self.reopen(self.store)
        assert self.store.load(session.id).begun == longer
        session = self.change(session, ended=True)
        assert self.store.load(session.id).begun is None
        session = self.change(session, ended=True)
        self.change(session, begun=replace(begun, effects=[]))
        assert self.effects(session) == []

    def test_effects_are_appended_and_an_intent_gets_its_reply(self) -> None:
        session, execution = self.under_way()
        session = self.change(session, begun=self.begun_with(execution, effect(0), effect(1, known=False)))
        assert self.effects(session) == [effect(0), effect(1, known=False)]
        session = self.change(session, begun=self.begun_with(execution, effect(1), effect(2, known=False), since=1))
        assert self.effects(session) == [effect(0), effect(1), effect(2, known=False)]
        session = self.change(session, begun=self.begun_with(execution, since=3, attempts=7))
        begun = self.store.load(session.id).begun
        assert begun == self.begun_with(execution, effect(0), effect(1), effect(2, known=False), attempts=7)

    def test_what_comes_after_those_that_are_written_goes(self) -> None:
        session, execution = self.under_way(*map(effect, range(5)))
        session = self.change(session, begun=self.begun_with(execution, effect(9), since=2))
        assert self.effects(session) == [effect(0), effect(1), effect(9)]
        session = self.change(session, begun=self.begun_with(execution, since=1))
        assert self.effects(session) == [effect(0)]
        session = self.change(session, begun=self.begun_with(execution, effect(1), since=1))
        assert self.effects(session) == [effect(0), effect(1)]
        self.change(session, begun=self.begun_with(execution))
        assert self.effects(session) == []

    def test_ten_thousand_effects_come_in_their_order(self) -> None:
        session, execution = self.under_way()
        effects = [effect(number) for number in range(10_000)]
        for since, until in pairwise((0, 9, 10, 9_990, 10_000)):
            session = self.change(session, begun=self.begun_with(execution, *effects[since:until], since=since))
        assert self.effects(session) == effects
        session = self.change(session, ended=True)
        assert self.store.load(session.id).begun is None

    def test_a_commit_that_is_refused_leaves_them_as_they_are(self) -> None:
        session, execution = self.under_way(effect(0), effect(1, known=False))
        other, its_execution = self.under_way(effect(5))
        begun = self.begun_with(execution, effect(9), since=0)
        later = replace(session, version=session.version + 1)
        well = self.commit(replace(other, version=other.version + 1), begun=self.begun_with(its_execution, effect(6), since=1))
        outcomes = self.store.commit(
            [
                self.commit(later, fence=session.fence + 1, begun=begun),
                self.commit(later, expected=session.version - 1, begun=begun),
                self.commit(later, fence=session.fence + 1, ended=True),
                well,
            ]
        )
        assert codes(outcomes) == ["LEASE_LOST", "VERSION_CONFLICT", "LEASE_LOST", None]
        assert self.effects(session) == [effect(0), effect(1, known=False)]
        assert self.effects(other) == [effect(5), effect(6)]
        stale = [StateWrite(SPACE, "a", "1", expected=5)]
        for parts in ({"begun": begun}, {"ended": True}, {"begun": self.begun_with(execution, since=1)}):
            assert codes(self.store.commit([self.commit(later, state=stale, **parts)])) == ["STATE_CONFLICT"]
            assert self.effects(session) == [effect(0), effect(1, known=False)]

    def test_a_commit_that_is_sent_twice_appends_once(self) -> None:
        session, execution = self.under_way(effect(0))
        begun = self.begun_with(execution, effect(1), effect(2), since=1)
        commit = self.commit(replace(session, version=session.version + 1), begun=begun)
        for _ in range(2):
            assert codes(self.store.commit([commit])) == [None]
            assert self.effects(session) == [effect(0), effect(1), effect(2)]

    def test_they_go_with_their_session_and_no_other_one_gets_them(self) -> None:
        kept, _ = self.under_way(effect(0), effect(1))
        gone, _ = self.under_way(*map(effect, range(3)))
        self.store.delete_session(gone.id)
        fresh, execution = self.history(1)
        assert self.store.load(fresh.id).begun is None
        self.change(fresh, begun=self.begun_with(execution, effect(7)))
        assert (self.effects(kept), self.effects(fresh)) == ([effect(0), effect(1)], [effect(7)])
