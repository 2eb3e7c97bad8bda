"""The isolation suite: what one tenant notices of another whose scripts are hostile.

A real daemon, real sockets, and callers in processes of their own.

The polite session evaluates `1+1`, durably, one call after the other. Its 99th percentile beside hostile sessions is divided by its 99th
percentile alone, measured in the same run before and after each of them.
"""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks import isolation_load
from benchmarks.isolation_before import db_query_seconds
from benchmarks.rows import Row
from holdfast.daemon.tokens import Tokens
from tests.daemon import NO_TLS, Daemon

SECONDS = 4.0
CALLS = 300
LONGEST = 15.0
GRACE_S = 1.0
NO_LIMITS = {"wall_ms": 0, "cpu_ms": 0}

LOOP = "for (;;) ;"
FLOOD = "for (;;) console.log('x'.repeat(1000))"
SMALL_FLOOD = "for (;;) console.log(1)"
HASHES = "const c = require('crypto'); for (;;) c.hash('sha256', 'x'.repeat(1000))"
CHANGES = "const s = require('state'); for (let i = 0; ; i++) s.set('k' + i % 1000, {value: 'x'.repeat(1000)})"
READS = "const fs = require('fs'); for (;;) fs.readFileSync('file.txt')"
SQL = "const d = require('database'); d.configure('sqlite3', ':memory:');"
COUNT = SQL + "d.query('with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n')"
WIDE = SQL + "for (;;) d.query('select ' + Array(500).fill(\"printf('%1000d', 1)\").join(','))"
MANY = SQL + "for (let i = 0; ; i++) d.query('select ?', i)"

HOSTILE: dict[str, tuple[int, list[str]]] = {
    "20_loops": (20, [LOOP]),
    "20_floods": (20, [FLOOD, SMALL_FLOOD]),
    "20_call_bombs": (20, [HASHES, CHANGES, READS]),
    "20_sql_bombs": (20, [COUNT, WIDE, MANY]),
    "100_loops": (100, [LOOP]),
}


def run(only: str = "") -> Iterator[Row]:
    """All rows of the suite, or those whose measurement has this word in its name."""
    names = [name for name in HOSTILE if only in f"neighbour_{name}"]
    for measure, wanted in (
        (lambda folder: neighbours(folder, names), bool(names)),
        (cancelling, only in "cancel_ms"),
        (stopping, only in "stop_over_grace_s"),
        (database, only in "db_query_us_vs_before"),
    ):
        if wanted:
            with tempfile.TemporaryDirectory() as folder:
                yield from measure(Path(folder))


# ---- the daemon and its callers ----------------------------------------------------------------------------------------------------


class World:
    """A daemon with a token for each of two tenants: a polite one, and a hostile one."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        (folder / "data").mkdir(mode=0o700)
        tokens = Tokens(folder / "data")
        self._trees: dict[str, Path] = {}
        self._operator = tokens.create("operator", ["admin"])[1]
        self.polite, self.hostile = (self._token(tokens, tenant) for tenant in ("polite", "hostile"))
        settings = {"log_level": "error", "access_log": "false", "worktree_roots": f"{folder}/trees/{{tenant}}"} | settings
        self.daemon = Daemon(folder, **settings)
        self.sink = _Sink()
        self.daemon.start()

    def _token(self, tokens: Tokens, tenant: str) -> str:
        """A token of a tenant, and a worktree for its sessions."""
        secret = tokens.create(tenant, ["admin"], tenant=tenant)[1]
        tree = self._trees[secret] = self.folder / "trees" / tenant / "tree"
        tree.mkdir(parents=True)
        (tree / "file.txt").write_text("x" * 4096)
        return secret

    def post(self, token: str, path: str, body: dict[str, Any], **headers: str) -> Any:
        with httpx2.Client(base_url=f"{self.daemon.url}/api/v1", timeout=60, verify=NO_TLS) as api:
            sent = {"Authorization": f"Bearer {token}", **headers}
            reply = api.post(path, json=body, headers=sent)
            assert reply.is_success, reply.text
            return reply.json()

    def sessions(self, token: str, name: str, count: int, *, limits: dict[str, int] | None = None) -> list[str]:
        modules: dict[str, dict[str, Any]] = {
            "crypto": {},
            "state": {"namespace": "shared"},
            "fs": {},
            "database": {},
            "exec": {"programs": [{"path": os.path.realpath("/usr/bin/sleep")}]},
            "http": {"allow": [{"host": "127.0.0.1", "scheme": "http", "port": self.sink.port}], "private": True},
        }
        template = self.post(token, "/templates", {"name": name} | ({"limits": limits} if limits else {}))["id"]
        for one, config in modules.items():
            grant = {"kind": "module", "name": one, "enabled": True, "config": config}
            owner = {"X-Holdfast-Tenant": self._trees[token].parent.name}  # what reaches the host is the operator's to grant
            self.post(self._operator, f"/templates/{template}/capabilities", grant, **owner)
        worktree = {"workspace_id": "bench", "base_commit_oid": "0" * 40, "worktree_path": os.fspath(self._trees[token])}
        body = {"template_id": template, **worktree}
        return [self.post(token, "/sessions", body)["id"] for _ in range(count)]

    def close(self) -> None:
        self.sink.close()
        self.daemon.kill()


class _Sink:
    """Takes connections and never says anything."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self._taken.append(self._listening.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listening.close()
        for taken in self._taken:
            taken.close()


