"""`random`: random values of the host's own source, which nobody can foretell. `Math.random` of a script comes from its seed."""

import secrets
import uuid
from typing import ClassVar, Final

from holdfast.capabilities.native import NativeModule, effect
from holdfast.domain import EffectKind
from holdfast.sandbox import HostError

_LARGEST: Final = 65_536
_SAFE: Final = (1 << 53) - 1


def random_bytes(count: int) -> bytes:
    """Refuses what a script would not want in one piece."""
    if not 0 <= count <= _LARGEST:
        raise HostError(f"a number of bytes is from 0 to {_LARGEST}", code="INVALID_ARGUMENT")
    return secrets.token_bytes(count)


class Random(NativeModule):
    """Each value is journaled: a step that is run again after a crash gets the same ones."""

    name: ClassVar[str] = "random"
    description: ClassVar[str] = "Gives random bytes, numbers and UUIDs from the host's secure source."

    @effect(EffectKind.READ)
    def bytes(self, count: int) -> "bytes":
        return random_bytes(count)

    @effect(EffectKind.READ)
    def int(self, low: "int", high: "int") -> "int":
        """A whole number from `low` to `high`, both of which may come."""
        if not -_SAFE <= low <= high <= _SAFE:
            raise HostError("the first number must not be more than the second", code="INVALID_ARGUMENT")
        return low + secrets.randbelow(high - low + 1)

    @effect(EffectKind.READ)
    def float(self) -> "float":
        """At least 0, less than 1."""
        return secrets.randbits(53) / (1 << 53)

    @effect(EffectKind.READ)
    def uuid(self) -> str:
        """Of version 4."""
        return str(uuid.uuid4())
