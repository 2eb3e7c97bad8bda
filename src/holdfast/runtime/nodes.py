"""Node ids that tell on which host, in which process: by them a dead node is known before its lease has run out.

A lease alone cannot tell a killed process from a slow one, so others wait until it ends. Two facts prove more:

- A process on the same host and in the same PID namespace can be looked up. On Linux the id of a node carries a hash of boot id and PID
  namespace, the PID and the start time; if there is no such process now, the node is dead. A stopped process (SIGSTOP) is there, so it
  is alive. Elsewhere the id is random and proves nothing.
- Whoever holds the lock of a data directory knows that all who held it before are dead. `NodeFile` keeps their ids there.

Neither is needed for correctness: a commit with an old fencing number fails in any case.

    host 40 bits · PID 22 bits · start time 32 bits · random 28 bits, around the version and variant bits of a UUID
"""

import contextlib
import hashlib
import os
import random
import sys
from functools import cache
from pathlib import Path
from typing import Final
from uuid import UUID

_HOST_BITS, _PID_BITS, _START_BITS, _RANDOM_BITS = 40, 22, 32, 28
_VERSION: Final = 8
_KEPT: Final = 8
_PROC: Final = Path("/proc")
_GONE: Final = ("Z", "X")


def new_node() -> UUID:
    """Return an id for a node of this process; another one each time."""
    fresh = random.SystemRandom()
    host, started = _host(), _started(os.getpid())
    if host is None or started is None or os.getpid() >> _PID_BITS:
        return _packed(fresh.getrandbits(_HOST_BITS + _PID_BITS + _START_BITS + _RANDOM_BITS), version=4)
    bits = host << _PID_BITS | os.getpid()
    bits = bits << _START_BITS | started
    return _packed(bits << _RANDOM_BITS | fresh.getrandbits(_RANDOM_BITS), version=_VERSION)


def is_dead(node: UUID) -> bool:
    """Whether it is proven that the process of a node has ended. False: it lives, or nobody here can tell."""
    host = _host()
    if node.version != _VERSION or host is None:
        return False
    bits = _unpacked(node) >> _RANDOM_BITS
    started = bits & (1 << _START_BITS) - 1
    pid = bits >> _START_BITS & (1 << _PID_BITS) - 1
    if bits >> _START_BITS + _PID_BITS != host or not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is there, and belongs to somebody else
        pass
    now = _started(pid)
    if now is None:  # hidden, or it has ended just now: the next look will tell
        return False
    return now != started or _has_ended(pid)


def _packed(bits: int, *, version: int) -> UUID:
    """122 bits as a UUID."""
    high, middle, low = bits >> 74, bits >> 62 & 0xFFF, bits & (1 << 62) - 1
    return UUID(int=high << 80 | version << 76 | middle << 64 | 0b10 << 62 | low)


def _unpacked(node: UUID) -> int:
    number = node.int
    return (number >> 80) << 74 | (number >> 64 & 0xFFF) << 62 | number & (1 << 62) - 1


@cache
def _host() -> int | None:
    """A hash of the boot and the PID namespace in which PIDs of this process have their meaning; None if that is not known."""
    if sys.platform != "linux":
        return None
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_bytes().strip()
        namespace = (_PROC / "self/ns/pid").stat()
        if int((_PROC / "self").readlink().name) != os.getpid():  # /proc shows another namespace than ours
            return None
    except (OSError, ValueError):
        return None
    if not boot:
        return None
    seen = b"%s %d %d" % (boot, namespace.st_dev, namespace.st_ino)
    return int.from_bytes(hashlib.blake2b(seen, digest_size=_HOST_BITS // 8).digest())


def _stat(pid: int) -> list[str]:
    """The fields of a process after its name, which may have spaces: state first."""
    with contextlib.suppress(OSError, ValueError):
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _started(pid: int) -> int | None:
    """When a process was started, in ticks since boot."""
    fields = _stat(pid)
    return int(fields[19]) & (1 << _START_BITS) - 1 if len(fields) > 19 else None


def _has_ended(pid: int) -> bool:
    """Whether nothing of a process is left but its exit code, which its parent has not read."""
    fields = _stat(pid)
    return len(fields) > 17 and fields[0] in _GONE and fields[17] in ("0", "1")


class NodeFile:
    """The ids of nodes that ran in a data directory, kept there by whoever holds its lock.

    The file names its own inode. In a copy of the directory that is another one, and proves nothing of processes that use the original.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def take_over(self, node: UUID) -> list[UUID]:
        """Add a node, durably, and return those before it: all of them are dead. The lock of the directory must be held."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(handle, "r+b") as file:
            head = b"inode %d" % os.fstat(handle).st_ino
            first, *lines = file.read(4096).split(b"\n")
            before = _ids(lines) if first == head else []
            kept = [*before, node][-_KEPT:]
            file.seek(0)
            file.truncate()
            file.write(b"\n".join([head, *(str(one).encode() for one in kept)]) + b"\n")
            file.flush()
            os.fsync(handle)
        return before


def _ids(lines: list[bytes]) -> list[UUID]:
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(UUID(line.decode("ascii")))
    return found
