"""`holdfast doctor`: what Holdfast needs on this machine, and what to do where something is missing."""

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from holdfast.cli._exits import Exit, hint_of
from holdfast.cli._places import data_dir
from holdfast.cli._remote import Globals
from holdfast.cli._terminal import painted, print_json
from holdfast.domain import HoldfastError

_PYTHON: Final = (3, 11)
_SQLITE: Final = (3, 35, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: `ok`, `warning` (Holdfast works, but not all of it) or `failed`."""

    check: str
    status: str
    detail: str
    hint: str | None = None


def doctor(globals_: Globals, json: bool) -> int:
    """Runs all checks and shows what they found."""
    findings = [finding for check in _CHECKS for finding in _safely(check, globals_)]
    if json:
        print_json({"status": _worst(findings), "checks": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            _show(finding)
    return Exit.FAILED if _worst(findings) == "failed" else Exit.FINE


def _worst(findings: list[Finding]) -> str:
    statuses = {finding.status for finding in findings}
    return next((status for status in ("failed", "warning") if status in statuses), "ok")


def _show(finding: Finding) -> None:
    colour = {"ok": "green", "warning": "yellow", "failed": "red"}[finding.status]
    print(f"{painted(f'{finding.status:8}', colour, sys.stdout)} {finding.check}: {finding.detail}")
    if finding.hint is not None:
        print(f"         {finding.hint}")


def _safely(check: "Callable[[Globals], Iterator[Finding]]", globals_: Globals) -> Iterator[Finding]:
    name = check.__name__.strip("_").replace("_", " ")
    try:
        yield from check(globals_)
    except HoldfastError as error:
        if error.code != "CONFIG_INVALID" or check is _configuration:  # said once is enough
            yield Finding(name, "failed", f"{error} ({error.code})", hint_of(error))
    except (ImportError, OSError) as error:
        yield Finding(name, "failed", f"{type(error).__name__}: {error}", "install Holdfast again")


def _python(_: Globals) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= _PYTHON:
        yield Finding("python", "ok", version)
    else:
        yield Finding("python", "failed", version, f"Python {'.'.join(map(str, _PYTHON))} or newer is needed")


def _wasmtime(_: Globals) -> Iterator[Finding]:
    from importlib.metadata import version

    import wasmtime

    wasmtime.Engine()
    yield Finding("wasmtime", "ok", version("wasmtime"))


def _guests(_: Globals) -> Iterator[Finding]:
    import time

    from holdfast.sandbox import LANGUAGES, Engine

    digests = []
    with Engine() as engine:
        for language in LANGUAGES:
            began = time.perf_counter()
            digests.append(engine.guest(language).digest.hex())
            took = (time.perf_counter() - began) * 1000
            yield Finding(f"guest {language}", "ok", f"loads in {took:.0f} ms")
    from holdfast.sandbox._cache import default_directory

    folder = default_directory()
    if folder is not None and all(any((folder / "modules").glob(f"{digest}-*")) for digest in digests):
        yield Finding("guests cached", "ok", f"compiled once, in {folder}")
    else:
        hint = "set HOLDFAST_CACHE_DIR to a folder that only you can write to; without one each start compiles them anew"
        yield Finding("guests cached", "warning", f"nothing is kept in {folder}", hint)


def _data_directory(_: Globals) -> Iterator[Finding]:
    folder = data_dir()
    hint = "set HOLDFAST_DATA_DIR to a folder of your own"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            pass
    except OSError as error:
        yield Finding("data directory", "failed", f"{folder} cannot be written: {error.strerror}", hint)
        return
    if _is_open_to_others(folder, stat.S_IWGRP | stat.S_IWOTH):
        yield Finding("data directory", "warning", f"others may write to {folder}", f"chmod 700 {folder}")
    else:
        yield Finding("data directory", "ok", str(folder))


def _is_open_to_others(path: Path, modes: int) -> bool:
    return sys.platform != "win32" and bool(path.stat().st_mode & modes)


def _sqlite(_: Globals) -> Iterator[Finding]:
    import sqlite3

    if sqlite3.sqlite_version_info >= _SQLITE:
        yield Finding("sqlite", "ok", sqlite3.sqlite_version)
    else:
        needed = ".".join(map(str, _SQLITE))
        yield Finding("sqlite", "failed", sqlite3.sqlite_version, f"SQLite {needed} or newer is needed; use a newer Python")


def _configuration(globals_: Globals) -> Iterator[Finding]:
    loaded = globals_.loaded()
    changed = [name for name, origin in loaded.origins.items() if origin != "default"]
    yield Finding("configuration", "ok", f"set: {', '.join(changed)}" if changed else "all defaults")


def _token(globals_: Globals) -> Iterator[Finding]:
    if globals_.token or os.environ.get("HOLDFAST_TOKEN"):
        yield Finding("token", "ok", "given by --token or HOLDFAST_TOKEN")
        return
    file = globals_.loaded().config.token_file
    if not file.is_file():
        yield Finding("token", "warning", f"there is none at {file}", "the first `holdfast serve` makes one")
    elif _is_open_to_others(file, stat.S_IRWXG | stat.S_IRWXO):
        hint = f"revoke it if others may have read it, and chmod 600 {file}"
        yield Finding("token", "failed", f"others may read {file}", hint)
    else:
        yield Finding("token", "ok", str(file))


def _daemon(globals_: Globals) -> Iterator[Finding]:
    from holdfast.client import ApiError, Client, Unreachable

    url, token = globals_.server()
    with Client(url, token, timeout=5, retry_for=0) as client:
        try:
            version = client.ops.version().version
            client.ops.summary()
        except Unreachable:
            hint = "`holdfast serve` starts one; `holdfast run` and `holdfast repl` need none"
            yield Finding("daemon", "warning", f"none answers at {url}", hint)
        except ApiError as error:
            yield Finding("daemon", "warning", f"{url} answers: {error} ({error.code})", hint_of(error))
        else:
            yield Finding("daemon", "ok", f"{url}, version {version}")


_CHECKS: Final = (_python, _wasmtime, _guests, _data_directory, _sqlite, _configuration, _token, _daemon)
