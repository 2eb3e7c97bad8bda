"""The cache directory: compiled guests and template images, by digest.

A compiled guest is native code, so what is read back must have been written by us: a directory that others may write to is not
used, and without one everything still works, only slower.
"""

import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

_DIGEST_SIZE: Final = 32


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
    """Files by name in one folder of the cache directory, each with a digest of itself.

    Reading and writing never raise: a file that is damaged, a full disk or a missing directory is a miss.
    """

    def __init__(self, directory: Path | None, folder: str) -> None:
        self._folder = None if directory is None else _private(directory / folder)

    def read(self, name: str) -> bytes | None:
        if self._folder is None:
            return None
        try:
            kept = (self._folder / name).read_bytes()
        except OSError:
            return None
        content = kept[_DIGEST_SIZE:]
        return content if hashlib.sha256(content).digest() == kept[:_DIGEST_SIZE] else None

    def write(self, name: str, content: bytes) -> None:
        """Keeps `content`. A reader sees the whole file or none."""
        if self._folder is None:
            return
        try:
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                os.replace(temporary, self._folder / name)
            except OSError:
                os.unlink(temporary)
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
