"""Which HTTP status each code has. The only place that says so; the documentation's table is checked against it."""

from typing import Final

INTERNAL: Final = "INTERNAL"

STATUSES: Final[dict[str, int]] = {
    # what was asked makes no sense
    "INVALID_REQUEST": 400,
    "VALIDATION_ERROR": 400,
    # who asks
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "WORKTREE_NOT_ALLOWED": 403,
    # what is not there
    "NOT_FOUND": 404,
    "TEMPLATE_NOT_FOUND": 404,
    "SESSION_NOT_FOUND": 404,
    "EXECUTION_NOT_FOUND": 404,
    "QUERY_NOT_FOUND": 404,
    "CHECKPOINT_NOT_FOUND": 404,
    "ERROR_ENTRY_NOT_FOUND": 404,
    "CAPABILITY_NOT_FOUND": 404,
    "STARTUP_NOT_FOUND": 404,
    "FILE_NOT_FOUND": 404,
    "PACKAGE_NOT_FOUND": 404,
    # how it was asked
    "METHOD_NOT_ALLOWED": 405,
    "REQUEST_TIMEOUT": 408,
    "BODY_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "HOST_NOT_ALLOWED": 421,
    "RATE_LIMITED": 429,
    "USAGE_EXCEEDED": 429,
    "QUOTA_EXCEEDED": 429,
    # what contradicts the present state
    "CONFLICT": 409,
    "NAME_TAKEN": 409,
    "TEMPLATE_IN_USE": 409,
    "TEMPLATE_INACTIVE": 409,
    "CAPABILITY_EXISTS": 409,
    "STARTUP_FILE_EXISTS": 409,
    "PACKAGE_EXISTS": 409,
    "PACKAGE_CHANGED": 409,
    "VERSION_CONFLICT": 409,
    "STATE_CONFLICT": 409,
    "IDEMPOTENCY_CONFLICT": 409,
    "ANSWER_CONFLICT": 409,
    "ANSWER_AMBIGUOUS": 409,
    "SESSION_BUSY": 409,
    "SESSION_NOT_READY": 409,
    "INVALID_TRANSITION": 409,
    "NOTES_FULL": 409,
    # what is understood and cannot be done
    "BUDGET_EXCEEDED": 422,
    "INVALID_PATH": 422,
    "STARTUP_MODE_UNSUPPORTED": 422,
    "CAPABILITY_INVALID": 422,
    "LIMIT_TOO_HIGH": 422,
    "MODULE_NOT_ALLOWED": 422,
    "PACKAGE_INVALID": 422,
    "LIBRARY_UNKNOWN": 422,
    "LIBRARY_NOT_CACHED": 422,
    "LIBRARY_LOAD_FAILED": 422,
    "WORKTREE_NOT_FOUND": 422,
    "STARTUP_FAILED": 422,
    "TEMPLATE_FAILED": 422,
    "OUTPUT_LIMIT_EXCEEDED": 422,
    "DIFF_TOO_LARGE": 422,
    "VALUE_REFUSED": 422,
    # what may work later
    "UNAVAILABLE": 503,
    "CLOSED": 503,
    "LEASE_LOST": 503,
    "STORE_ERROR": 503,
    "STORE_UNAVAILABLE": 503,
    "STORE_FULL": 503,
    "STORE_READ_ONLY": 503,
    "STORE_DAMAGED": 503,
    "STORE_TOO_NEW": 503,
    "STORE_IN_USE": 503,
    "STORE_UNKNOWN": 503,
    # a fault of ours
    INTERNAL: 500,
}

LASTING: Final = frozenset({"STORE_READ_ONLY", "STORE_DAMAGED", "STORE_TOO_NEW", "STORE_UNKNOWN"})
"""Codes whose status says 503, although the same request will not work until somebody has done something about it."""

UNEXPECTED: Final = frozenset(
    {
        "SANDBOX_ERROR",
        "GUEST_UNAVAILABLE",
        "GUEST_FAULT",
        "SANDBOX_CLOSED",
        "ENGINE_CLOSED",
        "SANDBOX_BUSY",
        "REQUEST_REFUSED",
        "EXECUTION_PENDING",
        "NOT_PENDING",
        "UNKNOWN_QUERY",
        "QUERY_NOT_OPEN",
        "LIBRARY_NOT_ADDED",
        "IMAGE_ERROR",
        "IMAGE_DAMAGED",
        "IMAGE_FOREIGN",
        "IMAGE_UNSUPPORTED",
        "IMAGE_TOO_LARGE",
        "HOST_ERROR",
        "KEY_MISMATCH",
        "REPLAY_DIVERGED",
        "EFFECT_UNCERTAIN",
        "RECOVERY_FAILED",
        "HOST_FAILED",
        "LIMIT_EXCEEDED",
        "QUERY_EXPIRED",
        "PROMPT_UNKNOWN",
        "FORK_LIMIT",
        "BRANCH_FAILED",
    }
)
"""Codes that belong inside: on an execution, in a log. One that reaches a client as the answer to a call is a fault of ours."""


def status_of(code: str) -> int:
    """The status of an answer with this code.

    >>> status_of("SESSION_BUSY"), status_of("GUEST_FAULT")
    (409, 500)
    """
    return STATUSES.get(code, STATUSES[INTERNAL])
