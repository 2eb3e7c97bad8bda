"""What lies outside of a worktree, and whether anybody was there: files, listening sockets, processes, descriptors, an environment."""

import contextlib
import ctypes
import os
import secrets
import socket
import sqlite3
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

VARIABLE = "HOSTILE_CANARY"
_ANYTHING = 0x00000FFF  # IN_ALL_EVENTS
_ISDIR = 0x40000000
_EVENT = struct.Struct("iIII")


class World:
    """A worktree full of ways out, and secrets beside it. Every secret holds the token: whoever shows it has read one."""

    def __init__(self, base: Path) -> None:
        self.base, self.tree, self.token = base, base / "tree", f"canary-{secrets.token_hex(12)}"
        self.data = base / "data"
        _make_secrets(base, self.token)
        _make_tree(self.tree)
        self.data.mkdir()
        (self.data / "way").symlink_to("..")
        self._files = _contents(base)
        self._watch = _Watch(base, base / "tree-evil")
        self._descriptors: set[str] = set()
        self._children: set[int] = set()

    def begin(self) -> None:
        """What is open and runs now may be left behind."""
        self._descriptors, self._children = _descriptors(), _children()

    def replace(self, source: str, **values: int) -> str:
        for name, value in {"out": self.base, "tree": self.tree, **values}.items():
            source = source.replace(f"<{name}>", str(value))
        return source

    def told(self, text: str, source: str) -> list[str]:
        """What a text says that no script may see, and that it did not say itself."""
        found = ["the token is in it"] if self.token in text else []
        words = (str(self.base), "Traceback", '.py"', "site-packages", "Errno", "HOST_FAILED", "INTERNAL")
        return found + [f"{word} is in it" for word in words if word in text and word not in source]

    def touched(self) -> list[str]:
        """What has happened outside since the beginning."""
        found = [f"{name} was opened or changed" for name in self._watch.seen()]
        now = _contents(self.base)
        return found + [
            f"{name} is another one"
            for name in sorted(now.keys() | self._files.keys())
            if now.get(name) != self._files.get(name)
        ]

    def left_behind(self) -> list[str]:
        """What is open or runs that was not there before."""
        found = [f"descriptor {what}" for what in _descriptors() - self._descriptors]
        return found + [f"process {pid}" for pid in _children() - self._children]

    def close(self) -> None:
        self._watch.close()


def _make_secrets(base: Path, token: str) -> None:
    for name in ("secret.txt", "tree-evil/secret.txt", "secret.sh", "hard-secret"):
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(token)
    for folder in (base, base / "tree-evil"):
        (folder / "secret.js").write_text(f"module.exports = '{token}'")
        (folder / "secret.lua").write_text(f"return '{token}'")
        (folder / "secret.json").write_text(f'"{token}"')
    with contextlib.closing(sqlite3.connect(base / "secret.db")) as database:
        database.execute("CREATE TABLE t(x)")
        database.execute("INSERT INTO t VALUES (?)", (token,))
        database.commit()


def _make_tree(tree: Path) -> None:
    for folder in ("lib", "many", "exec", "race"):
        (tree / folder).mkdir(parents=True)
    files = {
        "note.txt": "a note", "lib/one.txt": "one", "race/secret.txt": "inside", "meta.mjs": "export default import.meta.filename",
        "lib/climbs.js": "module.exports = require('../../secret')", "lib/climbs.lua": "return require('../../secret')",
        "exec.js": "exports.stolen = 'yes, a file of the worktree'", "evil.sh": "#!/bin/sh\nenv",
    }  # fmt: skip
    files |= dict.fromkeys(("kept.db-wal", "kept.db-journal", "KEPT.DB-SHM"), "")
    for native in ("fs", "exec", "holdfast:fs"):
        files |= {f"{native}.js": files["exec.js"], f"{native}.lua": "return {stolen = true}"}
    files |= {"exec/index.js": files["exec.js"], "exec/init.lua": "return {stolen = true}"}
    for name, text in files.items():
        (tree / name).write_text(text)
    (tree / "evil.sh").chmod(0o755)
    links = {
        "link": "../secret.txt", "chain": "link", "way": "..", "lib/up": "../..", "lib/deep": "up/secret.txt", "root": "/", "spare": "../secret.txt",
        "self": "/proc/self/cwd", "loop": "loop", "link.json": "../secret.json", "link.db": "../secret.db",
    }  # fmt: skip
    for name, target in links.items():
        (tree / name).symlink_to(target)
    for name in ("hard", "hard.json", "hard.db"):
        os.link(tree.parent / "hard-secret", tree / name)
    for name in ("pipe", "pipe.json"):
        os.mkfifo(tree / name)
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tree):  # the path of a socket must be short
        listening.bind("socket")
    with (tree / "holes").open("wb") as file:
        file.truncate(4 << 30)


def _contents(base: Path) -> dict[str, object]:
    """All that is outside of the worktree."""
    found: dict[str, object] = {}
    for folder, _, names in os.walk(base):
        if Path(folder) == base / "tree":
            continue
        for name in names if not Path(folder).is_relative_to(base / "tree") else ():
            path = Path(folder, name)
            status = path.lstat()
            found[str(path.relative_to(base))] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
    return found


class _Watch:
    """The system tells of everything that is done to the files in some folders, also that one was opened."""

    def __init__(self, *folders: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            if libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _ANYTHING) < 0:
                raise OSError(ctypes.get_errno(), "files cannot be watched")

    def seen(self) -> list[str]:
        found: dict[str, None] = {}
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._descriptor, 1 << 16):
                for mask, name in _events(data):
                    if not mask & _ISDIR:  # worktrees are below one of the folders
                        found[name] = None
        return list(found)

    def close(self) -> None:
        os.close(self._descriptor)


@contextlib.contextmanager
def watched(*folders: Path) -> Iterator[Callable[[], list[str]]]:
    """Gives what tells which files in some folders were opened or changed since the beginning."""
    watch = _Watch(*folders)
    try:
        yield watch.seen
    finally:
        watch.close()


def _events(data: bytes) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(data):
        _, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield mask, data[at : at + length].rstrip(b"\0").decode()
        at += length


class Trap:
    """A socket that listens, and which nobody may connect to."""

    def __init__(self, address: str, port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.create_server((address, port), family=family)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def caught(self) -> bool:
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def _descriptors() -> set[str]:
    """All that is open but the memory of sandboxes, which is given back by and by."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{number}")
            if not path.startswith("/memfd:") and not path.endswith("/pagemap"):
                found.add(f"{number} {path}")
    return found


def _children() -> set[int]:
    """The processes that this one has, and theirs."""
    parents = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
    found, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found
