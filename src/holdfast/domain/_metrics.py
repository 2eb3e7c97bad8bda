"""What an execution used."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Self

from holdfast.domain._budget import Budget, Spent
from holdfast.domain._tokens import Tokens, TokenSource
from holdfast.domain._tokens import estimate as estimate_tokens


@dataclass(slots=True)
class Metrics:
    """Counters of an execution. `elapsed_ms` includes the time that it waited; `cpu_ms` only what its steps and calls computed."""

    elapsed_ms: int = 0
    cpu_us: int = 0
    peak_memory: int = 0
    steps: int = 0
    pauses: int = 0
    rounds: int = 0
    queries: int = 0
    llm_calls: int = 0
    prompt_chars: int = 0
    answer_chars: int = 0
    checkpoint_bytes: int = 0
    prompt_tokens: Tokens = field(default_factory=Tokens)
    answer_tokens: Tokens = field(default_factory=Tokens)
    estimated_prompts: int = 0
    estimated_answers: int = 0

    def ask(self, chars: int, tokens: int) -> None:
        """A model is asked: a prompt of so many characters, and of this many tokens by estimate."""
        self.llm_calls += 1
        self.prompt_chars += chars
        self.estimated_prompts += 1
        self.prompt_tokens = Tokens(self.prompt_tokens.tokens + tokens, TokenSource.ESTIMATED)

    def answer(self, estimate: int, text: str, prompt_tokens: int | None, answer_tokens: int | None) -> None:
        """A model has answered. What it says of tokens takes the place of the estimate, which for the prompt was `estimate`."""
        self.answer_chars += len(text)
        if prompt_tokens is not None:
            self.estimated_prompts -= 1
            total = self.prompt_tokens.tokens + prompt_tokens - estimate
            self.prompt_tokens = Tokens(total, _source(self.estimated_prompts))
        if answer_tokens is None:
            self.estimated_answers += 1
            answer_tokens = estimate_tokens(text)
        self.answer_tokens = Tokens(self.answer_tokens.tokens + answer_tokens, _source(self.estimated_answers))

    def include(self, other: "Metrics") -> None:
        """What others were asked on its behalf counts as its own."""
        for name in _ASKED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.prompt_tokens += other.prompt_tokens
        self.answer_tokens += other.answer_tokens

    @property
    def total_tokens(self) -> Tokens:
        return self.prompt_tokens + self.answer_tokens

    @property
    def spent(self) -> Spent:
        """What counts against a budget."""
        return Spent(self.llm_calls, self.elapsed_ms, self.prompt_tokens.tokens + self.answer_tokens.tokens)

    def copy(self) -> Self:
        return type(self)(*_values(self))

    def as_row(self) -> list[int | str]:
        """As a short list, for a store."""
        prompt, answer = self.prompt_tokens, self.answer_tokens
        return [*_counters(self), prompt.tokens, prompt.source._value_, answer.tokens, answer.source._value_]

    @classmethod
    def from_row(cls, row: list[Any]) -> Self:
        counters = row[: len(_COUNTERS)]
        prompt, prompt_source, answer, answer_source = row[len(_COUNTERS) :]
        known: dict[str, Any] = dict(zip(_COUNTERS, counters, strict=True))
        known["prompt_tokens"] = Tokens(prompt, TokenSource(prompt_source))
        known["answer_tokens"] = Tokens(answer, TokenSource(answer_source))
        return cls(**known)

    def spent_row(self) -> list[int]:
        """What counts for budgets, so that whoever goes back to this point goes on from these: see `_SPENT`."""
        return [*_spent(self), self.prompt_tokens.tokens, self.answer_tokens.tokens]

    @classmethod
    def from_spent(cls, row: list[int]) -> Self:
        """Fresh metrics, with what had been spent."""
        *counters, prompts, answers = row
        known: dict[str, Any] = dict(zip(_SPENT, counters, strict=True))
        fresh = cls(**known)
        fresh.prompt_tokens = _tokens(prompts, fresh.estimated_prompts)
        fresh.answer_tokens = _tokens(answers, fresh.estimated_answers)
        return fresh

    def as_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in _COUNTERS if name not in _HIDDEN}
        return plain | {
            "cpu_ms": self.cpu_us / 1000,
            "prompt_tokens": self.prompt_tokens.as_dict(),
            "answer_tokens": self.answer_tokens.as_dict(),
            "total_tokens": self.total_tokens.as_dict(),
        }

    def stats(self, budget: Budget | None, custom: dict[str, Any] | None = None) -> dict[str, Any]:
        """`{auto, custom}` as algocline's hosts know it."""
        auto = {
            "elapsed_ms": self.elapsed_ms,
            "llm_calls": self.llm_calls,
            "pauses": self.pauses,
            "rounds": self.rounds,
            "total_prompt_chars": self.prompt_chars,
            "total_response_chars": self.answer_chars,
            "prompt_tokens": self.prompt_tokens.as_dict(),
            "response_tokens": self.answer_tokens.as_dict(),
            "total_tokens": self.total_tokens.as_dict(),
        }
        if budget is not None:
            auto["budget"] = budget.as_dict()
        return {"auto": auto, "custom": custom or {}}


def _tokens(count: int, estimates: int) -> Tokens:
    return Tokens(count, _source(estimates)) if count or estimates else Tokens()


def _source(estimates: int) -> TokenSource:
    return TokenSource.ESTIMATED if estimates else TokenSource.PROVIDED


_values: Callable[[Metrics], tuple[Any, ...]] = attrgetter(*[f.name for f in fields(Metrics)])
_HIDDEN = {"cpu_us", "estimated_prompts", "estimated_answers"}
_COUNTERS = [f.name for f in fields(Metrics) if not f.name.endswith("_tokens")]
_counters: Callable[[Metrics], tuple[int, ...]] = attrgetter(*_COUNTERS)
_SPENT = ("queries", "llm_calls", "prompt_chars", "answer_chars", "estimated_prompts", "estimated_answers")
_ASKED = ("pauses", "rounds", "llm_calls", "prompt_chars", "answer_chars", "estimated_prompts", "estimated_answers")
_spent: Callable[[Metrics], tuple[int, ...]] = attrgetter(*_SPENT)
