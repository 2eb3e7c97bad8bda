"""What the parts of the contract suite share: records that use every field, and short words for commits."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

from holdfast.domain import (
    DEFAULT_TENANT,
    Amounts,
    Answer,
    Budget,
    Capability,
    Checkpoint,
    ErrorEntry,
    Event,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    Family,
    HoldfastError,
    Limits,
    Metrics,
    Origin,
    Query,
    QueryKind,
    QueryState,
    Session,
    SessionState,
    SourceFile,
    StartupFile,
    StartupPath,
    Step,
    Template,
    TemplateSpec,
    TemplateVersion,
    Tokens,
    TokenSource,
    Usage,
    Worktree,
)
from holdfast.store.protocol import Commit, Page, Store

Item = TypeVar("Item")

NASTY: Final = (
    "nul \0, astral \U0001f980, half a pair \ud800, \u202eright to left\u202c, \u05e9\u05dc\u05d5\u05dd, "
    "e\u0301, \x1a, \u2028, \ufffe, '\";--"
)
"""Text that scripts can produce and that databases like least."""

T0: Final = 1_700_000_000_000


@contextlib.contextmanager
def refused(code: str) -> Iterator[None]:
    """The block must raise the error of this code."""
    found = "no error"
    try:
        yield
    except HoldfastError as error:
        found = error.code
    assert found == code, f"{found} instead of {code}"


def pages(fetch: Callable[..., Page[Item]], limit: int, **filters: Any) -> list[list[Item]]:
    """All pages of a list."""
    found, after = [], None
    while True:
        page = fetch(limit=limit, after=after, **filters)
        found.append(page.items)
        after = page.next
        if after is None:
            return found


def codes(outcomes: Sequence[HoldfastError | None]) -> list[str | None]:
    return [None if error is None else error.code for error in outcomes]


class Samples:
    """Records for a test. Each test has a store of its own, with one template in it."""

    store: Store
    template: Template

    def make(self) -> Store:
        """An empty store."""
        raise NotImplementedError

    def reopen(self, store: Store) -> Store:
        """The same store as another process would open it. For stores that outlive their process."""
        return store

    def setup_method(self) -> None:
        self.store = self.make()
        self.tokens = itertools.count(1)
        self.template = self.new_template("first")

    def teardown_method(self) -> None:
        self.store.close()

    def new_template(self, name: str, tenant: str = DEFAULT_TENANT, **spec: Any) -> Template:
        template = Template(uuid4(), name, 1, T0, T0, tenant)
        self.store.create_template(template, self.version_of(template, 1, **spec))
        return template

    def version_of(self, template: Template, number: int, **spec: Any) -> TemplateVersion:
        return TemplateVersion(template.id, number, TemplateSpec(**spec), b"g" * 32, b"b" * 32, T0 + number)

    def new_session(self, **given: Any) -> Session:
        """One that is in the store."""
        session = self.session(**given)
        self.write(self.commit(session, expected=None))
        return session

    def session(self, **given: Any) -> Session:
        some: dict[str, Any] = {
            "id": uuid4(),
            "template_id": self.template.id,
            "template_version": 1,
            "state": SessionState.READY,
        }
        return Session(**some | {"created_at": T0, "updated_at": T0} | given)

    def commit(
        self, session: Session, *, expected: int | str | None = "before", fence: int | None = None, **parts: Any
    ) -> Commit:
        """One that leads to this session, from the version before."""
        before = session.version - 1 if isinstance(expected, str) else expected
        some: dict[str, Any] = {"token": next(self.tokens)}
        return Commit(session, before, session.fence if fence is None else fence, **some | parts)

    def write(self, *commits: Commit) -> None:
        """They must all be written."""
        outcomes = self.store.commit(commits)
        assert codes(outcomes) == [None] * len(commits), outcomes

    def change(self, session: Session, changes: dict[str, Any] | None = None, **parts: Any) -> Session:
        """Commits the next version of a session, and gives it."""
        changed = replace(session, version=session.version + 1, **(changes or {}))
        self.write(self.commit(changed, **parts))
        return changed

    def execution(self, session: Session, **given: Any) -> Execution:
        some: dict[str, Any] = {"id": uuid4(), "session_id": session.id, "kind": ExecutionKind.REPL, "started_at": T0}
        return Execution(**some | {"status": ExecutionStatus.RUNNING, "first_step": 1, "last_step": 1} | given)

    def step(self, number: int, execution: Execution, base: Origin | None = None, **given: Any) -> Step:
        """A step with one event and a checkpoint."""
        some: dict[str, Any] = {"first_seq": number, "sealed": f"image {number}".encode(), "depth": number, "open": ()}
        given = some | given
        first_seq = given["first_seq"]
        events = given.get("events", [Event(first_seq, T0 + number, "stdout", {"text": f"step {number}"})])
        checkpoint = given.get("checkpoint", Checkpoint(given["depth"], base, given["sealed"], given["open"]))
        return Step(number, number - 1, execution.id, T0 + number, first_seq, events, checkpoint)

    def query(self, session: Session, number: int, execution: Execution | None = None, **given: Any) -> Query:
        execution_id = uuid4() if execution is None else execution.id
        some: dict[str, Any] = {"session_id": session.id, "number": number, "execution_id": execution_id, "kind": QueryKind.LLM}
        return Query(**some | {"payload": {"prompt": f"question {number}"}, "asked_at": T0 + number} | given)

    def error(self, **given: Any) -> ErrorEntry:
        some: dict[str, Any] = {"id": uuid4(), "timestamp": T0, "phase": "run", "task_id": None, "execution_id": None}
        return ErrorEntry(**some | {"kind": "crash", "message": "it broke"} | given)

    def history(self, steps: int = 3, **given: Any) -> tuple[Session, Execution]:
        """A session with an execution of so many steps, each on the one before."""
        session = self.new_session(**given)
        execution = self.execution(session)
        session = self.change(session, {"execution_id": execution.id}, new_executions=[execution])
        for number in range(1, steps + 1):
            base = Origin(session.id, number - 1) if number > 1 else None
            execution = replace(execution, last_step=number, seq=number)
            position = {"head": number, "steps": number}
            session = self.change(session, position, executions=[execution], steps=[self.step(number, execution, base)])
        return session, execution

    def fork(self, session: Session, number: int, **given: Any) -> Session:
        return self.new_session(origin=Origin(session.id, number), **given)


def full_spec() -> dict[str, Any]:
    """A template's specification with something in every field."""
    return {
        "language": "lua",
        "libraries": (SourceFile("a.lua", NASTY),),
        "modules": (SourceFile("m.lua", "return 1"), SourceFile("n.lua", "")),
        "startup": (StartupFile("s.lua", "x = 1", "session"), StartupFile("t.lua", "y = 1")),
        "capabilities": (Capability("http", "get", False, {"hosts": ["a", {"b": None}]}), Capability("state", NASTY, id="x")),
        "limits": Limits(wall_ms=7, max_suspensions=3),
        "exposed": ("fs", "exec"),
        "packages": ("lodash-4.17.21",),
        "files": (StartupPath("y", NASTY, -5), StartupPath("z", "b.lua", 7, "other")),
        "resolver": {"roots": ["a", NASTY], "extensions": [".lua"], "allow_absolute_repo_imports": False},
        "runtime": {"esm": False, "strict": True, "console": False},
        "active": False,
    }


