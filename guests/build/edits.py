"""Reviewed edits of third-party sources, applied as exact replacements.

A guest lists its edits in its own `edits.py`. An edit that does not match is an error and never a silent skip: the day a pin is moved, the
build says which edit has to be reviewed again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from guests.build.errors import BuildError


@dataclass(frozen=True)
class Edit:
    """Replaces `old`, which must occur `count` times, by `new`."""

    file: str
    reason: str
    old: str
    new: str
    count: int = 1


def apply_edits(folder: Path, edits: Iterable[Edit]) -> None:
    """Edits the files of `folder` in place, in the order of the list."""
    for edit in edits:
        path = folder / edit.file
        if not path.is_file():
            raise BuildError(f"an edit of {edit.file} cannot be applied, the file is gone ({edit.reason})")
        text = path.read_text(encoding="utf-8")
        found = text.count(edit.old)
        if found != edit.count:
            raise BuildError(f"an edit of {edit.file} must match {edit.count} times and matches {found} times ({edit.reason})")
        path.write_text(text.replace(edit.old, edit.new), encoding="utf-8", newline="")


def append_includes(folder: Path, includes: Mapping[str, str]) -> None:
    """Ends third-party files with an `#include` of our own, which so sees what is static there."""
    for name, ours in includes.items():
        path = folder / name
        if not path.is_file():
            raise BuildError(f"{ours} cannot be appended to {name}, the file is gone")
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write(f'\n#include "{ours}"\n')
