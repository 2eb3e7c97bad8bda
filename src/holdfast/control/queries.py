"""Queries: what paused executions wait for, and the answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from holdfast.control import _given
from holdfast.control._once import Once
from holdfast.control._pages import bounded, size_of_query
from holdfast.control._tenancy import TenantRuntime
from holdfast.control.executions import Executions
from holdfast.domain import Answer, Given, InvalidValue, PendingQueries, Query, QueryKind, QueryState, parse_id, parse_query_id
from holdfast.runtime import Answers, CancelQuery, Turn, branches, checked
from holdfast.store import Page, Reply

_MOST_COUNTS: Final = 20
_LONGEST_NAME: Final = 100
_LONGEST_LABEL: Final = 1_000
_LARGEST: Final = (1 << 53) - 1
_MOST_OPEN: Final = 10_000


class Queries:
    """`hf.queries`: list, get, answer, cancel.

    An answer is bound to one query. The same answer again is accepted and changes nothing; another one raises `AnswerConflict`.
    """

    def __init__(self, runtime: TenantRuntime, once: Once, executions: Executions) -> None:
        self._runtime, self._once, self._executions = runtime, once, executions

    async def answer(
        self,
        session: UUID | str,
        value: Any,
        *,
        query: str | int | None = None,
        usage: Mapping[str, int] | None = None,
        model: str | None = None,
        finish_reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Answers a query. Without `query` it is the only one that is open. Returns where the execution stands then.

        `usage` may say what a model counted: `prompt_tokens` and `completion_tokens` take the place of estimates, others are kept. `model`
        and `finish_reason` may say who answered, and why it said no more.
        """
        number = None if query is None else parse_query_id(query)
        answer = given_answer(value, usage=usage, model=model, finish_reason=finish_reason)
        return await self._answer(session, [(number, answer)], idempotency_key)

    async def answer_many(self, session: UUID | str, answers: Mapping[str, Any], *, idempotency_key: str | None = None) -> Turn:
        """Answers several queries by their ids, all or none."""
        if not isinstance(answers, Mapping):
            raise InvalidValue("answers must be an object, with the ids of queries for keys")
        if not answers:
            raise InvalidValue("there are no answers")
        return await self._answer(
            session, [(parse_query_id(query), given_answer(value)) for query, value in answers.items()], idempotency_key
        )

    async def answer_all(self, session: UUID | str, answers: Sequence[Given], *, idempotency_key: str | None = None) -> Turn:
        """Answers several queries, all or none, each with what is known of who answered: see `given_answer`."""
        given = [Given(number, _checked(answer)) for number, answer in _given.parts(Given, answers, "answers")]
        if not given:
            raise InvalidValue("there are no answers")
        return await self._answer(session, given, idempotency_key)

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

    async def _answer(self, session: UUID | str, answers: Sequence[tuple[int | None, Answer]], key: str | None) -> Turn:
        session_id = parse_id(session, "session")

        async def do(reply: Reply | None) -> Turn:
            return await self._settle(session_id, Answers(await bound(self._runtime, session_id, answers), reply))

        if key is None:
            return await do(None)
        given = [(number, answer.as_dict()) for number, answer in answers]
        return await self._with_key(key, {"session": str(session_id), "answers": given}, do)

    async def _with_key(self, key: str | None, request: dict[str, Any], do: Callable[[Reply | None], Awaitable[Turn]]) -> Turn:
        async def again(outcome: dict[str, Any]) -> Turn:
            return await self._executions.stopped(outcome["execution_id"])

        return await self._once(key, request, do, again)

    def _remember(self, reply: Reply) -> None:
        """An answer that changed nothing has no commit that its reply could be part of."""
        if self._runtime.store.get_reply(reply.key) is None:
            self._runtime.store.put_reply(reply)

    async def _settle(self, session_id: UUID, job: Answers) -> Turn:
        result: Turn | UUID = await self._runtime.submit(session_id, job)
        if isinstance(result, UUID):
            turn = await self._executions.turn(result)
        else:
            turn = await self._executions.rest(result)
        if job.reply is not None and not job.is_reply_kept:
            await self._runtime.call(self._remember, job.reply._replace(outcome={"execution_id": str(turn.execution.id)}))
        return turn

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
        """Oldest first; by default those that are open, of all sessions. A page of large ones has fewer than `limit`."""
        wanted = partial(
            self._runtime.store.list_queries,
            None if session is None else parse_id(session, "session"),
            execution_id=None if execution is None else parse_id(execution, "execution"),
            states=_given.words(QueryState, states, "states"),
            kinds=_given.words(QueryKind, kinds, "kinds"),
        )
        page = _given.page(limit, after)
        return await self._runtime.call(lambda: bounded(wanted, size_of_query, **page))


async def bound(
    runtime: TenantRuntime, session_id: UUID, answers: Sequence[tuple[int | None, Answer]]
) -> Sequence[tuple[int | None, Answer]]:
    """Answers with the query that each is for, where that would not be sure when their turn has come.

    One that names no query is for the only one that is open now, and not for what is asked when another answer, given at the same time, has
    had its turn.
    """
    if all(number is not None for number, _ in answers) or not runtime.is_under_way(session_id):
        return answers
    page = await runtime.call(runtime.store.list_queries, session_id, states=[QueryState.OPEN], limit=_MOST_OPEN)
    asked = [query for query in page.items if query.kind is not QueryKind.TIMER and not branches.is_fork(query)]
    sole = PendingQueries(asked).sole()
    return [(sole if number is None else number, answer) for number, answer in answers]


def given_answer(
    value: Any, *, usage: Mapping[str, int] | None = None, model: str | None = None, finish_reason: str | None = None
) -> Answer:
    """What somebody answers, checked."""
    if usage is not None:
        if not isinstance(usage, Mapping) or len(usage) > _MOST_COUNTS:
            raise InvalidValue(f"usage must be an object with at most {_MOST_COUNTS} numbers")
        for name, count in usage.items():
            if (
                not isinstance(name, str)
                or not 0 < len(name) <= _LONGEST_NAME
                or type(count) is not int
                or not 0 <= count <= _LARGEST
            ):
                raise InvalidValue("usage must have names with whole numbers, such as prompt_tokens and completion_tokens")
    for what, said in (("model", model), ("finish_reason", finish_reason)):
        if said is not None and (not isinstance(said, str) or len(said) > _LONGEST_LABEL):
            raise InvalidValue(f"{what} must be text of at most {_LONGEST_LABEL} characters")
    return Answer(
        checked(value, "an answer"), usage=None if usage is None else dict(usage), model=model, finish_reason=finish_reason
    )


def _checked(answer: Answer) -> Answer:
    about = given_answer(answer.value, usage=answer.usage, model=answer.model, finish_reason=answer.finish_reason)
    return about if answer.error is None else about._replace(value=None, error=checked(answer.error, "an error"))