def full_session(template: Template) -> dict[str, Any]:
    """Every field of a session that has another value than by default."""
    return {
        "id": uuid4(),
        "template_id": template.id,
        "template_version": 3,
        "state": SessionState.PAUSED,
        "created_at": T0 + 1,
        "updated_at": T0 + 2,
        "name": NASTY,
        "meta": {"a": [1, 2.5, None, True, {"b": NASTY}], "": {}, NASTY: -(1 << 60)},
        "closed_at": T0 + 3,
        "version": 1,
        "fence": 5,
        "owner": uuid4(),
        "head": 6,
        "steps": 7,
        "queries": 8,
        "execution_id": uuid4(),
        "wake_at": T0 + 9,
        "seed": (1 << 64) - 1,
        "budget": Budget(max_llm_calls=3, max_tokens=0),
        "llm_calls": 10,
        "tokens": 11,
        "last_error": NASTY,
        "worktree": Worktree("w", NASTY, "/a"),
        "family": Family(uuid4(), uuid4(), 7, 255, 8),
        "tenant": NASTY,
        "token": "t1",
        "usage": Usage(Amounts(1, 2, 3, 4), 5, Amounts(6, 7, 8, 9), Amounts(10, 11, 12, 13), 14, 15, uuid4()),
    }


def full_metrics() -> Metrics:
    metrics = Metrics(prompt_tokens=Tokens(101, TokenSource.ESTIMATED), answer_tokens=Tokens(102, TokenSource.PROVIDED))
    for number, counter in enumerate(fields(Metrics), 1):
        if counter.type is int:
            setattr(metrics, counter.name, number)
    return metrics


def full_execution(session_id: UUID) -> Execution:
    return Execution(
        id=uuid4(),
        session_id=session_id,
        kind=ExecutionKind.STRATEGY,
        status=ExecutionStatus.ERROR,
        started_at=T0,
        first_step=2,
        last_step=4,
        seq=9,
        input=NASTY,
        path="dir/" + NASTY,
        args={"a": [NASTY, 1e300, -0.5]},
        ended_at=T0 + 5,
        result={"value": NASTY},
        error={"code": "X", "stack": [NASTY]},
        metrics=full_metrics(),
        budget=Budget(max_elapsed_ms=4),
        parent_id=uuid4(),
        env={NASTY: [NASTY, None]},
        custom={"score": 0.5, NASTY: [NASTY, None]},
    )


def full_query(session_id: UUID, number: int) -> Query:
    return Query(
        session_id=session_id,
        number=number,
        execution_id=uuid4(),
        kind=QueryKind.TOOL,
        payload={"name": NASTY, "args": [None, {"x": [1]}]},
        asked_at=T0 + 1,
        guest_id=17,
        state=QueryState.ANSWERED,
        deadline=T0 + 2,
        started_at=T0 + 3,
        closed_at=T0 + 4,
        answer=Answer([NASTY, 0, False, None], {"message": NASTY}, {"tokens": 3}, NASTY, "length"),
    )
