"""The compiler: C files to objects, in parallel and cached, and objects to a WebAssembly module."""

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from guests.build.cache import Cache, digest
from guests.build.errors import BuildError

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*(?:include|embed)[ \t]*"([^"\n]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Unit:
    """A file to compile. Names are relative to the tree."""

    name: str
    flags: tuple[str, ...]
    before: str | None = None  # a header that is put before it


@dataclass(frozen=True)
class Compiler:
    """`zig cc` from the pinned `ziglang` wheel, run inside a tree with relative names only."""

    cache: Cache

    @staticmethod
    def version() -> str:
        return importlib.metadata.version("ziglang")

    def start(self, tree: Path, units: Iterable[Unit], includes: Sequence[str], pool: Executor) -> list[Future[Path]]:
        """Compiles the units in the background. The largest go first, since one of them takes longer than all others together."""
        largest_first = sorted(units, key=lambda unit: -(tree / unit.name).stat().st_size)
        started = {unit.name: pool.submit(self.compile, tree, unit, includes) for unit in largest_first}
        return [started[name] for name in sorted(started)]  # always in the same order, common/ before source/

    def compile(self, tree: Path, unit: Unit, includes: Sequence[str]) -> Path:
        """The object of a unit. Its key is the content of the file and of all that it includes, with names, flags and compiler."""
        flags = [*unit.flags, *(f"-I{folder}" for folder in includes), *(("-include", unit.before) if unit.before else ())]
        roots = [unit.name, unit.before] if unit.before else [unit.name]
        inputs = [part for name in closure(tree, roots, includes) for part in (name, (tree / name).read_bytes())]
        key = digest(self.version(), unit.name, "\0".join(flags), *inputs)

        def make(path: Path) -> None:
            self.run(tree, [*flags, "-c", "-o", str(path), unit.name], f"{unit.name} cannot be compiled")

        # The name is for the linker's messages.
        return self.cache.entry("objects", f"{key}/{PurePosixPath(unit.name).stem}.o", make)

    def prepare(self, tree: Path, flags: Sequence[str]) -> None:
        """Links nothing, so that zig compiles its C library now. It uses one core for that, while others compile units."""
        (tree / "nothing.c").touch()
        self.run(tree, ["nothing.c", *flags, "-o", "nothing.wasm"], "the C library cannot be compiled")

    def link(self, tree: Path, objects: Sequence[Path], flags: Sequence[str], target: Path) -> None:
        self.run(tree, [*map(str, objects), *flags, "-o", str(target)], "a guest cannot be linked")

    def run(self, tree: Path, arguments: Sequence[str], failure: str) -> None:
        zig = self.cache.root / "zig"  # holds the C library, which zig compiles when it is first linked
        done = subprocess.run(
            [sys.executable, "-m", "ziglang", "cc", *arguments],
            cwd=tree,
            env=os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(zig), "ZIG_LOCAL_CACHE_DIR": str(tree / ".zig")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise BuildError(f"{failure}:\n{done.stdout.strip()}")


def closure(tree: Path, names: Sequence[str], includes: Sequence[str]) -> list[str]:
    """The files and all files of the tree that they include, directly or not, whatever the preprocessor would skip."""
    found = set(names)
    waiting = list(names)
    while waiting:
        current = waiting.pop()
        for match in INCLUDE.finditer((tree / current).read_bytes()):
            included = match[1].decode()
            for folder in (str(PurePosixPath(current).parent), *includes):
                candidate = os.path.normpath(f"{folder}/{included}").replace(os.sep, "/")
                if (tree / candidate).is_file():
                    if candidate not in found:
                        found.add(candidate)
                        waiting.append(candidate)
                    break
    return sorted(found)
