"""Calls about strategies, and runs of them."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from holdfast.client import models
from holdfast.client._calls import Answer, Call, Page, an_id, change, given, look, one, page_of, path
from holdfast.client._verbs import Group, Way, each, verb
from holdfast.domain import Budget, InvalidValue

_WAIT_S: Final = 30.0
"""How long the daemon waits if nobody says."""


def _at(session: UUID | str, *rest: str) -> str:
    return path("runs", an_id(session, "session"), *rest)


class Strategies(Group[Way]):
    """`client.strategies`: packages, and runs of them.

    Where a run stands is told as `hf.strategies` tells it: as a dictionary whose `status` is `needs_response`, `accepted`, `waiting`,
    `completed`, `error` or `cancelled`. `wait_s` is how many seconds the clock and tools of the daemon are waited for, at most 300.
    """

    @verb
    def list(
        self, language: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.Strategy]]:
        """The packages that can be run, by name."""
        return look(path("strategies"), page_of(models.Strategy), language=language, limit=limit, cursor=cursor)

    @each
    def iterate(self, language: str | None = None, *, page_size: int = 200) -> Call[Page[models.Strategy]]:
        """All packages that can be run, by name, fetched as they are needed."""
        return look(path("strategies"), page_of(models.Strategy), language=language, limit=page_size)

    @verb
    def show(self, name: str, language: str | None = None) -> Call[models.StrategyDetail]:
        """One package, with what it says of itself and its text."""
        return look(path("strategies", name), one(models.StrategyDetail), language=language)

    # ---- runs ----------------------------------------------------------------------------------------------------------------------

    @verb
    def run(
        self,
        code: str,
        *,
        language: str | None = None,
        template: UUID | str | None = None,
        ctx: Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, int] | None = None,
        name: str | None = None,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Reply]:
        """Runs a program that finds its input in the global `ctx`, until it needs somebody or has ended.

        It is Lua unless you say otherwise. Without a template, by its id or its name, it may use packages, state and cards only.
        """
        body = {"code": code} | given(language=language, template=template, ctx=ctx, budget=budget, name=name, wait_s=wait_s)
        return change("POST", path("runs"), _reply, body, idempotency_key)

    @verb
    def advise(
        self,
        strategy: str,
        task: str | None = None,
        *,
        opts: Mapping[str, Any] | None = None,
        language: str | None = None,
        template: UUID | str | None = None,
        budget: Budget | Mapping[str, int] | None = None,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Reply]:
        """Runs a package by name: its `run(ctx)`, where ctx is `opts` with the `task`."""
        body = {"strategy": strategy} | given(
            task=task, opts=opts, language=language, template=template, budget=budget, wait_s=wait_s
        )
        return change("POST", path("runs"), _reply, body, idempotency_key)

    @verb
    def resume(
        self,
        session: UUID | str,
        responses: "Sequence[models.Response | Any]",
        *,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Reply]:
        """Answers queries, all or none: `[{"response": "42"}]`, with `query_id` if several are open.

        Each may have an `error` instead, and `usage`, `model` and `finish_reason`; or it is a `Response` of the library. Without any
        it only looks where the run stands.
        """
        if isinstance(responses, str | Mapping):
            raise InvalidValue("responses are a list")
        if not responses:
            return _outcome(session, wait_s)
        body = {"responses": [_answer(response) for response in responses]} | given(wait_s=wait_s)
        return change("POST", _at(session, "continue"), _reply, body, idempotency_key)

    @verb
    def outcome(self, session: UUID | str, *, wait_s: float | None = None) -> Call[models.Reply]:
        """Where a run stands, when it needs somebody or has ended."""
        return _outcome(session, wait_s)

    @verb
    def asked(self, session: UUID | str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[models.Query]]:
        """What a run waits for from outside, with what its branches do, under the ids that answers name."""
        return look(_at(session, "queries"), page_of(models.Query), limit=limit, cursor=cursor)

    @verb
    def status(
        self,
        session: UUID | str | None = None,
        *,
        pending_filter: str | None = None,
        include_history: bool = False,
        limit: int | None = None,
    ) -> Call[dict[str, Any]]:
        """One run, active or not; without a session all that are active, newest first. `pending_filter` is `meta`, `preview` or `full`."""
        shown: dict[str, Any] = {"pending_filter": pending_filter, "include_history": include_history or None}
        if session is None:
            return look(path("runs"), _object, **shown, limit=limit)
        return look(_at(session), _object, **shown)

    @verb
    def cancel(self, session: UUID | str, *, idempotency_key: str | None = None) -> Call[models.Reply]:
        """Stops a run and its branches. One that has ended stays as it is, and its reply says so."""
        return change("POST", _at(session, "cancel"), _reply, None, idempotency_key)

    @verb
    def fork(
        self,
        session: UUID | str,
        checkpoint: int | None = None,
        *,
        name: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Reply]:
        """A second run that goes on from a checkpoint of this one, by default from where it stands: the reply of that run."""
        return change("POST", _at(session, "fork"), _reply, given(checkpoint=checkpoint, name=name), idempotency_key)

    @verb
    def history(self, session: UUID | str, *, limit: int | None = None) -> Call[models.RunHistory]:
        """The newest checkpoints of a run, each with the one that it follows, and what was open there."""
        return look(_at(session, "history"), one(models.RunHistory), limit=limit)


def _outcome(session: UUID | str, wait_s: float | None) -> Call[models.Reply]:
    if wait_s is not None and (isinstance(wait_s, bool) or not isinstance(wait_s, int | float) or not wait_s >= 0):
        raise InvalidValue("wait_s must be a number of seconds that is not negative")
    return look(_at(session, "outcome"), _reply, extra_s=_WAIT_S if wait_s is None else wait_s, wait_s=wait_s)


def _answer(response: Any) -> dict[str, Any]:
    if isinstance(response, Mapping):
        return dict(response)
    if not dataclasses.is_dataclass(response) or isinstance(response, type):
        raise InvalidValue("a response is a mapping with a response or an error")
    said = {field.name: getattr(response, field.name) for field in dataclasses.fields(response)}
    for name in ("error", "response"):  # one of them is what is said
        if said.get(name) is None:
            said.pop(name, None)
            break
    return said


def _object(answer: Answer) -> dict[str, Any]:
    found = json.loads(answer.content)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def _reply(answer: Answer) -> models.Reply:
    found = _object(answer)
    if not isinstance(found.get("status"), str) or not isinstance(found.get("session_id"), str):
        raise ValueError("it has no status and no session_id")
    return cast(models.Reply, found)
