"""Guests that are made to harm their host. Run as a program, in a process of its own: it ends with 0 if all was survived.

`python tampered_guests.py modules|memory|images [seconds] [seed]`
"""

import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle

import wasmtime

from holdfast.domain import HoldfastError, Limits
from holdfast.sandbox import LANGUAGES, Engine, Evaluate, Finished, Guest, Host, Image, Label, Paused, Resume, Sandbox, Template
from holdfast.sandbox._delta import Delta
from holdfast.sandbox.image import Kind, _Head

KEY = b"a key of 32 bytes for the tests."
LIMITS = Limits(wall_ms=500, cpu_ms=400, mem_mb=32)
SIZE = 2 * 65536
END = SIZE - 4
FAR = (0, 1, END, SIZE - 1, SIZE, SIZE + 1, 0x7FFFFFFF, 0x80000000, 0xFFFF0000, 0xFFFFFFFF)

_CONTROL = struct.Struct("<7I4x2Q")


def module(
    step: str = "(i64.const 0)",
    *,
    control: bytes | None = None,
    control_at: int = 1024,
    buffer: str = "(i32.const 2048)",
    start: str = "",
    more: str = "",
) -> bytes:
    """A guest with these parts."""
    block = _CONTROL.pack(1, 2048, 4096, 8192, 4096, 0, 0, 0, 0) if control is None else control
    data = "".join(f"\\{byte:02x}" for byte in block)
    text = f"""(module
      (import "holdfast" "call" (func $call (param i32 i32 i32 i32 i32) (result i32)))
      (import "holdfast" "take" (func $take (param i32 i32)))
      (memory (export "memory") 2)
      (table 1 funcref)
      (data (i32.const 1024) "{data}")
      (data (i32.const 16384) "[\\22f\\22,[]]")
      (data (i32.const 20480) "[\\22value\\22,\\22number\\22,\\221\\22,1]")
      (func (export "_initialize") {start})
      (func (export "hf_boot"))
      (func (export "hf_control") (result i32) (i32.const {control_at}))
      (func (export "hf_input") (param i32) (result i32) {buffer})
      (func (export "hf_step") (param i32) (result i64) {step})
      {more})"""
    return bytes(wasmtime.wat2wasm(text))


_VALUE = b'["value","number","1",1]'
FINE = f"(i64.const {20480 << 32 | len(_VALUE)})"


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def i32(number: int) -> str:
    return f"(i32.const {number - (1 << 32) if number >> 31 else number})"


def calls() -> Iterator[tuple[str, bytes]]:
    """Host calls with every combination of pointers and lengths."""
    for at in FAR:
        for length in (0, 9, 0x7FFFFFFF, 0xFFFFFFFF, SIZE):
            yield f"call request {at:x} {length:x}", module(_call(99, at, length, 4096, 512) + FINE)
            yield f"call reply {at:x} {length:x}", module(_call(99, 16384, 9, at, length) + FINE)
            yield f"take {at:x} {length:x}", module(f"(call $take {i32(at)} {i32(length)})" + FINE)
            yield (
                f"call, take {at:x} {length:x}",
                module(_call(99, 16384, 9, 0, 0) + f"(call $take {i32(at)} {i32(length)})" + FINE),
            )
    for operation in (0, -1, 99, 114, 108, 1 << 20, 0x110000, 0x7FFFFFFF):
        yield f"operation {operation:x}", module(_call(operation & 0xFFFFFFFF, 16384, 9, 4096, 512) + FINE)


def _call(operation: int, request: int, length: int, reply: int, capacity: int) -> str:
    return f"(drop (call $call {i32(operation)} {i32(request)} {i32(length)} {i32(reply)} {i32(capacity)}))"


