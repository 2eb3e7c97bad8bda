"""What only PostgreSQL can suffer: connections that break at any moment, servers that go and come back, other processes."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID, uuid4

import psycopg
import pytest

from holdfast.domain import (
    Checkpoint,
    Event,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    Metrics,
    Origin,
    Session,
    SessionState,
    Step,
    Template,
    TemplateSpec,
    TemplateVersion,
    VersionConflict,
)
from holdfast.store import (
    Begun,
    Commit,
    Effect,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    StoreUnknown,
    open_store,
)
from holdfast.store._contract_base import NASTY
from holdfast.store._postgresql_connections import translated
from holdfast.store._rows import pack
from holdfast.store._sql import load_migrations
from holdfast.store.postgresql import PostgresqlStore
from tests.postgres import Server, fresh_schema, server


@pytest.fixture
def address() -> str:
    return fresh_schema()


@pytest.fixture
def store(address: str) -> Iterator[PostgresqlStore]:
    with contextlib.closing(PostgresqlStore(address)) as store:
        yield store


def new_template(store: PostgresqlStore) -> UUID:
    template = Template(uuid4(), "a template", 1, 1, 1)
    store.create_template(template, TemplateVersion(template.id, 1, TemplateSpec(), b"g", b"b", 1))
    return template.id


def new_session(store: PostgresqlStore) -> tuple[Session, Execution]:
    """One with an execution, in which nothing has happened yet."""
    with contextlib.suppress(Exception):
        new_template(store)
    session = Session(uuid4(), store.get_template("a template").id, 1, SessionState.RUNNING, 1, 1)
    execution = Execution(uuid4(), session.id, ExecutionKind.REPL, ExecutionStatus.RUNNING, 1, 1, 0)
    session.execution_id = execution.id
    assert store.commit([Commit(session, None, 0, 1, new_executions=[execution])]) == [None]
    return session, execution


def next_step(session: Session, execution: Execution, image: bytes = b"image") -> tuple[Session, Execution, Commit]:
    """The commit of one more step, and what is there after it."""
    number = session.steps + 1
    session = replace(session, version=session.version + 1, steps=number, head=number, llm_calls=session.llm_calls + 1)
    execution = replace(execution, last_step=number, seq=number)
    base = Origin(session.id, number & (number - 1)) if number & (number - 1) else None
    event = Event(number, 1, "stdout", {"text": f"step {number}"})
    step = Step(number, number - 1, execution.id, 1, number, [event], Checkpoint(number, base, image))
    return session, execution, Commit(session, session.version - 1, 0, uuid4().int >> 65, executions=[execution], steps=[step])


def assert_steps(store: PostgresqlStore, session_id: UUID, steps: int) -> None:
    """Each step is there, once."""
    session = store.get_session(session_id)
    assert (session.steps, session.version, session.llm_calls) == (steps, steps + 1, steps)
    assert [node.number for node in store.list_nodes(session_id)] == list(range(1, steps + 1))
    assert session.execution_id is not None
    events = store.list_events(session.execution_id, limit=steps + 1)
    assert [event.payload["text"] for event in events] == [f"step {number}" for number in range(1, steps + 1)]


# ---- connections that break ---------------------------------------------------------------------------------------------------------


def test_backends_are_killed_all_the_time_and_nothing_is_lost_or_written_twice(address: str, store: PostgresqlStore) -> None:
    done = threading.Event()
    kills = written = seen = 0

    def kill() -> None:
        nonlocal kills, seen
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'"
        with psycopg.connect(server().address, autocommit=True) as connection:
            while not done.wait(0.05):
                if written > seen:  # on a slow machine nothing would ever come to its end
                    seen = written
                    kills += len(connection.execute(others).fetchall())

    def work(made: tuple[Session, Execution]) -> UUID:
        nonlocal written
        session, execution = made
        for _ in range(125):
            session, execution, commit = next_step(session, execution)
            assert store.commit([commit]) == [None]
            written += 1
        return session.id

    sessions = [new_session(store) for _ in range(8)]
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            ids = list(pool.map(work, sessions))
    finally:
        done.set()
        killer.join()
    assert kills > 10
    for session_id in ids:
        assert_steps(store, session_id, 125)


class Proxy:
    """A port on loopback that leads to the server, and can break what goes through it."""

    def __init__(self) -> None:
        self.drop_request = False
        self.drop_reply = False
        self.drop_what = b""
        self.dropped = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def through(self, address: str) -> str:
        host, _, options = address.partition("&")
        assert "?host=" in host
        port = self._listener.getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable&{options}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(server().socket)
            for work in (self._requests, self._replies):
                thread = threading.Thread(target=self._pump, args=(work, client, upstream))
                self._threads.append(thread)
                thread.start()

    def _pump(
        self, work: Callable[[socket.socket, socket.socket], None], client: socket.socket, upstream: socket.socket
    ) -> None:
        with contextlib.suppress(OSError), client, upstream:
            work(client, upstream)
            for end in (client, upstream):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self, client: socket.socket, upstream: socket.socket) -> None:
        while data := client.recv(1 << 20):
            if self.drop_request and b"holdfast_commit" in data:
                self.drop_request, self.dropped = False, self.dropped + 1
                upstream.sendall(data[: len(data) // 2])
                return
            upstream.sendall(data)

    def _replies(self, client: socket.socket, upstream: socket.socket) -> None:
        while data := upstream.recv(1 << 20):
            if self.drop_reply and self.drop_what in data:
                self.drop_reply, self.dropped = False, self.dropped + 1
                return
            client.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with contextlib.closing(Proxy()) as proxy:
        yield proxy


@pytest.mark.parametrize("what", ["drop_reply", "drop_request"])
def test_a_commit_is_written_once_if_the_connection_breaks_before_or_after_it(what: str, address: str, proxy: Proxy) -> None:
    with contextlib.closing(PostgresqlStore(proxy.through(address))) as store:
        session, execution = new_session(store)
        for _ in range(5):
            session, execution, commit = next_step(session, execution)
            setattr(proxy, what, True)
            assert store.commit([commit]) == [None]
        assert proxy.dropped == 5
        assert_steps(store, session.id, 5)


def test_what_is_new_is_new_although_its_acknowledgement_was_lost(address: str, proxy: Proxy) -> None:
    with contextlib.closing(PostgresqlStore(proxy.through(address))) as store:
        template_id = new_template(store)
        session = Session(uuid4(), template_id, 1, SessionState.READY, 1, 1)
        proxy.drop_what = b"COMMIT\0"  # several statements: the one that counts is the last
        proxy.drop_reply = True
        assert store.commit([Commit(session, None, 0, 77)]) == [None]
        proxy.drop_what = b""
        proxy.drop_reply = True
        assert store.create_document("d", {"a": 1}) == 1
        proxy.drop_reply = True
        assert store.update_document("d", {"a": 2}, 1) == 2
        proxy.drop_what = b"COMMIT\0"
        proxy.drop_reply = True
        store.delete_session(session.id)
        proxy.drop_what = b""
        proxy.drop_reply = True
        store.delete_template(template_id)
        assert proxy.dropped == 5
        assert store.get_document("d") == (2, {"a": 2})
        assert store.list_sessions().items == []


def test_a_read_is_repeated_on_another_connection(address: str, store: PostgresqlStore) -> None:
    session, _ = new_session(store)
    for _ in range(3):
        assert store.get_session(session.id) == session
        server().execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'")


# ---- servers that go and come back --------------------------------------------------------------------------------------------------


def test_a_server_goes_and_comes_back() -> None:
    own = Server()
    try:
        address = own.fresh_schema()
        with contextlib.closing(PostgresqlStore(address)) as store:
            session, execution = new_session(store)
            for _ in range(20):
                session, execution, commit = next_step(session, execution)
                assert store.commit([commit]) == [None]
            own.stop(crash=True)
            back = threading.Timer(0.5, own.start)
            back.start()
            session, execution, commit = next_step(session, execution)
            before = time.monotonic()
            assert store.commit([commit]) == [None]
            assert time.monotonic() - before > 0.3
            back.join()
            assert_steps(store, session.id, 21)

        with contextlib.closing(PostgresqlStore(address, patience=0.2)) as store:
            own.stop()
            session, execution, commit = next_step(session, execution)
            with pytest.raises(StoreUnavailable, match="Nothing that was acknowledged is lost"):
                store.commit([commit, commit])
            with pytest.raises(StoreUnavailable, match="cannot be reached now"):
                store.get_session(session.id)
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                PostgresqlStore(address)
            own.start()
            assert store.commit([commit]) == [None]
            assert_steps(store, session.id, 22)
    finally:
        own.close()


# ---- other processes ----------------------------------------------------------------------------------------------------------------

_PROCESS = """
import sys
from dataclasses import replace
from uuid import UUID, uuid4
from holdfast.domain import VersionConflict
from holdfast.store import Commit, open_store
address, backwards, *ids = sys.argv[1:]
store = open_store(address)
left = {UUID(text): 40 for text in ids}
sessions = {which: store.get_session(which) for which in left}
conflicts = 0
print("ready", flush=True)
input()
while left:
    group = []
    for which in sorted(left, reverse=backwards == "yes"):
        old = sessions[which]
        new = replace(old, version=old.version + 1, llm_calls=old.llm_calls + 1)
        group.append(Commit(new, old.version, 0, uuid4().int >> 65))
    for commit, outcome in zip(group, store.commit(group)):
        which = commit.session.id
        if outcome is None:
            sessions[which] = commit.session
            left[which] -= 1
            if not left[which]:
                del left[which]
        else:
            assert isinstance(outcome, VersionConflict), outcome
            conflicts += 1
            sessions[which] = store.get_session(which)
