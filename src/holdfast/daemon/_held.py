"""A folder that is held open, so that its files are reached whatever is at its path now.

A path is trusted once, when the folder is opened. Later somebody may have moved the folder, or one above it, and put another in its place:
that one's files are not those that the daemon began with.
"""

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from holdfast.daemon._errors import DirectoryReplaced

_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class HeldFolder:
    """A folder by its path, held from the moment that it is there. Windows holds no folders: there the path is all."""

    def __init__(self, path: Path) -> None:
        self._given = path
        self._handle = -1
        self.path = path
        """Where its files are reached: through the descriptor on Linux, by the path elsewhere."""
        self._close: Callable[[], Any] = lambda: None
        self.hold()

    def hold(self) -> None:
        """Open the folder at the path, unless one is held that still exists."""
        if self._handle >= 0 and os.fstat(self._handle).st_nlink:
            return
        with suppress(OSError):
            handle = os.open(self._given, _FLAGS)
            self._close()
            self._handle, self._close = handle, weakref.finalize(self, os.close, handle)
            through = Path(f"/proc/self/fd/{handle}")
            self.path = through if _is_same(through, handle) else self._given

    def check(self) -> None:
        """Raise `DirectoryReplaced` if another folder, or none, is at the path of the one that is held, unless that was removed."""
        if self._handle < 0:
            self.hold()
        elif os.fstat(self._handle).st_nlink and not _is_same(self._given, self._handle):
            raise DirectoryReplaced

    def reach(self, path: Path) -> Path:
        """The path by which to open a file: through the folder, if it is directly in it."""
        return self.path / path.name if path.parent == self._given else path


def _is_same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False