def requests() -> Iterator[tuple[str, bytes]]:
    """Host calls whose text is wrong."""
    for text in (b"", b"[", b"[]", b"{}", b"[1]", b'["f"]', b'["f",1]', b'["f",[],1]', b'["f",[{"$":1}]]', b'["f",[{"$":"map","v":1}]]',
                 b'["f",[{"$":"bytes","v":"?"}]]', b'["f",[{"$":"date"}]]', b'["f",[{"$":[]}]]', b'["f",[' + b"[" * 5000, b"\xff\xfe",
                 b'["f",[{"$":"error","v":{}}]]', b'["f",[1e999999]]', b'["f",[' + b"9" * 9000 + b"]]", b'["g",[]]'):  # fmt: skip
        data = "".join(f"\\{byte:02x}" for byte in text)
        for operation in b"crl":
            step = _call(operation, 32768, len(text), 4096, 512) + FINE
            yield f"text {text[:20]!r}", module(step, more=f'(data (i32.const 32768) "{data}")')


def results() -> Iterator[tuple[str, bytes]]:
    """Results of a step that point elsewhere, or are no records."""
    for at in FAR:
        for length in (0, 5, SIZE, 0xFFFFFFFF):
            yield f"result {at:x} {length:x}", module(f"(i64.const {_signed(at << 32 | length)})")
    for text in (b"1", b"[]", b"[[]]", b"[1]", b'["value"]', b'["value",1,2]', b'["value","a","b",1,2]', b'["error",1]', b'["error",{}]',
                 b'["error",{"name":1,"message":[]}]', b'["pending"]', b'["pending",1,2]', b'["pending","x",[]]', b'["pending",null,["x"]]',
                 b'["pending",1e999,[]]', b'["pending",NaN,[]]', b'["pending",1e300,[]]', b'["refused"]', b'["refused",{},[]]', b'["what"]',
                 b'["console",1,2],["value","a","b"]', b'["query",-1,"llm",{}],["pending",null,[1]]', b'["query","x","llm",{}],["pending",null,[1]]',
                 b'["query",1,2,{}],["pending",null,[1]]', b'["query",' + b"9" * 30 + b',"llm",{}],["pending",null,[1]]', b'["cancelled",[]],["value","a","b"]',
                 b'["unhandled",1],["value","a","b"]', b'["log"],["value","a","b"]', b'["value","a","b",{"$":"x"}]', b'["value","a","b"]]', b"\xff",
                 b'["value","a","b",' + b"[" * 3000 + b"]" * 3000 + b"]"):  # fmt: skip
        data = "".join(f"\\{byte:02x}" for byte in text)
        yield (
            f"records {text[:30]!r}",
            module(f"(i64.const {32768 << 32 | len(text)})", more=f'(data (i32.const 32768) "{data}")'),
        )


def controls() -> Iterator[tuple[str, bytes]]:
    """Control blocks that are elsewhere, or name what is."""
    for at in FAR:
        yield f"control at {at:x}", module(control_at=at - (1 << 32) if at >> 31 else at)
        for capacity in (0, 40, SIZE, 0xFFFFFFFF):
            yield f"input {at:x} {capacity:x}", module(FINE, control=_CONTROL.pack(1, at, capacity, 8192, 4096, 0, 0, 0, 0))
            yield f"output {at:x} {capacity:x}", module(FINE, control=_CONTROL.pack(1, 2048, 4096, at, capacity, 0, 0, 0, 0))
            block = _CONTROL.pack(1, 2048, 4096, at, 4096, capacity, 77, 1 << 63, 1 << 63)
            yield f"dead output {at:x} {capacity:x}", module("unreachable", control=block)
            small = _CONTROL.pack(1, 2048, 0, 8192, 4096, 0, 0, 0, 0)
            yield f"hf_input {at:x}", module(FINE, control=small, buffer=i32(at))


