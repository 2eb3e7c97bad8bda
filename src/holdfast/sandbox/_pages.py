"""Pages of a guest's memory: mapping a file over them, and finding those that were written.

On Linux a template is a memory file that is mapped copy-on-write over the memory of each new instance. Pages that a guest writes
become private to it, and the kernel's page map tells which these are, so that a small step on a large heap is cheap to freeze.
Elsewhere the content is copied in, and all of it is compared.
"""

import ctypes
import os
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

PAGE: Final = 4096
ZERO_PAGE: Final = bytes(PAGE)
_CHUNK: Final = 16 * PAGE

_PROT_READ_WRITE: Final = 3
_MAP_PRIVATE_FIXED: Final = 0x02 | 0x10
_SEALS: Final = 0x1 | 0x2 | 0x4 | 0x8  # no more seals, no shrinking, no growing, no writing
_F_ADD_SEALS: Final = 1033

# The highest byte of a page map entry: 0x80 is in memory, 0x40 is swapped out, 0x20 belongs to a file.
_PRIVATE: Final = re.compile(b"[" + b"".join(re.escape(bytes([b])) for b in range(256) if b & 0xC0 and not b & 0x20) + b"]+")

# Linux can also look through the page map itself: see linux/fs.h.
_PAGEMAP_SCAN: Final = 0xC0606610
_FILE, _PRESENT, _SWAPPED = 1 << 2, 1 << 3, 1 << 4
_SOUGHT: Final = (_FILE, _FILE, _PRESENT | _SWAPPED, _FILE)
"""Categories that are inverted, all needed, any of them needed, given: pages of no file that are in memory or swapped out."""
_SCAN_START, _SCAN_END, _SCAN_STOPPED = 2, 3, 4
_RUN: Final = struct.Struct("=QQQ")
"""A run of pages that the scan has found: its first address, the one after it, its categories."""
_MOST_RUNS: Final = 256
_SHORT_SCAN: Final = 32 << 20
"""A memory that is scanned in less time than it takes to give Python's lock away and get it back."""


def can_map() -> bool:
    """Whether this system can map memory files over a guest's memory and has a page map."""
    return (
        sys.platform == "linux"
        and os.sysconf("SC_PAGE_SIZE") == PAGE
        and hasattr(os, "memfd_create")
        and os.access("/proc/self/pagemap", os.R_OK)
    )


class _Descriptor:
    """Something with a file descriptor, which it gives back when it is closed or collected."""

    _fd = -1

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class MemoryFile(_Descriptor):
    """The content of a memory, in a sealed file without a name. Zero pages take no room in it, and mappings outlive it."""

    def __init__(self, size: int, runs: Iterator[tuple[int, bytes | ctypes.Array[ctypes.c_char]]]) -> None:
        self.size = size
        self._fd = os.memfd_create("holdfast", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self._fd, size)
            for offset, data in runs:
                _write_all(self._fd, data, offset)
            import fcntl

            fcntl.fcntl(self._fd, _F_ADD_SEALS, _SEALS)
        except BaseException:
            self.close()
            raise

    def map_over(self, address: int) -> None:
        """Replaces the memory at this address by a private view of the file."""
        mapped = _mmap(address, self.size, _PROT_READ_WRITE, _MAP_PRIVATE_FIXED, self._fd, 0)
        if mapped != address:
            raise OSError(ctypes.get_errno(), "cannot map a template")


def _write_all(fd: int, data: bytes | ctypes.Array[ctypes.c_char], offset: int) -> None:
    view = memoryview(data).cast("B")
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


if sys.platform == "linux":
    _mmap = ctypes.CDLL(None, use_errno=True).mmap
    _mmap.restype = ctypes.c_void_p
    _mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    _IOCTL = (ctypes.c_int, ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)
    _ioctl = ctypes.CFUNCTYPE(*_IOCTL)(("ioctl", ctypes.CDLL(None)))
    _ioctl_short = ctypes.PYFUNCTYPE(*_IOCTL)(("ioctl", ctypes.CDLL(None)))


class _Scan:
    """The arguments of a scan of the page map, and room for what it finds."""

    def __init__(self) -> None:
        found = (ctypes.c_uint64 * (3 * _MOST_RUNS))()
        arguments = (ctypes.c_uint64 * 12)(96, 0, 0, 0, 0, ctypes.addressof(found), _MOST_RUNS, 0, *_SOUGHT)
        self.at = ctypes.addressof(arguments)
        self.arguments = memoryview(arguments).cast("B").cast("Q")
        self.found = memoryview(found).cast("B")


