"""Calls about executions."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from holdfast.client import models
from holdfast.client._calls import Call, Page, an_id, change, given, look, one, page_of, path
from holdfast.client._verbs import Group, Way, each, verb
from holdfast.domain import Budget, ExecutionStatus

_LONGEST_WAIT_S: Final = 60.0


def _at(execution: UUID | str, *rest: str) -> str:
    return path("executions", an_id(execution, "execution"), *rest)


class Executions(Group[Way]):
    """`client.executions`: runs inside a session.

    Those that start one return when it has ended or waits for somebody. With `background` they return as soon as it is sure to run;
    with `wait` they queue behind a running one instead of raising `SessionBusy`. A script that fails is a result, not an error of
    the call: see `status` and `error`.
    """

    @verb
    def list(
        self,
        session: UUID | str,
        *,
        status: ExecutionStatus | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Call[Page[models.Execution]]:
        """The executions of a session, newest first."""
        read = page_of(models.Execution)
        session_id = an_id(session, "session")
        return look(path("executions"), read, session_id=session_id, status=status, limit=limit, cursor=cursor)

    @each
    def iterate(
        self, session: UUID | str, *, status: ExecutionStatus | str | None = None, page_size: int = 200
    ) -> Call[Page[models.Execution]]:
        """All executions of a session, newest first, fetched as they are needed."""
        read = page_of(models.Execution)
        session_id = an_id(session, "session")
        return look(path("executions"), read, session_id=session_id, status=status, limit=page_size)

    @verb
    def repl(
        self,
        session: UUID | str,
        source: str,
        *,
        budget: Budget | Mapping[str, int] | None = None,
        wait: bool = False,
        background: bool = False,
        idempotency_key: str | None = None,
    ) -> Call[models.Execution]:
        """Runs a snippet as a REPL does."""
        return _start("repl", session, {"input": source}, budget, wait, background, idempotency_key)

    @verb
    def run_file(
        self,
        session: UUID | str,
        file: str,
        args: Mapping[str, Any] | None = None,
        env: Mapping[str, Any] | None = None,
        *,
        budget: Budget | Mapping[str, int] | None = None,
        wait: bool = False,
        background: bool = False,
        idempotency_key: str | None = None,
    ) -> Call[models.Execution]:
        """Runs a file of the session's worktree, by its path there."""
        body = given(path=file, args=args, env=env)
        return _start("run-file", session, body, budget, wait, background, idempotency_key)

    @verb
    def strategy(
        self,
        session: UUID | str,
        source: str,
        ctx: Mapping[str, Any] | None = None,
        *,
        budget: Budget | Mapping[str, int] | None = None,
        wait: bool = False,
        background: bool = False,
        idempotency_key: str | None = None,
    ) -> Call[models.Execution]:
        """Runs a strategy, which finds its input in the global `ctx`."""
        return _start("strategy", session, given(source=source, ctx=ctx), budget, wait, background, idempotency_key)

    @verb
    def get(self, execution: UUID | str) -> Call[models.Execution]:
        """One execution, with its open queries. Raises `ExecutionNotFound`."""
        return look(_at(execution), one(models.Execution))

    @verb
    def wait(self, execution: UUID | str, timeout: float = 30.0) -> Call[models.Execution]:
        """Waits until an execution has ended or waits for somebody, but at most so many seconds, and not over a minute.

        It returns where the execution stands then: look at `status`.
        """
        seconds = min(max(0.0, timeout), _LONGEST_WAIT_S)
        return look(_at(execution, "wait"), one(models.Execution), extra_s=seconds, timeout_ms=round(seconds * 1000))

    @verb
    def cancel(self, execution: UUID | str, *, idempotency_key: str | None = None) -> Call[models.Execution]:
        """Stops an execution, running or paused. One that has ended stays as it is."""
        return change("POST", _at(execution, "cancel"), one(models.Execution), None, idempotency_key)


def _start(
    how: str,
    session: UUID | str,
    body: dict[str, Any],
    budget: Budget | Mapping[str, int] | None,
    wait: bool,
    background: bool,
    key: str | None,
) -> Call[models.Execution]:
    body = given(session_id=an_id(session, "session"), **body, budget=budget, wait=wait or None)
    return change("POST", path("executions", how), one(models.Execution), body, key, background=background)