def shapes() -> Iterator[tuple[str, bytes]]:
    """Modules that are no guests, and guests that never end or take all they can."""
    fine = module(FINE)
    yield "start loops", module(FINE, start="(loop $l (br $l))") if "slow" in sys.argv else fine
    yield "step loops", module("(loop $l (br $l)) (i64.const 0)")
    yield "tables grow", module("(drop (table.grow (ref.null func) (i32.const 2000000000)))" + FINE)
    yield "memory grows", module("(drop (memory.grow (i32.const 65000)))" + FINE)
    yield "recursion", module("(drop (call $r))" + FINE, more="(func $r (result i64) (call $r))")
    wrong = {
        "hf_step": "(param i32 i32 i32 i64) (result i64 i64 i64)",
        "hf_control": "(param i64 i64) (result i32)",
        "hf_input": "(result i64 i64)",
        "hf_boot": "(param i32)",
        "_initialize": "(result i64 i64 i64)",
    }
    for broken, signature in wrong.items():
        functions = {
            "hf_step": "(param i32) (result i64)",
            "hf_control": "(result i32)",
            "hf_input": "(param i32) (result i32)",
        }
        functions |= {"hf_boot": "", "_initialize": "", broken: signature}
        body = "".join(f'(func (export "{name}") {kind} unreachable)' for name, kind in functions.items())
        yield f"type of {broken}", bytes(wasmtime.wat2wasm(f'(module (memory (export "memory") 1) {body})'))
    for kind in (
        "(func)",
        "(func (param i64))",
        "(func (param i32 i32 i32 i32 i32 i32) (result i32 i32))",
        "(memory 1)",
        "(global i32)",
    ):
        for name in ("call", "take", "other"):
            text = f'(module (import "holdfast" "{name}" {kind}))'
            yield f"import {name} {kind}", bytes(wasmtime.wat2wasm(text))
    yield "no memory", bytes(wasmtime.wat2wasm("(module)"))
    yield "no module", b"\0asm" + bytes(40)


def modules(seconds: float, seed: int) -> None:
    """Every handcrafted guest, in both ways of crossing."""
    engines = [Engine(cache=None, unchecked=unchecked) for unchecked in (True, False)]
    host = Host({"f": lambda *arguments: "x" * 600, "g": lambda: None})
    count = survived = 0
    for (name, wasm), engine in zip([*calls(), *requests(), *results(), *controls(), *shapes()], cycle(engines), strict=False):
        count += 1
        try:
            guest = Guest(engine, "javascript", wasm)
            template = Template(guest, _content(guest))
            for source in ("1", "x" * 8000):
                with template.create(limits=LIMITS, host=host, seed=1) as sandbox:
                    outcome = sandbox.step(Evaluate(source), now=0.0)
                    if not sandbox.closed:
                        sandbox.freeze().seal(KEY)
                    survived += isinstance(outcome, Finished)
        except HoldfastError:
            pass
        except BaseException as error:
            raise AssertionError(f"{name}: {error!r}") from error
    print(f"{count} modules, {survived} steps of which ended well")


def _content(guest: Guest) -> bytes:
    with Sandbox(guest, guest.start(32 << 20), LIMITS, Host(), None, None, None) as fresh:
        return fresh.content()


def _paused(template: Template, language: str) -> Sandbox:
    asking = {
        "javascript": "const o = {a: [1, 2, {b: 'text'}]}; [await hf.llm('q'), o]",
        "lua": "local o = {a = {1, 2, {b = 'text'}}} local x = alc.llm('q') return {x, o}",
    }
    sandbox = template.create(limits=LIMITS, seed=1)
    assert isinstance(sandbox.step(Evaluate(asking[language]), now=0.0), Paused)
    return sandbox


