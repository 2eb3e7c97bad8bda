"""A tar, packed or not, read from its beginning to its end.

Python's own reader takes time that grows with the square of what headers hold, and looks into sparse files before anybody can refuse them.
This one knows what folders and files need: names of any length, as POSIX and as GNU write them. All else is told apart, and not read.
"""

import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Final, NamedTuple

_BLOCK: Final = 512
_CHUNK: Final = 1 << 16
_GZIP: Final = 31
"""By this zlib knows that there is a gzip around it."""
_LARGEST_HEADER: Final = 1 << 16
"""Bytes that headers may have for what does not fit into the usual one."""
_MORE: Final = (b"L", b"K", b"x", b"g")
"""The kinds of headers that say more of what follows: GNU's for names and links, those of POSIX for one file and for all."""
_FILE: Final = (b"0", b"\0", b"7")
_FOLDER: Final = b"5"


class TooMuch(Exception):
    """There is more in it than may be."""


class Entry(NamedTuple):
    """What a header tells of: a folder, a file, or something else."""

    name: str
    is_folder: bool
    is_file: bool
    size: int


class Stream:
    """The bytes of a tar. After so many there must be an end: headers may claim anything."""

    def __init__(self, file: IO[bytes], packed: bool, most: int) -> None:
        self._file, self._most = file, most
        self._unpacker = zlib.decompressobj(_GZIP) if packed else None
        self.place = 0

    def take(self, size: int) -> bytes:
        """The next so many. `EOFError` if there are not so many."""
        parts: list[bytes] = []
        end = self.place + size
        while self.place < end:
            parts.append(self._some(end - self.place))
            if not parts[-1]:
                raise EOFError
        return b"".join(parts)

    def skip(self, place: int) -> None:
        while self.place < place:
            self.take(min(place - self.place, _CHUNK))

    def finish(self) -> None:
        """What was packed is known to be right only when all of it was read."""
        while self._some(_CHUNK):
            pass
        if self._unpacker is not None and not self._unpacker.eof:
            raise EOFError

    def _some(self, most: int) -> bytes:
        data = self._file.read(min(most, _CHUNK)) if self._unpacker is None else self._unpacked(self._unpacker, most)
        self.place += len(data)
        if self.place > self._most:
            raise TooMuch
        return data

    def _unpacked(self, unpacker: "zlib._Decompress", most: int) -> bytes:
        while not unpacker.eof:
            packed = unpacker.unconsumed_tail or self._file.read(_CHUNK)
            data = unpacker.decompress(packed, min(most, _CHUNK))
            if data or not packed:
                return data
        return b""


def entries(stream: Stream) -> Iterator[Entry]:
    """All that is in it, in its order. A file's bytes are next in the stream when it is given; they are skipped if nobody takes them.

    `ValueError` and `EOFError` if it is broken.
    """
    said: dict[bytes, bytes] = {}
    while (header := stream.take(_BLOCK)).strip(b"\0"):
        kind, size = header[156:157], _octal(header[124:136])
        if _octal(header[148:156]) != sum(header[:148]) + sum(header[156:]) + 8 * ord(" "):
            raise ValueError("a header of the tar is damaged")
        if kind in _MORE:
            said |= _said(kind, _text(stream, size))
            continue
        entry = _entry(header, kind, size, said)
        said = {}
        following = stream.place + _padded(entry.size)
        yield entry
        stream.skip(following)
    stream.finish()


def _entry(header: bytes, kind: bytes, size: int, said: Mapping[bytes, bytes]) -> Entry:
    name = said.get(b"path") or _name(header)
    is_folder = kind == _FOLDER or (kind in _FILE and name.endswith(b"/"))
    is_file = kind in _FILE and not is_folder and not any(key.startswith(b"GNU.sparse") for key in said)
    size = _decimal(said[b"size"]) if b"size" in said else size
    return Entry(name.decode("utf-8", "surrogateescape"), is_folder, is_file, size if is_file else 0)


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    before = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return before + b"/" + name if before else name


def _text(stream: Stream, size: int) -> bytes:
    if size > _LARGEST_HEADER:
        raise ValueError("a header of the tar is too large")
    return stream.take(_padded(size))[:size]


def _said(kind: bytes, text: bytes) -> dict[bytes, bytes]:
    """What a header says of the next file, if it does."""
    if kind == b"L":
        return {b"path": text.partition(b"\0")[0]}
    records = dict(_records(text)) if kind != b"K" else {}  # whoever has links is refused
    if kind == b"g" and records.keys() & {b"path", b"size"}:
        raise ValueError("a header of the tar gives all files one name or size")
    return records if kind == b"x" else {}


def _records(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """`length key=value\\n`, where all of it is counted."""
    at = 0
    while at < len(text):
        space = text.index(b" ", at)
        end = at + _decimal(text[at:space])
        key, equals, value = text[space + 1 : end - 1].partition(b"=")
        if not equals or text[end - 1 : end] != b"\n":
            raise ValueError("a header of the tar is damaged")
        yield key, value
        at = end


def _octal(field: bytes) -> int:
    digits = field.partition(b"\0")[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise ValueError("a number of the tar is none, or far too large")
    return int(digits or b"0", 8)


def _decimal(digits: bytes) -> int:
    if not digits.isdigit():
        raise ValueError("a number of the tar is none")
    return int(digits)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
