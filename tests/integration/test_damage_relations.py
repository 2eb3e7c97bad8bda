"""Rows that can be read but fit no other, counters at their end, and lost secrets: told as damage, mended where that can be, else deleted."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast import Holdfast, HoldfastError
from holdfast.control.maintenance import check_store
from holdfast.store import StoreDamaged, open_store
from tests.integration.test_damage import Base, Postgresql, Sqlite, fill, flipped

MOST = (1 << 63) - 1
COUNTERS = ["version", "fence", "steps", "queries"]


@pytest.fixture(params=["sqlite", "postgresql"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Base:
    return Sqlite(tmp_path) if request.param == "sqlite" else Postgresql()


def damage_relations(base: Base, sessions: list[str]) -> None:
    """Another damage in each session, none in the last."""
    ids = [UUID(session).bytes for session in sessions]
    for column, session in zip(COUNTERS, ids, strict=False):
        base.execute(f"UPDATE sessions SET {column} = %s WHERE id = %s", MOST, session)
    key = "(SELECT key FROM sessions WHERE id = %s)"
    base.execute(f"UPDATE executions SET seq = %s WHERE session = {key}", MOST, ids[4])
    base.execute(f"UPDATE executions SET session = (SELECT max(key) FROM sessions) WHERE session = {key}", ids[5])
    base.execute("UPDATE sessions SET steps = steps - 1, head = head - 1 WHERE id = %s", ids[6])


def test_whatever_does_not_fit_is_damage_and_can_be_repaired_or_deleted(base: Base) -> None:
    *sessions, whole = asyncio.run(fill(base, 8))
    damage_relations(base, [*sessions, whole])

    async def main() -> None:
        async with Holdfast.open(base.address) as hf:
            for session in sessions:
                with pytest.raises(StoreDamaged):
                    await hf.queries.answer(session, "Ada")
        found = {str(finding.session_id) for finding in (await check_store(base.address)).findings}
        assert found == set(sessions)
        report = await check_store(base.address, repair=True)
        assert report.whole, report.left
        async with Holdfast.open(base.address) as hf:
            for session in [*sessions, whole]:
                assert (await hf.queries.answer(session, "Ada")).execution.status == "ok"
                await hf.executions.run(session, "await ask('Who?')")
        damage_relations(base, [*sessions, whole])
        async with Holdfast.open(base.address) as hf:
            for session in sessions:
                assert (await hf.sessions.close(session)).state == "closed"
                await hf.sessions.delete(session)
            assert [str(session.id) for session in (await hf.sessions.list()).items] == [whole]

    asyncio.run(main())


def test_a_template_with_a_damaged_id_is_named_and_found_again(tmp_path: Path) -> None:
    base = Sqlite(tmp_path)
    one, other = asyncio.run(fill(base, 2))
    with closing(sqlite3.connect(base.path)) as connection:
        [(template,)] = connection.execute("SELECT id FROM templates").fetchall()

    async def main() -> None:
        base.execute("UPDATE templates SET id = %s", flipped(template))
        async with Holdfast.open(base.address) as hf:
            with pytest.raises(StoreDamaged, match=str(UUID(bytes=template))):
                await hf.queries.answer(one, "Ada")
        report = await check_store(base.address, repair=True)
        assert report.whole, report.left
        assert ("template", str(UUID(bytes=template))) in {(finding.kind, finding.id) for finding in report.repaired}
        async with Holdfast.open(base.address) as hf:
            assert (await hf.queries.answer(one, "Ada")).execution.status == "ok"
        base.execute("UPDATE templates SET id = %s", uuid4().bytes)
        report = await check_store(base.address, repair=True)
        assert {finding.kind for finding in report.left} == {"template", "session"}
        async with Holdfast.open(base.address) as hf:
            assert (await hf.sessions.get(other)).state == "paused"  # it can go on when the template is restored
            for session in (one, other):
                await hf.sessions.delete(session)

    asyncio.run(main())


def test_rows_of_no_session_and_endless_leases_do_not_keep_a_repair_from_its_end(tmp_path: Path) -> None:
    base = Sqlite(tmp_path)
    [session] = asyncio.run(fill(base, 1))
    base.execute("INSERT INTO journal VALUES (99 << 28, '[1]')")
    for until in (MOST, 9 * 10**15, "text", time.time_ns() // 10**6 + 2 * 86_400_000):
        base.execute("INSERT INTO nodes VALUES (%s, %s)", uuid4().bytes, until)
    base.execute("UPDATE sessions SET state = 'running', owner = (SELECT node FROM nodes LIMIT 1)")

    async def main() -> None:
        assert (await check_store(base.address)).in_use == 0
        assert (await check_store(base.address, repair=True)).whole
        assert not (await check_store(base.address)).findings
        async with Holdfast.open(base.address) as hf:
            await hf.sessions.delete(session)

    asyncio.run(main())


# ---- secrets -------------------------------------------------------------------------------------------------------------------------


def secrets_of(base: Base) -> dict[str, Any]:
    store = open_store(base.address)
    try:
        return {str(name): value for name, value in store.maintain("SELECT name, value FROM secrets")}  # type: ignore[attr-defined]
    finally:
        store.close()


LOST = ["true", "name = 'key'", "name LIKE 'key check%%'"]


def test_a_lost_secret_is_never_replaced(base: Base) -> None:
    sessions = asyncio.run(fill(base, 2))
    secrets = secrets_of(base)

    async def main() -> None:
        for which in LOST:
            base.execute(f"DELETE FROM secrets WHERE {which if isinstance(base, Postgresql) else which.replace('%%', '%')}")
            left = secrets_of(base)
            with pytest.raises(StoreDamaged, match="missing"):
                await Holdfast.open(base.address).__aenter__()
            for repair in (False, True):
                report = await check_store(base.address, repair=repair)
                assert ("secret", "missing") in {(finding.kind, finding.problem) for finding in report.findings}
                assert "image" not in {finding.kind for finding in report.findings}
                assert secrets_of(base) == left
            for name in secrets.keys() - left.keys():
                base.execute("INSERT INTO secrets (name, value) VALUES (%s, %s)", name, secrets[name])
            assert (await check_store(base.address)).whole
        async with Holdfast.open(base.address) as hf:
            assert [(await hf.sessions.get(session)).state for session in sessions] == ["paused"] * 2

    asyncio.run(main())


def test_a_key_that_opens_no_image_is_not_a_damage_of_each(tmp_path: Path) -> None:
    base, other = Sqlite(tmp_path), Sqlite(tmp_path / "..")
    other.path = tmp_path / "other.db"
    other.address = f"sqlite:///{other.path}"
    sessions = asyncio.run(fill(base, 2))
    asyncio.run(fill(other, 1))
    for name, value in secrets_of(other).items():
        base.execute("UPDATE secrets SET value = %s WHERE name = %s", value, name)

    async def main() -> None:
        report = await check_store(base.address, repair=True)
        assert [(finding.kind, finding.id) for finding in report.left] == [("secret", "key")]
        async with Holdfast.open(base.address) as hf:
            found = [await hf.sessions.get(session) for session in sessions]
            assert [(session.state, session.head > 0) for session in found] == [("paused", True)] * 2

    asyncio.run(main())


@pytest.mark.parametrize("value", [b"\0" * 100_000, 300_000_000, "text", b"", 1.5])
@pytest.mark.parametrize("name", ["key", "key sum", "key check"])
def test_a_secret_that_is_none_is_damage_at_once(tmp_path: Path, name: str, value: object) -> None:
    base = Sqlite(tmp_path)
    store = open_store(base.address)
    store.close()
    asyncio.run(_opened(base))
    base.execute("UPDATE secrets SET value = %s WHERE name = %s", value, name)
    with pytest.raises(StoreDamaged):
        asyncio.run(_opened(base))
    report = asyncio.run(asyncio.wait_for(check_store(base.address), 20))
    assert [finding.kind for finding in report.findings] == ["secret"]
    try:
        asyncio.run(check_store(base.address, repair=True))
    except HoldfastError as error:
        assert error.code == "STORE_DAMAGED"  # noqa: PT017


async def _opened(base: Base) -> None:
    async with Holdfast.open(base.address):
        pass
