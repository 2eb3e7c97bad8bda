"""Somebody who swaps names of a tree as fast as the system can, while others open them: a process of its own, or `fs` of a second session."""

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_RENAMEAT2 = 316
_EXCHANGE = 2
_HERE = -100

Pair = tuple[Path, Path]
"""Two names that stand for each other's files in turn: one leads to a file or folder of the tree, the other outside."""


@contextlib.contextmanager
def exchanged(pairs: Sequence[Pair]) -> Iterator[None]:
    """By a process that exchanges them with one system call, so that both names are always there."""
    child = os.fork()
    if not child:
        try:
            _exchange([(os.fsencode(one), os.fsencode(other)) for one, other in pairs])
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _exchange(pairs: list[tuple[bytes, bytes]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    call = ctypes.CDLL(None).syscall
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1_000):
            for one, other in pairs:
                call(_RENAMEAT2, _HERE, one, _HERE, other, _EXCHANGE)


@contextlib.contextmanager
def renamed(pairs: Sequence[Pair], rename: Callable[[str, str], object], tree: Path) -> Iterator[None]:
    """By four renames each, as a script has them: `rename` is `fs.renameSync` of a session in this tree."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for one, other in pairs:
                names = [str(path.relative_to(tree)) for path in (one, other)]
                spare = f"{names[0]}.spare"
                for source, target in (
                    (names[0], spare),
                    (names[1], names[0]),
                    (names[0], names[1]),
                    (spare, names[0]),
                ):
                    with contextlib.suppress(Exception):
                        rename(source, target)

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
