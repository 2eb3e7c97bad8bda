"""Arithmetic on many pages, at the speed of memory.

Python has no XOR of byte strings: by way of integers it takes a nanosecond a byte, and to find the blocks that differ takes a dozen
operations a page. The engine that runs guests can run this as well: pages are copied into the memory of a small module, one call
works on all of them, and the result is copied out.

To call an `Xor` uses the documented Python API only. Its `difference` and `apply` do what the functions of these names in `_delta`
do, and call by pointers like `_unchecked`: an engine without that has `_delta` do it, with the call.

All threads share the module's memory, under a lock that is held for some microseconds. What was in it last stays there until it is
written over, as it would in memory that was freed; nothing outside this process sees it.
"""

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

import wasmtime
from wasmtime import _bindings as api
from wasmtime import _ffi

from holdfast.sandbox._crossing import NEVER
from holdfast.sandbox._delta import BLOCK, Delta, xor_integers
from holdfast.sandbox._pages import PAGE

_CHUNK: Final = 1 << 20
_WORTHWHILE: Final = 16384
_BATCH: Final = _CHUNK // PAGE
"""The most pages that one call works on."""
_SHORT: Final = 64
"""Pages that are worked on in less time than it takes to give Python's lock away and get it back."""

# The memory: three chunks, then a mask for each page of a batch.
_LEFT, _RIGHT, _RESULT, _MASKS = 0, _CHUNK, 2 * _CHUNK, 3 * _CHUNK
_LEFT_PAGES: Final = [slice(at, at + PAGE) for at in range(_LEFT, _RIGHT, PAGE)]
_RIGHT_PAGES: Final = [slice(at, at + PAGE) for at in range(_RIGHT, _RESULT, PAGE)]

_VECTORS: Final = range(0, BLOCK, 16)
_DIFFER: Final = "\n".join(
    f"""(v128.store offset={at} (local.get $to) (local.tee $one
          (v128.xor (v128.load offset={at} (local.get $left)) (v128.load offset={at} (local.get $right)))))
        (local.set $any (v128.or (local.get $any) (local.get $one)))"""
    for at in _VECTORS
)
_PATCH: Final = "\n".join(
    f"""(v128.store offset={at} (local.get $page)
          (v128.xor (v128.load offset={at} (local.get $page)) (v128.load offset={at} (local.get $from))))"""
    for at in _VECTORS
)
_MODULE: Final = f"""
(module
  (memory (export "memory") {3 * _CHUNK // 65536 + 1})

  ;; The XOR of two byte strings, in place of the first.
  (func (export "xor") (param $left i32) (param $right i32) (param $end i32)
    (loop $more
      (v128.store (local.get $left) (v128.xor (v128.load (local.get $left)) (v128.load (local.get $right))))
      (local.set $right (i32.add (local.get $right) (i32.const 16)))
      (local.tee $left (i32.add (local.get $left) (i32.const 16)))
      (br_if $more (i32.lt_u (local.get $end)))))

  ;; Of so many pages on both sides: a mask of the blocks that differ for each, and the XOR of these blocks; gives its length.
  ;; Each block's XOR is written where the next result belongs, and stays if it is not zero.
  (func (export "difference") (param $count i32) (result i32)
    (local $left i32) (local $right i32) (local $to i32) (local $mask_at i32) (local $mask i32) (local $bit i32)
    (local $one v128) (local $any v128)
    (local.set $right (i32.const {_RIGHT}))
    (local.set $to (i32.const {_RESULT}))
    (local.set $mask_at (i32.const {_MASKS}))
    (loop $pages
      (local.set $mask (i32.const 0))
      (local.set $bit (i32.const 1))
      (loop $blocks
        (local.set $any (v128.const i64x2 0 0))
        {_DIFFER}
        (if (v128.any_true (local.get $any)) (then
          (local.set $mask (i32.or (local.get $mask) (local.get $bit)))
          (local.set $to (i32.add (local.get $to) (i32.const {BLOCK})))))
        (local.set $left (i32.add (local.get $left) (i32.const {BLOCK})))
        (local.set $right (i32.add (local.get $right) (i32.const {BLOCK})))
        (local.set $bit (i32.shl (local.get $bit) (i32.const 1)))
        (br_if $blocks (i32.lt_u (local.get $bit) (i32.const {1 << PAGE // BLOCK}))))
      (i32.store16 (local.get $mask_at) (local.get $mask))
      (local.set $mask_at (i32.add (local.get $mask_at) (i32.const 2)))
      (br_if $pages (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
    (i32.sub (local.get $to) (i32.const {_RESULT})))

  ;; XORs blocks on the right into so many pages on the left, as their masks say.
  (func (export "apply") (param $count i32) (result i32)
    (local $start i32) (local $page i32) (local $from i32) (local $mask_at i32) (local $mask i32)
    (local.set $from (i32.const {_RIGHT}))
    (local.set $mask_at (i32.const {_MASKS}))
    (loop $pages
      (local.set $mask (i32.load16_u (local.get $mask_at)))
      (block $done
        (loop $blocks
          (br_if $done (i32.eqz (local.get $mask)))
          (local.set $page (i32.add (local.get $start) (i32.mul (i32.ctz (local.get $mask)) (i32.const {BLOCK}))))
          {_PATCH}
          (local.set $from (i32.add (local.get $from) (i32.const {BLOCK})))
          (local.set $mask (i32.and (local.get $mask) (i32.sub (local.get $mask) (i32.const 1))))
          (br $blocks)))
      (local.set $start (i32.add (local.get $start) (i32.const {PAGE})))
      (local.set $mask_at (i32.add (local.get $mask_at) (i32.const 2)))
      (br_if $pages (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
    (i32.const 0)))
"""


