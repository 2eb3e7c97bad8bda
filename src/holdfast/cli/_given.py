"""What was typed for a script: which, in which language, with what arguments and limits. Nonsense is a usage error."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from holdfast.cli._exits import CommandFailed, usage
from holdfast.domain import RepeatedKey, read_json

LANGUAGES: Final = {".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".lua": "lua"}
_LIMITS: Final = ("wall_ms", "cpu_ms", "mem_mb", "stack_kb", "max_events", "max_output_kb", "max_suspensions")


@dataclass(frozen=True, slots=True)
class Script:
    """What to run: a snippet, or a file's text with its name and arguments."""

    source: str
    path: str | None
    language: str
    args: Any = None


def script_of(script: str | None, code: str | None, lang: str | None, args: str | None, arg: Sequence[str]) -> Script:
    """The script that is meant, or a usage error that says what is missing."""
    if (script is None) == (code is None):
        raise usage("give a script or -e CODE", "for example: holdfast run -e '1 + 1'")
    given = arguments_of(args, arg)
    if code is not None:
        checked_text(code, "-e")
        return Script(code, None if given is None else "-e", lang or "javascript", given)
    assert script is not None
    if script == "-":
        return Script(_stdin(), "stdin", lang or "javascript", given)
    source = text_of(script)
    language = lang or LANGUAGES.get(PurePath(script).suffix.lower())
    if language is None:
        raise usage(f"what language is {script}?", "say --lang javascript or --lang lua")
    return Script(source, PurePath(script).name, language, given)


def checked_text(text: str | None, option: str) -> None:
    """Refuses what was typed in another encoding: a session could neither run it nor be found by it."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise usage(f"{option} is not text in UTF-8") from None


def checked_name(name: str | None) -> None:
    """Refuses what nobody could call a session by."""
    checked_text(name, "--name")
    if name is not None and not name.strip():
        raise usage("--name is blank", "leave it out for a session without a name")


def _stdin() -> str:
    try:
        with open(0, "rb", closefd=False) as file:
            return file.read().decode()
    except ValueError:
        raise usage("stdin is not text in UTF-8") from None


def text_of(script: str) -> str:
    """What is in a file."""
    try:
        return Path(script).read_text("utf-8")
    except FileNotFoundError:
        raise CommandFailed(f"there is no file {script}", "FILE_NOT_FOUND") from None
    except OSError as error:
        raise usage(f"{script} cannot be read: {error.strerror}") from None
    except ValueError:
        raise usage(f"{script} is not text in UTF-8") from None


def arguments_of(args: str | None, arg: Sequence[str]) -> Any:
    """What the script finds in `__ARGS__`.

    >>> arguments_of('{"n": 1}', ["who=Ada"])
    {'n': 1, 'who': 'Ada'}
    """
    given: Any = None
    if args is not None:
        try:
            given = read_json(args)
        except RepeatedKey as error:
            raise usage(f"--args: {error}") from None
        except ValueError:
            raise usage("--args must be JSON", """for example: --args '{"n": 1}'""") from None
    for word in (args, *arg):
        checked_text(word, "--arg")
    pairs = dict(_pair(word) for word in arg)
    if not pairs:
        return given
    if given is not None and not isinstance(given, dict):
        raise usage("--arg and --args go together only if --args is a JSON object")
    return (given or {}) | pairs


def limits_of(words: Sequence[str]) -> dict[str, int]:
    """Limits by name.

    >>> limits_of(["wall_ms=60000"])
    {'wall_ms': 60000}
    """
    limits: dict[str, int] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in _LIMITS or not value.isascii() or not value.isdigit():
            raise usage(f"--limit takes NAME=NUMBER, not {word!r}", f"the names are {', '.join(_LIMITS)}")
        limits[name] = int(value)
    return limits


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not name or not equals:
        raise usage(f"--arg takes NAME=VALUE, not {word!r}")
    return name, value
