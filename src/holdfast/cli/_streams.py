"""The standard streams as all the rest takes them for granted: there, and able to take any text."""

import io
import os
import sys


def prepare() -> None:
    """Makes up for streams that whoever started us has closed, and for characters that an encoding does not have.

    A descriptor that is closed would go to the next file that is opened: the store must never be what we print to. A script's text may
    hold what cannot be encoded (half a surrogate pair, or an é at an ASCII terminal): that is shown as an escape.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # for as long as we run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def give_up_stdout() -> bool:
    """If stdout cannot be written, what is left is not tried again when the process ends. Says whether that was so."""
    try:
        sys.stdout.flush()
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
        return True
    return False
