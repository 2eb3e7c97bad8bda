"""Budgets: how much a script may ask of models. Hard: what would exceed one is refused before it is asked."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Self

from holdfast.domain._errors import BudgetExceeded, InvalidValue


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of what is asked, for an execution or for all of a session. None is no limit.

    >>> Budget(max_llm_calls=2).check(Spent(llm_calls=1), calls=2, tokens=10)
    Traceback (most recent call last):
    holdfast.domain._errors.BudgetExceeded: budget_exceeded: max_llm_calls (2) reached (1 used, 2 more asked for)
    """

    max_llm_calls: int | None = None
    max_elapsed_ms: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (type(value) is not int or value < 0):
                raise InvalidValue(f"{field.name} must be a whole number that is not negative, or null")

    @classmethod
    def parse(cls, given: object) -> Self | None:
        """The budget in a mapping, such as `ctx.budget`. None if it sets no limit."""
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise InvalidValue("a budget is an object with max_llm_calls, max_elapsed_ms and max_tokens, all optional")
        unknown = given.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise InvalidValue(f"a budget has no {min(map(str, unknown))!r}")
        budget = cls(**given)
        return budget if budget.as_dict() else None

    def check(self, spent: "Spent", calls: int, tokens: int) -> None:
        """Refuses what would exceed the budget: `calls` more queries, whose prompts have this many tokens.

        An answer takes at least one token, so prompts may not use up all that is left.
        """
        if self.max_llm_calls is not None and spent.llm_calls + calls > self.max_llm_calls:
            more = f", {calls} more asked for" if calls > 1 else ""
            raise BudgetExceeded(
                f"budget_exceeded: max_llm_calls ({self.max_llm_calls}) reached ({spent.llm_calls} used{more})"
            )
        if self.max_elapsed_ms is not None and spent.elapsed_ms >= self.max_elapsed_ms:
            elapsed = f"({self.max_elapsed_ms}ms) reached ({spent.elapsed_ms}ms elapsed)"
            raise BudgetExceeded(f"budget_exceeded: max_elapsed_ms {elapsed}")
        if self.max_tokens is not None and spent.tokens + tokens >= self.max_tokens:
            more = f", {tokens} more in the prompt" if spent.tokens < self.max_tokens else ""
            raise BudgetExceeded(f"budget_exceeded: max_tokens ({self.max_tokens}) reached ({spent.tokens} used{more})")

    def remaining(self, spent: "Spent") -> dict[str, int | None]:
        """What is left of each limit; None where there is none."""

        def left(limit: int | None, used: int) -> int | None:
            return None if limit is None else max(0, limit - used)

        return {
            "llm_calls": left(self.max_llm_calls, spent.llm_calls),
            "elapsed_ms": left(self.max_elapsed_ms, spent.elapsed_ms),
            "tokens": left(self.max_tokens, spent.tokens),
        }

    def as_dict(self) -> dict[str, int]:
        """Only the limits that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Spent:
    """What has been asked so far."""

    llm_calls: int = 0
    elapsed_ms: int = 0
    tokens: int = 0


def least_left(budgets: Iterable[tuple[Budget, Spent]]) -> dict[str, int | None] | None:
    """Return the least remaining amount of each limit over several budgets, such as an execution's and its session's; None without one.

    >>> least_left([(Budget(max_llm_calls=5), Spent(llm_calls=1)), (Budget(max_llm_calls=3), Spent())])
    {'llm_calls': 3, 'elapsed_ms': None, 'tokens': None}
    """
    left = [budget.remaining(spent) for budget, spent in budgets]
    if not left:
        return None
    return {name: _least(each[name] for each in left) for name in left[0]}


def _least(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
