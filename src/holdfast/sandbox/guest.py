"""Guests: language runtimes compiled to WebAssembly, and the engine that runs them."""

import ctypes
import hashlib
import os
import platform
import struct
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import wasmtime
from wasmtime import _bindings as bindings
from wasmtime import _ffi

from holdfast.domain import Limits
from holdfast.sandbox._cache import Cache, default_directory
from holdfast.sandbox._crossing import Crossing, Instance, Running, Trapped
from holdfast.sandbox._errors import GuestFault, GuestUnavailable
from holdfast.sandbox._pages import PageMap, can_map
from holdfast.sandbox._public import Public
from holdfast.sandbox._stack import NATIVE_STACK
from holdfast.sandbox._ticker import Ticker
from holdfast.sandbox._unchecked import Unchecked
from holdfast.sandbox._xor import Xor
from holdfast.sandbox.host import Loader
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.template import Source, Template, build_template

Language = Literal["javascript", "lua"]
LANGUAGES: Final[tuple[Language, ...]] = ("javascript", "lua")
ABI_VERSION: Final = 1


class Control(NamedTuple):
    """The block of a guest's memory that says where its buffers are and which limit was exceeded; see guests/common/step.c."""

    abi: int
    input: int
    input_capacity: int
    output: int
    output_capacity: int
    output_length: int
    breach: int
    breach_allowed: int
    breach_actual: int


_SMALL: Final = 16 << 20
_CONTROL: Final = struct.Struct("<7I4x2Q")


