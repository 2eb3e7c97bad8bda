"""A real daemon process for tests: on a socket of the loopback, with a data directory of its own, really killed where a test says so."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2

_STARTS_WITHIN_S = 60

# To trust nobody: there is no TLS here, and to read the list of those who are trusted takes longer than most calls.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Daemon:
    """`holdfast serve` in a process of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **os.environ,
            "HOLDFAST_DATA_DIR": str(folder / "data"),
            "HOLDFAST_CONFIG": os.devnull,
            **{f"HOLDFAST_{name.upper()}": value for name, value in settings.items()},
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._log = folder / "daemon.log"

    @property
    def token(self) -> str:
        """That of whoever may do everything, which the daemon made when it first started."""
        return (self.folder / "data" / "token").read_text().strip()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def launch(self) -> "subprocess.Popen[bytes]":
        """Starts the process, and does not wait until it serves."""
        command = [sys.executable, "-m", "holdfast.cli", "serve", "--listen", f"127.0.0.1:{self.port}"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, cwd=self.folder)
        return self.process

    def start(self) -> "Daemon":
        process = self.launch()
        until = time.monotonic() + _STARTS_WITHIN_S
        with httpx2.Client(timeout=5, verify=NO_TLS) as caller:
            while time.monotonic() < until:
                if process.poll() is not None:
                    break
                try:
                    if caller.get(f"{self.url}/api/v1/health/ready").status_code == 200:
                        return self
                except httpx2.HTTPError:
                    time.sleep(0.05)
        self.kill()
        raise AssertionError(f"the daemon did not start:\n{self.log[-3000:]}")

    def client(self, **options: Any) -> httpx2.Client:
        """What calls it with its token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx2.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30, verify=NO_TLS, **options)

    def kill(self) -> None:
        """SIGKILL: it has no time for anything."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)

    def stop(self) -> int:
        """SIGTERM: gives its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
