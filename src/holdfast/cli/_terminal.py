"""The terminal: colour or none, text that cannot take it over, and lines that are read when somebody waits for them."""

import asyncio
import contextlib
import json
import os
import sys
import threading
from typing import Any, Final, TextIO

_COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}
_CHUNK: Final = 1 << 16
_SIMPLER: Final = str.maketrans("├└│─", "|`|-")


def is_plain(stream: TextIO) -> bool:
    """Whether nothing but text may be written: it is no terminal, or somebody asked for no colour."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not stream.isatty()


def painted(text: str, colour: str, stream: TextIO) -> str:
    """Text in a colour, where there are colours."""
    return text if is_plain(stream) else f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def harmless(text: str, stream: TextIO) -> str:
    """A script's text for a terminal: control characters are shown, not obeyed. A file or a pipe gets them as they are."""
    if not stream.isatty():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    """
    >>> _visible(chr(27)), _visible("a")
    ('␛', 'a')
    """
    number = ord(character)
    if character in "\n\t" or 0x20 <= number < 0x7F or number > 0x9F:
        return character
    return chr(0x2400 + number) if number < 0x20 else "\ufffd"


def say(text: str = "") -> None:
    """To the person, not to whoever reads our output."""
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One document on one line, whatever it holds. What stdout could not take as it is, is escaped as JSON has it.

    So are signs such as U+2028, which some take for the end of a line.
    """
    text = as_json(value)
    fits = _is_taken(text, sys.stdout) and len(text.splitlines()) == 1
    print(text if fits else json.dumps(value, separators=(",", ":")), flush=True)


def _is_taken(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def drawable(text: str, stream: TextIO) -> str:
    """Lines that are drawn, with signs that every terminal has where it has no others."""
    return text if _is_taken(text, stream) else text.translate(_SIMPLER)


def as_json(value: Any) -> str:
    """
    >>> as_json({"preview": "42"})
    '{"preview":"42"}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Lines:
    """Lines of stdin, each read only when it is asked for: what nobody asks for stays for whoever runs after us.

    Read on a thread, past Python's own buffers, so that a wait can be given up, and the process can end meanwhile.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._kept = b""
        self._ended = False
        self._reading: asyncio.Future[bytes] | None = None

    async def next(self) -> str | None:
        """The next line without its end, or None if there are no more. A wait that is given up loses nothing."""
        while b"\n" not in self._kept and not self._ended:
            if self._reading is None:
                self._reading = self._read()
            chunk = await asyncio.shield(self._reading)
            self._reading = None
            self._kept += chunk
            self._ended = not chunk
        if not self._kept:
            self._ended = os.isatty(self._descriptor) is False and self._ended  # a terminal may say more after Ctrl-D
            return None
        line, _, self._kept = self._kept.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    def _read(self) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            try:
                chunk = os.read(self._descriptor, _CHUNK)
            except OSError:
                chunk = b""
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, chunk)

        threading.Thread(target=read, name="holdfast-stdin", daemon=True).start()
        return future


def _settle(future: asyncio.Future[bytes], chunk: bytes) -> None:
    if not future.done():
        future.set_result(chunk)
