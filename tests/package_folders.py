"""Folders of packages, for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

SMALL: Final = {"init.lua": "return {}", "deep/part.lua": "return 1"}


def made(folder: Path, files: Mapping[str, str | bytes] = SMALL) -> Path:
    """A folder with these files in it, beside those that are there."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder
