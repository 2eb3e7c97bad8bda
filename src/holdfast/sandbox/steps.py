"""What a sandbox is asked to do, and what comes of it.

A step is one of six requests. Four of them run the script, and end in one of five outcomes, each with the events of the step:

    Evaluate, RunFile, Call, Resume  ->  Finished   the execution has a value
                                         Failed     the script raised
                                         Paused     it waits for answers, or for the clock
                                         Breached   a limit was exceeded   } the sandbox is closed:
                                         Cancelled  someone called cancel  } thaw its last image

Two run nothing of it: `Abandon` drops the execution that waits, and `Globals` looks at variables. They end as `Finished`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.domain import Breach

__all__ = [
    "Abandon",
    "Breached",
    "Call",
    "Cancelled",
    "Evaluate",
    "Event",
    "Failed",
    "Failure",
    "Finished",
    "Globals",
    "Outcome",
    "Paused",
    "Query",
    "Request",
    "Result",
    "Resume",
    "RunFile",
    "ScriptError",
]


class Evaluate(NamedTuple):
    """Run a snippet as a REPL does: its value is that of its last expression, and what it declares stays."""

    source: str | bytes
    filename: str = "<repl>"


class RunFile(NamedTuple):
    """Run a file. In JavaScript one with `import` or `export` is a module, and its value is its default export.

    It finds `args` in the global `__ARGS__`. With an `env` it finds both by the names `args`, `env` and `__ENV__` too.
    """

    source: str | bytes
    filename: str
    args: Any = None
    env: Mapping[str, Any] | None = None


class Call(NamedTuple):
    """Call a global function by name, which may be dotted."""

    function: str
    args: Sequence[Any] = ()


class Failure(NamedTuple):
    """An answer that raises at the call instead of returning."""

    message: str
    code: str | None = None
    name: str = "Error"


class Resume(NamedTuple):
    """Answers by query id, a `Failure` among them where one raises. Without answers only the clock moves on."""

    answers: Mapping[int, Any] = {}


class Abandon(NamedTuple):
    """Drop the execution that waits, where it stands: none of its code runs any more, not even to clean up.

    Its value is undefined or nil, and its open queries are `cancelled` events. What it has changed stays.
    """


class Globals(NamedTuple):
    """Describe the global variables, also while an execution waits. No code of the script runs, and nothing changes for it.

    The value is {name: {"type", "preview", "digest"}}. A digest is a hash of all that a value holds: it is the same for the
    same content in every fork, and differs when something deep inside differs. What a guest has when it boots is left out as
    long as the variable is the same.
    """


class Seal(NamedTuple):
    """Finish a template: nothing may wait, counters start again, and the heap is made ready to be shared."""


class Configure(NamedTuple):
    """Take the seed and the time zone that come with the step, and do nothing else."""


Request = Evaluate | RunFile | Call | Resume | Abandon | Globals | Seal | Configure


class Query(NamedTuple):
    """What a paused execution waits for. Ids are never used twice in a session."""

    id: int
    kind: str
    payload: Any


class Event(NamedTuple):
    """Something that happened during a step.

    `console` {level, text} · `query` {id, kind, payload} · `cancelled` {id} · `unhandled` {name, message, stack, ...} ·
    `log` {level, message} · `progress` {step, total, message} · `stat` {key, value}
    """

    type: str
    payload: dict[str, Any]


ABSENT: Final[Any] = object()
"""The value of a result that has no JSON form, such as a function."""


class Result(NamedTuple):
    """The value of an execution: the language's own type name, a capped preview, and the value if it could cross."""

    type: str
    preview: str
    value: Any = ABSENT
    has_json: bool = False

    @property
    def json(self) -> Any:
        """The value as plain JSON, if `has_json`; undefined and nil are None."""
        if not self.has_json:
            raise ValueError(f"a {self.type} has no JSON form")
        return None if self.type == "undefined" else self.value

    def as_dict(self) -> dict[str, Any]:
        """`{type, preview, json?}`"""
        plain = {"type": self.type, "preview": self.preview}
        return plain | {"json": self.json} if self.has_json else plain


class ScriptError(NamedTuple):
    """What a script raised. `value` is the raised value where that was not an error object."""

    name: str
    message: str
    stack: str = ""
    code: str | None = None
    value: Any = None


class Finished(NamedTuple):
    """The execution ended with a value."""

    result: Result
    events: tuple[Event, ...] = ()


class Failed(NamedTuple):
    """The execution ended with an error of the script."""

    error: ScriptError
    events: tuple[Event, ...] = ()


class Paused(NamedTuple):
    """The execution waits. `queries` were asked in this step, `open` are all ids that wait, `wake_at` is when the clock is due."""

    queries: tuple[Query, ...]
    open: tuple[int, ...]
    wake_at: float | None = None
    events: tuple[Event, ...] = ()


class Breached(NamedTuple):
    """A limit was exceeded. The events until then are kept; the state is not: thaw the last image."""

    breach: Breach
    events: tuple[Event, ...] = ()


class Cancelled(NamedTuple):
    """The step was cancelled from outside. As with a breach, the state is that of the last image."""

    events: tuple[Event, ...] = ()


Outcome = Finished | Failed | Paused | Breached | Cancelled
