"""The persistence seam: one protocol, and memory, SQLite and PostgreSQL behind it.

Nothing here knows how sessions run. It imports only `holdfast.domain`.
"""

from holdfast.store._damage import is_secret
from holdfast.store._errors import (
    LeaseLost,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    StoreUnknown,
)
from holdfast.store._rows import pack as packed
from holdfast.store._rows import pack_events, prepare
from holdfast.store.address import open_store
from holdfast.store.protocol import (
    LONGEST_LEASE_MS,
    Begun,
    Commit,
    Effect,
    Link,
    Loaded,
    Page,
    Rebased,
    Reply,
    StateRow,
    StateWrite,
    Store,
    StrategyFigures,
    ToldStep,
    UsageRow,
    Used,
    family_scope,
    tenant_scope,
)

__all__ = [
    "LONGEST_LEASE_MS",
    "Begun",
    "Commit",
    "Effect",
    "LeaseLost",
    "Link",
    "Loaded",
    "Page",
    "Rebased",
    "Reply",
    "StateRow",
    "StateWrite",
    "Store",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreInUse",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnavailable",
    "StoreUnknown",
    "StrategyFigures",
    "ToldStep",
    "UsageRow",
    "Used",
    "family_scope",
    "is_secret",
    "open_store",
    "pack_events",
    "packed",
    "prepare",
    "tenant_scope",
]