class Xor:
    """`xor(left, right)`: byte by byte, both of one length. `difference` and `apply` are like those of `_delta`, and faster."""

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._lock = threading.Lock()
        self._store = wasmtime.Store(engine)
        self._store.set_epoch_deadline(NEVER)
        instance = wasmtime.Instance(self._store, wasmtime.Module(engine, _MODULE), [])
        self._exports = instance.exports(self._store)
        memory = self._exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        self._function = self._export("xor")
        self._base = ctypes.addressof(memory.data_ptr(self._store).contents)
        whole = (ctypes.c_char * memory.data_len(self._store)).from_address(self._base)
        self._memory = memoryview(whole).cast("B")

    def _export(self, name: str) -> wasmtime.Func:
        function = self._exports[name]
        assert isinstance(function, wasmtime.Func)
        return function

    @cached_property
    def _difference(self) -> "_Function":
        return _Function(self._store, self._export("difference"))

    @cached_property
    def _apply(self) -> "_Function":
        return _Function(self._store, self._export("apply"))

    def __call__(self, left: bytes, right: bytes) -> bytes:
        if len(left) != len(right):
            raise ValueError("both sides have one length")
        if len(left) < _WORTHWHILE:
            return xor_integers(left, right)
        with self._lock:
            starts = range(0, len(left), _CHUNK)
            return b"".join(self._chunk(left[at : at + _CHUNK], right[at : at + _CHUNK]) for at in starts)

    def _chunk(self, left: bytes, right: bytes) -> bytes:
        size = len(left)
        self._memory[_LEFT : _LEFT + size] = left
        self._memory[_RIGHT : _RIGHT + size] = right
        self._function(self._store, _LEFT, _RIGHT, size)
        return self._memory[_LEFT : _LEFT + size].tobytes()

    def difference(self, numbers: list[int], before: list[bytes], after: list[bytes]) -> Delta:
        """The delta between pages before and after, which have these numbers, in ascending order."""
        count = len(numbers)
        if not len(before) == len(after) == count:  # the memory holds pages of others
            raise ValueError("pages before and after are as many as their numbers")
        if not 0 < count <= _BATCH:
            some = [slice(at, at + _BATCH) for at in range(0, count, _BATCH)]
            return _joined([self.difference(numbers[part], before[part], after[part]) for part in some])
        memory = self._memory
        with self._lock:
            for place, page in zip(_LEFT_PAGES, before, strict=False):
                memory[place] = page
            for place, page in zip(_RIGHT_PAGES, after, strict=False):
                memory[place] = page
            size = self._difference(count)
            masks = struct.unpack_from(f"<{count}H", memory, _MASKS)
            blocks = memory[_RESULT : _RESULT + size].tobytes()
        if 0 in masks:  # pages that became again what they were
            return Delta({number: mask for number, mask in zip(numbers, masks, strict=True) if mask}, blocks)
        return Delta(dict(zip(numbers, masks, strict=True)), blocks)

    def apply(self, delta: Delta, page: Callable[[int], bytes]) -> dict[int, bytes]:
        """The pages that a delta makes of those that `page` gives."""
        pages: dict[int, bytes] = {}
        for part in _parts(delta) if len(delta.masks) > _BATCH else [delta]:
            pages.update(zip(part.masks, self._applied(part, list(map(page, part.masks))), strict=True))
        return pages

    def _applied(self, delta: Delta, before: list[bytes]) -> list[bytes]:
        """Pages with a delta applied to them, as many as one call takes."""
        memory, count = self._memory, len(before)
        if not count:
            return []
        with self._lock:
            for place, page in zip(_LEFT_PAGES, before, strict=False):
                memory[place] = page
            memory[_RIGHT : _RIGHT + len(delta.blocks)] = delta.blocks
            struct.pack_into(f"<{count}H", memory, _MASKS, *delta.masks.values())
            self._apply(count)
            return [memory[place].tobytes() for place in _LEFT_PAGES[:count]]


