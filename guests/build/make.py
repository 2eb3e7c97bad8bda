"""Makes guests, and knows when nothing has to be done."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from guests.build import npm
from guests.build.cache import Cache, copy_whole, digest
from guests.build.compile import Compiler
from guests.build.layout import LEFT_OUT, ROOT, lay_out
from guests.build.recipes import Recipe


@dataclass(frozen=True)
class Builder:
    """Builds guests. `downloads` holds what is checked against a pinned hash, `results` what was compiled."""

    downloads: Cache
    results: Cache

    def build(self, recipes: Iterable[Recipe], out: Path) -> list[Path]:
        """Writes `<name>.wasm` for each recipe."""
        modules = {recipe: self.results.root / "modules" / f"{input_digest(recipe)}.wasm" for recipe in recipes}
        self._make({recipe: module for recipe, module in modules.items() if not module.exists()})
        for recipe, module in modules.items():
            copy_whole(module, out / f"{recipe.name}.wasm")
        return [out / f"{recipe.name}.wasm" for recipe in modules]

    def _make(self, modules: dict[Recipe, Path]) -> None:
        """Compiles all guests in one pool, so that no core waits for the longest file, and links them."""
        compiler = Compiler(self.results)
        with ExitStack() as stack:
            folders = [stack.enter_context(self.results.scratch()) for _ in modules]
            trees = [lay_out(recipe, folder, self.downloads) for recipe, folder in zip(modules, folders, strict=True)]
            pool = ThreadPoolExecutor(os.cpu_count())
            stack.callback(pool.shutdown, cancel_futures=True)  # called before the folders are removed
            for tree in trees[:1]:  # all guests share one C library
                pool.submit(compiler.prepare, tree.folder, tree.recipe.link_flags)
            started = [compiler.start(tree.folder, tree.units, tree.includes, pool) for tree in trees]
            for tree, objects in zip(trees, started, strict=True):
                link = partial(compiler.link, tree.folder, [done.result() for done in objects], tree.recipe.link_flags)
                self.results.entry("modules", modules[tree.recipe].name, link)


def input_digest(recipe: Recipe) -> str:
    """One hash of all that a module depends on. Nothing is fetched for it, since what is fetched is pinned by hash."""
    parts: list[str | bytes] = [repr(recipe), Compiler.version(), npm.version()]
    for folder in ("build", "common", recipe.language):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            if path.is_file() and not LEFT_OUT.intersection(name.parts):
                parts += [name.as_posix(), path.read_bytes()]
    return digest(*parts)