@contextmanager
def _load(world: World, token: str, bodies: list[str], **order: Any) -> Iterator["subprocess.Popen[str]"]:
    whole = {"port": world.daemon.port, "token": token, "path": "/api/v1/executions/repl", "bodies": bodies} | order
    command = [sys.executable, "-m", isolation_load.__name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(whole) + "\n")
            process.stdin.flush()
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _measured(world: World, body: str, seconds: float = SECONDS) -> list[float]:
    """Seconds of each call of the polite session."""
    with _load(world, world.polite, [body], seconds=seconds, calls=CALLS, longest=LONGEST) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        told = json.load(process.stdout)
    assert set(told["statuses"]) == {"201"}, told["statuses"]
    taken: list[float] = told["taken"]
    return taken


def _p99(taken: list[float]) -> float:
    return sorted(taken)[len(taken) * 99 // 100]


# ---- neighbours --------------------------------------------------------------------------------------------------------------------


def neighbours(folder: Path, names: list[str]) -> Iterator[Row]:
    """The polite session beside each kind of hostile ones, and the memory that these cost."""
    growth = 0.0
    for name in names:
        (folder / name).mkdir()
        world = World(folder / name)
        try:
            alone, beside, grown = _neighbour(world, *HOSTILE[name])
        finally:
            world.close()
        growth = max(growth, grown)
        yield Row(f"neighbour_p99_ratio_{name}", _p99(beside) / _p99(alone), 5, 2)
        yield Row(f"neighbour_p99_ms_{name}", _p99(beside) * 1e3)
        yield Row(f"neighbour_p50_ms_{name}", statistics.median(beside) * 1e3)
        yield Row(f"alone_p99_ms_{name}", _p99(alone) * 1e3)
        yield Row(f"memory_mb_{name}", grown)
    yield Row("neighbour_memory_mb", growth, 200, 100)


def _neighbour(world: World, count: int, scripts: list[str]) -> tuple[list[float], list[float], float]:
    """Seconds of calls of the polite session, alone and beside the others; MB by which the daemon has grown."""
    (polite,) = world.sessions(world.polite, "polite", 1)
    strict = world.sessions(world.hostile, "strict", count - count // 2)
    patient = world.sessions(world.hostile, "patient", count // 2, limits=NO_LIMITS)
    body = json.dumps({"session_id": polite, "input": "1+1"})
    bodies = [
        json.dumps({"session_id": session, "input": f"{{{scripts[at % len(scripts)]}}}"})
        for at, session in enumerate([*strict, *patient])
    ]
    _measured(world, body, seconds=1)  # what a process does once is done
    alone = _measured(world, body)
    memory = _Memory(world.daemon.process)
    with _load(world, world.hostile, bodies, seconds=600, until_closed=True):
        time.sleep(2)  # until all of them run
        beside = _measured(world, body)
    return alone, beside, memory.growth()


class _Memory:
    """The resident memory of a process and all that it has started, sampled."""

    def __init__(self, process: "subprocess.Popen[bytes] | None") -> None:
        assert process is not None
        self._pid = process.pid
        self._first = self._most = self._sample()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def growth(self) -> float:
        """How much it grew at most, in MB."""
        self._over.set()
        self._thread.join()
        return (self._most - self._first) / (1 << 20)

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self._most = max(self._most, self._sample())

    def _sample(self) -> int:
        return sum(_memory(pid) for pid in (self._pid, *_descendants(self._pid)))


def _memory(pid: int) -> int:
    """Bytes of a process. Pages that processes share, as those that were forked do, are divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    except PermissionError:  # it may not be looked into: then shared pages count for each
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _descendants(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = [int(child) for child in children.read_text().split()]
        except OSError:
            continue
        for child in found:
            yield child
            yield from _descendants(child)


# ---- ends --------------------------------------------------------------------------------------------------------------------------


def _activities(world: World) -> dict[str, str]:
    """Everything that a script can be doing when it is told to stop."""
    return {
        "loop": LOOP,
        "regex": "/^(a+)+$/.test('a'.repeat(40) + 'b')",
        "sort": "for (;;) Array.from({length: 1e6}, (_, i) => (i * 7919) % 1000003).sort((a, b) => a - b)",
        "host_call": HASHES,
        "exec": "require('exec').spawnSync('/usr/bin/sleep', ['60'], {timeoutMs: 60000})",
        "exec_waiting": "await require('exec').spawn('/usr/bin/sleep', ['60'])",
        "http": f"require('http').fetchSync('http://127.0.0.1:{world.sink.port}/')",
        "http_waiting": f"await require('http').fetch('http://127.0.0.1:{world.sink.port}/')",
        "sql": COUNT,
        "sql_wide": WIDE,
        "state_conflict": "const s = require('state'); for (let i = 0; i < 1e9; i++) s.incr('n')",
        "fork": "await hf.fork([() => { for (;;) ; }, () => { for (;;) ; }], {})",
        "flood": FLOOD,
        "small_flood": SMALL_FLOOD,
        "timer": "await new Promise((r) => setTimeout(r, 60000))",
        "json": "for (;;) JSON.parse(JSON.stringify(Array(2e5).fill({a: [1, 2, 3]})))",
    }


def _begin(world: World) -> dict[str, str]:
    """Starts each activity in a session of its own, all at once; gives the ids of their executions."""
    activities = _activities(world)
    sessions = world.sessions(world.hostile, "activities", len(activities), limits=NO_LIMITS)
    begun: dict[str, str] = {}
    for (name, script), session in zip(activities.items(), sessions, strict=True):
        body = {"session_id": session, "input": script}
        begun[name] = world.post(world.hostile, "/executions/repl", body, Prefer="respond-async")["id"]
    return begun


def cancelling(folder: Path) -> Iterator[Row]:
    """The longest that an execution goes on after it was told to stop, of each kind alone, and with many others waiting for a turn."""
    world = World(folder)
    taken: dict[str, float] = {}

    def cancel(name: str, execution: str) -> None:
        since = time.perf_counter()
        world.post(world.hostile, f"/executions/{execution}/cancel", {})
        taken[name] = max(taken.get(name, 0), (time.perf_counter() - since) * 1e3)

    try:
        activities = _activities(world)
        (session,) = world.sessions(world.hostile, "alone", 1, limits=NO_LIMITS)
        for name, script in activities.items():
            body = {"session_id": session, "input": f"{{{script}}}" if "await" not in script else script}
            begun = world.post(world.hostile, "/executions/repl", body, Prefer="respond-async")["id"]
            time.sleep(0.4)
            cancel(name, begun)
        together = _begin(world)
        time.sleep(1)
        for name, execution in together.items():
            cancel(f"{name} with others", execution)
        looping = world.sessions(world.hostile, "queue", 100, limits=NO_LIMITS)
        waiting = [
            world.post(world.hostile, "/executions/repl", {"session_id": one, "input": LOOP}, Prefer="respond-async")["id"]
            for one in looping
        ]
        for execution in reversed(waiting):
            cancel("waiting in the queue", execution)
    finally:
        world.close()
    worst = max(taken, key=lambda name: taken[name])
    print(f"# cancel_ms: worst is {worst}: {sorted((round(ms), name) for name, ms in taken.items())[-5:]}", file=sys.stderr)
    yield Row("cancel_ms", taken[worst], 300, 100)


def stopping(folder: Path) -> Iterator[Row]:
    """How long after its grace the daemon ends, while scripts do everything that they can do."""
    world = World(folder, shutdown_grace_s=str(GRACE_S))
    try:
        _begin(world)
        time.sleep(1)
        process = world.daemon.process
        assert process is not None
        since = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        yield Row("stop_over_grace_s", max(0.0, time.perf_counter() - since - GRACE_S), 1, 0.5)
    finally:
        world.close()


# ---- the price ---------------------------------------------------------------------------------------------------------------------


def database(folder: Path) -> Iterator[Row]:
    """A query by a script, against the same one by the code that ran it within the daemon's process before, in turns."""
    now, before = db_query_seconds(folder)
    yield Row("db_query_us", now * 1e6)
    yield Row("db_query_us_vs_before", now / before, 2, 1.5)
