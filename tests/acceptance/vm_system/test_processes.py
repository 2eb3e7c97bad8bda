"""Section 5.11, and what 5.15 says of restarts: the daemon as a process."""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

from tests.acceptance.vm_system.conftest import ok, repl
from tests.daemon import Daemon


def test_DMN_01_DMN_02(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.cli", "config", "show", "--json"]
    daemon = Daemon(tmp_path)
    shown = subprocess.run(command, env=daemon.environment, capture_output=True, text=True, check=True, timeout=60)
    for name, value in {
        '"listen"': "127.0.0.1:3210",
        '"body_timeout_s"': "15",
        '"header_timeout_s"': "5",
        '"idle_timeout_s"': "60",
        '"shutdown_grace_s"': "10",
    }.items():
        assert name in shown.stdout
        assert value in shown.stdout


def test_DMN_03_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, store=f"sqlite:///{tmp_path}/nowhere/x.db")
    command = [sys.executable, "-m", "holdfast.cli", "serve", "--listen", f"127.0.0.1:{daemon.port}"]
    ended = subprocess.run(command, env=daemon.environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode not in (0, -9)
    assert "STORE_" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_DMN_04_fixed_sessions_survive_a_restart(tmp_path: Path) -> None:
    """Where vm-system closes all sessions when it starts, ours go on."""
    daemon = Daemon(tmp_path).start()
    try:
        with daemon.client() as api:
            template = ok(api.post("/templates", json={"name": "t"}), 201)
            session = ok(api.post("/sessions", json={"template_id": template["id"]}), 201)
            repl(api, session, "globalThis.kept = 41")
            waiting = repl(api, session, "await ask('how many?') + kept")
            assert waiting["status"] == "paused"
        daemon.kill()
        daemon.start()
        with daemon.client() as api:
            assert ok(api.get(f"/sessions/{session['id']}"))["status"] == "paused"
            ended = ok(api.post(f"/sessions/{session['id']}/answers", json={"value": 1}))
            assert ended["status"] == "ok"
            assert ended["result"]["json"] == 42
    finally:
        assert daemon.stop() == 0


def test_fixed_a_second_daemon_touches_nothing(daemon: Daemon, api: httpx2.Client) -> None:
    second = Daemon(daemon.folder)
    command = [sys.executable, "-m", "holdfast.cli", "serve", "--listen", f"127.0.0.1:{second.port}"]
    ended = subprocess.run(command, env=daemon.environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 4
    assert "ALREADY_RUNNING" in ended.stderr
    assert ok(api.get("/health"))["status"] == "ok"


def test_fixed_a_client_that_goes_away_does_not_stop_a_script(
    daemon: Daemon, api: httpx2.Client, template: dict[str, Any]
) -> None:
    session = ok(api.post("/sessions", json={"template_id": template["id"]}), 201)
    source = "let n = 0; while (n < 1e7) n++; globalThis.done = n"
    with daemon.client() as another, contextlib.suppress(httpx2.TimeoutException):
        another.post("/executions/repl", json={"session_id": session["id"], "input": source}, timeout=0.1)
    given = {"session_id": session["id"], "input": "done", "wait": True}
    assert ok(api.post("/executions/repl", json=given), 201)["result"]["json"] == 10_000_000
