"""The contract, second part: executions with their events, and queries."""

from dataclasses import replace
from uuid import uuid4

from holdfast.domain import (
    Answer,
    Event,
    ExecutionKind,
    ExecutionStatus,
    Family,
    Metrics,
    QueryKind,
    QueryState,
    SessionState,
    Tokens,
)
from holdfast.store._contract_base import NASTY, T0, Samples, codes, full_execution, full_query, pages, refused
from holdfast.store.protocol import StrategyFigures


class RunContract(Samples):
    """What happens in sessions."""

    # ---- executions and events

    def test_an_execution_comes_back_with_every_field(self) -> None:
        session = self.new_session()
        execution = full_execution(session.id)
        self.change(session, {"execution_id": execution.id}, new_executions=[execution])
        assert self.store.get_execution(execution.id) == execution
        assert self.store.list_executions().items == [execution]
        assert self.store.load(session.id).execution == execution

    def test_an_execution_changes_as_it_runs(self) -> None:
        session, execution = self.history(1)
        end = full_execution(session.id)
        given = {
            name: getattr(execution, name)
            for name in ("id", "kind", "started_at", "first_step", "input", "path", "args", "env", "parent_id")
        }
        ended = replace(end, **given)
        self.change(session, executions=[ended])
        assert self.store.get_execution(execution.id) == ended

    def test_an_unknown_execution_is_not_found(self) -> None:
        with refused("EXECUTION_NOT_FOUND"):
            self.store.get_execution(uuid4())
        with refused("EXECUTION_NOT_FOUND"):
            self.store.list_events(uuid4())

    def test_an_execution_that_exists_cannot_be_new(self) -> None:
        session, execution = self.history(1)
        commit = self.commit(replace(session, version=session.version + 1), new_executions=[execution])
        assert codes(self.store.commit([commit])) in (["CONFLICT"], ["VERSION_CONFLICT"])

    def test_executions_are_listed_newest_first_and_filtered(self) -> None:
        first, second = self.new_session(), self.new_session()
        made = []
        for number in range(6):
            session = (first, second)[number % 2]
            status = ExecutionStatus.OK if number < 4 else ExecutionStatus.PAUSED
            made.append(self.execution(session, status=status, started_at=T0 + number))
        for session in (first, second):
            self.change(session, new_executions=[execution for execution in made if execution.session_id == session.id])

        def ids(*args: object, **filters: object) -> list[object]:
            return [execution.id for execution in self.store.list_executions(*args, **filters).items]  # type: ignore[arg-type]

        of_first = [execution.id for execution in made[::2]][::-1]
        assert ids(first.id) == of_first
        assert ids(first.id, statuses=[ExecutionStatus.PAUSED]) == [made[4].id]
        assert set(ids(statuses=[ExecutionStatus.PAUSED])) == {made[4].id, made[5].id}
        assert len(ids()) == 6
        assert ids(uuid4()) == []
        found = pages(lambda **page: self.store.list_executions(first.id, **page), 2)
        assert [[execution.id for execution in page] for page in found] == [of_first[:2], of_first[2:]]

    def test_executions_are_listed_by_kind_and_without_those_of_branches(self) -> None:
        root = self.new_session()
        branch = self.new_session(family=Family(root.id, root.id, 1, 0, 1))
        kinds = (ExecutionKind.STRATEGY, ExecutionKind.REPL, ExecutionKind.STRATEGY)
        made = [self.execution(root, kind=kind) for kind in kinds] + [self.execution(branch, kind=ExecutionKind.STRATEGY)]
        self.change(root, new_executions=made[:3])
        self.change(branch, new_executions=made[3:])

        def found(*args: object, **filters: object) -> list[int]:
            ids = [execution.id for execution in self.store.list_executions(*args, **filters).items]  # type: ignore[arg-type]
            return [[each.id for each in made].index(one) for one in ids]

        assert found(kinds=[ExecutionKind.STRATEGY]) == [3, 2, 0]
        assert found(kinds=[ExecutionKind.STRATEGY], roots=True) == [2, 0]
        assert found(roots=True) == [2, 1, 0]
        assert found(root.id, kinds=[ExecutionKind.REPL, ExecutionKind.STARTUP]) == [1]
        assert found(branch.id, roots=True) == []

    def test_executions_are_listed_by_the_name_of_their_strategy(self) -> None:
        session = self.new_session()
        kinds = {kind: {"kind": kind} for kind in (ExecutionKind.STRATEGY, ExecutionKind.RUN_FILE)}
        made = [self.execution(session, path=path, **kinds[kind]) for kind in kinds for path in ("b", "B", NASTY)]
        self.change(session, new_executions=made)
        for index, path in enumerate(("b", "B", NASTY)):
            for of in ((), (session.id,)):
                assert [one.id for one in self.store.list_executions(*of, strategy=path).items] == [made[index].id]
        assert self.store.list_executions(strategy="%").items == []
        assert self.store.list_executions(uuid4(), strategy="b").items == []

    def test_figures_of_strategies_that_have_ended_are_sums_by_name(self) -> None:
        root = self.new_session()
        branch = self.new_session(family=Family(root.id, root.id, 1, 0, 1))
        one = Metrics(7, 1, 1, 1, 1, 3, 1, 2, 10, 20, prompt_tokens=Tokens(30), answer_tokens=Tokens(40))
        nasty = Metrics(elapsed_ms=1 << 40)
        strategy = {"kind": ExecutionKind.STRATEGY, "metrics": one, "status": ExecutionStatus.OK}
        made = [
            self.execution(root, path="b", **strategy),
            self.execution(root, path="b", **strategy | {"status": ExecutionStatus.ERROR}),
            self.execution(root, path="B", **strategy, started_at=T0 - 1),
            self.execution(root, path=NASTY, **strategy | {"metrics": nasty}),
            self.execution(root, path="b", **strategy | {"kind": ExecutionKind.RUN_FILE}),
            self.execution(root, path="b", **strategy | {"status": ExecutionStatus.PAUSED}),
            self.execution(root, path="c", **strategy | {"status": ExecutionStatus.RUNNING}),
        ]
        self.change(root, new_executions=made)
        self.change(branch, new_executions=[self.execution(branch, path="b", **strategy)])
        twice = StrategyFigures("b", 2, 14, 4, 6, 20, 40, 60, 80)
        large = StrategyFigures(NASTY, 1, 1 << 40, 0, 0, 0, 0, 0, 0)
        once = StrategyFigures("B", 1, 7, 2, 3, 10, 20, 30, 40)
        assert self.store.strategy_figures() == [once, twice, large]
        assert self.store.strategy_figures(T0) == [twice, large]
        assert self.store.strategy_figures(T0 + 1) == []

    def test_branches_are_orphans_when_nobody_waits_for_their_fork(self) -> None:
        root = self.new_session(state=SessionState.PAUSED)
        states = (SessionState.PAUSED, SessionState.RUNNING, SessionState.READY, SessionState.CLOSED)
        families = [Family(root.id, root.id, 3, index, 1) for index in range(len(states))]
        made = [self.new_session(state=state, family=family) for state, family in zip(states, families, strict=True)]
        self.new_session(state=SessionState.PAUSED)
        grandchild = self.new_session(state=SessionState.PAUSED, family=Family(root.id, made[0].id, 1, 0, 2))
        fork = self.query(root, 3, kind=QueryKind.TOOL, payload={"name": "holdfast.fork"})
        root = self.change(root, asked=[self.query(root, 2), fork])
        self.change(made[0], asked=[self.query(made[0], 1, kind=QueryKind.TOOL, payload={"name": "holdfast.fork"})])
        assert self.store.list_orphans() == []
        self.change(root, closed=[replace(fork, state=QueryState.CANCELLED)])
        found = self.store.list_orphans()
        assert [(each.id, each.family) for each in found] == [(each.id, each.family) for each in made[:2]]
        assert [each.id for each in self.store.list_orphans(limit=1)] == [made[0].id]
        self.store.delete_session(root.id)
        self.store.delete_session(made[0].id)
        assert [each.id for each in self.store.list_orphans()] == [made[1].id, grandchild.id]

    def test_events_come_in_order_and_from_where_one_asks(self) -> None:
        session = self.new_session()
        execution = self.execution(session, first_step=1, last_step=3, seq=7)
        events = [Event(seq, T0 + seq, "console", {"text": NASTY, "n": seq, "deep": [[None, 1.5]]}) for seq in range(1, 8)]
        steps = [
            self.step(1, execution, events=events[:3], first_seq=1),
            self.step(2, execution, events=[], first_seq=4),
            self.step(3, execution, events=events[3:], first_seq=4, checkpoint=None),
        ]
        self.change(session, new_executions=[execution], steps=steps)
        assert self.store.list_events(execution.id) == events
        assert self.store.list_events(execution.id, after_seq=2) == events[2:]
        assert self.store.list_events(execution.id, after_seq=2, limit=3) == events[2:5]
        assert self.store.list_events(execution.id, after_seq=7) == []

    def test_events_of_two_executions_in_one_session_stay_apart(self) -> None:
        session, first = self.history(2)
        second = self.execution(session, first_step=3, last_step=3, seq=1)
        session = self.change(session, new_executions=[second], steps=[self.step(3, second, first_seq=1)])
        again = replace(first, last_step=4, seq=3)
        self.change(session, executions=[again], steps=[self.step(4, first, first_seq=3)])
        assert [event.payload["text"] for event in self.store.list_events(first.id)] == ["step 1", "step 2", "step 4"]
        assert [event.payload["text"] for event in self.store.list_events(second.id)] == ["step 3"]

    # ---- queries

    def test_a_query_comes_back_with_every_field(self) -> None:
        session = self.new_session()
        query = full_query(session.id, 3)
        self.change(session, asked=[query])
        assert self.store.get_query(session.id, 3) == query
        assert self.store.list_queries().items == [query]

    def test_a_query_is_answered(self) -> None:
        session = self.new_session()
        query, other = self.query(session, 1), self.query(session, 2)
        session = self.change(session, asked=[query, other])
        for answer in (
            Answer(None),
            Answer({"a": [NASTY]}, None, {"tokens": 2}),
            Answer(error={"message": "no"}),
            Answer(False),
        ):
            closed = replace(query, state=QueryState.ANSWERED, started_at=T0 + 5, closed_at=T0 + 6, answer=answer)
            session = self.change(session, closed=[closed])
            assert self.store.get_query(session.id, 1) == closed
        assert self.store.get_query(session.id, 2) == other

    def test_an_unknown_query_is_not_found(self) -> None:
        session = self.new_session()
        self.change(session, asked=[self.query(session, 1)])
        for session_id, number in ((session.id, 2), (session.id, 0), (session.id, -1), (session.id, 1 << 40), (uuid4(), 1)):
            with refused("QUERY_NOT_FOUND"):
                self.store.get_query(session_id, number)

    def test_only_open_queries_are_loaded(self) -> None:
        session = self.new_session()
        queries = [self.query(session, number) for number in range(1, 13)]
        session = self.change(session, asked=queries)
        closed = [replace(query, state=QueryState.EXPIRED) for query in queries[1::2]]
        self.change(session, closed=closed)
        assert self.store.load(session.id).open == queries[::2]

    def test_queries_are_listed_oldest_first_in_pages(self) -> None:
        first, second = self.new_session(), self.new_session()
        of_first = [self.query(first, n, asked_at=T0 + t) for n, t in ((1, 10), (2, 30), (3, 30), (4, 50))]
        of_second = [self.query(second, n, asked_at=T0 + t) for n, t in ((1, 20), (2, 40), (3, 60))]
        self.change(first, asked=of_first)
        self.change(second, asked=of_second)
        everything = sorted(of_first + of_second, key=lambda query: query.asked_at)
        for filters in ({}, {"states": [QueryState.OPEN]}):
            assert [query for page in pages(self.store.list_queries, 2, **filters) for query in page] == everything
            in_first = pages(lambda **page: self.store.list_queries(first.id, **page), 3, **filters)
            assert in_first == [of_first[:3], of_first[3:]]

    def test_queries_are_filtered(self) -> None:
        session, other = self.new_session(), self.new_session()
        execution = self.execution(session)
        a = self.query(session, 1, execution)
        b = self.query(session, 2, kind=QueryKind.ASK, payload={"question": "?"})
        c = self.query(session, 3, execution, state=QueryState.ANSWERED)
        d = self.query(other, 1, kind=QueryKind.TIMER, payload={"wake_at": 1})
        self.change(session, new_executions=[execution], asked=[a, b, c])
        self.change(other, asked=[d])

        def numbers(*args: object, **filters: object) -> list[tuple[object, int]]:
            found = self.store.list_queries(*args, **filters).items  # type: ignore[arg-type]
            return [("other" if query.session_id == other.id else "", query.number) for query in found]

        assert numbers(session.id) == [("", 1), ("", 2), ("", 3)]
        assert numbers(session.id, states=[QueryState.OPEN]) == [("", 1), ("", 2)]
        assert numbers(execution_id=execution.id) == [("", 1), ("", 3)]
        assert numbers(session.id, execution_id=execution.id, states=[QueryState.ANSWERED]) == [("", 3)]
        assert numbers(other.id, execution_id=execution.id) == []
        assert sorted(numbers(kinds=[QueryKind.ASK, QueryKind.TIMER])) == [("", 2), ("other", 1)]
        assert numbers(states=[QueryState.OPEN], kinds=[QueryKind.TIMER]) == [("other", 1)]
        assert numbers(states=[QueryState.CANCELLED]) == numbers(uuid4()) == numbers(execution_id=uuid4()) == []

    def test_pages_of_open_queries_go_on_while_some_are_asked_and_answered(self) -> None:
        session = self.new_session()
        queries = [self.query(session, number) for number in range(1, 7)]
        session = self.change(session, asked=queries)
        first = self.store.list_queries(states=[QueryState.OPEN], limit=2)
        closed = [replace(query, state=QueryState.ANSWERED) for query in queries[1:3]]
        self.change(session, closed=closed, asked=[self.query(session, 7)])
        rest = self.store.list_queries(states=[QueryState.OPEN], limit=10, after=first.next)
        assert [query.number for query in first.items + rest.items] == [1, 2, 4, 5, 6, 7]