class PageMap(_Descriptor):
    """The kernel's page map of this process."""

    def __init__(self) -> None:
        self._pid = 0
        self._opening = threading.Lock()
        self._scans = True
        self._spare: list[_Scan] = []  # one for each scan at a time, on whatever thread

    def private_runs(self, address: int, size: int) -> bytes:
        """The pages in this range that are private: written since they were mapped, or never mapped from a file.

        They are given as runs, packed: equal bytes mean the same pages. `unpack_runs` gives their numbers.
        """
        if self._pid != os.getpid():  # a page map belongs to the process that opened it
            self._open()
        if self._scans:
            try:
                return self._scanned(address, address + size)
            except OSError:  # before Linux 6.7
                self._scans = False
        return self._read(address, size)

    def _open(self) -> None:
        with self._opening:
            if self._pid != os.getpid():  # no other thread was first
                self.close()
                self._fd, self._pid = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC), os.getpid()

    def _scanned(self, start: int, end: int) -> bytes:
        """The kernel looks through the page map and gives runs."""
        try:
            scan = self._spare.pop()
        except IndexError:
            scan = _Scan()
        ioctl = _ioctl_short if end - start < _SHORT_SCAN else _ioctl
        arguments, runs = scan.arguments, b""
        while start < end:
            arguments[_SCAN_START], arguments[_SCAN_END] = start, end
            count = ioctl(self._fd, _PAGEMAP_SCAN, scan.at)
            if count < 0:
                raise OSError("cannot scan the page map")
            runs += scan.found[: count * _RUN.size]
            start = arguments[_SCAN_STOPPED]  # before the end if there are more runs than room for them
        self._spare.append(scan)
        return runs

    def _read(self, address: int, size: int) -> bytes:
        """We look through the page map ourselves."""
        flags = os.pread(self._fd, size // PAGE * 8, address // PAGE * 8)[7::8]
        spans = (match.span() for match in _PRIVATE.finditer(flags))
        return b"".join(_RUN.pack(address + first * PAGE, address + end * PAGE, 0) for first, end in spans)


def unpack_runs(runs: bytes, address: int) -> list[int]:
    """The numbers of the pages in runs that `PageMap.private_runs` has found."""
    return [
        number
        for start, end, _ in _RUN.iter_unpack(runs)
        for number in range((start - address) // PAGE, (end - address) // PAGE)
    ]


def differing_pages(address: int, size: int, expected: bytes, known: dict[int, bytes]) -> list[int]:
    """Numbers of the pages that differ from `expected`, with `known` pages over it, found by comparing all of them."""
    found: list[int] = []
    for start in range(0, size, _CHUNK):
        length = min(_CHUNK, size - start)
        first, last = start // PAGE, (start + length) // PAGE
        now = ctypes.string_at(address + start, length)
        if not any(page in known for page in range(first, last)) and now == _slice(expected, start, length):
            continue
        for page in range(first, last):
            at = page * PAGE
            before = known.get(page) or _slice(expected, at, PAGE)
            if now[at - start : at - start + PAGE] != before:
                found.append(page)
    return found


def _slice(content: bytes, start: int, length: int) -> bytes:
    """Part of a memory's content; beyond its end there are zeros."""
    part = content[start : start + length]
    return part if len(part) == length else part + bytes(length - len(part))


def page_of(content: bytes, number: int) -> bytes:
    """One page of a memory's content."""
    return content[number * PAGE : (number + 1) * PAGE] or ZERO_PAGE


def is_page_of(content: bytes, number: int, page: bytes) -> bool:
    """Whether a page is what `page_of` would give."""
    start = number * PAGE
    return content.startswith(page, start) if start < len(content) else page == ZERO_PAGE


def filled_runs(pages: int, page: Callable[[int], bytes]) -> Iterator[tuple[int, int]]:
    """The pages that are not zero, as runs."""
    return runs_of([number for number in range(pages) if page(number) != ZERO_PAGE])


def runs_of(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Sorted page numbers as runs: the first page of each, and how many."""
    start = previous = -2
    for number in numbers:
        if number != previous + 1:
            if start >= 0:
                yield start, previous - start + 1
            start = number
        previous = number
    if start >= 0:
        yield start, previous - start + 1
