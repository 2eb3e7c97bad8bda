"""What differs between two checkpoints: the global variables that were added, removed and changed."""

from typing import Any, Final

from holdfast.domain import Origin
from holdfast.runtime._errors import DifferenceTooLarge
from holdfast.runtime.core import Core
from holdfast.runtime.resident import climb
from holdfast.runtime.shelf import Shelved
from holdfast.sandbox import Breached, Finished, Globals

_LOOK_MS: Final = 5_000
_LOOK_MB: Final = 256
"""How long a look at the globals of one checkpoint may take, and in how much memory beyond what the script may use."""
_MOST_MB: Final = 4_095
_LARGEST: Final = 2 << 20
"""The most characters of names and previews in a difference."""


def globals_at(core: Core, shelved: Shelved, at: Origin) -> dict[str, dict[str, str]]:
    """The global variables at a checkpoint: type, preview and digest of each. Raises `DifferenceTooLarge` if there are too many.

    What a script needs for a step says nothing about how long it takes to look at all that it has made in many.
    """
    ladder = climb(core.store.chain(at), shelved, core.key)
    memory = min(shelved.limits.mem_mb + _LOOK_MB, _MOST_MB)
    limits = shelved.limits.but(wall_ms=_LOOK_MS, cpu_ms=_LOOK_MS, mem_mb=memory, max_output_kb=0, max_events=0)
    template = shelved.template
    sandbox = template.thaw(ladder[-1].image, limits=limits) if ladder else template.create(limits=limits, seed=0)
    with sandbox:
        outcome = sandbox.step(Globals(), now=0)
    if isinstance(outcome, Breached):
        raise DifferenceTooLarge(f"the global variables at checkpoint {at.number} cannot be looked at: {outcome.breach}")
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
    size = sum(len(name) + _size(before.get(name)) + _size(after.get(name)) for name in changed)
    size += sum(len(name) + _size(before.get(name)) + _size(after.get(name)) for name in before.keys() ^ after.keys())
    if size > _LARGEST:
        raise DifferenceTooLarge(f"the variables that differ have {size} characters; at most {_LARGEST} are shown")
    return {
        "added": {name: _shown(after[name]) for name in sorted(after.keys() - before.keys())},
        "removed": {name: _shown(before[name]) for name in sorted(before.keys() - after.keys())},
        "changed": dict(sorted(changed.items())),
    }


def _size(described: dict[str, str] | None) -> int:
    return 0 if described is None else len(described["preview"])


def _shown(described: dict[str, str]) -> dict[str, str]:
    return {"type": described["type"], "preview": described["preview"]}
