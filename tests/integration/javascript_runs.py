"""Ways to run JavaScript programs that the tests of its library share."""

from collections import deque
from typing import Any

from holdfast.sandbox import Failed, Finished, Outcome, Paused, Sandbox, ScriptError


def value(outcome: Outcome) -> Any:
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def error(outcome: Outcome) -> ScriptError:
    assert isinstance(outcome, Failed), outcome
    return outcome.error


class Talk:
    """Runs a snippet to its end. Each query gets the next answer; `rounds` are the payloads that were asked together."""

    def __init__(self, sandbox: Sandbox, source: str, *answers: Any) -> None:
        self.rounds: list[list[Any]] = []
        self.records: list[tuple[str, Any]] = []
        left = deque(answers)
        self.outcome = self._taken(sandbox.evaluate(source))
        while isinstance(self.outcome, Paused) and left:
            self.rounds.append([query.payload for query in self.outcome.queries])
            given = {query.id: left.popleft() for query in self.outcome.queries}
            self.outcome = self._taken(sandbox.resume(given))
        assert not left, f"not asked for: {left}"

    def _taken(self, outcome: Outcome) -> Outcome:
        self.records += [(event.type, event.payload) for event in outcome.events if event.type in ("log", "progress", "stat")]
        return outcome

    @property
    def value(self) -> Any:
        return value(self.outcome)

    @property
    def error(self) -> ScriptError:
        return error(self.outcome)

    @property
    def prompts(self) -> list[list[str]]:
        return [[payload["prompt"] for payload in asked] for asked in self.rounds]
