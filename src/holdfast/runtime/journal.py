"""The host of a session's sandbox: calls the functions that its template grants, and keeps a journal of what came of them.

A step that did not come to its end is run again from the last checkpoint. Up to where the journal reaches, calls get the replies
that they got before, and must be the same calls; from there on they are made. The journal is durable only where it has to be: an
effect that must not happen twice waits until everything before it, and the intent to do it, is. So does one of which twice is as good
as once, if the step has read anything before: done again, it must be the same, and not follow from what it has itself changed.

Files of a worktree that are imported are in it as well: what a name meant, and of a file's text its digest. A file that is another one
when the step is run again is noticed.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.capabilities import SessionModules, is_refusal
from holdfast.runtime._errors import EffectUncertain, ReplayDiverged
from holdfast.runtime.effects import EffectKind, Function
from holdfast.sandbox import Host, Loader, Sandbox, values
from holdfast.sandbox.host import called
from holdfast.store import Effect

_CALL: Final = ord("c")
_RESOLVE: Final = ord("r")
_IMPORT: Final = "import"
_MOST_IMPORTS: Final = 25_000
"""How often a step may look for a module, or read one."""
_MOST_BYTES: Final = 256 << 20
"""How much a step may be told by all of its calls, which is kept until the step is over; and not more than its limit of memory."""
_MOST_CALLS: Final = 100_000
"""How many calls a step may make: each is an entry of the journal."""
_LONGEST_SHOWN: Final = 200
MOST_REFUSED: Final = 100
"""How many refusals of a step are told one by one."""
_NOTHING: Final = b"v" + values.encode(None)


class Refused(NamedTuple):
    """A call that the template does not grant, or not so."""

    name: str
    code: str
    message: str

    def as_dict(self) -> dict[str, Any]:
        """What the event says that tells of it."""
        return {"level": "warn", "message": f"{self.name} was refused: {self.message}", "code": self.code, "call": self.name}


class Journal(Host):
    """The host of one session, and the effects of the step that it runs."""

    def __init__(self, functions: Mapping[str, Function], modules: Loader, begin: Callable[[], None]) -> None:
        super().__init__({name: function.call for name, function in functions.items()}, modules)
        self._offered = functions
        self._begin = begin
        self.sandbox: Sandbox | None = None
        self.effects: list[Effect] = []
        """Of the step that runs. It gets longer, and an intent is replaced when there is a reply; nothing else of it changes."""
        self._position = self._known = 0
        self._learned = False
        """Whether the step was told anything by the world that would be forgotten with this process."""
        self._reads_files = isinstance(modules, SessionModules) and modules.reads_files
        self._resolved: dict[str, bytes] = {}
        """What names of modules mean, as far as the step that runs has asked: the same all the time."""
        self._imports = self._bytes = 0
        self._most_bytes = _MOST_BYTES
        self._unwritten: int | None = None
        """Where the first call stands whose part of the state is not in the store: up to there the journal may be written as it is."""
        self.acted = False
        """Whether the step has done something that must not happen twice, since it was begun this time."""
        self.refused: list[Refused] = []
        """What was refused in the step that runs, and was not told yet."""

    def start(self, sandbox: Sandbox, effects: list[Effect]) -> None:
        """A step begins, perhaps for the second time, with what is known of its effects."""
        self.load(effects)
        self.sandbox, self.refused, self.acted = sandbox, [], False
        self._position, self._known = 0, len(effects)
        self._learned = False
        self._resolved, self._imports, self._bytes = {}, 0, 0
        self._most_bytes = min(_MOST_BYTES, sandbox.limits.mem_mb << 20)
        if effects:
            sandbox.untimed()

    def load(self, effects: list[Effect]) -> None:
        """What is known of the effects of a step that is about to begin."""
        self.effects, self._unwritten = effects, None

    @property
    def certain(self) -> int:
        """How many effects so far need not be done again: those before the first that depends on state which may yet be another's.

        On any thread: whoever adds a call of the state notes its place first.
        """
        count, unwritten = len(self.effects), self._unwritten
        return count if unwritten is None else min(count, unwritten)

    def settle(self) -> None:
        """All that was done to the state so far is in the store, with the effects."""
        self._unwritten = None

    @property
    def is_behind(self) -> bool:
        """Whether less was called than is known to have been called before."""
        return self._position < self._known

    def answer(self, operation: int, request: bytes, now: float) -> tuple[bytes, float]:
        if operation != _CALL:
            reply = self._import(operation, request, now) if self._reads_files else self._answer(operation, request)
            return self._noted("require", reply), now  # the clock need not move
        name = called(request)
        arguments = _digest(request)
        at, self._position = self._position, self._position + 1
        if at >= self._known:
            return self._live(at, name, arguments, request, now)
        effect = self.effects[at]
        if (effect.name, effect.arguments) != (name, arguments):
            raise ReplayDiverged
        if self._position == self._known and self.sandbox is not None:
            self.sandbox.timed()
        if effect.reply is not None:
            reply = effect.reply.encode("utf-8", "surrogatepass")
            self._bytes += len(reply)
            return self._noted(name, reply), effect.clock
        if self._kind(name) is EffectKind.ONCE:
            return self._done(at, name, arguments, _uncertain(), now)
        return self._call_out(at, name, arguments, request, now)

    def _import(self, operation: int, request: bytes, now: float) -> bytes:
        asked = _digest(bytes([operation]) + request)
        if asked in self._resolved:
            return self._resolved[asked]
        if self._imports == _MOST_IMPORTS:
            return _error("CALLS_EXCEEDED", f"a step looks for at most {_MOST_IMPORTS} modules")
        self._imports += 1
        at, self._position = self._position, self._position + 1
        known: str | None = None
        if at < self._known:
            effect = self.effects[at]
            if (effect.name, effect.arguments) != (_IMPORT, asked):
                raise ReplayDiverged
            known = effect.reply
            if self._position == self._known and self.sandbox is not None:
                self.sandbox.timed()
        else:
            self.effects.append(Effect(_IMPORT, asked, None, now))
        if operation == _RESOLVE and known is not None:
            reply = known.encode("utf-8", "surrogatepass")
        else:
            reply = self._answer(operation, request)
            kept = reply.decode("utf-8", "surrogatepass") if operation == _RESOLVE else _digest(reply)
            if known not in (None, kept):
                raise ReplayDiverged
            if known is None:
                self.effects[at] = Effect(_IMPORT, asked, kept, now)
            self._learned = True
        if operation == _RESOLVE:
            self._resolved[asked] = reply
        return reply

    def _live(self, at: int, name: str, arguments: str, request: bytes, now: float) -> tuple[bytes, float]:
        if at >= _MOST_CALLS or self._bytes > self._most_bytes:
            self._position -= 1  # it was never called
            most = (
                f"makes at most {_MOST_CALLS} calls"
                if at >= _MOST_CALLS
                else f"is told at most {self._most_bytes} bytes by its calls"
            )
            return _error("CALLS_EXCEEDED", f"a step {most}; a pause begins the next step"), now
        kind = self._kind(name)
        if kind is EffectKind.STATE and self._unwritten is None:
            self._unwritten = at
        self.effects.append(Effect(name, arguments, None, now))
        if kind is EffectKind.ONCE or (kind is EffectKind.IDEMPOTENT and self._learned):
            self._begin()
            self._learned = False
            self.acted = True
        return self._call_out(at, name, arguments, request, now)

    def _call_out(self, at: int, name: str, arguments: str, request: bytes, now: float) -> tuple[bytes, float]:
        begun = time.monotonic()
        reply = self._answer(_CALL, request)
        return self._done(at, name, arguments, reply, now + (time.monotonic() - begun) * 1000)

    def _done(self, at: int, name: str, arguments: str, reply: bytes, clock: float) -> tuple[bytes, float]:
        if reply != _NOTHING or self._kind(name) is EffectKind.READ:  # a read says something also if it finds nothing
            self._learned = True
        self.effects[at] = Effect(name, arguments, reply.decode("utf-8", "surrogatepass"), clock)
        self._bytes += len(reply)
        return self._noted(name, reply), clock

    def _noted(self, name: str, reply: bytes) -> bytes:
        if reply[:1] == b"e":
            error = json.loads(reply[1:])
            if is_refusal(error["code"]) and len(self.refused) <= MOST_REFUSED:
                self.refused.append(Refused(name[:_LONGEST_SHOWN], error["code"], error["message"]))
        return reply

    def _kind(self, name: str) -> EffectKind:
        function = self._offered.get(name)
        return EffectKind.READ if function is None else function.kind  # one that is not there is refused, at no risk


def settled(effects: Sequence[Effect]) -> int:
    """How many of them, from the first on, have replies and so will not change."""
    return next((at for at, effect in enumerate(effects) if effect.reply is None), len(effects))


def _uncertain() -> bytes:
    error = EffectUncertain()
    return _error(error.code, str(error))


def _error(code: str, message: str) -> bytes:
    return b"e" + json.dumps({"code": code, "message": message}).encode()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
