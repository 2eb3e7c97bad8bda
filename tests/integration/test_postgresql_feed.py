"""The feed of steps in PostgreSQL, where several processes commit at once and their transactions end in any order."""

import threading
import time
from uuid import UUID

import psycopg
import pytest

from holdfast.domain import Execution, InvalidValue, Session
from holdfast.store import ToldStep
from holdfast.store._contract_feed import FeedSamples
from holdfast.store._rows import cursor
from holdfast.store.postgresql import PostgresqlStore
from tests.postgres import fresh_schema


class Writer(FeedSamples):
    """A process of its own on a store: its records, its connections."""

    def __init__(self, address: str, first: "Writer | None" = None) -> None:
        self.store = PostgresqlStore(address)
        self.tokens = iter(range(id(self), 1 << 62))
        self.template = self.new_template("first") if first is None else first.template


@pytest.fixture
def address() -> str:
    return fresh_schema()


@pytest.fixture
def writer(address: str):
    writer = Writer(address)
    yield writer
    writer.store.close()


def names(steps: list[ToldStep]) -> list[tuple[UUID, int]]:
    return [(step.session_id, step.number) for step in steps]


def slow_commit(connection: psycopg.Connection, session: Session, execution: Execution) -> None:
    """The step of a process that is slow: written, and not committed yet."""
    connection.execute(
        """
        INSERT INTO steps (session, number, parent, execution_id, created_at, first_seq, last_seq)
        SELECT key, 1, 0, %s, 0, 1, 0 FROM sessions WHERE id = %s
        """,
        (execution.id, session.id),
    )


def test_nothing_is_told_before_what_is_still_under_way(address: str, writer: Writer) -> None:
    slow, quick = writer.begun(), writer.begun()
    start = writer.store.last_cursor()
    with psycopg.connect(address) as connection:
        slow_commit(connection, *slow)
        quick = writer.next_step(*quick)
        between = writer.store.last_cursor()
        quick = writer.next_step(*quick)
        assert writer.store.list_steps(after=start) == writer.store.list_steps(after=between) == []
        # Its own feed does not wait for others.
        assert names(writer.store.list_steps(session_id=quick[0].id)) == [(quick[0].id, 1), (quick[0].id, 2)]
        connection.commit()
    quick = writer.next_step(*quick)
    steps = [(slow[0].id, 1), (quick[0].id, 1), (quick[0].id, 2), (quick[0].id, 3)]
    assert names(writer.store.list_steps(after=start)) == steps
    # What was over at that time is not told, what was under way is; and so it is for whoever goes on in the middle.
    told = writer.store.list_steps(after=between)
    assert names(told) == [steps[0], *steps[2:]]
    for at, step in enumerate(told):
        assert writer.store.list_steps(after=step.cursor) == told[at + 1 :]
        assert writer.store.list_steps(after=step.cursor, including=True) == told[at:]
    assert [len(step.cursor) < 60 for step in told] == [True] * 3


def test_a_commit_that_is_given_up_holds_nothing_back(address: str, writer: Writer) -> None:
    slow, quick = writer.begun(), writer.begun()
    with psycopg.connect(address) as connection:
        slow_commit(connection, *slow)
        between = writer.store.last_cursor()
        quick = writer.next_step(*quick)
        connection.rollback()
        assert names(writer.store.list_steps(after=between)) == [(quick[0].id, 1)]


def test_who_follows_several_processes_hears_of_each_step_once(address: str, writer: Writer) -> None:
    writers = [Writer(address, writer) for _ in range(4)]
    begun = [(each, *each.begun()) for each in writers for _ in range(2)]
    at = writer.store.last_cursor()
    steps = 15

    def write(each: Writer, session: Session, execution: Execution) -> None:
        for _ in range(steps):
            session, execution = each.next_step(session, execution)

    def hold() -> None:
        """Transactions that stay open for a while, and end in another order than they began."""
        with psycopg.connect(address) as one, psycopg.connect(address) as other:
            for _ in range(10):
                one.execute("SELECT pg_current_xact_id()")
                other.execute("SELECT pg_current_xact_id()")
                time.sleep(0.003)
                other.commit()
                time.sleep(0.003)
                one.rollback()

    threads = [threading.Thread(target=write, args=each) for each in begun] + [threading.Thread(target=hold)]
    heard: list[tuple[UUID, int]] = []
    for thread in threads:
        thread.start()
    while True:
        over = not any(thread.is_alive() for thread in threads)
        told = writer.store.list_steps(after=at, limit=5)
        heard += names(told)
        at = told[-1].cursor if told else at
        if over and not told:
            break
    for _, session, _ in begun:
        assert [number for session_id, number in heard if session_id == session.id] == list(range(1, steps + 1))
    for each in writers:
        each.store.close()


def test_a_store_that_was_restored_elsewhere_goes_on(address: str, writer: Writer) -> None:
    """Where the numbers of transactions are smaller than those that came with the dump."""
    one, other = writer.next_step(*writer.begun()), writer.next_step(*writer.begun())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE steps SET xid = (xid::text::bigint + 5000000000)::text::xid8")
        far = connection.execute("SELECT xid::text::bigint FROM steps").fetchone()
    assert far is not None
    restored = Writer(address, writer)
    old = restored.store.list_steps()
    assert sorted(names(old)) == sorted([(one[0].id, 1), (other[0].id, 1)])
    end = restored.store.last_cursor()
    one = restored.next_step(*one)
    assert (
        names(restored.store.list_steps(after=end))
        == names(restored.store.list_steps(after=old[-1].cursor))
        == [(one[0].id, 2)]
    )
    with pytest.raises(InvalidValue):  # a cursor of the time before
        restored.store.list_steps(after=cursor("f", far[0], 1, 1))
    restored.store.close()
