"""What can happen to an SQLite file: full disks, wrong permissions, damage, other processes, kill -9."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from holdfast.domain import (
    Event,
    Execution,
    ExecutionKind,
    ExecutionStatus,
    HoldfastError,
    Session,
    SessionState,
    Step,
    Template,
    TemplateInUse,
    TemplateSpec,
    TemplateVersion,
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
    open_store,
)
from holdfast.store._contract_base import NASTY
from holdfast.store._rows import (
    execution_fixed_row,
    execution_given,
    execution_row,
    pack,
    session_fixed_row,
    session_row,
)
from holdfast.store._sql import load_migrations
from holdfast.store.sqlite import SqliteStore

T0 = 1_700_000_000_000
TEMPLATE = UUID(int=1)

# What the processes below have in common.
COMMON = """
import os, resource, sys, time
from dataclasses import replace
from uuid import UUID, uuid4
from holdfast.domain import HoldfastError, Session, SessionState
from holdfast.store import Commit
from holdfast.store.sqlite import SqliteStore

path = sys.argv[1]
TEMPLATE = UUID(int=1)

def session(**fields):
    return Session(**{"id": uuid4(), "template_id": TEMPLATE, "template_version": 1, "state": SessionState.READY,
                      "created_at": 1, "updated_at": 1} | fields)

def code(action):
    try:
        result = action()
    except HoldfastError as error:
        assert path not in str(error) and "/" not in str(error).replace("postgresql://", ""), str(error)
        return error.code
    return [error and error.code for error in result] if isinstance(result, list) else "fine"
"""


def script(text: str) -> list[str]:
    return [sys.executable, "-c", COMMON + textwrap.dedent(text)]


def run(text: str, *arguments: object) -> str:
    done = subprocess.run([*script(text), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def template(store: SqliteStore) -> None:
    made = Template(TEMPLATE, "first", 1, T0, T0)
    store.create_template(made, TemplateVersion(TEMPLATE, 1, TemplateSpec(), b"g", b"b", T0))


def session(**fields: object) -> Session:
    given = {"id": uuid4(), "template_id": TEMPLATE, "template_version": 1, "state": SessionState.READY, "created_at": T0}
    return Session(**given | {"updated_at": T0} | fields)  # type: ignore[arg-type]


def create(store: SqliteStore, **fields: object) -> Session:
    made = session(**fields)
    assert store.commit([Commit(made, None, 0, uuid4().int)]) == [None]
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    template(opened)
    yield opened
    opened.close()


def says(kind: type[HoldfastError], path: Path, action: Callable[[], object]) -> None:
    """It fails in this way, and tells no secrets."""
    with pytest.raises(kind) as raised:
        action()
    message = str(raised.value)
    assert str(path.parent) not in message
    assert path.name not in message
    assert not any(word in message for word in ("SELECT", "sqlite", "session_", "sessions"))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None or raised.value.__suppress_context__


# ---- opening


def test_a_new_file_is_for_its_owner_only(path: Path) -> None:
    old = os.umask(0o022)
    try:
        store = SqliteStore(path)
        template(store)
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
        store.close()
    finally:
        os.umask(old)


def test_an_address_names_it(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/named.db")
    assert isinstance(store, SqliteStore)
    store.close()
    assert (tmp_path / "named.db").exists()


def test_a_closed_file_has_no_log_beside_it(store: SqliteStore, path: Path) -> None:
    made = create(store)
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]
    again = SqliteStore(path)
    assert again.get_session(made.id) == made
    again.close()


def test_a_folder_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "store.db"
    says(StoreUnavailable, path, lambda: SqliteStore(path))
    says(StoreUnavailable, tmp_path, lambda: SqliteStore(tmp_path))


def test_a_file_moves_with_no_one(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store opened by a relative path stays with its file when the process changes its folder."""
    made = create(store)
    monkeypatch.chdir(path.parent)
    relative = SqliteStore(path.name)
    monkeypatch.chdir("/")
    assert relative.get_session(made.id) == made
    relative.close()


