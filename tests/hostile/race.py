"""The link race: every function that opens a name, while somebody swaps that name for a link that leads out.

    python -m tests.hostile.race --rounds 1000

Each subject calls one function again and again. Outside are a folder of secrets and a data directory; all names in them are those of the
tree, so that whoever is led astray finds something. The system itself tells if anything there was opened or changed (inotify), and no
secret may be in what a call gives.
"""

import argparse
import contextlib
import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from holdfast.capabilities import Meter, NativeModules, Resolver, Scope, SessionModules, Shared, modules, read_file
from holdfast.capabilities.files import protected
from holdfast.capabilities.native import Grant
from holdfast.control._worktree_roots import resolve_below
from holdfast.domain import DEFAULT_TENANT, HoldfastError, TemplateSpec
from holdfast.sandbox import Modules
from holdfast.strategies import PackagePath
from holdfast.strategies._files import write_tree
from tests.hostile.swapping import Pair, exchanged, renamed
from tests.hostile.world import watched

FILES = ("note.txt", "mod.js", "mod.lua", "mod.json", "app.db", "init.lua", "init.js", "tool")
_IN_TREE = ("dir", "deep/a")
"""Folders of the tree whose names lead outside half of the time."""


class Tally(NamedTuple):
    """How the calls of one subject have ended."""

    done: int
    refused: int
    outside: list[str]


