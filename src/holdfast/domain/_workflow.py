"""The session record of a workflow that is built in phases: a questionnaire, a plan, its execution, a result.

Field names, phases and the keys of error entries are those of VibeForge, so that its records can be read and its programs go on.
What is different: a phase follows only where `PHASES` has an arrow, also by plain assignment; each change moves `updated_at`
forward, whatever the clock does; `to_dict` gives copies; and `version` tells a store whether a copy is stale.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self, get_type_hints
from uuid import NAMESPACE_OID, UUID, uuid5

from holdfast.domain._errors import ErrorEntryNotFound, InvalidValue
from holdfast.domain._ids import new_id
from holdfast.domain._states import Machine

if TYPE_CHECKING:
    from pydantic import BaseModel

Clock = Callable[[], datetime]

SCHEMA: Final = 1
"""The version of what `to_dict` gives. Records without one are VibeForge's own, and are read as well."""

_TICK: Final = timedelta(microseconds=1)


class SessionPhase(StrEnum):
    """Where a workflow is."""

    QUESTIONNAIRE = "QUESTIONNAIRE"
    BUILD_SPEC = "BUILD_SPEC"
    IDEA = "IDEA"
    PLAN_REVIEW = "PLAN_REVIEW"
    EXECUTION = "EXECUTION"
    CLARIFICATION = "CLARIFICATION"
    VERIFICATION = "VERIFICATION"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"


def _to(names: str) -> frozenset[SessionPhase]:
    return frozenset(SessionPhase(name) for name in names.split())


PHASES: Final = Machine(
    "the workflow",
    {
        SessionPhase.QUESTIONNAIRE: _to("BUILD_SPEC FAILED"),
        SessionPhase.BUILD_SPEC: _to("IDEA FAILED"),
        SessionPhase.IDEA: _to("PLAN_REVIEW FAILED"),
        SessionPhase.PLAN_REVIEW: _to("EXECUTION IDEA FAILED"),  # IDEA: the plan was rejected
        SessionPhase.EXECUTION: _to("CLARIFICATION VERIFICATION COMPLETE FAILED"),
        SessionPhase.CLARIFICATION: _to("EXECUTION FAILED"),
        SessionPhase.VERIFICATION: _to("COMPLETE EXECUTION FAILED"),  # EXECUTION: something has to be fixed
        SessionPhase.COMPLETE: _to(""),
        SessionPhase.FAILED: _to(""),
    },
)


def utc_now() -> datetime:
    """The time: what a record's clock is unless it is given another."""
    return datetime.now(UTC)


