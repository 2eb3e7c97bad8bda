"""What a program shall not see, from the daemon's side: words that name protected files are refused, and the plan of what is hidden."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.capabilities.exec.confinement import Hidden, Plan
from holdfast.capabilities.files import protected
from holdfast.capabilities.files.protected import SIDE_FILES
from holdfast.sandbox import HostError

_SEPARATORS: Final = re.compile(r"[\s=:,;@'\"<>|&()]+")
_MOST_PIECES: Final = 4_000
_LONGEST: Final = 4_096


def check_words(words: Sequence[str], root: str, folder: str) -> None:
    """Refuse arguments and variables that name a protected file. A program may find its way by other means: this is the second line."""
    places = [path for path, _ in _places()]
    if not places:
        return
    known = protected.forbidden()
    here = os.path.join(root, folder)
    if any(_is_named(path, word.replace(root, "")) for path in places for word in words) or any(
        _leads_there(os.path.join(here, piece), root, places, known) for piece in _pieces(words)
    ):
        raise HostError("the arguments name a file that Holdfast keeps for itself", code="ARGUMENTS_NOT_ALLOWED")


def _is_named(path: str, word: str) -> bool:
    """Whether a path, or one below it, is written in a word."""
    return re.search(re.escape(path) + r"(?![\w.-])", word) is not None


def _pieces(words: Sequence[str]) -> Iterator[str]:
    """Whatever in the words may be a path: each as a whole, without a flag before it, and its parts."""
    found: dict[str, None] = {}
    for word in words:
        found[word] = None
        if word.startswith("-"):
            found[word[2:]] = None
        for piece in _SEPARATORS.split(word):
            if "/" in piece:
                found[piece] = None
        if len(found) > _MOST_PIECES:
            break
    return (piece for piece in found if piece and len(piece) <= _LONGEST)


def _leads_there(path: str, root: str, places: Sequence[str], known: frozenset[protected.Identity]) -> bool:
    try:
        real = os.path.realpath(path)
        if real == root or real.startswith(root.rstrip("/") + "/"):
            return protected.is_protected(os.stat(real), known)  # a hard link, or the store in the worktree
        if any(real == place or real.startswith(place + "/") for place in places):
            return True
        return protected.Identity.of(os.stat(real)) in known
    except (OSError, ValueError):
        return False


def hidden_from(root: str, found: os.stat_result) -> Plan | None:
    """The plan for a program of a session with this worktree. None: there is nothing to hide."""
    hidden: list[Hidden] = []
    for place, is_folder in _places():
        for path in [place] if is_folder else [place, *(place + end for end in SIDE_FILES)]:
            try:
                there = os.lstat(path)
            except OSError:
                continue
            hidden.append(Hidden(path, [(there.st_dev, there.st_ino)]))
    return Plan(hidden, root, (found.st_dev, found.st_ino)) if hidden else None


def _places() -> list[tuple[str, bool]]:
    """Paths of all that is protected, each with whether it is a folder: the registered ones, and where these places are now.

    Nothing is run if one was moved to where it cannot be found: it could not be hidden.
    """
    try:
        return list(dict.fromkeys((path, place.is_folder) for place in protected.places() for path in place.paths()))
    except OSError:
        raise HostError(
            "the program could not be started: files that Holdfast keeps were moved", code="PROGRAM_FAILED"
        ) from None
