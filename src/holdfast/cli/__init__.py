"""The command `holdfast`. Parses, calls control or the client, prints. No rules of its own.

`holdfast run` and `holdfast resume` are read by a few lines of our own (`_quick`) if they hold nothing unusual: typer alone would take
longer to import than a small script takes to run. Whatever those lines do not understand goes to typer, which is the one place that
explains and refuses. `_exits` says which error ends with which code, `_host` what a session can be asked wherever it lives, `commands`
has the rest.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the arguments say. Gives the exit code."""
    from holdfast.cli._exits import guarded

    given = list(sys.argv[1:] if arguments is None else arguments)
    code = guarded(lambda: _dispatched(given))
    if arguments is None and given and given[0] in ("run", "resume"):
        _leave(code)
    return code


def _dispatched(given: list[str]) -> int:
    if given and given[0] in ("run", "resume") and "_HOLDFAST_COMPLETE" not in os.environ:
        from holdfast.cli import _quick

        options = _quick.parsed(given[0], given[1:])
        if options is not None:
            from holdfast.cli import _run

            return _run.run(**options) if given[0] == "run" else _run.resume(**options)
    from holdfast.cli.app import started

    return started(given)


def _leave(code: int) -> NoReturn:
    """Ends the process. All that was opened is closed by now; to take the interpreter down in good order would take a quarter as long as
    all the rest.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
