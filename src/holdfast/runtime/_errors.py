"""Errors of the runtime.

HoldfastError
├── RuntimeClosed      Holdfast was closed
├── KeyMismatch        the store's images are sealed with another key
├── ReplayDiverged     a step that was run again did something else than before
├── EffectUncertain    an effect may or may not have happened
├── RecoveryFailed     a step brought its process down again and again
├── HostFailed         a host function raised something unforeseen
├── LimitExceeded      a limit was exceeded; the session is back at its last checkpoint
├── DifferenceTooLarge  two checkpoints differ in more than can be looked at
├── QueryExpired       nobody answered in time
├── ForkLimit          a script forks too often, or too deep
├── BranchFailed       a branch of a fork has failed
└── StoreDamaged
    └── GuestMissing   what a session was made with is not in the store, or damaged
"""

from holdfast.domain import Fault, HoldfastError
from holdfast.store import StoreDamaged


class RuntimeClosed(HoldfastError):
    """Holdfast is closed."""

    code = "CLOSED"
    fault = Fault.CALLER


class KeyMismatch(HoldfastError):
    """The store was made with another key. Give the key that it was made with."""

    code = "KEY_MISMATCH"
    fault = Fault.CALLER


class GuestMissing(StoreDamaged):
    """What this session was made with is not in the store, or damaged. Run `holdfast store check --repair`, or restore a backup."""


class ReplayDiverged(HoldfastError):
    """A step that was run again called something else than before. It was given up; the session is at its last checkpoint."""

    code = "REPLAY_DIVERGED"


class EffectUncertain(HoldfastError):
    """The process ended while this ran, so nobody knows whether it happened. It was not run again."""

    code = "EFFECT_UNCERTAIN"
    fault = Fault.ENVIRONMENT


class RecoveryFailed(HoldfastError):
    """This step was interrupted again and again. It was given up; the session is at its last checkpoint."""

    code = "RECOVERY_FAILED"


class HostFailed(HoldfastError):
    """A function of the host failed. The session is at its last checkpoint."""

    code = "HOST_FAILED"
    fault = Fault.ENVIRONMENT


class LimitExceeded(HoldfastError):
    """A limit was exceeded. The session is at its last checkpoint."""

    code = "LIMIT_EXCEEDED"
    fault = Fault.SCRIPT


class DifferenceTooLarge(HoldfastError):
    """The global variables of two checkpoints cannot be compared: there is too much in them, or too much differs."""

    code = "DIFF_TOO_LARGE"
    fault = Fault.CALLER


class QueryExpired(HoldfastError):
    """Nobody answered in time."""

    code = "QUERY_EXPIRED"
    fault = Fault.ENVIRONMENT


class ForkLimit(HoldfastError):
    """A script forks too often, or too deep."""

    code = "FORK_LIMIT"
    fault = Fault.SCRIPT


class BranchFailed(HoldfastError):
    """A branch of a fork has failed."""

    code = "BRANCH_FAILED"
    fault = Fault.SCRIPT
