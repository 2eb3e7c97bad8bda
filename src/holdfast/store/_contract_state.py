"""The contract, another part: values by namespace and key, which change with commits."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from holdfast.domain import Session, session_root, shared_root, template_root
from holdfast.store._contract_base import NASTY, T0, Samples, codes, pages
from holdfast.store.protocol import StateRow, StateWrite

SPACE = shared_root("scores")
OTHER = shared_root("scores2")


class StateContract(Samples):
    """The state."""

    def put(self, *writes: StateWrite, session: Session | None = None) -> list[str | None]:
        """What comes of a commit with these."""
        before = session or self.new_session()
        return codes(self.store.commit([self.commit(replace(before, version=before.version + 1), state=writes)]))

    def found(self, key: str, namespace: str = SPACE) -> StateRow:
        row = self.store.get_state(namespace, key)
        assert row is not None
        return row

    def test_a_value_comes_back_and_only_from_its_namespace(self) -> None:
        assert self.store.get_state(SPACE, NASTY) is None
        value = '{"a":[1,null,"' + "\\u0000 \U0001f980" + '"]}'
        assert self.put(StateWrite(SPACE, NASTY, value, 0, T0 + 5), StateWrite(OTHER, "b", "2")) == [None]
        self.store = self.reopen(self.store)
        row = self.found(NASTY)
        assert (row.key, row.value, row.expires_at) == (NASTY, value, T0 + 5)
        assert row.version != 0
        assert self.store.get_state(OTHER, NASTY) is None
        assert self.found("b", OTHER).expires_at is None

    def test_a_version_that_is_not_there_any_more_is_a_conflict(self) -> None:
        assert self.put(StateWrite(SPACE, "a", "1", 0)) == [None]
        first = self.found("a").version
        for stale in (
            StateWrite(SPACE, "a", "9", 0),
            StateWrite(SPACE, "a", "9", first + 1),
            StateWrite(SPACE, "b", "9", first),
        ):
            assert self.put(stale) == ["STATE_CONFLICT"]
        assert self.put(StateWrite(SPACE, "b", None, first)) == ["STATE_CONFLICT"]
        assert self.put(StateWrite(SPACE, "a", None, first + 1)) == ["STATE_CONFLICT"]
        assert self.found("a") == StateRow("a", "1", first)
        assert self.put(StateWrite(SPACE, "a", "2", first)) == [None]
        second = self.found("a").version
        assert self.put(StateWrite(SPACE, "a", "3")) == [None], "without one it is written whatever is there"
        assert self.put(StateWrite(SPACE, "a", None, self.found("a").version)) == [None]
        assert self.store.get_state(SPACE, "a") is None
        assert self.put(StateWrite(SPACE, "a", "4", 0)) == [None]
        assert len({first, second, self.found("a").version}) == 3, "a version is not used again"

    def test_a_commit_that_conflicts_writes_nothing_and_others_of_its_group_do(self) -> None:
        sessions = [self.new_session() for _ in range(3)]
        wishes = [
            [StateWrite(SPACE, "a", '"first"', 0)],
            [StateWrite(SPACE, "b", '"second"', 0), StateWrite(SPACE, "a", '"second"', 0)],
            [StateWrite(SPACE, "c", '"third"')],
        ]
        commits = [
            self.commit(replace(session, version=session.version + 1, name="changed"), state=writes)
            for session, writes in zip(sessions, wishes, strict=True)
        ]
        outcomes = codes(self.store.commit(commits))
        assert sorted(map(str, outcomes)) == ["None", "None", "STATE_CONFLICT"]
        names = [self.store.get_session(session.id).name for session in sessions]
        assert names == ["changed" if outcome is None else None for outcome in outcomes]
        loser = outcomes.index("STATE_CONFLICT")
        assert loser in (0, 1)
        assert self.found("a").value == ('"second"', '"first"')[loser]
        assert (self.store.get_state(SPACE, "b") is None) == (loser == 1)
        assert self.found("c").value == '"third"'

    def test_a_commit_that_is_refused_changes_no_state(self) -> None:
        session = self.new_session()
        late = self.commit(replace(session, version=9), state=[StateWrite(SPACE, "a", "1")])
        assert codes(self.store.commit([late])) == ["VERSION_CONFLICT"]
        assert self.store.get_state(SPACE, "a") is None

    def test_a_commit_that_is_sent_twice_changes_state_once(self) -> None:
        session = self.new_session()
        commit = self.commit(replace(session, version=session.version + 1), state=[StateWrite(SPACE, "a", "1", 0)])
        assert codes(self.store.commit([commit])) == [None]
        assert self.put(StateWrite(SPACE, "a", "2")) == [None]
        assert codes(self.store.commit([commit])) == [None]
        assert self.found("a").value == "2"

    def test_of_many_that_write_one_key_each_sees_the_one_before(self) -> None:
        sessions = [self.new_session() for _ in range(4)]
        together = threading.Barrier(4)

        def add(session: Session) -> None:
            together.wait()
            for _ in range(5):
                session = replace(session, version=session.version + 1)
                while True:
                    row = self.store.get_state(SPACE, "n")
                    value, version = (0, 0) if row is None else (int(row.value), row.version)
                    write = StateWrite(SPACE, "n", str(value + 1), version)
                    if codes(self.store.commit([self.commit(session, state=[write])])) == [None]:
                        break

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, sessions))
        assert self.found("n").value == "20"

    def test_keys_are_listed_sorted_without_those_whose_time_is_up(self) -> None:
        names = ["b", "a_1", "a%", "B", "a", "é", "\U0001f980", "a\U0001f980", "z" * 300]
        writes = [StateWrite(SPACE, name, "0") for name in names]
        late = [StateWrite(SPACE, "a later", "0", None, T0 + 1), StateWrite(SPACE, "a gone", "0", None, T0)]
        assert self.put(*writes, *late, StateWrite(OTHER, "a other", "0")) == [None]

        def listed(limit: int, **given: Any) -> list[list[str]]:
            return pages(lambda **page: self.store.list_state(SPACE, now=T0, **page), limit, **given)

        everything = sorted([*names, "a later"])
        assert listed(100) == [everything]
        assert listed(4) == [everything[:4], everything[4:8], everything[8:]]
        for prefix in ("a", "a_", "a%", "B", "nothing"):
            assert listed(100, prefix=prefix) == [[key for key in everything if key.startswith(prefix)]]
        assert listed(2, prefix="a")[1] == [key for key in everything if key.startswith("a")][2:4]

    def test_keys_are_counted_below_a_name(self) -> None:
        inner = SPACE + "inner/"
        writes = [StateWrite(SPACE, "a", "0"), StateWrite(inner, "a", "0"), StateWrite(inner, "b", "0", None, T0)]
        assert self.put(*writes, StateWrite(OTHER, "a", "0")) == [None]
        assert [self.store.count_state(root, T0) for root in (SPACE, inner, OTHER, shared_root("score"))] == [2, 1, 1, 0]

    def test_what_is_over_is_dropped(self) -> None:
        self.put(*(StateWrite(SPACE, str(n), "0", None, None if n == 0 else T0 + n) for n in range(4)))
        assert self.store.drop_state(T0) == 0
        assert self.found("1").expires_at == T0 + 1, "until then it is there, with its version"
        assert self.store.drop_state(T0 + 2) == 2
        assert [self.store.get_state(SPACE, str(n)) is None for n in range(4)] == [False, True, True, False]

    def test_what_belongs_to_a_session_or_a_template_goes_with_it(self) -> None:
        session, other = self.new_session(), self.new_session()
        mine = session_root(session.id), session_root(session.id) + "inner/", template_root(self.template.id)
        others = session_root(other.id), SPACE
        assert self.put(*(StateWrite(root, "a", "0") for root in (*mine, *others)), session=session) == [None]
        self.store.delete_session(session.id)
        assert [self.store.count_state(root, T0) for root in (*mine, *others)] == [0, 0, 1, 1, 1]
        for left in self.store.list_sessions().items:
            self.store.delete_session(left.id)
        self.store.delete_template(self.template.id)
        assert [self.store.count_state(root, T0) for root in (*mine, *others)] == [0, 0, 0, 0, 1]
