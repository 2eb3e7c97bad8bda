"""What can go wrong when a library is added."""

from holdfast.domain import Fault, HoldfastError


class LibraryNotAdded(HoldfastError):
    """The library could not be added to the cache.

    `reason` says why: NPM_MISSING, APT_MISSING, DOWNLOAD_FAILED, INTEGRITY_MISMATCH, BUNDLE_FAILED, FILE_NOT_FOUND, LIBRARY_EXISTS,
    LIBRARY_TOO_LARGE, CACHE_NOT_WRITABLE, TIMEOUT.
    """

    code = "LIBRARY_NOT_ADDED"
    fault = Fault.ENVIRONMENT

    def __init__(self, message: str, reason: str, hint: str | None = None, said: str = "") -> None:
        super().__init__(message)
        self.reason, self.hint = reason, hint
        self.said = said
        """All that a tool said."""
