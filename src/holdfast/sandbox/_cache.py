"""The cache directory: compiled guests and template images, by digest.

A compiled guest is native code, so what is read back must have been written by us: a directory that others may write to is not
used, and without one everything still works, only slower.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path


def default_directory() -> Path | None:
    """Where caches are kept by the conventions of the platform, or where HOLDFAST_CACHE_DIR says."""
    named = os.environ.get("HOLDFAST_CACHE_DIR")
    if named:
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "holdfast"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "holdfast" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "holdfast"


class Cache:
    """Files by name in one folder of the cache directory. Reading and writing never raise: a miss is a miss."""

    def __init__(self, directory: Path | None, folder: str) -> None:
        self._folder = None if directory is None else _private(directory / folder)

    def path(self, name: str) -> Path | None:
        """The file of that name, if there is one."""
        if self._folder is None:
            return None
        path = self._folder / name
        return path if path.is_file() else None

    def read(self, name: str) -> bytes | None:
        path = self.path(name)
        try:
            return None if path is None else path.read_bytes()
        except OSError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keeps `content`. A reader sees the whole file or none."""
        if self._folder is None:
            return
        try:
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(temporary, self._folder / name)
            except OSError:
                os.unlink(temporary)
        except OSError:
            return

    def forget(self, name: str) -> None:
        """Drops a file that turned out to be of no use."""
        if self._folder is not None:
            try:
                (self._folder / name).unlink(missing_ok=True)
            except OSError:
                return


def _private(folder: Path) -> Path | None:
    """The folder, made if need be, unless somebody else could have put files into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    if sys.platform != "win32" and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return None
    return folder
