"""Kills a process again and again in the middle of what its scripts do with native modules, and looks whether anything happened twice.

    python -m tests.chaos.modules --rounds 100 [--store sqlite|postgresql|both] [--seed N]

Scripts in both languages run programs, change databases, post, change files and count in the state, and keep a trail of what they are sure
of. At the end that is compared with the world: lines that programs have appended, rows, what a server here was sent, files, counters.
What a script is sure of happened once, what is uncertain at most once, and no program is left running.
"""

import asyncio
import contextlib
import json
import os
import random
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from holdfast import Holdfast
from holdfast.domain import QueryState, SessionState, shared_root
from holdfast.store import Store, open_store
from tests.chaos.driving import Notes
from tests.chaos.killing import (
    PATIENCE_S,
    Lost,
    Ran,
    check_history,
    compare_notes,
    ended,
    finish,
    look_at_answers,
    main,
    one_round,
    read_notes,
)
from tests.chaos.module_worker import DATABASE, NAMESPACE, ROUNDS, TABLE, ModuleWorker, kinds

WORKER = "tests.chaos.module_worker"
_SLOWEST_S = 0.03
_SOON_MS = 20
_MARK = "LD_LIBRARY_PATH"
"""A variable that supervisors of programs take from their daemon: they are known by it."""

Done = tuple[str, str, int]
"""The name of a session's worktree, what was done, and its number."""


# ---- the world -------------------------------------------------------------------------------------------------------------------------


