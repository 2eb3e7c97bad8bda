"""Arguments of `run` and `resume`, read without typer: the usual ones only.

None means: ask typer, which knows all there is, and explains what is wrong. So a mistake here can cost time but not meaning; a test
compares what both make of the same arguments.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "run": {
        "-e": "code",
        "--eval": "code",
        "--lang": "lang",
        "--store": "store",
        "--name": "name",
        "--args": "args",
        "--arg": "arg",
        "--limit": "limit",
    },
    "resume": {"--store": "store"},
}
_MANY: Final = frozenset({"arg", "limit"})
_FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "run": {"--json": "json"},
    "resume": {"--json": "json", "--list": "listed", "--delete": "deleted"},
}
_POSITIONAL: Final[Mapping[str, str]] = {"run": "script", "resume": "session"}


def parsed(command: str, given: Sequence[str]) -> dict[str, Any] | None:
    """The parameters of a command, or None.

    >>> parsed("resume", ["--json"])
    {'session': None, 'store': None, 'json': True, 'listed': False, 'deleted': False}
    >>> parsed("run", ["--help"]) is None
    True
    """
    values, flags, positional = _VALUES[command], _FLAGS[command], _POSITIONAL[command]
    found: dict[str, Any] = {positional: None}
    found |= {name: [] if name in _MANY else None for name in values.values()} | dict.fromkeys(flags.values(), False)
    rest = list(given)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if word in flags:
            found[flags[word]] = True
        elif option in values and (equals or rest) and (not equals or option.startswith("--")):
            name = values[option]
            value = value if equals else rest.pop(0)
            found[name] = [*found[name], value] if name in _MANY else value
        elif (word.startswith("-") and word != "-") or not word or found[positional] is not None:
            return None
        else:
            found[positional] = word
    return found
