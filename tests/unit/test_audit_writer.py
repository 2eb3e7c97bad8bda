"""Refusals in the audit log: counted together, each token's for itself."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from holdfast.control.audit import AuditWriter
from holdfast.domain import AuditEntry
from holdfast.runtime import Runtime


class _Log:
    """A runtime with a store that keeps what is appended."""

    def __init__(self) -> None:
        self.rows: list[AuditEntry] = []
        self.store = SimpleNamespace(append_audit=self.rows.extend)
        self.settings = SimpleNamespace(clock=lambda: 1)

    async def call(self, function: Any, *given: Any) -> Any:
        return function(*given)


def _refusal(number: int, tenant: str, token: str) -> AuditEntry:
    return AuditEntry(
        1, f"POST /{number}", "FORBIDDEN", 403, tenant, token, token, address=f"10.0.0.{number}", request_id=f"{tenant}{number}"
    )


def test_a_flood_of_one_caller_is_its_own() -> None:
    async def go() -> list[AuditEntry]:
        log = _Log()
        writer = AuditWriter(cast(Runtime, log))
        for number in range(1000):
            writer.refuse(_refusal(number, "default", ""))
            writer.refuse(_refusal(number, "beta", "noisy"))
        await writer.flush()
        for _ in range(3):
            writer.refuse(_refusal(1, "alpha", "quiet"))
        for number in range(1000, 1100):
            writer.refuse(_refusal(number, "beta", "noisy"))
        await writer.flush(final=True)
        return log.rows

    rows = asyncio.run(go())
    assert len(rows) < 100
    quiet = [row for row in rows if row.tenant == "alpha"]
    assert [(row.action, row.token, row.count, row.request_id) for row in quiet] == [("POST /1", "quiet", 3, "alpha1")]
    for tenant, token, total in (("default", "", 1000), ("beta", "noisy", 1100)):
        mine = [row for row in rows if row.tenant == tenant]
        assert {row.token for row in mine} == {token}
        assert sum(row.count for row in mine) == total
        rest = [row for row in mine if row.action == "*"]
        assert rest
        assert all((row.status, row.address, row.request_id) == (0, "", "") for row in rest), "they are of many"


def test_the_share_of_a_caller_is_whole_again_later() -> None:
    async def go() -> list[AuditEntry]:
        log, now = _Log(), [0.0]
        writer = AuditWriter(cast(Runtime, log), clock=lambda: now[0])
        for number in range(200):
            writer.refuse(_refusal(number, "a", "t"))
        await writer.flush()
        now[0] = 61.0
        await writer.flush()
        writer.refuse(_refusal(999, "a", "t"))
        await writer.flush()
        return log.rows

    assert asyncio.run(go())[-1].action == "POST /999"
