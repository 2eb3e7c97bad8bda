"""The host of a session's sandbox: calls the functions that its template grants, and keeps a journal of what came of them.

A step that did not come to its end is run again from the last checkpoint. Up to where the journal reaches, calls get the replies
that they got before, and must be the same calls; from there on they are made. The journal is durable only where it has to be: an
effect that must not happen twice waits until everything before it, and the intent to do it, is.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.runtime._errors import EffectUncertain, ReplayDiverged
from holdfast.runtime.effects import EffectKind, Function
from holdfast.sandbox import Host, Loader, Sandbox
from holdfast.store import Effect

_CALL: Final = ord("c")
_LONGEST_NAME: Final = 4096
_decode: Final = json.JSONDecoder().raw_decode


class Journal(Host):
    """The host of one session, and the effects of the step that it runs."""

    def __init__(self, functions: Mapping[str, Function], modules: Loader, begin: Callable[[], None]) -> None:
        super().__init__({name: function.call for name, function in functions.items()}, modules)
        self._offered = functions
        self._begin = begin
        self.sandbox: Sandbox | None = None
        self.effects: list[Effect] = []
        self._position = self._known = 0

    def start(self, sandbox: Sandbox, effects: list[Effect]) -> None:
        """A step begins, perhaps for the second time, with what is known of its effects."""
        self.sandbox, self.effects = sandbox, effects
        self._position, self._known = 0, len(effects)
        if effects:
            sandbox.untimed()

    @property
    def is_behind(self) -> bool:
        """Whether less was called than is known to have been called before."""
        return self._position < self._known

    def answer(self, operation: int, request: bytes, now: float) -> tuple[bytes, float]:
        if operation != _CALL:
            return self._answer(operation, request), now  # modules are part of the template: the clock need not move
        name = str(_decode(request[:_LONGEST_NAME].decode(errors="replace"), 1)[0])
        arguments = hashlib.blake2b(request, digest_size=16).hexdigest()
        at, self._position = self._position, self._position + 1
        if at >= self._known:
            return self._live(at, name, arguments, request, now)
        effect = self.effects[at]
        if (effect.name, effect.arguments) != (name, arguments):
            raise ReplayDiverged
        if self._position == self._known and self.sandbox is not None:
            self.sandbox.timed()
        if effect.reply is not None:
            return effect.reply.encode("utf-8", "surrogatepass"), effect.clock
        if self._kind(name) is EffectKind.ONCE:
            return self._done(at, name, arguments, _uncertain(), now)
        return self._call_out(at, name, arguments, request, now)

    def _live(self, at: int, name: str, arguments: str, request: bytes, now: float) -> tuple[bytes, float]:
        self.effects.append(Effect(name, arguments, None, now))
        if self._kind(name) is EffectKind.ONCE:
            self._begin()
        return self._call_out(at, name, arguments, request, now)

    def _call_out(self, at: int, name: str, arguments: str, request: bytes, now: float) -> tuple[bytes, float]:
        begun = time.monotonic()
        reply = self._answer(_CALL, request)
        return self._done(at, name, arguments, reply, now + (time.monotonic() - begun) * 1000)

    def _done(self, at: int, name: str, arguments: str, reply: bytes, clock: float) -> tuple[bytes, float]:
        self.effects[at] = Effect(name, arguments, reply.decode("utf-8", "surrogatepass"), clock)
        return reply, clock

    def _kind(self, name: str) -> EffectKind:
        function = self._offered.get(name)
        return EffectKind.READ if function is None else function.kind  # one that is not there is refused, at no risk


def _uncertain() -> bytes:
    error = EffectUncertain()
    return b"e" + json.dumps({"code": error.code, "message": str(error)}).encode()
