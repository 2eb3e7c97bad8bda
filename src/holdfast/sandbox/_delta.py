"""Differences between two memories, as bytes.

A delta lists the 256-byte blocks that differ and holds the XOR of their two contents. XOR rather than the new content: most of a
changed block is unchanged, and zeros compress to nothing. It also means that deltas compose: the delta from a to c is the XOR of
those from a to b and from b to c, whatever the memories are.

    u32 number of pages · u32 gap to the previous page, each · u16 mask of its changed blocks, each · XOR of these blocks
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from operator import sub
from typing import Final, NamedTuple

from holdfast.sandbox._errors import ImageDamaged
from holdfast.sandbox._pages import PAGE, ZERO_PAGE, runs_of

BLOCK: Final = 256
_BLOCKS: Final = PAGE // BLOCK
_WHOLE: Final = (1 << _BLOCKS) - 1
_QUARTER: Final = PAGE // 4
_BATCH: Final = 24
"""Pages that are XORed at once: below what malloc would map and unmap each time."""
_ZERO_BLOCK: Final = bytes(BLOCK)


class Delta(NamedTuple):
    """Changed blocks by page: a mask and the XOR of each."""

    masks: dict[int, int]
    blocks: bytes

    def pack(self) -> bytes:
        count, numbers = len(self.masks), [*self.masks]
        gaps = map(sub, numbers, [0, *numbers])
        return struct.pack(f"<I{count}I{count}H", count, *gaps, *self.masks.values()) + self.blocks

    @classmethod
    def unpack(cls, packed: bytes) -> "Delta":
        if len(packed) < 4:
            raise ImageDamaged
        (count,) = struct.unpack_from("<I", packed)
        if len(packed) < 4 + count * 6:
            raise ImageDamaged
        fields = struct.unpack_from(f"<{count}I{count}H", packed, 4)
        gaps, masks, blocks = fields[:count], fields[count:], packed[4 + count * 6 :]
        pages = dict(zip(accumulate(gaps), masks, strict=True))
        if len(pages) != count or len(blocks) != sum(map(int.bit_count, masks)) * BLOCK:
            raise ImageDamaged
        return cls(pages, blocks)

    @property
    def end(self) -> int:
        """The number after the last page's: pages are in ascending order."""
        return next(reversed(self.masks), -1) + 1


def largest(pages: int) -> int:
    """The most bytes of a packed delta of a memory of so many pages."""
    return 4 + pages * (6 + PAGE)


Xor = Callable[[bytes, bytes], bytes]


def xor_integers(left: bytes, right: bytes) -> bytes:
    """Byte by byte, both of one length: slow, and needs nothing."""
    return (int.from_bytes(left, "little") ^ int.from_bytes(right, "little")).to_bytes(len(left), "little")


def difference(numbers: list[int], before: list[bytes], after: list[bytes], xor: Xor = xor_integers) -> Delta:
    """The delta between pages before and after, which have these numbers, in ascending order."""
    masks: dict[int, int] = {}
    old: list[bytes] = []
    new: list[bytes] = []
    for number, left, right in zip(numbers, before, after, strict=True):
        mask = 0
        for start in range(0, PAGE, _QUARTER):  # most of a page is unchanged: four looks tell where to look closer
            if left[start : start + _QUARTER] == right[start : start + _QUARTER]:
                continue
            for at in range(start, start + _QUARTER, BLOCK):
                was = left[at : at + BLOCK]
                now = right[at : at + BLOCK]
                if now != was:
                    mask |= 1 << at // BLOCK
                    old.append(was)
                    new.append(now)
        if mask:
            masks[number] = mask
    return Delta(masks, xor(b"".join(old), b"".join(new)))


def apply(delta: Delta, page: Callable[[int], bytes], xor: Xor = xor_integers) -> dict[int, bytes]:
    """The pages that a delta makes of those that `page` gives."""
    pages: dict[int, bytes] = {}
    changed: list[tuple[int, bytes, bytes]] = []
    at = 0
    for number, mask in delta.masks.items():
        patch, at = _patch(mask, delta.blocks, at)
        before = page(number)
        if before == ZERO_PAGE:
            pages[number] = patch
        else:
            changed.append((number, before, patch))
    for first in range(0, len(changed), _BATCH):
        numbers, old, patches = zip(*changed[first : first + _BATCH], strict=True)
        became = xor(b"".join(old), b"".join(patches))
        pages.update((number, became[n * PAGE : (n + 1) * PAGE]) for n, number in enumerate(numbers))
    return pages


def _patch(mask: int, blocks: bytes, at: int) -> tuple[bytes, int]:
    """A page's worth of XOR from the blocks at `at`, and where the next page's begin."""
    if mask == _WHOLE:
        return blocks[at : at + PAGE], at + PAGE
    parts: list[bytes] = []
    filled = 0
    for first, count in _runs(mask):
        parts.append(ZERO_PAGE[: (first - filled) * BLOCK])
        parts.append(blocks[at : at + count * BLOCK])
        at += count * BLOCK
        filled = first + count
    parts.append(ZERO_PAGE[: (_BLOCKS - filled) * BLOCK])
    return b"".join(parts), at


@lru_cache(maxsize=4096)
def _runs(mask: int) -> tuple[tuple[int, int], ...]:
    """The set bits of a mask as runs: the first of each, and how many."""
    return tuple(runs_of([block for block in range(_BLOCKS) if mask >> block & 1]))


def compose(first: Delta, second: Delta) -> Delta:
    """The delta that does what these two do one after the other."""
    blocks = _by_block(first)
    for key, block in _by_block(second).items():
        known = blocks.pop(key, None)
        merged = block if known is None else xor_integers(known, block)
        if merged != _ZERO_BLOCK:
            blocks[key] = merged
    masks: dict[int, int] = {}
    for number, at in sorted(blocks):
        masks[number] = masks.get(number, 0) | 1 << at
    return Delta(masks, b"".join(blocks[key] for key in sorted(blocks)))


def _by_block(delta: Delta) -> dict[tuple[int, int], bytes]:
    out: dict[tuple[int, int], bytes] = {}
    at = 0
    for number, mask in delta.masks.items():
        for block in range(_BLOCKS):
            if mask >> block & 1:
                out[number, block] = delta.blocks[at : at + BLOCK]
                at += BLOCK
    return out