def test_a_file_that_was_removed_takes_nothing_more(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    kept = create(store)
    path.rename(tmp_path / "elsewhere.db")
    says(StoreUnavailable, path, lambda: create(store))
    assert not path.exists()
    path.write_bytes((tmp_path / "elsewhere.db").read_bytes())  # another file, of whatever content
    says(StoreUnavailable, path, lambda: create(store))
    (tmp_path / "elsewhere.db").replace(path)
    assert store.get_session(kept.id) == kept
    create(store)


def test_processes_may_open_a_fresh_file_at_once(path: Path) -> None:
    text = "store = SqliteStore(path); store.secret('one', os.urandom(8)); print(store.secret('one', b'').hex()); store.close()"
    processes = [subprocess.Popen([*script(text), str(path)], stdout=subprocess.PIPE, text=True) for _ in range(6)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6
    assert len(set(outputs)) == 1


# ---- migrations


def test_data_survives_a_migration(store: SqliteStore, path: Path) -> None:
    made = create(store, name="kept")
    store.close()
    more = [
        *load_migrations("sqlite"),
        "-- for a test; with a semicolon\nCREATE TABLE extra (a);\nINSERT INTO extra VALUES ('x;y');",
    ]
    later = SqliteStore(path, migrations=more)
    assert later.get_session(made.id) == made
    later.close()
    again = SqliteStore(path, migrations=more)
    assert again.get_session(made.id).name == "kept"
    again.close()
    with sqlite3.connect(path) as plain:
        assert plain.execute("SELECT count(*), max(a) FROM extra").fetchone() == (1, "x;y")
        assert plain.execute("PRAGMA user_version").fetchone() == (len(more),)
    plain.close()


def test_a_file_of_the_first_schema_is_brought_forward(path: Path) -> None:
    SqliteStore(path, migrations=load_migrations("sqlite")[:1]).close()
    made = [session(name=str(number)) for number in range(3)]
    ran = Execution(uuid4(), made[2].id, ExecutionKind.STRATEGY, ExecutionStatus.OK, T0, 1, 1, path="strategy")
    effects = [Effect("f", "h", "v1", 1.25), Effect(NASTY, "h", NASTY, 2.0), Effect("g", "h", None, 3.5)]
    steps = [Begun(uuid4(), {"code": NASTY}, T0 + 0.5, some, 2) for some in (effects, [])]
    with sqlite3.connect(path) as plain:
        plain.execute("INSERT INTO templates VALUES (7, ?, 'first', 1, 1, 1)", (made[0].template_id.bytes,))
        plain.execute(
            "INSERT INTO template_versions VALUES (NULL, 7, 1, ?, x'00', x'00', 1)", (pack(TemplateSpec().as_dict()),)
        )
        for each in made:
            row = (*session_fixed_row(each)[:6], *session_row(each)[:-1], 1)  # usage came later
            plain.execute(f"INSERT INTO sessions VALUES (NULL{', ?' * len(row)})", row)
        row = (*execution_fixed_row(ran)[:4], *execution_row(ran)[:8])
        plain.execute(f"INSERT INTO executions SELECT NULL, key{', ?' * len(row)} FROM sessions WHERE name = '2'", row)
        plain.execute("INSERT INTO inputs SELECT key, ? FROM executions", (execution_given(ran),))
        for number, begun in enumerate(steps):
            data = pack([begun.execution_id.hex, begun.request, begun.now, begun.effects, begun.attempts])
            plain.execute("INSERT INTO begun SELECT key, ? FROM sessions WHERE name = ?", (data, str(number)))
    plain.close()
    now = SqliteStore(path)
    assert [now.get_session(each.id) for each in made] == made
    assert now.get_state("shared/a/", "k") is None
    assert [now.load(each.id).begun for each in made] == [*steps, None]
    later = replace(made[0], version=made[0].version + 1)
    last = Effect("g", "h", "v3", 4.5)
    assert now.commit([Commit(later, made[0].version, 0, 7, begun=replace(steps[0], effects=[last], since=2))]) == [None]
    assert now.load(later.id).begun == replace(steps[0], effects=[*effects[:2], last])
    assert now.get_execution(ran.id) == ran
    old = now.get_template("first")
    assert (old.id, old.tenant, now.get_version(old.id, 1).number) == (made[0].template_id, "default", 1)
    with pytest.raises(TemplateInUse):  # references to the table that was made anew still hold
        now.delete_template(old.id)
    assert [(figures.name, figures.count) for figures in now.strategy_figures()] == [("strategy", 1)]
    now.close()


def test_a_migration_that_fails_changes_nothing(store: SqliteStore, path: Path) -> None:
    made = create(store)
    store.close()
    broken = [*load_migrations("sqlite"), "CREATE TABLE extra (a); DROP TABLE steps; INSERT INTO nowhere VALUES (1);"]
    says(StoreDamaged, path, lambda: SqliteStore(path, migrations=broken))
    again = SqliteStore(path)
    assert again.load(made.id).session == made
    again.close()
    plain = sqlite3.connect(path)
    assert plain.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
    plain.close()


def test_a_file_of_a_newer_holdfast_is_refused(store: SqliteStore, path: Path) -> None:
    store.close()
    newer = SqliteStore(path, migrations=[*load_migrations("sqlite"), "CREATE TABLE extra (a);"])
    newer.close()
    says(StoreTooNew, path, lambda: SqliteStore(path))


def test_a_database_of_something_else_is_left_alone(path: Path) -> None:
    plain = sqlite3.connect(path)
    plain.execute("CREATE TABLE theirs (a)")
    plain.close()
    before = path.read_bytes()
    says(StoreDamaged, path, lambda: SqliteStore(path))
    plain = sqlite3.connect(path)
    assert plain.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    plain.close()
    assert len(path.read_bytes()) == len(before)


# ---- damage


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    for content in (b"this is a text\n" * 1000, os.urandom(100_000), b"x"):
        path.write_bytes(content)
        says(StoreDamaged, path, lambda: SqliteStore(path))
        assert path.read_bytes() == content


def test_a_file_whose_start_is_overwritten_is_refused(store: SqliteStore, path: Path) -> None:
    create(store)
    store.close()
    with path.open("r+b") as file:
        file.write(b"\xaa" * 2000)
    says(StoreDamaged, path, lambda: SqliteStore(path))


def test_damage_in_the_middle_is_told_as_damage(store: SqliteStore, path: Path) -> None:
    made = [create(store, meta={"text": "x" * 500}) for _ in range(100)]
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * (size - 4096))
    try:
        broken = SqliteStore(path)
    except StoreDamaged:
        return
    says(StoreDamaged, path, lambda: [broken.get_session(one.id) for one in made])
    says(StoreDamaged, path, lambda: broken.list_sessions())
    says(StoreDamaged, path, lambda: broken.commit([Commit(replace(made[0], version=2), 1, 0, 5)]))
    broken.close()


def test_nonsense_in_a_row_is_told_as_damage(store: SqliteStore, path: Path) -> None:
    made = create(store, meta={"a": 1})
    plain = sqlite3.connect(path)
    for damage in (
        "meta = '{'",
        "meta = x'ff00'",
        "state = 'nowhere'",
        "owner = 'me'",
        "budget = '[]'",
        "budget = '{\"x\":1}'",
    ):
        plain.execute(f"UPDATE sessions SET meta = NULL, state = 'ready', owner = NULL, budget = NULL, {damage}")
        plain.commit()
        says(StoreDamaged, path, lambda: store.get_session(made.id))
        says(StoreDamaged, path, lambda: store.load(made.id))
    plain.close()


# ---- no room


def test_a_full_store_says_so_and_goes_on_once_there_is_room(store: SqliteStore, path: Path) -> None:
    made = create(store)
    writer = store._file._writer
    assert writer is not None
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")
    large = replace(made, version=2, meta={"text": "x" * 100_000})
    for _ in range(3):
        says(StoreFull, path, lambda: store.commit([Commit(large, 1, 0, 7)]))
    says(StoreFull, path, lambda: store.put_blob(b"digest", bytes(100_000)))
    assert store.get_session(made.id) == made
    writer.execute("PRAGMA max_page_count = 1000000")
    assert store.commit([Commit(large, 1, 0, 7)]) == [None]
    assert store.get_session(made.id) == large


def test_a_limit_of_file_sizes_is_met_with_an_error_and_passes(store: SqliteStore, path: Path) -> None:
    store.close()
    text = """
        store = SqliteStore(path)
        one = session()
        print(code(lambda: store.commit([Commit(one, None, 0, 1)])))
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path) + 50_000, hard))
        large = replace(one, version=2, meta={"text": "x" * 500_000})
        print(code(lambda: store.commit([Commit(large, 1, 0, 2)])))
        print(code(lambda: store.commit([Commit(large, 1, 0, 2)])))
        print(store.get_session(one.id) == one)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        print(code(lambda: store.commit([Commit(large, 1, 0, 2)])))
        print(store.get_session(one.id) == large)
        store.close()
    """
    assert run(text, path).split("\n")[:-1] == ["[None]", "STORE_FULL", "STORE_FULL", "True", "[None]", "True"]


# ---- no permission

NOBODY = 65534
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")


AS_NOBODY = f"""
import holdfast.store.sqlite as module
queries, migrations = module.load_queries("sqlite"), module.load_migrations("sqlite")  # nobody may be unable to read this repository
module.load_queries, module.load_migrations = lambda kind: queries, lambda kind: migrations
os.setgid({NOBODY})
os.setuid({NOBODY})
print(code(lambda: SqliteStore(path)))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can get to, and nobody but root can write to."""
    with tempfile.TemporaryDirectory() as folder:
        if not all(parent.stat().st_mode & 0o001 for parent in Path(folder).parents):
            pytest.skip("the folder for temporary files is private")
        Path(folder).chmod(0o755)
        yield Path(folder)


@as_root
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o644, 0o755), (0o644, 0o777), (0o666, 0o755)])
def test_a_store_that_may_not_be_written_says_so(open_folder: Path, file_mode: int, folder_mode: int) -> None:
    path = open_folder / "store.db"
    store = SqliteStore(path)
    template(store)
    store.close()
    path.chmod(file_mode)
    open_folder.chmod(folder_mode)
    assert run(AS_NOBODY, path) == "STORE_READ_ONLY\n"


