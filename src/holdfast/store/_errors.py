"""Errors of stores.

HoldfastError
└── StoreError
    ├── StoreUnavailable   it cannot be reached now; what was acknowledged is safe
    ├── StoreFull          no room is left
    ├── StoreReadOnly      it cannot be written
    ├── StoreDamaged       its content cannot be read
    ├── StoreTooNew        a newer version of Holdfast has written it
    ├── StoreInUse         others use it, and this needs it alone
    ├── StoreUnknown       the address names no kind of store
    └── LeaseLost          another process has taken the session over

Not found, name taken, conflicts of versions are those of `holdfast.domain`.
"""

from holdfast.domain import Conflict, Fault, HoldfastError


class StoreError(HoldfastError):
    """The store could not do this."""

    code = "STORE_ERROR"
    fault = Fault.ENVIRONMENT


class StoreUnavailable(StoreError):
    """The store cannot be reached now. Nothing that was acknowledged is lost; try again."""

    code = "STORE_UNAVAILABLE"


class StoreFull(StoreError):
    """The store has no room left. Nothing that was acknowledged is lost; free some space and try again."""

    code = "STORE_FULL"


class StoreReadOnly(StoreError):
    """The store cannot be written. Check the permissions of its file and folder."""

    code = "STORE_READ_ONLY"


class StoreDamaged(StoreError):
    """The store's content cannot be read. Restore it from a backup."""

    code = "STORE_DAMAGED"


class StoreTooNew(StoreError):
    """The store was written by a newer version of Holdfast. Upgrade Holdfast to open it."""

    code = "STORE_TOO_NEW"


class StoreInUse(StoreError):
    """Other processes use this store. Stop them first."""

    code = "STORE_IN_USE"


class StoreUnknown(StoreError):
    """This is not the address of a store: use memory:, sqlite:///file or postgresql://host/database."""

    code = "STORE_UNKNOWN"
    fault = Fault.CALLER


class LeaseLost(Conflict):
    """Another process has taken this session over. What was not committed is dropped; ask again."""

    code = "LEASE_LOST"
    fault = Fault.ENVIRONMENT
