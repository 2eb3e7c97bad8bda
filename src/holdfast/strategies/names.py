"""How packages are named, the files in them, and what scripts call both.

A package is a folder, and its name a word: no name leads to another folder. A script names it by that word, and a part of it by `word.part`
or `word/part`. What that means is a file of the package, and its full name is `package:word/file`, which no file of a worktree has.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.domain import InvalidPath
from holdfast.strategies._errors import PackageInvalid

INIT: Final = {"lua": "init.lua", "javascript": "init.js"}
"""The file that is the package, by language."""
FULL: Final = "package:"
"""How full names begin."""
LONGEST: Final = 64
DEEPEST: Final = 16
"""Folders in each other, in a package."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_WORD: Final = re.compile(r"[^./]*")
_LONGEST_PART: Final = 200
_UNFIT: Final = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
"""Also what terminals obey, and what makes a name look like another one."""
_LEFT_OUT: Final = ("node_modules", "__pycache__")
_TAKEN: Final = frozenset(
    [
        *("_G", "coroutine", "debug", "evalframe", "io", "math", "os", "package", "string", "table", "utf8"),
        *("alc", "console", "hf", "holdfast"),
        *("card", "clock", "crypto", "database", "env", "exec", "fs", "http", "random", "state"),
    ]
)
"""What `require` gives in Lua before it looks anywhere, what is ours, and our native modules."""
_VERSION: Final = re.compile(r"[-_.@]v?[0-9][0-9A-Za-z.+_-]*\Z", re.ASCII)
_ENDINGS: Final = {"lua": (".lua", ".json"), "javascript": (".js", ".mjs", ".cjs", ".json")}
_TRIED: Final = {"lua": ("{}.lua", "{}/init.lua"), "javascript": ("{}.js", "{}/index.js", "{}/init.js")}


class Place(NamedTuple):
    """A part of a package, as somebody names it. Without a part it is the package."""

    package: str
    part: str = ""


def is_name(name: str) -> bool:
    """
    >>> is_name("self_consistency"), is_name("../x"), is_name("")
    (True, False, False)
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """The name of a package, if it may be one."""
    if not is_name(name):
        raise PackageInvalid(
            f"{repr(name)[:80]} is not the name of a package: that is a letter, then letters, digits, _ or -, {LONGEST} at most"
        )
    return name


def check_new(name: str) -> str:
    """The name that a package is about to get."""
    if check_name(name) in _TAKEN:
        raise PackageInvalid(f"a package cannot be called {name!r}: scripts get something else by this name")
    return name


def name_of(text: str) -> str:
    """What the package of a folder or an archive is called, if nobody says otherwise: its name without a version. It may be no name.

    >>> name_of("panel-1.2.0"), name_of("tree_of_thoughts"), name_of("panel.v2")
    ('panel', 'tree_of_thoughts', 'panel')
    """
    return _VERSION.sub("", text)


def is_left_out(name: str) -> bool:
    """Whether a file or a folder is no part of a package: what is hidden, and what tools leave behind.

    >>> is_left_out(".git"), is_left_out("node_modules"), is_left_out("init.lua")
    (True, True, False)
    """
    return name.startswith(".") or name in _LEFT_OUT


def check_part(name: str) -> str:
    """The name of a file or a folder in a package, without its folders, if no system and no terminal takes it for something else."""
    if not name or len(name) > _LONGEST_PART or name in (".", "..") or "/" in name or _UNFIT.search(name):
        raise PackageInvalid(f"a file of a package cannot be called {ascii(name)[:80]}")
    return name


# ---- what scripts say --------------------------------------------------------------------------------------------------------------


def parse(specifier: str) -> Place | None:
    """What a script means. None if it cannot mean a package.

    >>> parse("panel"), parse("panel.deep.part"), parse("panel/part.js")
    (Place(package='panel', part=''), Place(package='panel', part='deep/part'), Place(package='panel', part='part.js'))
    """
    found = _WORD.match(specifier)
    word = found[0] if found else ""
    if not is_name(word):
        return None
    rest = specifier[len(word) :]
    if not rest:
        return Place(word)
    part = rest[1:].replace(".", "/") if rest[0] == "." else rest[1:]
    if "" in part.split("/"):
        return None
    return Place(word, inside(part))


def parse_full(name: str) -> Place | None:
    """The package and the file of a full name. None if it is not one of ours.

    >>> parse_full("package:panel/deep/part.lua")
    Place(package='panel', part='deep/part.lua')
    """
    if not name.startswith(FULL):
        return None
    package, _, file = name.removeprefix(FULL).partition("/")
    return Place(package, file) if is_name(package) else None


def full_name(package: str, file: str) -> str:
    """As sessions know a file of a package."""
    return f"{FULL}{package}/{file}"


def beside(specifier: str, referrer: Place) -> Place:
    """What a relative name means in a file of a package: a part of the same package."""
    return Place(referrer.package, inside(posixpath.join(posixpath.dirname(referrer.part), specifier)))


def files_of(place: Place, language: str) -> Iterator[str]:
    """The files that a part may mean, the first first."""
    if not place.part:
        yield INIT[language]
        return
    if place.part.endswith(_ENDINGS[language]):
        yield place.part
    yield from (form.format(place.part) for form in _TRIED[language])


def inside(path: str) -> str:
    """A path in a package without detours; empty for the package itself. `InvalidPath` if it leads out."""
    clean = posixpath.normpath(path)
    if clean == ".." or clean.startswith(("../", "/")):
        raise InvalidPath("a package is asked only for what is in it")
    return "" if clean == "." else clean