@dataclass(init=False, eq=True)
class WorkflowSession:
    """One workflow. Fields may be assigned freely; assigning `phase` is guarded like `update_phase`.

    >>> session = WorkflowSession("w-1")
    >>> session.update_phase(SessionPhase.EXECUTION)
    Traceback (most recent call last):
    holdfast.domain._errors.InvalidTransition: the workflow is QUESTIONNAIRE and cannot become EXECUTION; \
allowed from QUESTIONNAIRE: BUILD_SPEC, FAILED
    """

    session_id: str
    created_at: datetime
    updated_at: datetime
    phase: SessionPhase = SessionPhase.QUESTIONNAIRE
    version: int = 0
    """The version that a store gave this copy; 0: none has it."""

    current_question_index: int = 0
    answers: dict[str, Any] = field(default_factory=dict)

    intent_profile: dict[str, Any] | None = None
    build_spec: dict[str, Any] | None = None
    concept: dict[str, Any] | None = None
    task_graph: dict[str, Any] | None = None

    completed_task_ids: list[str] = field(default_factory=list)
    failed_task_ids: list[str] = field(default_factory=list)
    active_task_id: str | None = None
    logs: list[str] = field(default_factory=list)

    pending_clarification: dict[str, Any] | None = None
    clarification_answer: str | None = None
    clarification_context: dict[str, Any] | None = None

    error_history: list[dict[str, Any]] = field(default_factory=list)
    failure_reason: str | None = None
    failure_artifact: dict[str, Any] | None = None
    is_aborted: bool = False
    abort_reason: str | None = None
    fix_loop_count: int = 0
    max_fix_loops: int = 3

    agents: list[dict[str, Any]] = field(default_factory=list)
    agent_roles: dict[str, str] = field(default_factory=dict)
    agent_models: dict[str, str] = field(default_factory=dict)
    agent_graph: dict[str, Any] | None = None
    main_task: str | None = None

    initial_prompt: str | None = None
    first_agent_id: str | None = None
    simulation_mode: str = "manual"
    tick_index: int = 0
    tick_status: str = "idle"
    auto_delay_ms: int | None = None
    tick_budget: int | None = None
    simulation_message_queue: list[Any] = field(default_factory=list)
    simulation_message_counter: int = 0
    simulation_agent_conversations: dict[str, Any] = field(default_factory=dict)
    simulation_expected_responses: list[Any] = field(default_factory=list)
    simulation_delegation_tracking: dict[str, Any] = field(default_factory=dict)
    simulation_final_answer: Any = None
    use_real_llm: bool = False
    llm_provider: str = "openai"
    default_model: str = "gpt-4o-mini"
    default_temperature: float = 0.7
    simulation_cost_usd: float = 0.0
    max_history_depth: int = 20
    max_cost_usd: float = 1.0
    tick_rate_limit_ms: int = 1000
    last_tick_timestamp: datetime | None = None

    agent_connections: dict[str, Any] = field(default_factory=dict)
    pending_dispatches: dict[str, Any] = field(default_factory=dict)
    response_buffer: list[Any] = field(default_factory=list)

    def __init__(self, session_id: str | None = None, *, clock: Clock = utc_now) -> None:
        # Past `__setattr__`: nothing changes yet.
        state = vars(self)
        state["_clock"] = clock
        for each in fields(self):
            state[each.name] = each.default_factory() if each.default_factory is not MISSING else each.default
        state["session_id"] = session_id or str(new_id())
        state["created_at"] = state["updated_at"] = _utc(clock())

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).__dataclass_fields__:
            raise AttributeError(f"a workflow has no field {name!r}: it would be lost")
        if name == "phase":
            value = PHASES.next(self.phase, _phase(value))
        super().__setattr__(name, value)
        if name not in _UNTOUCHING:
            self._touch()

    # ---- changes

    def update_phase(self, new_phase: SessionPhase | str) -> None:
        """Goes on to another phase. `InvalidTransition` unless it may follow."""
        self.phase = _phase(new_phase)

    def add_answer(self, question_id: str, answer: Any) -> None:
        """Keeps an answer; a later one to the same question replaces it."""
        self.answers[question_id] = answer
        self._touch()

    def add_log(self, message: str) -> None:
        """Adds a line, with the time in brackets before it."""
        self.logs.append(f"[{self._touch().isoformat()}] {message}")

    def add_error(
        self,
        task_id: str,
        error_message: str,
        phase: SessionPhase | str | None = None,
        *,
        kind: str = "error",
        execution_id: UUID | str | None = None,
    ) -> str:
        """Adds to the error history, in the present phase unless another is given. Gives the entry's id."""
        where = self.phase if phase is None else _phase(phase)
        entry = {
            "id": str(new_id()),
            "timestamp": self._touch().isoformat(),
            "phase": where.value,
            "task_id": task_id,
            "execution_id": None if execution_id is None else str(execution_id),
            "kind": kind,
            "message": error_message,
            "error_message": error_message,  # what VibeForge calls it
            "attempt": 1 + sum(earlier.get("task_id") == task_id for earlier in self.error_history),
            "resolved_at": None,
        }
        self.error_history.append(entry)
        return str(entry["id"])

    def resolve_error(self, error_id: str) -> None:
        """Marks an error as dealt with; once is enough. `ErrorEntryNotFound`."""
        for entry in self.error_history:
            if entry.get("id") == error_id:
                if entry.get("resolved_at") is None:
                    entry["resolved_at"] = self._touch().isoformat()
                return
        raise ErrorEntryNotFound

    def increment_fix_loop(self) -> bool:
        """Counts one more attempt to fix what failed. Tells whether another may follow."""
        self.fix_loop_count += 1
        return self.fix_loop_count < self.max_fix_loops

    def reset_fix_loop(self) -> None:
        """Starts counting again."""
        self.fix_loop_count = 0

    # ---- views

    def get_recovery_options(self) -> list[dict[str, str]]:
        """What can be done after a failure or an abort, as `{value, label, description}`; nothing before."""
        if self.phase is not SessionPhase.FAILED and not self.is_aborted:
            return []
        options = [_RESTART, _EXPORT]
        if self.task_graph or self.concept:
            options.append(_REDUCE)
        return [option.copy() for option in options]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data of its own: changing it changes nothing here."""
        plain: dict[str, Any] = {"schema_version": SCHEMA}
        for each in fields(self):
            plain[each.name] = _plain(getattr(self, each.name))
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, clock: Clock = utc_now) -> Self:
        """From what `to_dict` gave, now or in an earlier version. What is missing has its default, what is unknown is ignored.

        `InvalidValue` if a field makes no sense, or a newer version wrote this.
        """
        if not isinstance(data, Mapping):
            raise InvalidValue("a workflow's record is an object")
        schema = data.get("schema_version", SCHEMA)
        if type(schema) is not int or not 1 <= schema <= SCHEMA:
            raise InvalidValue(f"this workflow's record has schema version {str(schema)[:20]!r}; known are 1 to {SCHEMA}")
        from pydantic import ValidationError

        try:
            document = _document().model_validate(copy.deepcopy(dict(data)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise InvalidValue(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
        session = cls(clock=clock)
        state, given = vars(session), document.model_fields_set
        for name in given:
            value = getattr(document, name)
            state[name] = _utc(value) if isinstance(value, datetime) else value
        # Where one of the two times is missing, the other is the best guess; and nothing changes before it is made.
        if "created_at" not in given and "updated_at" in given:
            state["created_at"] = session.updated_at
        if "updated_at" not in given or session.updated_at < session.created_at:
            state["updated_at"] = session.created_at
        state["session_id"] = session.session_id or str(new_id())
        state["error_history"] = _completed(session.session_id, session.error_history)
        return session

    def _touch(self) -> datetime:
        """Moves `updated_at`, and gives it. It only ever goes forward: clocks stand still within a tick, and are set back."""
        now = max(_utc(vars(self)["_clock"]()), self.updated_at + _TICK)
        vars(self)["updated_at"] = now
        return now


_UNTOUCHING: Final = frozenset({"version", "created_at", "updated_at"})

_RESTART: Final = {
    "value": "restart_session",
    "label": "Start again",
    "description": "Begin a new session with the same idea",
}
_EXPORT: Final = {
    "value": "export_logs",
    "label": "Export the logs",
    "description": "Keep logs and errors to find out what went wrong",
}
_REDUCE: Final = {
    "value": "reduce_scope",
    "label": "Make it smaller",
    "description": "Try again with fewer features or a simpler plan",
}


def _phase(given: SessionPhase | str) -> SessionPhase:
    try:
        return SessionPhase(given)
    except ValueError:
        raise InvalidValue(f"there is no phase {str(given)[:40]!r}; there are {', '.join(SessionPhase)}") from None


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InvalidValue("a time without a zone could be any: give one with a zone")
    return moment.astimezone(UTC)


def _plain(value: Any) -> Any:
    if isinstance(value, SessionPhase):
        return value.value
    return value.isoformat() if isinstance(value, datetime) else copy.deepcopy(value)


@cache
def _document() -> "type[BaseModel]":
    """The types of all fields, as a model: built when the first record is read, since that takes some milliseconds."""
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(WorkflowSession)
    shape: dict[str, Any] = {each.name: (hints[each.name], None) for each in fields(WorkflowSession)}
    return create_model("Document", __config__=ConfigDict(extra="ignore"), **shape)


def _completed(session_id: str, history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of old records, which have only four keys, with the rest. Their ids are the same at each reading."""
    attempts: dict[Any, int] = {}
    whole = []
    for position, entry in enumerate(history):
        task = entry.get("task_id")
        attempts[task] = attempts.get(task, 0) + 1
        message = entry.get("message", entry.get("error_message"))
        missing = {
            "id": str(uuid5(NAMESPACE_OID, f"{session_id}/{position}")),
            "execution_id": None,
            "kind": "error",
            "message": message,
            "error_message": message,
            "attempt": attempts[task],
            "resolved_at": None,
        }
        whole.append(missing | entry)
    return whole