@as_root
def test_a_file_that_may_not_be_made_or_read_says_so(open_folder: Path) -> None:
    assert run(AS_NOBODY, open_folder / "new.db") == "STORE_READ_ONLY\n"
    SqliteStore(open_folder / "mine.db").close()
    assert run(AS_NOBODY, open_folder / "mine.db") == "STORE_READ_ONLY\n"


# ---- other processes


def test_a_store_that_another_process_holds_is_unavailable_for_a_while(path: Path) -> None:
    store = SqliteStore(path, patience_ms=100)
    template(store)
    made = create(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    says(StoreUnavailable, path, lambda: store.commit([Commit(replace(made, version=2), 1, 0, 5)]))
    assert time.monotonic() - started < 5
    assert store.get_session(made.id) == made  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    assert store.commit([Commit(replace(made, version=2), 1, 0, 5)]) == [None]
    store.close()


def test_two_processes_commit_to_one_file_and_nothing_is_lost(store: SqliteStore, path: Path) -> None:
    shared = create(store)
    text = """
        store, own, won = SqliteStore(path), session(name=sys.argv[3]), 0
        assert store.commit([Commit(own, None, 0, 1)]) == [None]
        for number in range(100):
            own = replace(own, version=own.version + 1, llm_calls=number)
            shared = store.get_session(UUID(sys.argv[2]))
            shared = replace(shared, version=shared.version + 1, tokens=shared.tokens + 1)
            outcomes = store.commit([Commit(own, own.version - 1, 0, number + 2), Commit(shared, shared.version - 1, 0, hash((number, own.id)))])
            assert outcomes[0] is None
            assert outcomes[1] is None or outcomes[1].code == "VERSION_CONFLICT", outcomes
            won += outcomes[1] is None
        print(won)
        store.close()
    """
    commands = [[*script(text), str(path), str(shared.id), name] for name in ("a", "b")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    won = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert store.get_session(shared.id).tokens == sum(won) == store.get_session(shared.id).version - 1
    assert [(one.name, one.version) for one in store.list_sessions().items if one.name] in (
        [("a", 101), ("b", 101)],
        [("b", 101), ("a", 101)],
    )


def test_what_was_acknowledged_before_kill_9_is_there(store: SqliteStore, path: Path) -> None:
    made = create(store)
    store.close()
    text = """
        store = SqliteStore(path)
        one = store.get_session(UUID(sys.argv[2]))
        for number in range(1, 1_000_000):
            one = replace(one, version=one.version + 1, llm_calls=number, meta={"text": "x" * 3000})
            assert store.commit([Commit(one, number, 0, number)]) == [None]
            os.write(1, b"%d\\n" % number)
    """
    process = subprocess.Popen([*script(text), str(path), str(made.id)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    acknowledged = int([*lines, *process.stdout.readlines()][-1])
    process.wait()
    process.stdout.close()
    again = SqliteStore(path)
    found = again.get_session(made.id)
    assert found.llm_calls in (acknowledged, acknowledged + 1)
    assert found.version == found.llm_calls + 1
    again.close()
    plain = sqlite3.connect(path)
    assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    plain.close()


def test_a_session_that_another_process_made_again_is_found(store: SqliteStore, path: Path) -> None:
    other = SqliteStore(path)
    made, after = create(store), create(store)
    other.delete_session(after.id)
    other.delete_session(made.id)
    create(other, name="has the row that was its own")
    assert other.commit([Commit(made, None, 0, 1)]) == [None]
    assert store.commit([Commit(replace(made, version=2, name="mine"), 1, 0, 2)]) == [None]
    assert sorted(str(one.name) for one in store.list_sessions().items) == ["has the row that was its own", "mine"]
    other.close()


# ---- connections


def test_threads_that_end_leave_no_connections(store: SqliteStore) -> None:
    made = create(store)

    def read() -> None:
        assert store.get_session(made.id) == made

    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(50):
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 3 * 16


def test_a_reader_may_stay_in_the_middle_of_a_list_while_much_is_written(store: SqliteStore) -> None:
    made = create(store)
    with store._file.snapshot() as connection:
        assert connection.execute("SELECT version FROM sessions").fetchone() == (1,)
        for version in range(2, 50):
            assert store.commit([Commit(replace(made, version=version), version - 1, 0, version)]) == [None]
        assert connection.execute("SELECT version FROM sessions").fetchone() == (1,)
    assert store.get_session(made.id).version == 49


def test_what_is_deleted_is_overwritten(store: SqliteStore, path: Path) -> None:
    secret = "a secret that nobody may find " * 200
    made = session()
    step = Step(1, 0, uuid4(), T0, 1, [Event(1, T0, "stdout", {"text": secret})])
    assert store.commit([Commit(made, None, 0, 1, steps=[step])]) == [None]
    store.delete_session(made.id)
    store.close()
    assert b"nobody may find" not in path.read_bytes()


def test_what_stays_of_deleted_sessions_is_one_empty_row(store: SqliteStore) -> None:
    """By it the greatest key of a step is known, which readers of the feed go on after."""
    for _ in range(5):
        made = [session() for _ in range(3)]
        step = Step(1, 0, uuid4(), T0, 1, [Event(1, T0, "stdout", {"text": "gone"})])
        assert store.commit([Commit(each, None, 0, 1, steps=[step]) for each in made]) == [None] * 3
        for each in made:
            store.delete_session(each.id)
    with store._file.read() as connection:
        assert connection.execute("SELECT key, session, number, events, sealed FROM steps").fetchall() == [
            (15, None, 0, None, None)
        ]


def test_errors_are_store_errors_with_codes() -> None:
    assert {kind.code for kind in (StoreDamaged, StoreFull, StoreReadOnly, StoreTooNew, StoreUnavailable)} == {
        "STORE_DAMAGED",
        "STORE_FULL",
        "STORE_READ_ONLY",
        "STORE_TOO_NEW",
        "STORE_UNAVAILABLE",
    }
    assert all(issubclass(kind, StoreError) for kind in (StoreDamaged, StoreFull))