store.close()
print(conflicts)
"""


def test_two_processes_commit_to_the_same_sessions(address: str, store: PostgresqlStore) -> None:
    sessions = [new_session(store)[0] for _ in range(10)]
    ids = [str(session.id) for session in sessions]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS, address, backwards, *ids], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for backwards in ("yes", "no")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    for session in sessions:
        assert store.get_session(session.id).llm_calls == 80
    assert sum(map(int, outputs)) > 0, "they never met"


def test_groups_of_several_stores_in_any_order_do_not_block_each_other(address: str, store: PostgresqlStore) -> None:
    made = [new_session(store)[0] for _ in range(20)]

    def work(number: int) -> int:
        written = 0
        with contextlib.closing(PostgresqlStore(address)) as own:
            for _ in range(10):
                olds = [own.get_session(session.id) for session in (made if number % 2 else reversed(made))]
                news = [replace(old, version=old.version + 1, llm_calls=old.llm_calls + 1) for old in olds]
                group = [Commit(new, new.version - 1, 0, uuid4().int >> 65) for new in news]
                outcomes = own.commit(group)
                assert all(outcome is None or isinstance(outcome, VersionConflict) for outcome in outcomes)
                written += outcomes.count(None)
        return written

    with ThreadPoolExecutor(4) as pool:
        written = sum(pool.map(work, range(4)))
    assert sum(store.get_session(session.id).llm_calls for session in made) == written


def test_a_checkpoint_is_forked_or_pruned_but_never_both(address: str, store: PostgresqlStore) -> None:
    def fork(own: PostgresqlStore, at: Origin, template_id: UUID) -> bool:
        session = Session(uuid4(), template_id, 1, SessionState.READY, 1, 1, origin=at)
        (outcome,) = own.commit([Commit(session, None, 0, 1)])
        if outcome is None:
            assert own.load(session.id).chain[0].at == at
        return outcome is None

    def prune(own: PostgresqlStore, session: Session) -> bool:
        changed = replace(session, version=session.version + 1)
        (outcome,) = own.commit([Commit(changed, session.version, 0, 2, pruned=[1])])
        return outcome is None

    forked = 0
    with ThreadPoolExecutor(2) as pool, contextlib.closing(PostgresqlStore(address)) as other:
        for _ in range(30):
            session, execution, commit = next_step(*new_session(store))
            assert store.commit([commit]) == [None]
            session, execution, commit = next_step(session, execution)
            assert store.commit([commit]) == [None]
            fork_first = pool.submit(fork, store, Origin(session.id, 1), session.template_id)
            pruned = pool.submit(prune, other, session)
            assert fork_first.result() != pruned.result()
            forked += fork_first.result()
    assert forked > 0


# ---- schemas ------------------------------------------------------------------------------------------------------------------------


def test_many_processes_may_open_a_new_store_at_once(address: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: PostgresqlStore(address), range(8)))
    assert {store.secret("s", bytes([number])) for number, store in enumerate(stores)} == {b"\0"}
    for store in stores:
        store.close()


def test_a_store_is_brought_forward_and_what_is_newer_is_refused(address: str) -> None:
    first = load_migrations("postgresql")
    PostgresqlStore(address, migrations=first[:1]).close()
    template_id, made = uuid4(), [uuid4() for _ in range(3)]
    effects = [Effect("f", "h", "v1", 1.25), Effect(NASTY, "h", NASTY, 2.0), Effect("g", "h", None, 3.5)]
    steps = [Begun(uuid4(), {"code": NASTY}, 1.5, some, 2) for some in (effects, [])]
    with psycopg.connect(address) as plain:
        plain.execute(
            "INSERT INTO templates (id, name, latest, created_at, updated_at) VALUES (%s, 'a', 1, 1, 1)", (template_id,)
        )
        for session_id, begun in zip(made, [*steps, None], strict=True):
            data = None
            if begun is not None:
                data = pack([begun.execution_id.hex, begun.request, begun.now, begun.effects, begun.attempts])
            plain.execute(
                """INSERT INTO sessions (id, template_id, created_at, template_version, state, updated_at, version, fence, head, steps,
                queries, llm_calls, tokens, token, begun) VALUES (%s, %s, 1, 1, 'running', 1, 1, 0, 0, 0, 0, 0, 0, 1, %s)""",
                (session_id, template_id, data),
            )
        plain.execute(
            """INSERT INTO executions (session, id, kind, started_at, first_step, given, status, last_step, seq, metrics)
            SELECT key, gen_random_uuid(), 'strategy', 1, 1, '[null, "strategy", null, null, null]', 'ok', 1, 0, %s FROM sessions""",
            (pack(Metrics(elapsed_ms=2).as_row()),),
        )
    second = [*first, "CREATE TABLE more (a bigint); ALTER TABLE sessions ADD COLUMN more text"]
    with contextlib.closing(PostgresqlStore(address, migrations=second)) as store:
        assert [store.load(session_id).begun for session_id in made] == [*steps, None]
        assert [(figures.name, figures.count, figures.elapsed_ms) for figures in store.strategy_figures()] == [
            ("strategy", 3, 6)
        ]
        session = replace(store.get_session(made[0]), version=2)
        last = Effect("g", "h", "v3", 4.5)
        assert store.commit([Commit(session, 1, 0, 7, begun=replace(steps[0], effects=[last], since=2))]) == [None]
        assert store.load(session.id).begun == replace(steps[0], effects=[*effects[:2], last])
        assert store.commit([Commit(replace(session, version=3), 2, 0, 8, ended=True)]) == [None]
    with psycopg.connect(address) as plain:
        assert plain.execute("SELECT count(*) FROM effects").fetchone() == (0,)
    with pytest.raises(StoreTooNew, match="newer version of Holdfast"):
        PostgresqlStore(address)


def test_a_migration_that_fails_changes_nothing(address: str) -> None:
    broken = [*load_migrations("postgresql"), "CREATE TABLE more (a bigint); SELECT 1 / 0"]
    with pytest.raises(StoreError):
        PostgresqlStore(address, migrations=broken)
    with contextlib.closing(PostgresqlStore(address)) as store:
        new_session(store)


# ---- limits and errors --------------------------------------------------------------------------------------------------------------


def test_large_images_come_back(store: PostgresqlStore) -> None:
    image = bytes(range(256)) * 30_000
    session, _, commit = next_step(*new_session(store), image)
    assert store.commit([commit]) == [None]
    assert store.load(session.id).chain[0].sealed == image


def test_a_store_that_may_only_read(address: str, store: PostgresqlStore) -> None:
    session, execution = new_session(store)
    with contextlib.closing(PostgresqlStore(f"{address}%20-cdefault_transaction_read_only%3Don")) as reader:
        assert reader.get_session(session.id) == session
        with pytest.raises(StoreReadOnly):
            reader.commit([next_step(session, execution)[2]])
        with pytest.raises(StoreReadOnly):
            reader.put_blob(b"d", b"data")


def test_tables_that_are_missing_are_damage(address: str, store: PostgresqlStore) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TABLE blobs")
    with pytest.raises(StoreDamaged):
        store.get_blob(b"d")


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("53100", StoreFull),
        ("25006", StoreReadOnly),
        ("XX001", StoreDamaged),
        ("57P01", StoreUnavailable),
        ("40P01", StoreUnavailable),
    ],
)
def test_what_the_server_says_has_a_meaning(state: str, kind: type[StoreError]) -> None:
    error = translated(psycopg.errors.lookup(state)("relation secret_table at host 10.0.0.7"))
    assert type(error) is kind
    assert "secret" not in str(error)


def test_a_schema_that_is_not_there_is_told(address: str) -> None:
    with pytest.raises(StoreError, match="schema that the address names is not there"):
        PostgresqlStore(address.replace("search_path%3D", "search_path%3Dno_"))


def test_no_error_shows_secrets(address: str, store: PostgresqlStore) -> None:
    bad = [
        "postgresql://alice:sesame@127.0.0.1:1/vault",
        "postgresql://alice:sesame@127.0.0.1/vault?vault=sesame",
        address.replace("postgres@/postgres", "alice:sesame@/vault"),
    ]
    for wrong in bad:
        with pytest.raises((StoreUnavailable, StoreUnknown)) as caught:
            open_store(wrong)
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        assert not any(word in shown for word in ("alice", "sesame", "vault", "127.0.0.1", "SELECT"))


def test_a_store_that_is_closed_says_so(address: str) -> None:
    store = PostgresqlStore(address)
    session, execution = new_session(store)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.get_session(session.id)
    with pytest.raises(StoreUnavailable, match="closed"):
        store.commit([next_step(session, execution)[2]])


def test_without_the_driver_one_learns_what_to_install() -> None:
    script = """
import sys
sys.modules["psycopg"] = None
from holdfast.store import StoreError, open_store
try:
    open_store("postgresql://localhost/x")
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'holdfast[postgres]'" in done.stdout