class Engine:
    """Compiles guests and runs them, with one clock for all. Close it when no sandbox of it is in use.

    `cache` is where compiled guests and templates are kept; `None` keeps nothing. `mapped` and `unchecked` are the fast ways, which
    are used where the system has them; the portable ways do the same, as does `native_ticks` for the clock.
    """

    def __init__(
        self,
        cache: Path | Literal["default"] | None = "default",
        *,
        mapped: bool | None = None,
        unchecked: bool = True,
        native_ticks: bool = True,
    ) -> None:
        config = wasmtime.Config()
        config.epoch_interruption = True
        config.wasm_exceptions = True
        # Nothing runs on stacks for async calls here, but wasmtime insists that they are the larger ones.
        bindings.wasmtime_config_async_stack_size_set(config.ptr(), NATIVE_STACK)
        config.max_wasm_stack = NATIVE_STACK
        self.wasm = wasmtime.Engine(config)
        self.ticker = Ticker(self.wasm, native=native_ticks)
        self.running = Running()
        self.unchecked = unchecked
        self.page_map = PageMap() if (can_map() if mapped is None else mapped) else None
        directory = default_directory() if cache == "default" else cache
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_after_fork, weakref.ref(self)))
        self.modules = Cache(directory, "modules")
        self.templates = Cache(directory, "templates")

    @cached_property
    def xor(self) -> Xor:
        """XOR of long byte strings; made when it is first needed."""
        return Xor(self.wasm)

    def guest(self, language: Language) -> "Guest":
        """The guest of a language, as this version of Holdfast has it."""
        if language not in LANGUAGES:
            raise GuestUnavailable(f"there is no guest for {language!r}; there are {' and '.join(LANGUAGES)}")
        file = Path(__file__).parent / "guests" / f"{language}.wasm"
        try:
            wasm = file.read_bytes()
        except FileNotFoundError:
            raise GuestUnavailable(f"the {language} guest is not built; install Holdfast from a wheel, or run make") from None
        return Guest(self, language, wasm)

    def close(self) -> None:
        """Cancels the steps that run, and stops the clock: no sandbox of this engine runs after that."""
        self.ticker.close()
        for step in self.ticker.running():
            if isinstance(step, Sandbox):
                step.cancel()

    def forked(self) -> None:
        """In a child process: locks and timers of the parent are of no use."""
        self.ticker.forked()
        self.__dict__.pop("xor", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _after_fork(engine: "weakref.ref[Engine]") -> None:
    alive = engine()
    if alive is not None:
        alive.forked()


class Guest:
    """A language runtime, compiled. An older Holdfast's guest can be used by its bytes, so old images still thaw."""

    def __init__(self, engine: Engine, language: Language, wasm: bytes) -> None:
        self.engine, self.language, self.wasm = engine, language, wasm
        self.digest = hashlib.sha256(wasm).digest()
        module = _compiled(engine, self.digest, wasm)
        _check_types(module)
        make: type[Unchecked] | type[Public] = Unchecked if engine.unchecked else Public
        try:
            self.crossing: Crossing = make(engine.wasm, module, engine.running)
        except wasmtime.WasmtimeError:
            raise GuestUnavailable("the module imports what this Holdfast does not offer") from None
        self.control_at = self._locate()

    def start(self, memory: int) -> Instance:
        """A fresh instance, booted: the runtime is initialised and its prelude has run."""
        with self._ticking():
            instance = self._instance(memory)
            try:
                instance.call("_initialize")
                instance.call("hf_boot")
            except Trapped:
                instance.close()
                raise GuestUnavailable("the guest does not start") from None
            return instance

    def _instance(self, memory: int) -> Instance:
        try:
            return self.crossing.instantiate(memory)
        except (Trapped, wasmtime.WasmtimeError):
            raise GuestUnavailable("the guest does not start") from None

    @contextmanager
    def _ticking(self) -> Iterator[None]:
        """Lets time pass for what runs in no step, so that it has an end."""
        running = object()
        self.engine.ticker.begin(running)
        try:
            yield
        finally:
            self.engine.ticker.end(running)

    def _locate(self) -> int:
        """The address of the control block, which is the same in every instance."""
        with self._ticking():
            instance = self._instance(_SMALL)
            try:
                self.control_at = instance.call("hf_control")
                if self.control(instance).abi != ABI_VERSION:
                    raise GuestUnavailable("the guest speaks another version of the ABI")
                return self.control_at
            except (Trapped, GuestFault):
                raise GuestUnavailable("the guest has no control block") from None
            finally:
                instance.close()

    def control(self, instance: Instance) -> Control:
        """Where an instance's buffers are now. `GuestFault` if the block itself is not in its memory."""
        if self.control_at + _CONTROL.size > instance.size():
            raise GuestFault("the guest refers to what is not its memory")
        return Control._make(_CONTROL.unpack(ctypes.string_at(instance.base + self.control_at, _CONTROL.size)))

    def template(
        self,
        libraries: Sequence[Source] = (),
        startup: Sequence[Source] = (),
        *,
        limits: Limits | None = None,
        modules: Loader | None = None,
        inputs: Sequence[Any] = (),
    ) -> Template:
        """A template: this guest after these libraries and startup files have run. Made once, then kept by digest.

        Startup files may load `modules`; `inputs` is what those are made from, as JSON.
        """
        return build_template(self, tuple(libraries), tuple(startup), limits or Limits(), modules, inputs)


_I32, _I64 = "i32", "i64"
_EXPORTS: Final[dict[str, tuple[list[str], list[str]]]] = {
    "hf_control": ([], [_I32]),
    "hf_boot": ([], []),
    "hf_input": ([_I32], [_I32]),
    "hf_step": ([_I32], [_I64]),
    "_initialize": ([], []),
}
_IMPORTS: Final[dict[str, tuple[list[str], list[str]]]] = {"call": ([_I32] * 5, [_I32]), "take": ([_I32] * 2, [])}


def _check_types(module: wasmtime.Module) -> None:
    """Refuses a module whose functions are not those of the ABI: they are called by pointers, which checks nothing."""
    exports = {one.name: one.type for one in module.exports}
    found: list[tuple[Any, Any]] = [(exports.get(name), expected) for name, expected in _EXPORTS.items()]
    found += [(one.type, _IMPORTS.get(one.name or "") if one.module == "holdfast" else None) for one in module.imports]
    for kind, expected in found:
        if not isinstance(kind, wasmtime.FuncType) or (list(map(str, kind.params)), list(map(str, kind.results))) != expected:
            raise GuestUnavailable("the module's functions are not those of a guest")
    memory = exports.get("memory")
    if not isinstance(memory, wasmtime.MemoryType) or memory.is_64 or memory.is_shared:
        raise GuestUnavailable("the module's memory is not that of a guest")


def _compiled(engine: Engine, digest: bytes, wasm: bytes) -> wasmtime.Module:
    # The engine itself refuses what another version of it has compiled; the name only keeps two of them from writing over each other.
    build = os.stat(_ffi.dll._name).st_size
    name = f"{digest.hex()}-{build}-{platform.machine()}.cwasm"
    kept = engine.modules.read(name)
    if kept is not None:
        try:
            return wasmtime.Module.deserialize(engine.wasm, kept)
        except wasmtime.WasmtimeError:
            pass  # compiled with other settings
    try:
        module = wasmtime.Module(engine.wasm, wasm)
    except wasmtime.WasmtimeError:
        raise GuestUnavailable("the module is not valid WebAssembly") from None
    engine.modules.write(name, bytes(module.serialize()))
    return module