def memory(seconds: float, seed: int) -> None:
    """Real guests whose memory is overwritten at random, then goes on."""
    draw = random.Random(seed)
    until = time.monotonic() + seconds
    rounds = 0
    with Engine() as engine:
        templates = {language: engine.guest(language).template() for language in LANGUAGES}
        while time.monotonic() < until:
            language = draw.choice(LANGUAGES)
            template = templates[language]
            with _paused(template, language) as sandbox:
                image = sandbox.freeze()
            pages = dict(image.pages)
            control = template.guest.control_at
            for _ in range(draw.choice((1, 3, 30, 300))):
                number = draw.choice((control // 4096, draw.choice(list(pages)), draw.randrange(image.size // 4096)))
                page = bytearray(image.page(number) if number not in pages else pages[number])
                at = (
                    control % 4096 + draw.randrange(48)
                    if number == control // 4096 and draw.random() < 0.7
                    else draw.randrange(4096)
                )
                page[at : at + 4] = draw.choice((struct.pack("<I", draw.choice(FAR)), draw.randbytes(4), b"\xff" * 4))
                pages[number] = bytes(page[:4096])
            rounds += 1
            _go_on(template, Image(template, image.size, pages, Label()))
    print(f"{rounds} tampered memories")


def _go_on(template: Template, image: Image) -> None:
    host = Host({"f": lambda *arguments: "x" * 600})
    try:
        with template.thaw(image, limits=LIMITS, host=host) as sandbox:
            sandbox.step(Resume({1: "answer" * 500}), now=1.0)
            sandbox.step(Evaluate("1"), now=2.0)
            sandbox.freeze().seal(KEY)
    except HoldfastError:
        pass


def images(seconds: float, seed: int) -> None:
    """Sealed images with a right MAC and wrong content: page numbers, sizes, kinds, chains."""
    draw = random.Random(seed)
    until = time.monotonic() + seconds
    rounds = opened = 0
    with Engine() as engine:
        template = engine.guest("lua").template()
        with _paused(template, "lua") as sandbox:
            first = sandbox.freeze()
            sandbox.step(Resume({1: "a"}), now=1.0)
            second = sandbox.freeze()
        real = [first.seal(KEY), first.seal(KEY, template), second.seal(KEY, first)]
        heads: list[Callable[[], bytes]] = [lambda: _crafted(draw, template, first), lambda: _mutated(draw, draw.choice(real))]
        while time.monotonic() < until:
            rounds += 1
            try:
                image = template.open(draw.choice(heads)(), KEY, draw.choice((None, first, second)), largest=64 << 20)
            except HoldfastError:
                continue
            opened += 1
            _go_on(template, image)
    print(f"{rounds} sealed images, {opened} of which were opened")


def _crafted(draw: random.Random, template: Template, first: Image) -> bytes:
    size = draw.choice((first.size, first.size + 65536, len(template.content), 0, 65536, 1 << 30, 0xFFFF0000))
    last = draw.choice((size // 4096, size // 4096 - 1, 1, 1 << 31, 5))
    numbers = sorted({draw.randrange(max(1, last + 1)) for _ in range(draw.choice((0, 1, 5, 40)))})
    masks = {number: draw.choice((0, 1, 0xFFFF, draw.randrange(1 << 16))) for number in numbers}
    length = 256 * sum(map(int.bit_count, masks.values())) + draw.choice((0, 0, 0, 256, -1))
    blocks = draw.randbytes(max(0, length))
    kind = draw.choice(tuple(Kind))
    token = draw.choice((first.token, bytes(8)))
    guest = draw.choice((template.guest.digest[:16], template.guest.digest[:16], bytes(16)))
    return _Head(kind, guest, template.digest[:16], Label(), Label(), bytes(8), token, size).seal(Delta(masks, blocks), KEY)


def _mutated(draw: random.Random, sealed: bytes) -> bytes:
    from holdfast.sandbox.image import _mac

    body = bytearray(sealed[:-16])
    for _ in range(draw.choice((1, 2, 8))):
        at = draw.choice((draw.randrange(128), draw.randrange(len(body))))
        body[at] = draw.randrange(256)
    return bytes(body) + _mac(bytes(body), KEY)


if __name__ == "__main__":
    which, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    {"modules": modules, "memory": memory, "images": images}[which](seconds, seed)
