"""The contract of tenants and of the audit log."""

from dataclasses import replace
from typing import Final
from uuid import uuid4

from holdfast.domain import AuditEntry, ExecutionKind, ExecutionStatus, QueryState, SessionState
from holdfast.store._contract_base import NASTY, T0, Samples, pages, refused

FIRST: Final = "t1"
SECOND: Final = "t2"


class TenantContract(Samples):
    """Sessions and templates belong to tenants, and lists can be confined to one."""

    def test_tenant_and_token_of_a_session_stay(self) -> None:
        session = self.new_session(tenant="a", token=FIRST)
        self.change(session, {"tenant": "b", "token": "t2"})
        found = self.store.get_session(session.id)
        assert (found.tenant, found.token) == ("a", "t1")
        loaded = self.store.load(session.id).session
        assert loaded.principal == ("a", "t1")

    def test_the_owner_of_a_session_and_of_an_execution(self) -> None:
        session = self.new_session(tenant=NASTY)
        execution = self.execution(session, status=ExecutionStatus.OK, ended_at=T0)
        self.change(session, new_executions=[execution])
        assert self.store.owner_of_session(session.id) == NASTY
        assert self.store.owner_of_execution(execution.id) == NASTY
        with refused("SESSION_NOT_FOUND"):
            self.store.owner_of_session(execution.id)
        with refused("EXECUTION_NOT_FOUND"):
            self.store.owner_of_execution(session.id)

    def test_sessions_are_listed_and_counted_by_tenant(self) -> None:
        mine = [self.new_session(tenant="a", name=name) for name in ("x", "y", "x")]
        other = self.new_session(tenant="b", name="x", state=SessionState.CLOSED)
        default = self.new_session(name="x")
        ids = [session.id for session in reversed(mine)]
        assert [[one.id for one in page] for page in pages(self.store.list_sessions, 2, tenant="a")] == [ids[:2], ids[2:]]
        assert [one.id for one in self.store.list_sessions(tenant="a", name="x").items] == [ids[0], ids[2]]
        assert [one.id for one in self.store.list_sessions(tenant="b", states=[SessionState.CLOSED]).items] == [other.id]
        assert self.store.list_sessions(tenant="b", states=[SessionState.READY]).items == []
        assert [one.id for one in self.store.list_sessions(tenant="default").items] == [default.id]
        assert self.store.list_sessions(tenant="nobody").items == []
        assert len(self.store.list_sessions(template_id=self.template.id, tenant="a").items) == 3
        assert len(self.store.list_sessions().items) == 5
        assert self.store.count_sessions(tenant="a") == {SessionState.READY: 3}
        assert self.store.count_sessions(tenant="b") == {SessionState.CLOSED: 1}
        assert self.store.count_sessions(tenant="nobody") == {}
        assert sum(self.store.count_sessions().values()) == 5

    def test_names_of_templates_are_unique_within_a_tenant(self) -> None:
        mine, other = self.new_template("same", "a"), self.new_template("same", "b")
        default = self.new_template("same")
        assert self.store.get_template("same", tenant="a") == mine
        assert self.store.get_template("same", tenant="b") == other
        assert self.store.get_template("same") == default
        with refused("NAME_TAKEN"):
            self.new_template("same", "a")
        with refused("NAME_TAKEN"):
            self.store.rename_template(self.new_template("else", "a").id, "same", T0)
        only = self.new_template("only", "b")
        self.store.rename_template(mine.id, "only", T0)
        assert self.store.get_template("only", tenant="b") == only

    def test_a_template_of_another_tenant_is_not_found(self) -> None:
        template = self.new_template(NASTY, NASTY)
        assert self.store.get_template(template.id) == template
        assert self.store.get_template(template.id, tenant=NASTY) == template
        assert self.store.get_template(NASTY, tenant=NASTY) == template
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.get_template(template.id, tenant="b")
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.get_template(NASTY)
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.get_template("first", tenant="b")

    def test_templates_are_listed_by_tenant(self) -> None:
        mine = [self.new_template(name, "a") for name in "xyz"]
        self.new_template("x", "b")
        names = [[one.name for one in page] for page in pages(self.store.list_templates, 2, tenant="a")]
        assert names == [["z", "y"], ["x"]]
        assert [one.tenant for one in self.store.list_templates(tenant="b").items] == ["b"]
        assert len(self.store.list_templates().items) == len(mine) + 2

    def test_runs_are_listed_and_summed_by_tenant(self) -> None:
        for tenant, number in (("a", 2), ("b", 1)):
            session = self.new_session(tenant=tenant)
            made = [
                self.execution(session, kind=ExecutionKind.STRATEGY, path="p", status=ExecutionStatus.OK, ended_at=T0)
                for _ in range(number)
            ]
            self.change(session, new_executions=made)
        assert len(self.store.list_executions(tenant="a").items) == 2
        assert len(self.store.list_executions(tenant="b", strategy="p", roots=True).items) == 1
        assert self.store.list_executions(tenant="c").items == []
        assert self.store.list_executions(session.id, tenant="a").items == []
        assert [figures.count for figures in self.store.strategy_figures(tenant="a")] == [2]
        assert [figures.count for figures in self.store.strategy_figures()] == [3]
        assert self.store.strategy_figures(tenant="c") == []

    def test_queries_are_listed_by_tenant(self) -> None:
        for tenant in ("a", "b", "a"):
            session = self.new_session(tenant=tenant)
            self.change(session, asked=[self.query(session, number) for number in (1, 2)])
        for states in ([QueryState.OPEN], []):
            found = pages(self.store.list_queries, 3, tenant="a", states=states)
            assert [len(page) for page in found] == [3, 1]
            assert {self.store.get_session(query.session_id).tenant for page in found for query in page} == {"a"}
            assert self.store.list_queries(tenant="c", states=states).items == []
        assert self.store.list_queries(session.id, tenant="b").items == []
        assert len(self.store.list_queries(session.id, tenant="a").items) == 2

    def test_the_feed_of_a_tenant_passes_over_the_steps_of_others(self) -> None:
        mine, _ = self.history(2, tenant="a")
        self.history(30, tenant="b")
        later, _ = self.history(1, tenant="a")
        told, after = [], None
        for _ in range(100):
            page = self.store.list_steps(tenant="a", after=after, limit=2)
            if not page:
                break
            assert all(step.number for step in page[:-1]), "only the last may stand for those of others"
            assert all(not step.events and step.session_id.int == 0 for step in page if not step.number)
            told += [(step.session_id, step.number) for step in page if step.number]
            after = page[-1].cursor
        assert told == [(mine.id, 1), (mine.id, 2), (later.id, 1)]
        self.history(30, tenant="b")
        passed = self.store.list_steps(tenant="a", after=after, limit=5)
        assert [step.number for step in passed] == [0]
        assert self.store.list_steps(tenant="a", after=passed[0].cursor) == []
        assert len(self.store.list_steps(limit=500)) == 63

    def test_a_session_of_an_old_template_row_is_of_the_default_tenant(self) -> None:
        assert self.store.get_template(self.template.id).tenant == "default"
        assert self.new_session().tenant == "default"


