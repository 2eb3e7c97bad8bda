"""Files kept by the hash of what they were made from, in the user's cache folder."""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


def default_root() -> Path:
    """`HOLDFAST_CACHE_DIR`, or the folder that the platform has for caches."""
    if chosen := os.environ.get("HOLDFAST_CACHE_DIR"):
        return Path(chosen).absolute() / "build"
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "holdfast"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "holdfast" / "Cache"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast"
    return base / "build"


def digest(*parts: str | bytes) -> str:
    """One hash of several parts. Lengths are hashed too, so that parts cannot run into each other."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()


@dataclass(frozen=True)
class Cache:
    """Entries are files or folders. They appear whole, by a rename, so two builds at once cannot harm each other."""

    root: Path

    def entry(self, kind: str, name: str, make: Callable[[Path], None]) -> Path:
        """The entry, made by calling `make` with a path of the same name to write to, if it is not there yet."""
        path = self.root / kind / name
        if not path.exists():
            with self.scratch() as folder:
                made = folder / name
                made.parent.mkdir(parents=True, exist_ok=True)
                make(made)
                path.parent.mkdir(parents=True, exist_ok=True)
                move_into_place(made, path)
        return path

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder on the same file system, removed afterwards."""
        parent = self.root / "scratch"
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def move_into_place(made: Path, path: Path) -> None:
    """Renames a file or folder. Whoever came first wins: entries of one name have the same content."""
    try:
        os.replace(made, path)
    except OSError:
        if not path.exists():
            raise


def copy_whole(source: Path, target: Path) -> None:
    """Copies a file so that nobody ever sees half of it, and not at all if the target is the same already."""
    content = source.read_bytes()
    if target.is_file() and target.read_bytes() == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
