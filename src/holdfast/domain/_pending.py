"""The queries of a paused execution: which wait, which are answered, and which of them an answer is for.

Pure bookkeeping over `Query` records, in the order in which they were asked. The records given are never changed: closing one
replaces it, so whoever holds the old one can still compare. Timers are left out, since nobody answers a clock.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self
from uuid import UUID

from holdfast.domain._errors import AnswerAmbiguous, AnswerConflict, Conflict, InvalidValue, QueryNotFound
from holdfast.domain._ids import query_id
from holdfast.domain._payloads import QueryKind
from holdfast.domain._records import Answer, Query
from holdfast.domain._states import QUERY, QueryState


class Given(NamedTuple):
    """An answer, and the number of the query that it is for. None: for the only one that is open."""

    number: int | None
    answer: Answer


class PendingQueries:
    """What an execution waits for.

    >>> from uuid import uuid4
    >>> asked = [Query(uuid4(), n, uuid4(), QueryKind.LLM, {"prompt": "?"}, asked_at=0) for n in (4, 5)]
    >>> pending = PendingQueries(asked)
    >>> pending.feed(5, Answer("b"), at=1), pending.remaining
    (False, 1)
    >>> pending.feed(None, Answer("a"), at=2), [answer.value for answer in pending.ordered_answers()]
    (True, ['a', 'b'])
    """

    __slots__ = ("_open", "_queries")

    def __init__(self, queries: Iterable[Query] = ()) -> None:
        # Dictionaries, not sets: with them the sole open one is found without a search, and the order stays.
        self._queries: dict[int, Query] = {}
        self._open: dict[int, None] = {}
        for query in queries:
            if query.kind is QueryKind.TIMER:
                continue
            if query.number in self._queries:
                raise InvalidValue("two queries of one number")
            self._queries[query.number] = query
            if query.state is QueryState.OPEN:
                self._open[query.number] = None

    @property
    def remaining(self) -> int:
        """How many wait for an answer."""
        return len(self._open)

    @property
    def is_complete(self) -> bool:
        """Whether none waits."""
        return not self._open

    def pending(self) -> list[Query]:
        """Those that wait, in the order they were asked."""
        return [self._queries[number] for number in self._open]

    def queries(self) -> list[Query]:
        """All of them, in the order they were asked."""
        return list(self._queries.values())

    def ordered_answers(self) -> list[Answer]:
        """All answers, in the order of the questions, whatever the order of answering. `Conflict` while a query waits."""
        if self._open:
            raise Conflict(f"{len(self._open)} of {len(self._queries)} queries still wait for an answer")
        return [query.answer for query in self._queries.values() if query.answer is not None]

    def check(self, number: int | None, answer: Answer) -> Query | None:
        """The open query that this answer is for; None if that query has this very answer already.

        A retry must be harmless, and an answer must never reach a question it was not given for. So `AnswerAmbiguous` without
        a number unless exactly one is open, `QueryNotFound`, and `AnswerConflict` if it was closed in another way.
        """
        if number is None:
            number = self.sole()
        query = self._queries.get(number)
        if query is None:
            raise QueryNotFound(f"unknown query_id: {query_id(number)}")
        if query.state is QueryState.OPEN:
            return query
        if query.state is QueryState.ANSWERED and query.answer is not None and query.answer.same_as(answer):
            return None
        raise AnswerConflict(f"already responded to query_id: {query.id}")

    def feed(self, number: int | None, answer: Answer, at: int | None = None) -> bool:
        """Takes an answer that `check` accepts. Tells whether none waits any more."""
        query = self.check(number, answer)
        if query is not None:
            self._close(query, answer, at)
        return not self._open

    def feed_all(self, given: Sequence[Given], at: int | None = None) -> list[Query]:
        """Takes several answers, or none of them if one is refused. Gives the queries that they closed."""
        if not given:
            raise InvalidValue("Empty responses array")
        trial = self.copy()
        closed = []
        for number, answer in given:
            query = trial.check(number, answer)
            if query is not None:
                closed.append(trial._close(query, answer, at))
        self._queries, self._open = trial._queries, trial._open
        return closed

    def copy(self) -> Self:
        """Another one with the same progress."""
        twin = type(self)()
        twin._queries, twin._open = self._queries.copy(), self._open.copy()
        return twin

    def to_json(self) -> str:
        """As text, with all progress."""
        return json.dumps([_plain(query) for query in self._queries.values()], ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """From what `to_json` gave, else `InvalidValue`."""
        try:
            return cls([_query(given) for given in json.loads(text)])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidValue("this is not a list of pending queries") from None

    def sole(self) -> int:
        """The number of the only one that waits. `AnswerAmbiguous` if there is none, or several."""
        if len(self._open) == 1:
            return next(iter(self._open))
        if not self._open:
            raise AnswerAmbiguous("no pending queries")
        raise AnswerAmbiguous(f"{len(self._open)} queries pending; specify query_id explicitly")

    def _close(self, query: Query, answer: Answer, at: int | None) -> Query:
        closed = replace(query, state=QUERY.next(query.state, QueryState.ANSWERED), answer=answer, closed_at=at)
        self._queries[query.number] = closed
        del self._open[query.number]
        return closed


def _plain(query: Query) -> dict[str, Any]:
    return {
        "session_id": str(query.session_id),
        "number": query.number,
        "execution_id": str(query.execution_id),
        "kind": query.kind,
        "payload": query.payload,
        "asked_at": query.asked_at,
        "guest_id": query.guest_id,
        "state": query.state,
        "deadline": query.deadline,
        "started_at": query.started_at,
        "closed_at": query.closed_at,
        "answer": None if query.answer is None else query.answer.as_dict(),
    }


def _query(given: dict[str, Any]) -> Query:
    answer = given["answer"]
    return Query(
        **given
        | {
            "session_id": UUID(given["session_id"]),
            "execution_id": UUID(given["execution_id"]),
            "kind": QueryKind(given["kind"]),
            "state": QueryState(given["state"]),
            "answer": None if answer is None else Answer.from_dict(answer),
        }
    )
