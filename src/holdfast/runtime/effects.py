"""What a host offers to scripts beyond computing: functions that are called in a step, and tools that a script waits for.

Both are granted by a template's capabilities, of kind `function` and `tool`; a script reaches nothing that is not granted.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class EffectKind(StrEnum):
    """What may happen to a function's effect when a process ends while it runs."""

    READ = "read"
    """It changes nothing: after a crash it is simply called again."""
    IDEMPOTENT = "idempotent"
    """Twice is as good as once: after a crash it is called again."""
    ONCE = "once"
    """It must not happen twice. That it is about to happen is made durable first; after a crash in between the script is told that
    nobody knows."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that scripts call as `module.name`, and that ends within the step. It may raise `HostError` into the script."""

    name: str
    call: Callable[..., Any]
    kind: EffectKind = EffectKind.ONCE


@dataclass(frozen=True, slots=True)
class Tool:
    """A slow function that scripts wait for with `hf.tool(name, args)`: the script pauses, durably, and goes on with the answer.

    With `once` it is never started a second time; without, it is started again after a crash.
    """

    name: str
    call: Callable[[Any], Awaitable[Any]]
    once: bool = True
