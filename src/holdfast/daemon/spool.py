"""Audit entries of commands that change the data directory without the store, such as `holdfast token create`.

They are lines of a file, which a daemon moves into the store when it starts and while it runs. So a command needs no store, and what is
done while no daemon runs is in the log too. A daemon that is killed at the wrong moment moves a line twice, and never loses one.
"""

import getpass
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from holdfast.daemon._files import own_folder, take_lock
from holdfast.domain import AuditEntry

_LARGEST: Final = 1 << 24
_TEXTS: Final = frozenset(AuditEntry.__dataclass_fields__) - {"at", "status", "count"}


class AuditSpool:
    """The file `audit/spool` of a data directory. Whoever uses it has it locked."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "audit" / "spool"

    def append(self, action: str, object_type: str, object_id: str, *, tenant: str) -> None:
        """Append an entry for something that this user did on this machine, durably."""
        entry = {
            "at": time.time_ns() // 1_000_000,
            "action": action,
            "outcome": "ok",
            "tenant": tenant,
            "token_name": _user(),
            "object_type": object_type,
            "object_id": object_id,
            "surface": "cli",
            "address": "local",
        }
        own_folder(self._path.parent)
        with self._held() as handle:
            if os.lseek(handle, 0, os.SEEK_END) < _LARGEST:
                os.write(handle, json.dumps(entry).encode() + b"\n")
                os.fsync(handle)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be moved."""
        try:
            return self._path.stat().st_size == 0
        except OSError:
            return True

    def take(self) -> tuple[list[AuditEntry], Callable[[], None]]:
        """Return the entries, and what forgets them once they are in the store. A line that is none is left out."""
        with self._held() as handle:
            data = _content(handle)

        def forget() -> None:
            with self._held() as handle:
                rest = _content(handle)[len(data) :]
                os.ftruncate(handle, 0)
                os.lseek(handle, 0, os.SEEK_SET)
                os.write(handle, rest)

        return [entry for line in data.splitlines() if (entry := _entry(line)) is not None], forget

    @contextmanager
    def _held(self) -> Iterator[int]:
        handle = take_lock(self._path, wait=True)
        try:
            yield handle
        finally:
            os.close(handle)


def _content(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    parts = []
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _entry(line: bytes) -> AuditEntry | None:
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        given: dict[str, Any] = json.loads(line)
        if given.keys() <= _TEXTS | {"at"} and type(given["at"]) is int:
            texts: dict[str, Any] = {name: str(value)[:200] for name, value in given.items() if name != "at"}
            return AuditEntry(at=given["at"], **texts)
    return None


def _user() -> str:
    try:
        return getpass.getuser()[:100]
    except (OSError, KeyError, ImportError):
        return ""
