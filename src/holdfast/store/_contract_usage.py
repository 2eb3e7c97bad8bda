"""Usage: what commits add to it for tenants, tokens and families of forks, and what deletions give back."""

from dataclasses import replace

from holdfast.domain import Amounts, Usage, VersionConflict
from holdfast.store._contract_base import NASTY, Samples
from holdfast.store.protocol import Commit, Used, family_scope, tenant_scope

HOUR = 500_000
TOKEN = "t1"  # noqa: S105 - the id of one


class UsageContract(Samples):
    """Usage over time."""

    def used(self, scope: str, hour: int = HOUR) -> dict[tuple[str, bool], tuple[int, ...]]:
        """By member, and whether it is that of the hour."""
        return {(row.member, bool(row.hour)): (*row.amounts, row.sessions) for row in self.store.read_usage(scope, hour)}

    def test_a_commit_adds_to_tenant_and_token(self) -> None:
        one = self.new_session(tenant=NASTY, token=TOKEN)
        two = self.new_session(tenant=NASTY, token=NASTY)
        for _ in range(2):
            one = self.change(one, used=Used(HOUR, Amounts(1_000, 1, 3, 200)))
        self.change(one, used=Used(HOUR + 1, Amounts(5, 1, 1, 1)))
        self.change(two, used=Used(HOUR, Amounts(7, 1, 1, 1), freed=50))
        assert self.used(tenant_scope(NASTY)) == {
            (TOKEN, True): (2_000, 2, 6, 400, 0),
            (TOKEN, False): (2_005, 3, 7, 401, 1),
            (NASTY, True): (7, 1, 1, 1, 0),
            (NASTY, False): (7, 1, 1, -49, 1),
        }
        assert self.used(tenant_scope("other")) == {}

    def test_a_commit_that_is_refused_adds_nothing(self) -> None:
        session = self.new_session()
        self.change(session, used=Used(HOUR, Amounts(1, 1, 1, 1)))
        late = replace(session, version=session.version + 1)
        used = Used(HOUR, Amounts(100, 100, 100, 100))
        (error,) = self.store.commit([Commit(late, session.version, session.fence, 77, used=used)])
        assert isinstance(error, VersionConflict)
        assert self.used(tenant_scope(session.tenant))["", True] == (1, 1, 1, 1, 0)

    def test_a_commit_that_is_written_twice_counts_once(self) -> None:
        session = self.new_session()
        late = replace(session, version=session.version + 1)
        commit = Commit(late, session.version, session.fence, 77, used=Used(HOUR, Amounts(1, 1, 1, 1)))
        assert self.store.commit([commit]) == self.store.commit([commit]) == [None]
        assert self.used(tenant_scope(session.tenant))["", True] == (1, 1, 1, 1, 0)

    def test_deleting_gives_back_what_was_stored(self) -> None:
        kept, gone = self.new_session(), self.new_session()
        usage = Usage().plus(Amounts(9, 1, 4, 300), HOUR)
        self.change(gone, {"usage": usage}, used=Used(HOUR, Amounts(9, 1, 4, 300)))
        self.store.delete_session(gone.id)
        assert self.used(tenant_scope(kept.tenant)) == {("", False): (9, 1, 0, 0, 1), ("", True): (9, 1, 4, 300, 0)}

    def test_forks_count_together(self) -> None:
        root = self.new_session()
        for _ in range(3):
            fork = self.new_session(usage=Usage(root=root.id))
            self.change(fork, used=Used(HOUR, Amounts(2, 1, 1, 1)))
        assert self.used(family_scope(root.id))["", True] == (6, 3, 3, 3, 0)
        self.store.delete_session(root.id)
        assert self.used(family_scope(root.id)) == {}

    def test_hours_that_are_over_are_forgotten(self) -> None:
        session = self.new_session()
        self.change(session, used=Used(HOUR, Amounts(2, 1, 1, 1)))
        assert (self.store.drop_usage(HOUR), self.store.drop_usage(HOUR + 1)) == (0, 1)
        assert list(self.used(tenant_scope(session.tenant))) == [("", False)]
