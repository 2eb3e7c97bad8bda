"""Attacks on the daemon by way of its files: what others can put there, and what breaks while it runs."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.daemon import ConfigInvalid, DaemonError, InstanceLock, Tokens, TokensUnusable, load_config, running_pid
from tests.daemon import NO_TLS, Daemon

_SECRET = "hf_" + "A" * 43


def until(true: Callable[[], Any], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("attacked"), lease_ms="400").start()
    try:
        yield daemon
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.log
    finally:
        daemon.kill()


def status(daemon: Daemon, secret: str) -> int:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.get(f"{daemon.url}/api/v1/templates", headers=headers, verify=NO_TLS).status_code


# ---- while it runs -----------------------------------------------------------------------------------------------------------------


def test_tokens_that_cannot_be_read_do_not_stop_later_ones_from_being_revoked(daemon: Daemon) -> None:
    path = daemon.folder / "data" / "tokens.json"
    tokens = Tokens(daemon.folder / "data")
    _, secret = tokens.create("good", ["read"])
    until(lambda: status(daemon, secret) == 200)
    whole = path.read_bytes()

    def replace(make: Callable[[], Any]) -> None:
        before = daemon.log.count("TOKENS_UNUSABLE")
        path.unlink()
        make()
        until(lambda: daemon.log.count("TOKENS_UNUSABLE") > before)
        assert status(daemon, secret) == 200, "they stay as they were"

    replace(path.mkdir)
    path.rmdir()
    path.touch()
    replace(lambda: path.write_bytes(b"[" * 100_000))
    replace(lambda: os.mkfifo(path, 0o600))
    path.unlink()
    path.write_bytes(whole)
    path.chmod(0o600)
    tokens.revoke("good")
    until(lambda: status(daemon, secret) == 401)
    assert status(daemon, daemon.token) == 200


def test_many_hang_ups(daemon: Daemon) -> None:
    assert daemon.process is not None
    for _ in range(100):
        daemon.process.send_signal(signal.SIGHUP)
    assert status(daemon, daemon.token) == 200


def test_a_full_disk_is_told_and_nothing_is_lost(daemon: Daemon) -> None:
    """A limit of file sizes stands in for a disk that is full."""
    assert daemon.process is not None
    pid, unlimited = daemon.process.pid, resource.RLIM_INFINITY
    with daemon.client() as api:
        template = api.post("/templates", json={"name": "full"}).json()["id"]
        session = api.post("/sessions", json={"template_id": template}).json()["id"]
        call = {"session_id": session, "input": "globalThis.n = (globalThis.n ?? 0) + 1"}
        assert api.post("/executions/repl", json=call).status_code == 201
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, unlimited))
        try:
            refused = api.post("/executions/repl", json=call)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "STORE_FULL"
            assert "/" not in refused.json()["error"]["message"]
            assert api.get(f"/sessions/{session}").status_code == 200
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: api.get(f"/sessions/{session}").json()["status"] == "ready")
        again = api.post("/executions/repl", json=call)
        assert again.status_code == 201, again.text
        assert again.json()["result"]["preview"] in ("2", "3"), again.json()["result"]


def test_two_daemons_at_the_same_moment(tmp_path: Path) -> None:
    """One of them has the data directory. It says that others can write there."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    both = [Daemon(tmp_path) for _ in range(2)]
    started = []
    for one in both:
        command = [sys.executable, "-m", "holdfast.cli", "serve", "--listen", f"127.0.0.1:{one.port}"]
        started.append(subprocess.Popen(command, env=one.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    try:
        until(lambda: any(process.poll() is not None for process in started))
        lost = next(process for process in started if process.poll() is not None)
        won = next(process for process in started if process is not lost)
        assert b"ALREADY_RUNNING" in lost.communicate(timeout=10)[1]
        until(lambda: running_pid(tmp_path / "data") == won.pid and (tmp_path / "data" / "tokens.json").exists())
        won.send_signal(signal.SIGTERM)
        assert b"the data directory can be written by others" in won.communicate(timeout=15)[1]
        assert won.returncode == 0
    finally:
        for process in started:
            process.kill()
            process.communicate()


# ---- what others put there ---------------------------------------------------------------------------------------------------------


def test_a_lock_is_no_way_to_another_file(tmp_path: Path) -> None:
    """It is emptied and written to, and root gives it to the folder's owner."""
    precious = tmp_path / "precious"
    precious.write_text("all that there is")
    for link in (os.symlink, os.link):
        for name, use in (
            ("daemon.lock", lambda folder: InstanceLock(folder).take()),
            ("tokens.lock", lambda folder: Tokens(folder).create("mine", ["admin"])),
        ):
            folder = tmp_path / f"{link.__name__}-{name}"
            folder.mkdir(mode=0o700)
            link(precious, folder / name)
            with pytest.raises(DaemonError) as refused:
                use(folder)
            assert str(tmp_path) not in str(refused.value)
            assert precious.read_text() == "all that there is"
            assert running_pid(folder) is None


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give files away")
def test_root_gives_away_only_what_it_has_made(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    os.chown(folder, 1234, 1234)
    kept = folder / "tokens.lock"
    kept.touch(mode=0o600)
    Tokens(folder).create("mine", ["admin"])
    assert kept.stat().st_uid == 0, "it was there"
    with InstanceLock(folder):
        assert (folder / "daemon.lock").stat().st_uid == 1234
    assert (folder / "tokens.json").stat().st_uid == 1234


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_cannot_be_a_lock_or_a_token_file(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    make(tmp_path / "daemon.lock")
    with pytest.raises(DaemonError, match=r"daemon\.lock in the data directory"):
        InstanceLock(tmp_path).take()
    assert running_pid(tmp_path) is None
    make(tmp_path / "tokens.lock")
    with pytest.raises(TokensUnusable, match="the lock of the tokens"):
        Tokens(tmp_path).first()
    with pytest.raises(TokensUnusable, match="the token file cannot be written"):
        Tokens(tmp_path / "other", token_file=Path(__file__) / "token").first()
    make(tmp_path / "tokens.json")
    with pytest.raises(TokensUnusable):
        Tokens(tmp_path)


def test_a_token_that_others_can_have_written_is_not_made_the_first(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for mode in (0o666, 0o620):
        path.write_text(_SECRET)
        path.chmod(mode)
        tokens = Tokens(tmp_path / f"{mode}", token_file=path)
        assert tokens.first() == path
        assert tokens.verify(_SECRET) is None
        assert tokens.verify(path.read_text().strip()) is not None
        assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(_SECRET)
    kept = Tokens(tmp_path / "kept", token_file=path)
    kept.first()
    assert kept.verify(_SECRET) is not None, "as after a crash between the two files"


@pytest.mark.parametrize("content", [b"x = " + b"[" * 100_000, b"\xff", b"x = "])
def test_configurations_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigInvalid, match="is not TOML"):
        load_config({"config": path}, {})


def test_a_configuration_in_the_home_of_nobody() -> None:
    with pytest.raises(ConfigInvalid, match="no such home directory"):
        load_config({"config": "~nobody-of-this-name/config.toml"}, {})
