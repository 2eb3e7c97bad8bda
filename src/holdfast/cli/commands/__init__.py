"""The commands, one file for each group. What they share is here: options, and how a command is told with an example."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from holdfast.cli._exits import usage
from holdfast.cli._given import checked_text
from holdfast.cli._remote import Globals

Json = Annotated[bool, typer.Option("--json", help="Print JSON, on one line.")]
Limited = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most.")]
TemplateArgument = Annotated[str, typer.Argument(metavar="TEMPLATE", help="Its id or its name.")]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Its id or its name.")]
ExecutionArgument = Annotated[str, typer.Argument(metavar="EXECUTION", help="Its id.")]
Limits = Annotated[
    list[str] | None, typer.Option("--limit", metavar="NAME=NUMBER", help="A limit, such as wall_ms=60000; may be repeated.")
]

Command = TypeVar("Command", bound=Callable[..., int | None])


def group(help_text: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(help=help_text, no_args_is_help=True)


def command(app: typer.Typer, name: str, *examples: str) -> Callable[[Command], Command]:
    """Registers a command. Its docstring is its help, and the examples come after it."""
    epilog = "\n\n".join(f"Example: {example}".replace("[", "\\[") for example in examples)
    return app.command(name, epilog=epilog)


def said(context: typer.Context) -> Globals:
    """What was said before the command."""
    found = context.find_root().obj
    return found if isinstance(found, Globals) else Globals()


def json_object(text: str, option: str) -> dict[str, Any]:
    """A JSON object that was given as text."""
    value = json_value(text, option)
    if not isinstance(value, dict):
        raise usage(f"{option} must be a JSON object, not {text[:40]!r}")
    return value


def json_value(text: str, option: str) -> Any:
    from holdfast.domain import RepeatedKey, read_json

    checked_text(text, option)
    try:
        return read_json(text)
    except RepeatedKey as error:
        raise usage(f"{option}: {error}") from None
    except ValueError:
        raise usage(f"{option} must be JSON, not {text[:40]!r}") from None
