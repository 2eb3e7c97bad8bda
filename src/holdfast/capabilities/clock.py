"""`clock`: the time of the host. Within a step the clock of a script stands still; this one does not."""

import time
from datetime import UTC, datetime
from typing import ClassVar

from holdfast.capabilities.native import NativeModule, effect
from holdfast.domain import EffectKind


class Clock(NativeModule):
    """Each look is journaled: a step that is run again after a crash sees the same times."""

    name: ClassVar[str] = "clock"
    description: ClassVar[str] = "Tells the time of the host, in milliseconds or as ISO 8601, and how much of it passes."

    @effect(EffectKind.READ)
    def now(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    @effect(EffectKind.READ)
    def iso(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @effect(EffectKind.READ)
    def monotonic(self) -> float:
        """Milliseconds since some moment, never fewer than before; another process of the host may count from another moment."""
        return time.monotonic_ns() / 1e6