def _joined(deltas: list[Delta]) -> Delta:
    """Deltas of different pages as one."""
    masks = {number: mask for delta in deltas for number, mask in delta.masks.items()}
    return Delta(masks, b"".join(delta.blocks for delta in deltas))


def _parts(delta: Delta) -> Iterator[Delta]:
    """A delta as several, each for as many pages as one call takes."""
    numbers, at = [*delta.masks], 0
    for first in range(0, len(numbers), _BATCH):
        masks = {number: delta.masks[number] for number in numbers[first : first + _BATCH]}
        end = at + sum(map(int.bit_count, masks.values())) * BLOCK
        yield Delta(masks, delta.blocks[at:end])
        at = end


class _Function:
    """A function of the module that takes a number of pages and gives a number, called by pointers."""

    def __init__(self, store: wasmtime.Store, function: wasmtime.Func) -> None:
        self._keep = store, function
        self._trap, self._slot = ctypes.c_void_p(), api.wasmtime_val_raw_t()
        context = ctypes.cast(store._context(), ctypes.c_void_p).value
        function_at, slot_at, trap_at = map(ctypes.addressof, (function._func, self._slot, self._trap))
        self._arguments = context, function_at, slot_at, 1, trap_at

    def __call__(self, count: int) -> int:
        self._slot.i32 = count
        call = _call_short if count <= _SHORT else _call
        if call(*self._arguments) or self._trap.value:
            raise RuntimeError("arithmetic on pages failed")  # it has no way to
        return int(self._slot.i32)


_CALL: Final[tuple[Any, ...]] = (*[ctypes.c_void_p] * 4, ctypes.c_size_t, ctypes.c_void_p)
_call: Final = ctypes.CFUNCTYPE(*_CALL)(("wasmtime_func_call_unchecked", _ffi.dll))
_call_short: Final = ctypes.PYFUNCTYPE(*_CALL)(("wasmtime_func_call_unchecked", _ffi.dll))
