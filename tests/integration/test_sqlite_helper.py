"""SQLite for scripts runs in helper processes: what they cannot reach, how they are ended, and that nobody else notices."""

import asyncio
import contextlib
import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import Limits
from holdfast.capabilities import Scope, Shared
from holdfast.capabilities.database import sqlite as sqlite_module
from holdfast.capabilities.database.helpers import Helpers
from holdfast.capabilities.database.sql import Caps
from holdfast.capabilities.database.sqlite import Sqlite
from holdfast.capabilities.database.sqlite_helper import wire
from holdfast.domain import Principal
from holdfast.sandbox import HostError
from tests.acceptance.scenes import scene
from tests.daemon import Daemon
from tests.modules import place

MEMORY = "var db = require('database'); db.configure('sqlite3', ':memory:');"
FILE = "var db = require('database'); db.configure('sqlite3', '{}');"
CAPS = Caps(10_000, 8 << 20)
ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

# Operations of SQLite that take long, so few of them in a row that nothing within SQLite looks at the time between them.
ZEROS = "'0'.repeat(1000000)"
STUCK = {
    "unhex": "select " + ", ".join(f"unhex(?1 || '{at}', ?1)" for at in range(200)),
    "glob": "select " + ", ".join(f"?1 glob '*{'0' * 190}1{at}'" for at in range(200)),
    "like": "select " + ", ".join(f"?1 like '%{'0' * 190}1{at}'" for at in range(200)),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture
def shared() -> Iterator[Shared]:
    made = Shared()
    yield made
    made.close()


def connected(shared: Shared, tree: Path | None = None, dsn: str = ":memory:", **more: Any) -> Sqlite:
    scope = Scope(uuid4(), uuid4(), None if tree is None else str(tree), shared=shared, **more)
    scope.until = time.monotonic() + 30
    return Sqlite(dsn, scope, CAPS)


def code(error: pytest.ExceptionInfo[HostError]) -> str:
    return error.value.script_code or ""


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that has ended and is not waited for does not."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def ended(pids: list[int]) -> bool:
    """Whether all of them end soon."""
    until = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(map(is_alive, pids))


def below(pid: int) -> list[int]:
    """All processes that a process has started, and those have started."""
    with contextlib.suppress(OSError):
        own = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
        return own + [deeper for child in own for deeper in below(child)]
    return []


# ---- files -------------------------------------------------------------------------------------------------------------------------


@scene
async def test_no_rename_leads_a_database_out(tree: Path) -> None:
    """One session exchanges files and folders with links that lead out, while another one opens them as databases."""
    outside = tree.parent / "outside"
    outside.mkdir()
    (tree / "in").mkdir()
    for path, word in ((outside / "s.db", "secret"), (tree / "in" / "s.db", "ours"), (tree / "s.db", "ours")):
        with contextlib.closing(sqlite3.connect(path)) as made:
            made.executescript(f"create table t (a); insert into t values ('{word}')")
    (tree / "link").symlink_to(outside)
    (tree / "link.db").symlink_to(outside / "s.db")
    stat = (outside / "s.db").stat()
    swap = """
        const fs = require('fs'), move = (a, b) => { try { fs.renameSync(a, b) } catch (e) {} };
        for (let i = 0; i < 1000; i++) {
            const [real, link] = i % 3 ? ['in', 'link'] : ['s.db', 'link.db'];
            move(real, 'aside'); move(link, real); move(real, link); move('aside', real)
        }"""
    use = """(() => {
        const db = require('database'), seen = {};
        for (let i = 0; i < 100; i++) for (const name of ['in/s.db', 's.db']) {
            let found;
            try { db.configure('sqlite3', name); found = db.query('select a from t').map(r => r.a).join() }
            catch (e) { found = e.code || e.message }
            seen[found] = (seen[found] || 0) + 1
        }
        return seen })()"""
    modules: dict[str, Any] = {"database": {"files": True}, "fs": {"write": True}}
    found: set[str] = set()
    async with place(tree, limits=Limits(wall_ms=60_000, cpu_ms=0), **modules) as at:
        attacker, user = await at.session(), await at.session()
        running = asyncio.create_task(at.hf.executions.run(attacker, swap))
        while not running.done():
            found |= (await at.run(user, use)).keys()
        assert (await running).execution.status == "ok"
    assert "ours" in found
    assert "secret" not in found
    assert sorted(os.listdir(outside)) == ["s.db"]
    assert (outside / "s.db").stat().st_mtime_ns == stat.st_mtime_ns


def test_what_is_protected_is_no_database(tree: Path, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line: the helper itself compares what it has opened with what it was told."""
    (tree / "a.db").touch()
    for path in (tree / "a.db", tree):
        with monkeypatch.context() as patch:
            found = path.stat()
            patch.setattr(sqlite_module, "forbidden", partial(frozenset, [(found.st_dev, found.st_ino)]))
            with pytest.raises(HostError) as raised:
                connected(shared, tree, "a.db")
        assert code(raised) == "INVALID_PATH"
    connected(shared, tree, "a.db").close()


def test_side_files_are_never_followed(tree: Path, shared: Shared) -> None:
    outside = tree.parent / "outside.txt"
    outside.write_text("kept")
    database = connected(shared, tree, "a.db")
    database.exec("create table t (a)", [])
    for end in ("-journal", "-wal", "-shm"):
        (tree / f"a.db{end}").symlink_to(outside)
    with pytest.raises(HostError) as raised:
        database.exec("insert into t values (1)", [])
    assert code(raised) == "SQL_ERROR"
    assert outside.read_text() == "kept"
    for end in ("-journal", "-wal", "-shm"):
        (tree / f"a.db{end}").unlink()
    assert database.exec("insert into t values (1)", []).affected == 1


def test_a_database_in_wal_mode(tree: Path, shared: Shared) -> None:
    with contextlib.closing(sqlite3.connect(tree / "a.db")) as made:
        made.executescript("pragma journal_mode = wal; create table t (a); insert into t values (1)")
        one, two = connected(shared, tree, "a.db"), connected(shared, tree, "a.db")
        assert one.exec("insert into t values (2)", []).affected == 1
        assert two.query("select count(*) as n from t", []) == [{"n": 2}]
        assert made.execute("select count(*) from t").fetchone() == (2,)
    one.close()
    two.close()


def test_locks_of_one_session_are_not_another_ones(tree: Path, shared: Shared) -> None:
    """POSIX locks belong to a process: whoever closes a file ends all that the process has on it."""
    writer = connected(shared, tree, "a.db")
    writer.exec("create table t (a)", [])
    writer.begin()
    writer.exec("insert into t values (1)", [])
    for _ in range(3):
        other = connected(shared, tree, "a.db")
        other.query("select * from t", [])
        other.close()
    with contextlib.closing(sqlite3.connect(tree / "a.db", timeout=0)) as outside, pytest.raises(sqlite3.OperationalError):
        outside.execute("begin immediate")
    writer.commit()
    assert connected(shared, tree, "a.db").query("select a from t", []) == [{"a": 1}]


# ---- time ----------------------------------------------------------------------------------------------------------------------------


@scene
async def test_nothing_outlasts_its_limit(tree: Path) -> None:
    async with place(tree, database={"files": True}, limits=Limits(wall_ms=200)) as at:
        for name, sql in STUCK.items():
            here = await at.session()
            begun = time.monotonic()
            turn = await at.hf.executions.run(here, MEMORY + f"db.query({json.dumps(sql)}, {ZEROS})")
            assert turn.execution.status in ("timeout", "error"), name
            if turn.execution.error is not None and turn.execution.status == "error":
                assert turn.execution.error["code"] in ("SQL_TIMEOUT", "SQL_ERROR"), name
            assert time.monotonic() - begun < 5, name
            assert await at.run(here, "1 + 1") == 2


@scene
async def test_what_a_killed_helper_leaves(tree: Path) -> None:
    async with place(tree, database={"files": True, "timeout_ms": 300}, limits=Limits(wall_ms=30_000)) as at:
        here = await at.session()
        stuck = f"try {{ db.query({json.dumps(STUCK['glob'])}, {ZEROS}); 'done' }} catch (e) {{ e.code }}"
        assert await at.run(here, MEMORY + stuck) == "SQL_TIMEOUT"
        assert await at.fails(here, "db.query('select 1')") == "DATABASE_LOST"
        await at.run(
            here, FILE.format("a.db") + "db.exec('create table t (a)'); db.begin(); db.exec('insert into t values (1)')"
        )
        assert await at.run(here, stuck) == "SQL_TIMEOUT"
        assert await at.fails(here, "db.exec('insert into t values (2)')") == "TRANSACTION_LOST"
        assert await at.run(here, "db.rollback(); db.exec('insert into t values (3)'); db.query('select a from t')") == [
            {"a": 3}
        ]


@scene
async def test_cancel(tree: Path) -> None:
    async with place(tree, database={"timeout_ms": 60_000}, limits=Limits(wall_ms=0, cpu_ms=0)) as at:
        for sql in (*STUCK.values(), ENDLESS):
            here = await at.session()
            source = MEMORY + f"db.query({json.dumps(sql)}{', ' + ZEROS if '?1' in sql else ''})"
            turn = await at.hf.executions.run(here, source, background=True)
            await asyncio.sleep(0.3)
            begun = time.monotonic()
            ended = await at.hf.executions.cancel(turn.execution.id)
            assert ended.status in ("cancelled", "error")
            assert time.monotonic() - begun < 5
            assert await at.run(here, "1 + 1") == 2


@scene
async def test_what_is_computed_counts(tree: Path) -> None:
    """Many statements, each within its time, use up the step's limit of computing."""
    sql = "with recursive c(x) as (select 1 union all select x + 1 from c limit 200000) select count(*) from c"
    async with place(tree, database=None, limits=Limits(wall_ms=60_000, cpu_ms=500)) as at:
        turn = await at.hf.executions.run(await at.session(), MEMORY + f"for (;;) db.query({json.dumps(sql)})")
        assert turn.execution.status in ("timeout", "error")


# ---- size ----------------------------------------------------------------------------------------------------------------------------


@scene
async def test_results_do_not_grow_the_daemon(tree: Path) -> None:
    bombs = [
        "select " + ", ".join(["zeroblob(1000000)"] * 1_000),
        "select " + ", ".join(["hex(randomblob(500000))"] * 1_000),
        "with recursive c(x) as (select 1 union all select x + 1 from c) select zeroblob(1000000) as a from c",
        "select "
        + ", ".join(["'' as ''"] * 900)
        + " from (with recursive c(x) as (select 1 union all select x + 1 from c limit 99999) select x from c)",
        "with recursive c(x) as (select 1 union all select x + 1 from c limit 900) select hex(randomblob(400000)) as s from c order by s",
        "with recursive c(x) as (select 1 union all select x + 1 from c limit 300000) select group_concat(x) from c",
    ]
    async with place(tree, database={"max_rows": 100_000, "timeout_ms": 20_000}, limits=Limits(wall_ms=60_000, cpu_ms=0)) as at:
        here = await at.session()
        await at.run(here, MEMORY)
        before = resident_bytes()
        for sql in bombs:
            source = f"db.configure('sqlite3', ':memory:'); try {{ db.query({json.dumps(sql)}); 'ok' }} catch (e) {{ e.code }}"
            assert await at.run(here, source) in ("RESULT_TOO_LARGE", "SQL_ERROR", "SQL_TIMEOUT", "DATABASE_FAILED"), sql[:60]
        assert resident_bytes() - before < 100 << 20


def test_arguments_are_bounded(shared: Shared) -> None:
    database = connected(shared)
    with pytest.raises(HostError) as raised:
        database.query("select length(?)", [bytes(1_000_000)] * 20)
    assert code(raised) == "INVALID_ARGUMENT"
    assert database.query("select length(?) + length(?) as n", [bytes(1_000_000)] * 2) == [{"n": 2_000_000}]


def resident_bytes() -> int:
    """The most that this process had since it last asked."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            most = int(line.split()[1]) << 10
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return most


@scene
async def test_limits_of_sqlite_are_the_scripts_error(tree: Path) -> None:
    statements = [
        "select '" + "x" * 400_000 + "'",
        "select " + ", ".join(["1"] * 1_500),
        "create table t (" + ", ".join(f"c{at}" for at in range(1_500)) + ")",
        "select " + "(select " * 300 + "1" + ")" * 300,
        "select " + " + ".join(["1"] * 3_000),
        " union all ".join(["select 1"] * 200),
        "select ?20000",
        "select max(" + ", ".join(["1"] * 200) + ")",
        "select " + "-" * 50_000 + "1",
        "select 1 where 1 in (" + ", ".join(["1"] * 60_000) + ")" + " and 1" * 1_000,
        "select zeroblob(2000000000)",
        "select 1 like '" + "%" * 5_000 + "'",
        "x" * 5_000_000,
        "select cast(x'ff' as text)",
    ]
    async with place(tree, database={"timeout_ms": 10_000}, limits=Limits(wall_ms=60_000, cpu_ms=0)) as at:
        here = await at.session()
        await at.run(here, MEMORY + "var said = f => { try { f(); return 'ok' } catch (e) { return e.code } }")
        for sql in statements:
            assert await at.run(here, f"said(() => db.exec({json.dumps(sql)}))") == "SQL_ERROR", sql[:50]
        for sql in ("select '\\0'", "select '\\ud800'"):
            assert await at.run(here, f'said(() => db.query("{sql}"))') in ("INVALID_ARGUMENT", "ok", "SQL_ERROR")
        assert await at.run(here, "db.query('select 1 as one')[0].one") == 1  # it is still the same connection


@scene
async def test_values_cross_whole(tree: Path) -> None:
    async with place(tree, database={"max_bytes": 16 << 20}, limits=Limits(wall_ms=60_000, cpu_ms=0)) as at:
        here = await at.session()
        source = (
            MEMORY
            + r"""
            const text = 'é€😀"\\\n\u0001'.repeat(20000), small = '\u0000\u007f"', blob = new Uint8Array(300000).map((_, i) => i * 7);
            const [r] = db.query('select ? as a, ? as b, ? as c, ? as d, ? as e, ? as f', text, small, blob, blob.slice(0, 10), 1e308, null);
            const rows = db.query("with recursive c(x) as (select 1 union all select x + 1 from c limit 9000) select x, 'row ' || x as t from c");
            [r.a === text, r.b === small, r.c.every((v, i) => v === blob[i]) && r.c.length, r.d.length, r.e, r.f, rows.length, rows[8999]]"""
        )
        assert await at.run(here, source) == [True, True, 300_000, 10, 1e308, None, 9_000, {"x": 9_000, "t": "row 9000"}]


# ---- processes -----------------------------------------------------------------------------------------------------------------------


@ON_LINUX
def test_a_helper_has_nothing(tree: Path, shared: Shared) -> None:
    database = connected(shared, tree, "a.db")
    database.exec("create table t (a)", [])
    server, pid = shared(Helpers).pids()
    status = Path(f"/proc/{pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    with contextlib.suppress(PermissionError):  # it cannot be looked into, unless by root
        assert Path(f"/proc/{server}/environ").read_bytes().replace(b"\0", b"") in (b"", b"LC_CTYPE=C.UTF-8")
        opened = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        assert {name for name in opened if not name.startswith("socket:")} == {"/dev/null", str(tree), str(tree / "a.db")}
        assert len([name for name in opened if name.startswith("socket:")]) == 1
    limits = {line[:25].strip(): line[26:].split()[:2] for line in Path(f"/proc/{pid}/limits").read_text().splitlines()}
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max processes"] == ["0", "0"]
    assert int(limits["Max open files"][1]) < 100
    assert int(limits["Max address space"][1]) < 1 << 30
    database.close()
    assert ended([pid])


@ON_LINUX
def test_a_helper_is_confined(tree: Path) -> None:
    """What the kernel keeps from a helper, tried in a process that has given it up in the same way."""
    tries = f"""
import ctypes, os, socket, sys
sys.path.insert(0, {str(Path(wire.__file__).parents[1])!r})
from sqlite_helper import confinement
folder = os.open({str(tree)!r}, os.O_RDONLY)
confinement.limit(64 << 20, 1 << 20)
holds = confinement.confine(folder)
def said(call):
    try:
        call()
        return 0
    except OSError as error:
        return error.errno
print([holds, said(lambda: open("/etc/hostname")), said(lambda: os.listdir("/")), said(socket.socket), said(lambda: os.execv("/bin/true", ["true"])),
       said(os.fork), said(lambda: os.kill(os.getppid(), 0)), said(lambda: open({str(tree / "new")!r}, "w").close()), said(lambda: os.mkdir({str(tree / "dir")!r})),
       said(lambda: os.symlink("x", {str(tree / "link")!r}))])
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", tries.replace("os._exit(0)", "sys.stdout.flush(); os._exit(0)")],
        capture_output=True,
        text=True,
        check=True,
    )
    holds, *said = eval(done.stdout)
    denied = (errno.EPERM, errno.EACCES)
    if "landlock" in holds:
        assert said[0] in denied
        assert said[1] in denied
    if "seccomp" in holds:
        assert all(number in denied for number in [*said[2:6], *said[7:]])
    assert said[6] == 0


@ON_LINUX
def test_without_confinement_names_are_checked_all_the_same(tree: Path) -> None:
    """On a system that has neither Landlock nor seccomp: SQLite itself can name nothing else."""
    (tree.parent / "out.db").touch()
    tries = f"""
import os, sys
sys.path[:0] = [{str(Path(wire.__file__).parents[1])!r}]
import apsw
from sqlite_helper.vfs import Files
files = Files()
files.install()
apsw.randomness(1)
path = files.seal(os.open({str(tree)!r}, os.O_RDONLY), "a.db", frozenset())
apsw.Connection(path).execute("create table t (a)")
for name in ({str(tree.parent / "out.db")!r}, "/out.db", "a.db", "/a.db/../../out.db", {str(tree / "a.db")!r}, "/", "/new.db"):
    try:
        apsw.Connection(name).execute("create table u (a)")
        print("opened", name)
    except apsw.CantOpenError:
        pass
print("done")
"""
    done = subprocess.run([sys.executable, "-c", tries], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stdout + done.stderr
    assert os.listdir(tree) == ["a.db"]


def test_there_are_not_too_many(tree: Path) -> None:
    shared = Shared()
    helpers = Helpers(most=4, most_of_an_owner=3)
    shared._made[Helpers] = helpers
    mine, theirs = Principal("a"), Principal("b")
    try:
        files = [connected(shared, tree, f"{at}.db", owner=mine) for at in range(6)]
        assert [one.is_usable() for one in files] == [False] * 3 + [True] * 3
        held = [connected(shared, owner=theirs) for _ in range(3)]
        with pytest.raises(HostError) as raised:
            connected(shared, owner=theirs)
        assert code(raised) == "DATABASES_EXCEEDED"
        assert all(one.is_usable() for one in held)
        held[0].close()
        connected(shared, owner=theirs)
        assert [one.query("select 1 as one", []) for one in files] == [[{"one": 1}]] * 6  # each connects again
        files[-1].begin()
        files[-1]._helper.used -= 60
        connected(shared, tree, "6.db", owner=mine)
        connected(shared, tree, "7.db", owner=mine).begin()
    finally:
        shared.close()


@ON_LINUX
def test_processes_that_somebody_ends(tree: Path, shared: Shared) -> None:
    database = connected(shared)
    server, pid = shared(Helpers).pids()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(HostError) as raised:
        database.query("select 1", [])
    assert code(raised) == "DATABASE_FAILED"
    other = connected(shared)
    os.kill(server, signal.SIGKILL)
    until = time.monotonic() + 10
    while other.is_usable() and time.monotonic() < until:
        time.sleep(0.01)
    assert not other.is_usable()
    assert connected(shared).query("select 1 as one", []) == [{"one": 1}]


_DIES = """
import asyncio, sys
from holdfast import Holdfast, Limits
async def main():
    async with Holdfast.open("memory:") as hf:
        await hf.templates.create("t", limits=Limits(wall_ms=0, cpu_ms=0))
        await hf.templates.add_capability("t", "module", "database", enabled=True, config={"timeout_ms": 60000})
        await hf.executions.run((await hf.sessions.create("t")).id, sys.argv[1])
asyncio.run(main())
"""


def stuck_helpers(pid: int) -> list[int]:
    """The fork server and the helper of a process whose script is in a long operation by now."""
    until = time.monotonic() + 30
    while len(found := below(pid)) < 2:
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(0.3)
    return found


@ON_LINUX
def test_kill_9_leaves_no_helper() -> None:
    source = MEMORY + f"db.query({json.dumps(STUCK['glob'])}, {ZEROS})"
    process = subprocess.Popen([sys.executable, "-c", _DIES, source])
    helpers = stuck_helpers(process.pid)
    process.kill()
    process.wait(20)
    assert ended(helpers)


@ON_LINUX
def test_sigterm_in_the_midst_of_a_statement(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, shutdown_grace_s="0.5")
    try:
        process = daemon.start().process
        assert process is not None
        with daemon.client() as client:
            template = client.post("/templates", json={"name": "t"}).json()["id"]
            grant = {"kind": "module", "name": "database", "enabled": True, "config": {"timeout_ms": 60_000}}
            assert client.post(f"/templates/{template}/capabilities", json=grant).status_code == 201
            assert client.patch(f"/templates/{template}", json={"limits": {"wall_ms": 0, "cpu_ms": 0}}).status_code == 200
            session = client.post("/sessions", json={"template_id": template}).json()["id"]
            body = {"session_id": session, "input": MEMORY + f"db.query({json.dumps(STUCK['glob'])}, {ZEROS})"}
            assert client.post("/executions/repl", json=body, headers={"Prefer": "respond-async"}).status_code == 202
            helpers = stuck_helpers(process.pid)
        begun = time.monotonic()
        daemon.stop()
        assert time.monotonic() - begun < 8
        assert ended(helpers)
    finally:
        daemon.kill()
