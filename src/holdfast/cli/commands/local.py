"""Commands that need no daemon: `run`, `resume`, `repl`, `demo`, `doctor`."""

from typing import Annotated

import typer

from holdfast.cli.commands import Json, Limits, command, said

Store = Annotated[
    str | None, typer.Option("--store", help="Where sessions are kept: a file, or memory:, sqlite:///..., postgresql://...")
]
Language = Annotated[str | None, typer.Option("--lang", help="javascript or lua; by default what the file's name says.")]


def add(app: typer.Typer) -> None:
    """Registers them."""
    command(
        app,
        "run",
        "holdfast run -e '1 + 1'",
        "holdfast run plan.js --arg city=Lima",
        "holdfast run job.lua --args '{\"n\": 3}' --name job",
    )(run)
    command(app, "resume", "holdfast resume", "holdfast resume job", "holdfast resume --list", "holdfast resume job --delete")(
        resume
    )
    command(app, "repl", "holdfast repl", "holdfast repl --lang lua", "holdfast --server-url http://127.0.0.1:3210 repl trip")(
        repl
    )
    command(app, "demo", "holdfast demo")(demo)
    command(app, "doctor", "holdfast doctor")(doctor)


def run(
    script: Annotated[str | None, typer.Argument(help="A .js or .lua file, or - for stdin.")] = None,
    code: Annotated[str | None, typer.Option("-e", "--eval", metavar="CODE", help="Run this instead of a file.")] = None,
    lang: Language = None,
    store: Store = None,
    name: Annotated[str | None, typer.Option("--name", help="Keep the session under this name.")] = None,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="What the script finds in __ARGS__.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="One text in __ARGS__; may be repeated.")
    ] = None,
    limit: Limits = None,
    json: Json = False,
) -> int:
    """Runs a script here, without a daemon, and asks you what it asks.

    Its session is on disk at every question: Ctrl-C leaves it there, and `holdfast resume` goes on. A script that has ended leaves
    nothing behind unless it has a name. When stdin is no terminal, answers are read from it line by line, and a model's answer up to an
    empty line; at its end the session waits.
    """
    from holdfast.cli import _run

    return _run.run(script, code, lang, store, name, args, arg or [], limit or [], json)


def resume(
    session: Annotated[str | None, typer.Argument(help="Its id or its name; by default the last that waits.")] = None,
    store: Store = None,
    listed: Annotated[bool, typer.Option("--list", help="Only show those that wait or were interrupted.")] = False,
    deleted: Annotated[bool, typer.Option("--delete", help="Give the session up, and all that belongs to it.")] = False,
    json: Json = False,
) -> int:
    """Goes on with a session of `holdfast run`, in the middle of the expression that it stopped at."""
    from holdfast.cli import _run

    return _run.resume(session, store, json, listed, deleted)


def repl(
    context: typer.Context,
    session: Annotated[str | None, typer.Argument(help="A session to go on with, by id or name.")] = None,
    template: Annotated[str | None, typer.Option("--template", help="The template of a new session.")] = None,
    lang: Language = None,
    store: Store = None,
    json: Json = False,
) -> int:
    """Runs what you type, in a session that remembers it.

    In this process, or with --server-url (or HOLDFAST_SERVER_URL, or a session of the daemon) over there. `.help` shows what else can
    be done: fork, rewind, save. Ctrl-C stops what runs, Ctrl-D leaves.
    """
    from holdfast.cli import _repl

    return _repl.repl(said(context), session, template, lang, store, json)


def demo(json: Json = False) -> int:
    """Shows in a few seconds what this is about: a script is killed in the middle of a question, and finishes anyway."""
    from holdfast.cli import _demo

    return _demo.demo(json)


def doctor(context: typer.Context, json: Json = False) -> int:
    """Checks what Holdfast needs on this machine, and says what to do. Fails if something does not work."""
    from holdfast.cli import _doctor

    return _doctor.doctor(said(context), json)
