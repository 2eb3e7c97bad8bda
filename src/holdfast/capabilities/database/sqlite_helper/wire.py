"""Frames between the daemon and a helper process, bounded in both directions.

A frame is its length (4 bytes), its kind (1 byte) and a payload. A message is any number of frames with values, and a last one, whose
payload is JSON: a list that ends with the values that are left. Large texts and blobs have frames of their own, as they are; all other
values go in batches. So neither side has to decode, in one go, more than a batch or one value: Python's lock is never held for long.

The daemon does not trust a helper: every length and every type is checked here.
"""

import json
import socket
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

LARGEST_VALUE: Final = 1 << 20
"""Bytes of a text or a blob."""
LONGEST_SQL: Final = 256 << 10
"""Bytes. To prepare a statement takes longer than in proportion to its length."""
LARGEST_FRAME: Final = 4 << 20
"""A text of which each byte was replaced has three times as many; escapes of JSON take six, for a batch."""
MOST_VALUES: Final = 500_000
"""Values of a result."""

OPENED, DONE, FAILED, COMMITS, LEAVES = b"O", b"D", b"E", b"C", b"G"
"""Last frames of a helper: it is ready; a statement is done; it failed. And two that stand alone: a commit has begun, so that nobody knows
its outcome until it is told; the helper was idle, and does nothing any more."""
REQUEST: Final = b"R"
_BATCH, _TEXT, _BLOB = b"V", b"T", b"B"

_HEAD: Final = 5
_LARGE: Final = 8 << 10
_BATCH_SIZE: Final = 64 << 10
_dumps: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


PIECE: Final = 64 << 10
"""How much is read at once. More would have to be mapped each time."""
_MOMENT_S: Final = 0.0002
"""How long a side looks whether something has come, before it sleeps."""


def set_timeout(connection: socket.socket, seconds: float) -> None:
    """Sets how long a read or a write may wait, after which it raises `BlockingIOError`: in the kernel, which saves a call for each."""
    whole = int(seconds)
    value = struct.pack("@ll", whole, int((seconds - whole) * 1_000_000))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, value)


class Receiver:
    """Reads from a socket. Where the other side answered at once the last time, it looks for a moment before it sleeps: to be woken takes
    longer than most statements, on virtual machines several times as long.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._is_quick = False

    def receive(self) -> bytes:
        """The next bytes; none at the end. `BlockingIOError` if none came for as long as `set_timeout` has set."""
        begun = time.perf_counter()
        if self._is_quick:
            until = begun + _MOMENT_S
            while time.perf_counter() < until:
                try:
                    return self._socket.recv(PIECE, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    continue
        data = self._socket.recv(PIECE)
        self._is_quick = time.perf_counter() - begun < 2 * _MOMENT_S
        return data


class Malformed(Exception):
    """The other side did not keep to the format."""


class Message(NamedTuple):
    """A frame that ends a message, and the values that came with it."""

    kind: bytes
    head: list[Any]
    values: list[Any]


def size_of(value: Any) -> int:
    """Bytes of a value, as results are counted."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    return len(value) if isinstance(value, bytes) else 8


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(4, "big") + kind + payload


class Encoder:
    """Values as frames. What does not fill a frame yet goes with the message's end."""

    def __init__(self) -> None:
        self._batch: list[Any] = []
        self._size = 0

    def add(self, values: Iterable[Any]) -> Iterator[bytes]:
        """The frames that are full now."""
        for value in values:
            if isinstance(value, str | bytes):
                if len(value) > _LARGE:
                    yield from self._flush()
                    yield frame(_TEXT, value.encode()) if isinstance(value, str) else frame(_BLOB, value)
                    continue
                self._size += len(value)
                if isinstance(value, bytes):
                    value = [b64encode(value).decode()]
            self._size += 8
            self._batch.append(value)
            if self._size > _BATCH_SIZE:
                yield from self._flush()

    def end(self, kind: bytes, *head: Any) -> bytes:
        batch, self._batch, self._size = self._batch, [], 0
        return frame(kind, _dumps([*head, batch]).encode())

    def _flush(self) -> Iterator[bytes]:
        if self._batch:
            batch, self._batch, self._size = self._batch, [], 0
            yield frame(_BATCH, _dumps(batch).encode())


class Decoder:
    """Bytes as messages. `most` is how many values and how many bytes one may have."""

    def __init__(self, most: tuple[int, int]) -> None:
        self._most = most
        self._buffer = bytearray()
        self._values: list[Any] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Message | None:
        """A message, or None if it has not come to its end yet. Raises `Malformed`."""
        while (found := self._frame()) is not None:
            kind, payload = found
            try:
                if kind == _TEXT:
                    self._values.append(payload.decode())
                elif kind == _BLOB:
                    self._values.append(payload)
                elif kind == _BATCH:
                    self._values += map(_value, _list(payload))
                else:
                    return self._ended(kind, payload)
            except (ValueError, RecursionError) as error:
                raise Malformed from error
            if len(self._values) > self._most[0]:
                raise Malformed

        return None

    def _ended(self, kind: bytes, payload: bytes) -> Message:
        *head, rest = _list(payload) if payload else [[]]
        if type(rest) is not list:
            raise Malformed
        if kind == COMMITS:  # in the midst of a message
            return Message(kind, [], [])
        values, self._values, self._size = self._values, [], 0
        values += map(_value, rest)
        if len(values) > self._most[0]:
            raise Malformed
        return Message(kind, head, values)

    def _frame(self) -> tuple[bytes, bytes] | None:
        buffer = self._buffer
        if len(buffer) < _HEAD:
            return None
        length = int.from_bytes(buffer[:4], "big")
        if length > LARGEST_FRAME or self._size + length > self._most[1]:
            raise Malformed
        if len(buffer) < _HEAD + length:
            return None
        kind, payload = bytes(buffer[4:_HEAD]), bytes(buffer[_HEAD : _HEAD + length])
        del buffer[: _HEAD + length]
        self._size += length
        return kind, payload


def _list(payload: bytes) -> list[Any]:
    found = json.loads(payload)
    if type(found) is not list:
        raise Malformed
    return found


def _value(value: Any) -> Any:
    if value is None or type(value) in (int, float, str, bool):
        return value
    if type(value) is list and len(value) == 1 and type(value[0]) is str:
        return b64decode(value[0], validate=True)
    raise Malformed
