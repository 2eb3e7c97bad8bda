"""The folder in which a guest is compiled.

    source/        the third-party folder, edited
    common/        our C that all guests share
    <language>/    our C of this guest, and prelude_source.c, which holds its prelude

The compiler runs in it and sees only these names.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guests.build import prelude
from guests.build.cache import Cache
from guests.build.compile import Unit
from guests.build.edits import append_includes, apply_edits
from guests.build.recipes import OURS, THEIRS, Recipe, Review
from guests.build.sources import fetch, unpack

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"__pycache__", "node_modules"}


@dataclass(frozen=True)
class Tree:
    recipe: Recipe
    folder: Path
    units: tuple[Unit, ...]

    @property
    def includes(self) -> tuple[str, ...]:
        return ("source", "common", self.recipe.language)


def lay_out(recipe: Recipe, folder: Path, downloads: Cache) -> Tree:
    """Fills an empty folder."""
    review = recipe.review()
    unpack(fetch(recipe.source, downloads), recipe.source, folder / "source")
    apply_edits(folder / "source", review.edits)
    append_includes(folder / "source", review.appended)
    for ours in ("common", recipe.language):
        shutil.copytree(ROOT / ours, folder / ours, ignore=lambda _, names: LEFT_OUT.intersection(names))
    units = [*_their_units(recipe, review), *_our_units(recipe, review, folder)]
    own = folder / recipe.language
    if review.bundle:
        prelude.bundle(own, review.bundle, downloads)
        prelude.embed(own / review.prelude, own / "prelude_source.c")
    if review.scripts:
        prelude.embed_all(review.scripts, own / "prelude_source.c")
    if review.bundle or review.scripts:
        units.append(Unit(f"{recipe.language}/prelude_source.c", (*_flags(recipe, review), *OURS, "-std=c23")))
    return Tree(recipe, folder, tuple(units))


def _their_units(recipe: Recipe, review: Review) -> Iterator[Unit]:
    for name in (*review.sources, *(review.test_sources if recipe.tests else ())):
        yield Unit(f"source/{name}", (*_flags(recipe, review), *THEIRS), _before(recipe, review))


def _our_units(recipe: Recipe, review: Review, folder: Path) -> Iterator[Unit]:
    for ours in ("common", recipe.language):
        for path in sorted((folder / ours).glob("*.c")):
            if path.name not in review.appended.values():
                before = _before(recipe, review) if ours == recipe.language else None
                yield Unit(f"{ours}/{path.name}", (*_flags(recipe, review), *OURS), before)
        if recipe.assembly:
            for path in sorted((folder / ours).glob("*.s")):
                # No warnings: the assembler would complain of flags that are for C.
                yield Unit(f"{ours}/{path.name}", (*_flags(recipe, review), *THEIRS))


def _before(recipe: Recipe, review: Review) -> str | None:
    return f"{recipe.language}/{review.include}" if review.include else None


def _flags(recipe: Recipe, review: Review) -> tuple[str, ...]:
    return (*recipe.compile_flags, *(f"-D{name}" for name in review.test_defines if recipe.tests))
