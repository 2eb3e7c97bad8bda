"""What differs between two checkpoints: the global variables that were added, removed and changed."""

from typing import Any, Final

from holdfast.domain import Origin
from holdfast.runtime._errors import LimitExceeded
from holdfast.runtime.core import Core
from holdfast.runtime.resident import climb
from holdfast.runtime.shelf import Shelved
from holdfast.sandbox import Breached, Finished, Globals

_LOOK_MS: Final = 30_000
_LOOK_MB: Final = 1_024
"""How long a look at the globals may take, and in how much memory: for each of two checkpoints, while nobody else waits for it."""


def globals_at(core: Core, shelved: Shelved, at: Origin) -> dict[str, dict[str, str]]:
    """The global variables at a checkpoint: type, preview and digest of each. Raises `LimitExceeded` if there are too many.

    What a script needs for a step says nothing about how long it takes to look at all that it has made in many.
    """
    ladder = climb(core.store.chain(at), shelved, core.key)
    memory = max(shelved.limits.mem_mb, _LOOK_MB)
    limits = shelved.limits.but(wall_ms=_LOOK_MS, cpu_ms=_LOOK_MS, mem_mb=memory, max_output_kb=0, max_events=0)
    template = shelved.template
    sandbox = template.thaw(ladder[-1].image, limits=limits) if ladder else template.create(limits=limits, seed=0)
    with sandbox:
        outcome = sandbox.step(Globals(), now=0)
    if isinstance(outcome, Breached):
        raise LimitExceeded(f"the global variables at checkpoint {at.number} cannot be looked at: {outcome.breach}")
    assert isinstance(outcome, Finished)
    found: dict[str, dict[str, str]] = outcome.result.value
    return found


def difference(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> dict[str, Any]:
    """What was added, removed and changed between two sets of globals."""
    changed = {
        name: {"before": _shown(before[name]), "after": _shown(after[name])}
        for name in before.keys() & after.keys()
        if before[name] != after[name]
    }
    return {
        "added": {name: _shown(after[name]) for name in sorted(after.keys() - before.keys())},
        "removed": {name: _shown(before[name]) for name in sorted(before.keys() - after.keys())},
        "changed": dict(sorted(changed.items())),
    }


def _shown(described: dict[str, str]) -> dict[str, str]:
    return {"type": described["type"], "preview": described["preview"]}