class AuditContract(Samples):
    """The audit log."""

    def entry(self, **given: object) -> AuditEntry:
        return replace(AuditEntry(T0, "POST /sessions", "ok"), **given)  # type: ignore[arg-type]

    def test_an_entry_comes_back_with_every_field(self) -> None:
        entry = AuditEntry(
            T0, NASTY, "FORBIDDEN", 403, NASTY, "t1", NASTY, "session", str(uuid4()), "rest", "::1", "r", 1 << 40
        )
        self.store.append_audit([entry])
        assert self.store.list_audit().items == [entry]
        self.store = self.reopen(self.store)
        assert self.store.list_audit().items == [entry]

    def test_entries_are_listed_newest_first_in_pages(self) -> None:
        entries = [self.entry(at=T0 + number, request_id=str(number)) for number in range(7)]
        self.store.append_audit(entries[:4])
        self.store.append_audit([])
        self.store.append_audit(entries[4:])
        found = pages(self.store.list_audit, 3)
        assert [len(page) for page in found] == [3, 3, 1]
        assert [entry for page in found for entry in page] == entries[::-1]

    def test_entries_are_filtered(self) -> None:
        entries = [
            self.entry(at=T0, tenant="a", token=FIRST, action="x", object_id="o1"),
            self.entry(at=T0 + 1, tenant="a", token=SECOND, action="y", object_id="o2", outcome="NOT_FOUND"),
            self.entry(at=T0 + 2, tenant="b", token=FIRST, action="y", object_id="o1", outcome="NOT_FOUND"),
        ]
        self.store.append_audit(entries)
        first, second, third = entries
        assert self.store.list_audit(tenant="a").items == [second, first]
        assert self.store.list_audit(token=FIRST).items == [third, first]
        assert self.store.list_audit(action="y", tenant="a").items == [second]
        assert self.store.list_audit(object_id="o1").items == [third, first]
        assert self.store.list_audit(outcome="NOT_FOUND").items == [third, second]
        assert self.store.list_audit(since=T0 + 1, until=T0 + 2).items == [second]
        assert self.store.list_audit(tenant="c").items == []

    def test_the_retention_sweep_drops_the_oldest_in_batches(self) -> None:
        self.store.append_audit([self.entry(at=T0 + number) for number in range(5)])
        assert self.store.drop_audit(T0) == 0
        assert self.store.drop_audit(T0 + 4, limit=3) == 3
        assert [entry.at for entry in self.store.list_audit().items] == [T0 + 4, T0 + 3]
        assert self.store.drop_audit(T0 + 4, limit=3) == 1
        assert [entry.at for entry in self.store.list_audit().items] == [T0 + 4]
