"""Queries: what paused executions wait for, and the answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from holdfast.control import _given
from holdfast.control._once import Once
from holdfast.control.executions import Executions
from holdfast.domain import Answer, InvalidValue, Query, QueryKind, QueryState, parse_id, parse_query_id
from holdfast.runtime import Answers, CancelQuery, Runtime, Turn, checked
from holdfast.store import Page, Reply


class Queries:
    """`hf.queries`: list, get, answer, cancel.

    An answer is bound to one query. The same answer again is accepted and changes nothing; another one raises `AnswerConflict`.
    """

    def __init__(self, runtime: Runtime, once: Once, executions: Executions) -> None:
        self._runtime, self._once, self._executions = runtime, once, executions

    async def answer(
        self,
        session: UUID | str,
        value: Any,
        *,
        query: str | int | None = None,
        usage: Mapping[str, int] | None = None,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Answers a query. Without `query` it is the only one that is open. Returns where the execution stands then.

        `usage` may say what a model counted: `prompt_tokens` and `completion_tokens`.
        """
        number = None if query is None else parse_query_id(query)
        return await self._answer(session, [(number, _answer(value, usage))], idempotency_key)

    async def answer_many(self, session: UUID | str, answers: Mapping[str, Any], *, idempotency_key: str | None = None) -> Turn:
        """Answers several queries by their ids, all or none."""
        if not isinstance(answers, Mapping):
            raise InvalidValue("answers must be an object, with the ids of queries for keys")
        if not answers:
            raise InvalidValue("there are no answers")
        return await self._answer(
            session, [(parse_query_id(query), _answer(value, None)) for query, value in answers.items()], idempotency_key
        )

    async def fail(
        self,
        session: UUID | str,
        message: str,
        *,
        query: str | int | None = None,
        code: str | None = None,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Answers with an error, which is raised where the script asked."""
        number = None if query is None else parse_query_id(query)
        if not isinstance(message, str) or not isinstance(code, str | None):
            raise InvalidValue("an error has a message and perhaps a code, which are text")
        answer = Answer(error=checked({"message": message, "code": code}, "an error"))
        return await self._answer(session, [(number, answer)], idempotency_key)

    async def cancel(self, session: UUID | str, query: str | int, *, idempotency_key: str | None = None) -> Turn:
        """Withdraws a query: it raises in the script with code `QUERY_CANCELLED`. Twice is fine."""
        session_id, number = parse_id(session, "session"), parse_query_id(query)
        request = {"session": str(session_id), "cancel": number}
        return await self._with_key(
            idempotency_key, request, lambda reply: self._settle(session_id, CancelQuery(number, reply))
        )

    async def _answer(self, session: UUID | str, answers: list[tuple[int | None, Answer]], key: str | None) -> Turn:
        session_id = parse_id(session, "session")
        if key is None:
            return await self._settle(session_id, Answers(answers))
        given = [(number, answer.as_dict()) for number, answer in answers]
        request = {"session": str(session_id), "answers": given}
        return await self._with_key(key, request, lambda reply: self._settle(session_id, Answers(answers, reply)))

    async def _with_key(self, key: str | None, request: dict[str, Any], do: Callable[[Reply | None], Awaitable[Turn]]) -> Turn:
        async def first(reply: Reply | None) -> Turn:
            turn = await do(reply)
            if reply is not None:
                await self._runtime.call(self._remember, reply._replace(outcome={"execution_id": str(turn.execution.id)}))
            return turn

        async def again(outcome: dict[str, Any]) -> Turn:
            return await self._executions.stopped(outcome["execution_id"])

        return await self._once(key, request, first, again)

    def _remember(self, reply: Reply) -> None:
        """An answer that changed nothing has no commit that its reply could be part of."""
        if self._runtime.store.get_reply(reply.key) is None:
            self._runtime.store.put_reply(reply)

    async def _settle(self, session_id: UUID, job: Answers) -> Turn:
        result: Turn | UUID = await self._runtime.submit(session_id, job)
        if isinstance(result, UUID):
            return await self._executions.turn(result)
        return await self._executions.rest(result)

    async def get(self, session: UUID | str, query: str | int) -> Query:
        """Raises `QueryNotFound`."""
        session_id, number = parse_id(session, "session"), parse_query_id(query)
        return await self._runtime.call(self._runtime.store.get_query, session_id, number)

    async def list(
        self,
        session: UUID | str | None = None,
        *,
        execution: UUID | str | None = None,
        states: Sequence[QueryState | str] = (QueryState.OPEN,),
        kinds: Sequence[QueryKind | str] = (),
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Query]:
        """Oldest first; by default those that are open, of all sessions."""
        return await self._runtime.call(
            self._runtime.store.list_queries,
            None if session is None else parse_id(session, "session"),
            execution_id=None if execution is None else parse_id(execution, "execution"),
            states=_given.words(QueryState, states, "states"),
            kinds=_given.words(QueryKind, kinds, "kinds"),
            **_given.page(limit, after),
        )


def _answer(value: Any, usage: Mapping[str, int] | None) -> Answer:
    if usage is not None:
        if not isinstance(usage, Mapping):
            raise InvalidValue("usage must be an object")
        for name, count in usage.items():
            if name not in ("prompt_tokens", "completion_tokens") or type(count) is not int or count < 0:
                raise InvalidValue("usage has prompt_tokens and completion_tokens, which are whole numbers")
    return Answer(checked(value, "an answer"), usage=None if usage is None else dict(usage))
