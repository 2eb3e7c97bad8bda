"""What a script asks: which queries it may ask, and what of its budget is left.

A query that may not be asked, because its payload is wrong or it would exceed a budget, raises in the script at once, in the same step.
What time it is says whoever runs the step.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.domain import (
    Budget,
    BudgetExceeded,
    EventType,
    Execution,
    HoldfastError,
    InvalidValue,
    Metrics,
    Query,
    QueryKind,
    Session,
    Spent,
    check_payload,
    least_left,
    prompt_size,
)
from holdfast.runtime import branches
from holdfast.runtime._errors import ForkLimit
from holdfast.runtime._plain import plain
from holdfast.runtime.resident import Resident
from holdfast.sandbox import Failure
from holdfast.sandbox import Query as ScriptQuery

_QUERY: Final = EventType.QUERY.value
_SYSTEM: Final = EventType.SYSTEM.value


class Asking:
    """Takes the queries of one step. `put` adds an event to it."""

    def __init__(self, resident: Resident, execution: Execution, put: Callable[[str, dict[str, Any]], None]) -> None:
        self._resident, self._execution, self._put = resident, execution, put
        self.asked: list[Query] = []
        self._waits: dict[str, int] = {}
        """For how many calls of native modules the step waits, by module."""
        self._before: tuple[int, int, Metrics] | None = None
        """Counters before the first query of a step that goes on after it."""

    def ask(self, queries: Iterable[ScriptQuery], now: int) -> dict[int, Failure]:
        """Takes the queries that may be asked; gives those that may not, with why."""
        refused: dict[int, Failure] = {}
        valid: list[tuple[ScriptQuery, QueryKind, dict[str, Any], tuple[int, int]]] = []
        calls = total = 0
        for query in queries:
            payload = plain(query.payload)
            try:
                kind = self._checked(query.kind, payload)
            except InvalidValue as error:
                refused[query.id] = self._refuse(error, "TypeError")
                continue
            except ForkLimit as error:
                refused[query.id] = self._refuse(error, "Error")
                continue
            prompt = 0, 0
            if kind is QueryKind.LLM:
                prompt = prompt_size(payload)
                calls += 1
                total += prompt[1]
            elif kind is QueryKind.TOOL and (excess := self._too_many(payload["name"])) is not None:
                refused[query.id] = excess
                continue
            valid.append((query, kind, payload, prompt))
        over = self._over_budget(calls, total, now) if calls else None
        if (over is not None or refused) and self._before is None:
            session = self._resident.session
            self._before = session.llm_calls, session.tokens, self._execution.metrics.copy()
        for query, kind, payload, prompt in valid:
            if over is not None and kind is QueryKind.LLM:
                refused[query.id] = over
            else:
                self.add(query.id, kind, payload, now, prompt)
        return refused

    def add(
        self, guest_id: int | None, kind: QueryKind, payload: dict[str, Any], now: int, prompt: tuple[int, int] = (0, 0)
    ) -> None:
        """One more query. `prompt` are its characters and tokens, if it is for a model."""
        session, execution = self._resident.session, self._execution
        session.queries += 1
        timeout = payload.get("timeout_ms")
        deadline = None if timeout is None else math.ceil(now + timeout)
        query = Query(session.id, session.queries, execution.id, kind, payload, now, guest_id, deadline=deadline)
        self._resident.open[query.number] = query
        self.asked.append(query)
        if kind is QueryKind.TIMER:
            return
        metrics = execution.metrics
        metrics.queries += 1
        if kind is QueryKind.LLM:
            metrics.ask(*prompt)
            session.llm_calls += 1
            session.tokens += prompt[1]
        self._put(_QUERY, {"query_id": query.id, "kind": kind._value_})

    def as_it_began(self, session: Session, execution: Execution) -> None:
        """What the step has counted so far is counted again when it is run again."""
        if self._before is not None:
            session.llm_calls, session.tokens, execution.metrics = self._before

    def left(self, now: int) -> dict[str, int | None] | None:
        """What is left of the budgets of the execution and its session, the least of both; None if there is none."""
        least = least_left(self._budgets(now))
        if least is not None and branches.is_held(self._resident.open.values()):
            least |= {name: 0 for name in ("llm_calls", "tokens") if least[name] is not None}
        return least

    def _checked(self, kind: str, payload: Any) -> QueryKind:
        found = check_payload(kind, payload)
        if found is QueryKind.TOOL and payload["name"].startswith(branches.PREFIX):
            if payload["name"] != branches.FORK:
                raise InvalidValue(f"tool: there is no {payload['name'][:40]!r}, or not so")
            branches.check_fork(self._resident.session, payload)
        return found

    def _budgets(self, now: int) -> list[tuple[Budget, Spent]]:
        execution, session = self._execution, self._resident.session
        found: list[tuple[Budget, Spent]] = []
        if execution.budget is not None:
            metrics = execution.metrics
            metrics.elapsed_ms = now - execution.started_at
            found.append((execution.budget, metrics.spent))
        if session.budget is not None:
            found.append((session.budget, Spent(session.llm_calls, now - session.created_at, session.tokens)))
        return found

    def _over_budget(self, calls: int, tokens: int, now: int) -> Failure | None:
        budgets = self._budgets(now)
        held = bool(budgets) and branches.is_held(self._resident.open.values())
        try:
            for budget, spent in budgets:
                if held:
                    _check_held(budget, spent)
                budget.check(spent, calls, tokens)
        except BudgetExceeded as error:
            return self._refuse(error, "Error")
        return None

    def _refuse(self, error: HoldfastError, name: str) -> Failure:
        self._put(_SYSTEM, {"level": "warn", "message": f"a query was refused: {error}", "code": error.code})
        return Failure(str(error), error.code, name)

    def _too_many(self, name: str) -> Failure | None:
        """Why a script may not wait for one more call of a native module. Those within the step are counted by the module itself."""
        waiting = self._resident.waiting.get(name)
        if waiting is None:
            return None
        module, most = name.partition(".")[0], waiting.most
        self._waits[module] = self._waits.get(module, 0) + 1
        if self._waits[module] <= most:
            return None
        return Failure(f"a step waits for at most {most} calls of {module}", "CALLS_EXCEEDED")


def _check_held(budget: Budget, spent: Spent) -> None:
    """While a fork is waited for, all that is left of calls and tokens is with its branches."""
    for name, used in (("max_llm_calls", spent.llm_calls), ("max_tokens", spent.tokens)):
        limit = getattr(budget, name)
        if limit is not None:
            raise BudgetExceeded(
                f"budget_exceeded: {name} ({limit}) reached ({used} used, the rest is with branches of a fork)"
            )
