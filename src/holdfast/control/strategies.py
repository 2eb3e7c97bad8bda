"""Strategies: a program that asks models, run in a session of its own, until it needs somebody or has ended.

All calls give replies in the shapes that algocline's hosts know (`domain.replies`), as plain JSON: `needs_response`, `accepted`,
`completed`, `error`, `cancelled`; and `waiting`, if only the clock or a tool of the host is waited for. A strategy that forks is one run:
what its branches ask is asked in its name, under ids such as `f-3-0-7`, and answered through its session.
"""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from holdfast.control import _given
from holdfast.control._exchanges import exchanges
from holdfast.control._family import Asked, Families, Family, Member
from holdfast.control._once import Once, check_key
from holdfast.control._tenancy import TenantRuntime
from holdfast.control.answering import Answerer, Response
from holdfast.control.executions import Executions, check_start
from holdfast.control.queries import bound, given_answer
from holdfast.control.sessions import Sessions
from holdfast.control.templates import Templates
from holdfast.domain import (
    EXECUTION,
    Answer,
    AnswerAmbiguous,
    AnswerConflict,
    Budget,
    Capability,
    CheckpointNotFound,
    ExecutionKind,
    ExecutionStatus,
    HoldfastError,
    InvalidValue,
    NameTaken,
    Origin,
    PendingFilter,
    QueryNotFound,
    SessionNotFound,
    SessionState,
    TemplateNotFound,
    budget_of,
    parse_any_query_id,
    parse_id,
    replies,
)
from holdfast.runtime import Answers, Turn, branches, checked
from holdfast.runtime.core import Core
from holdfast.runtime.resident import Resident
from holdfast.store import Commit, Reply
from holdfast.strategies import Catalogue, Package, PackagePath

_WAIT_S: Final = 30.0
_LONGEST_S: Final = 3600.0
_LOGS: Final = 200
_HISTORY: Final = 50
_SHARED: Final = "strategies"
"""The namespace of state and cards of strategies whose template is ours: one for both languages."""
_LANGUAGES: Final = ("lua", "javascript")
_SOURCES: Final = {
    "lua": "return require({name}).run(ctx)",
    "javascript": "const strategy = await import({name}); await (strategy.run ?? strategy.default.run)(ctx)",
}
"""How a package is run, by language. Its name is a JSON text, and names have nothing in them that is not the same in Lua."""


class _Fed(Answers):
    """Answers, which tell whether the script has asked anything new, or if nothing came of them."""

    asked = fresh = False

    def check(self, core: Core, resident: Resident) -> None:
        if any(number is None for number, _ in self._answers) and any(map(branches.is_fork, resident.open.values())):
            raise AnswerAmbiguous  # what branches ask is open too
        super().check(core, resident)

    def run(self, core: Core, resident: Resident) -> Commit | None:
        commit = super().run(core, resident)
        self.fresh, self.asked = commit is not None, bool(commit is not None and commit.asked)
        return commit


