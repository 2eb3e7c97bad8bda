"""A guest's prelude: script source that is part of the guest, as arrays in C.

The shim that evaluates one bundled script declares:

    extern unsigned char hf_prelude_source[];
    extern const unsigned hf_prelude_source_size;

And one that runs several files, one after the other:

    struct hf_script { const char *name; char *text; unsigned size; };
    extern const struct hf_script hf_prelude[];

The last of these has no name. Texts end with a NUL, which is not counted. They may be zeroed when they were read: then they take no room in
images.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from guests.build import npm
from guests.build.cache import Cache

UNIT = """\
unsigned char hf_prelude_source[] = {{
#embed "{name}" suffix(,)
0}};
const unsigned hf_prelude_source_size = sizeof hf_prelude_source - 1;
"""
SCRIPT = """\
static char text_{number}[] = {{
#embed "{name}" suffix(,)
0}};
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


def embed_all(scripts: Sequence[str], unit: Path) -> None:
    """Writes the C file that holds several scripts. Their names are relative to its folder."""
    texts = "".join(SCRIPT.format(number=number, name=name) for number, name in enumerate(scripts))
    rows = "".join(f'{{"{name}", text_{number}, sizeof text_{number} - 1}},\n' for number, name in enumerate(scripts))
    head = "struct hf_script { const char *name; char *text; unsigned size; };\nextern const struct hf_script hf_prelude[];\n"
    unit.write_text(f"{texts}{head}const struct hf_script hf_prelude[] = {{\n{rows}{{0, 0, 0}}}};\n", encoding="utf-8")
