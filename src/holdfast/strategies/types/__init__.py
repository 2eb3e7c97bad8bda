"""Type definitions of the script library, for editors: `alc.d.lua` for Lua (LuaCATS), and `holdfast.d.ts` for JavaScript and TypeScript.

Both, and `docs/script-library.md`, are written by `python -m holdfast.strategies.types` from one source, `library.toml`. They are part of
the package, so that whoever wants them need not make them.
"""

from functools import cache
from importlib.resources import files
from typing import Final, Literal

FILES: Final = {"lua": "alc.d.lua", "javascript": "holdfast.d.ts"}
"""What an editor expects each to be called."""


@cache
def text(language: Literal["lua", "javascript"]) -> str:
    """The definitions for a language.

    >>> text("lua").startswith("---@meta")
    True
    """
    return (files(__package__) / FILES[language]).read_text(encoding="utf-8")
