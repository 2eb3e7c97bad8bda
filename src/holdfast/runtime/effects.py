"""What a host offers to scripts beyond computing: functions that are called in a step, and tools that a script waits for.

Both are granted by a template's capabilities, of kind `function` and `tool`; a script reaches nothing that is not granted.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.domain import EffectKind

__all__ = ["EffectKind", "Function", "Tool"]


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
