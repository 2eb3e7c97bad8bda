"""The command `holdfast`. Parses, calls control or the client, prints. No rules of its own.

`holdfast run` and `holdfast resume` are read by a few lines of our own (`_quick`) if they hold nothing unusual: typer alone would take
longer to import than a small script takes to run. Whatever those lines do not understand goes to typer, which is the one place that
explains and refuses. `_exits` says which error ends with which code, `_host` what a session can be asked wherever it lives, `commands`
has the rest.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the arguments say. Gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from holdfast.cli._streams import prepare

        prepare()
        from holdfast.cli._exits import guarded

        code = guarded(lambda: _dispatched(given))
    except KeyboardInterrupt:  # before anything has begun
        code = 130
    if arguments is None and given and given[0] in ("run", "resume", "mcp"):
        _leave(code)
    return code


def _dispatched(given: list[str]) -> int:
    if given and given[0] in ("run", "resume") and "_HOLDFAST_COMPLETE" not in os.environ:
        from holdfast.cli import _quick

        options = _quick.parsed(given[0], given[1:])
        if options is not None:
            with _nothing_collected():
                from holdfast.cli import _run

            return _run.run(**options) if given[0] == "run" else _run.resume(**options)
    with _nothing_collected():
        from holdfast.cli.app import started

    return started(given)


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """For imports: they make many objects that stay, and nothing for the collector, which would look a hundred times."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _leave(code: int) -> NoReturn:
    """Ends the process. All that was opened is closed by now; to take the interpreter down in good order would take a quarter as long as
    all the rest.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
