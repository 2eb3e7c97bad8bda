"""What a client is told when a call makes no sense, or cannot be done: our code and our words, and never what is behind them."""

import logging
from typing import Final

from holdfast.domain import Fault, HoldfastError
from holdfast.mcp._plain import sendable

_log: Final = logging.getLogger("holdfast.mcp")
_OUR_FAULT: Final = "INTERNAL: something went wrong here; the log of the server says what"


def told(error: Exception, about: str) -> str:
    """An error as a client reads it. What is our fault is logged, and not told.

    >>> from holdfast.domain import SessionNotFound
    >>> told(SessionNotFound(), "status")
    'SESSION_NOT_FOUND: There is no such session.'
    """
    if not isinstance(error, HoldfastError) or error.fault is Fault.HOLDFAST:
        _log.error("%s failed", about, exc_info=error)
        return _OUR_FAULT
    text: str = sendable(f"{error.code}: {error}")
    return text
