"""What kinds of effects there are outside a sandbox."""

from enum import StrEnum


class EffectKind(StrEnum):
    """What may happen to a function's effect when a process ends while it runs."""

    READ = "read"
    """It changes nothing: after a crash it is simply called again."""
    IDEMPOTENT = "idempotent"
    """Twice is as good as once: after a crash it is called again."""
    STATE = "state"
    """It changes what commits with the step, or reads it: after a crash it is called again, unless what it changed was committed before."""
    ONCE = "once"
    """It must not happen twice. That it is about to happen is made durable first; after a crash in between the script is told that
    nobody knows."""