class Posts:
    """A server that notes what was posted, once all of it has come, and answers a little later; or, while it holds, not at all."""

    def __init__(self, folder: Path) -> None:
        self.go = threading.Event()
        self.go.set()
        self._notes = Notes(folder / "world")
        posts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                if len(self.rfile.read(length)) == length:
                    posts.take(self.path)
                    self.send_response(200)
                    self.send_header("content-length", "2")
                    self.end_headers()
                    self.wfile.write(b"ok")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # whoever has posted was killed
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str) -> None:
        _, name, what, n = path.split("/")
        self._notes.write("post", name, what, int(n))
        time.sleep(random.random() * _SLOWEST_S)
        self.go.wait(PATIENCE_S)

    def close(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._notes.close()


@contextlib.contextmanager
def posts(folder: Path) -> Iterator[Posts]:
    server = Posts(folder)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def database(address: str) -> Iterator[None]:
    """If the store is on PostgreSQL, scripts have a database there, too: a schema with a role that may use nothing else."""
    if not address.startswith("postgresql"):
        yield
        return
    from tests import postgres

    root = postgres.fresh_schema()
    schema = root.rpartition("%3D")[2]
    server = postgres.server()
    server.execute(f"CREATE ROLE chaos_{schema} LOGIN")
    server.execute(f"GRANT ALL ON SCHEMA {schema} TO chaos_{schema}")
    with mock.patch.dict(os.environ, {DATABASE: root.replace("postgres@", f"chaos_{schema}@")}):
        with psycopg.connect(os.environ[DATABASE], autocommit=True) as connection:
            connection.execute(TABLE)
        yield


def left_running(folder: Path) -> list[str]:
    """Programs that run in a worktree, and processes that were started by a worker: none may outlive it."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                is_ours = str(folder).encode() in (process / "environ").read_bytes() or str(
                    (process / "cwd").readlink()
                ).startswith(str(folder))
                if is_ours and (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(_words_of(process))
    return found


def _words_of(process: Path) -> str:
    """How a program was started. There is a moment in which it is there, and its words are not yet."""
    until = time.monotonic() + PATIENCE_S
    while not (words := (process / "cmdline").read_bytes()) and time.monotonic() < until:
        time.sleep(0.001)
    return words.replace(b"\0", b" ").decode()


def check_programs(folder: Path) -> None:
    """They end by themselves in a moment."""
    until = time.monotonic() + PATIENCE_S
    while found := left_running(folder):
        if time.monotonic() > until:
            raise Lost([f"is still running: {found}"])
        time.sleep(0.005)


def happened(folder: Path, problems: list[str]) -> Counter[Done]:
    """What there is in the world, and how often."""
    found: Counter[Done] = Counter((name, what, n) for _, name, what, n in read_notes(folder / "world"))
    rows: Counter[tuple[str, str, int, int]] = Counter()
    for tree in (folder / "trees").iterdir():
        lines = tree / "lines"
        for line in lines.read_text().splitlines() if lines.exists() else ():
            what, number = line.split()
            found[tree.name, what, int(number)] += 1
        with contextlib.closing(sqlite3.connect(tree / "rows.db")) as connection:
            rows.update(connection.execute("select name, kind, n, part from made"))
        for n in range(1, ROUNDS + 1):
            file = tree / f"w{n}"
            found[tree.name, "wrote", n] = file.exists() and file.read_text() == f"text {n}"
            found[tree.name, "made", n] = (tree / f"d{n}").is_dir()
            found[tree.name, "removed", n] = not (tree / "old" / f"r{n}").exists()
            moved = (tree / f"b{n}").exists()
            found[tree.name, "moved", n] = moved
            if moved == (tree / "old" / f"a{n}").exists():
                problems.append(f"a file is there twice, or gone: {tree.name} {n}")
    if os.environ.get(DATABASE):
        with psycopg.connect(os.environ[DATABASE]) as there:
            _await_others(there)
            rows.update(there.execute("select name, kind, n, part from made").fetchall())
    for (name, what, n, part), count in rows.items():
        if part != 2:
            found[name, what, n] += count
        if part and rows[name, what, n, 3 - part] != count:
            problems.append(f"half of a transaction: {name} {what} {n}")
    return found


def journals(folder: Path) -> set[tuple[Path, int]]:
    """Changes of SQLite files that are under way, or were when somebody was killed."""
    found = set()
    for tree in (folder / "trees").glob("*"):
        with contextlib.suppress(FileNotFoundError):
            journal = tree / "rows.db-journal"
            found.add((journal, journal.stat().st_ctime_ns))
    return found


def is_writing(folder: Path, before: set[tuple[Path, int]]) -> bool:
    """Whether a script is in the middle of a change of a database, which is short: few kills would come upon one by chance."""
    if os.environ.get(DATABASE) and random.random() < 0.5:
        with psycopg.connect(os.environ[DATABASE]) as there:
            return (
                there.execute(
                    "select 1 from pg_stat_activity where usename = current_user and backend_xid is not null"
                ).fetchone()
                is not None
            )
    return bool(journals(folder) - before)


def _await_others(connection: psycopg.Connection[Any]) -> None:
    """A server may go on for a while with what somebody asked for who was killed then."""
    others = "select count(*) from pg_stat_activity where usename = current_user and pid <> pg_backend_pid()"
    until = time.monotonic() + PATIENCE_S
    while connection.execute(others).fetchone() != (0,) and time.monotonic() < until:
        connection.rollback()
        time.sleep(0.02)


# ---- looking and examining -------------------------------------------------------------------------------------------------------------


def counters(store: Store) -> dict[str, int]:
    """What is counted in the state, by key."""
    namespace, after = shared_root(NAMESPACE), None
    found: dict[str, int] = {}
    while True:
        page = store.list_state(namespace, now=int(time.time() * 1000), after=after)
        for key in page.items:
            row = store.get_state(namespace, key)
            assert row is not None
            found[key] = json.loads(row.value)
        after = page.next
        if after is None:
            return found


def check_atomic(found: dict[str, int]) -> list[str]:
    """What a step counts at once is there at once, at every moment."""
    firsts = {key.partition("/")[2]: value for key, value in found.items() if key.startswith("first/")}
    problems = [
        f"half of a step is in the state: {name}" for name, value in firsts.items() if found.get(f"second/{name}") != value
    ]
    if sum(firsts.values()) != found.get("all", 0):
        problems.append(f"all counted {sum(firsts.values())}, but together {found.get('all')}")
    return problems


def look(address: str, folder: Path, found: Counter[str]) -> None:
    """Counts in the middle of what the process was killed. Nothing is changed, but nothing may be half done either."""
    found["kills"] += 1
    check_programs(folder)
    store = open_store(address)
    try:
        if problems := check_atomic(counters(store)):
            raise Lost(problems)
        for session in store.list_sessions(states=[SessionState.RUNNING, SessionState.STARTING], limit=1000).items:
            begun = store.load(session.id).begun
            if begun is not None:
                intent = bool(begun.effects) and begun.effects[-1].reply is None
                found[f"{begun.effects[-1].name}, or between it and the end of its step" if intent else "a slow step"] += 1
                found["a step that was a replay"] += begun.attempts > 1
        for query in store.list_queries(states=[QueryState.OPEN], kinds=[], limit=1000).items:
            if query.kind == "tool":
                found[
                    query.payload["name"] if query.started_at is not None else f"nothing, before {query.payload['name']}"
                ] += 1
        found["an answer, between its commit and its acknowledgement"] = look_at_answers(store, read_notes(folder / "notes"))
    finally:
        store.close()


async def examine(address: str, folder: Path, url: str, kills: int) -> Counter[str]:
    """Compares what the workers were told, what the scripts are sure of, and what is in the world. Raises `Lost`."""
    problems: list[str] = []
    counts: Counter[str] = Counter()
    trails: dict[str, list[list[Any]]] = {}
    worker = ModuleWorker(folder, 0, url)
    try:
        async with worker.open(address) as hf:
            await compare_notes(hf, folder, counts, problems)
            await finish(hf, problems)
            counts["recovered by the last process"] = (await hf.summary())["recovered"]
            for session, trail in (await ended(hf, problems)).items():
                trails[await name_of(hf, session)] = trail
                await check_history(hf, session, trail, problems)
    finally:
        worker.close()
    check_programs(folder)
    check_world(happened(folder, problems), trails, counts, problems, kills)
    store = open_store(address)
    try:
        check_state(counters(store), trails, problems)
    finally:
        store.close()
    counts["sessions that came to their end"] = len(trails)
    if problems:
        raise Lost(problems)
    return counts


async def name_of(hf: Holdfast, session: str) -> str:
    worktree = (await hf.sessions.get(session)).worktree
    assert worktree is not None
    return Path(worktree.path).name


def check_world(
    world: Counter[Done], trails: dict[str, list[list[Any]]], counts: Counter[str], problems: list[str], kills: int
) -> None:
    """No effect happened twice; what a script is sure of did happen; what it is unsure of may have, and only a kill makes it unsure."""
    problems += [f"happened {count} times: {effect}" for effect, count in world.items() if count > 1]
    expected = [(what, n) for n in range(1, ROUNDS + 1) for i, what in enumerate(kinds()) if (n + i) % 3 == 0]
    known: set[Done] = set()
    for name, trail in trails.items():
        entries = [(what, n) for what, n, *_ in trail if what not in ("answer", "lost")]
        if [(what.rstrip("?"), n) for what, n in entries] != expected:
            problems.append(f"{name} did something else: {trail}")
        if sum(what.endswith("?") or what == "lost" for what, *_ in trail) > kills:
            problems.append(f"{name} is unsure of more than was killed: {trail}")
        counts["TRANSACTION_LOST, and done again"] += sum(what == "lost" for what, *_ in trail)
        for what, n in entries:
            kind = what.rstrip("?")
            known.add((name, kind, n))
            there = world[name, kind, n]
            if what.endswith("?"):
                counts[f"EFFECT_UNCERTAIN: {kind}, it had {'' if there else 'not '}happened"] += 1
            else:
                counts[f"script is sure: {kind}"] += 1
                if not there:
                    problems.append(f"did not happen: {name} {kind} {n}")
    problems += [f"nobody knows of it: {effect}" for effect, count in world.items() if count and effect not in known]


def check_state(found: dict[str, int], trails: dict[str, list[list[Any]]], problems: list[str]) -> None:
    """Each counter is what the steps have counted that were committed: all, since all have come to their end."""
    problems += check_atomic(found)
    expected = {f"{key}/{name}": ROUNDS for name in trails for key in ("first", "second", "last")}
    wrong = {key: value for key, value in found.items() if key != "all" and expected.get(key) != value}
    problems += [f"counted {value}: {key}" for key, value in wrong.items()]
    problems += [f"never counted: {key}" for key in expected if key not in found]


# ---- all of it -------------------------------------------------------------------------------------------------------------------------


def run(address: str, rounds: int, seed: int, longest_ms: float = 4_000, at_once: int = 3) -> Ran:
    """Kills `rounds` workers on one store, then examines it. Gives what they were in the middle of, and what was compared."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, database(address), posts(Path(name)) as server:
        folder = Path(name)
        options = server.url, str(at_once)
        for number in range(rounds):
            if number % 2:
                kill(address, folder, seed + number, longest_ms, *options)
            else:
                writing = partial(is_writing, folder, journals(folder))
                kill(address, folder, seed + number, _SOON_MS, *options, awaited="ready", then=writing)
            look(address, folder, found)
        return found, asyncio.run(examine(address, folder, server.url, rounds))


def kill(address: str, folder: Path, seed: int, longest_ms: float, *options: str, **when: Any) -> None:
    marked = f"{os.environ.get(_MARK, '')}:{folder}"
    one_round(WORKER, address, folder, seed, longest_ms, *options, env={_MARK: marked}, **when)


if __name__ == "__main__":
    main(__doc__, run)
