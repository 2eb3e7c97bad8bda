"""Templates: a guest's memory after boot, libraries and startup files, from which sandboxes are made in a fraction of a millisecond.

The same guest and sources always give the same bytes, so a template is known by the digest of its content in every process, and is
kept on disk by the digest of what it was made from.
"""

import ctypes
import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import wasmtime
import zstandard

from holdfast.domain import Limits
from holdfast.sandbox._crossing import WASM_PAGE, Instance, Trapped
from holdfast.sandbox._errors import (
    GuestUnavailable,
    ImageDamaged,
    ImageForeign,
    ImageTooLarge,
    LibraryLoadFailed,
    TemplateFailed,
)
from holdfast.sandbox._pages import PAGE, MemoryFile, filled_runs, page_of
from holdfast.sandbox.host import Host, Loader
from holdfast.sandbox.image import LARGEST, Image, Label, open_image
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.steps import Breached, Evaluate, Failed, Outcome, Paused, RunFile, Seal

if TYPE_CHECKING:
    from holdfast.sandbox.guest import Guest

_MEGABYTE: Final = 1 << 20
_NO_HOST: Final = Host()


class Source(NamedTuple):
    """A file that becomes part of a template. One that must be `pure` reaches for modules of the template only, and says nothing."""

    filename: str
    text: str
    pure: bool = False


class Template:
    """A baked memory. `digest` is that of its content, which any process gets from the same guest and sources."""

    def __init__(self, guest: "Guest", content: bytes) -> None:
        if not content or len(content) % WASM_PAGE or len(content) > LARGEST:
            raise ImageDamaged("the content of the template is no memory")
        self.guest, self.content = guest, content
        self.digest = hashlib.sha256(content).digest()
        self._file = MemoryFile(len(content), _runs(content)) if guest.engine.page_map else None

    def create(
        self, *, limits: Limits | None = None, host: Host | None = None, seed: int | None = None, zone: str | None = None
    ) -> Sandbox:
        """A new sandbox. Without a seed it draws one, so that no two sandboxes have the same random numbers."""
        limits = limits or Limits()
        image = Image(self, len(self.content), {}, Label())
        drawn = secrets.randbits(64) if seed is None else seed
        return Sandbox(self.guest, self._instance(image.size, limits), limits, host or _NO_HOST, image, drawn, zone)

    def thaw(self, image: Image, *, limits: Limits | None = None, host: Host | None = None, seed: int | None = None) -> Sandbox:
        """The sandbox of an image, at the place where it was frozen. With a seed its random numbers start anew."""
        if image.template is not self:
            raise ImageForeign("this image belongs to another template")
        limits = limits or Limits()
        instance = self._instance(image.size, limits)
        base = instance.base
        for number, page in image.pages.items():
            ctypes.memmove(base + number * PAGE, page, PAGE)
        return Sandbox(self.guest, instance, limits, host or _NO_HOST, image, seed, None)

    def fork(self, image: Image, *, limits: Limits | None = None, host: Host | None = None) -> Sandbox:
        """Like `thaw`, with random numbers of its own: one of several that go on from the same place."""
        return self.thaw(image, limits=limits, host=host, seed=secrets.randbits(64))

    def open(self, sealed: bytes, key: bytes, parent: Image | None = None, *, largest: int = LARGEST) -> Image:
        """The image in sealed bytes. A delta needs the image it was sealed against."""
        return open_image(sealed, key, self, parent, largest=largest)

    def _instance(self, size: int, limits: Limits) -> Instance:
        if size > limits.mem_mb * _MEGABYTE:
            raise ImageTooLarge(f"the image needs {size // _MEGABYTE} MB of memory; {limits.mem_mb} MB are allowed")
        try:
            instance = self.guest.crossing.instantiate(limits.mem_mb * _MEGABYTE)
        except (Trapped, wasmtime.WasmtimeError):
            raise GuestUnavailable("the guest does not start") from None
        if not instance.grow_to(size):
            instance.close()
            raise ImageTooLarge("there is not enough memory for the image")
        if self._file is not None:
            self._file.map_over(instance.base)
        else:
            ctypes.memmove(instance.base, self.content, len(self.content))
        return instance


def _runs(content: bytes) -> Iterator[tuple[int, bytes]]:
    for first, count in filled_runs(len(content) // PAGE, partial(page_of, content)):
        yield first * PAGE, content[first * PAGE : (first + count) * PAGE]


def build_template(
    guest: "Guest",
    libraries: tuple[Source, ...],
    startup: tuple[Source, ...],
    limits: Limits,
    modules: Loader | None,
    inputs: Sequence[Any],
) -> Template:
    """Takes a template from the cache, or bakes and keeps it. `inputs` tell its modules from others."""
    name = hashlib.sha256(json.dumps([guest.digest.hex(), libraries, startup, inputs]).encode()).hexdigest()
    cache = guest.engine.templates
    kept = cache.read(name)
    if kept is not None:
        return Template(guest, zstandard.ZstdDecompressor().decompress(kept, max_output_size=LARGEST))
    content = _bake(guest, libraries, startup, limits, modules)
    cache.write(name, zstandard.ZstdCompressor(level=3).compress(content))
    return Template(guest, content)


def _bake(
    guest: "Guest", libraries: tuple[Source, ...], startup: tuple[Source, ...], limits: Limits, modules: Loader | None
) -> bytes:
    """Runs the sources in a fresh guest, with the clock at zero, and takes its memory. Startup files have modules, and no functions."""
    with Sandbox(guest, guest.start(limits.mem_mb * _MEGABYTE), limits, _NO_HOST, None, 0, None) as sandbox:
        for source in libraries:
            problem = _problem(source, sandbox.step(Evaluate(source.text, source.filename), now=0.0))
            if problem:
                raise LibraryLoadFailed(problem)
        for number, source in enumerate(startup):
            sandbox.host = (_Closed if source.pure else Host)(modules=modules)
            try:
                problem = _problem(source, sandbox.step(RunFile(source.text, source.filename), now=0.0))
            except _Reached:
                problem = f"{source.filename} reaches for something that a template does not have"
            if problem:
                raise TemplateFailed(problem, startup=number)
        sandbox.host = _NO_HOST
        sandbox.step(Seal(), now=0.0)
        return sandbox.content()


def _problem(source: Source, outcome: Outcome) -> str:
    """Why a source cannot be part of a template. Empty: it can."""
    if isinstance(outcome, Failed):
        return f"{source.filename}: {outcome.error.name}: {outcome.error.message}"
    if isinstance(outcome, Paused):
        return f"{source.filename} waits for an answer, which a template cannot have"
    if isinstance(outcome, Breached):
        return f"{source.filename}: {outcome.breach}"
    if source.pure and outcome.events:
        return f"{source.filename} says something, which nobody would hear"
    return ""


class _Reached(Exception):
    """A source asked for what is not there, and must not go on with another answer than it will get in a session."""


class _Closed(Host):
    """Offers modules, and stops whoever asks for anything else."""

    def answer(self, operation: int, request: bytes, now: float) -> tuple[bytes, float]:
        reply = self._answer(operation, request)
        if reply[:1] == b"e":
            raise _Reached
        return reply, now
