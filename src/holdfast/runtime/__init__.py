"""Who runs what: residency, scheduling, commit, recovery, leases, timers.

Begin with `Runtime`; `stepping` has one step, `jobs` and `timeline` what can be done with a session, `dispatch` which of it runs when.
"""

from holdfast.runtime import branches
from holdfast.runtime._errors import (
    BranchFailed,
    DifferenceTooLarge,
    EffectUncertain,
    ForkLimit,
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
from holdfast.runtime.notes import AddNote, NotesFull, count_notes, notes_of
from holdfast.runtime.outages import OutageWait
from holdfast.runtime.pruning import PRUNINGS, Delete, Prune, Pruning, pruning_of
from holdfast.runtime.runtime import Observer, Runtime
from holdfast.runtime.settings import Settings
from holdfast.runtime.starting import StartPath, StartUp
from holdfast.runtime.timeline import Fork, Rewind, fresh_seed

__all__ = [
    "PRUNINGS",
    "AddNote",
    "Answers",
    "BranchFailed",
    "Cancel",
    "CancelQuery",
    "Close",
    "Delete",
    "DifferenceTooLarge",
    "EffectKind",
    "EffectUncertain",
    "Fork",
    "ForkLimit",
    "Function",
    "GuestMissing",
    "HostFailed",
    "Job",
    "KeyMismatch",
    "LimitExceeded",
    "NotesFull",
    "Observer",
    "OutageWait",
    "Prune",
    "Pruning",
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
    "branches",
    "checked",
    "count_notes",
    "difference",
    "fresh_seed",
    "globals_at",
    "notes_of",
    "pruning_of",
]