class Strategies:
    """`hf.strategies`: run, advise, resume, drive, outcome, status, cancel, fork, history, asked; list and show what there is."""

    def __init__(
        self,
        runtime: TenantRuntime,
        once: Once,
        templates: Templates,
        sessions: Sessions,
        executions: Executions,
        packages: PackagePath,
        catalogue: Catalogue,
    ) -> None:
        self._runtime, self._once, self._templates = runtime, once, templates
        self._sessions, self._executions, self._packages = sessions, executions, packages
        self._families = Families(runtime)
        self._catalogue = catalogue

    # ---- running -------------------------------------------------------------------------------------------------------------------

    async def run(
        self,
        code: str,
        *,
        language: str | None = None,
        template: UUID | str | None = None,
        ctx: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        name: str | None = None,
        answer: Answerer | None = None,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        began: Callable[[UUID], None] | None = None,
    ) -> dict[str, Any]:
        """Runs a program that finds its input in the global `ctx`; in Lua its value is what it returns, in JavaScript its last expression.

        It is Lua, unless you or the template say otherwise. Without a template it is one that grants packages, state and cards, and
        nothing else. `wait_s` is how long the clock and tools of the host are waited for before the reply is `waiting`; by default 30.
        With `answer` it is driven to its end. `began` is told the session as soon as there is one: for whoever shows progress, or may have
        to cancel what does not come back.
        """
        check_start(code, budget)
        seconds = _seconds(wait_s)
        given = _given.mapping(ctx, "ctx")
        budget_of(given)
        _given.name(name)
        found = await self._template(template, language)
        key = _key(idempotency_key)
        session = await self._sessions.create(found, name=name, idempotency_key=key and f"{key} session")
        if began is not None:
            began(session.id)
        turn = await self._executions.strategy(
            session.id, code, given, name=name, budget=budget, settle=False, idempotency_key=key and f"{key} run"
        )
        if answer is not None:
            return await self.drive(session.id, answer)
        return await self._reply(turn, seconds)

    async def advise(
        self,
        strategy: str,
        task: str | None = None,
        *,
        opts: Mapping[str, Any] | None = None,
        language: str | None = None,
        template: UUID | str | None = None,
        budget: Budget | None = None,
        answer: Answerer | None = None,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        began: Callable[[UUID], None] | None = None,
    ) -> dict[str, Any]:
        """Runs a strategy package by name: its `run(ctx)`, where ctx is `opts` with the `task`. `PackageNotFound`."""
        ctx = _given.mapping(opts, "opts")
        if task is not None:
            if not isinstance(task, str):
                raise InvalidValue("task is text")
            ctx["task"] = task
        if template is not None and language is None:
            language = (await self._templates.version(template)).spec.language
        package = await self._runtime.call(self._package, strategy, language)
        return await self.run(
            _SOURCES[package.language].format(name=json.dumps(package.name)),
            language=package.language,
            template=template,
            ctx=ctx,
            budget=budget,
            name=package.name,
            answer=answer,
            wait_s=wait_s,
            idempotency_key=idempotency_key,
            began=began,
        )

    async def resume(
        self,
        session: UUID | str,
        responses: Sequence[Response],
        *,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Answers queries, all or none of one session's; without any it only looks where the run stands, as `outcome` does."""
        session_id = parse_id(session, "session")
        seconds = _seconds(wait_s)
        given = [_parsed(response) for response in _given.parts(Response, responses, "responses")]
        if not given:
            return await self.outcome(session_id, wait_s=wait_s)

        async def do(reply: Reply | None) -> dict[str, Any]:
            result = await self._feed(session_id, given, seconds, reply)
            if reply is not None:  # unless it was part of a commit
                await self._runtime.call(self._runtime.store.put_reply, reply)
            return result

        async def again(outcome: dict[str, Any]) -> dict[str, Any]:
            return await self.outcome(session_id, wait_s=wait_s)

        request = {"resume": str(session_id), "responses": [(path, number, answer.as_dict()) for path, number, answer in given]}
        return await self._once(idempotency_key, request, do, again)

    async def drive(self, session: UUID | str, answer: Answerer) -> dict[str, Any]:
        """Has a function answer all that a run asks, until it has ended: several questions at once, if it asks several at once.

        What somebody else answers meanwhile, or the clock, is let go.
        """
        session_id = parse_id(session, "session")
        while True:
            reply = await self.outcome(session_id)
            if reply["status"] == "waiting":
                continue
            if reply["status"] != "needs_response":
                return reply
            asked = await self.asked(session_id)
            said = await _all([answer(one) for one in asked])
            responses = [_response(one.id, value) for one, value in zip(asked, said, strict=True)]
            with contextlib.suppress(AnswerConflict):
                await self.resume(session_id, responses)

    async def outcome(self, session: UUID | str, *, wait_s: float | None = None) -> dict[str, Any]:
        """Where a run stands, when it needs somebody or has ended."""
        seconds = _seconds(wait_s)
        family = await self._families.read(parse_id(session, "session"))
        return _told(await self._families.rest(family, seconds))

    async def cancel(self, session: UUID | str, *, idempotency_key: str | None = None) -> dict[str, Any]:
        """Stops a run and its branches. One that has ended stays as it is, and its reply says so."""
        session_id = parse_id(session, "session")

        async def stop(branch: Member) -> None:
            with contextlib.suppress(HoldfastError):  # it is gone, or runs elsewhere: whoever sees to its fork stops it
                await self._executions.cancel(branch.turn.execution.id)

        async def do() -> None:
            root, *below = (await self._families.read(session_id)).root.walk()
            await self._executions.cancel(root.turn.execution.id)
            await asyncio.gather(*map(stop, below))

        await self._once.simple(idempotency_key, {"cancel run": str(session_id)}, do)
        return _told(await self._families.read(session_id))

    async def fork(
        self,
        session: UUID | str,
        checkpoint: int | None = None,
        *,
        name: str | None = None,
        idempotency_key: str | None = None,
        began: Callable[[UUID], None] | None = None,
    ) -> dict[str, Any]:
        """A second run that goes on from a checkpoint of this one, by default from where it stands: the reply of that run.

        `CheckpointNotFound` also if nothing waits there, as at the end of a run.
        """
        _given.some_number(checkpoint, "checkpoint")
        await self._runtime.call(self._check_fork, parse_id(session, "session"), checkpoint, idempotency_key)
        fork = await self._sessions.fork(session, checkpoint, name=name, idempotency_key=idempotency_key)
        if began is not None:
            began(fork.id)
        return await self.outcome(fork.id)

    # ---- looking -------------------------------------------------------------------------------------------------------------------

    async def asked(self, session: UUID | str) -> list[Asked]:
        """What a run waits for from outside, and then what its branches do; no timers, no tools of the host."""
        return (await self._families.present(parse_id(session, "session"))).asked()

    async def status(
        self,
        session: UUID | str | None = None,
        *,
        pending_filter: object = None,
        include_history: bool = False,
        limit: int = _HISTORY,
    ) -> dict[str, Any]:
        """One run, or all that are active, newest first; see `domain.replies.snapshot` and `PendingFilter`."""
        shown = None if pending_filter is None else PendingFilter.parse(pending_filter)
        _given.number(limit, "limit", 1, 1000)
        if session is not None:
            return await self._runtime.call(self._snapshot, parse_id(session, "session"), shown, include_history)
        return await self._runtime.call(self._snapshots, shown, include_history, limit)

    async def history(self, session: UUID | str, *, limit: int = _HISTORY) -> dict[str, Any]:
        """The newest checkpoints of a run's session, each with the one that it follows and what was open there."""
        _given.number(limit, "limit", 1, 1000)
        tree = await self._sessions.tree(session)
        return tree | {"nodes": tree["nodes"][-limit:], "total": len(tree["nodes"])}

    async def list(self, language: str | None = None) -> Sequence[dict[str, Any]]:
        """The packages that can be run, by name, each with what its `meta` says, and why it cannot be run if it cannot."""
        wanted = None if language is None else _language(language)
        return await self._runtime.call(lambda: [*self._catalogue.all(wanted)])

    async def show(self, name: str, language: str | None = None) -> dict[str, Any]:
        """One of them, with its `meta`, `spec` and `text`: that of its init file. `PackageNotFound`."""
        wanted = None if language is None else _language(language)
        return await self._runtime.call(self._catalogue.show, name, wanted)

    # ---- templates and packages ----------------------------------------------------------------------------------------------------

    async def _template(self, template: UUID | str | None, language: str | None) -> UUID | str:
        """The template of a run: the one given, or ours, which is made when it is first needed."""
        wanted = None if language is None else _language(language)
        if template is not None:
            if wanted is not None and wanted != (its := (await self._templates.version(template)).spec.language):
                raise InvalidValue(f"the template is for {its}, not for {wanted}")
            return template
        language = wanted or _LANGUAGES[0]
        name = f"strategy-{language}"
        try:
            await self._templates.get(name)
        except TemplateNotFound:
            grants = [
                Capability("packages", "*"),
                Capability("module", "state", config={"namespace": _SHARED, "spaces": True}),
                Capability("module", "card", config={"namespace": _SHARED}),
            ]
            with contextlib.suppress(NameTaken):  # another process was faster
                await self._templates.create(name, language=language, capabilities=grants)  # type: ignore[arg-type]
        return name

    def _package(self, name: str, language: str | None) -> Package:
        return self._packages.get(name, None if language is None else _language(language))

    def _check_fork(self, session_id: UUID, checkpoint: int | None, key: str | None) -> None:
        """Refuses what would be no run, unless it was made before. On a thread."""
        store = self._runtime.store
        if isinstance(key, str) and store.get_reply(self._runtime.scoped_key(key)) is not None:
            return
        session = store.get_session(session_id)
        number = session.head if checkpoint is None else checkpoint
        waiting: UUID | None = None
        if number == session.head and session.state is SessionState.PAUSED:
            waiting = session.execution_id
        elif (at := Origin(session_id, number) if number else session.origin) is not None:
            node = store.get_node(at)
            waiting = node.execution_id if node.open or node.wake_at is not None else None
        if waiting is None or store.get_execution(waiting).kind is not ExecutionKind.STRATEGY:
            raise CheckpointNotFound("no run waits at this checkpoint: nothing would go on from there")

    # ---- feeding -------------------------------------------------------------------------------------------------------------------

    async def _feed(self, session_id: UUID, given: "Sequence[_Given]", seconds: float, reply: Reply | None) -> dict[str, Any]:
        try:
            if all(not path for path, _, _ in given):
                return await self._feed_one(session_id, given, seconds, reply)
        except AnswerAmbiguous:  # unless its branches ask
            if len(given) > 1:
                raise
        family = await self._families.present(session_id)
        before = {one.id for one in family.asked()}
        targets = _by_session(family, given)
        said = reply if len(targets) == 1 else None
        fed = {target: _Fed(answers, said) for target, answers in targets.items()}
        done = [self._runtime.submit(target, job) for target, job in fed.items()]
        for result in await asyncio.gather(*done, return_exceptions=True):
            if isinstance(result, SessionNotFound):
                raise QueryNotFound("unknown query_id: there is no such branch")
            if isinstance(result, BaseException):
                raise result
        family = await self._families.rest(await self._families.again(family, fed), seconds)
        fresh = any(job.fresh for job in fed.values())  # else who asks again has not heard what is asked now
        return _told(family, accepted=fresh and {one.id for one in family.asked()} <= before)

    async def _feed_one(
        self, session_id: UUID, given: "Sequence[_Given]", seconds: float, reply: Reply | None
    ) -> dict[str, Any]:
        """The common case: what is answered was asked by the run itself."""
        fed = _Fed(await bound(self._runtime, session_id, [(number, answer) for _, number, answer in given]), reply)
        result: Turn | UUID = await self._runtime.submit(session_id, fed)
        turn = await self._executions.turn(result) if isinstance(result, UUID) else result
        return await self._reply(turn, seconds, accepted=fed.fresh and not fed.asked)

    async def _reply(self, turn: Turn, seconds: float, *, accepted: bool = False) -> dict[str, Any]:
        family = self._families.of(turn) or await self._families.present(turn.session.id)
        if family.rests():
            return _told(family, accepted=accepted)
        return _told(await self._families.rest(family, seconds))

    # ---- snapshots, on a thread ----------------------------------------------------------------------------------------------------

    def _snapshots(self, shown: PendingFilter | None, include_history: bool, limit: int) -> dict[str, Any]:
        active = [ExecutionStatus.RUNNING, ExecutionStatus.PAUSED]
        kinds = [ExecutionKind.STRATEGY]
        found = self._runtime.store.list_executions(statuses=active, kinds=kinds, roots=True, limit=limit).items
        snapshots = []
        for execution in found:
            with contextlib.suppress(HoldfastError):  # it is gone by now
                snapshots.append(self._snapshot(execution.session_id, shown, include_history))
        return replies.status(snapshots)

    def _snapshot(self, session_id: UUID, shown: PendingFilter | None, include_history: bool) -> dict[str, Any]:
        store = self._runtime.store
        family = self._families.read_now(session_id)
        execution, asked = family.whole(), family.asked()
        history = exchanges(store, execution) if include_history else []
        logs = store.list_events(execution.id, after_seq=max(0, execution.seq - _LOGS), limit=_LOGS)
        snapshot = replies.snapshot(
            family.root.turn.session,
            execution,
            [one.query for one in asked],
            [one.query for one in history],
            logs,
            now=int(self._runtime.settings.clock()),
            pending_filter=shown,
            include_history=include_history,
            ids=[one.id for one in asked],
            history_ids=[one.id for one in history],
        )
        return snapshot | {"strategy": execution.path}


_Given = tuple[tuple[tuple[int, int], ...], int | None, Answer]


def _parsed(response: Response) -> _Given:
    path, number = ((), None) if response.query_id is None else parse_any_query_id(response.query_id)
    usage, model, reason = response.usage, response.model, response.finish_reason
    answer = given_answer(response.response, usage=usage, model=model, finish_reason=reason)
    if response.error is None:
        return path, number, answer
    if not isinstance(response.error, str) or response.response is not None:
        raise InvalidValue("an answer is a response or an error, which is text")
    return path, number, answer._replace(error=checked({"message": response.error, "code": None}, "an error"))


def _by_session(family: Family, given: Sequence[_Given]) -> dict[UUID, list[tuple[int | None, Answer]]]:
    """The answers of each session of a run. One without an id is for the only query that is open in all of it."""
    found: dict[UUID, list[tuple[int | None, Answer]]] = {}
    for path, number, answer in given:
        if number is None:
            asked = family.asked()
            if len(asked) != 1:
                text = f"{len(asked)} queries pending; specify query_id explicitly" if asked else "no pending queries"
                raise AnswerAmbiguous(text)
            path, number = parse_any_query_id(asked[0].id)
        target = family.root.turn.session.id
        for query, index in path:
            target = branches.child_id(target, query, index)
        found.setdefault(target, []).append((number, answer))
    return found


def _told(family: Family, *, accepted: bool = False) -> dict[str, Any]:
    execution = family.execution
    session_id = execution.session_id
    if not EXECUTION.is_final(execution.status):
        asked = [] if family.moves else family.asked()
        if asked and accepted:
            return replies.accepted(session_id, len(asked))
        if asked:
            return replies.needs_response(session_id, [one.query for one in asked], [one.id for one in asked])
        return replies.waiting(session_id, family.queries)
    return _ENDS.get(execution.status, replies.failed)(execution)


_ENDS: Final = {ExecutionStatus.OK: replies.completed, ExecutionStatus.CANCELLED: replies.cancelled}


def _response(query_id: str, value: Any) -> Response:
    if not isinstance(value, Response):
        return Response(value, query_id)
    return Response(value.response, query_id, value.error, value.usage, value.model, value.finish_reason)


async def _all(answers: "Sequence[Awaitable[Any]]") -> Sequence[Any]:
    """What all of these give. If one raises, the others are given up."""
    tasks = [asyncio.ensure_future(answer) for answer in answers]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _seconds(wait_s: float | None) -> float:
    if wait_s is None:
        return _WAIT_S
    if isinstance(wait_s, bool) or not isinstance(wait_s, int | float) or not 0 <= wait_s <= _LONGEST_S:
        raise InvalidValue(f"wait_s must be a number of seconds from 0 to {_LONGEST_S:g}")
    return float(wait_s)


def _language(language: str) -> str:
    if language not in _LANGUAGES:
        raise InvalidValue(f"there is no language {str(language)[:40]!r}; there are {', '.join(_LANGUAGES)}")
    return language


def _key(key: str | None) -> str | None:
    """A shorter text that stands for a key: two things are remembered under it."""
    if key is None:
        return None
    check_key(key)
    return f"run {hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
