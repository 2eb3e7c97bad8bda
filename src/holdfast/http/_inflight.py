"""Memory that the requests of each token hold: bodies that were read, and answers that are not out yet."""

from typing import Final

from starlette.types import Message, Send

from holdfast.http._errors import RateLimited

PIECE: Final = 1 << 16
"""Larger answers are sent in pieces of this size, each when the connection has taken the one before."""
_RETRY_S: Final = 1


class MemoryLimited(RateLimited):
    """The requests of this token hold too much memory. Read the answers, and try again later."""

    closes = True


class Inflight:
    """Bytes held for each caller. One request may always hold what it needs; several together at most `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: dict[str, int] = {}

    def check(self, who: str) -> None:
        """Raise `MemoryLimited` if all of it is in use."""
        if self.held.get(who, 0) >= self.most:
            raise self.limited(who)

    def limited(self, who: str) -> MemoryLimited:
        """Return the error for a request that others of the same caller leave no memory for."""
        message = (
            f"requests of this token hold {self.held.get(who, 0)} bytes of bodies and unread answers; the most is {self.most}"
        )
        return MemoryLimited(message, retry_after=_RETRY_S)


class Held:
    """Bytes that one request holds, for the caller that is entered."""

    def __init__(self, inflight: Inflight) -> None:
        self._inflight, self._who, self._size, self._announced = inflight, "", 0, False

    def enter(self, who: str) -> None:
        """Count for this caller from now on. Raises `MemoryLimited` if its requests hold all that they may."""
        self._inflight.check(who)
        self._who = who

    def add(self, size: int, *, must: bool = False) -> None:
        """Hold more. Raises `MemoryLimited` if other requests hold too much for that, unless it must be."""
        held = self._inflight.held
        together = held.get(self._who, 0)
        if not must and together > self._size and together + size > self._inflight.most:
            raise self._inflight.limited(self._who)
        held[self._who] = together + size
        self._size += size

    def release(self) -> None:
        """Give all of it back. Idempotent."""
        if self._size:
            self._give(self._size)

    def _give(self, size: int) -> None:
        held = self._inflight.held
        held[self._who] -= size
        if not held[self._who]:
            del held[self._who]
        self._size -= size

    def announce(self, message: Message, *, must: bool) -> None:
        """Hold an answer that is about to begin, by its Content-Length. Raises `MemoryLimited`, unless it must be."""
        size = _length(message)
        if self._who and size > PIECE:
            self.add(size, must=must)
            self._announced = True

    async def send(self, send: Send, message: Message) -> None:
        """Send a large part of an answer. Returns when all but one piece is out: the server waits before it takes the next."""
        body = message["body"]
        counted = bool(self._who) and not self._announced
        if counted:
            self.add(len(body), must=True)
        for start in range(0, len(body), PIECE):
            await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)})
        if counted:
            self._give(len(body))


def _length(message: Message) -> int:
    for name, value in message["headers"]:
        if name == b"content-length":
            return int(value)
    return 0
