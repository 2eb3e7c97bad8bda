"""A parser for event streams, as the HTML standard describes them.

Bytes go in as they come, cut anywhere; messages come out when they are complete. Lines end with CR, LF or both; a byte order mark at
the beginning is not part of the first line; lines that begin with a colon are comments; several `data` lines are one text. What is
incomplete when the stream breaks off was never said: also its id, so that who comes back is told it again.
"""

from dataclasses import dataclass
from typing import Final

_BOM: Final = b"\xef\xbb\xbf"
_LARGEST: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `id` is the last one that was told, here or before."""

    event: str
    data: str
    id: str


class TooLarge(ValueError):
    """A message without end."""


class Parser:
    """`feed` takes bytes and gives the messages that they complete.

    `last_id` is what a reader who comes back says; it moves also with a message without data, which is not given. `retry_s` is how long
    the server wants such a reader to wait.

    >>> Parser().feed(b": hello\\nid: 7\\nevent: console\\ndata: a\\ndata: b\\n\\n")
    [Message(event='console', data='a\\nb', id='7')]
    """

    def __init__(self, largest: int = _LARGEST) -> None:
        self.last_id = ""
        self.retry_s: float | None = None
        self._largest = largest
        self.restart()

    def restart(self) -> None:
        """Another connection follows: forgets what is incomplete, and keeps what is known."""
        self._rest = bytearray()
        self._scanned = 0
        self._held = 0
        self._begun = self._after_cr = False
        self._id = self.last_id
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[Message]:
        """Messages that are complete now, in order."""
        self._rest += chunk
        if not self._begun:
            if len(self._rest) < len(_BOM) and _BOM.startswith(self._rest):
                return []
            self._begun = True
            if self._rest.startswith(_BOM):
                del self._rest[: len(_BOM)]
        complete = []
        for line in self._lines():
            message = self._line(line)
            if message is not None:
                complete.append(message)
        if self._held + len(self._rest) > self._largest:
            raise TooLarge(f"a message has more than {self._largest} bytes")
        return complete

    def _lines(self) -> list[str]:
        """Complete lines. A CR ends its line at once; an LF that follows it, now or in the next chunk, is part of that end."""
        if self._after_cr and self._rest:
            if self._rest[0] == 0x0A:
                del self._rest[0]
            self._after_cr = False
        if self._rest.find(b"\n", self._scanned) < 0 and self._rest.find(b"\r", self._scanned) < 0:
            self._scanned = len(self._rest)
            return []
        self._after_cr = self._rest.endswith(b"\r")
        pieces = bytes(self._rest).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = bytearray(pieces.pop())
        self._scanned = len(self._rest)
        return [piece.decode("utf-8", "replace") for piece in pieces]

    def _line(self, line: str) -> Message | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._held += len(value) + 1
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = int(value[:9]) / 1000
        return None

    def _dispatch(self) -> Message | None:
        event, data = self._event or "message", self._data
        self._event, self._data, self._held = "", [], 0
        self.last_id = self._id
        return Message(event, "\n".join(data), self.last_id) if data else None
