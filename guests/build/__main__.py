"""`python -m guests.build`: builds guests by hand.

    python -m guests.build                          the guests of the wheel, into the package
    python -m guests.build lua-tests --out DIR      one that is not shipped
    python -m guests.build --no-cache --out DIR     from nothing but downloads, to compare digests

Prints the SHA-256 of each.
"""

import argparse
import hashlib
import sys
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from guests.build.cache import Cache, default_root
from guests.build.errors import BuildError
from guests.build.layout import ROOT
from guests.build.make import Builder
from guests.build.recipes import RECIPES, SHIPPED

PACKAGE = ROOT.parent / "src" / "holdfast" / "sandbox" / "guests"


def build_shipped() -> None:
    """What the wheel's build hook does."""
    cache = Cache(default_root())
    Builder(cache, cache).build(SHIPPED, PACKAGE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m guests.build", description="Builds the guests.")
    parser.add_argument("guest", nargs="*", help=f"{', '.join(RECIPES)}; without any, those of the wheel")
    parser.add_argument("--out", type=Path, default=PACKAGE, help="folder for the .wasm files (default: the package)")
    parser.add_argument("--no-cache", action="store_true", help="compile everything again; keep only downloads")
    arguments = parser.parse_args()
    if unknown := set(arguments.guest) - set(RECIPES):
        parser.error(f"no such guest: {', '.join(sorted(unknown))}")

    cache = Cache(default_root())
    with TemporaryDirectory() if arguments.no_cache else nullcontext() as fresh:
        builder = Builder(cache, Cache(Path(fresh).resolve()) if fresh else cache)
        try:
            built = builder.build([RECIPES[name] for name in arguments.guest] or SHIPPED, arguments.out.resolve())
        except BuildError as error:
            print(f"holdfast: {error}", file=sys.stderr)
            return 1
    for path in built:
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
