"""A scan of JSON text before it is decoded: how many values it holds, how deep they nest, and where it can be cut.

Python's decoder holds the interpreter lock from the first byte to the last, and its values take up to twenty times the room of their
text. So long texts are scanned first, by a small WebAssembly module that runs without the lock. The scan also says where the text can
be cut into pieces that are each decoded in about a millisecond; see `jsontext`.

The scan does not judge whether the text is JSON: the decoder does, piece by piece.
"""

import ctypes
import threading
from functools import cache
from typing import Any, Final, NamedTuple

import wasmtime

PIECE_VALUES: Final = 4_000
"""Values in a piece."""
PIECE_BYTES: Final = 1 << 20
"""Bytes in a piece; a key is never cut, and may have four times as many."""
DEEPEST: Final = 700
_NEVER: Final = 1 << 40
_CHUNK: Final = 1 << 20
_MOST_CUTS: Final = 1024
_RECORD: Final = 12 + DEEPEST
_STACK: Final = 0
_CUTS: Final = 4096
_TEXT: Final = -(-(_CUTS + _MOST_CUTS * _RECORD) // 65536) * 65536
_PAGES: Final = (_TEXT + _CHUNK) // 65536 + 1

TOO_DEEP, TOO_MANY_CUTS, KEY_TOO_LONG, UNBALANCED = 1, 2, 3, 4

_MODULE: Final = f"""
(module
  (memory (export "memory") {_PAGES})
  (global $string (mut i32) (i32.const 0))   ;; 1 in a string, 2 in a key
  (global $escape (mut i32) (i32.const 0))   ;; 1 after a backslash, 2 to 5 before the digits of \\u
  (global $digits (mut i32) (i32.const 0))   ;; the first two of these digits
  (global $high (mut i32) (i32.const 0))     ;; the last escape was the first half of a surrogate pair
  (global $key (mut i32) (i32.const 0))      ;; the next string is a key
  (global $depth (mut i32) (i32.const 0))
  (global $deepest (mut i32) (i32.const 0))
  (global $values (mut i32) (i32.const 0))
  (global $containers (mut i32) (i32.const 0))
  (global $values_cut (mut i32) (i32.const 0))
  (global $cut (mut i32) (i32.const 0))      ;; where the piece begins
  (global $cuts (mut i32) (i32.const 0))
  (global $base (mut i32) (i32.const 0))     ;; where the chunk begins
  (func (export "deepest") (result i32) (global.get $deepest))
  (func (export "values") (result i32) (global.get $values))
  (func (export "containers") (result i32) (global.get $containers))
  (func (export "cuts") (result i32) (global.get $cuts))
  (func (export "reset")
    (global.set $string (i32.const 0)) (global.set $escape (i32.const 0)) (global.set $high (i32.const 0))
    (global.set $key (i32.const 0)) (global.set $depth (i32.const 0)) (global.set $deepest (i32.const 0))
    (global.set $values (i32.const 0)) (global.set $containers (i32.const 0)) (global.set $values_cut (i32.const 0))
    (global.set $cut (i32.const 0)) (global.set $cuts (i32.const 0)) (global.set $base (i32.const 0)))

  ;; Notes that the text can be cut at a place, in a string or at a comma. Gives a problem or 0.
  (func $note (param $place i32) (param $in_string i32) (result i32)
    (local $to i32)
    (if (i32.ge_u (global.get $cuts) (i32.const {_MOST_CUTS})) (then (return (i32.const {TOO_MANY_CUTS}))))
    (local.set $to (i32.add (i32.const {_CUTS}) (i32.mul (global.get $cuts) (i32.const {_RECORD}))))
    (i32.store (local.get $to) (local.get $place))
    (i32.store offset=4 (local.get $to) (local.get $in_string))
    (i32.store offset=8 (local.get $to) (global.get $depth))
    (memory.copy (i32.add (local.get $to) (i32.const 12)) (i32.const {_STACK}) (global.get $depth))
    (global.set $cuts (i32.add (global.get $cuts) (i32.const 1)))
    (global.set $cut (local.get $place))
    (global.set $values_cut (global.get $values))
    (i32.const 0))

  ;; The next chunk of the text, of this length. Gives a problem or 0.
  (func (export "scan") (param $length i32) (result i32)
    (local $at i32) (local $c i32) (local $place i32) (local $problem i32)
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $length)) (then
        (global.set $base (i32.add (global.get $base) (local.get $length)))
        (return (i32.const 0))))
      (local.set $c (i32.load8_u offset={_TEXT} (local.get $at)))
      (local.set $place (i32.add (global.get $base) (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (if (global.get $string) (then
        (if (global.get $escape) (then
          (if (i32.eq (global.get $escape) (i32.const 1)) (then
            (global.set $high (i32.const 0))
            (global.set $escape (select (i32.const 2) (i32.const 0) (i32.eq (local.get $c) (i32.const 117)))))
          (else
            (if (i32.eq (global.get $escape) (i32.const 2)) (then (global.set $digits (i32.or (local.get $c) (i32.const 32)))))
            (if (i32.eq (global.get $escape) (i32.const 3)) (then
              (global.set $digits (i32.or (i32.shl (global.get $digits) (i32.const 8)) (i32.or (local.get $c) (i32.const 32))))))
            (if (i32.eq (global.get $escape) (i32.const 5)) (then
              (global.set $escape (i32.const 0))
              ;; d8, d9, da, db; the digits 8 and 9 have the bit 32 by themselves
              (global.set $high (i32.and
                (i32.eq (i32.shr_u (global.get $digits) (i32.const 8)) (i32.const 100))
                (i32.or
                  (i32.or (i32.eq (i32.and (global.get $digits) (i32.const 255)) (i32.const 56))
                          (i32.eq (i32.and (global.get $digits) (i32.const 255)) (i32.const 57)))
                  (i32.or (i32.eq (i32.and (global.get $digits) (i32.const 255)) (i32.const 97))
                          (i32.eq (i32.and (global.get $digits) (i32.const 255)) (i32.const 98)))))))
            (else (global.set $escape (i32.add (global.get $escape) (i32.const 1)))))))
          (br $next)))
        (if (i32.eq (local.get $c) (i32.const 34)) (then
          (global.set $string (i32.const 0)) (global.set $high (i32.const 0))
          (br $next)))
        (if (i32.and (i32.ge_u (i32.sub (local.get $place) (global.get $cut)) (i32.const {PIECE_BYTES}))
                     (i32.and (i32.eqz (global.get $high))
                              (i32.ne (i32.and (local.get $c) (i32.const 192)) (i32.const 128)))) (then
          (if (i32.eq (global.get $string) (i32.const 2)) (then
            (if (i32.ge_u (i32.sub (local.get $place) (global.get $cut)) (i32.const {4 * PIECE_BYTES}))
              (then (return (i32.const {KEY_TOO_LONG})))))
          (else
            (if (i32.eqz (global.get $depth)) (then (br $next)))
            (local.set $problem (call $note (local.get $place) (i32.const 1)))
            (if (local.get $problem) (then (return (local.get $problem))))))))
        (if (i32.eq (local.get $c) (i32.const 92))
          (then (global.set $escape (i32.const 1)))
          (else (global.set $high (i32.const 0))))
        (br $next)))
      (if (i32.eq (local.get $c) (i32.const 34)) (then
        (global.set $string (i32.add (i32.const 1) (global.get $key)))
        (br $next)))
      (if (i32.eq (local.get $c) (i32.const 44)) (then
        (if (i32.eqz (global.get $depth)) (then (return (i32.const {UNBALANCED}))))
        (global.set $values (i32.add (global.get $values) (i32.const 1)))
        (global.set $key (i32.eq (i32.load8_u offset={_STACK} (i32.sub (global.get $depth) (i32.const 1))) (i32.const 123)))
        (if (i32.or (i32.ge_u (i32.sub (global.get $values) (global.get $values_cut)) (i32.const {PIECE_VALUES}))
                    (i32.ge_u (i32.sub (local.get $place) (global.get $cut)) (i32.const {PIECE_BYTES}))) (then
          (local.set $problem (call $note (local.get $place) (i32.const 0)))
          (if (local.get $problem) (then (return (local.get $problem))))))
        (br $next)))
      (if (i32.eq (local.get $c) (i32.const 58)) (then
        (global.set $values (i32.add (global.get $values) (i32.const 1)))
        (global.set $key (i32.const 0))
        (br $next)))
      ;; [ ] and {{ }} differ from each other by 2, and by the bit 32
      (if (i32.eq (i32.or (local.get $c) (i32.const 32)) (i32.const 123)) (then
        (if (i32.ge_u (global.get $depth) (i32.const {DEEPEST})) (then (return (i32.const {TOO_DEEP}))))
        (i32.store8 offset={_STACK} (global.get $depth) (local.get $c))
        (global.set $depth (i32.add (global.get $depth) (i32.const 1)))
        (if (i32.gt_u (global.get $depth) (global.get $deepest)) (then (global.set $deepest (global.get $depth))))
        (global.set $values (i32.add (global.get $values) (i32.const 1)))
        (global.set $containers (i32.add (global.get $containers) (i32.const 1)))
        (global.set $key (i32.eq (local.get $c) (i32.const 123)))
        (br $next)))
      (if (i32.eq (i32.or (local.get $c) (i32.const 32)) (i32.const 125)) (then
        (if (i32.eqz (global.get $depth)) (then (return (i32.const {UNBALANCED}))))
        (global.set $depth (i32.sub (global.get $depth) (i32.const 1)))
        (global.set $key (i32.const 0))))
      (br $next))
    (unreachable)))
"""  # noqa: S608 - WebAssembly, in which "select" and "from" mean something else


class Cut(NamedTuple):
    """A place where a text can be cut: before a character of a string, or at a comma. `open` are the brackets around it."""

    place: int
    in_string: bool
    open: bytes


class Scan(NamedTuple):
    """The size of a JSON text. `problem` is 0, or why the scan was given up; `values` counts keys as well."""

    problem: int
    values: int
    containers: int
    depth: int
    cuts: list[Cut]


class _Scanner:
    """One instance of the module."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module) -> None:
        self._store = wasmtime.Store(engine)
        exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        memory = exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        self._functions: Any = exports
        self._base = ctypes.addressof(memory.data_ptr(self._store).contents)

    def _number(self, name: str, *arguments: int) -> int:
        return int(self._functions[name](self._store, *arguments) or 0)

    def scan(self, text: bytes, most_values: int, most_containers: int) -> Scan:
        self._number("reset")
        problem = values = containers = 0
        for start in range(0, len(text), _CHUNK):
            chunk = text[start : start + _CHUNK]
            ctypes.memmove(self._base + _TEXT, chunk, len(chunk))
            problem = self._number("scan", len(chunk))
            values, containers = self._number("values"), self._number("containers")
            if problem or values > most_values or containers > most_containers:
                break
        return Scan(problem, values, containers, self._number("deepest"), self._cuts())

    def _cuts(self) -> list[Cut]:
        count = self._number("cuts")
        raw = ctypes.string_at(self._base + _CUTS, count * _RECORD)
        found = []
        for at in range(0, len(raw), _RECORD):
            place, in_string, depth = (int.from_bytes(raw[at + n : at + n + 4], "little") for n in (0, 4, 8))
            found.append(Cut(place, bool(in_string), raw[at + 12 : at + 12 + depth]))
        return found


class _Scanners:
    """Instances that no thread uses now; as many as threads have scanned at once."""

    def __init__(self) -> None:
        self._engine = wasmtime.Engine()
        self._module = wasmtime.Module(self._engine, _MODULE)
        self._spare: list[_Scanner] = []
        self._making = threading.Lock()

    def scan(self, text: bytes, most_values: int, most_containers: int) -> Scan:
        try:
            scanner = self._spare.pop()
        except IndexError:
            with self._making:
                scanner = _Scanner(self._engine, self._module)
        found = scanner.scan(text, most_values, most_containers)
        self._spare.append(scanner)
        return found


@cache
def _scanners() -> _Scanners:
    return _Scanners()


def scan(text: bytes, most_values: int, most_containers: int) -> Scan:
    """The size of a JSON text, and where it can be cut. It is given up as soon as there are more values than these."""
    return _scanners().scan(text, most_values, most_containers)
