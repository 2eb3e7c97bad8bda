"""The native modules that a template may expose."""

from typing import Any, Final

from holdfast.domain import ModuleNotAllowed

MODULES: Final[tuple[dict[str, Any], ...]] = (
    {
        "id": "fs",
        "name": "fs",
        "kind": "native",
        "description": "Reads and writes files of the session's worktree.",
        "functions": ["readFileSync", "writeFileSync"],
        "config": {},
    },
    {
        "id": "exec",
        "name": "exec",
        "kind": "native",
        "description": "Runs commands in the session's worktree.",
        "functions": ["run"],
        "config": {},
    },
    {
        "id": "database",
        "name": "database",
        "kind": "native",
        "description": "Queries a database of the session's own.",
        "functions": ["configure", "query", "exec", "close"],
        "config": {"drivers": ["sqlite3"]},
    },
)

_BUILT_IN: Final = frozenset(["array", "console", "date", "json", "math", "object", "promise", "string"])
_LONGEST: Final = 200


def check_module(name: str) -> str:
    """The name of a native module, in the one way in which it is written.

    >>> check_module(" FS ")
    'fs'
    """
    if not isinstance(name, str) or len(name) > _LONGEST:
        raise ModuleNotAllowed
    word = name.strip().lower()
    if not word:
        raise ModuleNotAllowed("the name of a module must not be blank")
    if word in _BUILT_IN:
        raise ModuleNotAllowed(f"{word} is part of the language: it is always there, and is no module")
    known = [module["name"] for module in MODULES]
    if word not in known:
        raise ModuleNotAllowed(f"there is no native module {word[:40]!r}; there are {', '.join(known)}")
    return word
