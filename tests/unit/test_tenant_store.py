"""The store as a tenant sees it: of what is another's only the owner is read."""

from types import SimpleNamespace
from typing import Any, NoReturn, cast
from uuid import UUID, uuid4

import pytest

from holdfast.control._tenant_store import Owners, TenantStore
from holdfast.domain import ExecutionNotFound, SessionNotFound
from holdfast.store import Store


def _read(some_id: UUID) -> NoReturn:
    raise AssertionError("how long this takes tells that it is there, and how large it is")


def test_what_is_anothers_is_not_read_before_its_owner_is_checked() -> None:
    owners: dict[str, Any] = {name: lambda _: "victim" for name in ("owner_of_session", "owner_of_execution")}
    reads: dict[str, Any] = dict.fromkeys(("get_session", "show_session", "get_execution"), _read)
    store = cast(Store, SimpleNamespace(**owners, **reads))
    mine = TenantStore(store, "attacker", Owners(store), None)
    for _ in range(2):  # also once the owner is known
        with pytest.raises(ExecutionNotFound):
            mine.get_execution(uuid4())
        for read in (mine.get_session, mine.show_session):
            with pytest.raises(SessionNotFound):
                read(uuid4())
