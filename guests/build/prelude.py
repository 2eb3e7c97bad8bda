"""A guest's prelude: script source that is part of the guest, as an array in C.

The shim that evaluates it declares:

    extern const unsigned char hf_prelude_source[];
    extern const unsigned hf_prelude_source_size;

The text ends with a NUL, which is not counted.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from guests.build import npm
from guests.build.cache import Cache

UNIT = """\
const unsigned char hf_prelude_source[] = {{
#embed "{name}" suffix(,)
0}};
const unsigned hf_prelude_source_size = sizeof hf_prelude_source - 1;
"""


def bundle(folder: Path, command: Sequence[str], cache: Cache) -> None:
    """Bundles a script and the npm packages that it imports into one file."""
    npm.copy_packages(npm.install_packages(folder, cache), folder)
    program, *arguments = command
    name = PurePosixPath(program).name
    npm.run(["node", f"node_modules/{name}/bin/{name}", *arguments], folder)  # what .bin/ links to, where links exist


def embed(script: Path, unit: Path) -> None:
    """Writes the C file that holds the script."""
    unit.write_text(UNIT.format(name=script.name), encoding="utf-8")
