"""`python -m holdfast.strategies.types` writes the type definitions and the reference of the script library, for those who work on it.

With `--check` it says whether they are what the source says. With `lua` or `javascript` it shows definitions, for those who use them.
"""

import sys
from pathlib import Path

from holdfast.strategies.types import FILES, lua, reference, text, typescript
from holdfast.strategies.types.source import source


def made() -> dict[Path, str]:
    """What is made of the source, by where it lies. The reference is there only in the repository."""
    here = Path(__file__).parent
    found = {here / FILES["lua"]: lua.definitions(source()), here / FILES["javascript"]: typescript.definitions(source())}
    docs = here.parents[3] / "docs"
    if docs.is_dir():
        found[docs / "script-library.md"] = reference.page(source())
    return found


def main(arguments: list[str]) -> int:
    match arguments:
        case []:
            return _write()
        case ["--check"]:
            return _check()
        case ["lua" | "javascript" as language]:
            print(text(language), end="")
            return 0
        case _:
            print("usage: python -m holdfast.strategies.types [--check | lua | javascript]", file=sys.stderr)
            return 2


def _old() -> dict[Path, str]:
    return {path: new for path, new in made().items() if not path.exists() or path.read_text(encoding="utf-8") != new}


def _write() -> int:
    for path, new in _old().items():
        path.write_text(new, encoding="utf-8")
        print(f"wrote {path.name}")
    return 0


def _check() -> int:
    old = _old()
    for path in old:
        print(f"{path.name} is not what the source says: run python -m holdfast.strategies.types", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
