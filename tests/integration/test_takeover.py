"""What a killed daemon ran is taken over at once, and a call for a session that another daemon runs waits for its turn.

All with real daemons, really killed or stopped. Leases are long here, so that nothing passes by waiting for one.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast import Client
from holdfast.domain import SessionBusy
from holdfast.runtime.nodes import NodeFile, is_dead, new_node
from tests.daemon import Daemon
from tests.postgres import fresh_schema

LEASE_MS = "60000"
SOON_S = 20
"""Well below the lease; most of it is the start of a daemon on a loaded machine."""
SLOW = "const who = await ask('Who?'); let n = 0; for (let i = 0; i < 6e6; i++) n += i % 7; who + '!'"


@contextmanager
def daemon(folder: Path, **settings: str) -> Iterator[Daemon]:
    folder.mkdir(exist_ok=True)
    started = Daemon(folder, **{"lease_ms": LEASE_MS, **settings}).start()
    try:
        yield started
    finally:
        if started.process is not None and started.process.poll() is None:
            started.process.send_signal(signal.SIGCONT)
        started.kill()


@contextmanager
def pair(tmp_path: Path, **settings: str) -> Iterator[tuple[Daemon, Daemon, Client, Client]]:
    """Two daemons on one PostgreSQL, and clients of both."""
    store = fresh_schema()
    with ExitStack() as stack:
        a, b = (stack.enter_context(daemon(tmp_path / name, store=store, **settings)) for name in "ab")
        yield a, b, stack.enter_context(client_of(a)), stack.enter_context(client_of(b))


def client_of(daemon: Daemon) -> Client:
    return Client(daemon.url, daemon.token)


def session_of(client: Client) -> str:
    template = client.templates.create(f"t{uuid4()}", limits={"wall_ms": 60_000, "cpu_ms": 60_000})
    return client.sessions.create(template.id).id


def wait_for_state(client: Client, session: str, state: str) -> None:
    until = time.monotonic() + 30
    while client.sessions.get(session).status != state:
        assert time.monotonic() < until, client.sessions.get(session)
        time.sleep(0.02)


def value(execution: Any) -> Any:
    assert execution.status == "ok", execution
    return execution.result["json"]


class Calling(threading.Thread):
    """A call on a thread of its own."""

    def __init__(self, call: Any, *args: Any, **options: Any) -> None:
        super().__init__()
        self._work = lambda: call(*args, **options)
        self.outcome: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._work()
        except Exception as error:  # noqa: BLE001
            self.outcome = error

    def result(self) -> Any:
        self.join(60)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_a_restarted_daemon_takes_over_at_once(tmp_path: Path) -> None:
    with daemon(tmp_path / "a") as one, client_of(one) as client:
        paused, running = session_of(client), session_of(client)
        client.executions.repl(paused, "const who = await ask('Who?'); who + '!'")
        client.executions.repl(running, SLOW)
        answering = Calling(client.queries.answer, running, "Ada", query="q-1", idempotency_key="k")
        wait_for_state(client, running, "running")
        one.kill()
        begun = time.monotonic()
        one.start()
        assert value(client.queries.answer(paused, "Bob")) == "Bob!"
        assert value(answering.result()) == "Ada!"  # the client has sent it again, with its key
        assert value(client.executions.repl(running, "who", wait=True)) == "Ada"
        assert time.monotonic() - begun < SOON_S


def test_asking_one_daemon_while_another_runs_a_step_waits(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, _, of_a, of_b):
        session = session_of(of_a)
        of_a.executions.repl(session, f"{SLOW}; await ask('More?')")
        first = Calling(of_a.queries.answer, session, "Ada", query="q-1")
        wait_for_state(of_b, session, "running")
        same = Calling(of_b.queries.answer, session, "Ada", query="q-1")
        noted = Calling(of_b.sessions.fork, session)
        assert same.result().status == first.result().status == "paused"
        assert noted.result()
        assert value(of_b.queries.answer(session, "no")) == "no"

        # A is killed in mid-step, and B, on the same machine, knows that at once.
        of_a.executions.repl(session, SLOW.replace("const who", "var who2"))
        Calling(of_a.queries.answer, session, "x")
        wait_for_state(of_b, session, "running")
        a.kill()
        begun = time.monotonic()
        assert value(of_b.executions.repl(session, "who", wait=True)) == "Ada"
        assert time.monotonic() - begun < SOON_S


def test_a_stopped_daemon_is_alive_until_its_lease_ends(tmp_path: Path) -> None:
    with pair(tmp_path, lease_ms="3000", busy_wait_ms="600") as (a, b, of_a, of_b):
        session = session_of(of_a)
        of_a.executions.repl(session, SLOW)
        Calling(of_a.queries.answer, session, "Ada", query="q-1")
        wait_for_state(of_b, session, "running")
        assert a.process is not None
        a.process.send_signal(signal.SIGSTOP)
        with b.client() as plain:
            refused = plain.post(f"/sessions/{session}/close", json={})
        assert refused.status_code == 409, refused.text
        assert refused.json()["error"]["code"] == "SESSION_BUSY"
        assert int(refused.headers["Retry-After"]) >= 1
        # Our client comes back until the lease has ended and B has gone on with the step.
        assert value(of_b.queries.answer(session, "Ada", query="q-1")) == "Ada!"
        a.process.send_signal(signal.SIGCONT)
        assert value(of_a.executions.repl(session, "who", wait=True)) == "Ada"
        of_b.executions.repl(session, "await ask('?')")
        with pytest.raises(SessionBusy):  # an execution that waits for somebody is not waited for
            of_b.executions.repl(session, "1")


def test_a_process_is_dead_only_if_that_is_proven(tmp_path: Path) -> None:
    show = "from holdfast.runtime.nodes import new_node; print(new_node(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", show], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        node = UUID(other.stdout.readline().strip())
        assert not is_dead(node)
        other.send_signal(signal.SIGSTOP)
        assert not is_dead(node)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # a zombie is dead
        assert is_dead(node)
        other.wait()
        assert is_dead(node)
    assert not is_dead(new_node())
    assert new_node() != new_node()
    assert not is_dead(uuid4())
    assert not is_dead(UUID(int=node.int ^ 1 << 100))  # of another host: nobody here can tell


def test_a_copy_of_a_data_directory_retires_nobody(tmp_path: Path) -> None:
    file, copy = tmp_path / "node", tmp_path / "copy"
    nodes = [new_node() for _ in range(12)]
    assert NodeFile(file).take_over(nodes[0]) == []
    assert NodeFile(file).take_over(nodes[1]) == [nodes[0]]
    shutil.copy2(file, copy)
    assert NodeFile(copy).take_over(nodes[2]) == []
    for node in nodes[3:]:
        NodeFile(file).take_over(node)
    assert len(NodeFile(file).take_over(nodes[2])) == 8
    file.write_bytes(b"\xff" * 100)
    assert NodeFile(file).take_over(nodes[0]) == []