class Field:
    """A tree in which names are swapped, and what lies outside of it."""

    def __init__(self, base: Path) -> None:
        self.base, self.tree, self.out, self.data = base, base / "tree", base / "out", base / "data"
        self.token, self.mine = f"canary-{secrets.token_hex(8)}", f"mine-{secrets.token_hex(8)}"
        for folder in (self.tree / "dir", self.tree / "deep/a", self.tree / "pkg/sub"):
            self._fill(folder, self.mine)
        for folder in (self.out, self.data, self.data / "worktrees"):
            self._fill(folder, self.token)
        shutil.copy(self.data / "app.db", self.data / "holdfast.db")
        (self.tree / "pkg/init.lua").write_text("return 1")
        (self.tree / "note.txt").write_text(self.mine)
        shutil.copy(self.tree / "dir/app.db", self.tree / "app.db")
        links = {
            "dir-way": "../out", "deep/a-way": str(self.data), "note-way": "../out/note.txt", "app-way": str(self.data / "holdfast.db"),
            "sub-way": str(self.out),
        }  # fmt: skip
        for name, target in links.items():
            (self.tree / name).symlink_to(target)
        self.pairs: list[Pair] = [
            (self.tree / one, self.tree / other)
            for one, other in (("dir", "dir-way"), ("deep/a", "deep/a-way"), ("note.txt", "note-way"), ("app.db", "app-way"))
        ]
        self.shared = Shared()
        self.packages: list[Pair] = [(self.tree / "pkg/sub", self.tree / "sub-way")]

    def _fill(self, folder: Path, text: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        contents = {
            "note.txt": text, "mod.js": f"module.exports = '{text}'", "mod.lua": f"return '{text}'", "mod.json": f'"{text}"',
            "init.lua": f"return '{text}'", "init.js": f"module.exports = '{text}'", "tool": f"#!/bin/sh\necho {text}\n",
        }  # fmt: skip
        for name, content in contents.items():
            (folder / name).write_text(content)
            (folder / name).chmod(0o755)
        (folder / "app.db").write_bytes(_database_of(text))

    def calls(self, name: str, config: dict[str, Any], root: Path | None = None) -> dict[str, Callable[..., Any]]:
        """The functions of a native module in a session of this tree."""
        scope = Scope(uuid4(), uuid4(), str(root or self.tree), shared=self.shared)
        made = NativeModules([Grant(modules()[name], {"max_calls": 1_000_000, **config})], scope, Meter())
        return {name: call for name, call, _ in made.functions()}


def _database_of(text: str) -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t(x)")
        database.execute("INSERT INTO t VALUES (?)", (text,))
        database.commit()
        return database.serialize()


Call = Callable[[], Any]


def _fs(field: Field) -> dict[str, Call]:
    fs = {name.removeprefix("fs."): call for name, call in field.calls("fs", {"write": True, "hard_links": True}).items()}
    above = {name.removeprefix("fs."): call for name, call in field.calls("fs", {"write": True}, field.base).items()}
    at = [0]

    def turn(*paths: str) -> str:
        at[0] += 1
        return paths[at[0] % len(paths)]

    def in_turn(name: str) -> str:
        return turn(*(f"{folder}/{name}" for folder in _IN_TREE))

    def removed() -> None:
        path = in_turn(f"new-{at[0]}")
        fs["mkdirSync"](f"{path}/x/y", {"recursive": True})
        fs["rmSync"](path, {"recursive": True})

    def moved() -> None:
        fs["writeFileSync"](f"file-{at[0]}", field.mine)
        try:
            fs["renameSync"](f"file-{at[0]}", in_turn("moved"))
        finally:
            fs["rmSync"](f"file-{at[0]}", {"force": True})

    return {
        "fs.readFileSync": lambda: fs["readFileSync"](turn("dir/note.txt", "deep/a/note.txt", "note.txt")),
        "fs.readFileSync from above": lambda: above["readFileSync"](turn("tree/deep/a/note.txt", "data/token", "data/note.txt")),
        "fs.existsSync": lambda: fs["existsSync"](turn("dir/note.txt", "deep/a", "note.txt")),
        "fs.readdirSync": lambda: fs["readdirSync"](turn("dir", "deep/a")),
        "fs.statSync": lambda: fs["statSync"](turn("dir/app.db", "deep/a", "note.txt")),
        "fs.writeFileSync": lambda: fs["writeFileSync"](turn("dir/note.txt", "deep/a/note.txt", "note.txt", "dir/new"), field.mine),
        "fs.mkdirSync": lambda: fs["mkdirSync"](f"{in_turn('new')}/{at[0] % 50}/x", {"recursive": True}),
        "fs.rmSync": removed,
        "fs.renameSync": moved,
    }  # fmt: skip


def _imports(field: Field) -> dict[str, Call]:
    made = {}
    for language, name in (("javascript", "mod.js"), ("lua", "mod.lua"), ("javascript", "mod.json")):
        found = SessionModules(Resolver(TemplateSpec(language), Modules({})), str(field.tree))  # type: ignore[arg-type]

        def load(found: SessionModules = found, name: str = name) -> str:
            return "".join(
                str(found.load(found.resolve(f"./{folder}/{name}", "main", "require")).source) for folder in ("dir", "deep/a")
            )

        made[f"import of {name}"] = load
    made["run_file and startup files"] = lambda: read_file(str(field.tree), "dir/mod.js").text
    return made


def _exec(field: Field) -> dict[str, Call]:
    tool = field.base / "bin/tool"
    if not tool.parent.exists():
        tool.parent.mkdir()
        for name, text in (("tool", field.mine), ("bad", field.token)):
            (tool.parent / name).write_text(f"#!/bin/sh\necho {text}\n")
            (tool.parent / name).chmod(0o755)
    config = modules()["exec"].settle({"programs": ["/bin/cat", str(tool)]})
    run = field.calls("exec", dict(config))["exec.run"]
    return {
        "exec cwd": lambda: run("/bin/cat", ["note.txt"], {"cwd": "dir"}),
        "exec argument": lambda: run("/bin/cat", ["deep/a/note.txt"]),
        "exec program": lambda: run(str(tool)),
    }


def _database(field: Field) -> dict[str, Call]:
    def query(path: str) -> Any:
        database = field.calls("database", {"files": True})
        try:
            database["database.configure"]("sqlite3", path)
            place = ["sqlite3", path, "", ""]
            found = database["database.query"](place, "SELECT x FROM t")
            database["database.exec"](place, "INSERT INTO t VALUES (?)", field.mine)
            database["database.exec"](place, "DELETE FROM t WHERE rowid > 1")
            return found
        finally:
            database["database.close"]()

    names = ("dir/app.db", "app.db", "deep/a/app.db")
    at = [0]

    def turn() -> Any:
        at[0] += 1
        return query(names[at[0] % len(names)])

    return {"database files": turn}


def _others(field: Field) -> dict[str, Call]:
    packages = PackagePath.of(field.tree)

    def package() -> str:
        return str(dict(packages.get("pkg", "lua").content.files))

    def root() -> str:
        found = resolve_below(str(field.tree / "dir"), (str(field.tree),), DEFAULT_TENANT)
        if not found.startswith(f"{field.tree}/"):
            raise AssertionError(field.token)
        return found

    return {"packages": package, "worktree creation": root}


def _adding(field: Field) -> dict[str, Call]:
    folder = field.tree / "packages"
    folder.mkdir(exist_ok=True)
    (folder / "way").symlink_to(field.out)

    def write() -> None:
        name = write_tree(folder, {f"deep/{at}/x.lua": field.mine.encode() for at in range(20)})
        shutil.rmtree(folder / name, ignore_errors=True)

    return {"packages that are added": write}


SUBJECTS = (_fs, _imports, _exec, _database, _others, _adding)


@contextlib.contextmanager
def _new_folders_swapped(folder: Path, way: Path) -> Iterator[None]:
    """Puts a link in the place of every new folder."""
    child = os.fork()
    if not child:
        try:
            parent = os.getppid()
            while os.getppid() == parent:
                for name in os.listdir(folder):
                    if name.startswith(".new-"):
                        with contextlib.suppress(OSError):
                            os.rename(folder / name, folder / f"gone-{name}")
                            os.symlink(way, folder / name)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def _attacker(field: Field, name: str, by_script: bool) -> contextlib.AbstractContextManager[None]:
    if name == "packages that are added":
        return _new_folders_swapped(field.tree / "packages", field.out)
    if name == "exec program":
        return exchanged([(field.base / "bin/tool", field.base / "bin/bad")])
    pairs = field.packages if name == "packages" else field.pairs
    if not by_script:
        return exchanged(pairs)
    rename = field.calls("fs", {"write": True})["fs.renameSync"]
    return renamed(pairs, rename, field.tree)


def race(base: Path, rounds: Callable[[str], int]) -> Iterator[tuple[str, Tally]]:
    """Let every subject run so many rounds, half of them against each attacker. None: it is left out."""
    names = Field(base / "names")
    for subject in SUBJECTS:
        for at, name in enumerate(subject(names)):
            if not rounds(name):
                continue
            folder = base / f"{subject.__name__}-{at}"
            field = Field(folder)
            end = protected.protect(data_dir=field.data)
            try:
                yield name, _raced(field, name, subject(field)[name], rounds(name))
            finally:
                end()
                field.shared.close()
                shutil.rmtree(folder, ignore_errors=True)


def _raced(field: Field, name: str, call: Call, rounds: int) -> Tally:
    tally: Counter[str] = Counter()
    outside: list[str] = []
    with watched(field.out, field.data) as seen:
        for by_script in (False, True):
            with _attacker(field, name, by_script):
                for _ in range(rounds // 2):
                    try:
                        told = repr(call())
                        tally["done"] += 1
                    except (HoldfastError, OSError) as error:
                        told = str(error)
                        tally["refused"] += 1
                    if field.token in told:
                        outside.append("a secret was read")
                    outside += [f"{path or 'too much'} was opened or changed" for path in seen()]
    return Tally(tally["done"], tally["refused"], outside)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--only", default="", help="subjects that have this in their names")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        for name, tally in race(Path(folder), lambda name: given.rounds if given.only in name else 0):
            failed += len(tally.outside)
            print(
                f"{name:28} {tally.done:6} done {tally.refused:6} refused {len(tally.outside):4} outside",
                *tally.outside[:3],
                flush=True,
            )
        print(f"{failed} outside in {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
