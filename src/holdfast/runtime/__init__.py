"""Who runs what: residency, scheduling, commit, recovery, leases, timers.

Begin with `Runtime`; `stepping` has one step, `jobs` and `timeline` what can be done with a session, `dispatch` which of it runs when.
"""

from holdfast.runtime._errors import (
    EffectUncertain,
    GuestMissing,
    HostFailed,
    KeyMismatch,
    LimitExceeded,
    QueryExpired,
    RecoveryFailed,
    ReplayDiverged,
    RuntimeClosed,
)
from holdfast.runtime._plain import checked
from holdfast.runtime.diff import difference, globals_at
from holdfast.runtime.effects import EffectKind, Function, Tool
from holdfast.runtime.jobs import Answers, Cancel, CancelQuery, Close, Job, Start, Turn
from holdfast.runtime.pruning import Delete, Prune
from holdfast.runtime.runtime import Observer, Runtime
from holdfast.runtime.settings import Settings
from holdfast.runtime.starting import StartPath, StartUp
from holdfast.runtime.timeline import Fork, Rewind, fresh_seed

__all__ = [
    "Answers",
    "Cancel",
    "CancelQuery",
    "Close",
    "Delete",
    "EffectKind",
    "EffectUncertain",
    "Fork",
    "Function",
    "GuestMissing",
    "HostFailed",
    "Job",
    "KeyMismatch",
    "LimitExceeded",
    "Observer",
    "Prune",
    "QueryExpired",
    "RecoveryFailed",
    "ReplayDiverged",
    "Rewind",
    "Runtime",
    "RuntimeClosed",
    "Settings",
    "Start",
    "StartPath",
    "StartUp",
    "Tool",
    "Turn",
    "checked",
    "difference",
    "fresh_seed",
    "globals_at",
]
